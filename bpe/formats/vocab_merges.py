"""`vocab.json` and `merges.txt` of GPT-2, and the files that `transformers` writes beside them.

`vocab.json` maps each token, in GPT-2's letters, to its id; each line of `merges.txt` has the two parts of a merge,
best rank first. Neither holds the pretokenizer or the special tokens. In a folder, these are in `tokenizer_config.json`
(whose `tokenizer_class` stands for the pretokenizer), `special_tokens_map.json` and `added_tokens.json`. The files are
translated into the shape of a tokenizer.json, which `huggingface/` reads. Files named `vocab.bpe` and `encoder.json`:
`read_gpt2_ranks` in `tiktoken.py`.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bpe.encode.engine import Engine
from bpe.errors import FormatError, check_iterable, check_unicode, describe, short_repr, with_path
from bpe.formats import huggingface
from bpe.formats.configuration import (
    ADDED_TOKENS_FIELD,
    OLD_EXTRA_FIELD,
    describe_added_tokens,
    find_added_tokens,
    get_token_text,
    read_configuration,
    read_object,
    read_roles,
)
from bpe.formats.huggingface.added_tokens import add_tokens
from bpe.formats.huggingface.expressible import explain_different_ids
from bpe.formats.packed import decode_text, unpack
from bpe.formats.schema import read_field, read_text
from bpe.formats.signatures import ADDED_TOKENS_JSON, CONFIG_JSON, MERGES_TXT, SPECIAL_MAP_JSON, VOCAB_JSON
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.text.letters import spell_token_in_letters
from bpe.text.normalizers import NFC, Normalizer
from bpe.vocab.merging import merging_suffices
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import ORDINARY, SPECIAL

MERGES_HEADER = "#version: 0.2"
END_OF_TEXT = "<|endoftext|>"


@dataclass(frozen=True)
class TokenizerClass:
    """What a `tokenizer_class` of `transformers` stands for.

    Attributes:
        roles: the default of each special token.
        pattern: the name of the pretokenizer.
        normalizer: the normalizer.
        template: the fields with the tokens before and after a text.
        special_without_flags: whether special tokens have no flags, whatever the configuration says.

    """

    roles: Mapping[str, Any]
    pattern: str = "gpt2"
    normalizer: Normalizer | None = None
    template: tuple[str, str] | None = None
    special_without_flags: bool = False


_GPT2 = TokenizerClass(dict.fromkeys(("bos_token", "eos_token", "unk_token"), END_OF_TEXT))
_ROBERTA = TokenizerClass(
    template=("cls_token", "sep_token"),
    roles={
        "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>", "pad_token": "<pad>",
        "cls_token": "<s>", "mask_token": "<mask>",
    },
)  # fmt: skip
#: The classes that are read, without a `Fast` at the end.
TOKENIZER_CLASSES: Mapping[str, TokenizerClass] = {
    "GPT2Tokenizer": _GPT2,
    "CodeGenTokenizer": _GPT2,
    "Qwen2Tokenizer": TokenizerClass(
        dict.fromkeys(("eos_token", "unk_token", "pad_token"), END_OF_TEXT), "qwen2", NFC(), special_without_flags=True
    ),
    **dict.fromkeys(("RobertaTokenizer", "LongformerTokenizer", "BartTokenizer", "LEDTokenizer"), _ROBERTA),
}


def read(files: Mapping[str, bytes]) -> TokenizerSpec:
    """Read the files of a folder: name → content. `vocab.json` and `merges.txt` are required.

    Without a configuration, the pretokenizer is GPT-2's, and `<|endoftext|>` is special if it is a token.

    Raises:
        FormatError: for files that are invalid or do not fit together; it names the file and the line or field.

    """
    config = read_configuration(files)
    name = read_field(config, CONFIG_JSON, "tokenizer_class", read_text, None)
    tokenizer_class = TOKENIZER_CLASSES.get((name or "GPT2Tokenizer").removesuffix("Fast"))
    if tokenizer_class is None:
        raise FormatError(
            f"it is {short_repr(name)}, whose pretokenizer is not known; known are {', '.join(TOKENIZER_CLASSES)}: "
            "load the two files with their pretokenizer, Tokenizer.from_vocab_merges(vocab, merges, pretokenizer)",
            where=f"{CONFIG_JSON}: tokenizer_class",
        )
    spec = _build(_read_vocab(files), files[MERGES_TXT], [], tokenizer_class.normalizer)
    added_tokens = find_added_tokens(
        files, {}, tokenizer_class.roles, special_without_flags=tokenizer_class.special_without_flags
    )
    if CONFIG_JSON not in files and not spec.vocabulary.find_ids([END_OF_TEXT.encode()]):
        added_tokens.pop(END_OF_TEXT, None)  # the class is not known, and neither is a token that is missing
    with with_path(None, CONFIG_JSON):
        spec = add_tokens(spec, added_tokens)
    prefix = read_field(config, CONFIG_JSON, "add_prefix_space", bool, False)
    return replace(
        spec,
        ignore_merges=read_field(config, CONFIG_JSON, "ignore_merges", bool, False),
        pretokenizer=Pretokenizer(tokenizer_class.pattern, add_prefix_space=prefix),
        roles=read_roles(config, spec.special_tokens, tokenizer_class.roles),
        template=_read_template(config, tokenizer_class, spec),
    )


def read_two_files(
    vocab: bytes,
    merges: bytes,
    pretokenizer: Pretokenizer | None,
    normalizer: Normalizer | None,
    special_tokens: Mapping[str, int] | None,
) -> TokenizerSpec:
    """Read the two files alone, with the settings that they do not hold.

    `special_tokens` maps names to ids; None stands for `<|endoftext|>`, if it is a token.

    Raises:
        FormatError: for invalid files; it names the file and the line or field.

    """
    files = {VOCAB_JSON: vocab, MERGES_TXT: merges}
    ids = _read_vocab(files)
    if special_tokens is None:
        special_tokens = {END_OF_TEXT: ids[END_OF_TEXT]} if END_OF_TEXT in ids else {}
    by_id = sorted(special_tokens.items(), key=lambda item: item[1])
    added_tokens = [{"id": token_id, "content": name, "special": True} for name, token_id in by_id]
    return replace(_build(ids, merges, added_tokens, normalizer), pretokenizer=pretokenizer)


def make_vocab_file(vocab: Mapping[str, int] | Mapping[bytes, int], special_tokens: Mapping[str, int]) -> bytes:
    """Make the `vocab.json` of tokens with their ids. The names of special tokens are not in letters.

    Raises:
        TypeError: for a token that is not str or bytes, or an id that is not an int.
        FormatError: for a token that occurs as bytes and in letters.

    """
    ids: dict[str, int] = {}
    for token, token_id in vocab.items():
        name = _spell_in_letters(token, "vocab")
        if isinstance(token, bytes) and (text := token.decode("utf-8", "replace")) in special_tokens:
            name = text
        if isinstance(token_id, bool) or not hasattr(token_id, "__index__"):
            raise TypeError(f"the id of {short_repr(token)} is {describe(token_id)}; it must be an int")
        if name in ids:
            raise FormatError(
                f"token {short_repr(token)} occurs twice, as bytes and in letters; give it once", where="vocab"
            )
        ids[name] = operator.index(token_id)
    return json.dumps(ids).encode()


def make_merges_file(merges: Iterable[str] | Iterable[tuple[str, str]] | Iterable[tuple[bytes, bytes]]) -> bytes:
    """Make the `merges.txt` of pairs of tokens, or of strings with a space between the two.

    Raises:
        TypeError: for anything else.
        FormatError: for a token with white space, which is not in GPT-2's letters.

    """
    check_iterable("merges", merges, "a path, or pairs of tokens")
    lines = [MERGES_HEADER]
    for index, merge in enumerate(merges):
        where = f"merges[{index}]"
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(
                f"{where} is {describe(merge)}; it must be a pair of tokens, or a str with a space between two"
            )
        names = [_spell_in_letters(token, where) for token in pair]
        if any(not name or re.search(r"\s", name) for name in names):
            raise FormatError(
                f"it is {short_repr(merge)}; tokens are bytes, or str in GPT-2's letters: Ġ for a space", where=where
            )
        lines.append(" ".join(names))
        check_unicode(where, lines[-1])
    return "\n".join([*lines, ""]).encode()


def _spell_in_letters(token: object, where: str) -> str:
    if isinstance(token, bytes):
        return spell_token_in_letters(token)
    if not isinstance(token, str):
        raise TypeError(f"a token of {where} is {describe(token)}; it must be bytes, or a str in GPT-2's letters")
    return token


def write(spec: TokenizerSpec) -> dict[str, bytes]:
    """Write the five files of a folder: name → content. `GPT2Tokenizer` of `transformers` reads them.

    What the files do not keep is not checked here (`saving.py` reads them again).

    Raises:
        ValueError: for a tokenizer that they cannot hold at all.

    """
    reason = (
        explain_different_ids(spec) if spec.model == "byte" else "it has a character model, and the format holds bytes"
    )
    if reason is None and spec.end_of_word is not None:
        reason = "it has an end-of-word mark"
    if reason is not None:
        raise ValueError(f"format vocab-merges cannot hold this tokenizer: {reason}; save it as huggingface")
    letters = {token_id: spell_token_in_letters(token) for token_id, token in spec.vocabulary.items(ORDINARY)}
    special_names = {token_id: token.decode() for token_id, token in spec.vocabulary.items(SPECIAL)}
    vocab = {token: token_id for token_id, token in sorted({**letters, **special_names}.items())}
    pairs = (f"{letters[left]} {letters[right]}\n" for left, right in spec.merges.tolist())
    config, roles = _write_config(spec)
    return {
        VOCAB_JSON: json.dumps(vocab, ensure_ascii=False).encode(),
        MERGES_TXT: f"{MERGES_HEADER}\n{''.join(pairs)}".encode(),
        CONFIG_JSON: _dump(config),
        SPECIAL_MAP_JSON: _dump(roles),
        ADDED_TOKENS_JSON: _dump({}),  # every token is in vocab.json
    }


def _dump(value: object) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


def _write_config(spec: TokenizerSpec) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the objects of tokenizer_config.json and special_tokens_map.json."""
    special_names = [name for name in spec.special_tokens if "ordinary" not in spec.token_flags.get(name, ())]
    pretokenizer, names = spec.pretokenizer, {token_id: name for name, token_id in spec.special_tokens.items()}
    class_name, roles = "GPT2Tokenizer", {}
    if pretokenizer is not None and pretokenizer.name == "qwen2" and isinstance(spec.normalizer, NFC):
        class_name = "Qwen2Tokenizer"
    template = [[names.get(token_id) for token_id in template_ids] for template_ids in spec.template or ((), ())]
    if len(template[0]) == len(template[1]) == 1 and None not in (*template[0], *template[1]):
        class_name, roles = "RobertaTokenizer", {"cls_token": template[0][0], "sep_token": template[1][0]}
    known_roles = spec.roles or {
        role: get_token_text(default) for role, default in TOKENIZER_CLASSES[class_name].roles.items()
    }
    roles = {role: known_roles.get(role) for role in {**TOKENIZER_CLASSES[class_name].roles, **known_roles}} | roles
    roles = {role: token if token in special_names else None for role, token in roles.items()}
    config: dict[str, Any] = {
        "tokenizer_class": class_name,
        "add_prefix_space": pretokenizer is not None and pretokenizer.add_prefix_space,
        ADDED_TOKENS_FIELD: describe_added_tokens(spec),
        "clean_up_tokenization_spaces": False,
        **roles,
    }
    if spec.ignore_merges and merging_suffices(spec, Engine):
        config["ignore_merges"] = True  # other programs, which do not know the field, give the same ids without it
    if template[0] and not template[1] and class_name != "RobertaTokenizer":
        config |= {"add_bos_token": True, "bos_token": template[0][0]}
    unassigned = [token for token in special_names if token not in roles.values()]
    config[OLD_EXTRA_FIELD] = unassigned
    return config, {
        **{role: token for role, token in roles.items() if token is not None},
        OLD_EXTRA_FIELD: unassigned,
    }


