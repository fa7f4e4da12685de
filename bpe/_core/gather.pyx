"""Many texts to ids, on several threads: one flat array and the number of ids of each text.

Texts are shared out in parts of up to a megabyte, a longer one cut where a pretoken certainly starts. Each thread
encodes a part into a buffer of its own, which stays in its caches, and copies the ids from there to their place in the
result as soon as all parts before are done:

    parts       0    1    2    3    4
    encoded     yes  yes  no   yes  no        3 waits for 2
    in place    yes  yes                      whoever ends 2 copies 2 and 3

Places are given out under a lock, copying is not. With one thread the result is written where it stays. What is not
UTF-8, which is a str beyond ASCII, becomes so a little at a time, in the thread that encodes it.

Not here: what the texts are made of (`bpe/encoding.py`), starting threads (`bpe/threads.py`).
"""

import numpy as np

from bpe._core.arrays cimport as_array
from bpe._core.chunk cimport Fragment, feed_fragments
from bpe._core.cutting cimport certain_start
from bpe._core.encoder cimport Encoder
from bpe._core.fresh cimport Fresh, fresh_begin, fresh_end, fresh_join, fresh_part, fresh_reach
from bpe._core.learned cimport Learned, learn
from bpe._core.memory cimport grown
from bpe._core.merging cimport Ids
from bpe._core.transcoding cimport BEYOND, Units, certain_unit, most_utf8, to_fresh_utf8, units_of
from bpe._core.types cimport byte_t, token_t
from bpe._core.workspace cimport Workspace, prepare_output
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

#: Bytes of text in a part, and in the smallest ones: at first, and where little is left for each thread.
PART, LEAST = 1 << 20, 1 << 16

cdef enum:
    STEP = 1 << 17            # bytes that are transcoded at once, so that they stay in a cache
    FRAGMENTS = 4096          # that are encoded at once
    SEVERAL = 8               # so many of the smallest parts are more than one thread's work
    LEARNED = 1 << 18         # words that threads tell each other in a job
    LOOKED = 1 << 14          # characters behind a place where a text might be cut: looking takes time
    COPIED = 512              # bytes: shorter texts are put side by side too, since the ends of texts take time

cdef struct Text:             # a text or a piece of one, or an id between texts
    Units units               # its size is -1 for an id
    token_t token


cdef class Part:
    """The ids of a part that is encoded, and where they go."""

    cdef Ids ids
    cdef size_t place
    cdef Fresh fresh                   # memory there to touch first

    def __dealloc__(self):
        free(self.ids.data)


cdef class Room:
    """What a thread needs beside its workspace: texts as fragments of UTF-8."""

    cdef Fragment* fragments
    cdef byte_t* utf8
    cdef size_t size
    cdef Fresh fresh                   # of that memory

    def __cinit__(self, size_t n):
        self.fragments = <Fragment*>malloc(max(min(n, <size_t>FRAGMENTS), <size_t>1) * sizeof(Fragment))
        if self.fragments == NULL:
            raise MemoryError(f"no memory for a list of {n} texts")

    def __dealloc__(self):
        free(self.fragments)
        free(self.utf8)

    cdef int reserve(self, size_t size) except -1 nogil:
        """Room for so many bytes of UTF-8; what is there is lost where that is not enough."""
        if size <= self.size:
            return 0
        free(self.utf8)
        self.size = 0
        self.utf8 = <byte_t*>malloc(size)
        if self.utf8 == NULL:
            with gil:
                raise MemoryError(f"no memory for {size} bytes of UTF-8; give the process more, or shorter texts")
        self.size = size
        fresh_begin(&self.fresh, self.utf8, size)
        return 0


