"""The merge loop of training: symbols in one flat array, exact occurrence lists, a lazy priority queue.

Every distinct word stands once in an array of cells, a separator before the first word and after each. A token's id
stands in its first and in its last cell, so that its left neighbour is found at p - 1 and its right one at p + width;
there are no links. Merging (a, b) at p writes three cells:

        p        q = p + width(a)               p
    | a . . a | b . b |          becomes    | c . . . x . c |      x: the first cell of b is DEAD

A position list holds the first cells of a pair's occurrences, ascending. Entries go stale when a neighbour's merge
takes an occurrence away, and are told by the cells: a stale position no longer starts an `a` with a `b` behind it,
since a token that grew has another id and a cell inside a token is DEAD or holds an id wider than any that began
there. So `aaaa` merges at 0 and 2: the occurrence at 1 is dead by the time it is reached.

Counts are exact at every step. A pair's count is complete when it is born and only falls afterwards (but for two merges
that spell the same token), so a popped entry with the right count is the best there is.

Not here: counting words, alphabets, what ids and options mean (`bpe/training.py`).
"""

from bpe._core.heap cimport Entry, Heap, heapify, pop, push
from bpe._core.memory cimport add_overflows, grown, hash_bytes, mix, mul_overflows, prefetch
from bpe._core.types cimport BARRIER, DEAD, NO_TOKEN, byte_t, cell_t, count_t, token_t
from bpe._core.unicode cimport decode_char
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcmp, memcpy, memset

cdef extern from *:
    """
    #define BPE_NO_PAIR UINT32_MAX
    """
    const uint32_t NO_PAIR "BPE_NO_PAIR"     # no such pair

cdef enum:
    AHEAD = 8                 # positions prefetched ahead of the one that is merged

cdef enum TieBreak:
    BY_ID = 0
    BY_FIRST = 1
    BY_SMALLEST = 2
    BY_GREATEST = 3

cdef enum Stop:
    RUNNING = 0
    NO_PAIRS = 1
    RARE = 2                  # the best pair is below min_frequency

cdef struct Cell:
    token_t token
    uint32_t word             # the word that the cell belongs to, for its frequency

cdef struct Pair:
    token_t left
    token_t right
    count_t count
    cell_t* places            # first cells of its occurrences, ascending, stale ones among them
    size_t n_places
    size_t room
    size_t head               # places before this one are stale
    bint unsorted             # places were added out of order (only where a count rose)

cdef struct Token:
    size_t offset             # its bytes
    uint32_t size
    cell_t width              # its length in symbols
    bint ends_word
    bint reserved             # special and unknown tokens: no merge makes or takes part in them

cdef struct Neighbour:        # what the current merge knows of the pair with one neighbour
    uint32_t stamp            # valid where equal to the current step
    uint32_t pair


def symbol_counts(
    const byte_t[::1] blob,            # IN the words' bytes
    const int64_t[::1] offsets,        # IN (n + 1,)
    const int64_t[::1] counts,         # IN (n,)
    bint chars,                        # symbols are characters, not bytes
    int64_t[::1] inner,                # OUT occurrences of each symbol before the last place of a word
    int64_t[::1] last,                 # OUT and at the last place
):
    """Count the symbols of all words; returns (symbols in the array, whether a count overflowed).

    The first number is how many symbols the distinct words have together, whatever their counts.
    """
    cdef Py_ssize_t i, pos, end, length, n = counts.shape[0]
    cdef int64_t cells = 0, weight
    cdef long long total = 0, weighed = 0
    cdef uint32_t code
    cdef bint overflow = False
    if n == 0 or blob.shape[0] == 0:
        return 0, False
    with nogil:
        for i in range(n):
            weight = 0
            pos, end = offsets[i], offsets[i + 1]
            while pos < end:
                if chars:
                    code = decode_char(&blob[0], pos, end, &length)
                else:
                    code, length = blob[pos], 1
                pos += length
                weight += 1
                if pos < end:
                    inner[code] += counts[i]
                else:
                    last[code] += counts[i]
            cells += weight
            # One more per word leaves room for an end-of-word mark.
            overflow = mul_overflows(weight + 1, counts[i], &weighed) or add_overflows(total, weighed, &total)
            if overflow:
                break
    return cells, overflow


cdef struct Strings:          # what comparing two pairs by their tokens' bytes needs; they move as they grow
    Pair** pairs
    Token** tokens
    byte_t** bytes


