"""OpenAI's rank files: each line is a token in base64, a space and the token's rank.

Rank files have no merges; they are recovered from the ranks. tiktoken merges any two adjacent parts whose concatenation
is a token, lowest rank first. Merging a stretch of text that no merge has crossed gives the same parts as merging it
alone. So the two parts that become a token are always the two that remain before the last merge when the token's own
bytes are merged alone, and this pair is the token's only merge.

Exception: if merging a token's bytes needs a merge with a worse rank than the token's own, no list of merges sorted by
rank is equivalent. (No training produces such ranks.) Then every split of every token is listed with the token's rank,
which is tiktoken's rule itself. OpenAI's published encodings: `openai_encodings.py`; downloading: `bpe/named`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import compute_offsets
from bpe.base.utf8 import read_file
from bpe.encode._encoder import Encoder
from bpe.errors import ID_LIMIT, FormatError, check_bool, check_int, describe, short_repr, with_article, with_path
from bpe.formats._ranks import RankTable, read_ranks
from bpe.formats.openai_encodings import ENCODINGS, FILES, PublishedEncoding
from bpe.formats.packed import read_first_bytes, unpack
from bpe.merge._merger import Merger
from bpe.merge.tables import MergeList, SymbolTables, TokenBytes
from bpe.pretokenize.patterns import PATTERNS, SPELLINGS, WHOLE_TEXT
from bpe.pretokenize.pretokenizer import Pretokenizer, as_pretokenizer
from bpe.text.letters import list_byte_alphabet, map_letters_to_bytes, read_letters
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import NO_TOKEN, ORDINARY, Vocabulary

#: The SHA-256 of each of OpenAI's rank files, uncompressed → its pattern and special tokens in `tiktoken`. Where two
#: encodings share a file, the one that has the file's name.
PUBLISHED: Mapping[str, tuple[str, Mapping[str, int]]] = {
    FILES[f"{name}.tiktoken"].sha256: (encoding.pattern, encoding.special_tokens)
    for name, encoding in ENCODINGS.items()
    if f"{name}.tiktoken" in FILES
}

#: The most bytes of a file that may be one of these; the largest one has 3,613,922.
MAX_PUBLISHED_BYTES = 1 << 23


class RankedTokens(NamedTuple):
    """Tokens sorted by rank; token i is `blob[offsets[i]:offsets[i + 1]]`."""

    blob: bytes
    offsets: NDArray[np.int64]
    ranks: NDArray[np.int32]


class RecoveredMerges(NamedTuple):
    """The merges of tokens with ranks.

    Attributes:
        pairs: pairs of ids.
        results: the ids of the merge results.
        ranks: the ranks of the merges if several share one, else None.
        unmerged: the ids of the tokens that these merges never produce, or None if unknown.

    """

    pairs: NDArray[np.int32]
    results: NDArray[np.int32]
    ranks: NDArray[np.int32] | None
    unmerged: NDArray[np.int32] | None


def find_published(data: bytes) -> tuple[str, Mapping[str, int]] | None:
    """Find the pattern and the special tokens of a rank file of OpenAI's (gzipped or not); None for other files."""
    if data[:1] == b"{" or data[:2] not in (b"\x1f\x8b", b"IQ"):  # IQ== is "!", the first token of each file
        return None
    content = read_first_bytes(data, MAX_PUBLISHED_BYTES + 1)
    return PUBLISHED.get(hashlib.sha256(content).hexdigest()) if len(content) <= MAX_PUBLISHED_BYTES else None


def read_published(data: bytes) -> TokenizerSpec:
    """Read one of OpenAI's own rank files, whose pattern and special tokens are known."""
    published = find_published(data)
    if published is None:
        raise FormatError(
            "it is a rank file, and its pattern is unknown, because it is not one of OpenAI's own; load it with a "
            "pattern: Tokenizer.from_tiktoken(path, pretokenizer, special_tokens), or make a tokenizer.json of it: "
            "bpe convert IN OUT --pretokenizer NAME"
        )
    return read(data, Pretokenizer(published[0]), dict(published[1]))


def read_written(data: bytes, spec: TokenizerSpec) -> TokenizerSpec:  # noqa: ARG001
    """Read a rank file that was written. Unless it is OpenAI's, it holds neither a pattern nor special tokens."""
    pattern, special_ids = find_published(data) or (None, {})
    return read(data, None if pattern is None else Pretokenizer(pattern), special_ids)


