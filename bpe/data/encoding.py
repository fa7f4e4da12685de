"""`encode_shards`: from a corpus to training shards, in one call that can be killed and repeated.

The caller's thread and its helpers read and encode groups of documents (`grouping.py`). Each of them writes the ids of
its blocks to the shard, if that is a plain array and a group of documents does not end it. Else one other thread writes
the group meanwhile (`_WriterThread`). After each finished step the journal has the position to go on from.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bpe.base._team import Outcome, Team
from bpe.base.progress import ProgressLike, check_progress, progress_bar
from bpe.base.threads import Workers, resolve_threads, team_threads
from bpe.corpus._content_hash import hash_spans
from bpe.corpus._listing import FileMeasurer
from bpe.corpus.blocks import PathLike
from bpe.corpus.reading import check_encoding_errors
from bpe.corpus.sources import Sources
from bpe.data.chats import encode_chats
from bpe.data.extending import add_shards, check_repeated_sources
from bpe.data.formats import SHARD_FORMATS
from bpe.data.formats.files import WriterThreads
from bpe.data.grouping import GroupEncoder, choose_validation, find_unexpected_names
from bpe.data.journal import (
    JOURNAL_NAME,
    Journal,
    check_same_header,
    crash_point,
    lock_folder,
    record_base,
    remove_temporary_files,
)
from bpe.data.journal_checks import check_steps, fingerprint_beginning
from bpe.data.manifest import MANIFEST_NAME, Manifest, parse_shard
from bpe.data.outputs import OrderedShardOutput, ShuffledShardOutput
from bpe.data.plan import (
    DEFAULT,
    FormatChoice,
    ShardPlan,
    check_fraction,
    check_part,
    check_sizes,
    find_bos_eos,
    find_largest_id,
)
from bpe.data.shuffling import BUCKETS_FOLDER
from bpe.errors import FormatError, check_bool, check_choice, check_int, check_unicode, get_log, pluralize, short_repr
from bpe.formats.signatures import TOKENIZER_JSON
from bpe.tokenizer import Tokenizer, check_tokenizer
from bpe.vocab.special_tokens import Allowed, sort_names

log = get_log()

#: Sources of about this many bytes of text or less are read before the work, to see that both splits have documents.
_MAX_CHECKED_BYTES = 16 << 20
#: The fewest bytes of text for which several threads write.
MIN_SHARED_BYTES = 16 << 20
#: The most threads that encode row groups, each of which takes some 20 MB of memory.
MAX_WORKERS = 24


def encode_shards(
    sources: Sources | PathLike | Iterable[PathLike],
    tokenizer: Tokenizer,
    out: PathLike,
    *,
    format: str = "native",  # noqa: A002 (the word of the command line)
    append: int | str | FormatChoice | None = DEFAULT,
    prepend: int | str | FormatChoice | None = DEFAULT,
    shard_size: int | None = None,
    shards: int | None = None,
    seed: int | None = None,
    validation: float = 0.0,
    rank: int | None = None,
    world: int | None = None,
    threads: int | None = None,
    allowed_special: Allowed = (),
    messages: str | None = None,
    extend: bool = False,
    progress: ProgressLike = False,
) -> Manifest:
    """Encode a corpus to training shards in a folder.

    A shard is written whole or not at all. After a crash, a full disk or Ctrl-C the same call goes on after the last
    finished shard, and the result is the same, byte for byte, as without the interruption; it does not depend on
    `threads` either. On a folder that is finished the call returns at once, unless a source was changed since or is a
    pipe, whose text would be lost. Memory is bounded.

    Args:
        sources: the corpus: `Sources`, or paths of text files, each one document.
        tokenizer: the tokenizer. Its copy goes to the folder.
        out: the folder, made if absent. It must be empty, an output of the same call, or with `extend` a finished one.
        format: "native", "megatron", "parquet", "arrow", "nanogpt", "llmc", "datatrove" or "dolma".
        append: an id, or the name of a special token, to write after each document; None for nothing. It replaces the
            format's default: the end-of-text id after documents for nanogpt and datatrove, before them for llmc,
            nothing for others.
        prepend: what to write before each document. With only one of the two given, nothing stands at the other end.
        shard_size: a shard ends after the first document with which it has this many tokens; default 2**28, and for
            nanogpt a single shard. With `validation`, both splits count.
        shards: with `seed`, the number of shards, instead of `shard_size`.
        seed: shuffle the documents over and within shards, in the order of this seed; None keeps the order of the
            sources. Needs as much disk space again.
        validation: the fraction of documents for validation shards, chosen by a hash of their content, so that
            duplicates are in the same split.
        rank: encode only this part of the sources, from 0 to `world` - 1; None encodes all. The parts of all ranks in
            order are the whole.
        world: the number of parts.
        threads: how many threads encode; default one per core.
        allowed_special: as for `Tokenizer.encode`; with `messages`, as for `Tokenizer.chat`.
        messages: the field of records of JSON Lines that has the messages of a conversation, such as "messages". Each
            conversation becomes a document by the tokenizer's chat template, with a loss mask of what the assistant
            says; a field "tools" of the record goes to the template, too. `format` must be one with loss masks; an
            interrupted call begins anew. Not with append, prepend, shards, seed, validation, rank, world and extend.
        extend: add the documents to those of a finished folder, as new shards in a folder in it; `sources` are only the
            new files. A copy of a file under another name is a new one: the real path identifies files. Where the
            folder is not finished, or these sources are in it already, as without `extend`.
        progress: True for a bar or lines on stderr; or a function that takes `bpe.base.Progress`.

    Returns:
        The manifest: counts, files and checksums.

    Raises:
        TypeError: for a tokenizer that is no `Tokenizer`, such as its path.
        ValueError: for an invalid argument, an id that the format cannot hold, a folder that is not empty, or one that
            was begun with other sources, options or tokenizer, or is in use; for a pipe or standard input where the
            folder is finished; FormatError for a damaged source.
        OSError: for a file that cannot be read or written, such as a full disk; it names the file.

    >>> import bpe, tempfile
    >>> from bpe.data import encode_shards
    >>> tokenizer = bpe.train(texts=["low lower lowest"], vocab_size=260)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "corpus.txt").write_text("low lower")
    ...     manifest = encode_shards(Path(folder, "corpus.txt"), tokenizer, Path(folder, "shards"))
    ...     sorted(path.name for path in Path(folder, "shards").iterdir())
    ['manifest.json', 'tokenizer.json', 'tokens-00000.npy', 'tokens-00000.offsets.npy']
    >>> manifest.documents, manifest.dtype
    (1, 'uint16')

    """
    check_tokenizer(tokenizer)
    check_progress(progress)
    check_bool("extend", extend)
    n_threads = resolve_threads(threads)
    shard_format = SHARD_FORMATS[check_choice("format", format, tuple(SHARD_FORMATS))]
    if messages is not None:
        if rank is not None or world is not None:
            raise ValueError(f"rank={rank}, world={world} is given; it cannot be combined with messages=: leave it out")
        given = {"append": append, "prepend": prepend, "shards": shards, "seed": seed}
        _refuse_with_messages({**given, "validation": validation or None, "extend": extend or None})
        return encode_chats(
            sources, tokenizer, Path(out), messages, shard_format, shard_size, allowed_special, progress
        )
    bos_eos = find_bos_eos(tokenizer, shard_format, prepend, append)
    part, seed = check_part(rank, world), None if seed is None else check_int("seed", seed, 0)
    shard_size, n_shards = check_sizes(shard_format, shard_size, shards, seed)
    names = sort_names(allowed_special)
    allowed = tokenizer._engine.specials.resolve_allowed(names)
    plan = ShardPlan(
        folder=Path(out),
        format=shard_format,
        dtype=shard_format.choose_dtype(find_largest_id(tokenizer, bos_eos, allowed)),
        fingerprint=tokenizer.fingerprint,
        bos_eos=bos_eos,
        allowed=allowed,
        allowed_special=names,
        shard_size=shard_size,
        shards=n_shards,
        seed=seed,
        validation=check_fraction(validation),
        part=part,
    )
    sources = _prepare_sources(sources, tokenizer, part)
    if not extend or not (plan.folder / MANIFEST_NAME).exists():
        return _ShardJob(sources, tokenizer, plan).run(n_threads, progress)
    return _extend_folder(sources, tokenizer, plan, n_threads, progress)


def _extend_folder(
    sources: Sources, tokenizer: Tokenizer, plan: ShardPlan, threads: int, progress: ProgressLike
) -> Manifest:
    """Add the documents of the sources to the finished shards in the plan's folder; returns the manifest of all."""
    if plan.part is not None:
        raise ValueError(
            "extend is True, but rank={}, world={} gives a part of the sources; extend the folder with whole "
            "sources".format(*plan.part)
        )
    return add_shards(
        plan.folder,
        _make_header(sources, plan),
        plan.dtype.name,
        lambda folder: _ShardJob(sources, tokenizer, replace(plan, folder=folder), True).run(threads, progress),
    )


