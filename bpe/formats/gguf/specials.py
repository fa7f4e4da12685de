"""The special tokens of a GGUF file, as llama.cpp finds them.

Tokens of type user-defined are found in every text; control and unknown tokens if they are allowed (`parse_special`).
llama.cpp knows some names, whose types it changes. It seeks one token after the other, the longest first, in the text
as it is: each in what the longer ones have left.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any

from bpe.errors import FormatError, short_repr
from bpe.formats.sentencepiece.model import CONTROL, NORMAL, UNKNOWN, USER_DEFINED

#: Names that are control tokens: they end texts, or stand for the parts of a text to fill in.
_CONTROL_NAMES = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
    "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
    "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[", "<|ifm|im_end|>",
)  # fmt: skip
#: The keys that name the token of a role → the names that have it if no key does.
_ROLES: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("fim_pre_token_id", "prefix_token_id"): (
        "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>",
        "<|prefix|>", "<|plamo:fim_prefix|>",
    ),
    ("fim_suf_token_id", "suffix_token_id"): (
        "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>",
        "<|suffix|>", "<|plamo:fim_suffix|>",
    ),
    ("fim_mid_token_id", "middle_token_id"): (
        "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>",
        "<|middle|>", "<|plamo:fim_middle|>",
    ),
    ("fim_pad_token_id",): ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    ("fim_rep_token_id",): ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    ("fim_sep_token_id",): ("<|file_sep|>", "<|plamo:file_separator|>"),
}  # fmt: skip
#: Names that are user-defined tokens.
_USER_DEFINED_NAMES = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")
#: The most steps to compare special tokens; published models need none, or some thousands.
_MAX_COMPARISONS = 10**7


def find_types(tokens: Mapping[str, int], types: list[int], values: Mapping[str, Any]) -> list[int]:
    """Find the types that llama.cpp gives the tokens: those of the file, but for some names.

    Raises:
        FormatError: for several names of one role, of which it takes any.

    """
    types = list(types)

    def set_types(names: tuple[str, ...], token_type: int) -> None:
        for name in names:
            if name in tokens:
                types[tokens[name]] = token_type

    for keys, names in _ROLES.items():
        if any(isinstance(token_id := values.get(key), int) and 0 <= token_id < len(tokens) for key in keys):
            continue
        present_names = tuple(name for name in names if name in tokens)
        if len(present_names) > 1 and any(types[tokens[name]] != CONTROL for name in present_names):
            raise FormatError(
                f"tokens {short_repr(present_names[0])} and {short_repr(present_names[1])} have the same role, "
                "and llama.cpp takes "
                f"either for a control token; make both of type control, or set tokenizer.ggml.{keys[0]}"
            )
        set_types(present_names, CONTROL)
    set_types(_CONTROL_NAMES, CONTROL)
    set_types(_USER_DEFINED_NAMES, USER_DEFINED)
    call_names = tokens.keys() & {"<|call|>", "<|calls|>"}
    if call_names and tokens.keys() & {"<|return|>", "<|flush|>"}:
        set_types(("<|end|>",), USER_DEFINED)
    if "<|tool_response>" in tokens:
        set_types(("</s>",), NORMAL)
    return types


def list_added_tokens(
    tokens: Mapping[str, int], types: list[int], values: Mapping[str, Any], normalized_chars: str | None = ""
) -> list[dict[str, Any]]:
    """List the special tokens as the added tokens of a tokenizer.json.

    Args:
        tokens: token → id.
        types: the type of each token.
        values: the file's values.
        normalized_chars: the characters that the normalizer changes or makes; None if it also adds some to each text.

    Raises:
        FormatError: for tokens that overlap so that one search after another is needed more than twice.

    """
    special_types = {
        name: types[token_id]
        for name, token_id in tokens.items()
        if types[token_id] in (UNKNOWN, CONTROL, USER_DEFINED)
    }
    second_pass = _find_second_pass(special_types, tokens, normalized_chars)
    strip_flags = dict(_find_strip_flags(special_types, values))
    return [
        {
            "id": tokens[name],
            "content": name,
            "normalized": name in second_pass,
            "special": token_type != USER_DEFINED,
            **strip_flags.get(name, {}),
        }
        for name, token_type in special_types.items()
    ]


def _find_strip_flags(
    special_types: Mapping[str, int], values: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, bool]]]:
    """Find the tokens that take the white space beside them, which llama.cpp knows by the names of models."""
    model, pattern_name = str(values.get("general.name", "")).lower(), str(values.get("pre", ""))
    architecture = str(values.get("general.architecture", ""))
    if any(name in pattern_name for name in ("jina-v2-de", "jina-v2-es", "jina-v2-code", "mmbert")) or any(
        name in architecture for name in ("nomic-bert-moe", "jina-bert-v3")
    ):
        yield "<mask>", {"lstrip": True}
    elif "phi-3" in model or "phi3" in model:
        for name in special_types.keys() - {"<unk>", "<s>", "<|endoftext|>"}:
            yield name, {"rstrip": True}
    elif "modern-bert" in model:
        yield "[MASK]", {"lstrip": True}


def _find_second_pass(
    special_types: Mapping[str, int], tokens: Mapping[str, int], normalized_chars: str | None
) -> set[str]:
    """Find the tokens to seek after the others, so that the longest one is found where tokens overlap.

    One search finds the token that begins first, llama.cpp the longest one: `bcd`, not `ab`, in `abcd`.
    """
    longest_first = sorted(special_types, key=lambda name: (-len(name.encode()), tokens[name]))
    first_pass, second_pass = set[str](), set[str]()
    overlaps = _OverlapFinder(
        longest_first, {name for name, token_type in special_types.items() if token_type == USER_DEFINED}
    )
    for name in longest_first:
        longer = overlaps.find_longer(name, second_pass or first_pass)
        if longer is not None and (second_pass or normalized_chars is None):
            raise FormatError(
                f"special tokens {short_repr(longer)} and {short_repr(name)} overlap, and llama.cpp seeks the longest "
                "first; this is not supported here: make one of them of type normal"
            )
        (second_pass if second_pass or longer is not None else first_pass).add(name)
    if changed_names := [name for name in second_pass if set(name) & set(normalized_chars or "")]:
        raise FormatError(
            f"special token {short_repr(changed_names[0])} has a space or U+2581 and overlaps a longer one; this is "
            "not supported: make one of them of type normal"
        )
    return second_pass


class _OverlapFinder:
    """Finds special tokens that begin within another one of them."""

    def __init__(self, names: list[str], always_found: set[str]) -> None:
        self._sorted_names, self._always_found, self._n_comparisons = sorted(names), always_found, 0
        self._first_chars = {name[0] for name in names}

    def find_longer(self, name: str, longer: set[str]) -> str | None:
        """Find a token of `longer` that can begin inside `name`, in a text where no longer token hides it.

        None if there is none.
        """
        for start in range(1, len(name)):
            if name[start] in self._first_chars:
                for candidate in self._list_beginning_with(name[start:]):
                    if candidate in longer and not self._is_hidden(name, name[:start] + candidate, candidate):
                        return candidate
        return None

    def _list_beginning_with(self, start: str) -> Iterator[str]:
        for i in range(bisect_left(self._sorted_names, start), len(self._sorted_names)):
            self._n_comparisons += 1
            if self._n_comparisons > _MAX_COMPARISONS:
                raise FormatError("too many special tokens overlap to compare them; make most of them of type normal")
            if not self._sorted_names[i].startswith(start):
                return
            if self._sorted_names[i] != start:
                yield self._sorted_names[i]

    def _is_hidden(self, name: str, text: str, candidate: str) -> bool:
        """Whether a token that is found in every text, or the other one, is at the beginning of a text instead."""
        prefixes = (text[:end] for end in range(len(name) + 1, len(text) + 1))
        return any(prefix in self._always_found or prefix == candidate for prefix in prefixes)
