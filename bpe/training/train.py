"""`train`: a corpus in, a tokenizer out.

This module checks how the arguments combine, and delegates: counting to `bpe/count/counting.py`, learning to
`bpe/training/trainer.py`, checkpoints to `bpe/training/checkpoint.py`. Not here: extending an existing vocabulary
(`bpe/training/extend.py`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from bpe.base.memory_limits import check_memory
from bpe.base.progress import ProgressLike, check_progress, progress_note
from bpe.base.threads import thread_count
from bpe.base.utf8 import TextLike
from bpe.corpus.blocks import PathLike
from bpe.corpus.reading import EncodingErrors
from bpe.corpus.sources import Sources
from bpe.count.counting import corpus_source, count_into
from bpe.count.word_counts import WordCounts
from bpe.errors import shown, typed
from bpe.pretokenize.pretokenizer import PretokenizerLike, as_pretokenizer
from bpe.text.normalizers import Normalizer, NormalizerLike, as_normalizer
from bpe.tokenizer import Tokenizer
from bpe.training.checkpoint import Checkpoint, corpus_of, count_settings
from bpe.training.extend import learn_more
from bpe.training.options import OnMerge, TieBreak, TrainOptions
from bpe.training.superwords import SuperWords, check_superwords, stage_two
from bpe.training.trainer import learn
from bpe.vocab.spec import Model, TokenizerSpec
from bpe.vocab.training_record import Training

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _keywords_only(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The function with an error that names `files=`, `texts=` and `counts=` for a positional argument."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        if args:
            raise TypeError(f"the corpus is {typed(args[0])}, without a name; pass files=, texts= or counts=")
        return function(*args, **kwargs)

    return call


@_keywords_only
def train(
    *,
    files: PathLike | Iterable[PathLike] | Sources | None = None,
    texts: Iterable[TextLike] | None = None,
    counts: WordCounts | Mapping[str, int] | Mapping[bytes, int] | tuple[WordCounts, WordCounts] | None = None,
    vocab_size: int | None = None,
    num_merges: int | None = None,
    model: Model | None = None,
    pretokenizer: PretokenizerLike | None = "default",
    normalizer: NormalizerLike | None = None,
    special_tokens: Iterable[str] = (),
    unk_token: str | None = None,
    end_of_word: str | None = None,
    end_of_word_glued: bool = False,
    initial_alphabet: str | Iterable[str | bytes | int] | None = None,
    limit_alphabet: int | None = None,
    byte_fallback: bool = False,
    character_coverage: float = 1.0,
    split_digits: bool = False,
    min_frequency: int = 1,
    max_token_length: int | None = None,
    tie_break: TieBreak = "id",
    superwords: SuperWords | None = None,
    first_id: int = 0,
    separator: str | None = None,
    per_line: bool = False,
    encoding_errors: EncodingErrors = "strict",
    on_merge: OnMerge | None = None,
    threads: int | None = None,
    progress: ProgressLike = False,
    max_memory: int | str | None = None,
    checkpoint: PathLike | None = None,
) -> Tokenizer:
    """Learn a BPE vocabulary.

    Args:
        files: paths of text, JSON Lines, CSV, Parquet or Arrow files, also compressed, or a `bpe.Sources`, which has
            more options; or
        texts: an iterable of str or bytes, each a document, or an Arrow array of strings, which is not copied (a null
            is an empty text); or
        counts: words with their counts, a `WordCounts` or a mapping; with superwords, two `WordCounts`. Give exactly
            one of the three.
        vocab_size: the number of tokens of the result, special tokens and alphabet included; or
        num_merges: the number of merges to learn. Give exactly one of the two. Training that runs out of pairs stops
            early, and `tok.training.stopped` gives the reason.
        model: "byte" (symbols are bytes, every text has ids) or "char" (symbols are characters). The default is "byte",
            and "char" with `byte_fallback`.
        pretokenizer: how texts are split into words, here and in the tokenizer: a name, a `Pretokenizer`, or None (a
            text is one word). The default is "gpt2" for a byte model and "whitespace" for a character model; a
            `WordCounts` has its own.
        normalizer: how a text is changed before it is split: one or several of `bpe.normalizers`, or names ("nfc").
        special_tokens: names that take the first ids, in this order. Where they occur in the corpus they separate text.
        unk_token: the token for symbols outside the alphabet; its id follows those of the special tokens.
        end_of_word: a mark, such as "</w>", that follows the last symbol of each word.
        end_of_word_glued: make the mark a part of that symbol instead of a symbol of its own.
        initial_alphabet: symbols of the alphabet whether or not they occur in the corpus, in this order; the corpus's
            other symbols follow. "corpus" takes the corpus's symbols only; None takes all 256 bytes, or the corpus's
            characters. In a byte model a symbol is given as an int, bytes of length 1, an ASCII character, or
            GPT-2's letter for the byte.
        limit_alphabet: the most symbols to keep, by frequency; the others take part in no merge.
        byte_fallback: add the tokens `<0x00>` to `<0xFF>` after the special tokens; a character outside the alphabet
            becomes those of its UTF-8, as in SentencePiece's Llama 2, so that every text has ids.
        character_coverage: the part of the corpus, in characters, that the alphabet of a character model must cover:
            the most frequent characters are kept until they do. SentencePiece's default is 0.9995.
        split_digits: let digits (ASCII's and the full-width ones) take part in no merge, so that each is a token.
        min_frequency: merge no pair that occurs less often.
        max_token_length: make no token longer than this many symbols (bytes or characters).
        tie_break: which of several pairs with the highest count is merged: "id", the one with the smallest ids (as in
            Hugging Face); "first", the one that occurs first in the corpus; "smallest" or "greatest" by the tokens'
            bytes.
        superwords: learn tokens that reach across words, in a second stage, as this `bpe.SuperWords` says; for byte
            models. The corpus is read twice: files that are not pipes, or texts that can be iterated again; or give
            counts=(first, second), made with its `count_words`.
        first_id: the first id.
        separator: the string between the documents of a file, part of neither; None makes each file one document.
        per_line: make each line of a file a document, its newline included.
        encoding_errors: how bytes in files that are not UTF-8 are handled: "strict", an error; "replace", U+FFFD as in
            `bytes.decode`; "bytes", they are counted unchanged (byte models only).
        on_merge: called as on_merge(step, left, right, token, count) after each merge; step counts from 1, and the
            tokens are bytes in a byte model, str in a character model. Not called for merges found in a checkpoint.
        threads: the number of threads; None means one per core. The result does not depend on it.
        progress: True shows progress bars on stderr or in a notebook, or prints a line every 30 s if stderr is not a
            terminal: the stage (counting, indexing pairs, merging, writing), the part done, the rate and the time
            left. A function is called with a `bpe.Progress` from time to time, and may raise an exception to end the
            training.
        max_memory: the memory limit of the whole process (not counting what texts= and counts= hold), in bytes or as a
            str such as "2G". Counts that do not fit are spilled to disk, and pairs are counted in more passes; the
            result is the same. The minimum is about 100 MB, 3 bytes for each byte of the distinct words
            (`sum(len(word) for word, _ in counts.items())`) and 20 for each word; with 65,000 tokens or more, 7 bytes
            and 28. The distinct words of 1 GB of English take about 10 MB, those of 400 MB of Japanese 280 MB. A limit
            below the process's present size plus 64 MB is refused at once; one that the words do not fit in is refused
            after counting.
        checkpoint: a path where counts and merges are saved every 30 s and when training ends for any reason (SIGKILL
            loses what was learned since the last save). The same call made again resumes from it and gives the same
            result.

    A checkpoint is the named file, with the options and merges, and for files= a second file with ".counts" appended to
    the name. Both remain after training; delete them when the tokenizer is saved. A checkpoint of other options or of
    another corpus is an error. Files are the same corpus if their names, sizes and modification times are the same;
    they are then not counted again. With texts= and pipes the corpus is counted again and the counts are compared. To
    avoid that, save the counts first and train on them.

    Raises:
        TypeError, ValueError: for arguments that are invalid or contradict each other, an empty corpus, a vocab_size
            smaller than the alphabet, counts that overflow 64 bits, bytes that are not UTF-8 in a character model, a
            checkpoint of another training, a max_memory that is too small for the words of the corpus.
        FormatError: for a file in UTF-16 or UTF-32, or not UTF-8 (`encoding_errors`), and for a damaged file or a bad
            record.
        OSError: for a file that cannot be read, or gets shorter while it is read.

    >>> import bpe
    >>> tok = bpe.train(counts={"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}, model="char", num_merges=3)
    >>> tok.tokens("hugs bun")
    ['hug', 's', 'b', 'un']

    A tokenizer like Llama 2's:

    >>> from bpe.pretokenizers import Metaspace
    >>> tok = bpe.train(
    ...     texts=["hug pug", "hugs 12"], vocab_size=270, byte_fallback=True, pretokenizer=Metaspace(),
    ...     special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", split_digits=True,
    ... )
    >>> tok.tokens("hug é"), tok.decode(tok.encode("hug é"))
    (['▁hug', '▁', '<0xC3>', '<0xA9>'], 'hug é')

    """
    given = [name for name, value in (("files", files), ("texts", texts), ("counts", counts)) if value is not None]
    if len(given) != 1:
        raise ValueError(f"{' and '.join(given) or 'nothing'} given; give exactly one of files=, texts= and counts=")
    options = TrainOptions(
        vocab_size=vocab_size,
        num_merges=num_merges,
        model=model if model is not None else "char" if byte_fallback is True else "byte",
        end_of_word=end_of_word,
        end_of_word_glued=bool(end_of_word_glued),
        unk_token=unk_token,
        special_tokens=special_tokens,  # type: ignore[arg-type]
        initial_alphabet=initial_alphabet,
        min_frequency=min_frequency,
        max_token_length=max_token_length,
        limit_alphabet=limit_alphabet,
        byte_fallback=byte_fallback,
        character_coverage=character_coverage,
        split_digits=split_digits,
        tie_break=tie_break,
        first_id=first_id,
    )
    if on_merge is not None and not callable(on_merge):
        raise TypeError(
            f"on_merge is {shown(on_merge)}; it must be callable as on_merge(step, left, right, token, count)"
        )
    check_progress(progress)
    most = check_memory(max_memory)
    began = time.perf_counter()
    source = corpus_source(files, texts, separator, per_line, encoding_errors, chars=options.chars)
    run = _Run(source, on_merge, progress, most, thread_count(threads), checkpoint)
    if superwords is None:
        spec, training = run.learn(
            _word_counts(counts, options, pretokenizer, as_normalizer(normalizer)), options, counts
        )
    else:
        check_superwords(superwords, options, counts, texts, source)
        superwords = superwords if pretokenizer == "default" else replace(superwords, first_pretokenizer=pretokenizer)
        pair: Any = (None, None) if counts is None else counts
        spec, training = run.learn_superwords(superwords, options, as_normalizer(normalizer), *pair)
    return Tokenizer(spec, replace(training, seconds=time.perf_counter() - began))


@dataclass(frozen=True)
class _Run:
    """One call of `train`: what its stages have in common."""

    source: Sources | Iterable[TextLike] | None
    on_merge: OnMerge | None
    progress: ProgressLike
    max_memory: int | None
    threads: int
    checkpoint: PathLike | None

    def learn(self, words: WordCounts, options: TrainOptions, given: object) -> tuple[TokenizerSpec, Training]:
        """Train on a corpus, or on the counts `given`."""
        words, saved = self.counted(words, given, options.to_json(), self.checkpoint)
        return learn(
            words,
            options,
            self.on_merge,
            self.progress,
            saved,
            consume=words is not given,
            max_memory=self.max_memory,
            threads=self.threads,
        )

    def learn_superwords(
        self,
        superwords: SuperWords,
        options: TrainOptions,
        normalizer: Normalizer | None,
        first: WordCounts | None = None,
        second: WordCounts | None = None,
    ) -> tuple[TokenizerSpec, Training]:
        """Train in two stages, on a corpus or on counts of both."""
        settings = {"superwords": superwords.to_json()}
        path = self.checkpoint
        learned = []
        for stage, given in ((1, first), (2, second)):
            words = given or WordCounts(superwords.of_stage(stage), normalizer, options.special_tokens)
            name = path if path is None or stage == 1 else f"{os.fspath(path)}.stage2"
            words, saved = self.counted(words, given, options.to_json() | settings, name, superwords.lines)
            keep: dict[str, Any] = {
                "consume": words is not given,
                "max_memory": self.max_memory,
                "threads": self.threads,
            }
            if stage == 1:
                small = replace(options, vocab_size=superwords.transition)
                learned.append(learn(words, small, self.on_merge, self.progress, saved, **keep))
            else:
                larger = replace(options, max_words=superwords.max_words, forbidden=superwords.forbidden)
                start = stage_two(learned[0][0], words, superwords)
                learned.append(learn_more(words, start, larger, self.on_merge, self.progress, saved, **keep))
        (_, one), (spec, two) = learned
        return spec, replace(two, merges=one.merges + two.merges, stopped=two.stopped or one.stopped)

    def counted(
        self, words: WordCounts, given: object, options: dict[str, Any], path: PathLike | None, lines: bool = False
    ) -> tuple[WordCounts, Checkpoint | None]:
        """The words of the corpus, unless they are `given`, and the checkpoint, which has them too."""
        saved = None
        if path is not None:
            corpus = corpus_of(self.source) if isinstance(self.source, Sources) else None
            saved = Checkpoint(path, options | count_settings(words) | _cutting(self.source), corpus)
        known = None if saved is None else saved.counts()
        if known is not None:
            words = known
        elif given is None:
            utf8 = options["model"] == "char"
            count_into(
                words, self.source, self.threads, self.progress, utf8=utf8, lines=lines, max_memory=self.max_memory
            )
        if saved is not None:
            with progress_note(self.progress, "write"):
                saved.begin(words)
        return words, saved


def _cutting(source: object) -> dict[str, Any]:
    """The options for splitting files into documents, as a checkpoint records them; empty for texts and counts."""
    if not isinstance(source, Sources):
        return {}
    lines = source.keep_separator
    separator = source.separators[0].decode() if source.separators and not lines else None
    errors = {} if source.encoding_errors == "strict" else {"encoding_errors": source.encoding_errors}
    plan = source.plan()
    plain = all(file.format == "text" for file in source.files) and source.on_error == "raise" and plan["part"] is None
    if plain and not source.separator_ends:
        return {"separator": separator, "per_line": lines or None, **errors}
    return {"sources": {name: value for name, value in plan.items() if name != "files"}}


def _word_counts(
    counts: WordCounts | Mapping[Any, int] | tuple[WordCounts, WordCounts] | None,
    options: TrainOptions,
    pretokenizer: PretokenizerLike | None,
    normalizer: Normalizer | None,
) -> WordCounts:
    """The counts given by the caller, or empty ones with the settings that the arguments name."""
    chosen = pretokenizer != "default"
    cutting = as_pretokenizer(pretokenizer if chosen else ("whitespace" if options.chars else "gpt2"))
    if isinstance(counts, WordCounts):
        for name, requested, current in (
            ("pretokenizer", cutting if chosen else counts.pretokenizer, counts.pretokenizer),
            ("normalizer", counts.normalizer if normalizer is None else normalizer, counts.normalizer),
        ):
            if requested != current:
                raise ValueError(
                    f"the counts were made with {name}={current!r}, but {name}={requested!r} is requested; leave the "
                    "argument out, or count again"
                )
        return counts
    words = WordCounts(cutting, normalizer, options.special_tokens)
    if counts is not None:
        words.update(counts)  # type: ignore[arg-type]  # a tuple raises TypeError there
    return words
