"""`train`: a corpus in, a tokenizer out.

This module checks how the arguments combine, and delegates to `bpe/training/run.py`. Not here: extending an existing
vocabulary (`bpe/training/extend.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ParamSpec, Protocol, cast, overload

from bpe.base.memory_limits import check_memory
from bpe.base.progress import ProgressLike, check_progress
from bpe.base.threads import thread_count
from bpe.base.utf8 import TextLike
from bpe.corpus.blocks import PathLike
from bpe.corpus.reading import EncodingErrors
from bpe.corpus.sources import Sources
from bpe.count.counting import corpus_source
from bpe.errors import check_int, shown, typed
from bpe.pretokenize.pretokenizer import PretokenizerLike
from bpe.text.normalizers import NormalizerLike, as_normalizer
from bpe.tokenizer import Tokenizer
from bpe.training.boundless import check_boundless
from bpe.training.fair import ParityAware
from bpe.training.merge_rules import MergeRules
from bpe.training.options import OnMerge, TieBreak, TrainOptions
from bpe.training.picky.option import PickyBPE, check_with_deletions
from bpe.training.run import Corpus, CountSettings, CountsLike, Run
from bpe.training.seeds import Seeds
from bpe.training.superwords import SuperWords, check_superwords
from bpe.vocab.editing import truncate
from bpe.vocab.spec import Model, TokenizerSpec
from bpe.vocab.training_record import Training
from bpe.vocab.vocabulary import ID_LIMIT

_P = ParamSpec("_P")


class _Train(Protocol[_P]):
    """`train` with one vocabulary size, or with several."""

    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> Tokenizer: ...
    @overload
    def __call__(self, *, vocab_size: Sequence[int], **kwargs: Any) -> list[Tokenizer]: ...


def _keywords_only(function: Callable[_P, Tokenizer | list[Tokenizer]]) -> _Train[_P]:
    """The function with an error that names `files=`, `texts=` and `counts=` for a positional argument."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> Tokenizer | list[Tokenizer]:
        if args:
            raise TypeError(f"the corpus is {typed(args[0])}, without a name; pass files=, texts= or counts=")
        return function(*args, **kwargs)

    return cast("_Train[_P]", call)


