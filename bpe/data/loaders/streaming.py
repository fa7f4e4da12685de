"""`StreamingEncoder`: rows encoded from raw text while they are read, without shards on disk.

The ids of all documents make one stream, which is cut into rows as `Blocks` does: each row has length + 1 ids and
begins with the last id of the one before. A state is a place in the sources and the ids of the document before it that
are not yet in a row. If those are many, or the document has not ended, the state is the place of that document and the
number of its ids to leave out:

    documents    |a a a a a a|b b b|c c c c ...
    rows         [a a a a a]
                         [a a b b b]
    state                       the place of c, and the remainder [b]

Unlike rows of shards, these rows depend on the number of parts (ranks times workers): each part cuts its own documents
into rows, since no worker knows how many ids the documents of the others have. So a state belongs to one part of a
number of parts, and a run resumes with the same number of ranks and workers; with others it is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bpe.base.forks import make_lock
from bpe.base.offsets import compute_offsets
from bpe.base.threads import resolve_threads
from bpe.base.utf8 import TextLike
from bpe.corpus.sources import Sources
from bpe.data.grouping import DocumentGroup, DocumentRun, GroupEncoder, ResumePoint
from bpe.data.loaders.rows import ROW_LIMIT, VERSION, RowList, State, hash_values
from bpe.data.loaders.spans import IGNORED, Batch, Fields, RowFormat, cu_seqlens_of_bounds
from bpe.encode.engine import BosEos
from bpe.errors import check_int, check_iterable, describe, short_repr
from bpe.tokenizer import Tokenizer, check_tokenizer
from bpe.vocab.special_names import resolve_token
from bpe.vocab.special_tokens import Allowed

#: Texts of an iterable are encoded this many characters at a time, about.
GROUP_CHARS = 1 << 20
#: The most ids in a state.
MAX_REMAINDER_IDS = 4096
#: The changing part of the state at the beginning.
INITIAL_STATE: dict[str, Any] = {"epoch": 0, "place": None, "skip": 0, "remainder": [], "documents": 0, "ended": False}


class StreamingEncoder:
    """Fixed-length rows of raw text, encoded while it is read: for a loop, or inside the workers of a DataLoader.

    Args:
        sources: `bpe.Sources`, or an iterable of texts that can be iterated again, such as a list or a column.
        tokenizer: the tokenizer.
        length: the positions of a row.
        append: an id, or the name of a special token, to add after each document; None for nothing.
        prepend: what to add before each document.
        allowed_special: as for `Tokenizer.encode`.
        fields: as for `Blocks`; "document_ids" counts the documents of a part from 0.
        mask_other_documents: as for `Blocks`.
        threads: how many threads encode; None means one per core, or one in a worker process.

    >>> import bpe
    >>> tokenizer = bpe.train(texts=["low lower lowest"], vocab_size=260, special_tokens=["<|end|>"])
    >>> encoder = StreamingEncoder(["low", "lower", "lowest"] * 2, tokenizer, length=4, append="<|end|>")
    >>> batches = encoder.batches(2)
    >>> next(batches)["labels"].tolist()
    [[0, 258, 69, 82], [0, 258, 69, 83]]

    """

    def __init__(
        self,
        sources: Sources | Iterable[TextLike],
        tokenizer: Tokenizer,
        length: int = 1024,
        *,
        append: int | str | None = None,
        prepend: int | str | None = None,
        allowed_special: Allowed = (),
        fields: Iterable[str] = ("input_ids", "labels"),
        mask_other_documents: bool = False,
        threads: int | None = None,
    ) -> None:
        check_tokenizer(tokenizer)
        if isinstance(sources, (str, bytes)):
            raise TypeError(f"sources is {describe(sources)}; it must be bpe.Sources(path), or an iterable of texts")
        if not isinstance(sources, Sources):
            check_iterable("sources", sources, "bpe.Sources, or an iterable of texts")
            if iter(sources) is sources:
                raise TypeError(
                    f"sources is {describe(sources)}, which can be iterated only once; pass a list, or Sources"
                )
        self.row_format = RowFormat.from_arguments(length, fields, 0, mask_other_documents)
        self.length, self.fields, self.tokenizer = self.row_format.length, self.row_format.fields, tokenizer
        self._sources = sources.with_ending_separators() if isinstance(sources, Sources) else sources
        spec = tokenizer.spec
        self._bos_eos: BosEos = resolve_token(spec, "prepend", prepend), resolve_token(spec, "append", append)
        self._allowed = tokenizer._engine.specials.resolve_allowed(allowed_special)
        if threads is not None:
            resolve_threads(threads)
        self._threads = threads

    def __repr__(self) -> str:
        return f"StreamingEncoder({short_repr(self._sources)}, {self.tokenizer!r}, length={self.length})"

    @property
    def fingerprint(self) -> str:
        """A hash of the sources (names and sizes of files), the tokenizer, and how documents make rows."""
        plan = self._sources.plan() if isinstance(self._sources, Sources) else None
        bos_eos = [*self._bos_eos, sorted(self._allowed)]
        return hash_values(self.length, "StreamingEncoder", plan, self.tokenizer.fingerprint, bos_eos)

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over the rows."""
        for batch in self.batches(1):
            yield from RowList(batch)

    def batches(
        self,
        size: int,
        *,
        rank: int = 0,
        world: int = 1,
        state: Mapping[str, Any] | None = None,
        epochs: int | None = 1,
        ended: bool = False,
    ) -> StreamedBatches:
        """Iterate over batches of `size` rows; the last may be smaller. Ids at the end that fill no row are left out.

        Args:
            size: the rows of a batch.
            rank: the part of the sources to read, from 0 to `world` - 1: of `Sources`, consecutive files or parts of
                large ones; of an iterable, every `world`-th text. The parts have different numbers of rows. So where
                processes wait for each other, as the ranks of a training do, pass `epochs=None` and stop after a number
                of steps.
            world: the number of parts.
            state: where to begin, from `StreamedBatches.state_dict` of the same part; None for the beginning.
            epochs: how often the part is read, one time after the other, as if it were longer; None: without end.
            ended: begin at the end, where there is no batch.

        Raises:
            TypeError, ValueError: for a state that is damaged, or of other sources, another tokenizer or another part.
                While reading, for a part without any id that is to be read again.

        """
        world = check_int("world", world, 1)
        part = check_int("rank", rank, 0, world - 1), world
        epochs = None if epochs is None else check_int("epochs", epochs, 1)
        return StreamedBatches(self, check_int("size", size, 1, 1 << 31), part, state, epochs, ended)

    def groups(self, part: tuple[int, int], start: list[int] | None) -> Iterator[DocumentGroup]:
        """Yield the ids of a part's documents, in groups, from a resume point on."""
        point = ResumePoint() if start is None else ResumePoint.from_json(start)
        if not isinstance(self._sources, Sources):
            yield from self._encode_texts(self._sources, part, point)
            return
        sources = self._sources.for_one_call()
        sources = sources if part == (0, 1) else sources.part(*part)
        groups = GroupEncoder(sources, self.tokenizer._engine, self._bos_eos, self._allowed, point)
        yield from groups.encode(resolve_threads(self._threads))

    def _encode_texts(
        self, texts: Iterable[TextLike], part: tuple[int, int], start: ResumePoint
    ) -> Iterator[DocumentGroup]:
        """Yield the ids of the texts of a part, whose resume points count the texts of the part."""
        rank, world = part
        first = start.documents_after_position + (0 if start.position is None else start.position.offset)
        pending_texts: list[TextLike] = []
        pending_size = 0
        for index, text in enumerate(texts):
            if index % world != rank or index // world < first:
                continue
            pending_texts.append(text)
            pending_size += len(text)
            if pending_size >= GROUP_CHARS:
                yield self._encode_group(pending_texts, first)
                first, pending_size, pending_texts = first + len(pending_texts), 0, []
        if pending_texts:
            yield self._encode_group(pending_texts, first)

    def _encode_group(self, texts: list[TextLike], first: int) -> DocumentGroup:
        prepend_id, append_id = self._bos_eos
        batch = self.tokenizer.encode_batch(
            texts, threads=self._threads, prepend=prepend_id, append=append_id, allowed_special=self._allowed
        )
        return DocumentGroup(ids=batch.ids, lengths=batch.lengths, runs=[DocumentRun(0, 0, 0, first, 0, 0)])