cdef int compare_tokens(const Strings* strings, token_t a, token_t b) noexcept nogil:
    cdef const Token* first = &strings.tokens[0][a]
    cdef const Token* second = &strings.tokens[0][b]
    cdef int found = memcmp(
        strings.bytes[0] + first.offset, strings.bytes[0] + second.offset, min(first.size, second.size)
    )
    if found:
        return found
    return (first.size > second.size) - (first.size < second.size)


cdef int compare_pairs(const void* context, const Entry* a, const Entry* b) noexcept nogil:
    """Order two pairs as (left bytes, right bytes)."""
    cdef const Strings* strings = <const Strings*>context
    cdef const Pair* first = &strings.pairs[0][a.pair]
    cdef const Pair* second = &strings.pairs[0][b.pair]
    cdef int found = compare_tokens(strings, first.left, second.left)
    return found if found else compare_tokens(strings, first.right, second.right)


cdef bint smaller_strings(const void* context, const Entry* a, const Entry* b) noexcept nogil:
    return compare_pairs(context, a, b) < 0


cdef bint greater_strings(const void* context, const Entry* a, const Entry* b) noexcept nogil:
    return compare_pairs(context, a, b) > 0


cdef int order_places(const void* a, const void* b) noexcept nogil:
    return (1 if (<cell_t*>a)[0] > (<cell_t*>b)[0] else 0) - (1 if (<cell_t*>a)[0] < (<cell_t*>b)[0] else 0)


