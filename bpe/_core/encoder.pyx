"""Encoding: pretokens to token ids, by rank lookup tables, a cache of words, and merging.

A piece goes through these steps, the first that knows it answering: the word cache (pieces of at most 15 bytes), the
table of whole words (for vocabularies in which a word that is a token is that token), merging. Merging looks up pairs
of ids in an open-addressing table of (left, right) → (rank, id); a short piece is merged by scanning for the best
rank, a long one with a heap, so that no text takes quadratic time.

Tables are immutable and shared by all threads. Each call takes a workspace (cache, buffers) from a list and puts it
back; list.pop and list.append are atomic, so there is no lock, and no two threads ever have the same one.

Not here: special tokens, normalization, what text is (`bpe/encoding.py`).
"""

import numpy as np

from bpe._core.memory cimport INLINE_BYTES, Key, grown, hash_bytes, hash_key, load_key, mix, prefetch
from bpe._core.scan cimport Cursor, begin, scan
from bpe._core.types cimport NO_TOKEN, byte_t, token_t
from bpe._core.unicode cimport decode_char
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memmove, memset

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef extern from *:
    """
    #define BPE_EMPTY UINT64_MAX
    """
    const uint64_t EMPTY "BPE_EMPTY"         # a free slot of the pair table; as a merge, none

cdef enum:
    BATCH = 256               # pieces scanned, hashed and prefetched before they are looked up
    INLINE_IDS = 3            # ids that a cache slot holds itself
    FIRST_SLOTS = 1 << 10     # of a cache, a power of two
    MOST_SLOTS = 1 << 18      # 8 MB; a fuller cache is emptied
    MOST_LISTED = 1 << 20     # ids of longer words kept beside the slots, 4 MB
    SCANNED_SYMBOLS = 48      # a piece of at most this many symbols is merged by scanning
    KEPT_OUTPUT = 1 << 20     # ids: a larger output buffer is let go after the call

cdef struct Word:             # a cached word
    Key key
    uint32_t n                # how many ids
    token_t ids[INLINE_IDS]   # the ids, or ids[0] the place of more than that many in the list

cdef struct Link:             # a symbol of a long piece
    uint64_t merge            # what it makes with the next one: rank << 32 | id, or EMPTY
    token_t token
    uint32_t before
    uint32_t behind


def pair_table(const int[:, ::1] merges, const int[::1] ids, const int[::1] ranks):
    """The merges as an open-addressing table, built once: uint64, shape (a power of two, 2).

    A row is (left << 32 | right, rank << 32 | id); a free one has all bits set in its first cell. Of a pair given
    twice the better rank counts.
    """
    cdef Py_ssize_t n = merges.shape[0], i
    cdef size_t size = 16, at, mask
    while size < <size_t>n * 2:
        size *= 2
    mask = size - 1
    table = np.full((size, 2), EMPTY, dtype=np.uint64)
    cdef uint64_t[:, ::1] slots = table
    cdef uint64_t key, value
    for i in range(n):
        key = <uint64_t>merges[i, 0] << 32 | <uint64_t>merges[i, 1]
        value = <uint64_t>ranks[i] << 32 | <uint64_t>ids[i]
        at = mix(key, <uint64_t>0x9E3779B97F4A7C15) & mask
        while slots[at, 0] != EMPTY and slots[at, 0] != key:
            at = (at + 1) & mask
        slots[at, 0] = key
        if value < slots[at, 1]:
            slots[at, 1] = value
    return table