cdef class Job:
    """Texts to encode: fill it with `add_…`, let threads `work`, take the `result`."""

    cdef Encoder encoder
    cdef Py_ssize_t threads
    cdef Text* texts
    cdef Py_ssize_t n                  # of texts and pieces of texts
    cdef size_t room
    cdef readonly Py_ssize_t n_bytes
    cdef const byte_t* buffer_end      # of the one buffer that all texts lie in, or NULL
    cdef list held                     # what the texts point into
    cdef list firsts                   # the first piece of each text
    cdef int64_t[::1] counts           # ids of each piece, from place 1 on
    cdef object counted
    cdef list parts                    # the first piece of each part, and their number
    cdef Py_ssize_t begun              # parts that a thread has taken
    cdef Py_ssize_t placed             # parts whose ids have a place
    cdef Py_ssize_t copying            # of those, the ones that are being copied there
    cdef dict waiting                  # encoded ones without a place, by number
    cdef list spare                    # buffers that nobody uses
    cdef list learned                  # the words that threads have worked out, part by part
    cdef size_t n_learned              # how many words these are
    cdef object lock
    cdef Ids ids
    cdef Fresh fresh                   # of their memory
    cdef object done                   # the result of a single thread
    cdef Py_ssize_t unknown_at         # the first piece with a symbol without an id, or -1

    def __cinit__(self, Encoder encoder, Py_ssize_t threads, lock):
        """`threads`: how many will work, so that long texts are shared out; `lock`: a `threading.Lock`."""
        self.encoder, self.threads, self.lock = encoder, threads, lock
        self.held, self.firsts, self.parts, self.spare, self.learned, self.waiting = [], [], [], [], [], {}
        self.unknown_at = -1

    def __dealloc__(self):
        free(self.texts)
        free(self.ids.data)

    # Filling ----------------------------------------------------------------------------------------------------------

    cdef int add(self, Units text) except -1:
        """Add a text, in pieces if it is long and they can be shared out, or are transcoded one by one."""
        cdef Units rest = text, piece
        cdef Py_ssize_t size = PART // 8 if self.threads > 1 else STEP if text.width else 0
        while True:
            piece = rest
            if 0 < size < rest.n // 2:
                with nogil:
                    piece.n = self.cut(&rest, size)
            self.put(piece, 0)
            rest.data += piece.n * max(piece.width, 1)
            rest.n -= piece.n
            if rest.n <= 0:
                break
        self.n_bytes += most_utf8(&text)
        return 0

    cdef Py_ssize_t cut(self, const Units* text, Py_ssize_t size) noexcept nogil:
        """Where a text may be cut, some way behind one of the multiples of a size; its length if nowhere."""
        cdef Units looked = text[0]
        cdef Py_ssize_t at = size, found
        while self.encoder.scanner >= 0 and at + LOOKED < text.n:
            looked.n = at + LOOKED
            if text.width:
                found = certain_unit(self.encoder.scanner, &looked, at)
            else:
                found = certain_start(self.encoder.scanner, text.data, at, looked.n)
            if found < looked.n:
                return found
            at += size
        return text.n

    cdef int put(self, Units units, token_t token) except -1:
        self.texts = <Text*>grown(self.texts, &self.room, self.n + 1, sizeof(Text))
        self.texts[self.n] = Text(units=units, token=token)
        self.n += 1
        return 0

    def add_items(self, list items, const int64_t[::1] bounds):
        """Add texts, each the items `bounds[i]` to `bounds[i + 1]`: UTF-8 bytes, str, or an id as int."""
        cdef Py_ssize_t i, k
        cdef Units utf8
        utf8.width = 0
        self.held.append(items)
        for i in range(bounds.shape[0] - 1):
            self.firsts.append(self.n)
            for k in range(bounds[i], bounds[i + 1]):
                item = items[k]
                if isinstance(item, str):
                    self.add(units_of(item))
                elif isinstance(item, bytes):
                    utf8.data, utf8.n = <bytes>item, len(<bytes>item)
                    self.add(utf8)
                else:
                    utf8.data, utf8.n = NULL, -1
                    self.put(utf8, <token_t>item)

    def add_documents(self, const byte_t[::1] buffer, const int64_t[::1] starts, const int64_t[::1] ends):
        """Add texts that lie in one buffer: text i is `buffer[starts[i]:ends[i]]`.

        Raises:
            ValueError: for a text that is not within the buffer.

        """
        cdef Py_ssize_t i, size = buffer.shape[0]
        cdef const byte_t* text = NULL
        cdef Units utf8
        utf8.width = 0
        if size:
            text = &buffer[0]
            self.buffer_end = text + size
        self.held.append(buffer)
        for i in range(starts.shape[0]):
            if not 0 <= starts[i] <= ends[i] <= size:
                raise ValueError(
                    f"document {i} is from {starts[i]} to {ends[i]}, which is not within the buffer of {size} bytes"
                )
            self.firsts.append(self.n)
            utf8.data, utf8.n = text + starts[i] if size else text, ends[i] - starts[i]
            self.add(utf8)

    # Working ----------------------------------------------------------------------------------------------------------

    def prepare(self):
        """Share the texts out, when all are in; how many parts there are.

        They get smaller towards the end, so that no thread waits long for another.
        """
        cdef Py_ssize_t i, size = 0, wanted = LEAST, done = 0
        if self.n_bytes < SEVERAL * <Py_ssize_t>LEAST:
            self.threads = 1
        self.counted = np.zeros(self.n + 1, dtype=np.int64)
        self.counts = self.counted
        self.parts.append(0)
        for i in range(self.n if self.threads > 1 else 0):
            size += max(most_utf8(&self.texts[i].units), <Py_ssize_t>0) + 16
            if size >= wanted and i + 1 < self.n:
                self.parts.append(i + 1)
                done += size
                size = 0
                wanted = max(min(2 * wanted, PART, (self.n_bytes - done) // (4 * self.threads)), <Py_ssize_t>LEAST)
        self.parts.append(self.n)
        return len(self.parts) - 1

    def work(self):
        """Encode parts until none is left: what each thread does."""
        cdef Workspace space = self.encoder.workspace()
        cdef Room room = Room(self.n)
        cdef Py_ssize_t number, n_parts = len(self.parts) - 1, heard = 0
        while True:
            with self.lock:
                number = self.begun
                self.begun += 1
                news = self.learned[heard:]
            heard += len(news)
            self.listen(space, news)
            if number >= n_parts:
                break
            self.do_part(space, room, number)
        if n_parts == 1 and space.out.n:
            self.done = self.encoder.taken(space)
        else:
            self.encoder.give_back(space)

    cdef int listen(self, Workspace space, list news) except -1:
        """Enter words that other threads have worked out."""
        cdef Learned each
        for each in news:
            if each.by is not space:
                with nogil:
                    learn(&space.cache, &each.words)
        return 0

    cdef int do_part(self, Workspace space, Room room, Py_ssize_t number) except -1:
        """Encode a part, put its ids in place, and tell what was worked out for it."""
        cdef Py_ssize_t start = self.parts[number], end = self.parts[number + 1], unknown
        cdef bint alone = len(self.parts) == 2
        cdef Learned learned = None
        if not alone and self.n_learned < LEARNED:
            learned = Learned()
            learned.by = space
            space.words = &learned.words
        try:
            with nogil:
                if alone:
                    prepare_output(space, self.n_bytes)
                unknown = self.encode(space, room, start, end)
        finally:
            space.words = NULL
        if alone:
            self.unknown_at = unknown
            return 0
        with self.lock:
            if unknown >= 0:
                self.unknown_at = unknown if self.unknown_at < 0 else min(unknown, self.unknown_at)
            if learned is not None and learned.words.n:
                self.learned.append(learned)
                self.n_learned += learned.words.n
        return self.deliver(number, space)

    cdef Py_ssize_t encode(self, Workspace space, Room room, Py_ssize_t start, Py_ssize_t end) except -2 nogil:
        """Encode some of the texts; the first that has a symbol without an id, or -1."""
        cdef Py_ssize_t n, unknown = -1
        while start < end:
            n = self.feed(space, room, start, end)
            self.encoder.run(space, &self.counts[start + 1])
            if space.unknown_at >= 0 and unknown < 0:
                unknown = start + space.unknown_at
            start += n
        return unknown

    cdef Py_ssize_t feed(self, Workspace space, Room room, Py_ssize_t start, Py_ssize_t end) except -1 nogil:
        """Begin with texts from `start` on, as many as there is room for; how many."""
        cdef const Text* text = &self.texts[start]
        cdef Fragment* fragment = room.fragments
        cdef bint copied = self.is_copied(text)
        cdef Py_ssize_t n = 0, used = 0, most
        while n < FRAGMENTS and start + n < end and self.is_copied(text) == copied:
            fragment.text, fragment.size, fragment.token = text.units.data, text.units.n, text.token
            if copied and text.units.n > 0:
                most = used + most_utf8(&text.units) + BEYOND
                if n and most > STEP:
                    break
                room.reserve(max(most, <Py_ssize_t>STEP))  # which is enough for those behind the first
                fragment.text = room.utf8 + used
                if text.units.width:
                    fragment.size = to_fresh_utf8(&text.units, room.utf8 + used, &room.fresh)
                else:
                    memcpy(room.utf8 + used, text.units.data, text.units.n)
                used += fragment.size
            n += 1
            text += 1
            fragment += 1
        feed_fragments(space.feed, room.fragments, n, self.encoder.scanner)
        if copied or self.buffer_end != NULL:
            space.feed.shared = True
            space.feed.readable = self.buffer_end
            if copied:
                space.feed.readable = room.utf8 + used
        return n

    cdef bint is_copied(self, const Text* text) noexcept nogil:
        """Whether a text is put side by side with others."""
        return text.units.width != 0 or (text.units.n <= COPIED and self.buffer_end == NULL)

    cdef int deliver(self, Py_ssize_t number, Workspace space) except -1:
        """Put the ids of a part in place, and of those that wait for it, or leave them to wait."""
        cdef Part part = Part()
        cdef list ready
        part.ids, space.out = space.out, Ids(data=NULL, n=0, room=0)
        with self.lock:
            self.waiting[number] = part
            ready = self.place()
        while ready:
            for part in ready:
                with nogil:
                    fresh_reach(&part.fresh, self.ids.data + self.ids.room)
                    memcpy(self.ids.data + part.place, part.ids.data, part.ids.n * sizeof(token_t))
                    part.ids.n = 0
            with self.lock:
                self.copying -= len(ready)
                fresh_join(&self.fresh, &part.fresh)
                self.spare += ready
                ready = self.place()
        with self.lock:
            if self.spare:
                part = self.spare.pop()
                space.out, part.ids = part.ids, Ids(data=NULL, n=0, room=0)
        return 0

    cdef list place(self):
        """The parts that nothing before them is waited for, with their places. The lock is held.

        Ids are moved to where there is more room only while nobody copies; who ends copying asks again.
        """
        cdef Part part
        cdef list ready = []
        while self.placed in self.waiting:
            part = self.waiting[self.placed]
            if self.ids.n + part.ids.n > self.ids.room:
                if self.copying:
                    break
                self.make_room(part.ids.n)
            del self.waiting[self.placed]
            part.place = self.ids.n
            self.ids.n += part.ids.n
            fresh_part(&self.fresh, self.ids.data + self.ids.n + 2 * self.threads * part.ids.n, &part.fresh)
            self.placed += 1
            self.copying += 1
            ready.append(part)
        return ready

    cdef int make_room(self, size_t more) except -1:
        """Room for so many ids more; for as many as the texts are likely to give, if these are the first."""
        cdef Ids* ids = &self.ids
        with nogil:
            if ids.n == 0:
                more = max(more, <size_t>self.n_bytes // 2 + 1024)
            fresh_end(ids.data, ids.room * sizeof(token_t))
            ids.data = <token_t*>grown(ids.data, &ids.room, ids.n + more, sizeof(token_t))
            fresh_begin(&self.fresh, ids.data + ids.n, (ids.room - ids.n) * sizeof(token_t))
        return 0

    def result(self):
        """When all threads are done: (uint32 ids; int64 ids of each text; the first text with a symbol without an id,
        or -1).
        """
        bad = -1
        firsts = np.array([*self.firsts, self.n], dtype=np.int64)
        lengths = np.diff(np.cumsum(self.counted)[firsts])
        if self.unknown_at >= 0:
            bad = int(np.searchsorted(firsts, self.unknown_at, side="right")) - 1
        ids = self.done if self.done is not None else as_array(&self.ids)
        return ids, lengths, bad
