"""Training for Hugging Face's interface, where this package's trainer learns what the trainer of `tokenizers` learns.

Both learn the same for a byte-level pretokenizer and a `BpeTrainer` with the whole byte alphabet, without limits of the
alphabet or of tokens, prefixes and suffixes. `tokenizers` trains everything else (`huggingface.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from bpe.compat.document import FLAGS, AddedTokenEntry, ModelJson, dump_compact
from bpe.compat.state import State
from bpe.corpus.sources import Sources
from bpe.count.counting import count_words
from bpe.errors import FormatError
from bpe.formats.huggingface.steps import read_normalizer, read_pre_tokenizer
from bpe.text.letters import list_byte_letters, spell_token_in_letters
from bpe.training.config import Alphabet
from bpe.training.train import train

#: Fields of a `BpeTrainer`, with the values that this trainer covers.
_COVERED_VALUES: dict[str, Any] = {
    "limit_alphabet": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "max_token_length": None,
    "words": {},
}  # fmt: skip
_KNOWN_FIELDS = {
    *_COVERED_VALUES, "min_frequency", "vocab_size", "show_progress", "progress_format", "special_tokens",
    "initial_alphabet",
}  # fmt: skip


def train_natively(state: State, trainer: Any, **corpus: Any) -> State | None:
    """Train, and return the state afterwards; None where `tokenizers` has to train.

    Nothing of the corpus is read then, unless it has no words.

    Args:
        state: the state before training.
        trainer: a trainer of `tokenizers`.
        corpus: `files`, whose lines are the texts, or `texts`, as for `bpe.train`.

    """
    settings = _read_settings(trainer)
    if settings is None or state.core.pre_tokenizer is None:
        return None
    try:
        normalizer = None if state.core.normalizer is None else read_normalizer(state.core.normalizer)
        is_byte_level, pretokenizer = read_pre_tokenizer(state.core.pre_tokenizer, normalizer)
    except FormatError:
        return None
    special_tokens: list[dict[str, Any]] = settings["special_tokens"]
    names = [token["content"] for token in special_tokens]
    vocab_size = settings["vocab_size"] - len(names)
    if not is_byte_level or len(set(names)) < len(names) or vocab_size < len(list_byte_letters()):
        return None
    if state.core.added_tokens:
        return None  # `tokenizers` takes those that it finds in the corpus as words, and learns merges of their text
    if pretokenizer is None or any(len(pretokenizer.split(name)) < 2 for name in names):
        return None  # merges might make the name of a special token, which would then have the id of the merge result
    if "files" in corpus:
        corpus["files"] = Sources(corpus["files"], per_line=True)
    counts = count_words(**corpus, pretokenizer=pretokenizer, normalizer=normalizer)
    if not len(counts):
        return None  # `tokenizers` learns nothing from an empty corpus, where this package's trainer refuses it
    trained_tokenizer = train(
        counts=counts,
        vocab_size=vocab_size,
        pretokenizer=pretokenizer,
        normalizer=normalizer,
        alphabet=Alphabet(sorted(list_byte_letters())),
        min_frequency=max(settings["min_frequency"], 1),
    )
    tokens = [
        spell_token_in_letters(trained_tokenizer.token_bytes(token_id)) for token_id in range(trained_tokenizer.n_vocab)
    ]
    if learned_names := set(names) & set(tokens):
        raise ValueError(f"merges made the special token {min(learned_names)!r}; give it a name that no text has")
    vocab = {name: token_id for token_id, name in enumerate([*names, *tokens])}
    merges = [[tokens[left], tokens[right]] for left, right in trained_tokenizer.merges.tolist()]
    fields = {**state.core.model.settings, "continuing_subword_prefix": None, "end_of_word_suffix": None}
    model = ModelJson(fields, dump_compact(vocab).encode(), dump_compact(merges).encode())
    added_rows = [
        AddedTokenEntry(vocab[token["content"]], token["content"], **{flag: token[flag] for flag in FLAGS})
        for token in special_tokens
    ]
    core = state.with_core(model=model, added_rows=added_rows, skipped_names=frozenset(names)).core
    return replace(state, core=core)


def flatten_texts(items: Iterable[Any]) -> Iterator[str]:
    """Yield the texts of an iterable of texts, or of lists of texts."""
    for item in items:
        if isinstance(item, str):
            yield item
        else:
            yield from item


def _read_settings(trainer: Any) -> dict[str, Any] | None:
    """Read the settings of a `BpeTrainer` that learns what this package's trainer does; None for others."""
    if type(trainer).__name__ != "BpeTrainer" or not hasattr(trainer, "__getstate__"):
        return None
    settings: dict[str, Any]
    (settings,) = json.loads(trainer.__getstate__()).values()
    if not settings.keys() <= _KNOWN_FIELDS or set(settings["initial_alphabet"]) != set(list_byte_letters()):
        return None
    if any(settings.get(name) != value for name, value in _COVERED_VALUES.items()):
        return None
    return settings