cdef class Workspace:
    """What one call needs for itself: the word cache, the output, room to merge in. Bounded but for the output."""

    cdef Word* words
    cdef size_t n_slots
    cdef size_t n_words
    cdef token_t* listed
    cdef size_t n_listed
    cdef size_t listed_room
    cdef token_t* out
    cdef size_t n_out
    cdef size_t out_room
    cdef Link* links
    cdef size_t links_room
    cdef uint64_t* heap
    cdef size_t heap_size
    cdef size_t heap_room
    cdef token_t* symbols
    cdef size_t symbols_room
    cdef Py_ssize_t unknown       # offset in the text of the first symbol without an id, or -1

    def __cinit__(self):
        self.n_slots = FIRST_SLOTS
        self.words = <Word*>calloc(self.n_slots, sizeof(Word))
        if self.words == NULL:
            raise MemoryError("no memory for a word cache")
        self.unknown = -1

    def __dealloc__(self):
        free(self.words)
        free(self.listed)
        free(self.out)
        free(self.links)
        free(self.heap)
        free(self.symbols)

    cdef int reset(self) noexcept nogil:
        """Ready for the next call; the cache stays."""
        self.n_out = 0
        self.unknown = -1
        if self.out_room > KEPT_OUTPUT:
            free(self.out)
            self.out, self.out_room = NULL, 0
        if self.links_room > KEPT_OUTPUT:
            free(self.links)
            free(self.heap)
            free(self.symbols)
            self.links, self.links_room = NULL, 0
            self.heap, self.heap_room = NULL, 0
            self.symbols, self.symbols_room = NULL, 0
        return 0

    cdef inline int emit(self, token_t token) except -1 nogil:
        if self.n_out == self.out_room:
            self.out = <token_t*>grown(self.out, &self.out_room, self.n_out + 1, sizeof(token_t))
        self.out[self.n_out] = token
        self.n_out += 1
        return 0

    cdef int remember(self, Key key, uint64_t hashed, const token_t* ids, size_t n) except -1 nogil:
        """Enter a word into the cache, which is grown, or emptied once it is as large as it may be."""
        cdef size_t at
        cdef Word* word
        if self.n_words * 8 >= self.n_slots * 5 or self.n_listed + n > MOST_LISTED:
            self.make_room()
        at = hashed & (self.n_slots - 1)
        while self.words[at].key.hi != 0:
            at = (at + 1) & (self.n_slots - 1)
        word = &self.words[at]
        word.key = key
        word.n = <uint32_t>n
        if n <= INLINE_IDS:
            memcpy(word.ids, ids, n * sizeof(token_t))
        else:
            self.listed = <token_t*>grown(self.listed, &self.listed_room, self.n_listed + n, sizeof(token_t))
            memcpy(self.listed + self.n_listed, ids, n * sizeof(token_t))
            word.ids[0] = <token_t>self.n_listed
            self.n_listed += n
        self.n_words += 1
        return 0

    cdef int make_room(self) except -1 nogil:
        cdef size_t i, at, larger = self.n_slots * 2
        cdef Word* words = NULL
        if larger <= MOST_SLOTS and self.n_listed < MOST_LISTED // 2:
            words = <Word*>calloc(larger, sizeof(Word))
        if words == NULL:                              # as large as it may be, or no memory to grow: begin anew
            memset(self.words, 0, self.n_slots * sizeof(Word))
            self.n_words = self.n_listed = 0
            return 0
        for i in range(self.n_slots):
            if self.words[i].key.hi != 0:
                at = hash_key(self.words[i].key) & (larger - 1)
                while words[at].key.hi != 0:
                    at = (at + 1) & (larger - 1)
                words[at] = self.words[i]
        free(self.words)
        self.words = words
        self.n_slots = larger
        return 0


