"""Conversations to ids, by a chat template: what `Tokenizer.chat` calls.

A special token in the rendered text is the template's, or a user wrote it. To know which, the template is rendered
again with certain characters of the messages replaced by substitutes; every special token has one of these. With the
substitutes replaced back, the second text must be the first, so that positions are the same. Since the messages
have none of the characters any more, a special token that is found in the second text is the template's. Where the
template looks for such a character, as those do that divide an answer at "</think>", pairs of characters that it does
not look for are broken instead; then two sets of pairs must agree, in case the template joins what users write. If
neither gives the same text, the call is refused.

    messages       Hi<|end|>          Hi<¦end¦>
    rendered       <|user|>Hi<|end|><|end|>   <|user|>Hi<¦end¦><|end|>
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bpe.base.forks import cached_property
from bpe.base.utf8 import compute_byte_offsets, to_bytes
from bpe.chats.messages import (
    ROLE,
    Message,
    copy_messages,
    copy_objects,
    iterate_texts,
    map_message_texts,
    map_texts,
    to_plain,
)
from bpe.chats.templates import ChatTemplate, Spans, choose_template, compile_template
from bpe.encode.texts import Match, encode_at_matches, prepare_at_matches
from bpe.errors import describe, pluralize, short_repr
from bpe.vocab.spec import ROLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.encode.offsets import OffsetEncoder
    from bpe.vocab.special_tokens import SpecialTokens

#: Where the substitutes begin: hieroglyphs, cuneiform and Anatolian signs, which are printable, have no case and are in
#: hardly any text; for texts that have one of them, those of the next range are taken.
_SUBSTITUTE_STARTS = (0x13000, 0x12000, 0x14400)
#: The longest units: parts of names that are broken.
_MAX_UNIT_CHARS = 4
#: How many sets of units are tried.
_MAX_SETS = 6
#: Who says what a loss mask is of.
_ASSISTANT = "assistant"


class ChatRequest(NamedTuple):
    """A conversation and the variables of its template, as plain data.

    Attributes:
        template: the template.
        messages: the messages.
        variables: the other variables, without `add_generation_prompt`.
        add_generation_prompt: whether the text ends with the beginning of an answer.

    """

    template: ChatTemplate
    messages: list[Message]
    variables: dict[str, Any]
    add_generation_prompt: bool

    def render(self) -> tuple[str, Spans]:
        """Render the template: the text, and the spans of its generation blocks."""
        return self.template.render(
            {**self.variables, "messages": self.messages, "add_generation_prompt": self.add_generation_prompt}
        )

    def list_untrusted_texts(self) -> list[str]:
        """List the texts that users may have written: all but roles, and variables named like special tokens."""
        fields = [value for message in self.messages for name, value in message.items() if name != ROLE]
        names = [name for message in self.messages for name in message]
        others = [value for name, value in self.variables.items() if name not in ROLES]
        return list(iterate_texts([fields, names, others]))

    def map_untrusted_texts(self, change: Callable[[str], str]) -> ChatRequest:
        """Change these texts."""
        variables = {
            name: value if name in ROLES else map_texts(value, change) for name, value in self.variables.items()
        }
        return self._replace(messages=map_message_texts(self.messages, change), variables=variables)


def make_request(
    templates: Mapping[str, str],
    roles: Mapping[str, str],
    messages: object,
    add_generation_prompt: bool,
    chat_template: str | None,
    variables: Mapping[str, Any],
) -> ChatRequest:
    """Check the arguments of a call, and choose the template; `variables` has `tools` and `documents` too."""
    copies = copy_messages(messages)
    lists = {name: copy_objects(name, variables.get(name)) for name in ("tools", "documents")}
    source = choose_template(templates, chat_template, lists["tools"] is not None)
    others = {name: to_plain(value) for name, value in variables.items() if name not in lists}
    clock = {"strftime_now": datetime.now().strftime}  # one time for all renderings of a call
    return ChatRequest(
        compile_template(source), copies, {**clock, **lists, **roles, **others}, bool(add_generation_prompt)
    )


class Chat:
    """A conversation as ids.

    Attributes:
        text: the text that the template made.
        ids: its ids, as a 1-D uint32 array.

    """

    def __init__(self, request: ChatRequest, offset_encoder: OffsetEncoder, allow_special: bool) -> None:
        self._request, self._offset_encoder = request, offset_encoder
        engine = offset_encoder.engine
        self.text, self._generation_spans = request.render()
        #: The special tokens of the template; None for all that are in the text.
        self._matches: list[Match] | None = None
        if not allow_special and engine.specials.ids:
            self._matches = find_template_tokens(request, self.text, engine.specials)
        self.ids: NDArray[np.uint32] = (
            engine.encode(self.text, frozenset(engine.specials.ids))
            if self._matches is None
            else encode_at_matches(engine, self.text, self._matches)
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"<bpe.chats.Chat: {pluralize(len(self.ids), 'token')}, {short_repr(self.text, 60)}>"

    @cached_property
    def mask(self) -> NDArray[np.uint8]:
        """For each id, 1 if the assistant says it, else 0; uint8.

        It is what the template's `{% generation %}` blocks enclose, as in transformers. For a template without such
        blocks, it is what follows the generation prompt in each message of the assistant, to the end of the message.

        Raises:
            ValueError: if the template has no blocks, and renders an earlier part of the conversation differently; for
                a tokenizer with dropout.

        """
        if self._offset_encoder.engine.spec.dropout:
            raise ValueError("the tokenizer's dropout makes ids random; a mask needs a tokenizer without: spec.dropout")
        spans = self._generation_spans if self._request.template.marks_assistant else self._find_answers()
        mask = np.zeros(len(self.ids), dtype=np.uint8)
        if spans:
            offsets = self._find_offsets()
            for start, end in spans:
                mask[(offsets[:, 1] > start) & (offsets[:, 0] < end)] = 1
        return mask

    def _find_offsets(self) -> NDArray[np.int64]:
        """Find the span of each token in the text, in characters, as `tokenizers` gives it."""
        encoder = self._offset_encoder
        if self._matches is None:
            all_names = frozenset(encoder.engine.specials.ids)
            return encoder.encode_with_word_numbers(self.text, all_names, "char", "tokenizers")[1]
        data = to_bytes(self.text)
        segments = prepare_at_matches(encoder.engine, data, self._matches, "tokenizers")
        return encoder.encode_given_segments(segments, self.text)

    def _find_answers(self) -> Spans:
        """Find the spans of the assistant's messages in the text, for a template that does not mark them."""
        request, spans = self._request, Spans()
        for index, message in enumerate(request.messages):
            if message.get(ROLE) != _ASSISTANT:
                continue
            earlier = request._replace(messages=request.messages[:index], add_generation_prompt=True)
            whole = request._replace(messages=request.messages[: index + 1], add_generation_prompt=False)
            try:
                start, answer_end = earlier.render()[0], whole.render()[0]
            except ValueError as error:
                raise ValueError(_explain_no_mask(index, str(error))) from None
            if not (answer_end.startswith(start) and self.text.startswith(answer_end)):
                raise ValueError(
                    _explain_no_mask(index, "the text of the messages before it depends on those that follow")
                )
            spans.append((len(start), self._find_end_of_turn(len(start), len(answer_end))))
        return spans

    def _find_end_of_turn(self, start: int, end: int) -> int:
        """Find where an answer ends: white space after the special token that ends it is not the assistant's."""
        answer = self.text[start:end].rstrip()
        ends_with_token = any(answer.endswith(name) for name in self._offset_encoder.engine.specials.ids)
        return start + len(answer) if ends_with_token else end