cdef class Trainer:
    """The state of one training. Built by `bpe/training.py`, which checks everything first."""

    cdef Cell* cells
    cdef size_t n_cells
    cdef count_t* frequency           # of each word
    cdef Pair* pairs
    cdef size_t n_pairs
    cdef size_t pairs_room
    cdef uint64_t* index_keys         # pair table: (left << 32 | right), empty where index_pairs is NO_PAIR
    cdef uint32_t* index_pairs
    cdef size_t index_size            # a power of two
    cdef Token* tokens
    cdef size_t n_tokens
    cdef size_t tokens_room
    cdef byte_t* bytes                # all tokens' bytes
    cdef size_t n_bytes
    cdef size_t bytes_room
    cdef uint32_t* names              # token + 1 by the hash of its bytes, 0 where empty
    cdef size_t names_size
    cdef Heap heap
    cdef Strings strings
    cdef TieBreak tie_break
    cdef count_t min_frequency
    cdef cell_t max_width
    cdef uint32_t step
    cdef Neighbour* beside[4]         # lost on the left and right, won on the left and right, by the neighbour's id
    cdef size_t beside_room
    cdef uint32_t* born               # pairs that the current merge made or raised
    cdef size_t n_born
    cdef size_t born_room
    cdef readonly int stop

    def __cinit__(self):
        self.index_size = 1 << 14
        self.index_keys = <uint64_t*>malloc(self.index_size * sizeof(uint64_t))
        self.index_pairs = <uint32_t*>malloc(self.index_size * sizeof(uint32_t))
        self.names_size = 1 << 12
        self.names = <uint32_t*>calloc(self.names_size, sizeof(uint32_t))
        if self.index_keys == NULL or self.index_pairs == NULL or self.names == NULL:
            raise MemoryError("no memory for a trainer")
        memset(self.index_pairs, 0xFF, self.index_size * sizeof(uint32_t))

    def __dealloc__(self):
        cdef size_t i
        for i in range(self.n_pairs):
            free(self.pairs[i].places)
        free(self.cells)
        free(self.frequency)
        free(self.pairs)
        free(self.index_keys)
        free(self.index_pairs)
        free(self.tokens)
        free(self.bytes)
        free(self.names)
        free(self.heap.entries)
        free(self.born)
        for i in range(4):
            free(self.beside[i])

    def __init__(
        self,
        const byte_t[::1] blob,            # IN the words' bytes
        const int64_t[::1] offsets,        # IN (n + 1,)
        const int64_t[::1] counts,         # IN (n,)
        bint chars,                        # symbols are characters, not bytes
        const uint32_t[::1] inner,         # IN the token of a byte or code point; NO_TOKEN outside the alphabet
        const uint32_t[::1] last,          # IN the same at the last place of a word
        uint32_t mark,                     # the end-of-word mark where it is a symbol of its own, else NO_TOKEN
        tokens,                            # the first tokens: (bytes, ends_word, reserved), in id order from 0
        int tie_break,
        count_t min_frequency,
        cell_t max_width,
        size_t n_cells,                    # how many cells the words need, separators included
    ):
        self.tie_break = <TieBreak>tie_break
        self.min_frequency = max(min_frequency, 1)
        self.max_width = max_width
        for token, ends_word, reserved in tokens:
            self.new_token(token, len(token), ends_word, reserved, 1)
        self.cells = <Cell*>malloc(n_cells * sizeof(Cell))
        self.frequency = <count_t*>malloc(max(counts.shape[0], 1) * sizeof(count_t))
        if self.cells == NULL or self.frequency == NULL:
            raise MemoryError(f"no memory for {n_cells} symbols of training; train on less text at once")
        self.heap.context = &self.strings
        self.strings.pairs = &self.pairs
        self.strings.tokens = &self.tokens
        self.strings.bytes = &self.bytes
        if tie_break == BY_SMALLEST:
            self.heap.before = smaller_strings
        elif tie_break == BY_GREATEST:
            self.heap.before = greater_strings
        with nogil:
            if counts.shape[0] > 0:
                self.lay_out(&blob[0], &offsets[0], &counts[0], counts.shape[0], chars, &inner[0], &last[0], mark)
            self.count_pairs()

    # Setting up -------------------------------------------------------------------------------------------------------

    cdef int lay_out(
        self, const byte_t* blob, const int64_t* offsets, const int64_t* counts, Py_ssize_t n_words, bint chars,
        const uint32_t* inner, const uint32_t* last, uint32_t mark,
    ) except -1 nogil:
        """Write the symbols of all words; one that is outside the alphabet becomes a barrier that no pair crosses."""
        cdef Py_ssize_t i, pos, end, length
        cdef size_t at = 1
        cdef uint32_t code, token
        self.cells[0].token = NO_TOKEN
        for i in range(n_words):
            self.frequency[i] = counts[i]
            pos, end = offsets[i], offsets[i + 1]
            while pos < end:
                if chars:
                    code = decode_char(blob, pos, end, &length)
                else:
                    code, length = blob[pos], 1
                pos += length
                token = inner[code] if pos < end else last[code]
                self.cells[at].token = BARRIER if token == NO_TOKEN else token
                self.cells[at].word = <uint32_t>i
                at += 1
            if mark != NO_TOKEN:
                self.cells[at].token = mark
                self.cells[at].word = <uint32_t>i
                at += 1
            self.cells[at].token = NO_TOKEN
            self.cells[at].word = <uint32_t>i
            at += 1
        self.n_cells = at
        return 0

    cdef int count_pairs(self) except -1 nogil:
        """Count every pair and list its places: once over the cells to count, once more to write exact lists."""
        cdef size_t i
        cdef uint32_t pair
        cdef Entry entry
        cdef Pair* found
        if self.max_width < 2 or self.n_cells < 2:
            return 0
        for i in range(1, self.n_cells - 1):
            if self.cells[i].token < BARRIER and self.cells[i + 1].token < BARRIER:
                pair = self.pair_of(self.cells[i].token, self.cells[i + 1].token)
                self.pairs[pair].count += self.frequency[self.cells[i].word]
                self.pairs[pair].n_places += 1
        for i in range(self.n_pairs):
            found = &self.pairs[i]
            found.room = found.n_places
            found.places = <cell_t*>malloc(found.room * sizeof(cell_t))
            if found.places == NULL:
                found.room = found.n_places = 0
                with gil:
                    raise MemoryError("no memory for the places of the pairs; train on less text at once")
            found.n_places = 0
        for i in range(1, self.n_cells - 1):
            if self.cells[i].token < BARRIER and self.cells[i + 1].token < BARRIER:
                found = &self.pairs[self.pair_of(self.cells[i].token, self.cells[i + 1].token)]
                found.places[found.n_places] = <cell_t>i
                found.n_places += 1
        self.heap.entries = <Entry*>grown(self.heap.entries, &self.heap.room, self.n_pairs, sizeof(Entry))
        for i in range(self.n_pairs):
            entry = self.entry_of(<uint32_t>i)
            self.heap.entries[i] = entry
        self.heap.size = self.n_pairs
        heapify(&self.heap)
        return 0

    cdef int new_token(
        self, const byte_t* data, size_t size, bint ends_word, bint reserved, cell_t width
    ) except -1 nogil:
        """Add a token whose bytes are `data`, which may lie in `self.bytes` already (at its end)."""
        cdef Token* token
        self.tokens = <Token*>grown(self.tokens, &self.tokens_room, self.n_tokens + 1, sizeof(Token))
        if data != self.bytes + self.n_bytes or self.bytes == NULL:
            self.bytes = <byte_t*>grown(self.bytes, &self.bytes_room, self.n_bytes + size, 1)
            memcpy(self.bytes + self.n_bytes, data, size)
        token = &self.tokens[self.n_tokens]
        token.offset = self.n_bytes
        token.size = <uint32_t>size
        token.width = width
        token.ends_word = ends_word
        token.reserved = reserved
        self.n_bytes += size
        self.n_tokens += 1
        if self.n_tokens * 2 > self.names_size:
            self.grow_names()
        else:
            self.name(<token_t>(self.n_tokens - 1))
        self.widen()
        return 0

    cdef void name(self, token_t token) noexcept nogil:
        """Enter a token into the table by its bytes; of two with the same bytes the earlier one is found."""
        cdef size_t mask = self.names_size - 1
        cdef size_t at = hash_bytes(self.bytes + self.tokens[token].offset, self.tokens[token].size) & mask
        while self.names[at] != 0:
            at = (at + 1) & mask
        self.names[at] = token + 1

    cdef int grow_names(self) except -1 nogil:
        cdef size_t larger = self.names_size * 4
        cdef uint32_t* names = <uint32_t*>calloc(larger, sizeof(uint32_t))
        cdef token_t token
        if names == NULL:
            with gil:
                raise MemoryError(f"no memory for {larger} names of tokens")
        free(self.names)
        self.names = names
        self.names_size = larger
        for token in range(<token_t>self.n_tokens):
            self.name(token)
        return 0

    cdef token_t named(self, const byte_t* data, size_t size) noexcept nogil:
        """The token with these bytes, or NO_TOKEN."""
        cdef size_t mask = self.names_size - 1, at = hash_bytes(data, size) & mask
        cdef Token* token
        while self.names[at] != 0:
            token = &self.tokens[self.names[at] - 1]
            if token.size == size and memcmp(self.bytes + token.offset, data, size) == 0:
                return self.names[at] - 1
            at = (at + 1) & mask
        return NO_TOKEN

    cdef int widen(self) except -1 nogil:
        """Keep the neighbour tables as long as there are tokens."""
        cdef size_t i, room = self.beside_room
        for i in range(4):
            room = self.beside_room
            self.beside[i] = <Neighbour*>grown(self.beside[i], &room, self.n_tokens, sizeof(Neighbour))
            if room > self.beside_room:
                memset(self.beside[i] + self.beside_room, 0, (room - self.beside_room) * sizeof(Neighbour))
        self.beside_room = room
        return 0

    # Pairs ------------------------------------------------------------------------------------------------------------

    cdef uint32_t find_pair(self, token_t left, token_t right) noexcept nogil:
        """The number of a pair, or NO_PAIR."""
        cdef uint64_t key = <uint64_t>left << 32 | right
        cdef size_t mask = self.index_size - 1, at = mix(key, <uint64_t>0x9E3779B97F4A7C15) & mask
        while self.index_pairs[at] != NO_PAIR:
            if self.index_keys[at] == key:
                return self.index_pairs[at]
            at = (at + 1) & mask
        return NO_PAIR

    cdef uint32_t pair_of(self, token_t left, token_t right) except? 0xFFFFFFFF nogil:
        """The number of a pair, made with count 0 if it is new."""
        cdef uint64_t key = <uint64_t>left << 32 | right
        cdef size_t mask = self.index_size - 1, at = mix(key, <uint64_t>0x9E3779B97F4A7C15) & mask
        cdef Pair* pair
        while self.index_pairs[at] != NO_PAIR:
            if self.index_keys[at] == key:
                return self.index_pairs[at]
            at = (at + 1) & mask
        self.pairs = <Pair*>grown(self.pairs, &self.pairs_room, self.n_pairs + 1, sizeof(Pair))
        pair = &self.pairs[self.n_pairs]
        memset(pair, 0, sizeof(Pair))
        pair.left = left
        pair.right = right
        self.index_keys[at] = key
        self.index_pairs[at] = <uint32_t>self.n_pairs
        self.n_pairs += 1
        if self.n_pairs * 2 > self.index_size:
            self.grow_index()
        return <uint32_t>(self.n_pairs - 1)

    cdef int grow_index(self) except -1 nogil:
        cdef size_t i, at, larger = self.index_size * 2
        cdef uint64_t* keys = <uint64_t*>malloc(larger * sizeof(uint64_t))
        cdef uint32_t* numbers = <uint32_t*>malloc(larger * sizeof(uint32_t))
        if keys == NULL or numbers == NULL or self.n_pairs >= NO_PAIR - 1:
            free(keys)
            free(numbers)
            with gil:
                raise MemoryError(f"no memory for {larger} slots of the pair table; train on less text at once")
        memset(numbers, 0xFF, larger * sizeof(uint32_t))
        for i in range(self.index_size):
            if self.index_pairs[i] != NO_PAIR:
                at = mix(self.index_keys[i], <uint64_t>0x9E3779B97F4A7C15) & (larger - 1)
                while numbers[at] != NO_PAIR:
                    at = (at + 1) & (larger - 1)
                keys[at] = self.index_keys[i]
                numbers[at] = self.index_pairs[i]
        free(self.index_keys)
        free(self.index_pairs)
        self.index_keys, self.index_pairs, self.index_size = keys, numbers, larger
        return 0

    cdef inline bint stands_at(self, const Pair* pair, cell_t place) noexcept nogil:
        """Whether the pair occurs at a place that was once one of its occurrences."""
        return (
            self.cells[place].token == pair.left
            and self.cells[place + self.tokens[pair.left].width].token == pair.right
        )

    cdef cell_t first_place(self, Pair* pair) noexcept nogil:
        """The first occurrence of a pair, which has one; stale places before it are passed for good."""
        if pair.unsorted:
            qsort(pair.places + pair.head, pair.n_places - pair.head, sizeof(cell_t), order_places)
            pair.unsorted = False
        while pair.head < pair.n_places and not self.stands_at(pair, pair.places[pair.head]):
            pair.head += 1
        return pair.places[pair.head] if pair.head < pair.n_places else <cell_t>0xFFFFFFFF

    cdef Entry entry_of(self, uint32_t number) noexcept nogil:
        """What the queue should hold of a pair now."""
        cdef Entry entry
        cdef Pair* pair = &self.pairs[number]
        entry.count = pair.count
        entry.pair = number
        entry.key = self.first_place(pair) if self.tie_break == BY_FIRST else <uint64_t>pair.left << 32 | pair.right
        return entry

    # Merging ----------------------------------------------------------------------------------------------------------

    cdef uint32_t best_pair(self) except? 0xFFFFFFFF nogil:
        """The pair to merge next; NO_PAIR, and `stop` says why, where there is none."""
        cdef Entry entry, now
        cdef Pair* pair
        while self.heap.size > 0:
            entry = pop(&self.heap)
            pair = &self.pairs[entry.pair]
            if pair.count <= 0 or pair.count > entry.count:
                continue                               # merged already, or pushed again when its count rose
            now = self.entry_of(entry.pair)
            if now.count == entry.count and now.key == entry.key:
                if pair.count < self.min_frequency:
                    self.stop = RARE
                    return NO_PAIR
                return entry.pair
            push(&self.heap, now)
        self.stop = NO_PAIRS
        return NO_PAIR

    cdef token_t token_for(self, const Pair* pair) except? 0xFFFFFFFF nogil:
        """The token that merging a pair makes, new or (two merges may spell the same) old; NO_TOKEN if it must not be.

        A merge must not spell a special token, nor what another token spells with a mark where this one has letters.
        """
        cdef Token left = self.tokens[pair.left], right = self.tokens[pair.right]
        cdef size_t size = left.size + right.size
        cdef token_t known
        cdef byte_t* data
        self.bytes = <byte_t*>grown(self.bytes, &self.bytes_room, self.n_bytes + size, 1)
        data = self.bytes + self.n_bytes
        memcpy(data, self.bytes + left.offset, left.size)
        memcpy(data + left.size, self.bytes + right.offset, right.size)
        known = self.named(data, size)
        if known == NO_TOKEN:
            self.new_token(data, size, right.ends_word, False, left.width + right.width)
            return <token_t>(self.n_tokens - 1)
        if self.tokens[known].reserved or self.tokens[known].ends_word != right.ends_word:
            return NO_TOKEN
        return known

    cdef inline int lose(self, int side, token_t neighbour, token_t left, token_t right, count_t count) noexcept nogil:
        """Take `count` from the pair (left, right), in which `neighbour` is the one that varies."""
        cdef Neighbour* known = &self.beside[side][neighbour]
        if known.stamp != self.step:
            known.stamp = self.step
            known.pair = self.find_pair(left, right)
        if known.pair != NO_PAIR:
            self.pairs[known.pair].count -= count
        return 0

    cdef inline int win(
        self, int side, token_t neighbour, token_t left, token_t right, cell_t place, count_t count
    ) except -1 nogil:
        """Give `count` and a place to the pair (left, right), unless its token would be too long."""
        cdef Neighbour* known = &self.beside[side][neighbour]
        cdef Pair* pair
        if known.stamp != self.step:
            known.stamp = self.step
            known.pair = NO_PAIR
            if self.tokens[left].width + self.tokens[right].width <= self.max_width:
                known.pair = self.pair_of(left, right)
                self.born = <uint32_t*>grown(self.born, &self.born_room, self.n_born + 1, sizeof(uint32_t))
                self.born[self.n_born] = known.pair
                self.n_born += 1
                if self.pairs[known.pair].n_places > 0:
                    self.pairs[known.pair].unsorted = True
        if known.pair == NO_PAIR:
            return 0
        pair = &self.pairs[known.pair]
        pair.places = <cell_t*>grown(pair.places, &pair.room, pair.n_places + 1, sizeof(cell_t))
        pair.places[pair.n_places] = place
        pair.n_places += 1
        pair.count += count
        return 0

    cdef int merge(self, uint32_t number, token_t c) except -1 nogil:
        """Make every occurrence of a pair the token c, from left to right, and keep all counts exact.

        At each occurrence the pair with the left neighbour and the pair with the right one are lost, and two are won.
        Where two occurrences touch, as in `abab`, what lies between them is lost once, (b, a), and won once, (c, c):
        the right side of the first is left to the left side of the second.
        """
        cdef Pair* pair = &self.pairs[number]
        cdef token_t a = pair.left, b = pair.right, left, right
        cdef cell_t width_a = self.tokens[a].width, width_b = self.tokens[b].width, width = width_a + width_b
        cdef cell_t place, middle, behind, touched = 0
        cdef cell_t* places
        cdef size_t i, n
        cdef count_t count
        self.first_place(pair)
        places, n, i = pair.places, pair.n_places, pair.head
        pair.places, pair.n_places, pair.room, pair.head = NULL, 0, 0, 0
        self.step += 1
        self.n_born = 0
        try:
            while i < n:
                if i + AHEAD < n:
                    prefetch(&self.cells[places[i + AHEAD]])
                place = places[i]
                i += 1
                middle = place + width_a
                if self.cells[place].token != a or self.cells[middle].token != b:
                    continue
                behind = place + width
                count = self.frequency[self.cells[place].word]
                left = self.cells[place - 1].token
                right = self.cells[behind].token
                self.cells[middle].token = DEAD
                self.cells[place].token = c
                self.cells[behind - 1].token = c
                if place == touched:
                    self.lose(0, b, b, a, count)
                    self.win(2, c, c, c, place - width, count)
                elif left < BARRIER:
                    self.lose(0, left, left, a, count)
                    self.win(2, left, left, c, place - self.tokens[left].width, count)
                touched = behind
                if right < BARRIER and not (right == a and self.cells[behind + width_a].token == b):
                    self.lose(1, right, b, right, count)
                    self.win(3, right, c, right, place, count)
        finally:
            free(places)
        self.pairs[number].count = 0
        for i in range(self.n_born):
            if self.pairs[self.born[i]].count >= self.min_frequency:
                push(&self.heap, self.entry_of(self.born[i]))
        return 0

    def run(self, size_t most, size_t most_tokens):
        """Make up to `most` merges while there are fewer than `most_tokens` tokens; returns those made.

        Returns:
            A list of (left, right, token, count); shorter than `most` where `stop` is set or the tokens are enough.

        """
        cdef uint32_t number
        cdef token_t token
        cdef count_t count
        cdef token_t left, right
        merges = []
        while <size_t>len(merges) < most and self.n_tokens < most_tokens and not self.stop:
            with nogil:
                number = self.best_pair()
                token = NO_TOKEN
                if number != NO_PAIR:
                    left, right, count = self.pairs[number].left, self.pairs[number].right, self.pairs[number].count
                    token = self.token_for(&self.pairs[number])
                    if token == NO_TOKEN:
                        self.pairs[number].count = 0          # never offered again
                    else:
                        self.merge(number, token)
            if token != NO_TOKEN:
                merges.append((left, right, token, count))
        return merges

    def token_bytes(self, size_t first):
        """The bytes of the tokens from id `first` on, and whether each ends with the end-of-word mark."""
        return [
            (self.bytes[token.offset : token.offset + token.size], bool(token.ends_word))
            for token in self.tokens[first : self.n_tokens]
        ]
