"""BPE-dropout: merging in which each merge that could be applied next is left out with a given probability.

Provilkov et al., "BPE-Dropout: Simple and Effective Subword Regularization" (2020): at every step each possible merge
is dropped with probability p, the best of the others is applied, and a piece is done when all are dropped. Here merges
are tried by rank and position until one is not dropped; this is equivalent and needs fewer random numbers. These are
from SplitMix64, with one state for a whole text, so that the ids depend on the text, the probability and the seed
alone. There is no cache, since a word gets different ids each time. Not here: finding pretokens
(`bpe/encode/engine.py`).
"""

from bpe.base._bounds cimport check_spans
from bpe.base._id_array cimport as_array
from bpe.base._ids cimport Ids
from bpe.base._interrupts cimport begin_watch, poll_if_due
from bpe.base._memory cimport grown
from bpe.base._random cimport next_random
from bpe.base._types cimport byte_t
from bpe.merge._merge_queue cimport Queue, pop, push
from bpe.merge._merger cimport Merger
from bpe.merge._merging cimport (
    Scratch,
    append_links,
    link_symbols,
    free_scratch,
    is_current,
    merge_with_next,
    symbols_of,
)
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset


cdef extern from *:
    """
    #define BPE_NO_ENTRY UINT64_MAX
    """
    const uint64_t NO_ENTRY "BPE_NO_ENTRY"   # of the queue

cdef enum:
    IDS_PER_STEP = 8          # a step takes as long as writing some eight ids does elsewhere


cdef class Dropout:
    """Merging with dropout, with the tables of a tokenizer. Immutable."""

    cdef Merger merger

    def __init__(self, Merger merger not None):
        self.merger = merger

    def encode(
        self,
        const byte_t[::1] text,            # IN
        const int64_t[::1] starts,         # IN (n,): of the pretokens
        const int64_t[::1] ends,           # IN (n,)
        uint64_t dropped,                  # the probability times 2**53
        uint64_t state,                    # of the random numbers
    ):
        """The ids of the pretokens of a text.

        Returns:
            (uint32 ids; the state afterwards; whether all symbols have an id).

        """
        cdef Py_ssize_t i, unknown = -1
        cdef Queue skipped = Queue(entries=NULL, n=0, room=0)
        cdef Ids out = Ids(data=NULL, n=0, room=0, lent=False)
        cdef Scratch scratch
        check_spans(starts, ends, text.shape[0])
        memset(&scratch, 0, sizeof(Scratch))
        begin_watch(&scratch.watch)
        try:
            with nogil:
                for i in range(starts.shape[0]):
                    poll_if_due(&scratch.watch, out.n)
                    if starts[i] < ends[i]:
                        self.merge(
                            &text[starts[i]], ends[i] - starts[i], &scratch, &skipped, dropped, &state, &unknown, &out
                        )
            return as_array(&out), state, unknown < 0
        finally:
            free_scratch(&scratch)
            free(skipped.entries)
            free(out.data)

    cdef int merge(
        self, const byte_t* piece, Py_ssize_t size, Scratch* scratch, Queue* skipped, uint64_t dropped, uint64_t* state,
        Py_ssize_t* unknown, Ids* out,
    ) except -1 nogil:
        """Append the ids of a piece."""
        cdef uint64_t entry, tried = NO_ENTRY
        cdef Py_ssize_t n = symbols_of(&self.merger.alphabet, piece, size, scratch, unknown)
        link_symbols(&self.merger.table.merges, scratch.symbols, n, scratch)
        skipped.n = 0
        while scratch.queue.n > 0:
            scratch.watch.next -= IDS_PER_STEP
            poll_if_due(&scratch.watch, out.n)
            entry = pop(&scratch.queue)
            if entry == tried or not is_current(scratch, entry):
                continue
            tried = entry                      # with equal ranks, an entry can be in the queue twice
            if next_random(state) >> 11 < dropped:
                skipped.entries = <uint64_t*>grown(skipped.entries, &skipped.room, skipped.n + 1, sizeof(uint64_t))
                skipped.entries[skipped.n] = entry
                skipped.n += 1
                continue
            merge_with_next(&self.merger.table.merges, scratch, <uint32_t>entry, n)
            tried = NO_ENTRY
            while skipped.n > 0:
                skipped.n -= 1
                push(&scratch.queue, skipped.entries[skipped.n])
        return append_links(scratch, n, out)
