"""`tiktoken.core`: the class `Encoding`, and the encodings by name.

Where tiktoken fails an assertion or aborts with a panic (`explicit_n_vocab`, equal ranks, a byte without a rank), there
is a ValueError or a TypeError. The registry and the cache of files: `bpe/named`.

tiktoken leaves one thing to the order of a hash table: which of two special tokens is found where both begin at the
same character. Here it is the longer one.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import wraps
from typing import Any, Literal, NoReturn, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from bpe.base._id_lists import as_array, as_list, as_lists, keep_ints
from bpe.base.forks import cached_property, make_lock
from bpe.base.threads import resolve_threads
from bpe.batch import TokenBatch
from bpe.compat import unstable
from bpe.decode.decoder import with_fast_decode
from bpe.encode import _fast_path
from bpe.errors import check_int, describe
from bpe.named import registry
from bpe.named.registry import NamedEncoding, encoding_name_for_model, list_encoding_names
from bpe.tokenizer import Tokenizer
from bpe.vocab.special_tokens import find_common_prefix
from bpe.vocab.vocabulary import ORDINARY

__all__ = [
    "ENCODINGS",
    "Encoding",
    "encoding_for_model",
    "encoding_name_for_model",
    "get_encoding",
    "list_encoding_names",
]

Special = Literal["all"] | AbstractSet[str]
NotSpecial = Literal["all"] | Collection[str]

_Method = TypeVar("_Method", bound=Callable[..., Any])

_NO_NAMES: frozenset[str] = frozenset()
#: The bytes that continue a character in UTF-8.
_CONTINUATION = bytes(range(0x80, 0xC0))

_lock = make_lock(sys.modules[__name__])
#: The encodings that have been built, by name.
ENCODINGS: dict[str, Encoding] = {}


def get_encoding(encoding_name: str) -> Encoding:
    """Return the encoding of a name, the same object for each call; see `bpe.get_encoding`.

    Raises:
        ValueError: for a name that is not known, or not a str.
        OSError: for a file that is neither in the cache nor can be downloaded.

    """
    encoding = ENCODINGS.get(encoding_name) if isinstance(encoding_name, str) else None
    if encoding is None:
        if not isinstance(encoding_name, str):
            raise ValueError(f"encoding_name is {describe(encoding_name)}; it must be the name of an encoding")
        with _lock:
            encoding = ENCODINGS.get(encoding_name)
            if encoding is None:
                encoding = Encoding.__new__(Encoding)
                encoding._set_fields(registry.load_encoding(encoding_name))
                ENCODINGS[encoding_name] = encoding
    return encoding


def encoding_for_model(model_name: str) -> Encoding:
    """Return the encoding that a model uses.

    Raises:
        KeyError: for a model that is not known.
        OSError: as for `get_encoding`.

    """
    return get_encoding(encoding_name_for_model(model_name))


def _with_fast_list(method: _Method) -> _Method:
    """Wrap `encode` in a fast path that handles short texts without a Python frame."""
    return cast("_Method", wraps(method)(_fast_path.with_fast_list(method)))


def _with_fast_ordinary_list(method: _Method) -> _Method:
    """Wrap `encode_ordinary` in such a fast path."""
    return cast("_Method", wraps(method)(_fast_path.with_fast_ordinary_list(method)))


class Encoding:
    """A tokenizer with tiktoken's interface.

    Args:
        name: the name; encodings with other special tokens should have another one.
        pat_str: the regular expression that splits text, as tiktoken's engine reads it.
        mergeable_ranks: token → rank, which is its id and the priority of its merge.
        special_tokens: name → id.
        explicit_n_vocab: the number of tokens to check, special tokens included; None or 0 for no check.

    Attributes:
        name: the name.
        max_token_value: the largest id.

    Raises:
        TypeError, ValueError: for arguments that do not fit together, and a pattern that does not compile.
        OverflowError: for an id that is not from 0 to 2**32 - 1.

    >>> ranks = {b"a": 0, b"b": 1, b"ab": 2}
    >>> enc = Encoding("tiny", pat_str=r"\\w+|\\W+", mergeable_ranks=ranks, special_tokens={"<e>": 3})
    >>> enc.encode("abb<e>", allowed_special="all"), enc.decode([2, 3]), enc
    ([2, 1, 3], 'ab<e>', <Encoding 'tiny'>)

    """

    name: str
    max_token_value: int

    def __init__(
        self,
        name: str,
        *,
        pat_str: str,
        mergeable_ranks: dict[bytes, int],
        special_tokens: dict[str, int],
        explicit_n_vocab: int | None = None,
    ) -> None:
        self._set_fields(
            registry.build_encoding(
                name,
                pat_str=pat_str,
                mergeable_ranks=mergeable_ranks,
                special_tokens=special_tokens,
                explicit_n_vocab=explicit_n_vocab,
            )
        )

    def _set_fields(self, encoding: NamedEncoding) -> None:
        """Set the attributes."""
        self.name = encoding.name
        self._pat_str = encoding.pat_str
        self._special_tokens: dict[str, int] = encoding.special_tokens  # type: ignore[assignment]
        self._tokenizer: Tokenizer = encoding.tokenizer
        self._engine = encoding.tokenizer._engine
        self._decoder = encoding.tokenizer._decoder
        self._special_token_values = set(encoding.special_tokens.values())
        self._all_names = frozenset(encoding.special_tokens)  # one object: to hash many names takes time
        #: What all names of special tokens begin with, and its first character: a text without these has no name.
        self._prefix = find_common_prefix(encoding.special_tokens)
        self._prefix_char = self._prefix[:1]
        self.max_token_value = encoding.tokenizer.n_vocab - 1
        if encoding.ranks is not None:
            self._mergeable_ranks = encoding.ranks  # type: ignore[assignment]
            self.max_token_value = max(max(encoding.ranks.values()), self.max_token_value)

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    # Encoding ---------------------------------------------------------------------------------------------------------

    @_with_fast_ordinary_list
    def encode_ordinary(self, text: str) -> list[int]:
        """Encode a text; special tokens in it are ordinary text. A lone surrogate becomes U+FFFD.

        Raises:
            TypeError: for a text that is not str.
            ValueError: for a byte that has no rank.

        """
        if not isinstance(text, str):
            raise _make_text_error(text)
        return as_list(self._tokenizer.encode(text))

    @_with_fast_list
    def encode(
        self, text: str, *, allowed_special: Special = _NO_NAMES, disallowed_special: NotSpecial = "all"
    ) -> list[int]:
        """Encode a text to ids.

        Args:
            text: the text. A lone surrogate becomes U+FFFD.
            allowed_special: a set of names of special tokens that become their ids, or "all".
            disallowed_special: names, of special tokens or of anything else, that are an error in the text; "all" means
                all special tokens that are not allowed, () none.

        Raises:
            TypeError: for a text that is not str, or names that are not a set.
            ValueError: for a text that has a disallowed name.

        """
        allowed = self._find_allowed(text, allowed_special, disallowed_special)
        return as_list(self._engine.encode(text, allowed) if allowed else self._tokenizer.encode(text))

    def encode_to_numpy(
        self, text: str, *, allowed_special: Special = _NO_NAMES, disallowed_special: NotSpecial = "all"
    ) -> NDArray[np.uint32]:
        """Encode a text to a uint32 array; the arguments are those of `encode`.

        Raises:
            UnicodeEncodeError: for a lone surrogate, or a pair of them.
            TypeError, ValueError: as for `encode`.

        """
        allowed = self._find_allowed(text, allowed_special, disallowed_special)
        return self._engine.encode(text if str.isascii(text) else str.encode(text), allowed)

    def encode_ordinary_batch(self, text: list[str], *, num_threads: int | None = 8) -> list[list[int]]:
        """Encode several texts as `encode_ordinary` does, with at most `num_threads` threads.

        Raises:
            TypeError, ValueError: as for `encode_ordinary`.

        """
        threads, texts = _count_threads(num_threads), list(text)
        for item in texts:
            if not isinstance(item, str):
                raise _make_text_error(item)
        return self._to_lists(self._tokenizer.encode_batch(texts, threads=threads))

    def encode_batch(
        self,
        text: list[str],
        *,
        num_threads: int | None = 8,
        allowed_special: Special = _NO_NAMES,
        disallowed_special: NotSpecial = "all",
    ) -> list[list[int]]:
        """Encode several texts as `encode` does, with at most `num_threads` threads.

        Raises:
            TypeError, ValueError: as for `encode`.

        """
        threads, texts = _count_threads(num_threads), list(text)
        allowed = _NO_NAMES
        if not isinstance(disallowed_special, str):
            disallowed_special = frozenset(disallowed_special)  # of an iterator, once for all texts
        for item in texts:
            allowed = self._find_allowed(item, allowed_special, disallowed_special) or allowed
        if allowed:
            return self._to_lists(self._engine.encode_batch(texts, threads, allowed))
        return self._to_lists(self._tokenizer.encode_batch(texts, threads=threads))

    def encode_with_unstable(
        self, text: str, *, allowed_special: Special = _NO_NAMES, disallowed_special: NotSpecial = "all"
    ) -> tuple[list[int], list[list[int]]]:
        """Encode a text to the ids that stay the same whatever follows it, and the ids that may follow them.

        Each completion, after the stable ids, decodes to bytes that begin with the text. Completions are in ascending
        order.

        Args:
            text: the text.
            allowed_special: as for `encode`.
            disallowed_special: as for `encode`.

        Raises:
            UnicodeEncodeError: for a lone surrogate, or a pair of them.
            TypeError, ValueError: as for `encode`.

        """
        allowed = self._find_allowed(text, allowed_special, disallowed_special)
        return self._completer.encode_with_completions(str.encode(text), allowed)

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """Return the id of a token, special or not.

        Raises:
            KeyError: with the bytes, if there is no such token.
            TypeError: for anything but str and bytes.

        """
        token = _to_bytes(text_or_bytes)
        token_id = self._mergeable_ranks.get(token)
        if token_id is None:
            token_id = self._special_tokens.get(token.decode("utf-8", "replace"))
        if token_id is None:
            raise KeyError(token)
        return token_id

    # Decoding ---------------------------------------------------------------------------------------------------------

    @with_fast_decode
    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """Decode a sequence of ids to bytes.

        Raises:
            KeyError: for an id without a token.
            OverflowError: for an id below 0 or above 2**32 - 1.
            TypeError: for ids that are not a sequence of int.

        """
        try:
            if type(tokens) is list:
                return self._decoder.decode_with_final_space(as_array(tokens))
            return self._decoder.decode_bytes(tokens)
        except (TypeError, ValueError, OverflowError):
            return b"".join(self._find_bytes(token, "Invalid token for decoding: ") for token in _check_tokens(tokens))

    @with_fast_decode
    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        """Decode a sequence of ids to text; `errors` as in `bytes.decode`, for bytes that are not UTF-8.

        Raises:
            KeyError, OverflowError, TypeError: as for `decode_bytes`.
            UnicodeDecodeError: with errors="strict", for bytes that are not UTF-8.

        """
        return self.decode_bytes(tokens).decode("utf-8", errors)

    def decode_single_token_bytes(self, token: int) -> bytes:
        """Return the bytes of a token, special or not.

        Raises:
            KeyError, OverflowError, TypeError: as for `decode_bytes`.

        """
        table = self._decoder.fast_table
        data = None if table is None else table.get_token(token)
        return self._find_bytes(token, "") if data is None else data

    def decode_tokens_bytes(self, tokens: Iterable[int]) -> list[bytes]:
        """Return the bytes of each of several tokens.

        Raises:
            KeyError, OverflowError, TypeError: as for `decode_bytes`.

        """
        table = self._decoder.fast_table
        parts = table.tokens(tokens) if type(tokens) is list and table is not None else None
        return [self._find_bytes(token, "") for token in tokens] if parts is None else parts

    def decode_with_offsets(self, tokens: Iterable[int]) -> tuple[str, list[int]]:
        """Decode tokens, and find for each the index of the first character that has bytes of it.

        Raises:
            KeyError, OverflowError, TypeError: as for `decode_bytes`.
            UnicodeDecodeError: for tokens that are not UTF-8 together.

        """
        parts = self.decode_tokens_bytes(tokens)
        offsets: list[int] = []
        n_chars = 0  # whose first byte is in the tokens before
        for part in parts:
            begins_inside_char = part[:1] != b"" and part[0] in _CONTINUATION
            offsets.append(max(0, n_chars - begins_inside_char))
            n_chars += len(part.translate(None, _CONTINUATION))
        return b"".join(parts).decode("utf-8", "strict"), offsets

    def decode_batch(
        self, batch: Iterable[Sequence[int]], *, errors: str = "replace", num_threads: int | None = 8
    ) -> list[str]:
        """Decode several sequences of ids to texts. `num_threads` is checked, and one thread decodes.

        Raises:
            KeyError, OverflowError, TypeError, UnicodeDecodeError: as for `decode`.

        """
        _count_threads(num_threads)
        return [self.decode(tokens, errors) for tokens in batch]

    def decode_bytes_batch(self, batch: Iterable[Sequence[int]], *, num_threads: int | None = 8) -> list[bytes]:
        """Decode several sequences of ids to bytes. `num_threads` is checked, and one thread decodes.

        Raises:
            KeyError, OverflowError, TypeError: as for `decode_bytes`.

        """
        _count_threads(num_threads)
        return [self.decode_bytes(tokens) for tokens in batch]

    # The vocabulary ---------------------------------------------------------------------------------------------------

    def token_byte_values(self) -> list[bytes]:
        """List the tokens that are not special, in ascending order of their bytes."""
        return sorted(self._mergeable_ranks)

    @property
    def eot_token(self) -> int:
        """The id of `<|endoftext|>`; a KeyError if there is none."""
        return self._special_tokens["<|endoftext|>"]

    @cached_property
    def special_tokens_set(self) -> set[str]:
        """The names of the special tokens."""
        return set(self._special_tokens.keys())  # a set made of the dict has another order

    def is_special_token(self, token: int) -> bool:
        """Whether an id is that of a special token.

        Raises:
            TypeError: for an id that is not an int.

        """
        if not isinstance(token, int):
            raise TypeError(f"token is {describe(token)}; it must be an int")
        return token in self._special_token_values

    @property
    def n_vocab(self) -> int:
        """The largest id + 1."""
        return self.max_token_value + 1

    @cached_property
    def _mergeable_ranks(self) -> dict[bytes, int]:
        """The tokens that are not special → id, in the order of ids."""
        return dict(self._tokenizer.spec.vocabulary.id_of_token)

    # Private, as in tiktoken ------------------------------------------------------------------------------------------

    def _encode_single_piece(self, text_or_bytes: str | bytes) -> list[int]:
        """Encode a text that is not split into words; special tokens in it are ordinary text."""
        return self._completer.encode_piece(_to_bytes(text_or_bytes))

    def _encode_only_native_bpe(self, text: str) -> list[int]:
        """Encode a text whose words the `regex` package finds."""
        import regex

        words = regex.findall(self._pat_str, text)
        return [token_id for word in words for token_id in self._encode_single_piece(word)]

    def _encode_bytes(self, text: bytes) -> list[int]:
        """Encode bytes; what is not UTF-8, and the word before it, are merged as one piece."""
        if not isinstance(text, bytes):
            raise TypeError(f"text is {describe(text)}; it must be bytes")
        return self._completer.encode_bytes(text)

    # Copies and pickles -----------------------------------------------------------------------------------------------

    def __getstate__(self) -> object:
        """Return the name of a registered encoding, and everything of another one."""
        if self is ENCODINGS.get(self.name):
            return self.name
        return {
            "name": self.name,
            "pat_str": self._pat_str,
            "mergeable_ranks": dict(sorted(self._mergeable_ranks.items(), key=operator.itemgetter(1))),
            "special_tokens": dict(self._special_tokens),
        }

    def __setstate__(self, value: Any) -> None:
        if isinstance(value, str):
            self.__dict__.update(get_encoding(value).__dict__)
        else:
            self._set_fields(registry.build_encoding(**value))

    def __copy__(self) -> Encoding:
        encoding = Encoding.__new__(Encoding)
        encoding.__dict__.update(self.__dict__)
        return encoding

    def __deepcopy__(self, memo: dict[int, Any]) -> Encoding:
        return self.__copy__()  # an encoding never changes

    # Private ----------------------------------------------------------------------------------------------------------

    def _find_allowed(self, text: str, allowed: Special, disallowed: NotSpecial) -> frozenset[str]:
        """Find the names of special tokens that become ids in a text, after refusing a name that is not allowed.

        No names if the text has none, so that the caller can take the fast path.
        """
        if not isinstance(text, str):
            raise _make_text_error(text)
        if isinstance(disallowed, str) and disallowed == "all":
            _check_set(allowed)
            if self._prefix_char not in text or self._prefix not in text:
                self._check_names(allowed)
                return _NO_NAMES
            disallowed = self._all_names
            if allowed:
                disallowed = _NO_NAMES if allowed == "all" else self._all_names - allowed
        if disallowed:
            self._refuse(text, frozenset(disallowed))
        _check_set(allowed)
        self._check_names(allowed)
        if not allowed or self._prefix_char not in text or self._prefix not in text:
            return _NO_NAMES
        return self._all_names if allowed == "all" else self._all_names & allowed

    def _check_names(self, allowed: Special) -> None:
        """Raise TypeError unless all names of a set are str: an id there would have no effect."""
        if allowed == "all" or self._all_names.issuperset(allowed):  # the usual case, without a look at each type
            return
        for name in allowed:
            if not isinstance(name, str):
                raise TypeError(f"allowed_special holds {describe(name)}; it must hold names of special tokens")

    @cached_property
    def _lists(self) -> _fast_path.ListEncoder:
        """The encoder of the fast paths, which `_fast_path` reads."""
        keep_ints(self.max_token_value + 1)
        return _fast_path.ListEncoder(self._engine.fast_encoder, self._prefix if self._special_tokens else None)

    def _to_lists(self, batch: TokenBatch) -> list[list[int]]:
        """Convert a batch to lists."""
        keep_ints(self.max_token_value + 1)
        return as_lists(batch.ids, batch.offsets)

    def _refuse(self, text: str, disallowed: frozenset[str]) -> None:
        """Raise ValueError for the first disallowed name in a text; every text has the empty name."""
        if "" in disallowed:
            _raise_disallowed("")
        data = text.encode("utf-8", "surrogatepass")
        for _, _, name in self._engine.specials.find(data, disallowed):
            _raise_disallowed(name)

    def _find_bytes(self, token: int, prefix: str) -> bytes:
        """Return the bytes of a token."""
        token_id = operator.index(token)
        if not 0 <= token_id < 2**32:
            raise OverflowError(f"token id {token_id} is out of range; ids are from 0 to 2**32 - 1")
        vocabulary = self._tokenizer.spec.vocabulary
        if token_id not in vocabulary and not (b"" in self._mergeable_ranks and self._mergeable_ranks[b""] == token_id):
            raise KeyError(f"{prefix}{token_id}")
        return vocabulary[token_id] if token_id < vocabulary.limit else b""

    @cached_property
    def _completer(self) -> unstable.Completer:
        is_ordinary = self._tokenizer.spec.vocabulary.kinds == ORDINARY
        return unstable.Completer(
            self._engine, self._tokenizer.token_byte_lengths, is_ordinary, self.token_byte_values()
        )


def _make_text_error(value: object) -> TypeError:
    """Make the error for a text that is not a str."""
    return TypeError(f"text is {describe(value)}; it must be a str")


def _check_set(allowed: object) -> None:
    """Raise TypeError unless the argument `allowed_special` is "all" or a set."""
    if not isinstance(allowed, (set, frozenset)) and not (isinstance(allowed, str) and allowed == "all"):
        raise TypeError(f'allowed_special is {describe(allowed)}; it must be "all" or a set of names')


def _to_bytes(value: str | bytes) -> bytes:
    """Convert a str to bytes; bytes stay the same."""
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes):
        raise TypeError(f"text_or_bytes is {describe(value)}; it must be str or bytes")
    return value


def _check_tokens(tokens: Any) -> Sequence[int]:
    """Return the argument `tokens`, after refusing what is not a sequence of ids."""
    if isinstance(tokens, str) or not hasattr(tokens, "__getitem__") or isinstance(tokens, dict):
        raise TypeError(f"tokens is {describe(tokens)}; it must be a sequence of int")
    return tokens  # type: ignore[no-any-return]


def _count_threads(num_threads: Any) -> int:
    """Read `num_threads`: at most the number of available cores, None for all of them; 2.5 is 3."""
    cores = resolve_threads(None)
    if num_threads is None:
        return cores
    if not isinstance(num_threads, (int, float)):
        num_threads = check_int("num_threads", num_threads, 1)
    if not num_threads > 0:
        raise ValueError(f"num_threads is {num_threads}; it must be above 0")
    n_threads: float = min(num_threads, cores)
    return math.ceil(n_threads)


def _raise_disallowed(name: str) -> NoReturn:
    raise ValueError(
        f"the text holds the disallowed special token {name!r}; to encode it as that token, pass "
        f"allowed_special={{{name!r}, ...}}; to encode it as ordinary text, pass "
        f"disallowed_special=(enc.special_tokens_set - {{{name!r}}}), or disallowed_special=() for all special tokens"
    )
