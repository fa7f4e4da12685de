"""Preparation: what happens to a text before its pretokens are merged.

Special tokens are found, the text between them is normalized, special tokens flagged "normalized" are then found in
the result, and the rest is split into pretokens. This is the only place that knows that order: encoding, offsets,
streams, dropout and counting take segments. Each segment knows where it came from, if a convention for spans is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bpe.base.utf8 import Bytes, compute_byte_offsets, decode_losslessly, encode_losslessly
from bpe.pretokenize.pipeline import Origin, Segment
from bpe.pretokenize.pretokenizer import PipelinePretokenizer, Pretokenizer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.text.alignment import AlignedText, Convention
    from bpe.text.normalizers import Normalizer


class SpecialSearch(Protocol):
    """A search for special tokens: `bpe.vocab.special_tokens.SpecialTokens`."""

    def split_with_starts(self, data: Bytes, allowed: frozenset[str]) -> Iterator[tuple[int, Bytes, int | None]]:
        """Split a text at the tokens: the start of each stretch, the stretch, and the id if it is a token."""
        ...

    def select_normalized(self, allowed: frozenset[str]) -> frozenset[str]:
        """Return the tokens that are sought in normalized text."""
        ...

    def split_normalized(self, data: Bytes, allowed: frozenset[str]) -> Iterator[tuple[int, Bytes, int | None]]:
        """Split normalized text at these tokens."""
        ...


class TextPreparer:
    """Prepares texts. Immutable.

    Args:
        normalizer: applied to text between special tokens, or None.
        pretokenizer: splits it, or None: it is one pretoken.
        specials: finds special tokens; None if that has been done.

    """

    __slots__ = ("_needs_origins", "_normalizer", "_pretokenizer", "_specials", "_text_changer")

    def __init__(
        self, normalizer: Normalizer | None, pretokenizer: Pretokenizer | None, specials: SpecialSearch | None = None
    ) -> None:
        self._normalizer, self._pretokenizer, self._specials = normalizer, pretokenizer, specials
        #: The pretokenizer, if it changes text.
        self._text_changer = pretokenizer if pretokenizer is not None and pretokenizer.changes_text else None
        steps = pretokenizer.pipeline if isinstance(pretokenizer, PipelinePretokenizer) else None
        self._needs_origins = normalizer is not None and steps is not None and steps.needs_origins

    def prepare(
        self, data: bytes, allowed: frozenset[str], convention: Convention | None = None, begins_text: bool = True
    ) -> Iterator[Segment]:
        """Split a text into segments.

        Args:
            data: the text.
            allowed: the special tokens to find.
            convention: the rule for spans, if segments need their origin.
            begins_text: whether `data` is the beginning of the text; if not, it follows a safe split point.

        """
        assert self._specials is not None
        normalized_names = self._specials.select_normalized(allowed)
        for start, stretch, token_id in self._specials.split_with_starts(data, allowed):
            stretch = bytes(stretch)
            if token_id is not None:
                segment = Segment(stretch, None, token_id)
                if convention is not None:
                    segment.origin = Origin(start, stretch)
                yield segment
            elif convention is None and not normalized_names and not self._needs_origins:
                yield self.split(self.normalize(stretch), begins_text and start == 0)
            else:
                yield from self._prepare_with_origins(
                    stretch, start, normalized_names, convention, begins_text and start == 0
                )

    def normalize(self, stretch: bytes) -> bytes:
        """Normalize text between special tokens."""
        return stretch if self._normalizer is None else self._normalizer.on_bytes(stretch)

    def normalize_and_prefix(self, stretch: bytes) -> Bytes:
        """Normalize text between special tokens and put the prefix space before it: the text that a scanner reads."""
        stretch = self.normalize(stretch)
        return stretch if self._text_changer is None else self._text_changer.edit_for_scanner(stretch)

    def split(self, normalized: bytes, begins_text: bool = True) -> Segment:
        """Prepare text that is normalized."""
        return (
            Segment(normalized, self._pretokenizer)
            if self._text_changer is None
            else self._text_changer.segment(normalized, begins_text)
        )

    def _prepare_with_origins(
        self,
        stretch: bytes,
        start: int,
        normalized_names: frozenset[str],
        convention: Convention | None,
        begins_text: bool,
    ) -> Iterator[Segment]:
        """Prepare text that needs the origins of its characters, or may have special tokens of the normalized text."""
        text, aligned, origins = self._normalize_with_origins(decode_losslessly(stretch), begins_text, convention)
        parts: Iterator[tuple[int, Bytes, int | None]] = iter([(0, encode_losslessly(text), None)])
        bounds = None
        if normalized_names:
            assert self._specials is not None
            parts = self._specials.split_normalized(encode_losslessly(text), normalized_names)
            bounds = compute_byte_offsets(text)
        for part_start, data, token_id in parts:
            first_char = 0 if bounds is None else int(np.searchsorted(bounds, part_start))
            part = text if bounds is None else decode_losslessly(bytes(data))
            part_origins = None if origins is None else origins[first_char : first_char + len(part)]
            if token_id is not None:
                segment = Segment(bytes(data), None, token_id)
            elif convention is None:
                segment = self._split_part(
                    bytes(data), part, begins_text and (first_char == 0 or part_origins is not None), part_origins
                )
            else:
                segment = self._split_with_origins(bytes(data), part, begins_text, part_origins)
            if convention is not None:
                n_added = 0 if segment.char_of_byte is not None else len(segment.data) - len(data)
                segment.origin = Origin(start, stretch, convention, aligned, part, first_char, n_added)
            yield segment

    def _normalize_with_origins(
        self, text: str, begins_text: bool, convention: Convention | None
    ) -> tuple[str, AlignedText | None, NDArray[np.int64] | None]:
        """Normalize text between special tokens: (text, alignment by the convention, origins of its characters)."""
        if self._normalizer is None:
            return text, None, None
        aligned = None if convention is None else self._normalizer.align(text, convention)
        if self._needs_origins and begins_text:
            aligned_as_tokenizers = (
                aligned if convention == "tokenizers" else self._normalizer.align(text, "tokenizers")
            )
            assert aligned_as_tokenizers is not None
            return aligned_as_tokenizers.text, aligned, aligned_as_tokenizers.starts
        return self._normalizer(text) if aligned is None else aligned.text, aligned, None

    def _split_part(self, data: bytes, part: str, begins_text: bool, origins: NDArray[np.int64] | None) -> Segment:
        """Split a part of normalized text by where its characters come from."""
        steps = self._pretokenizer
        if not isinstance(steps, PipelinePretokenizer) or origins is None:
            return self.split(data, begins_text)
        if steps.scanner is None:
            return steps.pipeline.split(part, begins_text, origins)
        return steps.segment(data, begins_text and len(origins) > 0 and int(origins[0]) == 0)

    def _split_with_origins(
        self, data: bytes, part: str, begins_text: bool, origins: NDArray[np.int64] | None
    ) -> Segment:
        """Split a part of normalized text, noting where bytes come from if steps change it."""
        steps = self._pretokenizer
        if isinstance(steps, PipelinePretokenizer):
            return steps.pipeline.split_tracing(part, begins_text, origins)
        return self.split(data)
