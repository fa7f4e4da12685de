"""What a `Tokenizer` does with text: each way to encode, and the checks of its arguments.

The work is done elsewhere: texts and batches go to `bpe/encoding.py`, files and Arrow arrays to `bpe/documents.py`, and
streams, offsets and dropout to the modules of those names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, wraps
from typing import Any, Literal, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from bpe._core import calls
from bpe._core.encoder import Encoder as Kernel
from bpe.batch import TokenBatch
from bpe.corpus import Block, PathLike, all_regular, file_blocks, listed_files, separators_of, total_size
from bpe.documents import Documents, arrow_documents
from bpe.dropout import DropoutEncoder, check_dropout
from bpe.encoding import NO_TOKEN, NOTHING, Around, BlockIds, Encoder, surrounded
from bpe.errors import check_int, check_iterable, error_context, shown
from bpe.explaining import explain_pieces
from bpe.offsets import OffsetEncoder, Unit
from bpe.pretokenize import scanner_of
from bpe.reading import EncodingErrors, checked_encoding_errors
from bpe.spec import TokenizerSpec
from bpe.special import Allowed
from bpe.streams import encode_stream
from bpe.text import TextLike, no_text, to_bytes
from bpe.threads import in_order, thread_count

#: The bytes of files, where they are not known before.
_UNKNOWN_SIZE = 1 << 24

_Method = TypeVar("_Method", bound=Callable[..., Any])

#: What `tokens(as_text=True)` puts before a symbol that has no id.
UNKNOWN = "⁇"


def quickly(method: _Method) -> _Method:
    """`encode` with the kernel's function in front of it, so that plain calls need no Python frame."""
    return cast("_Method", wraps(method)(calls.before(method)))


def quickly_together(method: _Method) -> _Method:
    """The same of `encode_batch`."""
    return cast("_Method", wraps(method)(calls.before_batch(method, TokenBatch)))


def quickly_counted(method: _Method) -> _Method:
    """The same of `count_tokens`."""
    return cast("_Method", wraps(method)(calls.before_count(method)))


