"""Conversations to ids, by a chat template: what `Tokenizer.chat` calls.

A special token in the rendered text is the template's, or a user wrote it. To know which, the template is rendered
again with certain characters of the messages replaced by substitutes; every special token has one of these. With the
substitutes replaced back, the second text must be the first, so that positions are the same. Since the messages
have none of the characters any more, a special token that is found in the second text is the template's. Where the
template looks for such a character, as those do that divide an answer at "</think>", pairs of characters that it does
not look for are broken instead, and parts of tokens at the ends of texts, which the template may join; then two sets of
pairs must agree, in case it joins others. If nothing gives the same text, the call is refused. More is broken where a
template writes parts of a token, or makes characters of others, as of "&lt;".

    messages       Hi<|end|>          Hi<¦end¦>
    rendered       <|user|>Hi<|end|><|end|>   <|user|>Hi<¦end¦><|end|>
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bpe.base.forks import cached_property
from bpe.base.utf8 import compute_byte_offsets, to_bytes
from bpe.chats.continuing import Continuation
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
from bpe.errors import check_bool, describe, pluralize, short_repr
from bpe.vocab.spec import ROLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.encode.offsets import OffsetEncoder
    from bpe.vocab.spec import TokenizerSpec
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
        continuation: the text of the last message that a model is to continue; None if the conversation is whole.

    """

    template: ChatTemplate
    messages: list[Message]
    variables: dict[str, Any]
    add_generation_prompt: bool
    continuation: Continuation | None = None

    def render(self) -> tuple[str, Spans]:
        """Render the template: the text, and the spans of its generation blocks."""
        messages, last_text = self.messages, ""
        if self.continuation is not None:
            messages, last_text = self.continuation.mark_messages(messages)
        text, spans = self.template.render(
            {**self.variables, "messages": messages, "add_generation_prompt": self.add_generation_prompt}
        )
        return (text if self.continuation is None else self.continuation.cut(text, last_text)), spans

    def list_untrusted_texts(self) -> list[str]:
        """List the texts that users may have written: all but roles, and variables named like special tokens."""
        fields = [value for message in self.messages for name, value in message.items() if name != ROLE]
        names = [name for message in self.messages for name in message]
        others = [value for name, value in self.variables.items() if name not in ROLES]
        return list(iterate_texts([fields, names, others]))

    def map_untrusted_texts(self, change: Callable[[str], str], change_key: Callable[[str], str]) -> ChatRequest:
        """Change these texts, and the names of fields."""
        variables = {
            name: value if name in ROLES else map_texts(value, change, change_key)
            for name, value in self.variables.items()
        }
        return self._replace(messages=map_message_texts(self.messages, change, change_key), variables=variables)