def _refuse_with_messages(arguments: dict[str, Any]) -> None:
    """Raise ValueError for an argument of `encode_shards` that cannot be combined with `messages`."""
    for name, value in arguments.items():
        if value is not None and value is not DEFAULT:
            reason = (
                "the chat template says what is around messages" if name in ("append", "prepend") else "leave it out"
            )
            raise ValueError(f"{name} is {short_repr(value)}; it cannot be combined with messages=: {reason}")


def _prepare_sources(sources_or_paths: Any, tokenizer: Tokenizer, part: tuple[int, int] | None) -> Sources:
    """Open the sources of a call, or a part of them, so that separators end documents."""
    sources = sources_or_paths if isinstance(sources_or_paths, Sources) else Sources(sources_or_paths)
    check_encoding_errors(sources.encoding_errors, is_char_model=tokenizer.model == "char")
    for file in sources.files:  # the journal and the manifest name them
        check_unicode("the name of the source", file.name)
    sources = sources.with_ending_separators().for_one_call()
    return sources if part is None else sources.part(*part)


def _make_header(sources: Sources, plan: ShardPlan) -> dict[str, Any]:
    """Collect all that determines the shards, after a round trip through JSON."""
    source_plan = record_base(sources.plan(), plan.folder)
    header = {"sources": source_plan, "options": plan.to_json(), "tokenizer": plan.fingerprint}
    return json.loads(json.dumps(header))  # type: ignore[no-any-return]


