"""BPE-dropout: merging in which each merge that could be applied next is left out with a given probability.

Provilkov et al., "BPE-Dropout: Simple and Effective Subword Regularization" (2020): at every step each possible merge
is dropped with probability p, the best of the others is applied, and a piece is done when all are dropped. Here merges
are tried by rank and position until one is not dropped; this is equivalent and needs fewer random numbers. These are
from SplitMix64, with one state for a whole text, so that the ids depend on the text, the probability and the seed
alone. There is no cache, since a word gets different ids each time.
"""

from bpe.base._bounds cimport check_spans
from bpe.base._id_array cimport as_array
from bpe.base._ids cimport Ids
from bpe.base._interrupts cimport begin_watch, poll_if_due
from bpe.base._types cimport byte_t
from bpe.merge._merger cimport Merger
from bpe.merge._merging cimport DropoutState, Scratch, free_scratch, merge_with_heap, write_symbols
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset


cdef class Dropout:
    """Merging with dropout, with the tables of a tokenizer. Immutable."""

    cdef Merger merger

    def __cinit__(self, Merger merger not None):
        self.merger = merger

    def encode(
        self,
        const byte_t[::1] text,            # IN
        const int64_t[::1] starts,         # IN (n,): of the pretokens
        const int64_t[::1] ends,           # IN (n,)
        uint64_t drop_threshold,           # the probability times 2**53
        uint64_t state,                    # of the random numbers
    ):
        """Encode the pretokens of a text.

        Returns:
            (uint32 ids; the state afterwards; whether all symbols have an id).

        """
        cdef Py_ssize_t i, n, unknown = -1
        cdef DropoutState dropout
        cdef Ids out = Ids(data=NULL, n=0, capacity=0, lent=False)
        cdef Scratch scratch
        check_spans(starts, ends, text.shape[0])
        memset(&scratch, 0, sizeof(Scratch))
        memset(&dropout, 0, sizeof(DropoutState))
        dropout.drop_threshold, dropout.state = drop_threshold, state
        begin_watch(&scratch.watch)
        try:
            with nogil:
                for i in range(starts.shape[0]):
                    poll_if_due(&scratch.watch, out.n)
                    if starts[i] < ends[i]:
                        n = write_symbols(
                            &self.merger.symbol_tokens, &text[starts[i]], ends[i] - starts[i], &scratch, &unknown
                        )
                        dropout.dropped.n = 0
                        merge_with_heap(&self.merger.table.merges, scratch.symbols, n, &scratch, &out, &dropout)
            return as_array(&out), dropout.state, unknown < 0
        finally:
            free_scratch(&scratch)
            free(dropout.dropped.entries)
            free(out.data)
