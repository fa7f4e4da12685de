"""`encode_shards`: from a corpus to training shards, in one call that can be killed and repeated.

Reading, encoding and writing overlap: the caller's thread and its helpers read and encode groups of documents
(`grouping.py`), while one other thread writes (`background.py`). After each finished step the journal has the position
to go on from.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bpe.base.progress import ProgressLike, check_progress, progress_bar
from bpe.base.threads import thread_count
from bpe.corpus.blocks import PathLike
from bpe.corpus.reading import checked_encoding_errors
from bpe.corpus.sources import Sources
from bpe.data.background import Background
from bpe.data.formats.shard_format import ShardInfo
from bpe.data.grouping import Group, encoded_groups
from bpe.data.journal import NAME as JOURNAL
from bpe.data.journal import Journal, locked_folder, reached, refuse_difference, remove_temporary_files
from bpe.data.literal_names import literal_names
from bpe.data.manifest import NAME as MANIFEST
from bpe.data.manifest import Manifest, parse_shard
from bpe.data.options import (
    DEFAULT,
    Options,
    allowed_tokens,
    around_of,
    chosen_format,
    largest_id,
    part_of,
    shard_count,
)
from bpe.data.ordered import OrderedShards
from bpe.data.records import beginning_of, check_steps
from bpe.data.shuffled import ShuffledShards, tokens_in_buckets
from bpe.data.shuffling import FOLDER as BUCKETS
from bpe.data.splitting import check_sides
from bpe.data.steps import TRAIN, Target
from bpe.errors import check_unicode, counted
from bpe.tokenizer import Tokenizer, check_tokenizer
from bpe.vocab.special_tokens import Allowed

log = logging.getLogger("bpe")

#: The name of the tokenizer's copy in the output folder.
TOKENIZER = "tokenizer.json"


def encode_shards(
    sources: Sources | PathLike | Iterable[PathLike],
    tokenizer: Tokenizer,
    out: PathLike,
    *,
    format: str = "native",  # noqa: A002 (the word of the command line)
    append: int | str | None = DEFAULT,
    prepend: int | str | None = DEFAULT,
    shard_size: int | None = None,
    shards: int | None = None,
    seed: int | None = None,
    validation: float = 0.0,
    rank: int | None = None,
    world: int | None = None,
    threads: int | None = None,
    allowed_special: Allowed = (),
    progress: ProgressLike = False,
) -> Manifest:
    """Encode a corpus to training shards in a folder.

    A shard is written whole or not at all. After a crash, a full disk or Ctrl-C the same call goes on after the last
    finished shard, and the result is the same, byte for byte, as without the interruption; it does not depend on
    `threads` either. On a folder that is finished the call returns at once. Memory is bounded.

    Args:
        sources: the corpus: `Sources`, or paths of text files, each one document.
        tokenizer: the tokenizer. Its copy goes to the folder.
        out: the folder, made if absent. It must be empty, or an output of the same call.
        format: "native", "megatron", "parquet", "arrow", "nanogpt", "llmc", "datatrove" or "dolma".
        append: an id, or the name of a special token, to write after each document; None for nothing. It replaces the
            format's default: the end-of-text id after documents for nanogpt and datatrove, before them for llmc,
            nothing for others.
        prepend: what to write before each document. With only one of the two given, nothing stands at the other end.
        shard_size: a shard ends after the first document with which it has this many tokens; default 2**28, and for
            nanogpt a single shard. With `validation`, both sides count.
        shards: with `seed`, the number of shards, instead of `shard_size`.
        seed: shuffle the documents over and within shards, in the order of this seed; None keeps the order of the
            sources. Needs as much disk space again.
        validation: the fraction of documents for validation shards, chosen by a hash of their content, so that
            duplicates are on the same side.
        rank: encode only this part of the sources, from 0 to `world` - 1; None encodes all. The parts of all ranks in
            order are the whole.
        world: the number of parts.
        threads: how many threads encode; default one per core.
        allowed_special: as for `Tokenizer.encode`.
        progress: True for a bar or lines on stderr; or a function that takes `bpe.base.Progress`.

    Returns:
        The manifest: counts, files and checksums.

    Raises:
        TypeError: for a tokenizer that is no `Tokenizer`, such as its path.
        ValueError: for an invalid argument, an id that the format cannot hold, a folder that is not empty, or one that
            was begun with other sources, options or tokenizer, or is in use; FormatError for a damaged source.
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
    n_threads = thread_count(threads)
    kind = chosen_format(format)
    options = Options.of(
        kind,
        around_of(tokenizer, kind, append=append, prepend=prepend),
        shard_size=shard_size,
        shards=shards,
        seed=seed,
        validation=validation,
        part=part_of(rank, world),
        allowed_special=allowed_special,
    )
    encoding = _Encoding(_sources(sources, tokenizer, options.part), tokenizer, Path(out), options)
    return encoding.run(n_threads, progress)