def load(
    path: str | os.PathLike[str],
    pretokenizer: Pretokenizer | str | None,
    special_tokens: Mapping[str, int] | None,
    *,
    force: bool,
) -> TokenizerSpec:
    """Load a rank file; `Tokenizer.from_tiktoken` documents the arguments.

    Raises:
        FormatError: for a file that is not a rank file; it names the line.
        OSError: for a file that cannot be read.
        TypeError, ValueError: for special tokens that do not map names to unused ids; for a pattern other than the
            file's own, unless `force` is set.

    """
    if special_tokens is not None and not isinstance(special_tokens, Mapping):
        raise TypeError(
            f"special_tokens is {describe(special_tokens)}; it must map each name to its id, because rank files hold "
            "no special tokens: {'<|endoftext|>': 100257}"
        )
    preset = _find_preset(pretokenizer)
    if preset is not None:
        pretokenizer = preset.pattern
        special_tokens = preset.special_tokens if special_tokens is None else special_tokens
    special_ids = check_special_ids(special_tokens or {})
    data, pattern = read_file(path), as_pretokenizer(pretokenizer)
    published = None if check_bool("force", force) else find_published(data)
    if published is not None and pattern != Pretokenizer(published[0]):
        raise ValueError(
            f"pretokenizer is {pattern!r}, but {os.fspath(path)} is one of OpenAI's, whose pattern is "
            f"{published[0]!r}; with another pattern, ids differ from tiktoken's: pass {published[0]!r}, or force=True"
        )
    with with_path(path):
        return read(data, pattern, special_ids, shared_ids=preset is not None)


def _find_preset(pretokenizer: object) -> PublishedEncoding | None:
    """Find OpenAI's encoding of this name; None for the name of a pattern, such as "gpt2", and anything else."""
    if not isinstance(pretokenizer, str) or pretokenizer in PATTERNS:
        return None
    return ENCODINGS.get(pretokenizer)


def check_special_ids(special_tokens: Mapping[str, int]) -> dict[str, int]:
    """Check special tokens; returns their ids as int.

    Raises:
        TypeError, ValueError: for names that are not str or empty, and ids that are not int or out of range.

    """
    if not isinstance(special_tokens, Mapping):
        raise TypeError(
            f"special_tokens is {describe(special_tokens)}; it must map tokens to ids: {{'<|end|>': 50256}}"
        )
    special_ids: dict[str, int] = {}
    for name, token_id in special_tokens.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"special token {short_repr(name)} must be a str of at least one character")
        special_ids[name] = check_int(f"the id of {name!r}", token_id, 0, 2**31 - 1)
    return special_ids


def read(
    data: bytes,
    pretokenizer: Pretokenizer | None,
    special_tokens: Mapping[str, int],
    *,
    shared_ids: bool = False,
) -> TokenizerSpec:
    """Read the content of a rank file, gzipped or not; `shared_ids` as for `build_spec`.

    Raises:
        FormatError: for content that is not a rank file; it names the line.

    """
    data = unpack(data)
    columns = read_ranks(data)
    tokens = None if columns is None else RankedTokens(*columns)
    table = None if tokens is None else RankTable(tokens.blob, tokens.offsets)
    if tokens is None or table is None or not table.distinct:
        tokens = _read_line_by_line(data)  # raises the error, or reads an unusual layout
        table = RankTable(tokens.blob, tokens.offsets)
    return build_spec(tokens, table, pretokenizer, special_tokens, shared_ids=shared_ids)