def make_request(
    templates: Mapping[str, str],
    roles: Mapping[str, str],
    messages: object,
    add_generation_prompt: bool,
    continue_final_message: bool | str,
    chat_template: str | None,
    variables: Mapping[str, Any],
) -> ChatRequest:
    """Check the arguments of a call, and choose the template; `variables` has `tools` and `documents` too."""
    prompts = check_bool("add_generation_prompt", add_generation_prompt)
    if prompts and continue_final_message:
        raise ValueError(
            "add_generation_prompt and continue_final_message are both given; a text ends with the beginning of an "
            "answer, or within the last message: leave out one"
        )
    copies = copy_messages(messages)
    lists = {name: copy_objects(name, variables.get(name)) for name in ("tools", "documents")}
    source = choose_template(templates, chat_template, lists["tools"] is not None)
    others = {name: to_plain(value) for name, value in variables.items() if name not in lists}
    clock = {"strftime_now": datetime.now().strftime}  # one time for all renderings of a call
    request = ChatRequest(compile_template(source), copies, {**clock, **lists, **roles, **others}, prompts)
    if continue_final_message is False:
        return request
    all_texts = "\n".join(request.list_untrusted_texts())
    return request._replace(continuation=Continuation.make(continue_final_message, copies, source, all_texts))


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
            self._matches = self._find_matches()
        self.ids: NDArray[np.uint32] = (
            engine.encode(self.text, frozenset(engine.specials.ids))
            if self._matches is None
            else encode_at_matches(engine, self.text, self._matches)
        )

    def _find_matches(self) -> list[Match] | None:
        """Find the special tokens of the template, in bytes; None if users wrote none."""
        encoder, specials = self._offset_encoder, self._offset_encoder.engine.specials
        all_matches = find_matches(self.text, specials)
        matches = find_template_tokens(self._request, self.text, specials, all_matches)
        all_names = frozenset(specials.ids)
        if matches == all_matches and specials.select_normalized(all_names):  # some may be users', once normalized
            ids, offsets = encoder.encode_with_word_numbers(self.text, all_names, "char", "tokenizers")[:2]
            tokens = zip(*offsets.T.tolist(), ids.tolist(), strict=True)
            all_matches = [token for token in tokens if token[2] in specials.ids.values()]
        if matches == all_matches:
            return None
        byte_offsets = compute_byte_offsets(self.text).tolist()
        return [(byte_offsets[start], byte_offsets[end], token_id) for start, end, token_id in matches]

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
                a tokenizer with dropout; if the text ends within the last message.

        """
        check_fixed_ids(self._offset_encoder.engine.spec)
        if self._request.continuation is not None:
            raise ValueError("a mask is of whole answers; leave out continue_final_message")
        spans = self._generation_spans if self._request.template.marks_assistant else self._find_answers()
        if not spans:
            return np.zeros(len(self.ids), dtype=np.uint8)
        starts, ends = np.sort(np.array(spans), axis=0).T
        token_starts, token_ends = self._find_offsets().T
        # A token is in a span if more spans begin before its end than end up to its start.
        n_begun, n_ended = np.searchsorted(starts, token_ends), np.searchsorted(ends, token_starts, "right")
        mask: NDArray[np.uint8] = (n_begun > n_ended).astype(np.uint8)
        return mask

    def _find_offsets(self) -> NDArray[np.int64]:
        """Find the span of each token in the text, in characters, as `tokenizers` gives it."""
        encoder = self._offset_encoder
        spans = encoder.locate_ids(self.text, self.ids)
        if spans is not None:
            return spans
        if self._matches is None:
            all_names = frozenset(encoder.engine.specials.ids)
            return encoder.encode_with_word_numbers(self.text, all_names, "char", "tokenizers")[1]
        data = to_bytes(self.text)
        segments = prepare_at_matches(encoder.engine, data, self._matches, "tokenizers")
        return encoder.encode_given_segments(segments, self.text)

    def _find_answers(self) -> Spans:
        """Find the spans of the assistant's messages in the text, for a template that does not mark them.

        Each is found by rendering the conversation up to it twice, so that the cost is quadratic.
        """
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


def check_fixed_ids(spec: TokenizerSpec) -> None:
    """Refuse a tokenizer whose dropout makes ids random: those of a mask would be others."""
    if spec.dropout:
        raise ValueError("the tokenizer's dropout makes ids random; a mask needs a tokenizer without: spec.dropout")


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


def find_template_tokens(
    request: ChatRequest, text: str, specials: SpecialTokens, all_matches: list[Match]
) -> list[Match]:
    """Find those of the special tokens in a rendered text that are the template's.

    Raises:
        ValueError: if it cannot be known.

    """
    matches, names = all_matches, set[str]()
    while True:
        found_names = {_get_name(specials, text[start:end], token_id) for start, end, token_id in matches}
        if found_names <= names:
            return matches
        names |= found_names  # without users' tokens, others that overlapped with them may appear
        new_matches = _find_tokens_of_names(request, text, specials, tuple(sorted(names)), all_matches)
        if new_matches is None:
            start, end, _ = matches[0]
            raise ValueError(
                "the chat template's text depends on characters of special tokens in the messages, so which special "
                f"tokens, such as {text[start:end]!r}, are the template's is unknown; pass allowed_special='all' to "
                "encode all of them as their ids, or remove what looks like special tokens from the messages"
            )
        matches = new_matches


def _find_tokens_of_names(
    request: ChatRequest, text: str, specials: SpecialTokens, names: tuple[str, ...], all_matches: list[Match]
) -> list[Match] | None:
    """Find the template's tokens, of these names; others that are found may be users'. None if it cannot be known."""
    earlier_matches: list[Match] | None = None
    earlier_set_may_miss = False
    untrusted_text = "\n".join(request.list_untrusted_texts())
    for units, is_sure in list_unit_sets(names, request.template):
        if is_sure and not any(unit in untrusted_text for unit in units):
            return all_matches
        breaker = UnitBreaker.make(units, names, not is_sure, "".join([untrusted_text, text, *specials.ids]))
        changed_text = None if breaker is None else _render_broken(request, breaker, text)
        if changed_text is None:
            continue
        matches = find_matches(changed_text, specials)
        if is_sure:
            return matches
        may_miss = _may_miss(units, names, request.template.strings, untrusted_text)
        if earlier_matches is not None and not (may_miss and earlier_set_may_miss):
            return [match for match in matches if match in earlier_matches]
        # a template might join a pair of characters, but not the next pair of the name, too
        earlier_matches, earlier_set_may_miss = matches, may_miss
    return None


def _get_name(specials: SpecialTokens, matched_text: str, token_id: int) -> str:
    """Get the name of a token that was found; the text has white space at its ends that the token absorbed."""
    if specials.ids.get(matched_text) == token_id:
        return matched_text
    return next(name for name, other_id in specials.ids.items() if other_id == token_id)


def _render_broken(request: ChatRequest, breaker: UnitBreaker, text: str) -> str | None:
    """Render with the units of untrusted texts broken; None if the template makes another text of that."""
    try:
        changed_text = request.map_untrusted_texts(breaker.break_units, breaker.break_key).render()[0]
    except ValueError:  # the template refuses the changed messages
        return None
    return changed_text if breaker.restore(changed_text) == text else None


def _may_miss(units: Iterable[str], names: Iterable[str], template_strings: Iterable[str], text: str) -> bool:
    """Whether a text would have a name without any of the units if strings were removed, as a template may do."""
    for string in sorted(filter(_has_symbol, template_strings), key=len, reverse=True):
        text = text.replace(string, "\0")
    pattern = "|".join("\0*".join(map(re.escape, name)) for name in names)
    hidden_names = (found for found in re.findall(pattern, text) if "\0" in found) if "\0" in text else ()
    return any(not any(unit in found for unit in units) for found in hidden_names)


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
def list_unit_sets(names: tuple[str, ...], template: ChatTemplate) -> list[tuple[tuple[str, ...], bool]]:
    """List sets of units to break, each with whether it is sure to find users' tokens, however their parts are joined.

    Units are added for what the template does: if it decodes texts, or writes parts of tokens that users may complete.
    """
    sets = []
    for units in choose_units(names, template.strings) if not template.recodes else ():
        all_units = [*units, *template.decoders]
        if template.changes_case:
            for unit in units:
                all_units += map("".join, product(*({char.lower(), char, char.upper()} for char in unit)))
        for name in names:
            all_units += template.list_completions(name, units)
        is_sure = all(len(unit) == 1 for unit in units)
        if not is_sure:
            all_units += [unit[::-1] for unit in units]
        sets.append((tuple(dict.fromkeys(all_units)), is_sure))
    return sets


def choose_units(names: tuple[str, ...], template_strings: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Choose sets of units, each of one to four characters, such that each set has a unit of each name.

    The first set is of single characters. No pair of adjacent characters is in units of two later sets. What the
    template's strings have outside names is avoided, since the template may look for it.

    >>> choose_units(("<|user|>", "<|end|>", "<s>"), ("<|user|>", "<think>"))[:3]
    [('|', '<'), ('|', '<s'), ('<|', 's>')]
    """
    strings = "\n".join(template_strings)
    for name in sorted(names, key=len, reverse=True):
        strings = strings.replace(name, "")
    names_by_unit: dict[str, set[str]] = {}
    for name in names:
        for start, length in product(range(len(name)), range(1, _MAX_UNIT_CHARS + 1)):
            unit = name[start : start + length]
            if _has_symbol(unit) or not _has_symbol(name):
                names_by_unit.setdefault(unit, set()).add(name)
    # Short units are surer to be found; of those that the template has, long ones are less often in messages.
    preference = {unit: (1, -len(unit)) if unit in strings else (0, len(unit)) for unit in names_by_unit}
    sets = [_cover(names, {unit: names_by_unit[unit] for unit in names_by_unit if len(unit) == 1}, preference)]
    while len(sets) <= _MAX_SETS and (units := _cover(names, names_by_unit, preference)):
        if units != sets[0]:
            sets.append(units)
        used_pairs = {pair for unit in units for pair in pairwise(unit)}
        for unit in [unit for unit in names_by_unit if unit in units or not used_pairs.isdisjoint(pairwise(unit))]:
            del names_by_unit[unit]
    return sets


