"""Processes encoded sequences: truncation, the post-processor of a tokenizer.json, and padding.

The rules are those of `tokenizers`, for every type of post-processor that it has. A `Call` holds the rows of one
`encode_batch`; rows that only get template tokens stay unresolved until more than their ids is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import compute_offsets
from bpe.compat._rows import CallFields, PlanFields, make_call, make_rows
from bpe.compat.core import Core
from bpe.compat.encoding import Encoding, FixedPart, InputSequence, Part, RowPadding, SequencePart
from bpe.errors import FormatError, short_repr
from bpe.vocab.output_steps import Direction, Padding, Strategy, Truncation

#: The strategies of `enable_truncation`, and their names in a tokenizer.json.
STRATEGIES: dict[str, Strategy] = {
    "longest_first": "LongestFirst", "only_first": "OnlyFirst", "only_second": "OnlySecond",
}  # fmt: skip
DIRECTIONS: dict[str, Direction] = {"right": "Right", "left": "Left"}
#: The post-processors that add special tokens.
_WITH_TEMPLATES = ("BertProcessing", "RobertaProcessing", "TemplateProcessing")
#: A piece of a template: special tokens, or a text, as its index and its type id.
TemplatePiece = FixedPart | tuple[int, int]
#: The ids before, between and after the texts of a row.
TemplateIds = tuple[list[int], ...]


class RowTemplate(NamedTuple):
    """What a post-processor adds to the texts of a row.

    Attributes:
        ids: the ids before, between and after the texts.
        type_ids: their type ids.
        text_type_ids: the type id of each text.
        trims: for each text, `SequencePart.trims` without the tokens.

    """

    ids: TemplateIds
    type_ids: TemplateIds
    text_type_ids: tuple[int, ...]
    trims: tuple[tuple[bool, ...], ...]


def make_row_padding(rule: Padding, longest: int) -> RowPadding:
    """Make the padding of a batch whose longest text has `longest` tokens."""
    length, multiple = longest if rule.length is None else rule.length, rule.pad_to_multiple_of
    if multiple and length % multiple:
        length += multiple - length % multiple
    return length, rule.direction.lower(), rule.pad_id, rule.pad_type_id, rule.pad_token


@dataclass(frozen=True)
class Rules:
    """How sequences become encodings: the snapshot of a tokenizer's configuration that a call works with.

    Attributes:
        processor: the post-processor, as JSON.
        templates: what `get_template` has found, by its arguments; rules with the same processor share the dict.

    """

    processor: Any = None
    truncation: Truncation | None = None
    padding: Padding | None = None
    templates: dict[tuple[int, bool], RowTemplate | None] = field(default_factory=dict, repr=False, compare=False)

    def get_template(self, n_texts: int, add_special: bool) -> RowTemplate | None:
        """Return what `find_template` finds for a text or a pair; computed once."""
        key = n_texts, add_special
        if key not in self.templates:
            self.templates[key] = find_template(self.processor, n_texts, add_special)
        return self.templates[key]


# Post-processors ------------------------------------------------------------------------------------------------------


def _read_template(processor: Any, is_pair: bool) -> list[TemplatePiece]:
    """Read the template of a post-processor.

    BERT's and RoBERTa's have a token before the first text, and one after each; RoBERTa's a second one between.
    """
    if processor["type"] == "TemplateProcessing":
        tokens_by_name = processor["special_tokens"]
        pieces: list[TemplatePiece] = []
        for piece in processor["pair" if is_pair else "single"]:
            ((piece_type, content),) = piece.items()
            if piece_type == "Sequence":
                pieces.append((int(content["id"] != "A"), content["type_id"]))
            else:
                token = tokens_by_name[content["id"]]
                pieces.append(FixedPart(tuple(token["ids"]), tuple(token["tokens"]), content["type_id"]))
        return pieces
    cls, sep = (FixedPart((token_id,), (token,)) for token, token_id in (processor["cls"], processor["sep"]))
    if not is_pair:
        return [cls, (0, 0), sep]
    if processor["type"] == "RobertaProcessing":
        return [cls, (0, 0), sep, sep, (1, 0), sep]
    return [cls, (0, 0), sep, (1, 1), replace(sep, type_id=1)]


def count_added(processor: Any, is_pair: bool) -> int:
    """Count the tokens that a post-processor adds to one text, or to a pair."""
    processor_type = None if processor is None else processor["type"]
    if processor_type == "Sequence":
        return sum(count_added(step, is_pair) for step in processor["processors"])
    if processor_type not in _WITH_TEMPLATES:
        return 0
    return sum(len(piece) for piece in _read_template(processor, is_pair) if isinstance(piece, FixedPart))


def apply_processor(processor: Any, encodings: list[Encoding], add_special: bool) -> Encoding:
    """Make one encoding of the encodings of one text or of a pair, which are changed."""
    if processor is None and len(encodings) == 1:
        return encodings[0]
    for index, encoding in enumerate(encodings):
        for window in (encoding, *encoding.overflowing):
            window.set_type_ids(index)
            if window is encoding or processor is not None:
                window.set_sequence_id(index)
    if processor is not None:
        encodings = _run_processor(processor, encodings, add_special)
    return Encoding.merge(encodings, growing_offsets=False)


def _run_processor(processor: Any, encodings: list[Encoding], add_special: bool) -> list[Encoding]:
    """Put encodings of added tokens between the encodings of the texts, in the order of the result."""
    processor_type = processor["type"]
    if processor_type == "Sequence":
        for step in processor["processors"]:
            encodings = _run_processor(step, encodings, add_special)
        return encodings
    if processor_type in ("ByteLevel", "RobertaProcessing") and processor.get("trim_offsets", True):
        for encoding in encodings:
            encoding.trim_offsets(processor.get("add_prefix_space", True))
    if processor_type == "ByteLevel":
        for index, encoding in enumerate(encodings):
            encoding.set_sequence_id(index)
        return encodings
    if processor_type not in _WITH_TEMPLATES:
        raise FormatError(f"a post_processor of type {short_repr(processor_type)} is not known", where="post_processor")
    if processor_type == "RobertaProcessing":
        for encoding in encodings:
            for part in (encoding, *(encoding.overflowing if add_special else ())):
                part.set_type_ids(0)
    pieces = _read_template(processor, len(encodings) > 1)
    if processor_type == "TemplateProcessing":
        return _fill_template(pieces, encodings, add_special)
    if not add_special:
        return encodings
    text_pieces = pieces[:3], pieces[3:]  # of each text
    return [
        _surround_text(encoding, pieces_of_text)
        for encoding, pieces_of_text in zip(encodings, text_pieces, strict=False)
    ]


def _fill_template(pieces: Sequence[TemplatePiece], encodings: list[Encoding], add_special: bool) -> list[Encoding]:
    """Fill a template with the encodings of its texts and special tokens."""
    filled_encodings = []
    for piece in pieces:
        if not isinstance(piece, FixedPart):
            index, type_id = piece
            encodings[index].set_type_ids(type_id)
            encodings[index].set_sequence_id(index)
            filled_encodings.append(encodings[index].copy())
        elif add_special:
            filled_encodings.append(Encoding.from_parts([piece]))
    return filled_encodings


def _surround_text(encoding: Encoding, pieces: Sequence[TemplatePiece]) -> Encoding:
    """Put special tokens around a text, here and in `overflowing`."""
    parts: list[Part] = []
    ranges = {}
    for start, piece in enumerate(pieces):  # each piece before the text is one token
        if isinstance(piece, FixedPart):
            parts.append(piece)
        else:
            parts += encoding.resolve()
            ranges[piece[0]] = start, start + len(encoding)
    return Encoding.from_parts(parts, ranges, [_surround_text(part, pieces) for part in encoding.overflowing])


# Truncation -----------------------------------------------------------------------------------------------------------


def truncate(encodings: list[Encoding], rule: Truncation, n_template: int) -> None:
    """Shorten the encodings of one text or of a pair to `max_length` tokens, of which a template takes `n_template`.

    Raises:
        ValueError: if the strategy leaves too many tokens, or is for a pair, and there is one text.

    """
    limit = rule.max_length - n_template
    if limit < 0:  # as in `tokenizers`, where the difference becomes a very large number
        return
    lengths = [len(encoding) for encoding in encodings]
    excess = sum(lengths) - limit
    if limit == 0:
        target_lengths = [0] * len(lengths)
    elif excess <= 0:
        return
    elif rule.strategy == "LongestFirst":
        target_lengths = [limit] if len(lengths) == 1 else _share_length(lengths[0], lengths[1], limit)
    else:
        index = int(rule.strategy == "OnlySecond")
        if index >= len(lengths):
            raise ValueError("Truncation error: Second sequence not provided")
        if lengths[index] <= excess:
            raise ValueError("Truncation error: Sequence to truncate too short to respect the provided max_length")
        target_lengths = list(lengths)
        target_lengths[index] -= excess
    for encoding, target_length in zip(encodings, target_lengths, strict=True):
        encoding.truncate(target_length, rule.stride, rule.direction.lower())


def _share_length(first: int, second: int, limit: int) -> list[int]:
    """Share `limit` tokens between the texts of a pair: the longer one is shortened to the other, then both alike."""
    short, long = sorted((first, second))
    long = short if short > limit else max(short, limit - short)
    if short + long > limit:
        short = limit // 2
        long = short + limit % 2
    return [long, short] if first > second else [short, long]


# Calls ----------------------------------------------------------------------------------------------------------------


class Plan(PlanFields):
    """How texts become encodings with one configuration; made once for each. Not changed after it is made.

    Args:
        core: encodes and decodes.
        rules: the configuration.
        add_special: whether template tokens are added.
        specials_as_text: whether special tokens in texts are text.

    Attributes:
        n_template: the number of tokens that the template adds to each text.
        pair_template_ids: the template's ids before, between and after a pair; None if pairs must be processed at once,
            because they are truncated or the template reorders them.
        prefix_ids: the template's ids before a text.
        suffix_ids: the template's ids after a text.
        max_ids: the most ids of a row that are kept; None where rows are not truncated.
        must_truncate: whether truncation has to run at once, because it leaves nothing, or fails.
        is_lazy: whether rows stay unresolved until they are read: nothing is padded, or truncated at once.
        encode: encodes a text without special tokens.
        encoder: encodes a short text without special tokens faster, or None.
        special_encoder: encodes a text with special tokens faster, or None; `encoder` is its own.
        only_ascii: whether these two take ASCII text only.
        has_no_names: whether `encode` takes any text; otherwise, one without `prefix`. Every text has an empty prefix.

    """

    __slots__ = (
        "add_special",
        "core",
        "max_ids",
        "must_truncate",
        "n_template",
        "prefix_ids",
        "rules",
        "specials_as_text",
        "suffix_ids",
    )  # fmt: skip

    def __init__(self, core: Core, rules: Rules, *, add_special: bool, specials_as_text: bool) -> None:
        self.core, self.rules, self.add_special, self.specials_as_text = core, rules, add_special, specials_as_text
        template = rules.get_template(1, add_special)
        if template is None and add_special:
            raise FormatError("the template of a single text must have it once", where="post_processor.single")
        self.prefix_ids, self.suffix_ids = ([], []) if template is None else template.ids
        pair_template = None if rules.truncation is not None else rules.get_template(2, add_special)
        self.pair_template_ids = None if pair_template is None else pair_template.ids
        self.n_template = len(self.prefix_ids) + len(self.suffix_ids)
        rule, max_ids = rules.truncation, None
        self.must_truncate = False
        if rule is not None:
            max_ids = rule.max_length - self.n_template
            self.must_truncate = max_ids <= 0 or rule.strategy == "OnlySecond" or rule.stride >= max_ids
        self.max_ids = max_ids
        self.is_lazy = rules.padding is None and not self.must_truncate
        self.encode, self.has_no_names, self.prefix = core.make_plain_encoder(specials_as_text)
        self.encoder, self.special_encoder, self.only_ascii = core.find_kernels(specials_as_text)

    def encode_ids(self, text: str) -> NDArray[np.uint32]:
        """Encode a text to ids, without those of the template."""
        return self.core.encode(text, self.specials_as_text)

    def make_call(self, text: Any) -> Call:
        """Make the call of one text, or of a tuple of two texts."""
        return self.encode_texts([text]) if isinstance(text, str) else self.encode_pairs(list(text))

    def find_spans(self, text: str, trims: tuple[bool, ...], start: int, stop: int) -> list[tuple[int, int]] | None:
        """Find the offsets of the tokens `start` to `stop` of a text, trimmed as in `RowTemplate.trims`.

        None where only `tokenizers` can.
        """
        return self.core.find_spans(text, self.specials_as_text, trims, start, stop)

    def make_call_with_ids(self, text: Any, ids: Any) -> Call:
        """Make the call of one text with its ids, or of a tuple of two texts with a tuple of the ids of each."""
        if isinstance(text, str):
            return make_call(Call, self, text, ids, None)
        return make_call(
            PairCall, self, text, np.concatenate(ids), compute_offsets([len(text_ids) for text_ids in ids])
        )

    def encode_texts(self, texts: list[str], max_ids: int | None = None) -> Call:
        """Encode several texts to the rows of a call.

        With `max_ids`, only the first so many ids of a text are certain to be right.
        """
        if len(texts) == 1 and (max_ids is None or self.core.prompt_caches is not None):
            return self.make_call_with_ids(texts[0], self.encode_ids(texts[0]))
        batch = self.core.encode_batch(texts, self.specials_as_text, max_ids)
        return make_call(Call, self, texts, batch.ids, batch.offsets)

    def encode_pairs(self, texts: list[str]) -> PairCall:
        """Encode pairs, each of two texts that follow each other, to rows. `pair_template_ids` must not be None."""
        batch = self.core.encode_batch(texts, self.specials_as_text)
        return make_call(PairCall, self, texts, batch.ids, batch.offsets)


class Call(CallFields):
    """The rows of one call: a plan, the texts, and their ids as the native tokenizer gave them. Immutable."""

    __slots__ = ()
    #: The number of texts of a row.
    n_sequences = 1

    def count_ids(self, row: int) -> int:
        """Count the ids of a row."""
        plan: Plan = self.plan
        start, stop = self.find_bounds(row)
        return (stop - start if plan.max_ids is None else min(stop - start, plan.max_ids)) + plan.n_template

    def compute_row_ids(self, row: int, padding: RowPadding | None) -> list[int]:
        """Compute the ids of a row, with template tokens and padding."""
        plan: Plan = self.plan
        start, stop = self.find_bounds(row)
        if plan.max_ids is not None and stop - start > plan.max_ids:
            if cast("Truncation", plan.rules.truncation).direction == "Right":
                stop = start + plan.max_ids
            else:
                start = stop - plan.max_ids
        ids = plan.core.to_list(self.ids[start:stop])
        if plan.n_template:
            ids = [*plan.prefix_ids, *ids, *plan.suffix_ids]
        return _pad_ids(ids, padding)

    def _make_encoding(self, index: int) -> Encoding:
        """Make the encoding of a text, without template."""
        plan: Plan = self.plan
        start, stop = self.find_bounds(index)
        ids = plan.core.to_list(self.ids[start:stop])
        text = self.texts if isinstance(self.texts, str) else self.texts[index]
        return plan.core.make_sequence(text, ids, plan.specials_as_text).to_encoding()

    def make_row_encoding(self, row: int) -> Encoding:
        """Make the encoding of a row, not padded."""
        plan: Plan = self.plan
        first = row * self.n_sequences
        encodings = [self._make_encoding(index) for index in range(first, first + self.n_sequences)]
        return process(encodings, plan.rules, plan.add_special)

    def make_encodings(self) -> list[Encoding]:
        """Make the encodings of all rows, padded."""
        plan: Plan = self.plan
        n_rows = 1 if isinstance(self.texts, str) else len(self.texts) // self.n_sequences
        if plan.must_truncate:
            encodings = [self.make_row_encoding(row) for row in range(n_rows)]
        else:
            encodings = make_rows(Encoding, self, n_rows)
        return pad_rows(encodings, plan.rules.padding)


class PairCall(Call):
    """The rows of a call with pairs, which are not truncated: row i has the texts 2 i and 2 i + 1."""

    __slots__ = ()
    n_sequences = 2

    def count_ids(self, row: int) -> int:
        """Count the ids of a row."""
        return (
            self.find_bounds(2 * row + 1)[1] - self.find_bounds(2 * row)[0] + sum(map(len, self.plan.pair_template_ids))
        )

    def compute_row_ids(self, row: int, padding: RowPadding | None) -> list[int]:
        """Compute the ids of a row, with template tokens and padding."""
        plan: Plan = self.plan
        (start, middle), (_, stop) = self.find_bounds(2 * row), self.find_bounds(2 * row + 1)
        prefix_ids, middle_ids, suffix_ids = cast("TemplateIds", plan.pair_template_ids)
        first, second = plan.core.to_list(self.ids[start:middle]), plan.core.to_list(self.ids[middle:stop])
        return _pad_ids([*prefix_ids, *first, *middle_ids, *second, *suffix_ids], padding)


def _pad_ids(ids: list[int], padding: RowPadding | None) -> list[int]:
    """Pad the ids of a row."""
    if padding is None or padding[0] <= len(ids):
        return ids
    padding_ids = [padding[2]] * (padding[0] - len(ids))
    return ids + padding_ids if padding[1] == "right" else padding_ids + ids


def process(encodings: list[Encoding], rules: Rules, add_special: bool) -> Encoding:
    """Truncate the encodings of one text or of a pair, and add template tokens."""
    if rules.truncation is not None:
        truncate(encodings, rules.truncation, count_added(rules.processor, len(encodings) == 2) if add_special else 0)
    return apply_processor(rules.processor, encodings, add_special)


def pad_rows(encodings: list[Encoding], rule: Padding | None) -> list[Encoding]:
    """Pad encodings as the rule says."""
    if rule is None or not encodings:
        return encodings
    padding = make_row_padding(rule, max(map(len, encodings)) if rule.length is None else 0)
    for encoding in encodings:
        if encoding.resolved is None and encoding.padding is None:
            encoding.set_padding(padding)
        else:
            encoding.pad(*padding)
    return encodings


def find_template(processor: Any, n_texts: int, add_special: bool) -> RowTemplate | None:
    """Find what a post-processor adds to the texts of a row.

    None unless each of the texts occurs once, in their order.
    """
    encodings = [InputSequence([index], ([""], [(0, 0)], [None])).to_encoding() for index in range(n_texts)]
    ids: list[list[int]] = [[]]
    type_ids: list[list[int]] = [[]]
    text_parts: list[SequencePart] = []
    for part in apply_processor(processor, encodings, add_special).resolve():
        if isinstance(part, SequencePart):
            text_parts.append(part)
            ids.append([])
            type_ids.append([])
        else:
            ids[-1] += part.ids
            type_ids[-1] += [part.type_id] * len(part)
    if [part.ids for part in text_parts] != [[index] for index in range(n_texts)]:
        return None
    trims = tuple(tuple(has_prefix for has_prefix, _ in part.trims) for part in text_parts)
    return RowTemplate(tuple(ids), tuple(type_ids), tuple(part.type_id for part in text_parts), trims)