def from_ranks(
    ranks: Mapping[bytes, int], pretokenizer: Pretokenizer | None, special_tokens: Mapping[str, int]
) -> TokenizerSpec:
    """Build the spec of tokens with their ranks, as `tiktoken.Encoding` takes them.

    A special token may have the id of another token (the first one is then what the id decodes to), and the spelling
    of an ordinary token. A token without bytes is left out, because encoding never produces it.

    Raises:
        TypeError: for tokens that are not bytes, and ranks that are not int.
        ValueError: for a rank that is negative or given twice, or no ranks.

    """
    if not isinstance(ranks, Mapping):
        raise TypeError(f"mergeable_ranks is {describe(ranks)}; it must map bytes to int")
    ranks = dict(ranks)  # the caller's may change meanwhile
    if not set(map(type, ranks)) <= {bytes}:
        invalid_token = next(token for token in ranks if type(token) is not bytes)
        raise TypeError(f"mergeable_ranks has the token {describe(invalid_token)}; it must map bytes to int")
    rank_list = list(ranks.values())
    if not set(map(type, rank_list)) <= {int} or (rank_list and not 0 <= min(rank_list) <= max(rank_list) < ID_LIMIT):
        rank_list = [
            check_int(f"the rank of {short_repr(token)}", rank, 0, ID_LIMIT - 1) for token, rank in ranks.items()
        ]
    order = np.argsort(np.array(rank_list, dtype=np.int64), kind="stable")
    all_tokens = list(ranks)
    sorted_tokens = [all_tokens[i] for i in order.tolist() if all_tokens[i]]
    sorted_ranks = np.array([rank_list[i] for i in order.tolist() if all_tokens[i]], dtype=np.int32)
    if not sorted_tokens:
        raise ValueError("mergeable_ranks holds no tokens; it must map at least one token to its rank")
    if (equal_ranks := np.flatnonzero(np.diff(sorted_ranks) == 0)).size:
        first, second = sorted_tokens[equal_ranks[0]], sorted_tokens[equal_ranks[0] + 1]
        raise ValueError(
            f"mergeable_ranks gives {short_repr(first)} and {short_repr(second)} the same rank, "
            f"{sorted_ranks[equal_ranks[0]]}; a rank "
            "is a token's id, so each must be unique"
        )
    offsets = compute_offsets([len(token) for token in sorted_tokens])
    tokens = RankedTokens(b"".join(sorted_tokens), offsets, sorted_ranks)
    return build_spec(tokens, RankTable(tokens.blob, tokens.offsets), pretokenizer, special_tokens, shared_ids=True)


def build_spec(
    tokens: RankedTokens,
    table: RankTable,
    pretokenizer: Pretokenizer | None,
    special_tokens: Mapping[str, int],
    *,
    shared_ids: bool,
) -> TokenizerSpec:
    """Build the spec of tokens with ranks.

    Args:
        tokens: the tokens, which must be distinct.
        table: their table.
        pretokenizer: the pattern.
        special_tokens: name → id.
        shared_ids: allow what `tiktoken` allows: a special token with the id of another token, or spelled as one.

    Raises:
        FormatError: for special tokens whose ids or names are not distinct, unless `shared_ids` is set.

    """
    vocabulary = _build_vocabulary(tokens, special_tokens, shared_ids)
    merges = recover_ranked_merges(tokens, table)
    return TokenizerSpec(
        model="byte",
        vocabulary=vocabulary,
        merges=merges.pairs,
        merge_results=merges.results,
        merge_ranks=merges.ranks,
        pretokenizer=pretokenizer,
        special_tokens=dict(special_tokens),
        ignore_merges=True,
        unmerged=merges.unmerged,
    )


def _read_line_by_line(data: bytes) -> RankedTokens:
    """Read ranks in Python: lines of any layout in any order, with precise errors."""
    tokens: dict[bytes, int] = {}
    seen_ranks: set[int] = set()
    for line_number, line in enumerate(data.splitlines(), 1):
        fields, error = line.split(), None
        if not line or (fields[:1] == [b"="] and len(fields) == 2 and fields[1].isdigit()):
            continue  # Whisper's file has a token without bytes: encoding never produces it, and its id stays unused
        try:
            token, rank = base64.b64decode(fields[0], validate=True), int(fields[1])
        except (binascii.Error, ValueError, IndexError):
            token, rank, fields = b"", 0, []
        if len(fields) != 2:
            error = f"{short_repr(line)} is not a token in base64, a space and a rank"
        elif not token or not 0 <= rank < ID_LIMIT:
            error = (
                f"token {short_repr(token)} has rank {rank}; tokens must have bytes, and ranks are from 0 to "
                f"{ID_LIMIT - 1}"
            )
        elif token in tokens or rank in seen_ranks:
            repeated = f"token {short_repr(token)}" if token in tokens else f"rank {rank}"
            error = f"{repeated} is given twice; each must be unique"
        if error is not None:
            raise FormatError(error, where=f"line {line_number}")
        tokens[token] = rank
        seen_ranks.add(rank)
    if not tokens:
        raise FormatError("the file holds no ranks; it must have a token and its rank on each line")
    sorted_tokens = sorted(tokens, key=tokens.__getitem__)
    offsets = compute_offsets([len(token) for token in sorted_tokens])
    ranks = np.array([tokens[token] for token in sorted_tokens], dtype=np.int32)
    return RankedTokens(b"".join(sorted_tokens), offsets, ranks)