def _cover(
    names: Iterable[str], names_by_unit: Mapping[str, set[str]], preference: Mapping[str, tuple[int, int]]
) -> tuple[str, ...]:
    """Choose units such that each name has one; none if there are not enough."""
    units, uncovered = list[str](), set(names)
    while uncovered:
        counts = {unit: len(covered & uncovered) for unit, covered in names_by_unit.items()}
        ranks = [(*preference[unit], -count, unit) for unit, count in counts.items() if count]
        if not ranks:
            return ()
        units.append(min(ranks)[-1])
        uncovered -= names_by_unit[units[-1]]
    return tuple(units)


def _has_symbol(text: str) -> bool:
    """Whether a text has a character that the names of fields have not."""
    return any(not char.isalnum() and not char.isspace() and char != "_" for char in text)


class UnitBreaker(NamedTuple):
    """Replaces the first characters of units by substitutes, so that no special token is whole.

    Attributes:
        units: what is broken.
        names: the names of special tokens.
        breaks_ends: whether parts of names at the ends of texts are broken, too.
        substitutes: character → substitute.

    """

    units: tuple[str, ...]
    names: tuple[str, ...]
    breaks_ends: bool
    substitutes: dict[str, str]

    @classmethod
    def make(cls, units: tuple[str, ...], names: tuple[str, ...], breaks_ends: bool, text: str) -> UnitBreaker | None:
        """Choose substitutes that are not in a text; None if there are no such."""
        chars = sorted({unit[0] for unit in units}.union(*names))
        for start in _SUBSTITUTE_STARTS:
            substitutes = {char: chr(start + index) for index, char in enumerate(chars)}
            if not any(substitute in text for substitute in substitutes.values()):
                return cls(units, names, breaks_ends, substitutes)
        return None

    def break_units(self, text: str) -> str:
        """Replace the characters in a text."""
        for unit in self.units:
            if unit in text:
                text = text.replace(unit, self.substitutes[unit[0]] + unit[1:])
        return self._break_ends(text) if self.breaks_ends else text

    def restore(self, text: str) -> str:
        """Replace the substitutes by the characters; `str.translate` takes ten times as long."""
        for char, substitute in self.substitutes.items():
            text = text.replace(substitute, char)
        return text

    def break_key(self, key: str) -> str:
        """Replace the characters in the name of a field, letters only if they are the whole name of a token."""
        for unit in (*filter(_has_symbol, self.units), *(name for name in self.names if not _has_symbol(name))):
            if unit in key:
                key = key.replace(unit, self.substitutes[unit[0]] + unit[1:])
        return key

    def _break_ends(self, text: str) -> str:
        """Break parts of names at the ends of a text, which a template may join with those of other texts."""
        core = text.strip()
        start = text.find(core)
        end = start + len(core)
        for name in self.names:
            if core and core in name and _has_symbol(core):
                return text[:start] + "".join(map(self.substitutes.__getitem__, core)) + text[end:]
            for length in range(1, min(len(name), len(core) + 1)):
                if text.startswith(name[-length:], start):
                    position = start + length - 1
                    text = text[:position] + self.substitutes[name[-1]] + text[position + 1 :]
                if text.endswith(name[:length], start, end):
                    position = end - length
                    text = text[:position] + self.substitutes[name[0]] + text[position + 1 :]
        return text
