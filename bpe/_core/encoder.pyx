"""The engine: texts to token ids.

Text goes through it in chunks of some hundred pieces (`chunk.pyx`): the scanner finds pretokens, the split filter
cuts them where no token reaches across (`splits.pyx`), the word cache is asked for all of them at once
(`wordcache.pyx`), and then ids are written in order; a piece that no cache knows is merged on the way (`merger.pyx`).

Where the end of a word is marked, the same bytes are one thing at the end of a word and another before that: the parts
of a word that was cut, but for the last one, are merged without the mark, and have a cache of their own.

Tables are immutable and shared by all threads. Each call takes a workspace (cache, chunk, buffers) from those that are
idle and gives it back, so that no two threads ever have the same one. They are a chain and not a list, since a list of
one frees its memory when that is taken; the lock of the critical section is the GIL where there is one.

Not here: how a piece is merged; special tokens, normalization, what text is (`bpe/encoding.py`).
"""

import numpy as np

cimport cython
cimport numpy as cnp

from bpe._core.backtrack cimport NO_LIMIT
from bpe._core.chunk cimport (
    ALL,
    EARLIER,
    FEW_IDS,
    LONE,
    Chunk,
    Feed,
    Fragment,
    Joined,
    emit_values,
    fill,
    find_middles,
)
from bpe._core.fresh cimport fresh_begin, fresh_reach
from bpe._core.learned cimport note
from bpe._core.memory cimport grown
from bpe._core.merger cimport Merger
from bpe._core.merging cimport Ids, free_scratch, reserve
from bpe._core.seeds cimport Seeds
from bpe._core.splits cimport Joints, SplitFilter
from bpe._core.types cimport NO_TOKEN, byte_t, token_t
from bpe._core.wholewords cimport WholeWords
from bpe._core.wordcache cimport (
    LONG_WORD,
    MIDDLE_WORD,
    SHORT_WORD,
    Cache,
    cache_bytes,
    close_cache,
    empty_cache,
    fetch_listed,
    find_front,
    find_long,
    find_middle,
    find_short,
    has_ids,
    keep_long,
    keep_middle,
    keep_short,
    key_size,
    limit_words,
    open_cache,
    short_key,
    value_of,
)
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

cnp.import_array()

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef enum:
    COPIED = 1 << 20          # ids: a longer output is handed over as it is; copying spares a shorter one new pages
    KEPT_SCRATCH = 1 << 20    # items: larger buffers for long pieces are let go after the call

#: Memory of a word cache, in bytes, of which each thread has one.
CACHE_MEMORY = 32 << 20