def _explain_no_mask(index: int, reason: str) -> str:
    return (
        "the chat template does not mark what the assistant says, and it cannot be found by comparing texts: at "
        f"message {index}, {reason}; pass a chat_template with {{% generation %}} and {{% endgeneration %}} around it"
    )


def check_allowed(allowed_special: object) -> bool:
    """Check the argument `allowed_special` of `Tokenizer.chat`: whether users' special tokens become ids."""
    if isinstance(allowed_special, str) and allowed_special == "all":
        return True
    if isinstance(allowed_special, (tuple, list, set, frozenset)) and not allowed_special:
        return False
    raise ValueError(
        f"allowed_special is {describe(allowed_special)}; it must be () or 'all': special tokens in messages are all "
        "text, or all become their ids"
    )


# Whose special tokens -------------------------------------------------------------------------------------------------


def find_template_tokens(request: ChatRequest, text: str, specials: SpecialTokens) -> list[Match] | None:
    """Find the special tokens of a rendered text that are the template's; None if all are.

    Tokens that are matched in every text ("ordinary" ones) are left out.

    Raises:
        ValueError: if it cannot be known.

    """
    untrusted_text = "\n".join(request.list_untrusted_texts())
    names = [name for name in specials.ids if name not in specials.always_names]
    all_matches, matches = find_matches(text, specials), None
    for units in choose_units(tuple(names), request.template.strings):
        changed_text = _render_broken(request, units, untrusted_text, text)
        if changed_text is None:
            continue
        found = all_matches if changed_text == text else find_matches(changed_text, specials)
        if matches is not None or all(len(unit) == 1 or unit in names for unit in units):
            matches = [match for match in found if matches is None or match in matches]
            break
        matches = found  # a template might join a pair of characters, but not the next pair of the same name, too
    else:
        if all_matches:
            start, end, _ = all_matches[0]
            raise ValueError(
                "the chat template's text depends on characters of special tokens in the messages, so which special "
                f"tokens, such as {text[start:end]!r}, are the template's is unknown; pass allowed_special='all' to "
                "encode all of them as their ids, or remove what looks like special tokens from the messages"
            )
    if matches == all_matches or not all_matches:
        return None
    offsets = compute_byte_offsets(text).tolist()
    return [(offsets[start], offsets[end], token_id) for start, end, token_id in matches or ()]