class _ShardJob:
    """One call of `encode_shards`; `is_addition`: to a folder in the finished one, which `add_shards` lists there."""

    def __init__(self, sources: Sources, tokenizer: Tokenizer, plan: ShardPlan, is_addition: bool = False) -> None:
        self._sources, self._tokenizer, self._plan, self._out = sources, tokenizer, plan, plan.folder
        self._header, self._is_addition = _make_header(sources, plan), is_addition

    def run(self, threads: int, progress: ProgressLike) -> Manifest:
        """Write what is not finished; returns the manifest."""
        out, plan = self._out, self._plan
        if not (out / MANIFEST_NAME).exists() and not (out / JOURNAL_NAME).exists() and plan.part is None:
            check_validation_split(self._sources, plan.validation)
        with lock_folder(out):
            if (out / MANIFEST_NAME).exists():
                return self._read_finished()
            with self._open_journal() as journal, self._start_writer_threads(threads) as writer_threads:
                shuffled_output = (
                    None if plan.seed is None else ShuffledShardOutput(plan, journal, writer_threads, self._sources)
                )
                output = shuffled_output or OrderedShardOutput(plan, journal, writer_threads)
                with output:
                    self._encode(output, threads, progress)
                    if shuffled_output is not None:
                        with progress_bar(progress, "shuffle", shuffled_output.count_tokens(), "tokens") as advance:
                            shuffled_output.write_shards(advance)
                self._save_tokenizer()
                manifest = self._make_manifest(journal)
                crash_point("manifest")
                manifest.write(out)
                crash_point("manifest written")
                journal.remove()
                return manifest

    def _encode(self, output: OrderedShardOutput | ShuffledShardOutput, threads: int, progress: ProgressLike) -> None:
        """Encode the sources from where the output begins, in this thread and its helpers; another thread writes."""
        plan, sources, start = self._plan, self._sources, output.start
        if start is None:
            return
        earlier_bad_records = start.n_bad_records - sources.skipped
        n_bytes_done = 0 if start.position is None else sources.estimate_size_before(start.position)
        with progress_bar(progress, "encode", sources.size, "B", n_bytes_done) as advance, _WriterThread() as writer:
            saving = writer.submit(lambda save: save(), self._save_tokenizer)  # it takes up to a tenth of a second
            groups = GroupEncoder(
                sources,
                self._tokenizer._engine,
                plan.bos_eos,
                plan.allowed,
                start,
                whole_documents=plan.seed is not None or plan.validation > 0,
                with_hashes=plan.validation > 0,
                unexpected_names=find_unexpected_names(self._tokenizer, plan.bos_eos, plan.allowed, sources.separators),
                before_block=writer.check,  # an error of the writer ends the encoding
                size_divisor=4 if plan.format.has_row_groups else 1,
            ).encode(
                # Of 8 threads 5 encode, since compressing takes about as long.
                -(-5 * threads // 8) if plan.format.compresses else threads,
                lambda: None if writer.is_writing() else output.open_target(),
            )
            with closing(groups):
                for group in groups:
                    if group.target is None or group.target.is_full:  # a full one ends a shard, which may take long
                        writer.put(partial(output.write, group))
                    else:
                        output.write(group)
                    advance(group.disk_bytes, documents=group.n_complete, tokens=group.n_ids)
                    del group
            writer.wait()
            saving.result()
        output.finish(earlier_bad_records + sources.skipped)

    @contextmanager
    def _start_writer_threads(self, threads: int) -> Iterator[WriterThreads]:
        """Start threads that help to write, if there is much to write, and join them at the end of the block."""
        size = self._sources.text_size
        team = Team(threads if size is None or size >= MIN_SHARED_BYTES else 1)
        n_workers = min(threads // 2 + 1, MAX_WORKERS) if team.size > 1 and self._plan.format.has_row_groups else 0
        with team_threads(team), Workers(n_workers) as workers:
            yield WriterThreads(team, workers if workers.size else None)

    @contextmanager
    def _open_journal(self) -> Iterator[Journal]:
        """Open the journal and check its finished steps; after an error it stays, so that the same call goes on."""
        times = read_times(self._sources)
        journal = Journal(
            self._out,
            {**self._header, "modified": times},
            disposable_names=(TOKENIZER_JSON, BUCKETS_FOLDER),
            fingerprint_beginning=partial(fingerprint_beginning, self._sources),
        )
        try:
            self._check_steps(journal)
            yield journal
        except ValueError:
            if read_times(self._sources) == times:  # else a file was changed while it was read
                journal.record_beginning()
            raise
        except KeyboardInterrupt:
            shards = pluralize(journal.count_shards(), "shard")
            raise KeyboardInterrupt(f"{shards} finished in {self._out}; the same command goes on from there") from None
        finally:
            journal.close()

    def _save_tokenizer(self) -> None:
        """Write the copy of the tokenizer, if it is not there."""
        if not (self._out / TOKENIZER_JSON).exists():
            self._tokenizer.save(self._out / TOKENIZER_JSON)

    def _read_finished(self) -> Manifest:
        """Read the manifest of a finished folder, and check that the folder is of the same call."""
        manifest = Manifest.read(self._out)
        check_same_header(self._out, manifest.to_header(), self._header)
        check_repeated_sources(self._out, manifest, self._header["sources"], allow_pipes=self._is_addition)
        remove_temporary_files(self._out)
        (self._out / JOURNAL_NAME).unlink(missing_ok=True)
        log.info(
            "%s is finished: %s, %s; nothing to do",
            self._out,
            pluralize(manifest.documents, "document"),
            pluralize(manifest.tokens, "token"),
        )
        return manifest

    def _check_steps(self, journal: Journal) -> None:
        """Check the finished steps, and log that the run goes on after them."""
        if not journal.steps:
            return
        check_steps(journal, self._plan, self._sources)
        has_pipe = any(file.kind in ("stdin", "pipe") for file in self._sources.files)
        advice = "; the pipe must give the same text from its beginning again" if has_pipe else ""
        log.info("going on in %s: %s finished%s", self._out, pluralize(journal.count_shards(), "shard"), advice)

    def _make_manifest(self, journal: Journal) -> Manifest:
        """Make the manifest of the finished shards."""
        plan, entries = self._plan, []
        units = [] if plan.part is None else self._sources.units()
        offsets = {unit.file_index: unit.start for unit in reversed(units)}
        for step in journal.steps:
            first_document = step.get("first")
            start = (
                None
                if first_document is None
                else (first_document[0], offsets.get(first_document[0], 0), first_document[1])
            )
            entries += [replace(parse_shard(shard, "shards"), start=start) for shard in step.get("shards", [])]
        entries.sort(key=lambda entry: entry.stem)
        if not any(entry.documents for entry in entries):
            log.warning("the sources have no documents")
        elif 0 < plan.validation < 1 and len({entry.split for entry in entries}) < 2:
            log.warning("all documents are on one side of the split, %s", entries[0].split)
        return Manifest(
            plan.format.name,
            str(plan.dtype),
            tuple(entries),
            tokenizer={"fingerprint": plan.fingerprint, "file": TOKENIZER_JSON},
            sources=self._header["sources"],
            options=self._header["options"],
            skipped=max((step.get("skipped", 0) for step in journal.steps), default=0),
            damaged_files=self._list_damaged_files(),
        )

    def _list_damaged_files(self) -> dict[str, str]:
        """List the damaged files that were left out, in all runs."""
        for unit in self._sources.units():
            self._sources.is_left_out(unit.file_index)  # those before the beginning of this run are read once more
        return self._sources.damaged_files


class _WriterThread(Workers):
    """Does work in one other thread, in order, a bounded number of items behind the caller.

    Use it as a context manager: at the end of the block no work is running, and items that have not begun are dropped.
    After an error, which reaches the caller at once, no further item is begun.
    """

    def __init__(self) -> None:
        super().__init__(1, name="bpe_writer")
        self._pending: deque[Outcome[None]] = deque()
        self._failed = False

    def put(self, work: Callable[[], None]) -> None:
        """Hand over an item; waits while two are pending. Raises the error of an earlier item."""
        self.check()
        while len(self._pending) > 1:
            self._pending.popleft().result()
        self._pending.append(self.submit(self._do_unless_failed, work))

    def check(self) -> None:
        """Raise the error of an earlier item, if there is one. Only one thread may call this or `put` at a time."""
        while self._pending and self._pending[0].done():
            self._pending.popleft().result()

    def is_writing(self) -> bool:
        """Whether an item is not done. Raises the error of an earlier item."""
        self.check()
        return bool(self._pending)

    def wait(self) -> None:
        """Wait until all items are done."""
        while self._pending:
            self._pending.popleft().result()

    def _do_unless_failed(self, work: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            work()
        except BaseException:
            self._failed = True
            raise


def read_times(sources: Sources) -> list[int | None]:
    """Read the time of the last change of each file, in ns; None for what is no local file."""
    stamps = FileMeasurer([file.name for file in sources.files]).read_stamps()
    return [None if stamp is None else stamp[1] for stamp in stamps]


def check_validation_split(sources: Sources, fraction: float) -> None:
    """Refuse a fraction that leaves one split without documents, where the sources are small or one document.

    Of large sources whose files are documents, a warning says that they may be too few.

    Raises:
        ValueError: if it does.

    """
    if not 0 < fraction < 1:
        return
    files = sources.files
    files_are_documents = not sources.separators and all(file.format == "text" for file in files)
    if files_are_documents and len(files) == 1:
        reason = (
            f"a text file without a separator is one document, {files[0].name}, and the split is of whole documents, "
            "since parts of one have other ids"
        )
        _refuse_one_sided_split(1, "one side", reason)
    if not sources.regular or (sources.text_size or 0) > _MAX_CHECKED_BYTES:
        if files_are_documents and len(files) * min(fraction, 1 - fraction) < 1:
            log.warning(
                "validation divides whole documents, and without separator= or per_line=True each of the %d text files "
                "is one: with this fraction, all may be on one side",
                len(files),
            )
        return
    documents = 0
    validation_values: set[bool] = set()
    sources_copy = sources.with_own_count()
    try:
        with closing(sources_copy.blocks_with_documents()) as blocks:
            for block, starts, ends in blocks:
                hashes = hash_spans(block.text, starts, ends)
                documents += len(hashes)
                validation_values.update(choose_validation(hashes, fraction).tolist())
                if len(validation_values) > 1:
                    return
    except FormatError:  # the work says so, after the shards before
        return
    if documents:
        split = "validation" if True in validation_values else "training"
        _refuse_one_sided_split(documents, split, "the hash of a document's text decides")


def _refuse_one_sided_split(n_documents: int, split: str, reason: str) -> None:
    raise ValueError(
        f"validation would put the sources' {pluralize(n_documents, 'document')} all on {split}: {reason}; pass "
        "separator= or per_line=True where files have several documents, such as separator='\\n\\n' for paragraphs, "
        "another fraction, or none"
    )