cdef class Encoder:
    """The tables of one tokenizer, and encoding with them. Immutable but for the list of idle workspaces."""

    cdef const uint32_t[::1] inner
    cdef const uint32_t[::1] last
    cdef const uint64_t[:, ::1] pairs
    cdef const uint64_t* slots         # the pair table's first cell
    cdef size_t mask
    cdef token_t mark
    cdef token_t unk
    cdef bint fuse_unk
    cdef bint chars
    cdef int scanner
    cdef uint32_t* whole               # index + 1 of a whole word by the hash of its bytes, 0 where empty
    cdef size_t whole_mask
    cdef object whole_blob
    cdef const byte_t[::1] whole_bytes
    cdef const int64_t[::1] whole_offsets
    cdef const uint32_t[::1] whole_ids
    cdef list idle

    def __cinit__(self):
        self.idle = []

    def __dealloc__(self):
        free(self.whole)

    def __init__(
        self,
        const uint32_t[::1] inner,         # token of a byte or code point; NO_TOKEN outside the alphabet
        const uint32_t[::1] last,          # the same at the last place of a word
        const uint64_t[:, ::1] pairs,      # of `pair_table`
        uint32_t mark,                     # the end-of-word mark where it is a symbol of its own, else NO_TOKEN
        uint32_t unk,                      # the unknown token, or NO_TOKEN
        bint fuse_unk,
        bint chars,                        # symbols are characters, not bytes
        int scanner,                       # of _core/scan; -1 where spans are given
    ):
        self.inner = inner
        self.last = last
        self.pairs = pairs
        self.slots = &pairs[0, 0]
        self.mask = pairs.shape[0] - 1
        self.mark = mark
        self.unk = unk
        self.fuse_unk = fuse_unk
        self.chars = chars
        self.scanner = scanner

    def set_whole_words(self, bytes blob, const int64_t[::1] offsets, const uint32_t[::1] ids, bint all_of_them):
        """Make word i, `blob[offsets[i]:offsets[i + 1]]`, the token `ids[i]` whatever the merges say.

        Unless `all_of_them`, only words are entered that merging would make anything else of. Called once, before any
        encoding.
        """
        cdef Workspace space = Workspace()
        cdef Py_ssize_t i, n = ids.shape[0]
        cdef size_t size = 16, at
        cdef const byte_t* data = blob
        kept = np.zeros(n, dtype=np.uint8)
        cdef byte_t[::1] keep = kept
        with nogil:
            for i in range(n):
                space.n_out = 0
                self.merge_piece(space, data, offsets[i], offsets[i + 1] - offsets[i])
                keep[i] = all_of_them or space.n_out != 1 or space.out[0] != ids[i]
        chosen = np.flatnonzero(kept)
        if not len(chosen):
            return
        while size < <size_t>len(chosen) * 2:
            size *= 2
        self.whole = <uint32_t*>calloc(size, sizeof(uint32_t))
        if self.whole == NULL:
            raise MemoryError("no memory for the table of whole words")
        self.whole_mask = size - 1
        self.whole_blob = blob
        self.whole_bytes = blob
        self.whole_offsets = offsets
        self.whole_ids = ids
        for number in chosen.tolist():
            i = number
            at = hash_bytes(data + offsets[i], offsets[i + 1] - offsets[i]) & self.whole_mask
            while self.whole[at] != 0:
                at = (at + 1) & self.whole_mask
            self.whole[at] = <uint32_t>(i + 1)

    # Merging ----------------------------------------------------------------------------------------------------------

    cdef inline uint64_t find(self, token_t left, token_t right) noexcept nogil:
        """What two tokens make: rank << 32 | id, or EMPTY."""
        cdef uint64_t key = <uint64_t>left << 32 | right
        cdef size_t at = mix(key, <uint64_t>0x9E3779B97F4A7C15) & self.mask
        while self.slots[2 * at] != EMPTY:
            if self.slots[2 * at] == key:
                return self.slots[2 * at + 1]
            at = (at + 1) & self.mask
        return EMPTY

    cdef Py_ssize_t symbols_of(
        self, Workspace space, const byte_t* text, Py_ssize_t start, Py_ssize_t size
    ) except -1 nogil:
        """Write the symbols of a piece into `space.symbols`; how many they are."""
        cdef Py_ssize_t pos = start, end = start + size, length = 1, n = 0, at
        cdef uint32_t code, token
        cdef token_t* symbols
        space.symbols = <token_t*>grown(space.symbols, &space.symbols_room, size + 1, sizeof(token_t))
        symbols = space.symbols
        while pos < end:
            at = pos
            if self.chars:
                code = decode_char(text, pos, end, &length)
            else:
                code = text[pos]
            pos += length
            token = NO_TOKEN
            if pos < end:
                if code < <size_t>self.inner.shape[0]:
                    token = self.inner[code]
            elif code < <size_t>self.last.shape[0]:
                token = self.last[code]
            if token == NO_TOKEN:
                token = self.unk
                if token == NO_TOKEN and space.unknown < 0:
                    space.unknown = at
                elif self.fuse_unk and n > 0 and symbols[n - 1] == token:
                    continue
            symbols[n] = token
            n += 1
        if self.mark != NO_TOKEN:
            symbols[n] = self.mark
            n += 1
        return n

    cdef int merge_piece(self, Workspace space, const byte_t* text, Py_ssize_t start, Py_ssize_t size) except -1 nogil:
        """Emit the ids that merging makes of a piece."""
        cdef Py_ssize_t n = self.symbols_of(space, text, start, size), i
        if n > SCANNED_SYMBOLS:
            return self.merge_with_heap(space, n)
        n = self.merge_by_scanning(space.symbols, n)
        for i in range(n):
            space.emit(space.symbols[i])
        return 0

    cdef Py_ssize_t merge_by_scanning(self, token_t* symbols, Py_ssize_t n) noexcept nogil:
        """Merge up to SCANNED_SYMBOLS symbols in place, the best rank first, the leftmost of equal ones; the new
        number.

        Worked example with GPT-2's ranks: `l o w e s t` has e s, then es t, l o and lo w; `low est` is left.
        """
        cdef uint64_t merges[SCANNED_SYMBOLS]
        cdef uint64_t best
        cdef Py_ssize_t i, at
        for i in range(n - 1):
            merges[i] = self.find(symbols[i], symbols[i + 1])
        while n > 1:
            best = EMPTY
            at = 0
            for i in range(n - 1):
                if merges[i] < best:
                    best = merges[i]
                    at = i
            if best == EMPTY:
                break
            symbols[at] = <token_t>best
            n -= 1
            memmove(symbols + at + 1, symbols + at + 2, (n - at - 1) * sizeof(token_t))
            memmove(merges + at, merges + at + 1, (n - at - 1) * sizeof(uint64_t))
            if at > 0:
                merges[at - 1] = self.find(symbols[at - 1], symbols[at])
            if at < n - 1:
                merges[at] = self.find(symbols[at], symbols[at + 1])
        return n

    cdef int merge_with_heap(self, Workspace space, Py_ssize_t n) except -1 nogil:
        """Merge the n symbols of a long piece and emit what is left: a heap of (rank, place) over a linked list.

        An entry is stale unless the symbol at its place still has a merge of that rank with the one behind it.
        """
        cdef Link* links
        cdef uint64_t entry
        cdef uint32_t at, behind, none = <uint32_t>n
        cdef Py_ssize_t i
        if <size_t>n >= NO_TOKEN:
            with gil:
                raise ValueError(f"a piece of {n} symbols is too long to merge; at most 2**32 - 2 fit: split the text")
        space.links = <Link*>grown(space.links, &space.links_room, n, sizeof(Link))
        space.heap = <uint64_t*>grown(space.heap, &space.heap_room, n, sizeof(uint64_t))
        links = space.links
        space.heap_size = 0
        for i in range(n):
            links[i].token = space.symbols[i]
            links[i].before = <uint32_t>i - 1 if i > 0 else none
            links[i].behind = <uint32_t>i + 1
            links[i].merge = self.find(space.symbols[i], space.symbols[i + 1]) if i < n - 1 else EMPTY
            if links[i].merge != EMPTY:
                self.push(space, (links[i].merge >> 32) << 32 | <uint64_t>i)
        while space.heap_size > 0:
            entry = self.pop(space)
            at = <uint32_t>entry
            if links[at].merge == EMPTY or links[at].merge >> 32 != entry >> 32:
                continue
            behind = links[at].behind
            links[at].token = <token_t>links[at].merge
            links[at].behind = links[behind].behind
            links[behind].merge = EMPTY
            links[behind].token = NO_TOKEN
            if links[at].behind != none:
                links[links[at].behind].before = at
            self.look_behind(space, at, none)
            if links[at].before != none:
                self.look_behind(space, links[at].before, none)
        at = 0
        while at != none:
            space.emit(links[at].token)
            at = links[at].behind
        return 0

    cdef int look_behind(self, Workspace space, uint32_t at, uint32_t none) except -1 nogil:
        """Find the merge of a symbol with the one behind it, and queue it."""
        cdef Link* link = &space.links[at]
        link.merge = EMPTY
        if link.behind != none:
            link.merge = self.find(link.token, space.links[link.behind].token)
            if link.merge != EMPTY:
                self.push(space, (link.merge >> 32) << 32 | at)
        return 0

    cdef int push(self, Workspace space, uint64_t entry) except -1 nogil:
        cdef size_t at = space.heap_size, parent
        space.heap = <uint64_t*>grown(space.heap, &space.heap_room, at + 1, sizeof(uint64_t))
        space.heap_size += 1
        while at > 0:
            parent = (at - 1) >> 1
            if space.heap[parent] <= entry:
                break
            space.heap[at] = space.heap[parent]
            at = parent
        space.heap[at] = entry
        return 0

    cdef uint64_t pop(self, Workspace space) noexcept nogil:
        cdef uint64_t top = space.heap[0], entry
        cdef size_t at = 0, child
        space.heap_size -= 1
        entry = space.heap[space.heap_size]
        while True:
            child = 2 * at + 1
            if child >= space.heap_size:
                break
            if child + 1 < space.heap_size and space.heap[child + 1] < space.heap[child]:
                child += 1
            if entry <= space.heap[child]:
                break
            space.heap[at] = space.heap[child]
            at = child
        space.heap[at] = entry
        return top

    # Pieces -----------------------------------------------------------------------------------------------------------

    cdef token_t whole_word(self, const byte_t* word, Py_ssize_t size) noexcept nogil:
        """The token that a whole word is, whatever the merges say, or NO_TOKEN."""
        cdef size_t at = hash_bytes(word, size) & self.whole_mask
        cdef Py_ssize_t i
        while self.whole[at] != 0:
            i = self.whole[at] - 1
            if (
                self.whole_offsets[i + 1] - self.whole_offsets[i] == size
                and memcmp(&self.whole_bytes[self.whole_offsets[i]], word, size) == 0
            ):
                return self.whole_ids[i]
            at = (at + 1) & self.whole_mask
        return NO_TOKEN

    cdef int work_out(self, Workspace space, const byte_t* text, Py_ssize_t start, Py_ssize_t size) except -1 nogil:
        """Emit the ids of a piece that is not cached."""
        cdef token_t token
        if self.whole != NULL:
            token = self.whole_word(text + start, size)
            if token != NO_TOKEN:
                return space.emit(token)
        return self.merge_piece(space, text, start, size)

    cdef int encode_pieces(
        self, Workspace space, const byte_t* text, const Py_ssize_t* starts, const Py_ssize_t* ends, Py_ssize_t n,
        Py_ssize_t text_end,
    ) except -1 nogil:
        """Emit the ids of up to BATCH pieces; their cache slots are prefetched before the first is looked up."""
        cdef Key keys[BATCH]
        cdef uint64_t hashes[BATCH]
        cdef Py_ssize_t i, size
        cdef size_t before
        cdef Word* word
        cdef const token_t* ids
        for i in range(n):
            size = ends[i] - starts[i]
            if size <= INLINE_BYTES:
                keys[i] = load_key(text, starts[i], size, text_end)
                hashes[i] = hash_key(keys[i])
                prefetch(&space.words[hashes[i] & (space.n_slots - 1)])
        for i in range(n):
            size = ends[i] - starts[i]
            if size > INLINE_BYTES:
                self.work_out(space, text, starts[i], size)
                continue
            word = find_word(space, keys[i], hashes[i])
            before = space.n_out
            if word != NULL:
                space.out = <token_t*>grown(space.out, &space.out_room, before + word.n, sizeof(token_t))
                ids = &word.ids[0] if word.n <= INLINE_IDS else space.listed + word.ids[0]
                memcpy(space.out + before, ids, word.n * sizeof(token_t))
                space.n_out += word.n
                continue
            self.work_out(space, text, starts[i], size)
            if space.unknown < 0:
                space.remember(keys[i], hashes[i], space.out + before, space.n_out - before)
        return 0

    cdef int encode_scanned(self, Workspace space, const byte_t* text, Py_ssize_t size) except -1 nogil:
        """Emit the ids of a text whose pretokens a scanner finds."""
        cdef Py_ssize_t starts[BATCH]
        cdef Py_ssize_t ends[BATCH]
        cdef Py_ssize_t n = BATCH
        cdef Cursor cursor
        begin(&cursor, self.scanner, text, 0, size)
        while n == BATCH:
            n = scan(&cursor, starts, ends, BATCH)
            self.encode_pieces(space, text, starts, ends, n, size)
        return 0

    # For Python -------------------------------------------------------------------------------------------------------

    def encode(self, text):
        """The ids of one str or bytes: (uint32 array, offset of the first symbol without an id or -1)."""
        cdef Workspace space = self.workspace()
        cdef const byte_t* data
        cdef Py_ssize_t size
        cdef bytes held
        if isinstance(text, str) and PyUnicode_IS_ASCII(text):
            data = <const byte_t*>PyUnicode_AsUTF8AndSize(text, &size)
        else:
            held = text.encode() if isinstance(text, str) else text
            data, size = held, len(held)
        if size < 2000:
            self.encode_scanned(space, data, size)         # too short for letting the GIL go to pay
        else:
            with nogil:
                self.encode_scanned(space, data, size)
        return self.taken(space)

    def encode_spans(self, const byte_t[::1] text, const int64_t[::1] starts, const int64_t[::1] ends):
        """The same for a text whose pretokens lie at the given byte offsets."""
        cdef Workspace space = self.workspace()
        cdef Py_ssize_t first[BATCH]
        cdef Py_ssize_t behind[BATCH]
        cdef Py_ssize_t i, n, done = 0, total = starts.shape[0], size = text.shape[0]
        if total:
            with nogil:
                while done < total:
                    n = min(<Py_ssize_t>BATCH, total - done)
                    for i in range(n):
                        first[i] = starts[done + i]
                        behind[i] = ends[done + i]
                    self.encode_pieces(space, &text[0], first, behind, n, size)
                    done += n
        return self.taken(space)

    def encode_items(self, list items, const int64_t[::1] bounds):
        """The ids of many texts, each the items `bounds[i]` to `bounds[i + 1]`: UTF-8 bytes, str, or an id as int.

        Returns:
            (uint32 ids; int64 number of ids of each text; index of the first text with a symbol without an id, or -1).

        """
        cdef Workspace space = self.workspace()
        cdef Py_ssize_t n = len(items), i, k, n_texts = bounds.shape[0] - 1, bad = -1
        pointers = np.empty(n, dtype=np.uintp)
        sizes = np.empty(n, dtype=np.intp)                 # -1: the pointer is an id
        lengths = np.zeros(n_texts, dtype=np.int64)
        cdef size_t[::1] pointer = pointers
        cdef Py_ssize_t[::1] size = sizes
        cdef int64_t[::1] length = lengths
        cdef size_t before
        held = []                                          # what the pointers point into, beside `items`
        for i in range(n):
            item = items[i]
            if isinstance(item, str):
                if PyUnicode_IS_ASCII(item):
                    pointer[i] = <size_t>PyUnicode_AsUTF8AndSize(item, &size[i])
                    continue
                item = item.encode()
                held.append(item)
            if isinstance(item, bytes):
                pointer[i] = <size_t><char*><bytes>item
                size[i] = len(<bytes>item)
            else:
                pointer[i] = <size_t>item
                size[i] = -1
        with nogil:
            for i in range(n_texts):
                before = space.n_out
                for k in range(bounds[i], bounds[i + 1]):
                    if size[k] < 0:
                        space.emit(<token_t>pointer[k])
                    else:
                        self.encode_scanned(space, <const byte_t*>pointer[k], size[k])
                length[i] = <int64_t>(space.n_out - before)
                if space.unknown >= 0 and bad < 0:
                    bad = i
        ids, _ = self.taken(space)
        return ids, lengths, bad

    def encode_piece(self, bytes piece):
        """The ids of one pretoken, merged without cache, as a list; NO_TOKEN for symbols without an id."""
        cdef Workspace space = Workspace()
        if piece:
            self.work_out(space, piece, 0, len(piece))
        return [space.out[i] for i in range(space.n_out)]

    cdef Workspace workspace(self):
        """An idle workspace, or a new one."""
        try:
            return self.idle.pop()
        except IndexError:
            return Workspace()

    cdef tuple taken(self, Workspace space):
        """The output as an array of its own and the first unknown symbol's offset; the workspace goes back."""
        cdef Py_ssize_t unknown = space.unknown
        ids = np.empty(space.n_out, dtype=np.uint32)
        cdef uint32_t[::1] view
        if space.n_out:
            view = ids
            memcpy(&view[0], space.out, space.n_out * sizeof(token_t))
        space.reset()
        self.idle.append(space)
        return ids, unknown


