"""One pass over text for several tokenizers: ids that a Visitor takes as they are written, and where blocks may end.

The ids of a tokenizer are never all in memory: a Visitor takes some thousand at a time, from a cache. A file is read in
blocks that fit in a cache too. Not here: arrays of ids (`_batch.pyx`, `_file_blocks.pyx`).
"""

from bpe.base._bounds cimport check_spans
from bpe.base._interrupts cimport begin_watch
from bpe.base._types cimport byte_t
from bpe.base._visitor cimport Visitor
from bpe.corpus._file_reader cimport FileBlock, FileReader
from bpe.encode._chunk cimport Fragment
from bpe.encode._chunk_filler cimport feed_fragments
from bpe.encode._encoder cimport Encoder
from bpe.encode._workspace cimport Workspace
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

cdef enum:
    TEXTS = 512               # that the encoder takes at once
    VISITED = 1 << 14         # ids that a Visitor takes at once, or some more: they stay in a cache
    AHEAD = 64                # bytes that show whether a position is a cut whatever follows
    TRIES = 64                # positions that are looked at for a cut


def visit(
    Encoder encoder, Visitor visitor, const byte_t[::1] buffer, const int64_t[::1] starts, const int64_t[::1] ends
):
    """Give a visitor the ids of texts in one buffer; the first text with a symbol that has no id, or -1.

    Text i is `buffer[starts[i]:ends[i]]`. Nobody may write to any of the arrays meanwhile.

    Raises:
        ValueError: for a text that is not within the buffer.

    """
    cdef Workspace space
    cdef const byte_t* text = NULL
    cdef Py_ssize_t n = starts.shape[0], unknown
    check_spans(starts, ends, buffer.shape[0])
    if n == 0:
        return -1
    if buffer.shape[0]:
        text = &buffer[0]
    space = encoder.workspace()
    begin_watch(&space.scratch.watch)
    try:
        with nogil:
            unknown = visit_texts(encoder, space, visitor, text, buffer.shape[0], &starts[0], &ends[0], n)
    except MemoryError:                                    # the workspace may be inconsistent: drop it
        raise
    except BaseException:
        encoder.give_back(space)
        raise
    encoder.give_back(space)
    return unknown


cdef Py_ssize_t visit_texts(
    Encoder encoder, Workspace space, Visitor visitor, const byte_t* text, Py_ssize_t size, const int64_t* starts,
    const int64_t* ends, Py_ssize_t n,
) except -2 nogil:
    """The same for texts in `size` bytes."""
    cdef Fragment fragments[TEXTS]
    cdef int64_t lengths[TEXTS]
    cdef Py_ssize_t i, given, done = 0, ended
    cdef size_t first
    cdef bint more
    while done < n:
        given = min(n - done, <Py_ssize_t>TEXTS)
        for i in range(given):
            fragments[i].text, fragments[i].size = text + starts[done + i], ends[done + i] - starts[done + i]
        feed_fragments(space.feed, fragments, given, encoder.scanner)
        space.feed.shared, space.feed.readable = True, text + size
        first, ended, more = 0, 0, True
        while more:
            more = encoder.run_chunk(space, lengths, &first)
            if space.unknown_at >= 0:
                return done + space.unknown_at
            if space.out.n >= VISITED or not more:
                visitor.take(space.out.data, space.out.n, lengths + ended, space.feed.done - ended)
                ended = space.feed.done
                first -= space.out.n                       # before the output, for the rest of a text
                space.scratch.watch.next -= space.out.n
                space.out.n = 0
        done += given
    return -1


cdef inline bint is_white(byte_t byte) noexcept nogil:
    return byte == 32 or 9 <= byte <= 13


cdef bint is_cut(const Encoders* encoders, const byte_t* text, Py_ssize_t at) noexcept nogil:
    """Whether all tokenizers allow a cut; `AHEAD` bytes after it can be read."""
    cdef Py_ssize_t i, end, found
    for i in range(encoders.n):
        end, found = at, 0
        while found < at:
            end += 1
            if end == at + AHEAD:
                return False
            found = (<Encoder>encoders.each[i]).last_cut_in(text, at - 1, end)
        if found != at:
            return False
    return True


cdef Py_ssize_t last_cut(void* encoders, const byte_t* text, Py_ssize_t low, Py_ssize_t end) noexcept nogil:
    """The last position found after `low` where all tokenizers allow a cut of `text[:end]`, next to white space."""
    cdef Py_ssize_t at, tried = 0
    for at in range(end - AHEAD, low, -1):
        if is_white(text[at - 1]) or is_white(text[at]):
            if is_cut(<const Encoders*>encoders, text, at):
                return at
            tried += 1
            if tried == TRIES:
                break
    return low


cdef class CommonCuts:
    """Where text may be cut for several tokenizers, and between words.

    Args:
        encoders: their `Encoder`s, at least one.

    """

    def __cinit__(self, encoders):
        cdef Encoder encoder
        cdef Py_ssize_t i
        self.held = tuple(encoders)
        self.encoders.n = len(self.held)
        self.encoders.each = <void**>malloc(max(self.encoders.n, <Py_ssize_t>1) * sizeof(void*))
        if self.encoders.each == NULL:
            raise MemoryError(f"no memory for {self.encoders.n} addresses")
        if not self.held:
            raise ValueError("encoders is empty; there must be at least one")
        for i in range(self.encoders.n):
            encoder = self.held[i]
            self.encoders.each[i] = <void*>encoder

    def __dealloc__(self):
        free(self.encoders.each)

    def last(self, const byte_t[::1] text, Py_ssize_t low):
        """The last position found after `low` where the text may be cut, whatever follows it; else `low`."""
        low = max(low, <Py_ssize_t>0)
        if text.shape[0] <= low:
            return low
        with nogil:
            low = last_cut(&self.encoders, &text[0], low, text.shape[0])
        return low

    def read(self, FileReader reader not None, FileBlock block not None):
        """Read the next block of a file, with its documents; False if there is none.

        Raises:
            FormatError, OSError: for the first block that must be UTF-8 and is not, or that cannot be read.

        """
        cdef bint found
        with nogil:
            found = reader.take(block, last_cut, &self.encoders)
            if found:
                block.split(reader)
        return found