def _build_vocabulary(tokens: RankedTokens, special_tokens: Mapping[str, int], shared_ids: bool) -> Vocabulary:
    """Build the vocabulary of the tokens and the special tokens, whose ids and names must be distinct."""
    ranks = tokens.ranks
    names: dict[int, bytes] = {}
    for name, token_id in special_tokens.items():
        i = int(np.searchsorted(ranks, token_id))
        conflict = None
        if i < len(ranks) and ranks[i] == token_id:
            conflict = f"special token {name!r} has id {token_id}, which is an ordinary token's rank"
        elif token_id in names:
            conflict = (
                f"token id {token_id} is given twice: {short_repr(names[token_id])} and {short_repr(name.encode())}"
            )
        else:
            names[token_id] = name.encode()
        if conflict is not None and not shared_ids:
            raise FormatError(conflict)
    try:
        vocabulary = Vocabulary.from_sorted(*tokens, names)
    except ValueError as error:
        raise FormatError(str(error)) from None
    if names and not shared_ids and (ordinary_ids := vocabulary.find_ids(names.values())):
        reason = f"special token {min(ordinary_ids).decode()!r} is an ordinary token too"
        raise FormatError(f"{reason}; leave it out of special_tokens")
    return vocabulary


def recover_ranked_merges(tokens: RankedTokens, table: RankTable) -> RecoveredMerges:
    """Recover the merges of tokens, which must be distinct; `table` is their table."""
    blob, offsets, ranks = tokens
    pairs = table.recover_pairs()
    has_merge = pairs[:, 0] >= 0
    unmerged_tokens = np.flatnonzero(~has_merge & (np.diff(offsets) > 1))
    if len(table.list_splits(unmerged_tokens)):
        splits = table.list_splits(np.arange(len(ranks), dtype=np.int64))
        if _any_merges_to_itself(blob, offsets, unmerged_tokens, splits):
            results = ranks[splits[:, 2]]
            return RecoveredMerges(ranks[splits[:, :2]], results, results, None)
    merges = np.flatnonzero(has_merge)
    merge_pairs = ranks.take(pairs.take(merges, axis=0))
    return RecoveredMerges(merge_pairs, ranks.take(merges), None, ranks[unmerged_tokens])


def _any_merges_to_itself(
    blob: bytes, offsets: NDArray[np.int64], candidates: NDArray[np.int64], splits: NDArray[np.int32]
) -> bool:
    """Whether merging the bytes of any of the tokens `candidates` by tiktoken's rule gives that token.

    tiktoken merges any two adjacent parts whose concatenation is a token; `splits` has these pairs for all tokens.
    O(n log n) in the bytes of the tokens.
    """
    results = np.ascontiguousarray(splits[:, 2])
    merges = MergeList(np.ascontiguousarray(splits[:, :2]), results, results, len(offsets) - 1)
    token_of_byte = np.full(256, NO_TOKEN, dtype=np.uint32)
    byte_tokens = np.flatnonzero(np.diff(offsets) == 1)
    token_of_byte[np.frombuffer(blob, dtype=np.uint8)[offsets[byte_tokens]]] = byte_tokens
    symbols = SymbolTables(token_of_byte, token_of_byte, NO_TOKEN, NO_TOKEN, False, False)
    encoder = Encoder(Merger(merges, symbols), TokenBytes(blob, offsets, None, 0), WHOLE_TEXT, 1 << 20)
    encoder.finish()
    texts = (blob[offsets[token] : offsets[token + 1]] for token in candidates.tolist())
    return any(len(encoder.encode(text)[0]) == 1 for text in texts)


