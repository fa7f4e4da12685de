"""Converts tokenizers between file formats, and compares two tokenizers.

The commands `bpe convert` and `bpe diff` are these functions. Tokenizers are compared as data by
`bpe/vocab/comparing.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bpe.base.utf8 import TextLike
from bpe.corpus.blocks import PathLike
from bpe.errors import describe, get_log, pluralize, short_repr
from bpe.formats.loading import is_rank_file, list_unread_fields, load_spec
from bpe.formats.saving import check_name_has_format, compare_all, save_spec
from bpe.formats.tiktoken import load as load_ranks
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.tokenizer import Tokenizer
from bpe.vocab.comparing import Difference
from bpe.vocab.spec import TokenizerSpec, check_spec

log = get_log()


#: How many tokens of context the first difference in a text has on each side.
_CONTEXT = 3


@dataclass(frozen=True)
class TextDifference:
    """The first difference between the ids that two tokenizers give for a text.

    Attributes:
        text: which text: its index, or the path of its file.
        counts: the number of tokens that each tokenizer gives.
        index: the position in the ids of the first one that differs.
        tokens: for each tokenizer, the tokens around that position.

    """

    text: int | str
    counts: tuple[int, int]
    index: int
    tokens: tuple[list[bytes], list[bytes]]

    def __str__(self) -> str:
        first, second = (" ".join(map(short_repr, tokens)) for tokens in self.tokens)
        counts = f"{pluralize(self.counts[0], 'token')} and {self.counts[1]}"
        tokens_text = f"{first} and {second}" if first != second else f"{first}, the same tokens with other ids"
        return f"text {self.text}: {counts}, the first difference at token {self.index}: {tokens_text}"


@dataclass(frozen=True)
class Diff:
    """What `diff` found. True if there is any difference but harmless ones.

    Attributes:
        tokenizers: the differences in the vocabulary, the merges and the settings.
        texts: the first difference in each text whose ids differ.

    """

    tokenizers: list[Difference] = field(default_factory=list)
    texts: list[TextDifference] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.texts) or not all(difference.harmless for difference in self.tokenizers)


def convert(
    source: PathLike,
    target: PathLike,
    *,
    from_format: str | None = None,
    to_format: str | None = None,
    pretokenizer: Pretokenizer | str | None = None,
    lossy: bool = False,
) -> list[Difference]:
    """Write a tokenizer in another file format. No id changes, unless `lossy` allows it.

    Args:
        source: the file or the folder to read, as for `Tokenizer.load`.
        target: the file or the folder to write, as for `Tokenizer.save`.
        from_format: the format of the source; None to detect it.
        to_format: the format to write; None for the one that the name of the target stands for: tekken.json, or a name
            that ends with .json, .tiktoken, .gguf, .model or .compiled.
        pretokenizer: for a rank file that is not one of OpenAI's own: the pattern, or the name of an encoding for its
            special tokens too, as for `Tokenizer.from_tiktoken`.
        lossy: write the target even if its format does not keep everything.

    Returns:
        what the target does not keep; empty for a conversion that keeps everything.

    Raises:
        FormatError: for a source that is not valid.
        ValueError: for a tokenizer that the format cannot hold, and without `lossy` for one that it cannot keep whole;
            for a name that stands for no format; for a pretokenizer where the source has its own.
        OSError: for a file that cannot be read or written.

    >>> import bpe, os, tempfile
    >>> tok = bpe.train(texts=["low lower lowest"], vocab_size=260)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tok.save(os.path.join(folder, "tokenizer.json"))
    ...     pair = os.path.join(folder, "gpt2")
    ...     lost = convert(os.path.join(folder, "tokenizer.json"), pair, to_format="vocab-merges")
    ...     lost, sorted(os.listdir(pair))[-2:], bpe.Tokenizer.load(pair) == tok
    ([], ['tokenizer_config.json', 'vocab.json'], True)

    """
    if to_format is None:
        check_name_has_format(target)
    spec = load_spec_with_pattern(source, pretokenizer, from_format)
    unread = list_unread_fields(source)
    check_spec(spec)
    losses = save_spec(spec, target, to_format, lossy=lossy)
    for name in unread:
        reason = f"it is a setting of transformers, which stays in {os.fspath(source)}; copy it from there"
        losses.append(Difference("settings", name, reason, harmless=True))
        log.warning("%s does not keep %s", os.fspath(target), losses[-1])
    return losses


def load_spec_with_pattern(
    source: PathLike, pretokenizer: Pretokenizer | str | None, from_format: str | None = None
) -> TokenizerSpec:
    """Load a tokenizer; `pretokenizer` is that of a rank file, else None. Errors are those of `convert`."""
    if pretokenizer is None:
        return load_spec(source, from_format)
    if from_format not in (None, "tiktoken") or not is_rank_file(source):
        raise ValueError(
            f"{os.fspath(source)} is not a rank file, so it has a pretokenizer of its own; leave out pretokenizer="
        )
    return load_ranks(source, pretokenizer, None, force=False)


def diff(a: Tokenizer, b: Tokenizer, texts: Iterable[TextLike] = ()) -> Diff:
    """Compare two tokenizers, and the ids that they give for texts.

    Args:
        a: the first.
        b: the second.
        texts: texts to encode with both; special tokens in them are ordinary text.

    Returns:
        the differences, false if there are none.

    Raises:
        TypeError: for anything but two tokenizers and texts.
        ValueError: for a text that one of the tokenizers cannot encode.

    >>> import bpe
    >>> one = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
    >>> other = bpe.train(texts=["low lower lowest"] * 3, vocab_size=258)
    >>> found = diff(one, other, ["slow", "lowest"])
    >>> for difference in (*found.tokenizers, *found.texts):
    ...     print(difference)
    vocabulary: 2 tokens only in the first (b' low', b' lowe')
    merges: 2 merges only in the first (b' ' + b'low', b' low' + b'e')

    """
    for name, tokenizer in (("a", a), ("b", b)):
        if not isinstance(tokenizer, Tokenizer):
            raise TypeError(f"{name} is {describe(tokenizer)}; it must be a bpe.Tokenizer")
    differences = []
    for i, text in enumerate(texts):
        difference = find_text_difference(a, b, i, a.encode(text), b.encode(text))
        if difference is not None:
            differences.append(difference)
    return Diff(compare_all(a.spec, b.spec, ("the first", "the second")), differences)


def find_text_difference(
    a: Tokenizer, b: Tokenizer, text: int | str, first: NDArray[np.uint32], second: NDArray[np.uint32]
) -> TextDifference | None:
    """The first difference between two arrays of ids; None if they are equal."""
    n = min(len(first), len(second))
    mismatches = np.flatnonzero(first[:n] != second[:n])
    if not len(mismatches) and len(first) == len(second):
        return None
    index = int(mismatches[0]) if len(mismatches) else n
    context = slice(max(0, index - _CONTEXT), index + _CONTEXT + 1)
    first_tokens = [a.token_bytes(token_id) for token_id in first[context].tolist()]
    second_tokens = [b.token_bytes(token_id) for token_id in second[context].tolist()]
    return TextDifference(text, (len(first), len(second)), index, (first_tokens, second_tokens))
