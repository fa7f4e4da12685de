"""A folder with a rank file and its `tokenizer_config.json`, as Kimi and Qwen 1 are published.

The rank file is called `tiktoken.model` or ends in `.tiktoken`. The configuration lists the special tokens. The pattern
is in the Python code of the repository, which is never run: it follows from the `tokenizer_class`, or is in the field
`pat_str` of the configuration, where this package writes it. Rank files by themselves: `tiktoken.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from bpe.base.fast_dataclasses import replace
from bpe.encode.engine import Engine
from bpe.errors import FormatError, short_repr, with_path
from bpe.formats import tiktoken
from bpe.formats.configuration import read_object, read_roles
from bpe.formats.schema import errors_at, is_id, read_field, read_text
from bpe.formats.signatures import CONFIG_JSON, QWEN_TIKTOKEN, TIKTOKEN_MODEL, find_rank_file
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.text.normalizers import NFC
from bpe.vocab.merging import merging_suffices
from bpe.vocab.spec import MATCHING_FLAGS, TokenizerSpec
from bpe.vocab.vocabulary import ORDINARY, Vocabulary

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER_CASE, _LOWER_CASE = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
#: The pattern of `TikTokenTokenizer` in the repositories of Kimi and Moonlight (tokenization_kimi.py).
KIMI_PATTERN = "|".join(
    (
        r"[\p{Han}]+",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER_CASE}*{_LOWER_CASE}+{_CONTRACTION}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER_CASE}+{_LOWER_CASE}*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
#: How many special tokens follow Kimi's ranks. Those that the configuration does not list are reserved.
N_KIMI_SPECIAL_TOKENS, KIMI_RESERVED_NAME = 256 + 2, "<|reserved_token_{}|>"
#: The special tokens that follow the ranks of Qwen 1 (tokenization_qwen.py).
QWEN_SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205)))
KIMI_CLASS = "TikTokenTokenizer"
#: The classes whose pattern is known: the modules of the repositories in which it is.
MODULES_BY_CLASS: Mapping[str, tuple[str, ...]] = {
    KIMI_CLASS: ("tokenization_kimi", "tokenization_moonshot"),
    "QWenTokenizer": ("tokenization_qwen",),
}


def read(files: Mapping[str, bytes]) -> TokenizerSpec:
    """Read the files of a folder: name → content; a rank file and `tokenizer_config.json` are required.

    Raises:
        FormatError: for invalid files, and where the pattern is not known; it names the file and the line or field.

    """
    name = find_rank_file(list(files))
    if name is None or CONFIG_JSON not in files:
        raise FormatError(f"a rank file and its {CONFIG_JSON} belong together; one of them is missing")
    config = read_object(files, CONFIG_JSON)
    with with_path(None, CONFIG_JSON):
        class_name, pattern = (
            read_field(config, "", field, read_text, None) for field in ("tokenizer_class", "pat_str")
        )
        if pattern is None:
            _check_class(class_name, config.get("auto_map"))
        special_ids, ordinary_names = _read_special_tokens(config)
        pretokenizer = Pretokenizer("qwen2")
        if pattern is not None or class_name == KIMI_CLASS:
            with errors_at("pat_str"):
                pretokenizer = tiktoken.parse_pattern(pattern or KIMI_PATTERN)
    with with_path(None, name):
        spec = tiktoken.read(files[name], pretokenizer, special_ids if pattern else {})
    with with_path(None, CONFIG_JSON):
        if not read_field(config, "", "ignore_merges", bool, True):
            spec = replace(spec, ignore_merges=False, unmerged=None)
        if pattern is None:
            spec = _add_class_tokens(spec, class_name, special_ids)
        flags = {name: frozenset({"ordinary"}) for name in ordinary_names if name in spec.special_tokens}
        return replace(spec, token_flags=flags, roles=read_roles(config, spec.special_tokens, {}))


def _add_class_tokens(spec: TokenizerSpec, class_name: str | None, special_ids: dict[str, int]) -> TokenizerSpec:
    """Add the special tokens that the code of the class of a tokenizer puts after the ranks."""
    first_id = int(spec.vocabulary.limit)
    if class_name == KIMI_CLASS:
        names = {token_id: name for name, token_id in special_ids.items()}
        special_ids = {
            names.get(i, KIMI_RESERVED_NAME.format(i)): i for i in range(first_id, first_id + N_KIMI_SPECIAL_TOKENS)
        }
    else:
        special_ids = {**special_ids, **{name: first_id + i for i, name in enumerate(QWEN_SPECIAL_TOKENS)}}
        spec = replace(spec, normalizer=NFC())
    with errors_at("added_tokens_decoder"):
        by_id = ((token_id, name.encode()) for name, token_id in special_ids.items())
        vocabulary = Vocabulary(spec.vocabulary.items(ORDINARY), by_id)
    return replace(spec, vocabulary=vocabulary, special_tokens=special_ids)


def _check_class(class_name: str | None, auto_map: Any) -> None:
    """Raise FormatError for a class whose pattern is not known: another class, or the class of another repository."""
    module = auto_map.get("AutoTokenizer") if isinstance(auto_map, dict) else auto_map
    module = module[0] if isinstance(module, list) and module else module
    modules = MODULES_BY_CLASS.get(class_name or "", ())
    fix = (
        "write the pattern to the field pat_str of this file, or load the rank file with it, "
        "Tokenizer.from_tiktoken(path, pretokenizer, special_tokens)"
    )
    if not modules:
        raise FormatError(f"it is {short_repr(class_name)}, whose pattern is not known; {fix}", where="tokenizer_class")
    if module is not None and (
        not isinstance(module, str) or module.rsplit("--")[-1].rpartition(".")[0] not in modules
    ):
        rule = f"the pattern of the class {class_name} is known only for {' and '.join(modules)}"
        raise FormatError(f"it is {short_repr(module)}; {rule}: {fix}", where="auto_map")


def _read_special_tokens(config: dict[str, Any]) -> tuple[dict[str, int], list[str]]:
    """Read the tokens in `added_tokens_decoder`, name → id, and the names of those that are not special.

    Other flags have no effect in tiktoken.
    """
    special_ids: dict[str, int] = {}
    ordinary_names: list[str] = []
    entries: dict[str, Any] = read_field(config, "", "added_tokens_decoder", dict, {})
    for token_id, item in entries.items():
        content = item.get("content") if isinstance(item, dict) else None
        if not isinstance(content, str) or not content or not is_id(token_id) or content in special_ids:
            where = f"added_tokens_decoder[{short_repr(token_id)}]"
            raise FormatError(f"{short_repr(item)} is not a token of its own, with an id and a content", where=where)
        special_ids[content] = int(token_id)
        if not read_field(item, f"added_tokens_decoder[{short_repr(token_id)}]", "special", bool, True):
            ordinary_names.append(content)
    with errors_at("added_tokens_decoder"):
        return tiktoken.check_special_ids(special_ids), ordinary_names


def write(spec: TokenizerSpec) -> dict[str, bytes]:
    """Write the two files of a folder: name → content. The tokenizer of Qwen 1 becomes a `QWenTokenizer`.

    Raises:
        ValueError: for a tokenizer that they cannot hold at all.

    """
    if spec.pretokenizer is None:
        raise ValueError(
            "format tiktoken-folder cannot hold a tokenizer without a pretokenizer; save it as huggingface"
        )
    ranks = QWEN_TIKTOKEN if _is_qwen(spec) else TIKTOKEN_MODEL
    config: dict[str, Any] = {"tokenizer_class": "QWenTokenizer"}
    if ranks == TIKTOKEN_MODEL:
        config = {
            "tokenizer_class": KIMI_CLASS,
            "pat_str": tiktoken.write_pattern(spec.pretokenizer),
            "added_tokens_decoder": {
                str(token_id): {
                    "content": name,
                    **dict.fromkeys(MATCHING_FLAGS, False),
                    "special": "ordinary" not in spec.token_flags.get(name, ()),
                }
                for name, token_id in sorted(spec.special_tokens.items(), key=lambda item: item[1])
            },
        }
    config |= spec.roles
    if not spec.ignore_merges and merging_suffices(spec, Engine):
        config["ignore_merges"] = False  # other programs, which do not know the field, give the same ids without it
    return {
        ranks: tiktoken.write(spec),
        CONFIG_JSON: (json.dumps(config, ensure_ascii=False, indent=2) + "\n").encode(),
    }


def _is_qwen(spec: TokenizerSpec) -> bool:
    """Whether a tokenizer has what the class `QWenTokenizer` stands for, and no other special tokens."""
    first_id = int(np.count_nonzero(spec.vocabulary.kinds == ORDINARY))  # as its code counts
    special_ids = {name: first_id + i for i, name in enumerate(QWEN_SPECIAL_TOKENS)}
    return (
        dict(spec.special_tokens) == special_ids
        and spec.normalizer == NFC()
        and spec.pretokenizer == Pretokenizer("qwen2")
    )
