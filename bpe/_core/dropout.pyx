"""BPE-dropout: merging in which each merge that could be applied next is left out with a given probability.

Provilkov et al., "BPE-Dropout: Simple and Effective Subword Regularization" (2020): at every step each possible merge
is dropped with probability p, the best of the others is applied, and a piece is done when all are dropped. Merges are
asked in the order of rank and place until one is not dropped, which is the same and needs fewer random numbers. These
are SplitMix64's, one state for a whole text, so that the ids depend on the text and the seed alone. There is no cache:
the same word comes out differently each time. Not here: what symbols and pretokens are (`bpe/encoding.py`).
"""

import numpy as np

from bpe._core.memory cimport grown, mix
from bpe._core.queue cimport Queue, pop, push
from bpe._core.types cimport NO_TOKEN, byte_t, token_t
from bpe._core.unicode cimport decode_char
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free

cdef extern from *:
    """
    #define BPE_NOTHING UINT64_MAX
    """
    const uint64_t NOTHING "BPE_NOTHING"   # a free slot of the table; as a merge, none

cdef struct Link:             # a symbol of a piece
    uint64_t merge            # what it makes with the next one: rank << 32 | id, or NOTHING
    token_t token
    uint32_t before
    uint32_t behind

cdef class Dropout:
    """The tables of one tokenizer for merging with dropout. Immutable."""

    cdef const uint32_t[::1] inner
    cdef const uint32_t[::1] last
    cdef const uint64_t[:, ::1] slots
    cdef size_t mask
    cdef token_t mark
    cdef token_t unk
    cdef bint fuse_unk
    cdef bint chars

    def __init__(
        self,
        const uint32_t[::1] inner,         # token of a byte or code point; NO_TOKEN outside the alphabet
        const uint32_t[::1] last,          # the same at the last place of a word
        const int[:, ::1] merges,
        const int[::1] ids,                # what each merge makes
        const int[::1] ranks,
        uint32_t mark,                     # the end-of-word mark where it is a symbol of its own, else NO_TOKEN
        uint32_t unk,                      # the unknown token, or NO_TOKEN
        bint fuse_unk,
        bint chars,                        # symbols are characters, not bytes
    ):
        cdef Py_ssize_t n = merges.shape[0], i
        cdef size_t size = 16, at
        cdef uint64_t key, value
        while size < <size_t>n * 2:
            size *= 2
        self.mask = size - 1
        table = np.full((size, 2), NOTHING, dtype=np.uint64)
        cdef uint64_t[:, ::1] slots = table
        for i in range(n):
            key = <uint64_t>merges[i, 0] << 32 | <uint64_t>merges[i, 1]
            value = <uint64_t>ranks[i] << 32 | <uint64_t>ids[i]
            at = mix(key, <uint64_t>0x9E3779B97F4A7C15) & self.mask
            while slots[at, 0] != NOTHING and slots[at, 0] != key:
                at = (at + 1) & self.mask
            slots[at, 0], slots[at, 1] = key, min(value, slots[at, 1])
        self.slots = table
        self.inner, self.last = inner, last
        self.mark, self.unk, self.fuse_unk, self.chars = mark, unk, fuse_unk, chars

    def encode(
        self,
        const byte_t[::1] text,            # IN
        const int64_t[::1] starts,         # IN (n,): where the pretokens begin
        const int64_t[::1] ends,           # IN (n,): where they end
        uint64_t dropped,                  # the probability times 2**53
        uint64_t state,                    # of the random numbers
    ):
        """The ids of the pretokens of a text.

        Returns:
            (uint32 ids; the state afterwards; the place of the first symbol without an id, or -1).

        """
        cdef Py_ssize_t n = starts.shape[0], i, room = 0, n_out = 0, unknown = -1, longest = 0
        for i in range(n):
            room += ends[i] - starts[i] + 1
            longest = max(longest, <Py_ssize_t>(ends[i] - starts[i] + 1))
        if longest >= NO_TOKEN:
            raise ValueError(f"a piece of {longest - 1} bytes is too long; at most 2**32 - 3 fit: split the text")
        ids = np.empty(room, dtype=np.uint32)
        if n == 0:
            return ids, state, unknown
        cdef token_t[::1] out = ids
        cdef Queue queue, skipped
        cdef Link* links = NULL
        cdef size_t links_room = 0
        queue.entries = skipped.entries = NULL
        queue.n = queue.room = skipped.n = skipped.room = 0
        try:
            links = <Link*>grown(links, &links_room, longest, sizeof(Link))
            with nogil:
                for i in range(n):
                    room = self.symbols_of(links, &text[0], starts[i], ends[i], &unknown)
                    self.merge(links, room, &queue, &skipped, dropped, &state)
                    n_out += write_out(links, room, &out[n_out])
        finally:
            free(links)
            free(queue.entries)
            free(skipped.entries)
        return ids[:n_out].copy(), state, unknown

    cdef Py_ssize_t symbols_of(
        self, Link* links, const byte_t* text, int64_t pos, int64_t end, Py_ssize_t* unknown
    ) noexcept nogil:
        """Write the symbols of a piece; how many they are."""
        cdef Py_ssize_t length = 1, n = 0, at
        cdef uint32_t code, token
        while pos < end:
            at = pos
            code = decode_char(text, pos, end, &length) if self.chars else text[pos]
            pos += length
            token = NO_TOKEN
            if pos < end and code < <size_t>self.inner.shape[0]:
                token = self.inner[code]
            elif pos >= end and code < <size_t>self.last.shape[0]:
                token = self.last[code]
            if token == NO_TOKEN:
                token = self.unk
                if token == NO_TOKEN and unknown[0] < 0:
                    unknown[0] = at
                elif self.fuse_unk and n > 0 and links[n - 1].token == token:
                    continue
            links[n].token = token
            n += 1
        if self.mark != NO_TOKEN:
            links[n].token = self.mark
            n += 1
        return n

    cdef inline uint64_t find(self, token_t left, token_t right) noexcept nogil:
        """What two tokens make: rank << 32 | id, or NOTHING."""
        cdef uint64_t key = <uint64_t>left << 32 | right
        cdef size_t at = mix(key, <uint64_t>0x9E3779B97F4A7C15) & self.mask
        while self.slots[at, 0] != NOTHING:
            if self.slots[at, 0] == key:
                return self.slots[at, 1]
            at = (at + 1) & self.mask
        return NOTHING

    cdef int merge(
        self, Link* links, Py_ssize_t n, Queue* queue, Queue* skipped, uint64_t dropped, uint64_t* state
    ) except -1 nogil:
        """Merge the n symbols of a piece. An entry of the queue is stale unless its symbol still has that merge."""
        cdef uint64_t entry, asked = NOTHING
        cdef uint32_t at, none = <uint32_t>n
        cdef Py_ssize_t i
        queue.n = skipped.n = 0
        for i in range(n):
            links[i].before = <uint32_t>i - 1 if i > 0 else none
            links[i].behind = <uint32_t>i + 1
        for i in range(n):
            self.look_behind(links, queue, <uint32_t>i, none)
        while queue.n > 0:
            entry = pop(queue)
            at = <uint32_t>entry
            if entry == asked or links[at].merge == NOTHING or links[at].merge >> 32 != entry >> 32:
                continue
            asked = entry                      # ranks that several merges share can enter it twice
            if next_random(state) >> 11 < dropped:
                skipped.entries = <uint64_t*>grown(skipped.entries, &skipped.room, skipped.n + 1, sizeof(uint64_t))
                skipped.entries[skipped.n] = entry
                skipped.n += 1
                continue
            self.apply(links, queue, at, none)
            asked = NOTHING
            while skipped.n > 0:
                skipped.n -= 1
                push(queue, skipped.entries[skipped.n])
        return 0

    cdef int apply(self, Link* links, Queue* queue, uint32_t at, uint32_t none) except -1 nogil:
        """Make one token of a symbol and the one behind it."""
        cdef uint32_t behind = links[at].behind
        links[at].token = <token_t>links[at].merge
        links[at].behind = links[behind].behind
        links[behind].merge = NOTHING
        if links[at].behind != none:
            links[links[at].behind].before = at
        self.look_behind(links, queue, at, none)
        if links[at].before != none:
            self.look_behind(links, queue, links[at].before, none)
        return 0

    cdef int look_behind(self, Link* links, Queue* queue, uint32_t at, uint32_t none) except -1 nogil:
        """Find the merge of a symbol with the one behind it, and queue it."""
        links[at].merge = NOTHING
        if links[at].behind != none:
            links[at].merge = self.find(links[at].token, links[links[at].behind].token)
            if links[at].merge != NOTHING:
                push(queue, (links[at].merge >> 32) << 32 | at)
        return 0


cdef Py_ssize_t write_out(const Link* links, Py_ssize_t n, token_t* out) noexcept nogil:
    """Write the tokens that are left of n symbols; how many they are."""
    cdef Py_ssize_t n_out = 0
    cdef uint32_t at = 0
    while at != <uint32_t>n:
        out[n_out] = links[at].token
        n_out += 1
        at = links[at].behind
    return n_out


cdef inline uint64_t next_random(uint64_t* state) noexcept nogil:
    """SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014)."""
    cdef uint64_t z
    state[0] += <uint64_t>0x9E3779B97F4A7C15
    z = state[0]
    z = (z ^ z >> 30) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ z >> 27) * <uint64_t>0x94D049BB133111EB
    return z ^ z >> 31
