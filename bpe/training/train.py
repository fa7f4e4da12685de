"""`train`: a corpus in, a tokenizer out. Plain training, and training with superwords."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, overload

from bpe.base.progress import ProgressLike
from bpe.base.utf8 import TextLike
from bpe.corpus.blocks import PathLike
from bpe.corpus.sources import Files
from bpe.count.word_counts import WordCounts
from bpe.pretokenize.pretokenizer import PretokenizerLike
from bpe.text.normalizers import NormalizerLike
from bpe.tokenizer import Tokenizer
from bpe.training.checkpoint import SECOND_STAGE_SUFFIX, Checkpoint, identify_files
from bpe.training.config import Alphabet, CorpusOptions, CountsLike, OnMerge, TrainConfig
from bpe.training.extend import continue_merges
from bpe.training.job import SpecAndRecord, TrainingJob, check_unchanged
from bpe.training.merge_rules import MergeRules
from bpe.training.superwords import SuperWords, check_superwords, make_second_stage_base
from bpe.training.trainer import learn_merges
from bpe.vocab.spec import SymbolType

if TYPE_CHECKING:
    from typing_extensions import Unpack


@overload
def train(
    *, vocab_size: int | None = None, superwords: SuperWords | None = None, **options: Unpack[CorpusOptions]
) -> Tokenizer: ...
@overload
def train(
    *, vocab_size: Sequence[int], superwords: SuperWords | None = None, **options: Unpack[CorpusOptions]
) -> list[Tokenizer]: ...
def train(
    *,
    files: Files | None = None,
    texts: Iterable[TextLike] | None = None,
    counts: CountsLike | tuple[WordCounts, WordCounts] | None = None,
    vocab_size: int | Sequence[int] | None = None,
    num_merges: int | None = None,
    model: SymbolType | None = None,
    pretokenizer: PretokenizerLike | None = "default",
    normalizer: NormalizerLike | None = None,
    special_tokens: Iterable[str] = (),
    unk_token: str | None = None,
    end_of_word: str | None = None,
    end_of_word_glued: bool = False,
    alphabet: Alphabet | None = None,
    min_frequency: int = 1,
    superwords: SuperWords | None = None,
    rules: MergeRules | None = None,
    split_digits: bool = False,
    on_merge: OnMerge | None = None,
    threads: int | None = None,
    progress: ProgressLike = False,
    max_memory: int | str | None = None,
    checkpoint: PathLike | None = None,
) -> Tokenizer | list[Tokenizer]:
    """Learn a BPE vocabulary.

    Args:
        files: paths of text, JSON Lines, CSV, Parquet or Arrow files, also compressed, each text file a document; or a
            `bpe.Sources`, which has options: separators, lines, fields, bytes that are not UTF-8; or
        texts: an iterable of str or bytes, each a document, or an Arrow array of strings, which is not copied (a null
            is an empty text); or
        counts: words with their counts, a `WordCounts`, which must have been made with the special tokens, or a
            mapping; with superwords, two `WordCounts`. Give exactly one of the three.
        vocab_size: the number of tokens of the result, special tokens and alphabet included; or a list of such numbers:
            one training gives a list of tokenizers, each equal to that of a training to its size alone; or
        num_merges: the number of merges to learn. Give exactly one of the two. Training that runs out of pairs stops
            early, and `tok.spec.training.stopped` gives the reason.
        model: "byte" (symbols are bytes, every text has ids) or "char" (symbols are characters). The default is "byte",
            and "char" for an alphabet with `byte_fallback`.
        pretokenizer: how texts are split into words, here and in the tokenizer: a name, a `Pretokenizer`, or None (a
            text is one word). The default is "gpt2" for a byte model and "whitespace" for a character model; a
            `WordCounts` has its own.
        normalizer: how a text is changed before it is split: one or several of `bpe.normalizers`, or names ("nfc").
        special_tokens: names that take the first ids, in this order. Where they occur in the corpus they separate text.
        unk_token: the token for symbols outside the alphabet; its id follows those of the special tokens.
        end_of_word: a mark, such as "</w>", that follows the last symbol of each word.
        end_of_word_glued: make the mark a part of that symbol instead of a symbol of its own.
        alphabet: the symbols to start from, as this `bpe.Alphabet` says; by default all 256 bytes, or the corpus's
            characters.
        min_frequency: merge no pair that occurs fewer times than this.
        superwords: learn tokens that reach across words, in a second stage, as this `bpe.SuperWords` says; for byte
            models. The corpus is read twice: files that are not pipes, or texts that can be iterated again; or give
            counts=(first, second), made with its `count_words`.
        rules: which of several pairs with the same count is merged first, and merges that are never made, as this
            `bpe.MergeRules` says; in both stages of superwords.
        split_digits: let digits take part in no merge with other characters, so that each is a token by itself: in a
            byte model all characters that are numbers (Unicode's class N), whose bytes are merged, and no merge joins
            a part of a character with another character; in a character model, as in SentencePiece, ASCII's digits
            and the full-width ones.
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
    were counted. Files are the same corpus if their names, sizes and modification times are the same; they are then not
    counted again. With texts= and pipes the corpus is counted again and the counts are compared. To avoid that, save
    the counts first and train on them. Of the function `veto` of the rules, a checkpoint records only that there is
    one: resume with the same function.

    Raises:
        TypeError, ValueError: for arguments that are invalid or contradict each other, an empty corpus, a vocab_size
            smaller than the alphabet, counts that overflow 64 bits, bytes that are not UTF-8 in a character model, a
            checkpoint of another training, a max_memory that is too small for the words of the corpus.
        FormatError: for a file in UTF-16 or UTF-32, or not UTF-8, and for a damaged file or a bad record.
        OSError: for a file that cannot be read, or gets shorter while it is read.

    >>> import bpe
    >>> tok = bpe.train(counts={"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}, model="char", num_merges=3)
    >>> tok.tokens("hugs bun")
    ['hug', 's', 'b', 'un']

    A tokenizer like Llama 2's:

    >>> from bpe.pretokenizers import Metaspace
    >>> tok = bpe.train(
    ...     texts=["hug pug", "hugs 12"], vocab_size=270, pretokenizer=Metaspace(),
    ...     special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>",
    ...     alphabet=bpe.Alphabet(byte_fallback=True), split_digits=True,
    ... )
    >>> tok.tokens("hug é"), tok.decode(tok.encode("hug é"))
    (['▁hug', '▁', '<0xC3>', '<0xA9>'], 'hug é')

    """
    # Must be the first statement: locals() are the arguments only.
    config = TrainConfig(**{name: value for name, value in list(locals().items()) if name != "superwords"})
    return TrainingJob(config, learn_merges).run(partial(train_plain_or_superwords, superwords))


def train_plain_or_superwords(superwords: SuperWords | None, job: TrainingJob) -> list[SpecAndRecord]:
    """Train on words, or with superwords."""
    if superwords is not None:
        return _learn_superwords(superwords, job)
    counts, checkpoint = job.count(job.config.make_corpus(), job.config.counts)
    learned = job.learn(counts, job.config, checkpoint)
    return [(learned.spec, learned.record)]


def _learn_superwords(superwords: SuperWords, job: TrainingJob) -> list[SpecAndRecord]:
    """Train in two stages, on a corpus or on the counts of both."""
    config, corpus = job.config, job.config.make_corpus()
    check_superwords(superwords, config, corpus)
    if config.pretokenizer != "default":
        superwords = replace(superwords, first_pretokenizer=config.pretokenizer)
    files_before, extra_options = identify_files(corpus), {"superwords": superwords.to_json()}
    first_counts, second_counts = config.counts or (None, None)

    def count(stage: int, given_counts: object, suffix: str) -> tuple[WordCounts, Checkpoint | None]:
        pretokenizer, units = superwords.get_pretokenizer(stage), superwords.units
        return job.count(
            corpus, given_counts, pretokenizer=pretokenizer, units=units, extra_options=extra_options, suffix=suffix
        )

    counts, checkpoint = count(1, first_counts, "")
    first_stage = job.learn(counts, replace(config, vocab_size=superwords.transition, vocab_sizes=()), checkpoint)
    counts, checkpoint = count(2, second_counts, SECOND_STAGE_SUFFIX)
    check_unchanged(corpus, files_before)
    base = make_second_stage_base(first_stage.spec, counts, superwords)
    second_stage = continue_merges(job, counts, base, superwords.limit_config(config), checkpoint)
    first_record = first_stage.record
    record = second_stage.record.after(first_record.merges, first_record.curve, first_record.stopped)
    return [(second_stage.spec, record)]
