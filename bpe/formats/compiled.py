"""Compiled tokenizers, this package's fastest format to load: arrays in place of the long lists of a tokenizer.json.

A file has, in little-endian order:

- the 8 bytes of the magic; as uint32 the CRC-32 of all that follows it, and the version;
- as uint32 how many ids, merges, unmerged tokens (one more than there are, or 0 if they are unknown), bytes of
  tokens and bytes of JSON there are, and 4 bytes of 0;
- as int64 where each token begins, and where the last one ends; as int32 the merges, their results and the unmerged
  tokens; as uint8 the kinds of the ids; the bytes of the tokens; the settings.

Settings are a tokenizer.json with an empty vocab and no merges. A byte-level tokenizer that has no others than a
published pattern, special tokens without flags, roles and `ignore_merges` has lines of ASCII instead, names in
hexadecimal, since importing what reads a tokenizer.json takes a sixth of the time:

    plain
    pretokenizer cl100k
    ignore_merges
    special 100257 3c7c656e646f66746578747c3e
    role eos_token 3c7c656e646f66746578747c3e

A file is read into memory, not mapped: if another process truncates a mapped file, SIGBUS ends this one. Everything is
checked before it is used, but for two facts that take long to find and can change nothing but ids: that all tokens are
different, and which are unmerged. A damaged file has another checksum.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from bpe.base._crc32 import crc32
from bpe.base._slices import divides_buffer
from bpe.base.fast_dataclasses import dataclass, replace
from bpe.base.utf8 import find_utf8_error
from bpe.errors import FormatError, short_repr
from bpe.formats.signatures import COMPILED_MAGIC
from bpe.pretokenize.patterns import PATTERNS
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import ORDINARY, SPECIAL, UNUSED, Vocabulary, check_limit

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The version of the layout. A release reads its own: a file is made anew from the tokenizer's own in a second.
VERSION = 2
_HEADER = struct.Struct(f"<{len(COMPILED_MAGIC)}s7I4x")
#: Where the bytes begin that the checksum is of.
_CHECKED_START = len(COMPILED_MAGIC) + 4
#: What plain settings begin with.
_PLAIN = b"plain\n"
#: The fields of a spec that plain settings have, or the arrays of the file.
_PLAIN_FIELDS = frozenset(
    ("vocabulary", "merges", "merge_results", "unmerged", "pretokenizer", "ignore_merges", "special_tokens", "roles")
)
_FIX = "compile the tokenizer again: bpe convert tokenizer.json OUT.compiled"


@dataclass(frozen=True)
class _Counts:
    """What the header says of the sections."""

    ids: int
    merges: int
    unmerged_plus_one: int
    token_bytes: int
    settings_bytes: int

    def measure(self) -> int:
        """Compute the bytes of the whole file."""
        n_int32 = 2 * (self.ids + 1) + 3 * self.merges + max(self.unmerged_plus_one - 1, 0)
        return _HEADER.size + 4 * n_int32 + self.ids + self.token_bytes + self.settings_bytes


def read(data: bytes) -> TokenizerSpec:
    """Read a compiled tokenizer.

    Raises:
        FormatError: for a damaged file, one of another version, and one whose parts contradict each other.

    """
    counts = _read_header(data)
    position = _HEADER.size

    def take(dtype: str, n: int) -> NDArray[np.generic]:
        nonlocal position
        array = np.frombuffer(data, dtype=dtype, count=n, offset=position)
        position += array.nbytes
        return array

    offsets = take("<i8", counts.ids + 1).astype(np.int64, copy=False)
    merges = take("<i4", 2 * counts.merges).reshape(-1, 2).astype(np.int32, copy=False)
    results = take("<i4", counts.merges).astype(np.int32, copy=False)
    unmerged = take("<i4", max(counts.unmerged_plus_one - 1, 0)).astype(np.int32, copy=False)
    kinds = take("u1", counts.ids).astype(np.uint8, copy=False)
    blob, settings = data[position : position + counts.token_bytes], data[position + counts.token_bytes :]
    vocabulary = _build_vocabulary(blob, offsets, kinds)
    max_id = max(int(array.view(np.uint32).max(initial=0)) for array in (merges, results))
    if max_id >= max(counts.ids, 1):
        raise FormatError(f"a merge has id {max_id}; ids are from 0 to {counts.ids - 1}; {_FIX}")
    known_unmerged = unmerged if counts.unmerged_plus_one else None
    try:
        spec = _read_settings(settings, TokenizerSpec("byte", vocabulary, merges, results, unmerged=known_unmerged))
    except FormatError:
        raise
    except ValueError as error:  # tokens that do not fit the JSON
        raise FormatError(f"{error}; {_FIX}") from None
    special_ids = np.flatnonzero(spec.vocabulary.kinds == SPECIAL)
    _check_texts(spec, special_ids)
    if len(special_ids) and special_ids[0] <= max_id:
        _check_special_merges(spec)
    _check_special_entries(spec, special_ids)
    return spec


def _read_header(data: bytes) -> _Counts:
    """Read and check the header, and check the size of the file and its checksum."""
    if len(data) < _HEADER.size or not data.startswith(COMPILED_MAGIC):
        raise FormatError(f"it begins with {short_repr(data[:8])}, and is no compiled tokenizer; {_FIX}")
    _, checksum, version, *numbers = _HEADER.unpack_from(data)
    if version != VERSION:
        raise FormatError(f"it is of version {version}, and this release reads version {VERSION}; {_FIX}")
    counts = _Counts(*numbers)
    if counts.measure() != len(data):
        raise FormatError(f"it has {len(data)} bytes, and its header declares {counts.measure()}; {_FIX}")
    if crc32(memoryview(data)[_CHECKED_START:]) != checksum:
        raise FormatError(f"it is damaged: its checksum is not the one in its header; {_FIX}")
    return counts


def _build_vocabulary(blob: bytes, offsets: NDArray[np.int64], kinds: NDArray[np.uint8]) -> Vocabulary:
    """Build the vocabulary, whose tokens must have bytes, and these of `blob` together."""
    if kinds.max(initial=0) > SPECIAL or not divides_buffer(offsets, len(blob), kinds):
        raise FormatError(f"its tokens do not fit their offsets and kinds; {_FIX}")
    try:
        check_limit(len(kinds), int(np.count_nonzero(kinds)))
    except ValueError as error:
        raise FormatError(str(error)) from None
    return Vocabulary.from_arrays(blob, offsets, kinds)


def _check_texts(spec: TokenizerSpec, special_ids: NDArray[np.int64]) -> None:
    """Check that special tokens have their names as bytes, and that tokens are UTF-8 where they must be."""
    vocabulary = spec.vocabulary
    for name, token_id in spec.special_tokens.items():
        if vocabulary.kinds[token_id] == SPECIAL and vocabulary[token_id] != name.encode():
            raise FormatError(f"its special token {name!r} is not the token of its id, {token_id}; {_FIX}")
    ids = special_ids if spec.model == "byte" else np.flatnonzero(vocabulary.kinds != UNUSED)
    first_bytes = np.frombuffer(vocabulary.blob, dtype=np.uint8)[vocabulary.offsets[ids]]
    texts = vocabulary.blob if spec.model == "char" else b"".join(vocabulary[token_id] for token_id in ids.tolist())
    if (first_bytes & 0xC0 == 0x80).any() or find_utf8_error(texts) is not None:
        raise FormatError(f"one of its tokens is not UTF-8, as it must be; {_FIX}")


def _check_special_merges(spec: TokenizerSpec) -> None:
    """Check the merges with special tokens, which `check_spec` does not compare: tokens are as long as their texts.

    A byte model has no such merges. Those of models with a subword prefix are not spelled as their parts.
    """
    if spec.subword_prefix:
        return
    vocabulary, is_special = spec.vocabulary, spec.vocabulary.kinds == SPECIAL
    has_special = is_special[spec.merges[:, 0]] | is_special[spec.merges[:, 1]] | is_special[spec.merge_results]
    for index in np.flatnonzero(has_special).tolist():
        (left, right), result = spec.merges[index].tolist(), int(spec.merge_results[index])
        if spec.model == "byte" or vocabulary[left] + vocabulary[right] != vocabulary[result]:
            raise FormatError(
                f"merge {index} of ids {left} and {right} produces {result}: special tokens are merged only in models "
                f"of characters, to what they spell together; {_FIX}"
            )


def _check_special_entries(spec: TokenizerSpec, special_ids: NDArray[np.int64]) -> None:
    """Check that the vocabulary and the settings have the same special tokens, else the tokenizer cannot be saved."""
    if set(spec.special_tokens.values()) == set(special_ids.tolist()):
        return
    from bpe.formats.huggingface.tokenizer_json import check_special_entries

    try:
        check_special_entries(spec)
    except ValueError as error:
        raise FormatError(f"{error}; {_FIX}") from None


# Settings -------------------------------------------------------------------------------------------------------------


def _read_settings(settings: bytes, arrays: TokenizerSpec) -> TokenizerSpec:
    """Read the settings of a tokenizer with these arrays."""
    if settings.startswith(_PLAIN):
        return _read_plain(settings, arrays)
    from bpe.formats.huggingface.tokenizer_json import read_with_arrays

    return read_with_arrays(settings, arrays.vocabulary, arrays.merges, arrays.merge_results, arrays.unmerged)


def _read_plain(settings: bytes, arrays: TokenizerSpec) -> TokenizerSpec:
    """Read plain settings."""
    pretokenizer, ignore_merges = None, False
    special_tokens: list[tuple[str, int]] = []
    roles: dict[str, str] = {}
    line = b""
    try:
        for line in settings[len(_PLAIN) :].splitlines():
            match line.decode("ascii").split(" "):
                case ["pretokenizer", name]:
                    pretokenizer = Pretokenizer(name)
                case ["ignore_merges"]:
                    ignore_merges = True
                case ["special", id_text, name]:
                    special_tokens.append((bytes.fromhex(name).decode(), int(id_text)))
                case ["role", role, name]:
                    roles[role] = bytes.fromhex(name).decode()
                case _:
                    raise ValueError("no setting is written like this")
    except ValueError as error:
        raise FormatError(f"its settings have the line {short_repr(line)}: {error}; {_FIX}") from None
    names, ids = {name for name, _ in special_tokens}, {token_id for _, token_id in special_tokens}
    if not len(names) == len(ids) == len(special_tokens) or "" in names:
        raise FormatError(f"two of its special tokens have one name or one id, or one has no name; {_FIX}")
    for name, token_id in special_tokens:
        if not 0 <= token_id < arrays.vocabulary.limit:
            limit = arrays.vocabulary.limit
            raise FormatError(
                f"special token {short_repr(name)} has id {token_id}; ids are from 0 to {limit - 1}; {_FIX}"
            )
    return replace(
        arrays,
        pretokenizer=pretokenizer,
        ignore_merges=ignore_merges,
        special_tokens=dict(special_tokens),
        roles=roles,
    )


def _write_settings(spec: TokenizerSpec) -> bytes:
    """Write the settings of a tokenizer."""
    from bpe.formats.huggingface.tokenizer_json import write_without_lists

    json_text = write_without_lists(spec)  # which checks the spec, too
    return _write_plain(spec) if _is_plain(spec) else json_text


def _is_plain(spec: TokenizerSpec) -> bool:
    """Whether plain settings say all of a tokenizer."""
    default = TokenizerSpec("byte", spec.vocabulary, spec.merges, spec.merge_results)
    for name, value in vars(spec).items():
        if name not in _PLAIN_FIELDS and (isinstance(value, np.ndarray) or value != getattr(default, name)):
            return False
    pretokenizer = spec.pretokenizer
    if pretokenizer is None:
        return True
    return pretokenizer.name in PATTERNS and pretokenizer == Pretokenizer(pretokenizer.name)


def _write_plain(spec: TokenizerSpec) -> bytes:
    """Write plain settings."""
    lines = [] if spec.pretokenizer is None else [f"pretokenizer {spec.pretokenizer.name}"]
    lines += ["ignore_merges"] if spec.ignore_merges else []
    tokens = sorted((token_id, name) for name, token_id in spec.special_tokens.items())
    lines += [f"special {token_id} {name.encode().hex()}" for token_id, name in tokens]
    lines += [f"role {role} {name.encode().hex()}" for role, name in sorted(spec.roles.items())]
    return _PLAIN + "".join(f"{line}\n" for line in lines).encode()


# Writing --------------------------------------------------------------------------------------------------------------


def write(spec: TokenizerSpec) -> bytes:
    """Write a compiled tokenizer. Equal tokenizers give equal bytes."""
    vocabulary, unmerged = spec.vocabulary, _find_unmerged(spec)
    settings = _write_settings(spec)
    numbers = (
        vocabulary.limit,
        len(spec.merges),
        0 if unmerged is None else len(unmerged) + 1,
        len(vocabulary.blob),
        len(settings),
    )
    sections = [
        vocabulary.offsets.astype("<i8").tobytes(),
        *(array.astype("<i4").tobytes() for array in (spec.merges, spec.merge_results, unmerged) if array is not None),
        vocabulary.kinds.tobytes(),
        vocabulary.blob,
        settings,
    ]
    content = _HEADER.pack(COMPILED_MAGIC, 0, VERSION, *numbers)[_CHECKED_START:] + b"".join(sections)
    return COMPILED_MAGIC + struct.pack("<I", crc32(content)) + content


def _find_unmerged(spec: TokenizerSpec) -> NDArray[np.int32] | None:
    """Find what the spec's `unmerged` should be; None where it has no use."""
    if not spec.ignore_merges or spec.events is not None or spec.n_merges_within_words is not None:
        return None
    if spec.unmerged is not None:
        return spec.unmerged
    from bpe.encode.models.encoder import build_encoder

    is_ordinary = (spec.vocabulary.kinds == ORDINARY).astype(np.uint8)
    return build_encoder(spec, 1 << 20).encoder.select_unmerged(is_ordinary)