@_keywords_only
def train(
    *,
    files: PathLike | Iterable[PathLike] | Sources | None = None,
    texts: Iterable[TextLike] | None = None,
    counts: CountsLike | None = None,
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
    rules: MergeRules | None = None,
    fair: ParityAware | None = None,
    seeds: Seeds | None = None,
    deletions: PickyBPE | None = None,
    first_id: int = 0,
    separator: str | None = None,
    per_line: bool = False,
    encoding_errors: EncodingErrors = "strict",
    on_merge: OnMerge | None = None,
    threads: int | None = None,
    progress: ProgressLike = False,
    max_memory: int | str | None = None,
    checkpoint: PathLike | None = None,
) -> Tokenizer | list[Tokenizer]:
    """Learn a BPE vocabulary.

    Args:
        files: paths of text, JSON Lines, CSV, Parquet or Arrow files, also compressed, or a `bpe.Sources`, which has
            more options; or
        texts: an iterable of str or bytes, each a document, or an Arrow array of strings, which is not copied (a null
            is an empty text); or
        counts: words with their counts, a `WordCounts`, which must have been made with the special tokens, or a
            mapping; with superwords, two `WordCounts`. Give exactly one of the three.
        vocab_size: the number of tokens of the result, special tokens and alphabet included; or a list of such numbers:
            one training gives a list of tokenizers, each equal to that of a training to its size alone; or
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
        split_digits: let digits take part in no merge with other characters, so that each is a token by itself: in a
            byte model all characters that are numbers (Unicode's class N), whose bytes are merged, and no merge joins
            a part of a character with another character; in a character model, as in SentencePiece, ASCII's digits
            and the full-width ones.
        min_frequency: merge no pair that occurs less often.
        max_token_length: make no token longer than this many symbols (bytes or characters).
        tie_break: which of several pairs with the highest count is merged: "id", the one with the smallest ids (as in
            Hugging Face); "first", the one that occurs first in the corpus; "smallest" or "greatest" by the tokens'
            bytes.
        superwords: learn tokens that reach across words, in a second stage, as this `bpe.SuperWords` says; for byte
            models. The corpus is read twice: files that are not pipes, or texts that can be iterated again; or give
            counts=(first, second), made with its `count_words`.
        rules: merges that are never made, as this `bpe.MergeRules` says; in both stages of superwords.
        fair: share the merges out among languages, as this `bpe.ParityAware` says; files, texts or counts is then a
            mapping from the name of each language to its own.
        seeds: tokens that the vocabulary begins with, as this `bpe.Seeds` says.
        deletions: delete tokens that longer ones use up, as this `bpe.PickyBPE` says; for byte models.
        first_id: the first id.
        separator: the string between the documents of a file, part of neither; None makes each file one document.
        per_line: make each line of a file a document, its newline included.
        encoding_errors: how bytes in files that are not UTF-8 are handled: "strict", an error; "replace", U+FFFD as in
            `bytes.decode`; "bytes", they are counted unchanged (byte models only).
        on_merge: called as on_merge(step, left, right, token, count) after each merge; step counts from 1, and the
            tokens are bytes in a byte model, str in a character model. Not called for merges found in a checkpoint.
            With superwords, step counts from 1 in each stage.
        threads: the number of threads; None means one per core. The result does not depend on it.
        progress: True shows progress bars on stderr or in a notebook, or prints a line every 30 s if stderr is not a
            terminal: the stage (counting, indexing pairs, merging, writing), the part done, the rate and the time
            left. A function is called with a `bpe.base.Progress` from time to time, and may raise an exception to end
            the training.
        max_memory: the memory limit of the whole process (not counting what texts= and counts= hold), in bytes or as a
            str such as "2G". Counts that do not fit are spilled to disk, and pairs are counted in more passes; the
            result is the same. The minimum is about 100 MB, 3 bytes for each byte of the distinct words
            (`sum(len(word) for word, _ in counts.items())`) and 20 for each word; with 65,000 tokens or more, 7 bytes
            and 28. The distinct words of 1 GB of English take about 10 MB, those of 400 MB of Japanese 280 MB. A limit
            below the process's present size plus 64 MB is refused at once; one that the words do not fit in is refused
            after counting.
        checkpoint: a path where counts and merges are saved every 30 s, and merges when training ends for any reason
            (SIGKILL loses what was learned since the last save). While files are counted, the counts of what was read
            so far are saved. The same call made again resumes from it and gives the same result.

    A checkpoint is the named file, with the options and merges, and for files= a second file with ".counts" appended to
    the name. Both remain after training; delete them when the tokenizer is saved. A checkpoint of other options or of
    another corpus is an error; while it has no merges, only options that change the counts are compared, and files that
    were counted. Files are the same corpus if their names, sizes and modification times are the same;
    they are then not counted again. With texts= and pipes the corpus is counted again and the counts are compared. To
    avoid that, save the counts first and train on them. Of the function `veto` of the rules, a checkpoint records only
    that there is one: resume with the same function.

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
    given = CorpusArguments(files, texts, counts, separator, per_line, encoding_errors)
    sizes = _sizes(vocab_size)
    options = TrainOptions(
        vocab_size=max(sizes) if sizes else vocab_size,
        sizes=sizes,
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
        rules=MergeRules() if rules is None else rules,
    )
    kind = Kind(superwords, fair, deletions)
    _check_kind(kind, seeds, options)
    _check_watching(on_merge, progress)
    run = Run(on_merge, progress, check_memory(max_memory), thread_count(threads), checkpoint, seeds)
    return _tokenizers(run, kind, given, CountSettings(options, pretokenizer, as_normalizer(normalizer)))


@dataclass(frozen=True)
class CorpusArguments:
    """The arguments of `train` that name its corpus: exactly one of the first three, and how files are divided."""

    files: Any
    texts: Any
    counts: Any
    separator: str | None
    per_line: bool
    encoding_errors: EncodingErrors

    def __post_init__(self) -> None:
        if len(self.names) != 1:
            found = " and ".join(self.names) or "nothing"
            raise ValueError(f"{found} given; give exactly one of files=, texts= and counts=")

    @property
    def names(self) -> list[str]:
        """Which of the first three are given."""
        return [name for name in ("files", "texts", "counts") if getattr(self, name) is not None]

    def source(self, *, chars: bool = False) -> Sources | Iterable[TextLike] | None:
        """The files or the texts; None for counts."""
        return corpus_source(self.files, self.texts, self.separator, self.per_line, self.encoding_errors, chars=chars)

    def corpus(self, settings: CountSettings) -> Corpus:
        """What to learn from, if these settings say how text is made words."""
        return Corpus(self.source(chars=settings.options.chars), settings.counts(self.counts), self.counts)

    def by_language(self, fair: ParityAware) -> dict[str, CorpusArguments]:
        """The arguments for each language, of a mapping from the languages."""
        (name,) = self.names
        mapping: Any = getattr(self, name)
        if not isinstance(mapping, Mapping) or not mapping:
            raise TypeError(f"{name} is {typed(mapping)}; with fair, it must map each language to its own {name}")
        for language in mapping:
            if not isinstance(language, str):
                raise TypeError(f"{name} has the language {shown(language)}; the name of a language must be a str")
        fair.check_languages(mapping)
        return {language: replace(self, **{name: each}) for language, each in mapping.items()}


@dataclass(frozen=True)
class Kind:
    """The kind of training: plain, or the one that is not None."""

    superwords: SuperWords | None
    fair: ParityAware | None
    deletions: PickyBPE | None


def _tokenizers(run: Run, kind: Kind, given: CorpusArguments, settings: CountSettings) -> Tokenizer | list[Tokenizer]:
    """Train, and make a tokenizer, or one of each size that was asked for."""
    began = time.perf_counter()
    learned = _learned(run, kind, given, settings)
    if len(learned) > 1:
        return [Tokenizer(replace(spec, training=training)) for spec, training in learned]
    spec, training = learned[0]
    training = replace(training, seconds=time.perf_counter() - began)
    sizes = settings.options.sizes
    return [_at_size(spec, training, size) for size in sizes] if sizes else Tokenizer(replace(spec, training=training))


def _learned(
    run: Run, kind: Kind, given: CorpusArguments, settings: CountSettings
) -> list[tuple[TokenizerSpec, Training]]:
    """The result of a training of this kind; one for each size where they have no merges in common."""
    options = settings.options
    if kind.fair is not None:
        corpora = {language: each.corpus(settings) for language, each in given.by_language(kind.fair).items()}
        return [run.learn_fairly(corpora, kind.fair, options)]
    if kind.superwords is not None:
        return _learned_superwords(run, kind.superwords, given, settings)
    if kind.deletions is not None:
        return [run.learn_picky(given.corpus(settings), kind.deletions, options)]
    return [run.learn(given.corpus(settings), options)]


def _learned_superwords(
    run: Run, superwords: SuperWords, given: CorpusArguments, settings: CountSettings
) -> list[tuple[TokenizerSpec, Training]]:
    """The results of a training with superwords, after checking that the other arguments suit them."""
    source, counts = given.source(), given.counts
    boundless = isinstance(superwords, SuperWords) and superwords.kind == "boundless"
    (check_boundless if boundless else check_superwords)(superwords, settings.options, counts, given.texts, source)
    if settings.pretokenizer != "default":
        superwords = replace(superwords, first_pretokenizer=settings.pretokenizer)
    if boundless:
        return run.learn_boundless(superwords, source, counts, settings)
    return [run.learn_superwords(superwords, source, counts, settings)]


def _sizes(vocab_size: object) -> tuple[int, ...]:
    """The argument `vocab_size` where it names several sizes, else ()."""
    if isinstance(vocab_size, (str, bytes)) or not isinstance(vocab_size, Iterable):
        return ()
    sizes = tuple(check_int("vocab_size", size, 1, ID_LIMIT) for size in vocab_size)
    if not sizes:
        raise ValueError("vocab_size is an empty list; give a number of tokens, or several")
    return sizes


def _at_size(spec: TokenizerSpec, training: Training, size: int) -> Tokenizer:
    """The tokenizer that training to a smaller size gives, as part of a larger one."""
    removed = len(spec.vocabulary) - size
    if removed <= 0:
        return Tokenizer(replace(spec, training=training))
    merges = training.merges - removed
    curve = tuple(row for row in training.curve if row[0] <= merges)
    training = replace(training, stopped=None, merges=merges, curve=curve)
    return Tokenizer(replace(truncate(spec, size), training=training))


def _check_watching(on_merge: object, progress: ProgressLike) -> None:
    """Check what a training reports to."""
    if on_merge is not None and not callable(on_merge):
        raise TypeError(
            f"on_merge is {shown(on_merge)}; it must be callable as on_merge(step, left, right, token, count)"
        )
    check_progress(progress)


def _check_kind(kind: Kind, seeds: object, options: TrainOptions) -> None:
    """Check the types of the options that are classes, and that they go together."""
    fair, superwords, deletions = kind.fair, kind.superwords, kind.deletions
    for name, value, allowed in (
        ("fair", fair, ParityAware),
        ("seeds", seeds, Seeds),
        ("deletions", deletions, PickyBPE),
    ):
        if value is not None and not isinstance(value, allowed):
            raise TypeError(f"{name} is {typed(value)}; it must be a bpe.{allowed.__name__} or None")
    if fair is not None and superwords is not None:
        raise ValueError("fair and superwords are given; parity-aware training has one stage: leave one of them out")
    if deletions is not None:
        check_with_deletions(options, {"fair": fair, "seeds": seeds, "superwords": superwords})
    if fair is not None and options.rules.veto is not None:
        raise ValueError(
            "rules has a veto function, which parity-aware training does not ask; use other rules, or leave fair out"
        )
