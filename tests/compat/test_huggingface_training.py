"""Training with trainers of `tokenizers` gives the same tokenizer.json, whichever package trains."""

from pathlib import Path
from typing import Any

import pytest

import bpe.compat.training
from bpe.compat.huggingface import Tokenizer

tokenizers = pytest.importorskip("tokenizers", reason="compares with the tokenizers package")
models, normalizers, steps, trainers = (
    getattr(tokenizers, name) for name in ("models", "normalizers", "pre_tokenizers", "trainers")
)
TEXTS = [
    "low lower lowest  newer 2024\n",
    "naïve café <s> don't\n\n",
    "한국어 日本語 low low\n",
    "the then there <s>",
] * 5
LETTERS = steps.ByteLevel.alphabet()
LEVEL = steps.ByteLevel(add_prefix_space=False)
MARK = tokenizers.AddedToken("<m>", lstrip=True)
#: Whether this package trains, the pretokenizer, the normalizer and the trainer's settings.
CASES: list[tuple[bool, Any, Any, dict[str, Any]]] = [
    (True, LEVEL, None, {"vocab_size": 300, "special_tokens": ["<s>", MARK]}),
    (True, steps.ByteLevel(), normalizers.NFC(), {"vocab_size": 320, "min_frequency": 6}),
    (True, steps.Sequence([steps.Digits(True), LEVEL]), normalizers.Lowercase(), {"vocab_size": 290}),
    (False, LEVEL, None, {"vocab_size": 290, "special_tokens": ["low"]}),
    (False, LEVEL, None, {"vocab_size": 100}),
    (False, LEVEL, None, {"vocab_size": 290, "initial_alphabet": []}),
    (False, LEVEL, None, {"vocab_size": 290, "max_token_length": 3}),
    (False, steps.Whitespace(), None, {"vocab_size": 60, "initial_alphabet": []}),
]


@pytest.mark.parametrize(("native", "step", "normalizer", "settings"), CASES)
def test_training_gives_the_file_of_tokenizers(
    native: bool, step: Any, normalizer: Any, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[bool] = []

    def trained(*args: Any, **options: Any) -> Any:
        files = plain(*args, **options)
        calls.append(files is not None)
        return files

    plain = bpe.compat.training.train_natively
    monkeypatch.setattr(bpe.compat.training, "train_natively", trained)
    path = tmp_path / "corpus.txt"
    path.write_text("".join(TEXTS))
    results: list[list[str]] = [[], []]
    for kind, files in zip((tokenizers.Tokenizer, Tokenizer), results, strict=True):
        for corpus in (iter(TEXTS), [TEXTS[:7], TEXTS[7:]], None):
            tok = kind(models.BPE())
            tok.pre_tokenizer = step
            if normalizer is not None:
                tok.normalizer = normalizer
            trainer = trainers.BpeTrainer(**{"initial_alphabet": LETTERS, "show_progress": False, **settings})
            if corpus is None:
                tok.train([str(path)], trainer)
            else:
                tok.train_from_iterator(corpus, trainer)
            files.append(tok.to_str())
    assert results[1] == results[0]
    assert calls == [native] * 3


@pytest.mark.parametrize("texts", [[], [""], ["  ", "\n"]])
def test_an_empty_corpus_gives_the_alphabet(texts: list[str]) -> None:
    results = []
    for kind in (tokenizers.Tokenizer, Tokenizer):
        tok = kind(models.BPE())
        tok.pre_tokenizer = steps.Sequence([steps.WhitespaceSplit(), LEVEL])
        tok.train_from_iterator(iter(texts), trainers.BpeTrainer(initial_alphabet=LETTERS, show_progress=False))
        results.append(tok.to_str())
    assert results[1] == results[0]


@pytest.mark.parametrize("added", [[], ["<s>"]])
def test_merges_of_the_names_of_added_tokens_are_learned(added: list[str]) -> None:
    """`tokenizers` finds the tokens that it has before training, and takes each as a word."""
    results: list[list[str]] = [[], []]
    for kind, files in zip((tokenizers.Tokenizer, Tokenizer), results, strict=True):
        tok = kind(models.BPE())
        tok.pre_tokenizer = LEVEL
        tok.add_special_tokens(added)
        for _ in range(2):
            trainer = trainers.BpeTrainer(
                vocab_size=262, special_tokens=["<s>"], initial_alphabet=LETTERS, show_progress=False
            )
            tok.train_from_iterator(["abc abd <s>"] * 3, trainer)
            files.append(tok.to_str())
    assert results[1] == results[0]