@dataclass(frozen=True, slots=True)
class _StreamedGroup:
    """A group in the stream.

    Attributes:
        group: the group.
        start: the index of its first id in the stream.
        offsets: where its documents begin in its ids.
        before: the ids that its first document had in earlier groups.
        document: the number of its first document.
        epoch: how often the part has been read before.

    """

    group: DocumentGroup
    start: int
    offsets: NDArray[np.int64]
    before: int
    document: int
    epoch: int

    @property
    def end(self) -> int:
        return self.start + len(self.group.ids)

    def find_begins(self, first: int, last: int) -> tuple[int, NDArray[np.int64]]:
        """Find the documents that begin in the group.

        Returns:
            (How many begin up to stream position `first`, the positions of those after it up to `last`.)

        """
        begins = self.offsets[int(not self.group.begins_document) : -1]
        first_index, last_index = np.searchsorted(begins, np.array([first, last]) - self.start, side="right").tolist()
        return first_index, begins[first_index:last_index] + self.start


class StreamedBatches(Iterator[Batch]):
    """An iterator of batches that knows its state. Each part of the sources has a state of its own.

    Threads may share one; each batch is yielded once.

    The state is a dict that JSON can hold: version, fingerprint, part, epoch, place (where in the sources to go on),
    remainder (ids before that place which no row has had), skip (ids after it that rows have had), documents (before
    that place), ended (whether the run is over), checksum.
    """

    def __init__(
        self,
        encoder: StreamingEncoder,
        size: int,
        part: tuple[int, int],
        state: Mapping[str, Any] | None,
        epochs: int | None,
        ended: bool,
    ) -> None:
        self._lock = make_lock(self, "another thread read these batches while the process was forked; make them anew")
        self._encoder, self._size, self._part, self._epochs = encoder, size, part, epochs
        self._fixed_state = {"version": VERSION, "fingerprint": encoder.fingerprint, "part": list(part)}
        self._state = INITIAL_STATE | {"ended": ended} if state is None else self._check_state(state)
        place, remainder = self._state["place"], self._state["remainder"]
        self._groups = self._read_groups(place, self._state["epoch"], has_remainder=bool(remainder))
        self._streamed_groups: deque[_StreamedGroup] = deque()
        self._end = self._open_document_ids = 0
        self._cursor = 0 if remainder else self._state["skip"]
        self._documents = self._state["documents"]
        if remainder:
            self._documents -= 1
            ids = np.array(remainder, dtype=np.uint32)
            resume_point = replace(ResumePoint.from_json(place), documents_after_position=place[3] - 1)
            group = DocumentGroup(ids=ids, lengths=np.array([len(ids)]), runs=[resume_point.to_run()])
            self._append_group(group, self._state["epoch"])

    def __iter__(self) -> StreamedBatches:
        return self

    def __next__(self) -> Batch:
        with self._lock:
            n_rows = self._read_rows()
            if not n_rows:
                raise StopIteration
            batch = self._make_batch(n_rows)
            self._cursor += n_rows * self._encoder.length
            self._drop_used_groups()
            return batch

    def at_end(self) -> bool:
        """Whether there is no batch left; it reads up to one."""
        with self._lock:
            return self._read_rows() == 0

    def _read_rows(self) -> int:
        """Read groups for a batch; returns the number of its rows."""
        if self._state["ended"]:
            return 0
        length = self._encoder.length
        while self._end < self._cursor + self._size * length + 1:
            group, epoch = next(self._groups, (None, 0))
            if group is None:
                break
            self._append_group(group, epoch)
        if self._cursor > self._end:
            raise ValueError(
                f"the state's skip is {self._state['skip']}, but there are {self._end} ids after its place: the "
                "sources have changed, or the state is damaged"
            )
        return max(min((self._end - self._cursor - 1) // length, self._size), 0)

    def _read_groups(
        self, place: list[int] | None, epoch: int, *, has_remainder: bool
    ) -> Iterator[tuple[DocumentGroup, int]]:
        """Yield the groups of all epochs from a place on; `has_remainder`: ids before the place are in no row yet."""
        has_ids = has_remainder or place is not None
        while self._epochs is None or epoch < self._epochs:
            for group in self._encoder.groups(self._part, place):
                has_ids = has_ids or len(group.ids) > 0
                yield group, epoch
            epoch, place = epoch + 1, None
            if not has_ids and (self._epochs is None or epoch < self._epochs):
                rank, world = self._part
                raise ValueError(
                    f"part {rank} of {world} of the sources has no ids to read again; use fewer ranks and workers"
                )
            has_ids = False

    def state_dict(self) -> State:
        """Return the state after the batches yielded so far."""
        with self._lock:
            return add_checksum(self._fixed_state | self._make_state())

    def _make_state(self) -> dict[str, Any]:
        streamed_group = next((candidate for candidate in self._streamed_groups if candidate.end > self._cursor), None)
        if streamed_group is None:  # nothing was yielded yet
            return self._state
        group, position = streamed_group.group, self._cursor - streamed_group.start
        index = int(np.searchsorted(streamed_group.offsets, position, side="right")) - 1
        end = int(streamed_group.offsets[index + 1])
        state: State = {"epoch": streamed_group.epoch, "ended": False}
        if (index < len(group.lengths) - 1 or group.ends_document) and end - position <= MAX_REMAINDER_IDS:
            state |= {
                "place": group.find_resume_point(index + 1).to_json(),
                "skip": 0,
                "remainder": group.ids[position:end].tolist(),
            }
            return state | {"documents": streamed_group.document + index + 1}
        skip = position - int(streamed_group.offsets[index]) + (streamed_group.before if index == 0 else 0)
        return state | {
            "place": group.find_resume_point(index).to_json(),
            "skip": skip,
            "remainder": [],
            "documents": streamed_group.document + index,
        }

    def _check_state(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Check a state, and return its changing part."""
        if not isinstance(state, Mapping) or not {*self._fixed_state, *INITIAL_STATE, "checksum"} <= set(state):
            raise TypeError(f"state is {describe(state)}; it must be what state_dict() returned")
        for name, expected in self._fixed_state.items():
            if state[name] != expected:
                raise ValueError(
                    f"the state's {name} is {short_repr(state[name])}, but this stream has {expected!r}: resume with "
                    "the same sources, tokenizer and length, and with as many ranks and workers"
                )
        values = {name: state[name] for name in INITIAL_STATE}
        if add_checksum(self._fixed_state | values)["checksum"] != state["checksum"]:
            raise ValueError("the state does not have its checksum: it was changed or damaged after state_dict()")
        for name in ("epoch", "skip", "documents"):
            values[name] = check_int(f"the state's {name}", values[name], 0, ROW_LIMIT // 2)  # so that sums are int64
        if values["place"] is not None:
            check_number_list("place", values["place"], 6, 6, ROW_LIMIT)
        check_number_list("remainder", values["remainder"], 0, MAX_REMAINDER_IDS, self._encoder.tokenizer.n_vocab - 1)
        goes_on_in_document = values["skip"] or values["place"] is None
        if type(values["ended"]) is not bool or (goes_on_in_document and values["remainder"]):
            raise ValueError(f"the state {short_repr(values)} is none that state_dict() returns")
        return values

    def _append_group(self, group: DocumentGroup, epoch: int) -> None:
        """Add a group to the end of the stream."""
        if not len(group.lengths):
            return
        before = 0 if group.begins_document else self._open_document_ids
        document = self._documents - (not group.begins_document)
        self._streamed_groups.append(
            _StreamedGroup(group, self._end, compute_offsets(group.lengths), before, document, epoch)
        )
        self._end += len(group.ids)
        self._documents = document + len(group.lengths)
        self._open_document_ids = int(group.lengths[-1]) + (before if len(group.lengths) == 1 else 0)
        self._drop_used_groups()

    def _drop_used_groups(self) -> None:
        """Drop the groups before the cursor."""
        while self._streamed_groups and self._streamed_groups[0].end <= self._cursor:
            self._streamed_groups.popleft()

    def _make_batch(self, n_rows: int) -> Batch:
        """Make a batch of the next rows."""
        row_format, length = self._encoder.row_format, self._encoder.length
        start, count = self._cursor, n_rows * length
        groups = [group for group in self._streamed_groups if group.start <= start + count]
        # Only what the rows have: a group may be a document of any length.
        ids = np.concatenate(
            [group.group.ids[max(start - group.start, 0) : start + count + 1 - group.start] for group in groups]
        )
        inputs = ids[:count].astype(np.int64).reshape(n_rows, length)
        labels = ids[1 : count + 1].astype(np.int64)
        begins_by_group = [group.find_begins(start, start + count) for group in groups]
        begins = np.concatenate([group_begins for _, group_begins in begins_by_group]) - start
        if row_format.mask_other_documents:
            labels[begins - 1] = IGNORED
        labels = labels.reshape(n_rows, length)
        batch: Fields = {"input_ids": inputs, "labels": labels, "loss_mask": (labels != IGNORED).astype(np.int64)}
        bounds = np.union1d(np.arange(n_rows + 1) * length, begins[begins < count])
        sizes = np.diff(bounds)
        batch["position_ids"] = (np.arange(count) - np.repeat(bounds[:-1], sizes)).reshape(n_rows, length)
        first = groups[0].document - groups[0].group.begins_document + begins_by_group[0][0]
        document_numbers = first + np.searchsorted(begins, bounds[:-1], side="right")
        batch["document_ids"] = np.repeat(document_numbers, sizes).reshape(n_rows, length)
        extra_fields = cu_seqlens_of_bounds(bounds) if "cu_seqlens" in row_format.fields else {}
        fields = {name: batch[name] for name in row_format.fields if name != "cu_seqlens"} | extra_fields
        return cast("Batch", fields)


def add_checksum(state: dict[str, Any]) -> State:
    """Add a checksum of its values to a state."""
    text = json.dumps([state[name] for name in sorted(state)], default=repr)
    return state | {"checksum": hashlib.sha256(text.encode()).hexdigest()[:16]}


def check_number_list(name: str, value: object, shortest: int, longest: int, largest: int) -> None:
    """Refuse a part of a state unless it is a list of `shortest` to `longest` numbers from 0 to `largest`."""
    if not isinstance(value, list) or not shortest <= len(value) <= longest:
        raise TypeError(f"the state's {name} is {describe(value)}; it must be the list that state_dict() returned")
    for number in value:
        check_int(f"a number of the state's {name}", number, 0, largest)