cdef class Workspace:

    def __cinit__(self, size_t memory, bint marked=False):
        open_cache(&self.cache, memory)
        if marked:                                         # they share all but the lists of ids
            open_cache(&self.earlier, memory // 2)
            limit_words(&self.cache, memory // 2)
        self.chunk = <Chunk*>calloc(1, sizeof(Chunk))
        self.feed = <Feed*>calloc(1, sizeof(Feed))
        self.lone = <Lone*>calloc(LONE_ROOM, sizeof(Lone))   # takes memory where it is written to
        if self.chunk == NULL or self.feed == NULL or self.lone == NULL:
            raise MemoryError("no memory for a chunk of pieces")
        self.unknown = False
        self.unknown_at = -1

    def __dealloc__(self):
        close_cache(&self.cache)
        close_cache(&self.earlier)
        free_scratch(&self.scratch)
        free(self.lone)
        free(self.chunk)
        free(self.feed)
        free(self.out.data)

    cdef int reset(self) noexcept nogil:
        """Ready for the next call; the cache stays."""
        self.out.n = 0
        self.fresh_data = NULL
        self.unknown = False
        self.unknown_at = -1
        if self.out.room > COPIED:
            free(self.out.data)
            self.out.data, self.out.room = NULL, 0
        if self.scratch.symbols_room > KEPT_SCRATCH or self.scratch.failed_room > KEPT_SCRATCH:
            free_scratch(&self.scratch)
            memset(&self.scratch, 0, sizeof(self.scratch))
        return 0


cdef class Memory:
    """Keeps the memory of an array that was handed over."""

    cdef void* data

    def __dealloc__(self):
        free(self.data)


cdef class Encoder:

    def __init__(
        self,
        const uint32_t[::1] inner,         # token of a byte or code point; NO_TOKEN outside the alphabet
        const uint32_t[::1] last,          # the same at the last place of a word
        merges,                            # int32 (n, 2): pairs of tokens, best rank first
        ids,                               # int32 (n,): the token that each makes
        ranks,                             # int32 (n,): rising; merges of one rank make one token
        blob,                              # the bytes of all tokens: i is `blob[offsets[i]:offsets[i + 1]]`
        offsets,                           # int64
        uint32_t mark,                     # the end-of-word mark where it is a symbol of its own, else NO_TOKEN
        uint32_t unk,                      # the unknown token, or NO_TOKEN
        bint fuse_unk,
        bint chars,                        # symbols are characters, not bytes
        const uint8_t[::1] ends,           # of each token whether it ends with the mark; None without marks
        Py_ssize_t mark_size,              # in bytes
        int scanner,                       # of _core/scan; -1 where spans are given
        unreached,                         # int32: tokens that merging their own bytes does not give; None: not known
        size_t memory=CACHE_MEMORY,        # of each thread's cache, in bytes
    ):
        self.scanner, self.memory, self.marked = scanner, memory, ends is not None
        self.merger = Merger(inner, last, merges, ids, ranks, len(offsets) - 1, mark, unk, fuse_unk, chars, unreached)
        self.seeds = Seeds(self.merger.origins, merges, ids, blob, offsets, ends, mark_size)
        if not fuse_unk:
            self.splits = SplitFilter()
            self.splits.add_merges(merges, blob, offsets)

    def set_whole_words(self, bytes blob, const int64_t[::1] offsets, const uint32_t[::1] ids, bint all_of_them):
        """Make word i, `blob[offsets[i]:offsets[i + 1]]`, the token `ids[i]` whatever the merges say.

        Unless `all_of_them`, only words are entered that merging would make anything else of. Called once, before any
        encoding.
        """
        cdef Workspace space = Workspace(0)
        cdef Py_ssize_t i, n = ids.shape[0]
        cdef const byte_t* data = blob
        kept = np.ones(n, dtype=np.uint8)
        cdef byte_t[::1] keep = kept
        if not all_of_them:
            with nogil:
                for i in range(n):
                    if self.merger.origins.ordered:
                        keep[i] = not self.merger.origins.reached[ids[i]]
                        continue
                    space.out.n = 0
                    self.merge_piece(space, data + offsets[i], offsets[i + 1] - offsets[i], ALL)
                    keep[i] = space.out.n != 1 or space.out.data[0] != ids[i]
        chosen = np.flatnonzero(kept).astype(np.int64)         # where intp is another type
        if not len(chosen):
            return
        self.whole = WholeWords(blob, offsets, ids, chosen)
        self.seeds.leave_out(self.whole)
        if self.splits is not None:
            for number in chosen.tolist():
                i = number
                self.splits.add_word(blob[offsets[i] : offsets[i + 1]])

    def unreached_of(self, const uint8_t[::1] wanted):
        """The tokens, of those `wanted`, that merging their own bytes does not give: int32; None if unknown."""
        if not self.merger.origins.ordered or not self.merger.origins.limit:
            return None
        reached = np.asarray(<const byte_t[: self.merger.origins.limit]>self.merger.origins.reached)
        return np.flatnonzero(np.asarray(wanted) > reached).astype(np.int32)

    def finish(self):
        """Complete the tables when all words are in, and have a workspace ready; called once, before any encoding."""
        if self.splits is not None:
            self.splits.fold()
        self.give_back(self.workspace())

    # Pieces -----------------------------------------------------------------------------------------------------------

    cdef inline int merge_piece(self, Workspace space, const byte_t* piece, Py_ssize_t size, int part) except -1 nogil:
        """Emit the ids that merging makes of a piece, which is not empty."""
        return self.merger.merge(piece, size, part == EARLIER, &space.scratch, &space.out, &space.unknown)

    cdef inline Cache* cache_of(self, Workspace space, int part) noexcept nogil:
        """The cache for pieces, or for parts of them that have no mark where the last ones have."""
        return &space.earlier if self.marked and part == EARLIER else &space.cache

    cdef int look_up(self, Workspace space) except -1 nogil:
        """Find the values of the pieces of the chunk that the front table does not have, and work out what is new.

        A piece that comes twice in a chunk is there the second time.
        """
        cdef Chunk* chunk = space.chunk
        cdef Cache* cache = &space.cache
        cdef Cache* earlier = self.cache_of(space, EARLIER)
        cdef size_t i
        cdef Py_ssize_t number
        cdef uint64_t key, value
        for i in range(chunk.n_missed):
            key, number = chunk.missed_key[i], chunk.missed[i]
            value = find_short(earlier if chunk.part[number] == EARLIER else cache, key)
            if value == 0:
                value = self.work_out(space, <const byte_t*>&key, key_size(key), chunk.part[number], key, 0)
            chunk.value[number] = value
            fetch_listed(cache, value)
        if earlier == cache:
            find_middles(chunk, cache)
        else:
            memset(chunk.found, 0, chunk.n_others * sizeof(uint64_t))
        for i in range(chunk.n_others):
            value = chunk.found[i]
            if value == 0:
                value = self.find_other(space, i)
            chunk.value[chunk.others[i]] = value
            fetch_listed(cache, value)
        return 0

    cdef uint64_t find_other(self, Workspace space, size_t i) except? 0 nogil:
        """The value of one of the words that one key does not hold, which is worked out if it is new."""
        cdef Chunk* chunk = space.chunk
        cdef int part = chunk.part[chunk.others[i]]
        cdef const Cache* cache = self.cache_of(space, part)
        cdef const byte_t* word = chunk.word[i]
        cdef Py_ssize_t size = chunk.size[i]
        cdef uint64_t lo = chunk.hash[i], hi = 0, value
        if size > LONG_WORD or part == LONE:
            return 0
        if is_middle(word, size):
            lo, hi = chunk.key[2 * i], chunk.key[2 * i + 1]
            value = find_middle(cache, lo, hi)
        else:
            value = find_long(cache, word, size, lo)
        return value if value else self.work_out(space, word, size, part, lo, hi)

    cdef uint64_t work_out(
        self, Workspace space, const byte_t* word, Py_ssize_t size, int part, uint64_t lo, uint64_t hi
    ) except? 0 nogil:
        """The value of a piece that is in no table, by merging, which is kept; 0 where the cache cannot have one.

        A whole word whose token is not what merging makes of it is not kept: as a part of a longer piece the same bytes
        are something else. `lo` and `hi` are the keys, of a long word the hash.
        """
        cdef Cache* cache = self.cache_of(space, part)
        cdef size_t before = space.out.n, n
        cdef token_t token = NO_TOKEN
        cdef uint64_t value
        if space.unknown:
            return 0
        if self.whole is not None:
            token = self.whole.find(word, size)
        if token != NO_TOKEN and part == ALL:
            return value_of(&space.cache, &token, 1)
        self.merge_piece(space, word, size, part)
        n = space.out.n - before
        value = 0 if space.unknown else value_of(&space.cache, space.out.data + before, n)
        space.out.n = before
        space.unknown = False                              # until its turn comes
        if value == 0 or token != NO_TOKEN:
            return value
        if space.words != NULL and cache == &space.cache:
            note(space.words, word, size, lo, hi, space.out.data + before, n)
        if is_middle(word, size):
            keep_middle(cache, lo, hi, value)
        elif size <= SHORT_WORD and word[size - 1] != 0xFF:
            keep_short(cache, lo, value)
        else:
            keep_long(cache, word, size, lo, value)
        return value

    cdef int emit(self, Workspace space, Py_ssize_t start, Py_ssize_t end) except -1 nogil:
        """Write the ids of some of the chunk's pieces."""
        cdef const uint64_t* values = space.chunk.value
        cdef token_t* out
        while True:
            reserve(&space.out, FEW_IDS * (end - start) + 16)
            out = space.out.data + space.out.n
            start += emit_values(values + start, end - start, space.cache.listed, &out)
            space.out.n = out - space.out.data
            if start >= end:
                return 0
            if values[start]:
                emit_listed(space, values[start])
            else:
                self.emit_uncached(space, start)
            start += 1

    cdef int emit_uncached(self, Workspace space, Py_ssize_t number) except -1 nogil:
        """Write the ids of a piece of the chunk that has no value."""
        cdef Chunk* chunk = space.chunk
        cdef size_t at = place_of(chunk.others, chunk.n_others, number)
        cdef const byte_t* word
        cdef Py_ssize_t size
        cdef token_t token = NO_TOKEN
        if at < chunk.n_others and chunk.others[at] == number:
            word, size = chunk.word[at], chunk.size[at]
            if chunk.part[number] == LONE:
                return self.emit_run(space, word)
        else:
            at = place_of(chunk.missed, chunk.n_missed, number)
            word, size = <const byte_t*>&chunk.missed_key[at], key_size(chunk.missed_key[at])
        if self.whole is not None and chunk.part[number] == ALL:
            token = self.whole.find(word, size)
        if token == NO_TOKEN:
            return self.merge_piece(space, word, size, chunk.part[number])
        reserve(&space.out, 1)
        space.out.data[space.out.n] = token
        space.out.n += 1
        return 0

    # Runs of characters of three bytes --------------------------------------------------------------------------------

    cdef int emit_run(self, Workspace space, const byte_t* text) except -1 nogil:
        """Write the ids of a run of parts, the next one of the chunk."""
        cdef Joined* joined
        while True:
            joined = &space.chunk.joined[space.chunk.next_joined]
            space.chunk.next_joined += 1
            self.emit_lone(space, text, joined.text)
            if joined.size == 0:
                return 0
            self.emit_joined(space, joined.text, joined.size)
            text = joined.text + joined.size

    cdef int emit_lone(self, Workspace space, const byte_t* text, const byte_t* end) except -1 nogil:
        """Write the ids of characters that no token reaches out of."""
        cdef const Lone* lone
        cdef token_t* out
        while text < end:
            reserve(&space.out, end - text + 1)            # 1: a character's number of ids is written behind them
            out = space.out.data + space.out.n
            while text < end:
                lone = lone_of(space, text)
                if lone.n == 0:
                    break
                memcpy(out, lone, sizeof(Lone))
                out += lone.n
                text += 3
            space.out.n = out - space.out.data
            if text < end and not self.learn_lone(space, text):
                self.merge_piece(space, text, 3, EARLIER)
                text += 3
        return 0

    cdef int emit_joined(self, Workspace space, const byte_t* word, Py_ssize_t size) except -1 nogil:
        """Write the ids of a part that has more characters.

        Most such parts have hashes that some token's borders have too, and no joined characters; and most come once,
        so that only those with joined ones are kept in the cache.
        """
        cdef uint64_t value, lo, hi = 0
        if size <= SHORT_WORD:
            lo = short_key(word, size, word + size)
            value = find_front(&space.cache, lo)
        else:
            memcpy(&lo, word, 8)
            hi = short_key(word + 8, size - 8, word + size)
            value = find_middle(&space.cache, lo, hi)
        if value == 0:
            if self.stay_apart(space, word, size):
                return self.emit_lone(space, word, word + size)
            if size <= SHORT_WORD:
                value = find_short(&space.cache, lo)
        if value == 0:
            value = self.work_out(space, word, size, EARLIER, lo, hi)
        if value == 0:
            return self.merge_piece(space, word, size, EARLIER)
        return emit_value(space, value)

    cdef bint stay_apart(self, Workspace space, const byte_t* word, Py_ssize_t size) except -1 nogil:
        """Whether no two characters of a part are joined; False also where that is not known without merging it."""
        cdef Py_ssize_t at
        cdef const Lone* left
        cdef const Lone* right = NULL
        if not self.merger.origins.ordered or self.merger.alphabet.chars:
            return False
        for at in range(0, size, 3):
            left, right = right, lone_of(space, word + at)
            if right.n == 0 and not self.learn_lone(space, word + at):
                return False
            if at and not self.merger.origins.side_by_side(
                &self.merger.table.pairs, left.ids[left.n - 1], right.ids[0], NO_LIMIT
            ):
                return False
        return True

    cdef bint learn_lone(self, Workspace space, const byte_t* text) except -1 nogil:
        """Work out what a character is by itself; False where it has a symbol without an id."""
        cdef size_t before = space.out.n
        cdef Lone* lone = lone_of(space, text)
        if space.unknown:
            return False
        self.merge_piece(space, text, 3, EARLIER)
        if not space.unknown:
            lone.n = <token_t>(space.out.n - before)
            memcpy(lone.ids, space.out.data + before, lone.n * sizeof(token_t))
        space.out.n = before
        space.unknown = False                              # until its turn comes
        return lone.n > 0

    cdef int run(self, Workspace space, int64_t* lengths) except -1 nogil:
        """Emit the ids of all that the feed has; `lengths` gets the number of ids of each fragment, unless NULL."""
        cdef Chunk* chunk = space.chunk
        cdef Feed* feed = space.feed
        cdef Joints joints
        cdef Py_ssize_t i, piece
        cdef size_t before = space.out.n
        joints.bits = NULL
        if self.splits is not None:
            joints = self.splits.joints
        while True:
            if space.cache.full:
                empty_cache(&space.cache)
                if self.marked:
                    empty_cache(&space.earlier)
                self.seeds.sow(&space.cache, &space.earlier)
            fill(chunk, feed, &joints, &space.cache, self.cache_of(space, EARLIER))
            if chunk.n == 0 and chunk.n_segments == 0:
                return 0
            self.look_up(space)
            if space.fresh_data != NULL and space.fresh_data == space.out.data:
                fresh_reach(&space.fresh, space.out.data + space.out.n)
            piece = 0
            for i in range(chunk.n_segments):
                self.emit(space, piece, chunk.segments[i].piece)
                piece = chunk.segments[i].piece
                if feed.fragments[chunk.segments[i].fragment].size < 0:
                    reserve(&space.out, 1)
                    space.out.data[space.out.n] = feed.fragments[chunk.segments[i].fragment].token
                    space.out.n += 1
                if lengths != NULL:
                    lengths[chunk.segments[i].fragment] = <int64_t>(space.out.n - before)
                if space.unknown and space.unknown_at < 0:
                    space.unknown_at = chunk.segments[i].fragment
                before = space.out.n
            self.emit(space, piece, chunk.n)

    # For Python -------------------------------------------------------------------------------------------------------

    def encode(self, text):
        """The ids of one str or bytes: (uint32 array, whether all symbols have an id)."""
        cdef Workspace space = self.workspace()
        cdef Fragment fragment
        cdef bytes held
        if isinstance(text, str) and PyUnicode_IS_ASCII(text):
            fragment.text = <const byte_t*>PyUnicode_AsUTF8AndSize(text, &fragment.size)
        else:
            held = text.encode() if isinstance(text, str) else text
            fragment.text, fragment.size = held, len(held)
        feed_fragments(space.feed, &fragment, 1, self.scanner)
        if fragment.size < SHORT_TEXT:
            self.run(space, NULL)
        else:
            with nogil:
                prepare_output(space, fragment.size)
                self.run(space, NULL)
        known = not space.unknown
        return self.taken(space), known

    def encode_spans(self, const byte_t[::1] text, const int64_t[::1] starts, const int64_t[::1] ends):
        """The same for a text whose pretokens, none of them empty, lie at the given byte offsets."""
        cdef Workspace space = self.workspace()
        cdef Fragment fragment
        if starts.shape[0]:
            fragment.text, fragment.size = &text[0], text.shape[0]
            feed_fragments(space.feed, &fragment, 1, -1)
            space.feed.starts, space.feed.ends, space.feed.n_given = &starts[0], &ends[0], starts.shape[0]
            with nogil:
                prepare_output(space, fragment.size)
                self.run(space, NULL)
        known = not space.unknown
        return self.taken(space), known

    def encode_piece(self, bytes piece):
        """The ids of one pretoken, merged without cache, as a list; NO_TOKEN for symbols without an id."""
        cdef Workspace space = Workspace(0)
        cdef token_t token = NO_TOKEN
        if piece:
            if self.whole is not None:
                token = self.whole.find(piece, len(piece))
            if token != NO_TOKEN:
                return [token]
            self.merge_piece(space, piece, len(piece), ALL)
        return [space.out.data[i] for i in range(space.out.n)]

    def cache_state(self):
        """What the caches of idle workspaces hold, for tests and benchmarks: a list of dicts of int."""
        cdef Workspace space = self.idle
        cdef int i
        states = []
        while space is not None:
            states.append({
                "short": space.cache.n_short,
                "short_room": <size_t>4 << (64 - space.cache.lines_shift),
                "middle": space.cache.n_middle,
                "middle_room": <size_t>2 << (64 - space.cache.middles_shift),
                "long": space.cache.n_long,
                "long_room": space.cache.longs_mask + 1,
                "kept": space.cache.n_kept,
                "listed": space.cache.n_listed,
                "lone": sum(space.lone[i].n > 0 for i in range(LONE_ROOM)),
                "earlier": space.earlier.n_short + space.earlier.n_middle + space.earlier.n_long,
                "bytes": cache_bytes(&space.cache) + (cache_bytes(&space.earlier) if self.marked else 0),
            })
            space = space.next
        return states

    # Workspaces -------------------------------------------------------------------------------------------------------

    cdef Workspace workspace(self):
        """An idle workspace, or a new one."""
        cdef Workspace space
        with cython.critical_section(self):
            space = self.idle
            if space is not None:
                self.idle = space.next
                space.next = None
                return space
        space = Workspace(self.memory, self.marked)
        with nogil:
            self.seeds.sow(&space.cache, &space.earlier)
        return space

    cdef int give_back(self, Workspace space) except -1:
        """Make a workspace idle."""
        space.reset()
        with cython.critical_section(self):
            space.next = self.idle
            self.idle = space
        return 0

    cdef object taken(self, Workspace space):
        """The output as an array of its own; the workspace goes back."""
        ids = as_array(&space.out)
        self.give_back(space)
        return ids


cdef object as_array(Ids* ids):
    """Ids as an array: short ones are copied, of more the memory is handed over."""
    cdef cnp.npy_intp n = ids.n
    cdef Memory memory
    cdef void* data
    if n <= COPIED:
        array = cnp.PyArray_EMPTY(1, &n, cnp.NPY_UINT32, 0)
        if n:
            memcpy(cnp.PyArray_DATA(array), ids.data, n * sizeof(token_t))
        return array
    memory = Memory()
    data = realloc(ids.data, n * sizeof(token_t))
    memory.data = data if data != NULL else <void*>ids.data
    ids[0] = Ids(data=NULL, n=0, room=0)
    array = cnp.PyArray_SimpleNewFromData(1, &n, cnp.NPY_UINT32, memory.data)
    cnp.set_array_base(array, memory)
    return array


cdef int emit_value(Workspace space, uint64_t value) except -1 nogil:
    """Write the ids of any value."""
    cdef Ids* out = &space.out
    if not has_ids(value):
        return emit_listed(space, value)
    reserve(out, 2)
    out.data[out.n] = <token_t>value - 1
    out.data[out.n + 1] = <token_t>(value >> 32) - 1
    out.n += 1 + (value >> 32 != 0)
    return 0


cdef inline int emit_listed(Workspace space, uint64_t value) except -1 nogil:
    """Write the ids, more than a few, of a value that says where they are listed."""
    cdef const token_t* listed = space.cache.listed + (value >> 32)
    cdef size_t n = listed[0], i
    cdef Ids* out = &space.out
    reserve(out, n + 3)
    for i in range(0, n, 4):                               # four at a time: a call for a few ids would take longer
        memcpy(out.data + out.n + i, listed + 1 + i, 4 * sizeof(token_t))
    out.n += n
    return 0


cdef inline Lone* lone_of(Workspace space, const byte_t* text) noexcept nogil:
    """The place of a character of three bytes."""
    return &space.lone[(text[0] & 15) << 12 | (text[1] & 63) << 6 | text[2] & 63]


cdef inline bint is_middle(const byte_t* word, Py_ssize_t size) noexcept nogil:
    """Whether a word is one of two keys."""
    return SHORT_WORD < size <= MIDDLE_WORD and word[size - 1] != 0xFF


cdef inline size_t place_of(const uint16_t* numbers, size_t n, Py_ssize_t number) noexcept nogil:
    """The first place of rising numbers that has this one or a greater one; n if none has."""
    cdef size_t low = 0, middle
    while low < n:
        middle = (low + n) >> 1
        if numbers[middle] < number:
            low = middle + 1
        else:
            n = middle
    return low


cdef void feed_fragments(Feed* feed, const Fragment* fragments, Py_ssize_t n, int scanner) noexcept nogil:
    """Begin with a list of fragments."""
    feed.fragments = fragments
    feed.n_fragments = n
    feed.done = 0
    feed.shared = feed.open = False
    feed.scanner = scanner
    feed.starts = NULL
    feed.n_found = feed.next = feed.within = 0


cdef int prepare_output(Workspace space, size_t n_bytes) except -1 nogil:
    """Room for what a text of so many bytes is likely to give, in the pages that come quickest."""
    cdef size_t n = n_bytes // 2 + 1024
    cdef Ids* out = &space.out
    if n > COPIED and n > out.room:
        out.data = <token_t*>grown(out.data, &out.room, n, sizeof(token_t))
        space.fresh_data = out.data
        fresh_begin(&space.fresh, out.data, out.room * sizeof(token_t))
    return 0