cdef Word* find_word(Workspace space, Key key, uint64_t hashed) noexcept nogil:
    """The cached word of a key, or NULL."""
    cdef size_t at = hashed & (space.n_slots - 1)
    while space.words[at].key.hi != 0:
        if space.words[at].key.lo == key.lo and space.words[at].key.hi == key.hi:
            return &space.words[at]
        at = (at + 1) & (space.n_slots - 1)
    return NULL


def merges_of_ranks(bytes blob, const int64_t[::1] offsets, const uint32_t[::1] byte_ids):
    """Recover the merges of a rank file: token i has rank i and the bytes `blob[offsets[i]:offsets[i + 1]]`.

    Each token's bytes are merged with the merges found so far, all of better rank; the two tokens left are its merge. A
    token that ends as more than two can never be made by merging and has none.

    Returns:
        (int32 pairs, shape (n, 2); -1, -1 where there is none. A token of a single byte has none.)

    """
    cdef Py_ssize_t n = offsets.shape[0] - 1, i, size
    cdef size_t room = 16, at
    while room < <size_t>n * 2:
        room *= 2
    table = np.full((room, 2), EMPTY, dtype=np.uint64)
    cdef uint64_t[:, ::1] slots = table
    cdef Encoder encoder = Encoder(byte_ids, byte_ids, table, NO_TOKEN, NO_TOKEN, False, False, 0)
    cdef Workspace space = Workspace()
    cdef const byte_t* data = blob
    cdef uint64_t key
    pairs = np.full((n, 2), -1, dtype=np.int32)
    cdef int[:, ::1] pair = pairs
    with nogil:
        for i in range(n):
            size = offsets[i + 1] - offsets[i]
            if size < 2:
                continue
            space.n_out = 0
            encoder.merge_piece(space, data, offsets[i], size)
            if space.n_out != 2 or space.out[0] == NO_TOKEN or space.out[1] == NO_TOKEN:
                continue
            pair[i, 0], pair[i, 1] = <int>space.out[0], <int>space.out[1]
            key = <uint64_t>space.out[0] << 32 | space.out[1]
            at = mix(key, <uint64_t>0x9E3779B97F4A7C15) & (room - 1)
            while slots[at, 0] != EMPTY:
                at = (at + 1) & (room - 1)
            slots[at, 0] = key
            slots[at, 1] = <uint64_t>i << 32 | <uint64_t>i
    return pairs