def _sources(given: Any, tokenizer: Tokenizer, part: tuple[int, int] | None) -> Sources:
    """The sources of a call, in which separators end documents; or a part of them."""
    sources = given if isinstance(given, Sources) else Sources(given)
    checked_encoding_errors(sources.encoding_errors, chars=tokenizer.model == "char")
    sources = sources.ending().for_one_call()
    return sources if part is None else sources.part(*part)


class _Encoding:
    """One call of `encode_shards`."""

    def __init__(self, sources: Sources, tokenizer: Tokenizer, out: Path, options: Options) -> None:
        self.sources, self.tokenizer, self.out, self.options = sources, tokenizer, out, options
        self.allowed = allowed_tokens(tokenizer, options.allowed_special)
        dtype = options.format.dtype(largest_id(tokenizer, options.around, self.allowed))
        split = options.validation > 0
        self.target = Target(
            out,
            options.format,
            dtype,
            ShardInfo(tokenizer=tokenizer.fingerprint),
            split,
            options.single,
            TRAIN if options.single else "tokens",
        )
        self.header = {
            "sources": sources.plan(),
            "options": options.to_json(),
            "tokenizer": tokenizer.fingerprint,
        }

    def run(self, threads: int, progress: ProgressLike) -> Manifest:
        """Encode what is not finished; returns the manifest."""
        for file in self.sources.files:  # the journal and the manifest name them
            check_unicode("the name of the source", file.name)
        if not (self.out / MANIFEST).exists() and not (self.out / JOURNAL).exists() and self.options.part is None:
            check_sides(self.sources, self.options.validation)
        with locked_folder(self.out):
            if (self.out / MANIFEST).exists():
                return self._finished()
            times = modified(self.sources)
            journal = Journal(
                self.out,
                {**self.header, "modified": times},
                disposable=(TOKENIZER, BUCKETS),
                beginning_of=partial(beginning_of, self.sources),
            )
            try:
                self._check_steps(journal)
                if self.options.seed is None:
                    self._in_order(journal, threads, progress)
                else:
                    self._shuffled(journal, threads, progress)
                self._save_tokenizer()
                manifest = self._manifest(journal)
                reached("manifest")
                manifest.write(self.out)
                reached("manifest written")
                journal.remove()
                return manifest
            except ValueError:
                if modified(self.sources) == times:  # else a file was changed while it was read
                    journal.note_beginning()
                raise
            except KeyboardInterrupt:
                done = sum(len(step.get("shards", ())) for step in journal.steps)
                raise KeyboardInterrupt(
                    f"{counted(done, 'shard')} finished in {self.out}; the same command goes on from there"
                ) from None
            finally:
                journal.close()

    def _save_tokenizer(self) -> None:
        """Write the copy of the tokenizer, if it is not there."""
        if not (self.out / TOKENIZER).exists():
            self.tokenizer.save(self.out / TOKENIZER)

    def _finished(self) -> Manifest:
        """The manifest of a folder that is finished, after checking that it is of the same call."""
        manifest = Manifest.read(self.out)
        before = {
            "sources": manifest.sources,
            "options": manifest.options,
            "tokenizer": manifest.tokenizer.get("fingerprint"),
        }
        refuse_difference(self.out, before, _as_json(self.header))
        remove_temporary_files(self.out)
        (self.out / JOURNAL).unlink(missing_ok=True)
        log.info(
            "%s is finished: %s, %s; nothing to do",
            self.out,
            counted(manifest.documents, "document"),
            counted(manifest.tokens, "token"),
        )
        return manifest

    def _check_steps(self, journal: Journal) -> None:
        """Check the finished steps, and log that the run goes on after them."""
        if not journal.steps:
            return
        check_steps(journal, self.target, self.sources, self.options)
        done = sum(len(step.get("shards", ())) for step in journal.steps)
        piped = any(file.kind in ("stdin", "pipe") for file in self.sources.files)
        again = "; the pipe must give the same text from its beginning again" if piped else ""
        log.info("going on in %s: %s finished%s", self.out, counted(done, "shard"), again)

    # Encoding ---------------------------------------------------------------------------------------------------------

    def _in_order(self, journal: Journal, threads: int, progress: ProgressLike) -> None:
        writer = OrderedShards(self.target, journal, self.options.shard_size, self.options.validation)
        self._encode(writer, threads, progress)

    def _shuffled(self, journal: Journal, threads: int, progress: ProgressLike) -> None:
        options = self.options
        assert options.seed is not None
        writer = ShuffledShards(
            self.target,
            journal,
            shards=shard_count(options.shards, options.shard_size, self.sources),
            seed=options.seed,
            part=options.part or (0, 1),
            validation=options.validation,
            size=self.sources.text_size or 0,
        )
        self._encode(writer, threads, progress)
        total = tokens_in_buckets(journal, self.target.dtype)
        try:
            with progress_bar(progress, "shuffle", total, "tokens") as advance:
                writer.write_shards(advance)
        except BaseException:
            writer.discard()
            raise

    def _encode(self, writer: OrderedShards | ShuffledShards, threads: int, progress: ProgressLike) -> None:
        """Encode the sources from where the journal ends, and hand the groups to a writer in another thread."""
        start = writer.start
        if start is None:
            return
        options, sources = self.options, self.sources

        def write(group: Group | None) -> None:
            if group is None:  # the first item: large vocabularies take a tenth of a second
                self._save_tokenizer()
            else:
                writer.write(group)

        earlier = start.skipped - sources.skipped
        done = 0 if start.position is None else size_before(sources, start.position.file, start.position.offset)
        try:
            with (
                progress_bar(progress, "encode", sources.size, "B", done) as advance,
                Background(write) as thread,
            ):
                thread.put(None)
                groups = encoded_groups(
                    sources,
                    self.tokenizer._engine,
                    threads,
                    allowed=self.allowed,
                    around=options.around,
                    start=start,
                    whole=options.seed is not None or options.validation > 0,
                    hashed=options.validation > 0,
                    check=thread.check,
                    names=literal_names(self.tokenizer, options.around, self.allowed, sources.separators),
                )
                with closing(groups):
                    for group in groups:
                        thread.put(group)
                        advance(group.size, documents=group.complete, tokens=len(group.ids))
                        del group
                thread.wait()
            writer.end(earlier + sources.skipped)
        except BaseException:
            writer.discard()
            raise

    # The manifest -----------------------------------------------------------------------------------------------------

    def _manifest(self, journal: Journal) -> Manifest:
        """The manifest of the finished shards."""
        entries = []
        parts = [] if self.options.part is None else self.sources.units()
        offsets = {unit.file: unit.start for unit in reversed(parts)}
        for step in journal.steps:
            first = step.get("first")
            start = None if first is None else (first[0], offsets.get(first[0], 0), first[1])
            shards = _as_json(step.get("shards", []))
            entries += [replace(parse_shard(shard, "shards"), start=start) for shard in shards]
        entries.sort(key=lambda entry: entry.stem)
        if not any(entry.documents for entry in entries):
            log.warning("the sources have no documents")
        elif 0 < self.options.validation < 1 and len({entry.split for entry in entries}) < 2:
            log.warning("all documents are on one side of the split, %s", entries[0].split)
        return Manifest(
            self.options.format.name,
            str(self.target.dtype),
            tuple(entries),
            tokenizer={"fingerprint": self.tokenizer.fingerprint, "file": TOKENIZER},
            sources=_as_json(self.header["sources"]),
            options=_as_json(self.header["options"]),
            skipped=max((step.get("skipped", 0) for step in journal.steps), default=0),
        )


def _as_json(value: Any) -> Any:
    """A value as it is when it has been written as JSON and read."""
    return json.loads(json.dumps(value))


def modified(sources: Sources) -> list[int | None]:
    """The time of the last change of each file, in ns; None for what is no local file."""

    def time_of(name: str) -> int | None:
        try:
            return os.stat(name).st_mtime_ns
        except (OSError, ValueError):
            return None

    return [time_of(file.name) for file in sources.files]


def size_before(sources: Sources, file: int, offset: int) -> int:
    """The bytes of the sources before a position, about; for progress."""
    before = sum(each.size or 0 for each in sources.files[:file])
    here = sources.files[file]
    return before + (min(offset, here.size or 0) if here.compression is None else 0)