class TextEncoder:
    """The part of `Tokenizer` that encodes. Immutable."""

    _spec: TokenizerSpec
    _encoder: Encoder
    #: The kernel where it takes texts as they are, for `quickly`; else None.
    _quick: Kernel | None

    # One text ---------------------------------------------------------------------------------------------------------

    @quickly
    def encode(
        self,
        text: TextLike,
        *,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
        dropout: float = 0.0,
        seed: int | None = None,
    ) -> NDArray[np.uint32]:
        """The ids of one text: uint32, 1-D.

        By default a special token in the text is ordinary text: it does not become its id, and it raises no error.

        Args:
            text: str, or bytes of UTF-8 (a byte model takes any bytes). A lone surrogate becomes U+FFFD.
            allowed_special: names of special tokens that become their ids where the text holds them, or "all".
            disallowed_special: names that raise an error if the text holds them, or "all" for all that are not allowed.
            dropout: the probability, at each step, that a possible merge is skipped (BPE-dropout); 0.1 is usual in
                training. With 0, the default, the ids are always the same.
            seed: an int that decides dropout's choices, the same on every machine; None for random choices.

        Raises:
            TypeError: for a text that is not str or bytes.
            ValueError: for a disallowed special token in the text; for a symbol outside the vocabulary where there is
                no unknown token; for bytes that are not UTF-8 in a character model.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=257, special_tokens=["<|end|>"])
        >>> tok.encode("a<|end|>", allowed_special="all")
        array([65,  0], dtype=uint32)

        """
        allowed = self._policy([text], allowed_special, disallowed_special)
        if dropout:
            dropout, seed = check_dropout(dropout, seed)
            return self._dropout_encoder.encode(text, allowed, dropout, seed)
        return self._encoder.encode(text, allowed)

    def encode_spans(
        self, spans: Iterable[tuple[TextLike, bool]], *, allowed_special: Allowed = "all"
    ) -> NDArray[np.uint32]:
        """The ids of a text made of trusted and untrusted spans: special tokens are found in trusted spans only.

        The spans are encoded as one text: a word may begin in one span and end in the next. A special token is found
        only if all of it lies in one span.

        Args:
            spans: (text, trusted) pairs in order, such as a chat template's own text and what a user wrote.
            allowed_special: names of the special tokens to find in trusted text, or "all".

        Raises:
            TypeError: for a span that is not such a pair.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=257, special_tokens=["<|end|>"])
        >>> tok.encode_spans([("a<|end|>", True), ("<|end|>"[:3], False)])
        array([65,  0, 28, 92, 69], dtype=uint32)

        """
        specials = self._encoder.specials
        allowed = specials.allowed(allowed_special)
        parts: list[NDArray[np.uint32]] = [np.empty(0, dtype=np.uint32)]
        held: list[bytes] = []  # text since the last special token
        for span in spans:
            if not isinstance(span, (tuple, list)) or len(span) != 2 or not isinstance(span[1], (bool, np.bool_)):
                raise TypeError(f"span is {shown(span)}; it must be (text, trusted), such as ('Hello', False)")
            for piece, special in specials.pieces(to_bytes(span[0]), allowed if span[1] else frozenset(), raw=True):
                if special is None:
                    held.append(bytes(piece))
                    continue
                parts += [self._encoder.encode(b"".join(held), specials.always), np.array([special], dtype=np.uint32)]
                held.clear()
        return np.concatenate([*parts, self._encoder.encode(b"".join(held), specials.always)])

    def encode_with_offsets(
        self,
        text: TextLike,
        unit: Unit = "char",
        *,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The ids of one text, and where in it each token begins and ends.

        Args:
            text: as for `encode`.
            unit: "char" for places in the str, where a token with only some bytes of a character counts as having all
                of it; "byte" for places in the UTF-8.
            allowed_special: as for `encode`.
            disallowed_special: as for `encode`.

        Returns:
            (uint32 ids, shape (n,); int64 spans, shape (n, 2): token i is `text[spans[i, 0]:spans[i, 1]]`). An
            end-of-word mark that is a token of its own has an empty span.

            Spans always refer to the text as it was given. With a normalizer, a token's span is the smallest part of
            that text that its characters were made from, in whole characters: the letter and the accent for an `é` that
            NFC composed, all spaces for a space that replaced several, all of `&amp;` for an unescaped `&`. Tokens made
            from the same part have the same span. A token that a normalizer inserted has an empty span. Removed
            text is in no span, unless it lies within such a part. In a line that ftfy repairs, everything from the
            first change to the last is one part.

            Hugging Face's `tokenizers` gives the same spans where each character was made from one. Otherwise it
            differs: a composed character has only the first of its characters, a character that replaced several has
            only the last, and marks that change places have each other's.

        Raises:
            ValueError: as `encode`.

        >>> import bpe
        >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
        >>> ids, spans = tok.encode_with_offsets("lowest é")
        >>> spans.tolist()
        [[0, 3], [3, 4], [4, 5], [5, 6], [6, 7], [7, 8], [7, 8]]

        """
        allowed = self._policy([text], allowed_special, disallowed_special)
        return self._offset_encoder.encode(text, allowed, unit)

    @overload
    def truncate(self, text: str, max_tokens: int, *, allowed_special: Allowed = ()) -> str: ...

    @overload
    def truncate(self, text: bytes, max_tokens: int, *, allowed_special: Allowed = ()) -> bytes: ...

    @overload
    def truncate(self, text: TextLike, max_tokens: int, *, allowed_special: Allowed = ()) -> TextLike: ...

    def truncate(self, text: TextLike, max_tokens: int, *, allowed_special: Allowed = ()) -> TextLike:
        """The beginning of a text that has at most `max_tokens` tokens: a str for a str, bytes for bytes.

        The text is cut where a token ends. If the cut is within a character, that character is left out. If the
        beginning has more tokens when it is encoded by itself, it is shortened further.

        Args:
            text: as for `encode`. Only the beginning of a long text is read.
            max_tokens: the highest number of tokens.
            allowed_special: as for `encode`.

        >>> import bpe
        >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
        >>> tok.truncate("lowest lower", 3), tok.truncate("low", 3)
        ('lowes', 'low')

        """
        most = check_int("max_tokens", max_tokens, 0)
        allowed = self._policy([text], allowed_special, ())
        if self._spec.normalizer is not None:
            return self._truncate_by_trying(text, most, allowed)
        data = to_bytes(text)
        begun = self._beginning(data, most, allowed)
        _, spans = self._offset_encoder.encode(begun, allowed, "byte")
        if len(begun) == len(data) and len(spans) <= most:
            return text
        for count in range(min(most, len(spans)), 0, -1):
            end = int(spans[count - 1, 1])
            while end > 0 and end < len(data) and data[end] & 0xC0 == 0x80:
                end -= 1
            if len(self._encoder.encode(data[:end], allowed)) <= most:
                return data[:end].decode() if isinstance(text, str) else data[:end]
        return "" if isinstance(text, str) else b""

    def _beginning(self, data: bytes, most: int, allowed: frozenset[str]) -> bytes:
        """A beginning of a text whose first `most` tokens, and one more, are the text's own; or all of it."""
        scanner = scanner_of(self._spec.pretokenizer)
        size = 32 * most + 1024
        while scanner is not None and not allowed and size < len(data):
            cut = self._encoder.last_cut(memoryview(data)[:size], 0)
            if cut and len(self._encoder.encode(data[:cut])) > most:
                return data[:cut]
            size *= 4
        return data

    def _truncate_by_trying(self, text: TextLike, most: int, allowed: frozenset[str]) -> TextLike:
        """Truncate by bisection, for text that a normalizer changes. It assumes that more text has no fewer tokens."""
        whole = text if isinstance(text, (str, bytes)) else to_bytes(text)
        low, high = 0, len(whole)  # what is shorter than `high` may be too long, `low` is not
        if len(self._encoder.encode(whole, allowed)) <= most:
            return text
        while high - low > 1:
            middle = (low + high) // 2
            if len(self._encoder.encode(_whole_characters(whole[:middle]), allowed)) <= most:
                low = middle
            else:
                high = middle
        return _whole_characters(whole[:low])

    # Many texts -------------------------------------------------------------------------------------------------------

    @quickly_together
    def encode_batch(
        self,
        texts: Iterable[TextLike],
        *,
        threads: int | None = None,
        out: NDArray[Any] | None = None,
        prepend: int | str | None = None,
        append: int | str | None = None,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
        dropout: float = 0.0,
        seed: int | None = None,
    ) -> TokenBatch:
        """The ids of many texts in one flat array; the same ids as `encode` gives each.

        Args:
            texts: an iterable of str or bytes, or an Arrow array of strings, which is read without a copy (a null is an
                empty text), so that nobody may write to its memory meanwhile.
            threads: how many to use; None is one per core, or one inside a worker process. A small batch uses one.
            out: an array to write the ids to, of uint32, or of uint16 if all ids are below 65,536. The batch's `ids`
                are then a view of its beginning. Using one array many times saves the time that new memory takes.
            prepend: an id to put before each text, or the name of a special token.
            append: the same after each text, such as `"<|endoftext|>"`.
            allowed_special: as for `encode`.
            disallowed_special: as for `encode`.
            dropout: as for `encode`.
            seed: as for `encode`; text i is encoded with `seed + i`.

        Raises:
            ValueError: as `encode`; for an `out` that is too small; for a token that this tokenizer does not have.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=257, special_tokens=["<|end|>"])
        >>> tok.encode_batch(["a", "", "ab"]).to_list()
        [[65], [], [65, 66]]
        >>> tok.encode_batch(["a", "", "ab"], append="<|end|>").to_list()
        [[65, 0], [0], [65, 66, 0]]

        """
        _check_out(out, self._spec.vocabulary.limit)
        around = self._around(prepend, append)
        documents = arrow_documents(texts)
        count = thread_count(threads)
        if dropout:
            chance, first = check_dropout(dropout, seed)
            listed = _listed(texts) if documents is None else [text for each in documents for text in each.texts()]
            allowed = self._policy(listed, allowed_special, disallowed_special)
            rows = in_order(
                lambda place: surrounded(
                    self._dropout_encoder.encode(listed[place], allowed, chance, first + place), around
                ),
                range(len(listed)),
                min(count, len(listed) or 1),
            )
            return _into(out, TokenBatch.from_lists(rows))
        if documents is not None:
            allowed = self._policy([], allowed_special, disallowed_special)
            return _into(
                out, self._encode_documents(documents, count, allowed, disallowed_special, allowed_special, around)
            )
        listed = _listed(texts)
        try:
            allowed = self._policy(listed, allowed_special, disallowed_special)
            batch = self._encoder.encode_batch(listed, count, allowed, around)
        except TypeError:
            for number, text in enumerate(listed):
                if not isinstance(text, (str, bytes, bytearray, memoryview)):
                    raise no_text(text, f"text {number}") from None
            raise
        return _into(out, batch)

    def encode_files(
        self,
        files: PathLike | Iterable[PathLike],
        *,
        separator: str | None = None,
        per_line: bool = False,
        threads: int | None = None,
        encoding_errors: EncodingErrors = "strict",
        out: NDArray[Any] | None = None,
        prepend: int | str | None = None,
        append: int | str | None = None,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
    ) -> TokenBatch:
        r"""The ids of the documents in text files, in one flat array.

        Files are read in blocks while they are encoded, so that beside the ids little memory is needed. A file that
        grows meanwhile is read up to the size that it had when it was opened. Where the tokenizer has a normalizer or a
        pattern of your own, each document is held whole.

        Args:
            files: one path or several, of UTF-8 text.
            separator: the string between the documents of a file, which belongs to none of them, as in `str.split`;
                None makes each file one document. It gives no id, even if it is a special token: see `append`.
            per_line: each line of a file is a document, its newline included (`separator="\n"` leaves newlines out).
            threads: as for `encode_batch`; several threads also share one large document.
            encoding_errors: what becomes of bytes that are not UTF-8: "strict", an error; "replace", U+FFFD, as
                `bytes.decode` has it; "bytes", the bytes as they are (byte models only).
            out: as for `encode_batch`.
            prepend: as for `encode_batch`.
            append: as for `encode_batch`.
            allowed_special: as for `encode`.
            disallowed_special: as for `encode`.

        Raises:
            OSError: for a file that cannot be read, or gets shorter while it is read.
            FormatError: for a file that is compressed, in UTF-16 or UTF-32, or not UTF-8 (`encoding_errors`), and where
                `encode` raises ValueError; it names the file.
            ValueError: for both a separator and `per_line`; for a token that this tokenizer does not have.

        >>> import bpe, tempfile
        >>> tok = bpe.train(texts=["a b"], vocab_size=257, special_tokens=["<|endoftext|>"])
        >>> with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        ...     _ = file.write(b"ab<|endoftext|>c")
        ...     file.flush()
        ...     tok.encode_files(file.name, separator="<|endoftext|>").to_list()
        ...     tok.encode_files(file.name, separator="<|endoftext|>", append="<|endoftext|>").to_list()
        [[65, 66], [67]]
        [[65, 66, 0], [67, 0]]

        """
        _check_out(out, self._spec.vocabulary.limit)
        around = self._around(prepend, append)
        separators = separators_of(separator, per_line)
        reading = checked_encoding_errors(encoding_errors, chars=self._spec.model == "char")
        count = thread_count(threads)
        allowed, disallowed = self._encoder.specials.policy(allowed_special, disallowed_special)
        paths = listed_files(files)
        total = total_size(paths)
        blocks = file_blocks(
            paths,
            separators,
            per_line,
            self._encoder.end_cut(separators, per_line, allowed | disallowed),
            threads=count,
            total=total,
            encoding_errors=reading,
        )
        parts = self._block_ids(
            blocks,
            count,
            total or _UNKNOWN_SIZE,
            allowed,
            disallowed=disallowed,
            around=around,
            ahead=not all_regular(paths),
        )
        return _into(out, BlockIds.joined(list(parts)))

    def encode_stream(
        self,
        chunks: Iterable[TextLike],
        *,
        cut_after: str | None = None,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
    ) -> Iterator[NDArray[np.uint32]]:
        """The ids of a text that comes in chunks, as arrays. Together they are the ids of the whole text.

        Chunks may be cut anywhere: in a word, in a special token, in a character's bytes. The memory needed is that of
        one chunk and of the longest stretch that cannot be cut, which is seldom more than a line.

        In some cases all text between two special tokens has to be kept: without a pretokenizer, with a pattern
        of your own, with `FixText`, and with a `Replace` whose pattern is more than one character. Then pass each
        document as a text of its own (`encode_batch`, `encode_files` with a `separator`), or give `cut_after`.

        Args:
            chunks: an iterable of str or bytes, such as an open file.
            cut_after: a string, such as a newline, after which text may be cut in those cases. You promise that no
                match of your pattern reaches or looks across such a place; if one does, ids may differ from those of
                `encode`. The string must still be there after normalization.
            allowed_special: as for `encode`.
            disallowed_special: as for `encode`; the error is raised when the chunk with the token comes.

        >>> import bpe
        >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
        >>> [ids.tolist() for ids in tok.encode_stream(["lo", "wer l", "ow"])]
        [[257, 68, 81, 258]]

        """
        allowed, disallowed = self._encoder.specials.policy(allowed_special, disallowed_special)
        return encode_stream(self._encoder, chunks, allowed, disallowed, cut_after)

    @overload
    def count_tokens(  # type: ignore[overload-overlap]  # a str is an iterable of str, too
        self,
        text: TextLike,
        *,
        threads: int | None = None,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
    ) -> int: ...

    @overload
    def count_tokens(
        self,
        text: Iterable[TextLike],
        *,
        threads: int | None = None,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
    ) -> NDArray[np.int64]: ...

    @quickly_counted
    def count_tokens(
        self,
        text: TextLike | Iterable[TextLike],
        *,
        threads: int | None = None,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
    ) -> int | NDArray[np.int64]:
        """How many ids `encode` would give: an int for one text, an int64 array for several.

        Args:
            text: one text as for `encode`, or several as for `encode_batch`.
            threads: as for `encode_batch`; one text takes one thread.
            allowed_special: as for `encode`.
            disallowed_special: as for `encode`.

        Raises:
            TypeError, ValueError: as `encode` does.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=256)
        >>> tok.count_tokens("abc"), tok.count_tokens(["abc", ""])
        (3, array([3, 0]))

        """
        if isinstance(text, (str, bytes, bytearray, memoryview)):
            return len(self.encode(text, allowed_special=allowed_special, disallowed_special=disallowed_special))
        batch = self.encode_batch(
            text, threads=threads, allowed_special=allowed_special, disallowed_special=disallowed_special
        )
        return batch.lengths

    # For people -------------------------------------------------------------------------------------------------------

    @overload
    def tokens(
        self,
        text: TextLike,
        *,
        as_text: Literal[False] = False,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
    ) -> list[Any]: ...

    @overload
    def tokens(
        self,
        text: TextLike,
        *,
        as_text: Literal[True],
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
    ) -> list[str]: ...

    @overload
    def tokens(
        self, text: TextLike, *, as_text: bool, allowed_special: Allowed = (), disallowed_special: Allowed = ()
    ) -> list[Any]: ...

    def tokens(
        self,
        text: TextLike,
        *,
        as_text: bool = False,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
    ) -> list[Any]:
        r"""The tokens of a text: bytes in a byte model, str in a character model, the end-of-word mark included.

        A symbol that has no id, where there is no unknown token, is shown as it is.

        Args:
            text: as for `encode`.
            as_text: give a str for each token, in a byte model too. A token that has only some bytes of a character
                has U+FFFD (�) in its place, as `decode([id])` gives. A symbol without an id has `⁇` before it, and a
                byte that is no character is spelled `\xNN` there. The bytes are exact, such text is for reading only.
            allowed_special: as for `encode`.
            disallowed_special: as for `encode`.

        Raises:
            TypeError, ValueError: as `encode` does, but for symbols without an id.

        >>> import bpe
        >>> tok = bpe.train(texts=["aab aab"], num_merges=1, model="char", end_of_word="</w>")
        >>> tok.tokens("aab")
        ['aa', 'b', '</w>']
        >>> tok.tokens("abc", as_text=True)
        ['a', 'b', '⁇c', '</w>']
        >>> tok = bpe.train(texts=["한"], vocab_size=258)
        >>> tok.tokens("한 글"), tok.tokens("한 글", as_text=True)
        ([b'\xed\x95\x9c', b' ', b'\xea', b'\xb8', b'\x80'], ['한', ' ', '�', '�', '�'])

        """
        allowed = self._policy([text], allowed_special, disallowed_special)
        found: list[tuple[bytes, bool]] = []  # a token or a symbol without an id, and which of the two
        for piece in self._encoder.pieces(text, allowed):
            if isinstance(piece, int):
                found.append((self._spec.vocabulary[piece], True))
                continue
            ids = self._encoder.piece_ids(piece)
            unnamed = iter([symbol for symbol, number in self._encoder.named_symbols(piece) if number == NO_TOKEN])
            found += [
                (next(unnamed), False) if number == NO_TOKEN else (self._spec.vocabulary[number], True)
                for number in ids
            ]
        if not as_text:
            return [self._shown(token) for token, _ in found]
        return [
            token.decode("utf-8", "replace") if known else UNKNOWN + token.decode("utf-8", "backslashreplace")
            for token, known in found
        ]

    def explain(self, text: TextLike) -> str:
        """How a text becomes its tokens, for people to read: each word, and every merge in it, in order.

        A special token's name in the text is ordinary text.

        >>> import bpe
        >>> tok = bpe.train(texts=["aab aab"], pretokenizer="whitespace", num_merges=2, model="char")
        >>> print(tok.explain("aab"))
        'aab'
          a a b
          a + a -> aa  (rank 0, id 2)    aa b
          aa + b -> aab  (rank 1, id 3)    aab
          ids 3
        """
        return explain_pieces(self._encoder, self._spec, self._encoder.pieces(text, self._encoder.specials.always))

    # Private ----------------------------------------------------------------------------------------------------------

    def _shown(self, token: bytes) -> Any:
        return token.decode() if self._spec.model == "char" else token

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

    @cached_property
    def _offset_encoder(self) -> OffsetEncoder:
        return OffsetEncoder(self._encoder)

    @cached_property
    def _dropout_encoder(self) -> DropoutEncoder:
        return DropoutEncoder(self._encoder)

    def _around(self, prepend: object, append: object) -> Around:
        """The ids that `prepend` and `append` name."""
        return self._token_id("prepend", prepend), self._token_id("append", append)

    def _token_id(self, argument: str, value: object) -> int | None:
        specials = self._encoder.specials.ids
        if value is None:
            return None
        if isinstance(value, str):
            if value not in specials:
                known = f"its special tokens are {shown(list(specials), 200)}" if specials else "it has none"
                raise ValueError(
                    f"{argument} is {shown(value)}, which is no special token of this tokenizer ({known}); give one of "
                    "those, or the id of any token"
                )
            return specials[value]
        number = check_int(argument, value, 0)
        if number not in self._spec.vocabulary:
            raise ValueError(
                f"{argument} is {number}, which is no id of this tokenizer; give the id of a token, or the name of a "
                "special token"
            )
        return number

    def _encode_documents(
        self,
        groups: Iterable[Documents],
        threads: int,
        allowed: frozenset[str],
        disallowed_special: Allowed,
        allowed_special: Allowed,
        around: Around,
    ) -> TokenBatch:
        """The ids of texts in buffers; an error names the array that a text comes from."""
        batches: list[TokenBatch] = []
        for documents in groups:
            with error_context(documents.source):
                if disallowed_special:
                    self._policy(documents.texts(), allowed_special, disallowed_special)
                if allowed and self._encoder.specials.occur(documents.data, allowed):
                    batches.append(self._encoder.encode_batch(documents.texts(), threads, allowed, around))
                    continue
                batches.append(
                    self._encoder.encode_documents(documents.data, documents.starts, documents.ends, threads, around)
                )
        if len(batches) == 1:
            return batches[0]
        lengths = [np.zeros(1, dtype=np.int64), *(batch.lengths for batch in batches)]
        ids = [np.empty(0, dtype=np.uint32), *(batch.ids for batch in batches)]
        return TokenBatch(np.concatenate(ids), np.cumsum(np.concatenate(lengths)))

    def _block_ids(
        self,
        blocks: Iterator[Block],
        threads: int,
        n_bytes: int,
        allowed: frozenset[str],
        *,
        disallowed: frozenset[str] = frozenset(),
        around: Around = NOTHING,
        most: int = sys.maxsize,
        ahead: bool = False,
    ) -> Iterator[BlockIds]:
        """The ids of all blocks of files, in parts of about `most` bytes; the command line calls this too."""
        while True:
            part = self._encoder.encode_blocks(
                blocks,
                threads,
                n_bytes,
                allowed=allowed,
                disallowed=disallowed,
                around=around,
                most=most,
                ahead=ahead,
            )
            if part is None:
                return
            yield part


def _listed(texts: Iterable[TextLike]) -> Sequence[TextLike]:
    if isinstance(texts, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"texts is one {type(texts).__name__}; it must be an iterable of texts: [{shown(texts, 20)}]")
    check_iterable("texts", texts, "an iterable of texts")
    return texts if isinstance(texts, list) else list(texts)


def _whole_characters(text: str | bytes) -> str | bytes:
    """The text without its last character if that is incomplete."""
    if isinstance(text, str):
        return text[:-1] if text and 0xD800 <= ord(text[-1]) <= 0xDBFF else text
    end = len(text)
    while end > max(len(text) - 3, 0) and text[end - 1] & 0xC0 == 0x80:
        end -= 1
    lead = text[end - 1] if end else 0
    width = 1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    return text[: end - 1] if end and end - 1 + width > len(text) else text


def _check_out(out: object, limit: int) -> None:
    """Refuse an `out` that ids cannot be written to."""
    if out is None:
        return
    if not isinstance(out, np.ndarray) or out.ndim != 1 or out.dtype not in (np.uint32, np.uint16):
        found = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else shown(out)
        raise TypeError(f"out is {found}; it must be a NumPy array of uint32 or uint16, 1-D")
    if not out.flags.writeable:
        raise ValueError("out is read-only; it must be an array that can be written to")
    if out.dtype == np.uint16 and limit > 1 << 16:
        raise ValueError(f"out is uint16, and this vocabulary has ids up to {limit - 1}; it must be uint32")


def _into(out: NDArray[Any] | None, batch: TokenBatch) -> TokenBatch:
    """The batch with its ids at the beginning of `out`."""
    if out is None:
        return batch
    if len(batch.ids) > len(out):
        raise ValueError(f"out has room for {len(out)} ids, and there are {len(batch.ids)}; make it at least as long")
    out[: len(batch.ids)] = batch.ids
    return TokenBatch(out[: len(batch.ids)], batch.offsets)
