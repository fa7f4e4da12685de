"""The `Tokenizer`, the class that users of this package work with.

Each method checks its arguments and calls the room that does the work: the engine of `bpe/encode/engine.py` for one
text, `bpe/encode/texts.py` for many, `bpe/decode/decoder.py`, `bpe/drawing.py`, `bpe/vocab/editing.py`, `bpe/formats`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast, overload

import numpy as np

from bpe.base.fast_dataclasses import replace
from bpe.base.forks import cached_property
from bpe.base.threads import resolve_threads
from bpe.base.utf8 import TextLike, to_bytes
from bpe.batch import TokenBatch
from bpe.decode.decoder import Ids, TokenDecoder, with_fast_decode
from bpe.encode import _fast_path
from bpe.encode._encoder import CACHE_MEMORY
from bpe.encode.engine import Engine
from bpe.encode.texts import (
    ClipEncoder,
    add_template,
    check_dropout,
    check_out,
    encode_spans,
    encode_texts,
    encode_texts_with_dropout,
    make_template_arrays,
    write_into,
)
from bpe.errors import (
    as_format_error,
    check_bool,
    check_choice,
    check_int,
    check_iterable,
    check_path,
    describe,
    pluralize,
    short_repr,
)
from bpe.vocab.spec import TokenizerSpec, check_spec, find_time_limits, limit_time
from bpe.vocab.special_names import find_bos_token, find_eos_token, resolve_token
from bpe.vocab.vocabulary import SPECIAL, Vocabulary

if TYPE_CHECKING:
    import re

    from numpy.typing import NDArray

    from bpe.chats.encoding import Chat
    from bpe.corpus.blocks import PathLike
    from bpe.corpus.reading import EncodingErrors
    from bpe.corpus.sources import Sources
    from bpe.decode.incremental import IncrementalDecoder
    from bpe.encode._special_encoder import SpecialEncoder
    from bpe.encode.chunks import Boundaries, Chunk
    from bpe.encode.engine import BosEos
    from bpe.encode.limits import Side
    from bpe.encode.offsets import OffsetEncoder, Unit
    from bpe.pretokenize.pretokenizer import Pretokenizer
    from bpe.show.views import TokenView
    from bpe.text.alignment import Convention
    from bpe.text.normalizers import Normalizer
    from bpe.vocab.merging import MergeTree
    from bpe.vocab.spec import SymbolType
    from bpe.vocab.special_tokens import Allowed

#: What changes no id, and is in no file: cache_memory, and the time limits of the pretokenizer and the normalizer.
Settings: TypeAlias = tuple[int, float | None, float | None]

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _with_fast_path(wrap: Callable[..., Any], *arguments: Any) -> Callable[[_Method], _Method]:
    """Wrap a method in a fast path of the kernel, which answers plain calls without a Python frame."""

    def decorate(method: _Method) -> _Method:
        return cast("_Method", wraps(method)(wrap(method, *arguments)))

    return decorate


class Tokenizer(_fast_path.FastKernels):
    """Turns text into token ids and back.

    Immutable, compared and hashed by content, small when pickled, and safe to use from any number of threads.

    Made by `bpe.train`, `Tokenizer.load`, `Tokenizer.from_tiktoken`, … All but the first take `cache_memory`, the limit
    of the word cache, which all threads share, in bytes or as "64M"; None is 32 MB. A smaller cache makes large texts
    slower and never changes an id. In addition to its input and its output, a thread needs about 1 MB. On Linux, the
    memory of a freed large result is kept for the next one: at most 4 times `cache_memory`.

    Args:
        spec: plain data that describes the tokenizer, such as another one's `spec` with a field replaced.
        cache_memory: the limit of the word cache.
        timeout: another time limit for the regular expressions of its pretokenizer and normalizer, in seconds for one
            text; `math.inf` for none. A pattern from a file may take exponential time on some texts; beyond the limit,
            which is 10 s and more for long texts, encoding raises TimeoutError. The limit changes no id, and is neither
            saved nor compared. Published patterns have kernels and no limit.

    Raises:
        TypeError: if it is not a TokenizerSpec, or a field or an argument has a wrong type.
        ValueError: for a timeout that is not more than 0, and for fields that contradict each other, such as a merge of
            ids that the vocabulary does not have, or one whose token is not spelled as its two parts.

    >>> import bpe, dataclasses
    >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
    >>> ids = tok.encode("lowest lower")
    >>> tok.tokens("lowest lower")
    [b'low', b'e', b's', b't', b' lowe', b'r']
    >>> tok.decode(ids)
    'lowest lower'
    >>> lower = dataclasses.replace(tok.spec, normalizer=bpe.normalizers.Lowercase())
    >>> bpe.Tokenizer(lower).tokens("LOWER")
    [b'low', b'e', b'r']

    """

    def __init__(
        self, spec: TokenizerSpec, *, cache_memory: int | str | None = None, timeout: float | None = None
    ) -> None:
        if not isinstance(spec, TokenizerSpec):
            raise TypeError(
                f"spec is {describe(spec)}; it must be a bpe.vocab.TokenizerSpec: tokenizers are made by bpe.train, "
                "Tokenizer.load, Tokenizer.from_tiktoken, …"
            )
        check_spec(spec)
        if timeout is not None:
            spec = limit_time(spec, timeout, timeout)
        self._set(spec, Engine(spec, cache_memory=_resolve_cache_memory(cache_memory)))

    def _set(self, spec: TokenizerSpec, engine: Engine) -> None:
        self._spec, self._engine = spec, engine
        for array in (spec.merges, spec.merge_results, spec.merge_ranks, spec.ends_word, spec.unmerged):
            if array is not None:
                array.flags.writeable = False
        #: For the fast paths of `bpe/encode/_fast_path.pyx`: the kernel, or None where it cannot take texts unchanged.
        self._fast_encoder = engine.fast_encoder

    # Encoding one text ------------------------------------------------------------------------------------------------

    @_with_fast_path(_fast_path.with_fast_encode)
    def encode(
        self,
        text: TextLike,
        *,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
        dropout: float | None = None,
        seed: int | None = None,
        template: bool = False,
    ) -> NDArray[np.uint32]:
        """Encode one text: its ids, as a 1-D uint32 array.

        By default the name of a special token in the text is ordinary text: it does not become its id, and it is no
        error.

        Args:
            text: str, or bytes of UTF-8 (a byte model takes any bytes). A lone surrogate becomes U+FFFD.
            allowed_special: names of special tokens that become their ids where they occur in the text, or "all".
            disallowed_special: names that are an error in the text, or "all" for all that are not allowed.
            dropout: the probability, at each step, that a possible merge is skipped (BPE-dropout); 0.1 is usual in
                training. With 0 the ids are always the same; None, the default, is 0 unless the tokenizer's own file
                names a dropout, which then applies to every method but `tokens` and `explain`, with random choices.
            seed: an int that decides dropout's choices, the same on every machine; None for random choices.
            template: whether to add the ids of `template` before and after those of the text.

        Raises:
            TypeError: for a text that is not str or bytes.
            ValueError: for a disallowed special token in the text; for a symbol outside the vocabulary, without an
                unknown token; for bytes that are not UTF-8, in a character model.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=257, special_tokens=["<|end|>"])
        >>> tok.encode("a<|end|>", allowed_special="all")
        array([65,  0], dtype=uint32)

        """
        allowed = self._engine.specials.resolve_and_check((text,), allowed_special, disallowed_special)
        if probability := self._spec.dropout if dropout is None else dropout:
            ids = self._engine.encode_with_dropout(text, allowed, *check_dropout(self._spec, probability, seed))
        else:
            ids = self._engine_without_dropout.encode(text, allowed)
        if not template or self._spec.template is None:
            return ids
        prepended, appended = make_template_arrays(self._spec.template)
        return np.concatenate((prepended, ids, appended))

    @cached_property
    def _special_encoder(self) -> SpecialEncoder | None:
        """For the fast path of `encode`: what encodes texts with all special tokens allowed, or None."""
        special_encoder = self._fast_specials = self._engine.fast_specials
        return special_encoder

    @cached_property
    def _engine_without_dropout(self) -> Engine:
        """The engine without the tokenizer's own dropout."""
        if not self._spec.dropout:
            return self._engine
        return Engine(replace(self._spec, dropout=0.0), cache_memory=self.cache_memory)

    def encode_spans(
        self, spans: Iterable[tuple[TextLike, bool]], *, allowed_special: Allowed = "all"
    ) -> NDArray[np.uint32]:
        """Encode a text made of trusted and untrusted spans: special tokens are found in trusted spans only.

        The spans are encoded as one text: a word may begin in one span and end in the next. A special token is found
        only if all of it lies in one span.

        Args:
            spans: (text, trusted) pairs in order, such as a chat template's own text and what a user wrote.
            allowed_special: names of the special tokens to find in trusted text, or "all".

        Raises:
            TypeError: for a span that is not a pair of str (or bytes) and bool.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=257, special_tokens=["<|end|>"])
        >>> tok.encode_spans([("a<|end|>", True), ("<|e", False)])
        array([65,  0, 28, 92, 69], dtype=uint32)

        """
        return encode_spans(self._engine, spans, allowed_special)

    @_with_fast_path(_fast_path.with_fast_offsets)
    def encode_with_offsets(
        self,
        text: TextLike,
        unit: Unit = "char",
        *,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
        template: bool = False,
        convention: Convention = "whole",
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Encode one text: its ids, and where in it each token begins and ends.

        Args:
            text: as for `encode`.
            unit: "char" for positions in the str, where a token with only some bytes of a character counts as having
                all of it; "byte" for positions in its UTF-8.
            allowed_special: as for `encode`.
            disallowed_special: as for `encode`.
            template: as for `encode`; the ids of the template have the span (0, 0).
            convention: the rule for the spans of text that a normalizer changed: "whole", all that a token was made
                from, or "tokenizers", what that package gives, without the spaces that its post-processor trims.

        Returns:
            the ids, uint32 of shape (n,), and the spans, int64 of shape (n, 2); token i is
            `text[spans[i, 0]:spans[i, 1]]`. An end-of-word mark that is a token of its own has an empty span.

            Spans refer to the original text. With a normalizer, a token's span is the smallest part of that text that
            its characters were made from, in whole characters: the letter and the accent for an `é` that NFC composed,
            all spaces for a space that replaced several, all of `&amp;` for an unescaped `&`. Tokens made from the same
            part have the same span. A token that a normalizer inserted has an empty span. Removed text is in no span,
            unless it lies inside such a part. In a line that ftfy repairs, everything from the first change to the last
            is one part.

            Hugging Face's `tokenizers`, and `convention="tokenizers"`, give the same spans where each character was
            made from one. Otherwise they differ: a composed character has only the first of its characters, a character
            that replaced several has only the last, and marks that change places have each other's.

        Raises:
            ValueError: as `encode`.

        >>> import bpe
        >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
        >>> ids, spans = tok.encode_with_offsets("lowest é")
        >>> spans.tolist()
        [[0, 3], [3, 4], [4, 5], [5, 6], [6, 7], [7, 8], [7, 8]]

        """
        allowed = self._engine.specials.resolve_and_check((text,), allowed_special, disallowed_special)
        check_choice("convention", convention, ("whole", "tokenizers"))
        if convention == "tokenizers":
            ids, spans, _ = self._offset_encoder.encode_with_word_numbers(text, allowed, unit, "tokenizers")
        else:
            ids, spans = self._offset_encoder.encode(text, allowed, unit)
        if not template or self._spec.template is None:
            return ids, spans
        prepended, appended = make_template_arrays(self._spec.template)
        before, after = (np.zeros((len(part), 2), dtype=np.int64) for part in (prepended, appended))
        return np.concatenate((prepended, ids, appended)), np.concatenate((before, spans, after))

    @cached_property
    def _offset_encoder(self) -> OffsetEncoder:
        from bpe.encode.offsets import OffsetEncoder

        offset_encoder = OffsetEncoder(self._engine)
        self._fast_offsets = offset_encoder.fast_encoder
        return offset_encoder

    @overload
    def truncate(self, text: str, max_tokens: int, *, side: Side = "right", allowed_special: Allowed = ()) -> str: ...

    @overload
    def truncate(
        self, text: bytes, max_tokens: int, *, side: Side = "right", allowed_special: Allowed = ()
    ) -> bytes: ...

    @overload
    def truncate(
        self, text: TextLike, max_tokens: int, *, side: Side = "right", allowed_special: Allowed = ()
    ) -> TextLike: ...

    @_with_fast_path(_fast_path.with_fast_truncate)
    def truncate(
        self, text: TextLike, max_tokens: int, *, side: Side = "right", allowed_special: Allowed = ()
    ) -> TextLike:
        """Cut a text to at most `max_tokens` tokens: its beginning, as str or bytes like the text; or its end, or both.

        The text is cut where a token ends. A character that the cut would break is left out. If the rest has more
        tokens when it is encoded by itself, it is shortened further.

        Args:
            text: as for `encode`. Only the beginning of a long text is read, or its end.
            max_tokens: the maximum number of tokens.
            side: the side that is cut off, as `truncation_side` of transformers: "right", "left", or "middle", which
                joins a beginning and an end of about as many tokens each.
            allowed_special: as for `encode`.

        Raises:
            ValueError: as `encode`; for a side that is not one of these.

        >>> import bpe
        >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
        >>> tok.truncate("lowest lower", 3), tok.truncate("low", 3)
        ('lowes', 'low')
        >>> tok.truncate("lowest lower", 3, side="left"), tok.truncate("lowest lower", 3, side="middle")
        ('t lower', 'lower')

        """
        limit = check_int("max_tokens", max_tokens, 0)
        from bpe.encode.limits import truncate

        allowed = self._engine.specials.resolve_allowed(allowed_special)
        return truncate(self._offset_encoder, text, limit, allowed, side)

    @overload
    def chunk(  # type: ignore[overload-overlap]  # a str is an iterable of str, too
        self,
        text: str,
        max_tokens: int,
        *,
        overlap: int = 0,
        boundaries: Boundaries | re.Pattern[str] = "sentence",
        allowed_special: Allowed = (),
    ) -> list[Chunk]: ...

    @overload
    def chunk(
        self,
        text: Iterable[str],
        max_tokens: int,
        *,
        overlap: int = 0,
        boundaries: Boundaries | re.Pattern[str] = "sentence",
        allowed_special: Allowed = (),
    ) -> Iterator[Chunk]: ...

    def chunk(
        self,
        text: str | Iterable[str],
        max_tokens: int,
        *,
        overlap: int = 0,
        boundaries: Boundaries | re.Pattern[str] = "sentence",
        allowed_special: Allowed = (),
    ) -> list[Chunk] | Iterator[Chunk]:
        r"""Divide a text into chunks of at most `max_tokens` tokens, counted as each chunk is encoded by itself.

        A chunk takes as many sentences as fit, or what `boundaries` says. What is too long for a chunk is cut at the
        next kind: a line between sentences, a sentence between words, a word between characters. Without an overlap,
        the chunks are the text when they are joined: white space between words or sentences begins a chunk, as it
        begins a token; an end of a line ends one.

        Args:
            text: a str; or an iterable of str, such as an open file, whose parts are one text. Of that one, about two
                chunks are held.
            max_tokens: the maximum number of tokens. For a model that puts a `template` around texts, pass less by the
                number of its ids.
            overlap: how many tokens, at most, each chunk repeats of the one before. It begins at a boundary too, and is
                shorter where the next sentence would not fit otherwise.
            boundaries: "sentence", "line", "word" or "token" (any character); or a pattern of `re.compile`, such as
                `re.compile(r"\n\s*\n")` for paragraphs: chunks end at ends of matches. It sees 1,024 characters
                beyond what fits. A sentence ends after `.`, `!`, `?` and the like with white space, but not before a
                small letter; after `。` and the like; and at the end of a line.
            allowed_special: as for `encode`.

        Returns:
            for a str, a list of chunks; for an iterable an iterator. Each has `text`, `start` and `end`, its position
            in the text in characters, and `n_tokens`.

        Raises:
            TypeError: if the text is bytes, or a part is not a str.
            ValueError: as `encode`; for a character that has more than `max_tokens` tokens; for an overlap that is not
                less than `max_tokens`; for a tokenizer with a dropout of its own.

        >>> import bpe
        >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
        >>> for chunk in tok.chunk("Low. Lower! Lowest.", 9):
        ...     chunk
        Chunk(text='Low.', start=0, end=4, n_tokens=4)
        Chunk(text=' Lower!', start=4, end=11, n_tokens=7)
        Chunk(text=' Lowest.', start=11, end=19, n_tokens=8)

        """
        from bpe.encode.chunks import divide

        options: dict[str, Any] = {"allowed_special": allowed_special} if allowed_special else {}
        functions = partial(self.truncate, **options), partial(self.count_tokens, **options)
        return divide(self._spec, text, max_tokens, overlap, boundaries, *functions)

    # Encoding many texts ----------------------------------------------------------------------------------------------

    @_with_fast_path(_fast_path.with_fast_batch, TokenBatch)
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
        dropout: float | None = None,
        seed: int | None = None,
        template: bool = False,
    ) -> TokenBatch:
        """Encode many texts: their ids in one flat array, the same as `encode` gives for each.

        Args:
            texts: an iterable of str or bytes, or an Arrow array of strings (a null is an empty text), whose texts
                are copied some 100 KB at a time.
            threads: how many to use; None is one per core, or one inside a worker process. A small batch uses one.
            out: an array to write the ids to, of uint32, or of uint16 if all ids are below 65,536. The batch's `ids`
                are then a view of its beginning. Reusing one array saves the time that new memory takes.
            prepend: an id to put before each text, or the name of a special token; None for nothing.
            append: what to put after each text, such as `"<|endoftext|>"`.
            allowed_special: as for `encode`.
            disallowed_special: as for `encode`.
            dropout: as for `encode`.
            seed: as for `encode`; text i is encoded with `seed + i`.
            template: as for `encode`; then `prepend` and `append` must be None.

        Raises:
            ValueError: as for `encode`; for an `out` that is too small; for a `prepend` or `append` that is no token,
                or that is given with `template`.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=257, special_tokens=["<|end|>"])
        >>> tok.encode_batch(["a", "", "ab"]).to_list()
        [[65], [], [65, 66]]
        >>> tok.encode_batch(["a", "", "ab"], append="<|end|>").to_list()
        [[65, 0], [0], [65, 66, 0]]

        """
        check_out(out, self.n_vocab)
        bos_eos = self._resolve_bos_eos(prepend, append, template)
        n_threads, policy = resolve_threads(threads), (allowed_special, disallowed_special)
        if probability := self._spec.dropout if dropout is None else dropout:
            dropout_and_seed = check_dropout(self._spec, probability, seed)
            batch = encode_texts_with_dropout(self._engine, texts, n_threads, policy, dropout_and_seed, bos_eos)
        else:
            in_place = None if template else out
            batch = encode_texts(self._engine_without_dropout, texts, n_threads, policy, bos_eos, in_place)
        if template and self._spec.template is not None:
            batch = add_template(batch, self._spec.template)
        return write_into(out, batch)

    def _resolve_bos_eos(self, prepend: int | str | None, append: int | str | None, template: bool = False) -> BosEos:
        """Resolve `prepend` and `append` to ids."""
        if prepend is append is None:
            return None, None
        if template:
            argument, value = ("append", append) if prepend is None else ("prepend", prepend)
            raise ValueError(
                f"{argument} is {short_repr(value)}, and template is True; pass one of them: the template has ids "
                "before and after a text already"
            )
        return resolve_token(self._spec, "prepend", prepend), resolve_token(self._spec, "append", append)

    def encode_files(
        self,
        files: PathLike | Iterable[PathLike] | Sources,
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
        r"""Encode the documents in files: their ids in one flat array.

        Files are read in blocks while they are encoded, so that little memory is needed in addition to the ids. If the
        tokenizer has a normalizer or a pattern of your own, each document is held in memory as a whole.

        Args:
            files: one path or several, of text, JSON Lines, CSV, Parquet or Arrow, also compressed, or a `bpe.Sources`,
                which has more options.
            separator: the string between the documents of a text file, part of none of them, as in `str.split`; None
                makes each file one document. It gives no id, even if it is a special token: see `append`.
            per_line: each line of a file is a document, its newline included (`separator="\n"` leaves newlines out).
            threads: as for `encode_batch`; several threads also share one large document.
            encoding_errors: how bytes that are not UTF-8 are handled: "strict", an error; "replace", U+FFFD as in
                `bytes.decode`; "bytes", they are encoded unchanged (byte models only).
            out: as for `encode_batch`.
            prepend: as for `encode_batch`.
            append: as for `encode_batch`.
            allowed_special: as for `encode`.
            disallowed_special: as for `encode`.

        Raises:
            OSError: for a file that cannot be read, or is changed while it is read.
            FormatError: for a file in UTF-16 or UTF-32, or not UTF-8 (`encoding_errors`), for a damaged file or a bad
                record, and wherever `encode` raises ValueError; it names the file.
            ValueError: for both a separator and `per_line`; for a `prepend` or `append` that is not a token.

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
        from bpe.corpus.sources import Sources
        from bpe.encode.blocks import encode_sources

        check_out(out, self.n_vocab)
        bos_eos = self._resolve_bos_eos(prepend, append)
        corpus = Sources.of(files, separator, per_line, encoding_errors, is_char_model=self.model == "char")
        policy = allowed_special, disallowed_special
        return write_into(out, encode_sources(self._engine, corpus, resolve_threads(threads), policy, bos_eos, out))

    def encode_stream(
        self,
        chunks: Iterable[TextLike],
        *,
        cut_after: str | None = None,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
    ) -> Iterator[NDArray[np.uint32]]:
        """Encode a text that arrives in chunks: its ids as arrays; together they are the ids of the whole text.

        A chunk may end anywhere: in a word, in a special token, in a character's bytes. The memory needed is that of
        one chunk and of the longest stretch without a safe split point, which is seldom more than a line.

        In some cases all text between two special tokens has to be held: without a pretokenizer, with a pattern
        of your own, with `FixText`, and with a `Replace` whose pattern is more than one character. Then pass each
        document as a text of its own (`encode_batch`, `encode_files` with a `separator`), or give `cut_after`.

        Args:
            chunks: an iterable of str or bytes, such as an open file.
            cut_after: a string, such as a newline, after which text may be split in those cases. You promise that no
                match of your pattern reaches or looks across such a position; if one does, ids may differ from those
                of `encode`. The normalizer must keep the string.
            allowed_special: as for `encode`.
            disallowed_special: as for `encode`; the error is raised at the chunk that has the token.

        >>> import bpe
        >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
        >>> [ids.tolist() for ids in tok.encode_stream(["lo", "wer l", "ow"])]
        [[257, 68, 81, 258]]

        """
        allowed, disallowed = self._engine.specials.resolve_policy(allowed_special, disallowed_special)
        return self._encode_stream(chunks, allowed, disallowed, cut_after)

    @cached_property
    def _encode_stream(self) -> Callable[..., Iterator[NDArray[np.uint32]]]:
        from bpe.encode.streams import encode_stream

        return partial(encode_stream, self._engine)

    @overload
    def count_tokens(  # type: ignore[overload-overlap]  # a str is an iterable of str, too
        self,
        text: TextLike,
        *,
        limit: int | None = None,
        threads: int | None = None,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
    ) -> int: ...

    @overload
    def count_tokens(
        self,
        text: Iterable[TextLike],
        *,
        limit: int | None = None,
        threads: int | None = None,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
    ) -> NDArray[np.int64]: ...

    @_with_fast_path(_fast_path.with_fast_count)
    def count_tokens(
        self,
        text: TextLike | Iterable[TextLike],
        *,
        limit: int | None = None,
        threads: int | None = None,
        allowed_special: Allowed = (),
        disallowed_special: Allowed = (),
    ) -> int | NDArray[np.int64]:
        """Count the ids that `encode` would give: an int for one text and an int64 array for several.

        Args:
            text: one text as for `encode`, or several as for `encode_batch`.
            limit: what to count up to: of a text with more tokens, the result is `limit + 1`. Of one long text, only
                the beginning is read then, so that errors of the rest are not found.
            threads: as for `encode_batch`; one text takes one thread.
            allowed_special: as for `encode`.
            disallowed_special: as for `encode`.

        Raises:
            TypeError, ValueError: as `encode` does.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=256)
        >>> tok.count_tokens("abc"), tok.count_tokens(["abc", ""])
        (3, array([3, 0]))
        >>> tok.count_tokens("abc" * 1_000_000, limit=1000) > 1000
        True

        """
        options: dict[str, Any] = {}  # without any, the methods have a fast path
        if allowed_special or disallowed_special:
            options = {"allowed_special": allowed_special, "disallowed_special": disallowed_special}
        if limit is not None:
            policy = allowed_special, disallowed_special
            return self._count_up_to(partial(self.count_tokens, threads=threads, **options), text, limit, policy)
        if isinstance(text, (str, bytes, bytearray, memoryview)):
            return len(self.encode(text, **options))
        return self.encode_batch(text, threads=threads, **options).lengths

    @cached_property
    def _count_up_to(self) -> Callable[..., int | NDArray[np.int64]]:
        from bpe.encode.limits import count_up_to

        return partial(count_up_to, self._engine)

    # Conversations ----------------------------------------------------------------------------------------------------

    def chat(
        self,
        messages: Sequence[Any],
        *,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        tools: Sequence[Mapping[str, Any] | Callable[..., Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        allowed_special: Allowed = (),
        **variables: Any,
    ) -> Chat:
        """Encode a conversation by the tokenizer's chat template, as `apply_chat_template` of transformers does.

        Special tokens that the template writes become their ids. Those that are in messages, tools and documents are
        text, unless `allowed_special` is "all". A message's role is the program's, not the user's: it is trusted.

        Args:
            messages: dicts with a "role" and a "content", and what else the template reads, such as "tool_calls";
                dataclasses and pydantic models, too.
            add_generation_prompt: end with the beginning of an answer.
            continue_final_message: end within the last message, after its content, so that a model continues it; or
                after the field of this name, such as "reasoning_content". There is no mask then.
            tools: functions with type hints and docstrings in Google's style, or their JSON schemas.
            documents: dicts with a "title" and a "text".
            chat_template: the name of one of the tokenizer's templates, or a template; None for its default.
            allowed_special: () or "all".
            variables: further variables of the template, such as `enable_thinking=False`.

        Returns:
            an object with `ids` (uint32), `mask` (uint8, 1 where the assistant speaks, for the loss in training) and
            `text`. The mask is found when it is read.

        Raises:
            ModuleNotFoundError: without jinja2 (extra `chat`).
            TypeError: for messages that are no list of dicts.
            ValueError: if there is no template; if it refuses the messages; if whose special tokens they are cannot be
                known; if the last message has nothing to continue; for a tool without type hints or descriptions.

        >>> import bpe
        >>> tok = bpe.train(texts=["hello"], vocab_size=260, special_tokens=["<|user|>", "<|end|>"])
        >>> template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
        >>> chat = tok.chat([{"role": "user", "content": "hello<|end|>"}], chat_template=template)
        >>> chat.text, len(chat.ids), chat.ids.tolist().count(tok.token_id("<|end|>"))
        ('<|user|>hello<|end|><|end|>', 12, 1)

        """
        from bpe.chats.encoding import Chat, check_allowed, make_request

        variables |= {"tools": tools, "documents": documents}
        arguments = messages, add_generation_prompt, continue_final_message, chat_template, variables
        request = make_request(self._spec.chat_templates, self._spec.roles, *arguments)
        return Chat(request, self._offset_encoder, check_allowed(allowed_special))

    def count_chat(
        self,
        messages: Sequence[Any],
        *,
        model: str | None = None,
        add_generation_prompt: bool = True,
        **options: Any,
    ) -> int:
        """Count the tokens of a conversation, as a prompt: with the beginning of the answer.

        It is counted by the chat template, if there is one. The templates of OpenAI's models are not published; for
        them, the rule is the one that OpenAI documents: 3 tokens for each message, 1 for a name, and 3 for the
        beginning of the answer, beside the texts.

        Args:
            messages: as for `chat`.
            model: the name of one of OpenAI's models, such as "gpt-4o"; None for the template, or where there is none,
                for cl100k_base and o200k_base the usual rule.
            add_generation_prompt: count the beginning of the answer, unless the last message is continued.
            options: the other arguments of `chat`.

        Raises:
            ValueError: for a model without a documented rule; for images and other content that is no text, and for
                options, with OpenAI's rule; as `chat`.

        >>> import bpe
        >>> tok = bpe.train(texts=["hello"], vocab_size=256)
        >>> tok.count_chat([{"role": "user", "content": "hello"}], model="gpt-4o")  # 3 + 4 + 5 + 3
        15

        """
        if model is None and (self._spec.chat_templates or options.get("chat_template") is not None):
            add_generation_prompt = add_generation_prompt and not options.get("continue_final_message")
            return len(self.chat(messages, add_generation_prompt=add_generation_prompt, **options))
        from bpe.chats.counting import count_by_rule

        rule = model, self.count_tokens, self._spec.special_tokens
        return count_by_rule(messages, *rule, with_reply=add_generation_prompt, options=options)

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
        r"""Return the tokens of a text, bytes in a byte model and str in a character model, end-of-word marks included.

        A symbol without an id, if there is no unknown token, is its own token here.

        Args:
            text: as for `encode`.
            as_text: give a str for each token, in a byte model too, for people to read. A character whose bytes are in
                several tokens is shown in each, with the numbers of its bytes there as subscripts, as `show` does. A
                byte that is not UTF-8 is spelled `\xNN`. A symbol without an id has `⁇` before it.
            allowed_special: as for `encode`.
            disallowed_special: as for `encode`.

        Raises:
            TypeError, ValueError: as for `encode`, except for symbols without an id.

        >>> import bpe
        >>> tok = bpe.train(texts=["aab aab"], num_merges=1, model="char", end_of_word="</w>")
        >>> tok.tokens("aab")
        ['aa', 'b', '</w>']
        >>> tok.tokens("abc", as_text=True)
        ['a', 'b', '⁇c', '</w>']
        >>> tok = bpe.train(texts=["한"], vocab_size=258)
        >>> tok.tokens("한 글"), tok.tokens("한 글", as_text=True)
        ([b'\xed\x95\x9c', b' ', b'\xea', b'\xb8', b'\x80'], ['한', ' ', '글₁', '글₂', '글₃'])

        """
        from bpe.encode.explain import list_tokens

        allowed = self._engine.specials.resolve_and_check((text,), allowed_special, disallowed_special)
        return list_tokens(self._engine, text, allowed, as_text)

    def explain(self, text: TextLike) -> str:
        """Describe how a text becomes its tokens, with each word and every merge in it, for people to read.

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
        from bpe.encode.explain import explain

        return explain(self._engine, text)

    def show(self, text: TextLike, *, allowed_special: Allowed = (), max_tokens: int = 2000) -> TokenView:
        """Show the tokens of a text in colours: in a notebook, each shows its id, bytes and rank under the pointer.

        On a terminal that shows colours (NO_COLOR, FORCE_COLOR and CLICOLOR are honoured) they have coloured
        backgrounds; elsewhere `|` separates them. Where the result is not used, as in a script's line `tok.show(text)`,
        the tokens are printed.

        Args:
            text: as for `encode`.
            allowed_special: as for `encode`.
            max_tokens: how many tokens to draw; the rest is only counted.

        Raises:
            TypeError, ValueError: as for `encode`, except for symbols without an id.

        >>> import bpe
        >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
        >>> tok.show("lowest lower")
        low|e|s|t|·lowe|r
        """
        from bpe.drawing import show

        return show(self, text, allowed_special, max_tokens)

    def _repr_html_(self) -> str:
        """Make a card with the tokenizer's facts, for notebooks."""
        from bpe.drawing import draw_card

        return draw_card(self)

    @cached_property
    def _merge_tree(self) -> MergeTree:
        """How each token is made."""
        from bpe.vocab.merging import MergeTree

        return MergeTree(self._spec)

    # Decoding ---------------------------------------------------------------------------------------------------------

    @with_fast_decode
    def decode(
        self, ids: Ids, errors: str = "replace", *, skip_special: bool = False, skip_invalid: bool = False
    ) -> str:
        """Decode a sequence of ids to text.

        Args:
            ids: a list of int, or an array of an integer type, 1-D.
            errors: how to handle bytes that are not UTF-8, as in `bytes.decode`: "replace", "strict", "ignore", …
            skip_special: whether to leave out special tokens. The tokens that a tokenizer.json only adds, without
                making them special, stay.
            skip_invalid: whether to leave out ids without a token, as `tokenizers` does: those of padded rows of an
                embedding, gaps in the ids, and negative ones such as the -100 of labels.

        Raises:
            TypeError: for ids that are not integers.
            ValueError: for an id that is not in the vocabulary, without `skip_invalid`; with errors="strict", a
                UnicodeDecodeError (which is a ValueError) for bytes that are not UTF-8.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=256)
        >>> tok.decode([64, 65]), tok.decode([64, 255])
        ('ab', 'a�')
        >>> tok = tok.with_tokens(special=["<|end|>"])
        >>> tok.decode([64, 256]), tok.decode([64, 256], skip_special=True)
        ('a<|end|>', 'a')
        >>> tok.decode([64, 300, -100], skip_invalid=True)
        'a'

        """
        return self._decoder.decode_text(self._decoder.select_ids(ids, skip_special, skip_invalid), errors)

    @with_fast_decode
    def decode_bytes(self, ids: Ids, *, skip_special: bool = False, skip_invalid: bool = False) -> bytes:
        """Decode a sequence of ids to bytes.

        An end-of-word mark becomes a space, except at the end of the text, where it becomes nothing.

        Args:
            ids: as for `decode`.
            skip_special: as for `decode`.
            skip_invalid: as for `decode`.

        Raises:
            TypeError, ValueError: as `decode` does for ids.

        >>> import bpe
        >>> bpe.train(texts=["a b"], vocab_size=256).decode_bytes([64, 65])
        b'ab'
        """
        return self._decoder.decode_bytes(self._decoder.select_ids(ids, skip_special, skip_invalid))

    def decode_batch(
        self,
        batch: TokenBatch | Iterable[Ids],
        errors: str = "replace",
        *,
        skip_special: bool = False,
        skip_invalid: bool = False,
    ) -> list[str]:
        """Decode each sequence of ids to text.

        Args:
            batch: a `TokenBatch` (the fastest), or an iterable of what `decode` takes.
            errors: as for `decode`.
            skip_special: as for `decode`.
            skip_invalid: as for `decode`.

        Raises:
            TypeError, ValueError: as `decode` does.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=256)
        >>> tok.decode_batch(tok.encode_batch(["a", "b c"]))
        ['a', 'b c']

        """
        if isinstance(batch, TokenBatch) and skip_special and not skip_invalid:
            batch, skip_special = self._decoder.drop_special_in_batch(batch), False
        takes_whole_batch = isinstance(batch, TokenBatch) and not skip_invalid
        if takes_whole_batch and (texts := self._decoder.decode_texts(cast("TokenBatch", batch), errors)) is not None:
            return texts  # otherwise the first row with an id that is no token says so below
        check_iterable("batch", batch, "a TokenBatch or an iterable of sequences of int")
        if skip_special or skip_invalid:
            return [self.decode(ids, errors, skip_special=skip_special, skip_invalid=skip_invalid) for ids in batch]
        decode_text = self._decoder.decode_text
        decoded_texts: list[str] = []
        for ids in batch:  # of one row, a comprehension's frame would take longer than a loop over `decode`
            decoded_texts.append(decode_text(ids, errors))  # noqa: PERF401
        return decoded_texts

    def decoder(
        self, *, skip_invalid: bool = False, skip_special: bool = False, prompt: Ids | None = None
    ) -> IncrementalDecoder:
        """Make a decoder for ids that come one by one: it returns text as soon as its characters are complete.

        Args:
            skip_invalid: as for `decode`.
            skip_special: as for `decode`.
            prompt: ids before the first one. The decoder is as if they had been pushed, but only the last ones are
                decoded, so that a long prompt takes no time; other ids of it are not checked.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=256)
        >>> decoder = tok.decoder()
        >>> [decoder.push(int(i)) for i in tok.encode("aé")] + [decoder.flush()]
        ['a', '', 'é', '']
        """
        from bpe.decode.incremental import IncrementalDecoder

        return IncrementalDecoder(self._decoder, skip_invalid=skip_invalid, skip_special=skip_special, prompt=prompt)

    @cached_property
    def _decoder(self) -> TokenDecoder:
        return TokenDecoder(self._spec)

    # Vocabulary -------------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> TokenizerSpec:
        """Everything that decides the ids, as plain data; with facts about the training, if they are known."""
        return self._spec

    @property
    def cache_memory(self) -> int:
        """The limit of the word cache, in bytes. Tokenizers that differ only in this are equal.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=256)
        >>> tok.cache_memory, bpe.Tokenizer(tok.spec, cache_memory="4M").cache_memory
        (33554432, 4194304)
        """
        return self._engine.cache_memory

    @property
    def model(self) -> SymbolType:
        """The kind of symbols, "byte" or "char"."""
        return self._spec.model

    @property
    def pretokenizer(self) -> Pretokenizer | None:
        """The rule that splits text into words; None if the whole text is one word."""
        return self._spec.pretokenizer

    @property
    def normalizer(self) -> Normalizer | None:
        """The function that changes text before it is split into words, or None."""
        return self._spec.normalizer

    @property
    def vocab_size(self) -> int:
        """The number of tokens, special tokens included. If ids have gaps, `n_vocab` is larger.

        >>> import bpe
        >>> bpe.train(texts=["a b"], vocab_size=257, special_tokens=["<|end|>"]).vocab_size
        257
        """
        return len(self._spec.vocabulary)

    @property
    def n_vocab(self) -> int:
        """The largest id + 1, as in tiktoken, which is the number of rows that an embedding needs.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=256, alphabet=bpe.Alphabet(first_id=10))
        >>> tok.n_vocab, tok.vocab_size
        (266, 256)
        """
        return self._spec.vocabulary.limit

    def __len__(self) -> int:
        return self.vocab_size

    @property
    def special_tokens(self) -> dict[str, int]:
        """The special tokens, as a dict from name to id.

        It includes the tokens that a tokenizer.json only adds, without making them special; these are found in every
        text.

        >>> import bpe
        >>> bpe.train(texts=["a b"], vocab_size=258, special_tokens=["<pad>", "<|end|>"]).special_tokens
        {'<pad>': 0, '<|end|>': 1}
        """
        return dict(self._spec.special_tokens)

    @property
    def template(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids that belong before and after a text, according to the post-processor of a tokenizer.json.

        Encoding adds them only with `template=True`.

        >>> import bpe, dataclasses
        >>> tok = bpe.train(texts=["a b"], vocab_size=257, special_tokens=["<s>"])
        >>> tok = bpe.Tokenizer(dataclasses.replace(tok.spec, template=((0,), ())))
        >>> tok.encode("a", template=True), tok.template, tok.bos_token
        (array([ 0, 65], dtype=uint32), ((0,), ()), '<s>')
        """
        return self._spec.template or ((), ())

    @property
    def bos_token(self) -> str | None:
        """The name of the special token that begins a text, or None if it is unknown; its id is `token_id(name)`.

        It is the `bos_token` of `roles`, or the first token of `template`. Without either, it is the special token with
        a name that models commonly use for it: `<s>`, `<bos>`, `<|begin_of_text|>`, `<｜begin▁of▁sentence｜>`, …; the
        first of these names that it has.
        """
        return find_bos_token(self._spec)

    @property
    def eos_token(self) -> str | None:
        """The name of the special token that ends a text, or None if it is unknown; its id is `token_id(name)`.

        It is the `eos_token` of `roles`, or the last token of `template`. Without either, it is the special token with
        a name that models commonly use for it: `<|endoftext|>`, `<|end_of_text|>`, `</s>`, `<|endofdocument|>`,
        `<eos>`, …; the first of these names that it has. Shards end documents with the same token.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=257, special_tokens=["<|endoftext|>"])
        >>> tok.bos_token, tok.eos_token
        (None, '<|endoftext|>')
        """
        return find_eos_token(self._spec)

    @property
    def roles(self) -> dict[str, str]:
        """The special token of each role that is known, a dict from the role to the token's name.

        The roles are those of `transformers`: bos_token, eos_token, unk_token, sep_token, pad_token, cls_token and
        mask_token. They come from the tokenizer_config.json in a tokenizer's folder, or from a GGUF file or
        sentencepiece's model; a tokenizer.json alone has none, unless `save` wrote it. No id depends on them.

        >>> import bpe, dataclasses
        >>> tok = bpe.train(texts=["a b"], vocab_size=258, special_tokens=["<end>", "<pad>"])
        >>> spec = dataclasses.replace(tok.spec, roles={"eos_token": "<end>", "pad_token": "<pad>"})
        >>> tok = bpe.Tokenizer(spec)
        >>> tok.eos_token, tok.token_id(tok.roles["pad_token"])
        ('<end>', 1)
        """
        return dict(self._spec.roles)

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of a token, an end-of-word mark included.

        Args:
            token_id: its id.

        Raises:
            TypeError: if the id is not an int.
            ValueError: if no token has this id.

        >>> import bpe
        >>> bpe.train(texts=["a b"], vocab_size=256).token_bytes(64)
        b'a'

        """
        checked_id = check_int("token_id", token_id, 0)
        if checked_id not in self._spec.vocabulary:
            raise ValueError(
                f"token id {checked_id} is no token of this vocabulary, which has "
                f"{pluralize(self.vocab_size, 'token')} with "
                f"ids below {self._spec.vocabulary.limit}"
            )
        return self._spec.vocabulary[checked_id]

    def token_id(self, token: str | bytes) -> int:
        """Return the id of a token.

        Args:
            token: its bytes, or the same as str; a special token or the unknown token by its name.

        Raises:
            TypeError: if the token is neither str nor bytes.
            ValueError: if the vocabulary does not have the token.

        >>> import bpe
        >>> tok = bpe.train(texts=["low lower"], vocab_size=260, special_tokens=["<pad>"])
        >>> tok.token_id("low"), tok.token_id(b"low"), tok.token_id("<pad>")
        (258, 258, 0)

        """
        if not isinstance(token, (str, bytes)):
            raise TypeError(f"token is {describe(token)}; it must be str or bytes")
        name, data = (token if isinstance(token, str) else None), to_bytes(token)
        if name is not None and name in self._spec.special_tokens:
            return self._spec.special_tokens[name]
        token_id = self._spec.vocabulary.id_of_token.get(data)
        if token_id is None:
            token_id = self._special_ids.get(data)
        if token_id is None:
            from bpe.encode.explain import describe_encoding

            raise ValueError(
                f"{short_repr(token)} is no token of this vocabulary of {self.vocab_size}"
                f"{describe_encoding(self._engine, data)}"
            )
        return token_id

    @cached_property
    def _special_ids(self) -> dict[bytes, int]:
        """The special tokens and the unknown token by their bytes."""
        return {token: token_id for token_id, token in self._spec.vocabulary.items(SPECIAL)}

    def vocab(self) -> dict[Any, int]:
        """Return all tokens with their ids, in the order of ids, special tokens included.

        Tokens are bytes in a byte model and str in a character model.

        >>> import bpe
        >>> bpe.train(texts=["low low"], model="char", num_merges=2).vocab()
        {'l': 0, 'o': 1, 'w': 2, 'lo': 3, 'low': 4}
        """
        tokens = self._spec.vocabulary.items()
        if self._spec.model == "char":
            return {token.decode(): token_id for token_id, token in tokens}
        return {token: token_id for token_id, token in tokens}

    @property
    def merges(self) -> NDArray[np.int32]:
        """The merges as pairs of ids, best rank first; int32, shape (n, 2). None of a PickyBPE model, which has events.

        >>> import bpe
        >>> bpe.train(texts=["low low"], model="char", num_merges=2).merges
        array([[0, 1],
               [3, 2]], dtype=int32)
        """
        return self._spec.merges

    @property
    def token_byte_lengths(self) -> NDArray[np.uint32]:
        """The length of each token in bytes, by id, an end-of-word mark included; uint32, 0 for an unused id.

        >>> import bpe
        >>> tok = bpe.train(texts=["low low"], model="char", num_merges=2)
        >>> tok.token_byte_lengths
        array([1, 1, 1, 2, 3], dtype=uint32)
        >>> int(tok.token_byte_lengths[tok.encode("low")].sum())  # how much text some ids stand for
        3
        """
        return self._spec.vocabulary.lengths

    # Other vocabularies -----------------------------------------------------------------------------------------------

    def truncate_vocab(self, vocab_size: int, *, renumber: bool = True) -> tuple[Tokenizer, NDArray[np.int32]]:
        """Make the tokenizer with fewer tokens, as training to that size would have given, and a table of the new ids.

        The tokens of the last merges are removed. Special tokens, the unknown token and the alphabet stay.
        `without_tokens` removes chosen tokens, and `bpe.prune` those that a corpus needs least.

        Args:
            vocab_size: the number of tokens to keep.
            renumber: whether to close the gaps in the ids, those that there were before too: the new ids keep the order
                of the old ones and start at the first of them. Otherwise no id changes.

        Returns:
            the tokenizer, and for each old id the new one, or -1 for a removed token and an unused id; int32 of shape
            (n_vocab,).

        Raises:
            ValueError: if the size is greater than the number of tokens, or less than the number of those that stay.

        >>> import bpe
        >>> counts = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
        >>> tok = bpe.train(counts=counts, vocab_size=262).with_tokens(special=["<|end|>"])
        >>> smaller, new_ids = tok.truncate_vocab(259)
        >>> smaller == bpe.train(counts=counts, vocab_size=258).with_tokens(special=["<|end|>"])
        True
        >>> new_ids[256:]
        array([256, 257,  -1,  -1,  -1,  -1, 258], dtype=int32)

        """
        from bpe.vocab import editing

        return self._shrink(editing.truncate(self._spec, vocab_size), renumber)

    def without_tokens(
        self, tokens: Iterable[int | str], *, renumber: bool = True
    ) -> tuple[Tokenizer, NDArray[np.int32]]:
        """Make the tokenizer without some of its tokens, and a table of the new ids.

        The merges that make or use a removed token are removed. A token that no remaining merge makes is removed too,
        and so on: without "lo" there is no "low", unless "l" and "ow" make it as well. Everything else stays, in its
        order. So a word keeps its tokens if none of the removed merges was used in it; other words are merged by the
        merges that remain. A single byte or character that is removed becomes unknown. A special token that is removed
        becomes ordinary text; where the unknown token is removed, unknown symbols are an error.

        Args:
            tokens: the tokens to remove, a list or an array: ids, and names of special and added tokens. An added token
                that is named and that text can become is no longer sought in text, but stays a token.
            renumber: as for `truncate_vocab`.

        Returns:
            as `truncate_vocab`.

        Raises:
            TypeError: if an element is neither an int nor a str.
            ValueError: for an id that the vocabulary does not have, a name that is no special or added token, or a
                token that the tokenizer needs: the end-of-word mark, CLIP's start and end, and of those that are named
                also the unknown token and a token of the template.

        >>> import bpe
        >>> tok = bpe.train(counts={"low": 5, "lowest": 2, "ox": 3}, num_merges=4, model="char")
        >>> [*tok.vocab()]
        ['e', 'l', 'o', 's', 't', 'w', 'x', 'lo', 'low', 'ox', 'es']
        >>> smaller, new_ids = tok.without_tokens([tok.token_id("lo")])
        >>> [*smaller.vocab()]
        ['e', 'l', 'o', 's', 't', 'w', 'x', 'ox', 'es']
        >>> new_ids
        array([ 0,  1,  2,  3,  4,  5,  6, -1, -1,  7,  8], dtype=int32)
        >>> tok.with_tokens(special=["<|end|>"]).without_tokens(["<|end|>"])[0] == tok
        True

        """
        from bpe.vocab import editing

        return self._shrink(editing.without_tokens(self._spec, tokens), renumber)

    def _shrink(self, spec: TokenizerSpec, renumber: bool) -> tuple[Tokenizer, NDArray[np.int32]]:
        """Make the tokenizer of a spec with some of this one's tokens, and for each id the new one."""
        from bpe.formats.huggingface.expressible import settle
        from bpe.vocab import editing

        first_id = editing.find_first_id(self._spec) if check_bool("renumber", renumber) else None
        spec, new_ids = editing.renumber(settle(spec), self.n_vocab, first_id)
        return Tokenizer(spec, cache_memory=self.cache_memory), new_ids

    def with_tokens(
        self,
        *,
        special: Iterable[str] = (),
        added: Iterable[str] = (),
        roles: Mapping[str, str | None] | None = None,
    ) -> Tokenizer:
        """Make a tokenizer with more tokens, at the next ids: they follow the largest id, `n_vocab - 1`.

        No merge makes them, and no old id changes. The special tokens come first, then the added ones, each in the
        order given. `tokenizers` gives the same ids to what its `add_special_tokens` and then `add_tokens` get.

        Args:
            special: names of special tokens. In a text they are ordinary text unless `allowed_special` names them.
            added: tokens that are found in every text, before it is split into words. With a normalizer they are
                normalized too, and searched for in the normalized text.
            roles: role → special token, such as `{"pad_token": "<|pad|>"}`, for a new or an old one; None takes a role
                away. No id depends on them; see `roles`.

        Raises:
            TypeError: if an argument is not a list of str, or `roles` no mapping.
            ValueError: for a name that is empty, given twice, or a token already; for a role that is not known, or
                whose token is no special token.

        >>> import bpe
        >>> tok = bpe.train(texts=["low lower"], vocab_size=258, special_tokens=["<|end|>"])
        >>> chat = tok.with_tokens(special=["<|user|>", "<|bot|>"], added=["C++"])
        >>> chat.special_tokens
        {'<|end|>': 0, '<|user|>': 258, '<|bot|>': 259, 'C++': 260}
        >>> chat.encode("<|bot|>C++", allowed_special={"<|bot|>"}), chat.n_vocab
        (array([259, 260], dtype=uint32), 261)
        >>> tok.with_tokens(special=["<|pad|>"], roles={"pad_token": "<|pad|>", "eos_token": "<|end|>"}).roles
        {'eos_token': '<|end|>', 'pad_token': '<|pad|>'}

        """
        from bpe.vocab.editing import set_roles, with_tokens

        return share_tables(self, set_roles(with_tokens(self._spec, special, added), roles))

    def unreachable(self) -> NDArray[np.int64]:
        """Find the ids that encoding never produces; int64, ascending.

        Each token that is not listed occurs in the ids of some word. Whether the pretokenizer and the normalizer can
        produce that word is not considered.

        >>> import bpe
        >>> tok = bpe.train(counts={"low": 5, "ox": 3}, num_merges=3, unk_token="<unk>")
        >>> tok.unreachable(), tok.token_id("<unk>")               # every byte is known
        (array([0]), 0)
        """
        return self._engine.find_unreachable()

    # CLIP -------------------------------------------------------------------------------------------------------------

    def clip_rows(
        self, texts: str | Iterable[str], context_length: int = 77, truncate: bool = False
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Make the input of CLIP: for each text a row with the start token, the text's ids, the end token, and zeros.

        As in OpenAI's CLIP, the names of the two special tokens in a text become their ids, but only where CLIP's
        pattern finds them as words.

        Args:
            texts: one text or several.
            context_length: the length of a row.
            truncate: shorten the row of a longer text, keeping the end token. By default such a text is an error, as in
                OpenAI's CLIP.

        Returns:
            the ids, int32 of shape (n, context_length), and the lengths of the rows without zeros, int64 of shape (n,).

        Raises:
            TypeError: for a tokenizer that is not CLIP's.
            ValueError: for a text that is too long, without `truncate`.

        """
        if self._spec.clip is None:
            raise TypeError(
                "this tokenizer is not CLIP's; clip_rows is for one made by Tokenizer.from_clip: use encode_batch"
            )
        return self._clip_encoder.encode([texts] if isinstance(texts, str) else texts, context_length, truncate)

    @cached_property
    def _clip_encoder(self) -> ClipEncoder:
        return ClipEncoder(self._spec, self.cache_memory)

    # Files ------------------------------------------------------------------------------------------------------------

    def save(self, path: PathLike, *, format: str | None = None, lossy: bool = False) -> None:  # noqa: A002
        """Write a Hugging Face tokenizer.json, or another format; whole or not at all.

        The `tokenizers` package loads a tokenizer.json and gives the same ids. If that package cannot express the
        tokenizer, the file uses a type of our own, `tokenizers` refuses to load it, and a warning in the log gives the
        reason. Other formats keep less: what would be lost is an error, unless `lossy` is set.

        Args:
            path: the file to write; its folder must exist. For a format of several files, the folder, which is made.
            format: "huggingface" (tokenizer.json), "vocab-merges" (vocab.json and merges.txt), "tiktoken" (ranks),
                "tiktoken-folder" (ranks with their tokenizer_config.json), "tekken", "clip", "sentencepiece" (.model),
                "gguf" (the vocabulary alone), or "compiled" (which keeps everything and loads fastest). None stands for
                huggingface, or for what the name says: `x.tiktoken`, `tekken.json`, `x.gguf`, `x.model`, `x.compiled`.
            lossy: write the file even if the format does not keep everything, with a warning in the log for each loss.

        Raises:
            OSError: for a file that cannot be written.
            ValueError: for a tokenizer that the format cannot hold, or cannot keep whole without `lossy`; it says what
                would be lost.

        >>> import bpe, os, tempfile
        >>> tok = bpe.train(texts=["a b"], vocab_size=256)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tok.save(os.path.join(folder, "tokenizer.json"))
        ...     bpe.Tokenizer.load(os.path.join(folder, "tokenizer.json")) == tok
        True

        """
        from bpe.formats.saving import save_spec

        save_spec(self._spec, path, format, lossy=lossy)

    def save_pretrained(
        self,
        folder: PathLike,
        *,
        chat_template: str | Mapping[str, str] | None = None,
        roles: Mapping[str, str | None] | None = None,
        model_max_length: int | None = None,
        padding_side: Literal["left", "right"] | None = None,
    ) -> None:
        """Write the folder that `AutoTokenizer.from_pretrained` of transformers reads: with equal ids, roles, template.

        The files are tokenizer.json, tokenizer_config.json and, for a chat template, chat_template.jinja. `load` of the
        folder gives this tokenizer again.

        Args:
            folder: the folder, which is made. What a model has beside its tokenizer, such as weights, stays.
            chat_template: the Jinja template of chats, or several by name: "default", "tool_use", …
            roles: roles of special tokens, in addition to those that it has, as for `with_tokens`.
            model_max_length: the most tokens that the model takes, for transformers; None for no limit.
            padding_side: where transformers pads; None for its default, "right".

        Raises:
            OSError: for a file that cannot be written.
            TypeError, ValueError: for a tokenizer that transformers cannot load, with the reason; for roles as in
                `with_tokens`; for another argument of a wrong type or value.

        >>> import bpe, tempfile
        >>> tok = bpe.train(texts=["a b"], vocab_size=257, special_tokens=["<|end|>"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tok.save_pretrained(folder, roles={"eos_token": "<|end|>"}, chat_template="{{ messages[0].content }}")
        ...     loaded = bpe.Tokenizer.load(folder)
        ...     loaded == tok, loaded.roles
        (True, {'eos_token': '<|end|>'})

        """
        from bpe.formats.pretrained import save_pretrained
        from bpe.vocab.editing import set_roles

        spec = set_roles(self._spec, roles)
        save_pretrained(spec, folder, chat_template, model_max_length, padding_side)

    @classmethod
    def from_spec(cls, spec: TokenizerSpec, *, cache_memory: int | str | None = None) -> Tokenizer:
        """Make a tokenizer from plain data, such as another one's `spec` with a field replaced: `Tokenizer(spec)`."""
        return cls(spec, cache_memory=cache_memory)

    @classmethod
    def load(
        cls,
        path: PathLike,
        *,
        format: str | None = None,  # noqa: A002
        cache_memory: int | str | None = None,
        timeout: float | None = None,
    ) -> Tokenizer:
        """Read a tokenizer from a file or a folder, in any format that holds all of it. Nothing is downloaded.

        Args:
            path: a tokenizer.json, a tekken.json, a rank file of OpenAI's, …, which is all that is read; or a folder
                with such a file, or with several that belong together, such as vocab.json and merges.txt, whose roles
                and chat templates are read, too.
            format: the name of the format; None to detect it from the content and the names.
            cache_memory: as for the class.
            timeout: as for the class.

        Raises:
            FormatError: for a file of another kind, or one that uses a feature that is not supported.
            OSError: for a file that cannot be read.
            ValueError: for a format that is not known, and a timeout that is not more than 0.

        """
        from bpe.formats.loading import load_spec

        path = check_path(path)
        spec = load_spec(path, format)
        if timeout is not None:
            spec = limit_time(spec, timeout, timeout)
        memory = _resolve_cache_memory(cache_memory)
        with as_format_error(path):  # the file's parts may not fit together
            return cls(spec, cache_memory=memory)

    @classmethod
    def from_pretrained(
        cls,
        name: str,
        revision: str | None = None,
        *,
        token: str | bool | None = None,
        cache_memory: int | str | None = None,
    ) -> Tokenizer:
        """Load the tokenizer of a repository on the Hugging Face Hub, such as "openai-community/gpt2".

        Its files are taken from the cache of `huggingface_hub` (extra `hub`), or else downloaded and put there: the
        tokenizer.json and the configuration that has the roles of its special tokens, or else the files of another
        format that it has. HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN
        and HF_HUB_OFFLINE have their usual meaning.

        Args:
            name: the repository; or a folder, as for `load`.
            revision: a branch, a tag or a commit; None for the main branch.
            token: an access token; True for the saved one; None for the saved one if it is needed.
            cache_memory: as for the class.

        Raises:
            FormatError: for a file that uses a feature that is not supported.
            OSError: for a repository that does not exist or has no tokenizer; for one that is neither cached nor can
                be downloaded: the error says which file to put where.
            ModuleNotFoundError: where huggingface_hub is not installed.
            TypeError: if the name or the revision is not a str.

        """
        if isinstance(name, os.PathLike) or (isinstance(name, str) and os.path.isdir(name)):
            return cls.load(name, cache_memory=cache_memory)
        from bpe.named.hub import fetch

        path, file_format = fetch(name, revision, token=token)
        return cls.load(path, format=file_format, cache_memory=cache_memory)

    @classmethod
    def from_tiktoken(
        cls,
        path: PathLike,
        pretokenizer: Pretokenizer | str | None,
        special_tokens: Mapping[str, int] | None = None,
        *,
        force: bool = False,
        cache_memory: int | str | None = None,
    ) -> Tokenizer:
        r"""Read the tokenizer of an OpenAI rank file (gzipped or not), with tiktoken's ids.

        Args:
            path: the file: on each line a token in base64, a space and its rank.
            pretokenizer: the pattern that belongs to the ranks: "gpt2" for r50k and p50k, "cl100k", "o200k", or
                your own.
            special_tokens: name → id; rank files hold none.
            force: accept a pattern that is not the one of this file, if it is one of OpenAI's own.
            cache_memory: as for the class.

        Raises:
            FormatError: with the line, for a file that is not a rank file.
            OSError: for a file that cannot be read.
            TypeError, ValueError: for special tokens that are not a mapping of names to ids, or whose ids are taken.

        >>> import base64, bpe, tempfile
        >>> tokens = [bytes([byte]) for byte in range(256)] + [b"lo", b"low"]
        >>> with tempfile.NamedTemporaryFile(suffix=".tiktoken") as file:
        ...     _ = file.write(b"".join(b"%s %d\n" % (base64.b64encode(t), i) for i, t in enumerate(tokens)))
        ...     file.flush()
        ...     tok = bpe.Tokenizer.from_tiktoken(file.name, "cl100k", {"<|endoftext|>": 258})
        >>> tok.encode("low<|endoftext|>", allowed_special="all")
        array([257, 258], dtype=uint32)

        """
        from bpe.formats import tiktoken

        spec = tiktoken.load(path, pretokenizer, special_tokens, force=force)
        return cls(spec, cache_memory=cache_memory)

    @classmethod
    def from_vocab_merges(
        cls,
        vocab: PathLike | Mapping[str, int] | Mapping[bytes, int],
        merges: PathLike | Iterable[str] | Iterable[tuple[str, str]] | Iterable[tuple[bytes, bytes]],
        pretokenizer: Pretokenizer | str | None = "gpt2",
        special_tokens: Mapping[str, int] | None = None,
        *,
        normalizer: Normalizer | str | None = None,
        cache_memory: int | str | None = None,
    ) -> Tokenizer:
        """Make the byte-level tokenizer of a vocabulary and merges: in memory, or in a `vocab.json` and a `merges.txt`.

        `load` reads a folder with both files, and with the configuration that says the rest.

        Args:
            vocab: each token → its id; or the JSON file with that, gzipped or not. A token is bytes, or a str in
                GPT-2's letters, such as "Ġlow".
            merges: the merges, best rank first, each a pair of tokens, or a str with a space between the two; or the
                file with a line for each. As `tokenizers.models.BPE(vocab, merges)` takes them.
            pretokenizer: the pattern; the files do not hold it.
            special_tokens: name → id; None stands for `<|endoftext|>`, if that is a token.
            normalizer: applied to text first, or None.
            cache_memory: as for the class.

        Raises:
            FormatError: for files that are invalid or do not fit together; it names the line or the field.
            OSError: for a file that cannot be read.
            TypeError, ValueError: for special tokens that do not map names to ids.

        >>> import bpe, os, tempfile
        >>> tok = bpe.train(texts=["low lower lowest"], vocab_size=260, pretokenizer="cl100k")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tok.save(folder, format="vocab-merges", lossy=True)
        ...     files = [os.path.join(folder, name) for name in ("vocab.json", "merges.txt")]
        ...     bpe.Tokenizer.from_vocab_merges(*files, "cl100k") == tok
        True
        >>> tokens = {bytes([byte]): byte for byte in range(256)} | {b"lo": 256, b"low": 257}
        >>> bpe.Tokenizer.from_vocab_merges(tokens, [(b"l", b"o"), (b"lo", b"w")]).encode("slow")
        array([115, 257], dtype=uint32)

        """
        from bpe.base.utf8 import read_file
        from bpe.errors import with_path
        from bpe.formats import tiktoken, vocab_merges
        from bpe.pretokenize.pretokenizer import as_pretokenizer
        from bpe.text.normalizers import as_normalizer

        special = None if special_tokens is None else tiktoken.check_special_ids(special_tokens)
        files = (
            vocab_merges.make_vocab_file(vocab, special or {}) if isinstance(vocab, Mapping) else read_file(vocab),
            read_file(merges) if isinstance(merges, (str, os.PathLike)) else vocab_merges.make_merges_file(merges),
        )
        settings = as_pretokenizer(pretokenizer), as_normalizer(normalizer)
        with with_path(None if isinstance(vocab, Mapping) else vocab):
            spec = vocab_merges.read_two_files(*files, *settings, special)
        return cls(spec, cache_memory=cache_memory)

    @classmethod
    def from_clip(
        cls,
        path: PathLike,
        *,
        lowercase: bool = True,
        clean_whitespace: bool = True,
        unescape_html: bool = True,
        ftfy: bool | None = None,
        force: bool = False,
        cache_memory: int | str | None = None,
    ) -> Tokenizer:
        """Read CLIP's tokenizer from its merge list (`bpe_simple_vocab_16e6.txt`, gzipped or not).

        The defaults give what OpenAI's CLIP gives.

        Args:
            path: the merge list.
            lowercase: lower-case the text.
            clean_whitespace: make runs of white space one space and trim the ends.
            unescape_html: replace HTML entities, twice.
            ftfy: repair broken text with ftfy (extra `clip`); None means if it is installed.
            force: accept GPT-2's merges, which are not CLIP's.
            cache_memory: as for the class.

        Raises:
            FormatError: with the line, for a file that is not CLIP's merge list.
            OSError: for a file that cannot be read.
            ModuleNotFoundError: for ftfy=True, when a text is encoded, where ftfy is not installed.

        """
        from bpe.base.utf8 import read_file
        from bpe.errors import with_path
        from bpe.formats import clip

        normalizer = clip.build_normalizer(lowercase, clean_whitespace, unescape_html, ftfy)
        with with_path(path):
            spec = clip.read_list(read_file(path), normalizer, force=force)
        return cls(spec, cache_memory=cache_memory)

    # Identity ---------------------------------------------------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that decides the ids; SHA-256 in hex, the same on every machine.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=256)
        >>> tok.fingerprint == bpe.train(texts=["b a"], vocab_size=256).fingerprint, len(tok.fingerprint)
        (True, 64)
        """
        from bpe.vocab.comparing import compute_fingerprint

        return compute_fingerprint(self._spec)

    def __eq__(self, other: object) -> bool:
        return self.fingerprint == other.fingerprint if isinstance(other, Tokenizer) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[Any, ...]:
        spec = self._spec
        vocabulary = spec.vocabulary
        fields = {name: value for name, value in spec.__getstate__().items() if name != "vocabulary"}
        return _rebuild, (
            vocabulary.blob,
            vocabulary.offsets,
            vocabulary.kinds,
            fields,
            self.cache_memory,
        )

    def __copy__(self) -> Tokenizer:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tokenizer:
        return self

    def __repr__(self) -> str:
        pattern = "" if self.pretokenizer is None else f", {self.pretokenizer.name or 'own pattern'}"
        size = pluralize(self.vocab_size, "token")
        return f"<bpe.Tokenizer: {self.model} model{pattern}, {size}, {self.fingerprint[:12]}>"


def check_tokenizer(tokenizer: object) -> None:
    """Raise TypeError for an argument that is no tokenizer, such as the path of one."""
    if not isinstance(tokenizer, Tokenizer):
        raise TypeError(f"tokenizer is {describe(tokenizer)}; it must be a bpe.Tokenizer: use bpe.Tokenizer.load(path)")


def share_tables(tokenizer: Tokenizer, spec: TokenizerSpec) -> Tokenizer:
    """Make the tokenizer of a spec with more special tokens than a tokenizer, after its ids; it shares the tables."""
    extended = Tokenizer.__new__(Tokenizer)
    extended._set(spec, tokenizer._engine.with_specials(spec))
    return extended


def get_settings(tokenizer: Tokenizer) -> Settings:
    """Return what a tokenizer's tokenizer.json does not hold, for `make_with_settings`."""
    return tokenizer.cache_memory, *find_time_limits(tokenizer.spec)


def make_with_settings(spec: TokenizerSpec, settings: Settings) -> Tokenizer:
    """Make a tokenizer of a spec, with the settings of another one."""
    cache_memory, *time_limits = settings
    return Tokenizer(limit_time(spec, *time_limits), cache_memory=cache_memory)


def _resolve_cache_memory(cache_memory: int | str | None) -> int:
    """Convert the argument `cache_memory` to bytes."""
    from bpe.base.memory_limits import parse_byte_count

    return CACHE_MEMORY if cache_memory is None else parse_byte_count("cache_memory", cache_memory, 0)


def _rebuild(
    blob: bytes,
    offsets: NDArray[np.int64],
    kinds: NDArray[np.uint8],
    fields: dict[str, Any],
    cache_memory: int,
) -> Tokenizer:
    spec = TokenizerSpec(vocabulary=Vocabulary.from_arrays(blob, offsets, kinds), **fields)
    return Tokenizer(spec, cache_memory=cache_memory)