def read_gpt2_ranks(merges: bytes, encoder: bytes, *, bytes_from_ids: bool = False) -> dict[bytes, int]:
    r"""Read the ranks of GPT-2's tokens, without `<|endoftext|>`.

    Args:
        merges: the content of `vocab.bpe`: a line with the version, then the two parts of a token on each line.
        encoder: the content of `encoder.json`: token → id.
        bytes_from_ids: whether the ranks of single bytes are their ids, in any order, instead of GPT-2's.

    Raises:
        FormatError: for files of another format, and for two files that do not belong together.

    >>> from bpe.text.letters import list_byte_letters
    >>> ids = {letter: list_byte_alphabet().index(byte) for byte, letter in enumerate(list_byte_letters())}
    >>> ranks = read_gpt2_ranks(b"#version: 0.2\nh i\n", json.dumps({**ids, "hi": 256}).encode())
    >>> len(ranks), ranks[b"!"], ranks[b"hi"]
    (257, 0, 256)

    """
    ranks = {bytes([byte]): rank for rank, byte in enumerate(list_byte_alphabet())}
    letters = map_letters_to_bytes().keys()
    try:
        lines = merges.decode().split("\n")
        ids = json.loads(encoder)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FormatError(f"GPT-2's files are UTF-8 text and JSON: {error}") from None
    for line_number, line in enumerate(lines[1:], 2):
        parts = line.split()
        if not parts and line_number == len(lines):
            continue  # the last line ends with a newline
        if len(parts) != 2 or not letters >= set("".join(parts)):
            raise FormatError(
                f"{short_repr(line)} is not the two parts of a token in GPT-2's letters",
                path="vocab.bpe",
                where=f"line {line_number}",
            )
        ranks.setdefault(read_letters("".join(parts)), 256 + line_number - 2)
    if not isinstance(ids, dict):
        raise FormatError(f"it is {with_article(ids)}; it must map tokens to ids", path="encoder.json")
    encoder_ranks: dict[bytes, Any] = {}
    for token, token_id in ids.items():
        if token in ("<|endoftext|>", "<|startoftext|>"):
            continue
        if not letters >= set(token):
            raise FormatError(f"token {short_repr(token)} is not in GPT-2's letters", path="encoder.json")
        encoder_ranks[read_letters(token)] = token_id
    if bytes_from_ids:
        ranks.update((token, token_id) for token, token_id in encoder_ranks.items() if len(token) == 1)
    if encoder_ranks != ranks:
        raise FormatError("the ids of encoder.json are not the ranks of vocab.bpe; the files must belong together")
    return ranks


def parse_pattern(pat_str: str) -> Pretokenizer:
    r"""Return the pretokenizer of a pattern that is written for `tiktoken`, whose engine is Rust's `fancy_regex`.

    A published pattern gets its scanner. In any other, `$` and `&&` mean what they mean in Rust: `$` the end of the
    text only, and `&&` in a class an intersection.

    Raises:
        TypeError: if the pattern is not a str.
        ValueError: for a pattern that does not compile.

    >>> parse_pattern(r"\w+|\s+$|\s").pattern, parse_pattern(r"[\w&&[^a]]+|a").split("bac")
    ('\\w+|\\s+\\Z|\\s', ['b', 'a', 'c'])

    """
    if not isinstance(pat_str, str) or pat_str in SPELLINGS:
        return Pretokenizer.from_regex(pat_str)
    if re.search(r"\(\?[a-z]*m", pat_str) is None:  # otherwise `$` is the end of a line
        parts = re.findall(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", pat_str, re.DOTALL)
        pat_str = "".join(r"\Z" if part == "$" else part for part in parts)
    if "&&" in pat_str and not pat_str.startswith("(?V1)"):
        pat_str = f"(?V1){pat_str}"
    return Pretokenizer.from_regex(pat_str)


def write_pattern(pretokenizer: Pretokenizer) -> str:
    r"""Return the pattern of a pretokenizer as `tiktoken` takes it, the inverse of `parse_pattern`.

    >>> write_pattern(parse_pattern(r"[\w&&[^a]]+|\s+$|."))
    '[\\w&&[^a]]+|\\s+\\Z|.'

    """
    return pretokenizer.pattern.removeprefix("(?V1)")


def write(spec: TokenizerSpec) -> bytes:
    """Write a rank file: each ordinary token in base64, a space and its id. OpenAI's files are written as published.

    What the file does not keep, such as the pattern, is not checked here (`saving.py` reads it again).

    Raises:
        ValueError: for a tokenizer that is not byte-level, or that has an end-of-word mark.

    """
    if spec.model != "byte" or spec.end_of_word is not None:
        raise ValueError(
            "a rank file cannot hold this tokenizer: it holds byte-level models without an end-of-word mark; save it "
            "as huggingface"
        )
    encode = binascii.b2a_base64
    return b"".join(b"%s %d\n" % (encode(token, newline=False), i) for i, token in spec.vocabulary.items(ORDINARY))
