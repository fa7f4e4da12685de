"""The `Tokenizer`: what a user of this package holds in the hand.

Everything here checks arguments and hands on: encoding to `bpe/encoding.py`, decoding to `bpe/decoding.py`, files to
`bpe/formats`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.batch import TokenBatch
from bpe.decoding import Ids, IncrementalDecoder, TokenDecoder
from bpe.encoding import NO_TOKEN, Encoder
from bpe.errors import check_int, shown
from bpe.explaining import explain_pieces
from bpe.formats import clip, huggingface, tiktoken
from bpe.learning import Training
from bpe.normalizers import Normalizer
from bpe.pretokenize import Pretokenizer, as_pretokenizer
from bpe.spec import TokenizerSpec
from bpe.special import Allowed
from bpe.text import TextLike, atomic_write, to_bytes
from bpe.threads import thread_count
from bpe.vocabulary import SPECIAL, Vocabulary
from bpe.wordcounts import PathLike


class Tokenizer:
    """Text to token ids and back. Immutable; equal and hashed by content; pickles small; used by any number of threads.

    Made by `bpe.train`, `Tokenizer.load`, `Tokenizer.from_tiktoken`, `Tokenizer.from_clip` or `Tokenizer.from_spec`.

    >>> import bpe
    >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
    >>> ids = tok.encode("lowest lower")
    >>> tok.tokens("lowest lower")
    [b'low', b'e', b's', b't', b' lowe', b'r']
    >>> tok.decode(ids)
    'lowest lower'

    """

    def __init__(self, spec: TokenizerSpec, training: Training | None = None) -> None:
        self._spec = spec
        for array in (spec.merges, spec.merge_ids, spec.merge_ranks, spec.ends_word):
            if array is not None:
                array.flags.writeable = False
        self._training = training
        self._encoder = Encoder(spec)

    # Encoding ---------------------------------------------------------------------------------------------------------

    def encode(
        self, text: TextLike, *, allowed_special: Allowed = (), disallowed_special: Allowed = ()
    ) -> NDArray[np.uint32]:
        """The ids of one text: uint32, 1-D.

        By default text is text: no special token's id comes out, and a special token's name raises nothing.

        Args:
            text: str, or bytes of UTF-8 (a byte model takes any bytes). A lone surrogate becomes U+FFFD.
            allowed_special: names of special tokens that become their ids where the text holds them, or "all".
            disallowed_special: names that the text must not hold, or "all" for all that are not allowed.

        Raises:
            TypeError: for a text that is not str or bytes.
            ValueError: for a disallowed special token in the text; for a symbol outside the vocabulary where there is
                no unknown token; for bytes that are not UTF-8 in a character model.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=257, special_tokens=["<|end|>"])
        >>> tok.encode("a<|end|>", allowed_special="all")
        array([65,  0], dtype=uint32)

        """
        if not allowed_special and not disallowed_special:
            return self._encoder.encode(text)
        return self._encoder.encode(text, self._policy([text], allowed_special, disallowed_special))

    def encode_batch(
        self,
        texts: Iterable[TextLike],
        *,
        threads: int | None = None,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
    ) -> TokenBatch:
        """The ids of many texts in one flat array; the same ids as `encode` gives each.

        Args:
            texts: str or bytes, each a text.
            threads: how many to use; None is one per core, and one inside a worker process. A small batch uses one.
            allowed_special: as for `encode`.
            disallowed_special: as for `encode`.

        >>> import bpe
        >>> bpe.train(texts=["a b"], vocab_size=256).encode_batch(["a", "", "ab"]).to_list()
        [[64], [], [64, 65]]

        """
        listed = _listed(texts)
        count = thread_count(threads)
        allowed = self._policy(listed, allowed_special, disallowed_special)
        return self._encoder.encode_batch(listed, count, allowed)

    def count_tokens(
        self,
        text: TextLike | Iterable[TextLike],
        *,
        threads: int | None = None,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
    ) -> Any:
        """How many ids `encode` would give: an int for one text, an int64 array for several.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=256)
        >>> tok.count_tokens("abc"), tok.count_tokens(["abc", ""])
        (3, array([3, 0]))
        """
        special: dict[str, Allowed] = {"allowed_special": allowed_special, "disallowed_special": disallowed_special}
        if isinstance(text, (str, bytes, bytearray, memoryview)):
            return len(self.encode(text, **special))
        return self.encode_batch(text, threads=threads, **special).lengths

    def tokens(self, text: TextLike, *, allowed_special: Allowed = (), disallowed_special: Allowed = ()) -> list[Any]:
        """The tokens of a text: bytes in a byte model, str in a character model, the end-of-word mark included.

        A symbol that has no id, where there is no unknown token, is shown as it is.

        >>> import bpe
        >>> tok = bpe.train(texts=["aab aab"], num_merges=1, model="char", end_of_word="</w>")
        >>> tok.tokens("aab")
        ['aa', 'b', '</w>']
        """
        allowed = self._policy([text], allowed_special, disallowed_special)
        found: list[bytes] = []
        for piece in self._encoder.pieces(text, allowed):
            if isinstance(piece, int):
                found.append(self._spec.vocabulary[piece])
                continue
            ids = self._encoder.piece_ids(piece)
            unnamed = iter([symbol for symbol, number in self._encoder.named_symbols(piece) if number == NO_TOKEN])
            found += [next(unnamed) if number == NO_TOKEN else self._spec.vocabulary[number] for number in ids]
        return [self._shown(token) for token in found]

    def explain(self, text: TextLike) -> str:
        """How a text becomes its tokens, for people to read: each pretoken, and every merge in it in order.

        >>> import bpe
        >>> tok = bpe.train(texts=["aab aab"], pretokenizer="whitespace", num_merges=2, model="char")
        >>> print(tok.explain("aab"))
        'aab'
          a a b
          a + a -> aa  (rank 0, id 2)    aa b
          aa + b -> aab  (rank 1, id 3)    aab
          ids 3
        """
        return explain_pieces(self._encoder, self._spec, self._encoder.pieces(text, frozenset()))

    def _policy(
        self, texts: Sequence[TextLike], allowed_special: Allowed, disallowed_special: Allowed
    ) -> frozenset[str]:
        """The special tokens to find, after refusing texts with those that are disallowed."""
        specials = self._encoder.specials
        allowed, disallowed = specials.policy(allowed_special, disallowed_special)
        if disallowed:
            for text in texts:
                specials.refuse(to_bytes(text), disallowed)
        return allowed

    # Decoding ---------------------------------------------------------------------------------------------------------

    def decode(self, ids: Ids, errors: str = "replace") -> str:
        """The text of a sequence of ids.

        Args:
            ids: a list of int, or an array of an integer type, 1-D.
            errors: what becomes of bytes that are not UTF-8, as in `bytes.decode`: "replace", "strict", "ignore", …

        Raises:
            TypeError: for ids that are not integers.
            ValueError: for an id that is no token; UnicodeDecodeError (a ValueError) with errors="strict".

        """
        return self.decode_bytes(ids).decode("utf-8", errors)

    def decode_bytes(self, ids: Ids) -> bytes:
        """The bytes of a sequence of ids; in a model with an end-of-word mark each mark is a space, the last
        nothing.
        """
        return self._decoder.bytes_of(ids)

    def decode_batch(self, batch: TokenBatch | Iterable[Ids], errors: str = "replace") -> list[str]:
        """The text of each sequence of ids.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=256)
        >>> tok.decode_batch(tok.encode_batch(["a", "b c"]))
        ['a', 'b c']
        """
        return [self.decode(ids, errors) for ids in batch]

    def decoder(self) -> IncrementalDecoder:
        """A decoder to push ids into as they come, which gives text as soon as its characters are whole.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=256)
        >>> decoder = tok.decoder()
        >>> [decoder.push(int(i)) for i in tok.encode("aé")] + [decoder.flush()]
        ['a', '', 'é', '']
        """
        return IncrementalDecoder(self._decoder)

    @cached_property
    def _decoder(self) -> TokenDecoder:
        return TokenDecoder(self._spec)

    # Vocabulary -------------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> TokenizerSpec:
        """Everything that decides the ids, as plain data."""
        return self._spec

    @property
    def training(self) -> Training | None:
        """How the training went that made this tokenizer; None for one that was loaded."""
        return self._training

    @property
    def model(self) -> str:
        """What symbols are: "byte" or "char"."""
        return self._spec.model

    @property
    def pretokenizer(self) -> Pretokenizer | None:
        """What cuts text into words, or None: the whole text is one."""
        return self._spec.pretokenizer

    @property
    def normalizer(self) -> Normalizer | None:
        """What is done to text first, or None."""
        return self._spec.normalizer

    @property
    def unk_token(self) -> str | None:
        """The token for symbols outside the vocabulary, or None."""
        return self._spec.unk_token

    @property
    def end_of_word(self) -> str | None:
        """The mark at a word's end, or None."""
        return self._spec.end_of_word

    @property
    def vocab_size(self) -> int:
        """How many tokens there are, special tokens included (ids may be higher where there are gaps)."""
        return len(self._spec.vocabulary)

    def __len__(self) -> int:
        return self.vocab_size

    @property
    def special_tokens(self) -> dict[str, int]:
        """The special tokens: name → id."""
        return dict(self._spec.special_tokens)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of a token, an end-of-word mark included.

        Raises:
            ValueError: for an id that is no token.

        """
        number = check_int("token_id", token_id, 0)
        if number not in self._spec.vocabulary:
            raise ValueError(
                f"token id {number} is no token of this vocabulary, which has {self.vocab_size} tokens with ids below "
                f"{self._spec.vocabulary.limit}"
            )
        return self._spec.vocabulary[number]

    def token_id(self, token: str | bytes) -> int:
        """The id of a token, given as its bytes or as str; a special token or the unknown token by its name.

        Raises:
            ValueError: for what is no token.

        """
        if not isinstance(token, (str, bytes)):
            raise TypeError(f"token is {shown(token)}, a {type(token).__name__}; it must be str or bytes")
        name, data = (token if isinstance(token, str) else None), to_bytes(token)
        if name is not None and name in self._spec.special_tokens:
            return self._spec.special_tokens[name]
        found = self._spec.vocabulary.ids.get(data)
        if found is None:
            found = self._special_ids.get(data)
        if found is None:
            raise ValueError(f"{shown(token)} is no token of this vocabulary of {self.vocab_size}")
        return found

    @cached_property
    def _special_ids(self) -> dict[bytes, int]:
        """The special tokens and the unknown token by their bytes."""
        return {token: number for number, token in self._spec.vocabulary.items(SPECIAL)}

    def vocab(self) -> dict[Any, int]:
        """All tokens with their ids, by id: bytes in a byte model, str in a character model; special tokens too."""
        return {self._shown(token): number for number, token in self._spec.vocabulary.items()}

    @property
    def merges(self) -> NDArray[np.int32]:
        """The merges, best rank first: pairs of ids, int32, shape (n, 2)."""
        return self._spec.merges

    @cached_property
    def ranks(self) -> dict[bytes, int]:
        """Each token that a merge makes → the merge's rank (the best, where several make it)."""
        made = self._spec.merge_ids.tolist()
        numbers = range(len(made)) if self._spec.merge_ranks is None else self._spec.merge_ranks.tolist()
        found: dict[bytes, int] = {}
        for token, rank in zip(made, numbers, strict=True):
            found.setdefault(self._spec.vocabulary[token], rank)
        return found

    @property
    def token_byte_lengths(self) -> NDArray[np.uint32]:
        """The length of each token in bytes, an end-of-word mark included: uint32 by id, 0 for an id that is none."""
        return self._spec.vocabulary.lengths

    def _shown(self, token: bytes) -> Any:
        return token.decode() if self._spec.model == "char" else token

    # CLIP -------------------------------------------------------------------------------------------------------------

    def tokenize(
        self, texts: str | Iterable[str], context_length: int = 77, truncate: bool = True
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """CLIP's input: one row of ids per text, between the start and the end token, then zeros.

        As in OpenAI's CLIP, the names of the two special tokens in a text become their ids, but only where the split
        pattern finds them.

        Args:
            texts: one text or several.
            context_length: the length of a row.
            truncate: cut a longer text, its end token staying; otherwise it is an error.

        Returns:
            (int32 ids, shape (n, context_length); int64 true lengths, shape (n,), cut ones included).

        Raises:
            TypeError: for a tokenizer that is not CLIP's.
            ValueError: for a text that is too long, without `truncate`.

        """
        if self._spec.clip is None:
            raise TypeError(
                "this tokenizer is not CLIP's; tokenize is for one made by Tokenizer.from_clip: use encode_batch"
            )
        width = check_int("context_length", context_length, 2)
        start, end = self._spec.clip
        batch = self._clip_encoder.encode_batch([texts] if isinstance(texts, str) else _listed(texts), 1)
        lengths = batch.lengths + 2
        if not truncate and len(lengths) and lengths.max() > width:
            at = int(np.argmax(lengths > width))
            raise ValueError(
                f"text {at} has {lengths[at]} ids with start and end, more than context_length={width}; pass "
                "truncate=True to cut it, or a greater context_length"
            )
        lengths = np.minimum(lengths, width)
        rows = np.zeros((len(batch), width), dtype=np.int32)
        for row, ids, length in zip(rows, batch, lengths.tolist(), strict=True):
            row[0] = start
            row[1 : length - 1] = ids[: length - 2]
            row[length - 1] = end
        return rows, lengths

    @cached_property
    def _clip_encoder(self) -> Encoder:
        names = [(name.encode(), number) for name, number in self._spec.special_tokens.items()]
        return Encoder(replace(self._spec, special_tokens={}), whole_words=names)

    # Files ------------------------------------------------------------------------------------------------------------

    def save(self, path: PathLike) -> None:
        """Write a Hugging Face tokenizer.json, whole or not at all.

        The `tokenizers` package loads it and gives the same ids; where that package cannot express the tokenizer, the
        file says so by a type of ours and `tokenizers` refuses it.
        """
        data = huggingface.write(self._spec)
        with atomic_write(path) as file:
            file.write(data)

    @classmethod
    def load(cls, path: PathLike) -> Tokenizer:
        """Read a tokenizer.json that `save` or the `tokenizers` package wrote.

        Raises:
            FormatError: for a file that is not one, or uses what is not supported.
            OSError: for a file that cannot be read.

        """
        return cls(huggingface.read(Path(path).read_bytes(), os.fspath(path)))

    @classmethod
    def from_spec(cls, spec: TokenizerSpec) -> Tokenizer:
        """A tokenizer from its plain description."""
        if not isinstance(spec, TokenizerSpec):
            raise TypeError(f"spec is {shown(spec)}, a {type(spec).__name__}; it must be a bpe.spec.TokenizerSpec")
        return cls(spec)

    @classmethod
    def from_tiktoken(
        cls,
        path: PathLike,
        pretokenizer: Pretokenizer | str | None,
        special_tokens: Mapping[str, int] | None = None,
    ) -> Tokenizer:
        """The tokenizer of an OpenAI rank file (gzipped or not), with tiktoken's ids.

        Args:
            path: the file: on each line a token in base64, a space and its rank.
            pretokenizer: the pattern that goes with it: "gpt2" for r50k and p50k, "cl100k", "o200k", or your own.
            special_tokens: name → id.

        Raises:
            FormatError: with the line, for a file that is not one.

        """
        special = dict(special_tokens or {})
        for name, number in special.items():
            if not isinstance(name, str) or not name:
                raise TypeError(f"special token {shown(name)} must be a str of at least one character")
            special[name] = check_int(f"the id of {name!r}", number, 0, 2**31 - 1)
        return cls(tiktoken.read(Path(path).read_bytes(), as_pretokenizer(pretokenizer), special, os.fspath(path)))

    @classmethod
    def from_clip(
        cls,
        path: PathLike,
        *,
        lowercase: bool = True,
        clean_whitespace: bool = True,
        unescape_html: bool = True,
        ftfy: bool | None = None,
    ) -> Tokenizer:
        """CLIP's tokenizer from its merge list (`bpe_simple_vocab_16e6.txt`, gzipped or not).

        The defaults give what OpenAI's CLIP gives.

        Args:
            path: the merge list.
            lowercase: lower-case the text.
            clean_whitespace: make runs of white space one space and trim the ends.
            unescape_html: replace HTML entities, twice over.
            ftfy: repair broken text with ftfy (extra `clip`); None: if it is installed.

        Raises:
            FormatError: with the line, for a file that is not one.

        """
        normalizer = clip.clean_up(lowercase, clean_whitespace, unescape_html, ftfy)
        return cls(clip.read(Path(path).read_bytes(), normalizer, os.fspath(path)))

    # Identity ---------------------------------------------------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that decides the ids: SHA-256 in hex, the same on every machine."""
        spec = self._spec
        digest = hashlib.sha256()
        described = {
            "model": spec.model,
            "pretokenizer": None if spec.pretokenizer is None else spec.pretokenizer.to_json(),
            "normalizer": None if spec.normalizer is None else spec.normalizer.to_json(),
            "special_tokens": sorted(spec.special_tokens.items()),
            "unk_token": spec.unk_token,
            "fuse_unk": spec.fuse_unk,
            "end_of_word": spec.end_of_word,
            "end_of_word_glued": spec.end_of_word_glued,
            "ignore_merges": spec.ignore_merges,
            "clip": spec.clip,
        }
        digest.update(json.dumps(described, sort_keys=True).encode())
        ends_word = b"" if spec.ends_word is None else spec.ends_word.tobytes()
        ranks = b"" if spec.merge_ranks is None else spec.merge_ranks.astype("<i4").tobytes()
        for part in (
            spec.vocabulary.blob,
            spec.vocabulary.offsets.astype("<i8").tobytes(),
            spec.vocabulary.kinds.tobytes(),
            spec.merges.astype("<i4").tobytes(),
            spec.merge_ids.astype("<i4").tobytes(),
            ranks,
            ends_word,
        ):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return self.fingerprint == other.fingerprint if isinstance(other, Tokenizer) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[Any, ...]:
        spec = self._spec
        vocabulary = spec.vocabulary
        fields = {name: getattr(spec, name) for name in spec.__dataclass_fields__ if name != "vocabulary"}
        fields["special_tokens"] = dict(spec.special_tokens)
        return _rebuild, (vocabulary.blob, vocabulary.offsets, vocabulary.kinds, fields, self._training)

    def __copy__(self) -> Tokenizer:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tokenizer:
        return self

    def __repr__(self) -> str:
        cutting = "" if self.pretokenizer is None else f", {self.pretokenizer.name or 'own pattern'}"
        return f"<bpe.Tokenizer: {self.model} model{cutting}, {self.vocab_size} tokens, {self.fingerprint[:12]}>"


def _rebuild(
    blob: bytes,
    offsets: NDArray[np.int64],
    kinds: NDArray[np.uint8],
    fields: dict[str, Any],
    training: Training | None,
) -> Tokenizer:
    return Tokenizer(TokenizerSpec(vocabulary=Vocabulary.from_arrays(blob, offsets, kinds), **fields), training)


def _listed(texts: Iterable[TextLike]) -> Sequence[TextLike]:
    if isinstance(texts, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"texts is one {type(texts).__name__}; it must be an iterable of texts: [{shown(texts, 20)}]")
    return texts if isinstance(texts, list) else list(texts)
