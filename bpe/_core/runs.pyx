"""The ids of runs of three-byte characters that hardly any token joins: ideographs, in most vocabularies.

A run is one piece of a chunk. It consists of single characters, whose ids are in a table by code point, and between
them of parts with several characters that some token may join, which are looked up like words. Not here: how a run is
found (`pieces.pyx`).
"""

from bpe._core.backtrack cimport NO_LIMIT
from bpe._core.chunk cimport EARLIER, Joined
from bpe._core.merging cimport reserve
from bpe._core.pairtable cimport NO_MERGE, Pairs, find_bytes, find_pair
from bpe._core.types cimport byte_t, token_t
from bpe._core.values cimport Values, merge_piece
from bpe._core.wordcache cimport SHORT_WORD, find_front, find_middle, find_short, middle_hash, short_key
from bpe._core.workspace cimport MET, Lone, Workspace, emit_value, lone_of
from libc.stdint cimport uint16_t, uint64_t
from libc.string cimport memcpy

cdef extern from "runs.h" nogil:
    const byte_t* bpe_emit_lone(const Lone* table, const byte_t* text, const byte_t* end, token_t** out)
    int bpe_choose_runs(int most)

cdef enum:
    NEAR = 48                 # bytes of the characters that are written together


def choose_vectors(int most):
    """Choose vector instructions, at most one of `scan.LEVELS`; the level that this machine then uses."""
    return bpe_choose_runs(most)


cdef int emit_run(Values values, Workspace space, const byte_t* text) except -1 nogil:
    """Write the ids of a run of parts, the next one of the chunk."""
    cdef Joined* joined
    while True:
        joined = &space.chunk.joined[space.chunk.next_joined]
        space.chunk.next_joined += 1
        emit_lone(values, space, text, joined.text)
        if joined.size == 0:
            return 0
        emit_joined(values, space, joined.text, joined.size)
        text = joined.text + joined.size


cdef int emit_lone(Values values, Workspace space, const byte_t* text, const byte_t* end) except -1 nogil:
    """Write the ids of characters that no token reaches out of."""
    cdef const byte_t* near
    cdef token_t* out
    while text < end:
        reserve(&space.out, end - text + 1)                # 1: a character's number of ids is written behind them
        out = space.out.data + space.out.n
        text = bpe_emit_lone(space.lone, text, end, &out)
        space.out.n = out - space.out.data
        if text < end and not learn_lone(values, space, text):
            merge_piece(values, space, text, 3, EARLIER)
            text += 3
        near = min(text + NEAR, end)                       # those that are written together
        while text < near:
            near -= 3
            if lone_of(space, near).n == 0:
                learn_lone(values, space, near)
    return 0


cdef int emit_joined(Values values, Workspace space, const byte_t* word, Py_ssize_t size) except -1 nogil:
    """Write the ids of a part that has more characters.

    Most such parts come once, and in many no characters are joined after all: only those with joined ones are looked
    up in the cache's tables and kept there, and these when they come again.
    """
    cdef uint64_t value = 0, lo, hi = 0
    if size <= SHORT_WORD:
        lo = short_key(word, size, word + size)
        value = find_front(&space.cache, lo)
    else:
        memcpy(&lo, word, 8)
        hi = short_key(word + 8, size - 8, word + size)
    if value == 0 and stay_apart(values, space, word, size):
        return emit_lone(values, space, word, word + size)
    if value == 0 and comes_again(space, lo, hi):
        value = find_short(&space.cache, lo) if size <= SHORT_WORD else find_middle(&space.cache, lo, hi)
        if value == 0:
            value = values.work_out(space, word, size, EARLIER, lo, hi)
    if value == 0:
        return merge_piece(values, space, word, size, EARLIER)
    return emit_value(space, value)


cdef inline bint comes_again(Workspace space, uint64_t lo, uint64_t hi) noexcept nogil:
    """Whether a part is one of those that were met last; if not it is now."""
    cdef uint64_t hashed = middle_hash(lo, hi)
    cdef uint16_t* place = &space.met[hashed % MET]
    cdef bint found = place[0] == <uint16_t>(hashed >> 48)
    place[0] = <uint16_t>(hashed >> 48)
    return found


cdef bint stay_apart(Values values, Workspace space, const byte_t* word, Py_ssize_t size) except -1 nogil:
    """Whether no two characters of a part are joined; False also where that is not known without merging it."""
    cdef Py_ssize_t at
    cdef const Lone* left
    cdef const Lone* right = NULL
    if not values.merger.origins.ordered or values.merger.alphabet.chars:
        return False
    for at in range(0, size, 3):
        left, right = right, lone_of(space, word + at)
        if right.n == 0 and not learn_lone(values, space, word + at):
            return False
        if at and not values.merger.origins.side_by_side(
            &values.merger.table.pairs, left.ids[left.n - 1], right.ids[0], NO_LIMIT
        ):
            return False
    return True


cdef bint learn_lone(Values values, Workspace space, const byte_t* text) except -1 nogil:
    """Work out what a character is by itself; False where it has a symbol without an id."""
    cdef size_t before = space.out.n
    cdef Lone* lone = lone_of(space, text)
    if values.merger.unmarked.plain and values.merger.small_ranks:
        lone.n = merge_three(&values.merger.table.pairs, values.merger.unmarked.inner, text, lone.ids)
        return True
    if space.unknown:
        return False
    merge_piece(values, space, text, 3, EARLIER)
    if not space.unknown:
        lone.n = <token_t>(space.out.n - before)
        memcpy(lone.ids, space.out.data + before, lone.n * sizeof(token_t))
    space.out.n = before
    space.unknown = False                                  # until its turn comes
    return lone.n > 0


cdef inline token_t merge_three(
    const Pairs* pairs, const token_t* byte_ids, const byte_t* text, token_t* ids
) noexcept nogil:
    """Merge the three bytes of a character to `ids`; how many are left. Two merges are all there can be."""
    cdef uint64_t left = find_bytes(pairs, text), right = find_bytes(pairs, text + 1), whole
    cdef Py_ssize_t i
    for i in range(3):
        ids[i] = byte_ids[text[i]]
    if left == NO_MERGE and right == NO_MERGE:
        return 3
    if left >> 32 <= right >> 32:
        ids[0], ids[1] = <token_t>left, ids[2]
    else:
        ids[1] = <token_t>right
    whole = find_pair(pairs, ids[0], ids[1])
    if whole == NO_MERGE:
        return 2
    ids[0] = <token_t>whole
    return 1
