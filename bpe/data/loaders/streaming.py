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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base.forks import lock_of
from bpe.base.offsets import offsets_of
from bpe.base.threads import thread_count
from bpe.base.utf8 import TextLike
from bpe.corpus.sources import Sources
from bpe.data.grouping import Group, Place, encoded_groups
from bpe.data.loaders.rows import MOST, VERSION, State, fingerprint_of
from bpe.data.loaders.spans import IGNORED, Batch, Format, sequence_bounds
from bpe.encode.engine import Around
from bpe.errors import check_int, check_iterable, shown, typed
from bpe.tokenizer import Tokenizer, check_tokenizer
from bpe.vocab.special_names import resolve_token
from bpe.vocab.special_tokens import Allowed

#: Texts of an iterable are encoded this many characters at a time, about.
GROUP = 1 << 20
#: The most ids in a state.
REMAINDER = 4096
#: The changing part of the state at the beginning.
BEGINNING: dict[str, Any] = {"epoch": 0, "place": None, "skip": 0, "remainder": [], "documents": 0, "ended": False}


@dataclass(frozen=True, slots=True)
class Piece:
    """The ids of consecutive documents, before they are cut into rows.

    Attributes:
        ids: of all documents.
        lengths: int64, the ids of each document, or of the part of one.
        begins: whether the first document begins here.
        ends: whether the last document ends here.
        place: where to read a document again, by its index here; that of the number of documents is the next one's.

    """

    ids: NDArray[np.uint32]
    lengths: NDArray[np.int64]
    begins: bool
    ends: bool
    place: Callable[[int], list[int]]


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
            raise TypeError(f"sources is {typed(sources)}; it must be bpe.Sources(path), or an iterable of texts")
        if not isinstance(sources, Sources):
            check_iterable("sources", sources, "bpe.Sources, or an iterable of texts")
            if iter(sources) is sources:
                raise TypeError(
                    f"sources is {typed(sources)}, which can be iterated only once; pass a list, or Sources"
                )
        self.form = Format.of(length, fields, 0, mask_other_documents)
        self.length, self.fields, self.tokenizer = self.form.length, self.form.fields, tokenizer
        self._sources = sources.ending() if isinstance(sources, Sources) else sources
        spec = tokenizer.spec
        self._around: Around = resolve_token(spec, "prepend", prepend), resolve_token(spec, "append", append)
        self._allowed = tokenizer._engine.specials.allowed(allowed_special)
        if threads is not None:
            thread_count(threads)
        self._threads = threads

    def __repr__(self) -> str:
        return f"StreamingEncoder({shown(self._sources)}, {self.tokenizer!r}, length={self.length})"

    @property
    def fingerprint(self) -> str:
        """A hash of the sources (names and sizes of files), the tokenizer, and how documents make rows."""
        plan = self._sources.plan() if isinstance(self._sources, Sources) else None
        around = [*self._around, sorted(self._allowed)]
        return fingerprint_of(self.length, "StreamingEncoder", plan, self.tokenizer.fingerprint, around)

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over the rows."""
        for batch in self.batches(1):
            yield {name: value[0] for name, value in batch.items() if name not in ("cu_seqlens", "max_seqlen")}

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

    def pieces(self, part: tuple[int, int], place: list[int] | None) -> Iterator[Piece]:
        """The ids of a part's documents from a place on."""
        if isinstance(self._sources, Sources):
            sources = self._sources.for_one_call()
            return self._pieces_of_files(sources if part == (0, 1) else sources.part(*part), place)
        return self._pieces_of_texts(self._sources, part, 0 if place is None else place[0])

    def _pieces_of_files(self, sources: Sources, place: list[int] | None) -> Iterator[Piece]:
        for group in encoded_groups(
            sources,
            self.tokenizer._engine,
            thread_count(self._threads),
            allowed=self._allowed,
            around=self._around,
            start=Place() if place is None else Place.from_json(place),
            whole=False,
            hashed=False,
            check=lambda: None,
        ):
            yield Piece(group.ids, group.lengths, group.begins, group.ends, _place_in(group))

    def _pieces_of_texts(self, texts: Iterable[TextLike], part: tuple[int, int], start: int) -> Iterator[Piece]:
        number, count = part
        waiting: list[TextLike] = []
        size, first = 0, start
        for index, text in enumerate(texts):
            if index % count != number or index // count < start:
                continue
            waiting.append(text)
            size += len(text)
            if size >= GROUP:
                yield self._piece(waiting, first)
                first, size, waiting = first + len(waiting), 0, []
        if waiting:
            yield self._piece(waiting, first)

    def _piece(self, texts: list[TextLike], first: int) -> Piece:
        before, after = self._around
        batch = self.tokenizer.encode_batch(
            texts, threads=self._threads, prepend=before, append=after, allowed_special=self._allowed
        )
        return Piece(batch.ids, np.diff(batch.offsets), True, True, lambda index: [first + index])


