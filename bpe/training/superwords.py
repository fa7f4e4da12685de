r"""Superwords: tokens that reach across words, learned in a second stage of training.

Stage 1 is plain training to `transition` tokens. Stage 2 cuts the corpus into stretches, whole lines or nearly so,
encodes them with the merges of stage 1, and goes on merging; a veto keeps its tokens short. The result splits text as
stage 2 does. Source: Liu et al., "SuperBPE: Space Travel for Language Models" (2025), as its authors' code does it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from bpe.base.progress import ProgressLike, check_progress
from bpe.base.utf8 import TextLike
from bpe.corpus.blocks import PathLike
from bpe.corpus.sources import Sources
from bpe.count.counting import count_files_or_texts
from bpe.count.word_counts import DOCUMENTS, LINES, WordCounts, borrow_arrays
from bpe.errors import ID_LIMIT, check_bool, check_choice, check_int, describe
from bpe.pretokenize.patterns import SUPERBPE_SECOND_STAGE, SUPERBPE_V2_SECOND_STAGE, SUPERBPE_V2_WORDS, SUPERBPE_WORDS
from bpe.pretokenize.pretokenizer import Pretokenizer, PretokenizerLike, as_pretokenizer
from bpe.text.normalizers import NormalizerLike
from bpe.training.config import TrainConfig
from bpe.training.encoded import encode_in_groups
from bpe.training.merge_rules import check_word_limits
from bpe.vocab.editing import find_first_id, renumber, without_tokens
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import NO_TOKEN

__all__ = ["SuperWords", "check_superwords", "drop_unused_merges", "make_second_stage_base"]


@dataclass(frozen=True)
class SuperWords:
    """How `bpe.train` and `bpe.extend` learn tokens that reach across words.

    Attributes:
        transition: the vocabulary size, special tokens and alphabet included, at which stage 2 begins.
        pretokenizer: how stage 2, and the tokenizer, split text into stretches: a name, a `Pretokenizer`, or None (a
            line is one stretch; the tokenizer takes a whole text as one).
        first_pretokenizer: how stage 1 splits text into words, unless `bpe.train` is given a `pretokenizer`.
        max_words: the most words in a new token, counted between spaces; None for no limit.
        forbidden: strings that no new token contains.
        unused: "keep" the tokens of stage 1 that no stretch contains, or "drop" them, as the authors' code does.
        lines: cut the text of both stages into lines first, newlines included, so that no token reaches across one.

    Raises:
        TypeError, ValueError: for other values than these.

    >>> import bpe
    >>> texts = ["by the way, by the sea\\n"] * 9
    >>> tok = bpe.train(texts=texts, vocab_size=268, superwords=bpe.SuperWords(transition=262, max_words=2))
    >>> tok.tokens("by the way")
    [b'by the ', b'way']

    """

    transition: int
    pretokenizer: PretokenizerLike | None = None
    first_pretokenizer: PretokenizerLike | None = "gpt2"
    max_words: int | None = 4
    forbidden: tuple[str, ...] = (": ",)
    unused: Literal["keep", "drop"] = "keep"
    lines: bool = True

    def __post_init__(self) -> None:
        check_int("transition", self.transition, 1, ID_LIMIT)
        check_choice("unused", self.unused, ("keep", "drop"))
        object.__setattr__(self, "lines", check_bool("lines", self.lines))
        object.__setattr__(self, "forbidden", check_word_limits(self.max_words, self.forbidden))
        for name in ("pretokenizer", "first_pretokenizer"):
            object.__setattr__(self, name, as_pretokenizer(getattr(self, name)))

    @classmethod
    def paper(cls, transition: int, **changes: Any) -> SuperWords:
        """Take the paper's patterns in both stages: words, then everything between numbers; `changes` as for the class.

        >>> SuperWords.paper(180_000).pretokenizer.split("in 1234 of all cases")
        ['in ', '1', '234', ' of all cases']
        """
        second = Pretokenizer.from_regex(SUPERBPE_SECOND_STAGE, gaps="keep")
        first = Pretokenizer.from_regex(SUPERBPE_WORDS, gaps="keep")
        return cls(transition, **{"pretokenizer": second, "first_pretokenizer": first} | changes)

    @classmethod
    def v2(cls, transition: int, **changes: Any) -> SuperWords:
        """Take the patterns that the paper's authors use since November 2025; `changes` as for the class.

        >>> SuperWords.v2(180_000).pretokenizer.split("in 1234 of all cases, ...")
        ['in ', '123', '4', ' of all cases,', ' ...']
        """
        second = Pretokenizer.from_regex(SUPERBPE_V2_SECOND_STAGE, gaps="keep")
        first = Pretokenizer.from_regex(SUPERBPE_V2_WORDS, gaps="keep")
        return cls(transition, **{"pretokenizer": second, "first_pretokenizer": first} | changes)

    def count_words(
        self,
        stage: Literal[1, 2],
        *,
        files: PathLike | Iterable[PathLike] | Sources | None = None,
        texts: Iterable[TextLike] | None = None,
        normalizer: NormalizerLike | None = None,
        special_tokens: Iterable[str] = (),
        threads: int | None = None,
        progress: ProgressLike = False,
    ) -> WordCounts:
        r"""Count the words of stage 1, or the stretches of stage 2, of a corpus or a part of one.

        Counts of parts can be merged. `bpe.train(counts=(first, second), superwords=...)` trains on them.

        Args:
            stage: 1 or 2.
            files: as for `bpe.count_words`, like all that follow.
            texts: documents.
            normalizer: how a line is changed before it is split.
            special_tokens: strings that separate text and are part of no word.
            threads: the number of threads; None means one per core.
            progress: True shows a progress bar.

        Raises:
            TypeError, ValueError, FormatError, OSError: as `bpe.count_words`.

        >>> stretches = SuperWords(300).count_words(2, texts=["one line\nand another\none line\n"])
        >>> dict(stretches.items())
        {b'one line\n': 2, b'and another\n': 1}

        """
        check_int("stage", stage, 1, 2)
        check_progress(progress)
        counts = WordCounts(self.get_pretokenizer(stage), normalizer, special_tokens)
        counts.units = self.units
        count_files_or_texts(counts, files, texts, threads, progress)
        return counts

    def get_pretokenizer(self, stage: int) -> Pretokenizer | None:
        """Return the pretokenizer of stage 1 or 2."""
        return as_pretokenizer(self.first_pretokenizer if stage == 1 else self.pretokenizer)

    @property
    def units(self) -> str:
        """What both stages split into words, as `WordCounts.units` has it."""
        return LINES if self.lines else DOCUMENTS

    def limit_config(self, config: TrainConfig) -> TrainConfig:
        """Make the config of stage 2, with the limits of new tokens."""
        return replace(config, rules=config.rules.and_limits(self.max_words, self.forbidden))

    def to_json(self) -> dict[str, Any]:
        """Return what determines the result, beside the pretokenizers, as name → JSON value."""
        return {
            "transition": int(self.transition),
            "max_words": None if self.max_words is None else int(self.max_words),
            "forbidden": list(self.forbidden),
            "unused": self.unused,
            "lines": self.lines,
        }


def check_superwords(superwords: object, config: TrainConfig, corpus: object) -> None:
    """Validate the argument `superwords` of `bpe.train` and what else it is given.

    Raises:
        TypeError: for anything but a `SuperWords`, or counts that are not two.
        ValueError: for options that contradict it, or a corpus that can be read only once.

    """
    if not isinstance(superwords, SuperWords):
        raise TypeError(f"superwords is {describe(superwords)}; it must be a bpe.SuperWords or None")
    if config.is_char_model or config.end_of_word is not None:
        raise ValueError(
            "superwords are for byte models without an end-of-word mark; leave out model= and end_of_word="
        )
    min_vocab_size = min((config.vocab_size or 0, *config.vocab_sizes))
    if config.vocab_size is None or min_vocab_size < superwords.transition:
        problem = f"num_merges is {config.num_merges}" if config.vocab_size is None else f"it is {min_vocab_size}"
        raise ValueError(
            f"superwords need a vocab_size of at least their transition, {superwords.transition}; {problem}"
        )
    n_initial = 256 + len(config.reserved_names)
    if config.alphabet.initial is None and superwords.transition < n_initial:
        raise ValueError(
            f"transition is {superwords.transition}, but the 256 bytes and the special tokens come first; it must "
            f"be at least {n_initial}"
        )
    if config.counts is not None:
        check_two_counts(config.counts)
    check_rereadable(config.texts, corpus)


def check_two_counts(counts: object) -> None:
    """Check the counts of both stages.

    Raises:
        TypeError: for anything but two `WordCounts`.
        ValueError: for counts that were made with different settings.

    """
    if not (
        isinstance(counts, tuple)
        and len(counts) == 2
        and all(isinstance(stage_counts, WordCounts) for stage_counts in counts)
    ):
        raise TypeError(
            f"counts is {describe(counts)}; with superwords it must be a tuple of two bpe.WordCounts: those of stage 1 "
            "and of stage 2"
        )
    for name in ("normalizer", "special_tokens"):
        first_value, second_value = (getattr(stage_counts, name) for stage_counts in counts)
        if first_value != second_value:
            raise ValueError(
                f"the counts of stage 1 were made with {name}={first_value!r}, those of stage 2 with {second_value!r}; "
                "count one of them again"
            )


def check_rereadable(texts: object, corpus: object) -> None:
    """Raise TypeError or ValueError for a corpus that can be read only once."""
    if texts is not None and iter(texts) is texts:  # type: ignore[call-overload]
        raise TypeError(
            f"texts is {describe(texts)}, which can be read only once, and superwords read it twice; pass a list, or "
            "count both stages"
        )
    if isinstance(corpus, Sources) and not corpus.regular:
        raise ValueError(
            "files has a pipe or a file of another machine, which superwords would read twice; save it first, or "
            "count both stages"
        )


def drop_unused_merges(spec: TokenizerSpec, counts: WordCounts) -> TokenizerSpec:
    """Remove the merges that are never applied to these words, and their tokens.

    A merge is applied if its token is in a word's ids, or in the merges that one of those is made of.
    """
    blob, offsets, _ = borrow_arrays(counts)
    is_used = np.zeros(spec.vocabulary.limit, dtype=np.bool_)
    for ids, _ in encode_in_groups(spec, blob, offsets):
        is_used[ids[ids != NO_TOKEN]] = True  # NO_TOKEN: a byte without a token
    for (left, right), token in zip(spec.merges[::-1].tolist(), spec.merge_results[::-1].tolist(), strict=True):
        if is_used[token]:
            is_used[left] = is_used[right] = True
    is_dropped = np.zeros(spec.vocabulary.limit, dtype=np.bool_)
    is_dropped[spec.merge_results] = True
    smaller = without_tokens(spec, np.flatnonzero(is_dropped & ~is_used).tolist())
    return renumber(smaller, spec.vocabulary.limit, find_first_id(spec))[0]


def make_second_stage_base(spec: TokenizerSpec, counts: WordCounts, superwords: SuperWords) -> TokenizerSpec:
    """Make the tokenizer that stage 2 starts from: that of stage 1, with the stretches' pretokenizer."""
    if superwords.unused == "drop":
        spec = drop_unused_merges(spec, counts)
    return replace(spec, pretokenizer=counts.pretokenizer)