def _render_broken(request: ChatRequest, units: Sequence[str], untrusted_text: str, text: str) -> str | None:
    """Render with the units of untrusted texts broken; None if the template makes another text of that."""
    if not any(unit in untrusted_text for unit in units):
        return text
    breaker = UnitBreaker.make(units, [untrusted_text, text])
    if breaker is None:
        return None
    try:
        changed_text = request.map_untrusted_texts(breaker.break_units).render()[0]
    except ValueError:  # the template refuses the changed messages
        return None
    return changed_text if changed_text.translate(breaker.originals) == text else None


def find_matches(text: str, specials: SpecialTokens) -> list[Match]:
    """Find the special tokens in a text, but those of every text: (start, end, id) of each, in characters."""
    always_ids = {specials.ids[name] for name in specials.always_names}
    data, matches = to_bytes(text), list[Match]()
    byte_position = position = 0
    for start, part, token_id in specials.split_with_starts(data, frozenset(specials.ids), before_normalization=True):
        first, last = sorted((byte_position, start))  # a token may begin in the white space that another one absorbed
        n_chars = len(data[first:last].decode())
        position += n_chars if start >= byte_position else -n_chars
        byte_position = start
        if token_id is not None and token_id not in always_ids:
            matches.append((position, position + len(bytes(part).decode()), token_id))
    return matches


@lru_cache(32)
def choose_units(names: tuple[str, ...], template_strings: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Choose sets of units, each of one to four characters, such that each set has a unit of each name.

    No pair of adjacent characters is in units of two sets. What the template's strings have outside names is avoided,
    since the template may look for it. A name without other characters than letters, which names of fields may have,
    is a unit itself.

    >>> choose_units(("<|user|>", "<|end|>", "<s>"), ("<|user|>", "<think>"))[:3]
    [('|', '<s'), ('<|', 's>'), ('|>', '<')]
    """
    words = [name for name in names if not any(map(_is_symbol, name))]
    strings = "\n".join(template_strings)
    for name in sorted(names, key=len, reverse=True):
        strings = strings.replace(name, "")
    names_by_unit: dict[str, set[str]] = {}
    for name in set(names).difference(words):
        for start, length in product(range(len(name)), range(1, _MAX_UNIT_CHARS + 1)):
            unit = name[start : start + length]
            if any(map(_is_symbol, unit)):
                names_by_unit.setdefault(unit, set()).add(name)
    # Short units are surer to be found; of those that the template has, long ones are less often in messages.
    preference = {unit: (1, -len(unit)) if unit in strings else (0, len(unit)) for unit in names_by_unit}
    sets: list[tuple[str, ...]] = []
    while len(sets) < _MAX_SETS:
        units, uncovered = list(words), set(names).difference(words)
        while uncovered:
            counts = {unit: len(covered & uncovered) for unit, covered in names_by_unit.items()}
            useful = [unit for unit, count in counts.items() if count]
            if not useful:
                return sets
            ranks = [(*preference[unit], -counts[unit], unit) for unit in useful]
            units.append(min(ranks)[-1])
            uncovered -= names_by_unit[units[-1]]
        sets.append(tuple(units))
        used_pairs = {pair for unit in units for pair in pairwise(unit)}
        for unit in [unit for unit in names_by_unit if unit in units or not used_pairs.isdisjoint(pairwise(unit))]:
            del names_by_unit[unit]
    return sets


def _is_symbol(char: str) -> bool:
    """Whether a character is none that the names of fields have."""
    return not char.isalnum() and not char.isspace() and char != "_"


class UnitBreaker(NamedTuple):
    """Replaces the first characters of units by substitutes, so that no special token is whole.

    Attributes:
        broken_units: unit → the same with a substitute.
        originals: code points of substitutes → the characters that they stand for.

    """

    broken_units: dict[str, str]
    originals: dict[int, str]

    @classmethod
    def make(cls, units: Sequence[str], texts: Iterable[str]) -> UnitBreaker | None:
        """Choose substitutes that are in none of the texts; None if there are no such."""
        joined_text = "".join(texts)
        for start in _SUBSTITUTE_STARTS:
            originals = {start + index: unit[0] for index, unit in enumerate(units)}
            if not any(chr(code) in joined_text for code in originals):
                codes = zip(units, originals, strict=True)
                return cls({unit: chr(code) + unit[1:] for unit, code in codes}, originals)
        return None

    def break_units(self, text: str) -> str:
        """Replace the characters."""
        for unit, broken_unit in self.broken_units.items():
            text = text.replace(unit, broken_unit)
        return text