def _read_vocab(files: Mapping[str, bytes]) -> dict[str, int]:
    for name in (VOCAB_JSON, MERGES_TXT):
        if name not in files:
            raise FormatError(f"{name} is missing; vocab.json and merges.txt belong together")
    return read_object(files, VOCAB_JSON)


def _read_lines(data: bytes) -> list[str]:
    """Read the lines of a merge list, of which the first may be a header."""
    lines = decode_text(unpack(data), "it must be a merge list").split("\n")
    if lines[-1] == "":
        lines.pop()
    for line_number, line in enumerate(lines, 1):
        if line.count(" ") != 1 and not (line_number == 1 and line.startswith("#version")):
            rule = "is not the two parts of a merge, separated by a space"
            raise FormatError(f"{short_repr(line)} {rule}", where=f"line {line_number}")
    return lines


def _build(
    vocab: dict[str, int], merges: bytes, added_tokens: list[dict[str, Any]], normalizer: Normalizer | None
) -> TokenizerSpec:
    """Build the spec of a vocabulary, merges and added tokens, read in the shape of a tokenizer.json."""
    with with_path(None, MERGES_TXT):
        lines = _read_lines(merges)
    has_header = bool(lines) and lines[0].startswith("#version")
    value = {
        "added_tokens": added_tokens,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "model": {"type": "BPE", "vocab": vocab, "merges": [line.removesuffix("\r") for line in lines[has_header:]]},
    }
    try:
        spec = huggingface.read(json.dumps(value, ensure_ascii=False).encode())
    except FormatError as error:
        where = error.where or ""
        line = re.fullmatch(r"model\.merges\[(\d+)\]", where)
        if line is not None:
            where = f"{MERGES_TXT}, line {int(line[1]) + has_header + 1}"
        elif where.startswith("model.vocab"):
            where = VOCAB_JSON + where.removeprefix("model.vocab")
        raise FormatError(error.message, where=where or None) from None
    return replace(spec, normalizer=normalizer)


def _read_template(
    config: dict[str, Any], tokenizer_class: TokenizerClass, spec: TokenizerSpec
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Read the ids before and after a text."""
    roles: tuple[str | None, ...] | None = tokenizer_class.template
    if roles is None:
        bos, eos = (read_field(config, CONFIG_JSON, f"add_{role}_token", bool, False) for role in ("bos", "eos"))
        roles = ("bos_token" if bos else None, "eos_token" if eos else None)
    template = tuple(() if role is None else (_find_role(config, tokenizer_class, spec, role),) for role in roles)
    return (template[0], template[1]) if any(template) else None


def _find_role(config: dict[str, Any], tokenizer_class: TokenizerClass, spec: TokenizerSpec, role: str) -> int:
    """Find the id of the token of a role, which must be a special one."""
    content = get_token_text(config.get(role, tokenizer_class.roles.get(role)))
    if not isinstance(content, str) or content not in spec.special_tokens:
        raise FormatError(f"{short_repr(content)} is not a special token", where=f"{CONFIG_JSON}: {role}")
    return spec.special_tokens[content]