def _place_in(group: Group) -> Callable[[int], list[int]]:
    return lambda index: group.place_of(index).to_json()


@dataclass(frozen=True, slots=True)
class _Held:
    """A piece in the stream.

    Attributes:
        piece: the piece.
        start: the index of its first id in the stream.
        offsets: where its documents begin in its ids.
        before: the ids that its first document had in earlier pieces.
        document: the number of its first document.
        epoch: how often the part has been read before.

    """

    piece: Piece
    start: int
    offsets: NDArray[np.int64]
    before: int
    document: int
    epoch: int

    @property
    def end(self) -> int:
        return self.start + len(self.piece.ids)

    def begins_within(self, first: int, last: int) -> tuple[int, NDArray[np.int64]]:
        """How many documents begin in the piece up to `first`, and where others do up to `last`, in the stream."""
        begins = self.offsets[int(not self.piece.begins) : -1]
        low, high = np.searchsorted(begins, np.array([first, last]) - self.start, side="right").tolist()
        return low, begins[low:high] + self.start


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
        self._lock = lock_of(self, "another thread read these batches while the process was forked; make them anew")
        self._encoder, self._size, self._part, self._epochs = encoder, size, part, epochs
        self._about = {"version": VERSION, "fingerprint": encoder.fingerprint, "part": list(part)}
        self._state = BEGINNING | {"ended": ended} if state is None else self._check_state(state)
        place, remainder = self._state["place"], self._state["remainder"]
        self._pieces = self._read_pieces(place, self._state["epoch"], unread=bool(remainder))
        self._held: deque[_Held] = deque()
        self._end = self._open = 0
        self._cursor = 0 if remainder else self._state["skip"]
        self._documents = self._state["documents"]
        if remainder:
            self._documents -= 1
            ids = np.array(remainder, dtype=np.uint32)
            self._hold(Piece(ids, np.array([len(ids)]), True, True, lambda _: place), self._state["epoch"])

    def __iter__(self) -> StreamedBatches:
        return self

    def __next__(self) -> Batch:
        with self._lock:
            rows = self._read_rows()
            if not rows:
                raise StopIteration
            batch = self._batch(rows)
            self._cursor += rows * self._encoder.length
            self._forget()
            return batch

    def at_end(self) -> bool:
        """Whether there is no batch left; it reads up to one."""
        with self._lock:
            return self._read_rows() == 0

    def _read_rows(self) -> int:
        """Read pieces for a batch; the number of its rows."""
        if self._state["ended"]:
            return 0
        length = self._encoder.length
        while self._end < self._cursor + self._size * length + 1:
            piece, epoch = next(self._pieces, (None, 0))
            if piece is None:
                break
            self._hold(piece, epoch)
        if self._cursor > self._end:
            raise ValueError(
                f"the state's skip is {self._state['skip']}, but there are {self._end} ids after its place: the "
                "sources have changed, or the state is damaged"
            )
        return max(min((self._end - self._cursor - 1) // length, self._size), 0)

    def _read_pieces(self, place: list[int] | None, epoch: int, *, unread: bool) -> Iterator[tuple[Piece, int]]:
        """The pieces of all epochs from a place of one on; `unread`: there are ids before it that no row has had."""
        found = unread or place is not None
        while self._epochs is None or epoch < self._epochs:
            for piece in self._encoder.pieces(self._part, place):
                found = found or len(piece.ids) > 0
                yield piece, epoch
            epoch, place = epoch + 1, None
            if not found and (self._epochs is None or epoch < self._epochs):
                number, count = self._part
                raise ValueError(
                    f"part {number} of {count} of the sources has no ids to read again; use fewer ranks and workers"
                )
            found = False

    def state_dict(self) -> State:
        """The state after the batches yielded so far."""
        with self._lock:
            return with_checksum(self._about | self._changing_state())

    def _changing_state(self) -> dict[str, Any]:
        held = next((each for each in self._held if each.end > self._cursor), None)
        if held is None:  # nothing was yielded yet
            return self._state
        piece, at = held.piece, self._cursor - held.start
        index = int(np.searchsorted(held.offsets, at, side="right")) - 1
        end = int(held.offsets[index + 1])
        state: State = {"epoch": held.epoch, "ended": False}
        if (index < len(piece.lengths) - 1 or piece.ends) and end - at <= REMAINDER:
            state |= {"place": piece.place(index + 1), "skip": 0, "remainder": piece.ids[at:end].tolist()}
            return state | {"documents": held.document + index + 1}
        skip = at - int(held.offsets[index]) + (held.before if index == 0 else 0)
        return state | {
            "place": piece.place(index),
            "skip": skip,
            "remainder": [],
            "documents": held.document + index,
        }

    def _check_state(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The changing part of a state, after checking all of it."""
        if not isinstance(state, Mapping) or not {*self._about, *BEGINNING, "checksum"} <= set(state):
            raise TypeError(f"state is {typed(state)}; it must be what state_dict() returned")
        for name, own in self._about.items():
            if state[name] != own:
                raise ValueError(
                    f"the state's {name} is {shown(state[name])}, but this stream has {own!r}: resume with the same "
                    "sources, tokenizer and length, and with as many ranks and workers"
                )
        known = {name: state[name] for name in BEGINNING}
        if with_checksum(self._about | known)["checksum"] != state["checksum"]:
            raise ValueError("the state does not have its checksum: it was changed or damaged after state_dict()")
        for name in ("epoch", "skip", "documents"):
            known[name] = check_int(f"the state's {name}", known[name], 0, MOST)
        if known["place"] is not None:
            size = 6 if isinstance(self._encoder._sources, Sources) else 1
            check_numbers("place", known["place"], size, size, MOST)
        check_numbers("remainder", known["remainder"], 0, REMAINDER, self._encoder.tokenizer.n_vocab - 1)
        if type(known["ended"]) is not bool or (known["skip"] and known["remainder"]):
            raise ValueError(f"the state {shown(known)} is none that state_dict() returns")
        return known

    def _hold(self, piece: Piece, epoch: int) -> None:
        """Add a piece to the end of the stream."""
        if not len(piece.lengths):
            return
        before = 0 if piece.begins else self._open
        document = self._documents - (not piece.begins)
        self._held.append(_Held(piece, self._end, offsets_of(piece.lengths), before, document, epoch))
        self._end += len(piece.ids)
        self._documents = document + len(piece.lengths)
        self._open = int(piece.lengths[-1]) + (before if len(piece.lengths) == 1 else 0)
        self._forget()

    def _forget(self) -> None:
        """Drop the pieces before the cursor."""
        while self._held and self._held[0].end <= self._cursor:
            self._held.popleft()

    def _batch(self, rows: int) -> Batch:
        """The next rows."""
        form, length = self._encoder.form, self._encoder.length
        start, count = self._cursor, rows * length
        held = [each for each in self._held if each.start <= start + count]
        # Only what the rows have: a piece may be a document of any length.
        ids = np.concatenate(
            [each.piece.ids[max(start - each.start, 0) : start + count + 1 - each.start] for each in held]
        )
        inputs = ids[:count].astype(np.int64).reshape(rows, length)
        labels = ids[1 : count + 1].astype(np.int64)
        found = [each.begins_within(start, start + count) for each in held]
        begins = np.concatenate([each for _, each in found]) - start
        if form.mask_other_documents:
            labels[begins - 1] = IGNORED
        labels = labels.reshape(rows, length)
        batch: Batch = {"input_ids": inputs, "labels": labels, "loss_mask": (labels != IGNORED).astype(np.int64)}
        bounds = np.union1d(np.arange(rows + 1) * length, begins[begins < count])
        sizes = np.diff(bounds)
        batch["position_ids"] = (np.arange(count) - np.repeat(bounds[:-1], sizes)).reshape(rows, length)
        first = held[0].document - held[0].piece.begins + found[0][0]
        numbers = first + np.searchsorted(begins, bounds[:-1], side="right")
        batch["document_ids"] = np.repeat(numbers, sizes).reshape(rows, length)
        extra = sequence_bounds(bounds) if "cu_seqlens" in form.fields else {}
        return {name: batch[name] for name in form.fields if name != "cu_seqlens"} | extra


def with_checksum(state: dict[str, Any]) -> State:
    """A state with a checksum of its values."""
    text = json.dumps([state[name] for name in sorted(state)], default=repr)
    return state | {"checksum": hashlib.sha256(text.encode()).hexdigest()[:16]}


def check_numbers(name: str, value: object, shortest: int, longest: int, most: int) -> None:
    """Refuse a part of a state that is no list of so many numbers from 0 to `most`."""
    if not isinstance(value, list) or not shortest <= len(value) <= longest:
        raise TypeError(f"the state's {name} is {typed(value)}; it must be the list that state_dict() returned")
    for number in value:
        check_int(f"a number of the state's {name}", number, 0, most)
