"""The loop of training: the best pair from the queue, its token, its merge, and a recount when no tracked pair is left.

The parts: the array of symbols (`symbols`), the tokens (`tokens`), the table of tracked pairs (`pairs`), merging one
(`applying`), counting anew (`recount`) and the priority queue (`heap`). An epoch lasts from one recount to the next.

Counts are exact at every step, and a pair's count is complete when it is born and only falls afterwards. So the queue
may be lazy: a popped entry with the right count is the best there is, and one that is out of date goes back with its
true count. That is exact for every tie rule; under `first`, a pair's first place moves only when its count falls.

Not here: counting words, alphabets, what ids and options mean (`bpe/training/trainer.py`).
"""

import numpy as np

from bpe.base._bounds cimport check_offsets
from bpe.base._memory cimport grown
from bpe.base._pages cimport ask_for_huge_pages
from bpe.base._team cimport MOST_PARTS, Team, parts_worth
from bpe.base._types cimport NO_TOKEN, byte_t, cell_t, count_t, token_t
from bpe.training._pair_heap cimport Entry, Heap, heapify, pop, push
from bpe.training._pair_merge cimport SPARE, Gather, Keep, Pool, first_place, fit_gather, free_gather, merge_pair
from bpe.training._pair_table cimport NO_PAIR, Pair, Pairs, add_pair, find_pair, free_pairs, pair_hash
from bpe.training._recount cimport Plan, recount
from bpe.training._symbol_array cimport (
    TOKENS,
    Alphabet,
    Spelling,
    Symbols,
    compact,
    free_symbols,
    id_t,
    lay_out,
    widen,
)
from bpe.training._token_table cimport Token, Tokens, add_token, free_tokens, joined, token_named
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport INT64_MAX, int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

cdef enum:
    STEPS = 256               # given merges made between two looks at signals

cdef enum TieBreak:
    BY_ID = 0
    BY_FIRST = 1
    BY_SMALLEST = 2
    BY_GREATEST = 3

cdef enum Stop:
    RUNNING = 0
    NO_PAIRS = 1
    RARE = 2                  # the best pair is below min_frequency


cdef struct Made:             # a merge that was made
    count_t left
    count_t right
    count_t token
    count_t count


# The order of strings -------------------------------------------------------------------------------------------------

cdef struct Strings:          # what comparing two pairs by their tokens' bytes needs
    const Pairs* pairs
    const Tokens* tokens


cdef int compare_tokens(const Tokens* tokens, token_t a, token_t b) noexcept nogil:
    cdef const Token* first = &tokens.items[a]
    cdef const Token* second = &tokens.items[b]
    cdef int found = memcmp(
        tokens.bytes + first.offset, tokens.bytes + second.offset, min(first.size, second.size)
    )
    if found:
        return found
    return (first.size > second.size) - (first.size < second.size)


cdef int compare_pairs(const void* context, const Entry* a, const Entry* b) noexcept nogil:
    """Order two pairs as (left bytes, right bytes)."""
    cdef const Strings* strings = <const Strings*>context
    cdef const Pair* first = &strings.pairs.items[a.pair]
    cdef const Pair* second = &strings.pairs.items[b.pair]
    cdef int found = compare_tokens(strings.tokens, first.left, second.left)
    return found if found else compare_tokens(strings.tokens, first.right, second.right)


cdef bint smaller_strings(const void* context, const Entry* a, const Entry* b) noexcept nogil:
    return compare_pairs(context, a, b) < 0


cdef bint greater_strings(const void* context, const Entry* a, const Entry* b) noexcept nogil:
    return compare_pairs(context, a, b) > 0


# Pairs that are left --------------------------------------------------------------------------------------------------

cdef token_t token_of(Tokens* tokens, token_t left, token_t right, uint32_t max_length) except? 0xFFFFFFFF nogil:
    """The token that two tokens make: an id that is there already, `tokens.n` if it is new, NO_TOKEN if it must not be.

    It must not be longer than `max_length` symbols, nor spell a special token, nor what another token spells with a
    mark where this one has letters.
    """
    cdef Token first = tokens.items[left], second = tokens.items[right]
    cdef Token* named
    cdef token_t known
    if <uint64_t>first.length + second.length > max_length or <uint64_t>first.size + second.size > <uint64_t>0xFFFFFFFF:
        return NO_TOKEN
    known = token_named(tokens, joined(tokens, left, right), <size_t>first.size + second.size)
    if known == NO_TOKEN:
        return <token_t>tokens.n
    named = &tokens.items[known]
    # One that occurs already (length > 0) has the same bytes but other symbols: never the same token.
    return NO_TOKEN if named.reserved or named.length > 0 or named.ends_word != second.ends_word else known


cdef bint any_pair(const id_t* cells, const Symbols* symbols, Tokens* tokens, uint32_t max_length) except -1 nogil:
    """Whether any pair is left that could be merged, however rare."""
    cdef size_t p = 1, q
    while p < symbols.n:
        q = p + 1
        if cells[p] != <id_t>NO_TOKEN:
            q = p + tokens.width[cells[p]]
            if cells[q] != <id_t>NO_TOKEN and token_of(tokens, cells[p], cells[q], max_length) != NO_TOKEN:
                return True
        p = q
    return False


# The trainer ----------------------------------------------------------------------------------------------------------

cdef class Trainer:
    """The state of one training. Built by `bpe/training/trainer.py`, which checks everything first.

    The words' arrays are read by the constructor only: the caller may let go of them then.

    To resume a training, construct the trainer as the first time, and call `replay` with the merges made so far before
    the first `run`. To extend a vocabulary, give the constructor all its tokens, and words that are encoded with it.
    """

    cdef Symbols symbols
    cdef Tokens tokens
    cdef Pairs pairs
    cdef Pairs given                  # the merges to replay; their numbers are ranks
    cdef Pool pool
    cdef Gather gathers[MOST_PARTS]   # of the parts of a list; what all have met is in the first
    cdef Keep keep
    cdef Plan plan
    cdef Heap heap
    cdef Strings strings
    cdef TieBreak tie_break
    cdef size_t narrow                # from so many tokens on, cells are 32 bits wide
    cdef uint64_t goal                # how many merges are to be made in all, as far as is known
    cdef Made* made
    cdef size_t n_made
    cdef size_t made_room
    cdef readonly Team team           # its helpers must be there whenever merges are made
    cdef size_t least                 # cells in a part
    cdef size_t long_list             # places in a part of a list
    cdef readonly int stop
    cdef readonly size_t epochs       # recounts so far

    def __dealloc__(self):
        free_symbols(&self.symbols)
        free_tokens(&self.tokens)
        free_pairs(&self.pairs)
        free_pairs(&self.given)
        for part in range(MOST_PARTS):
            free_gather(&self.gathers[part])
        free(self.pool.cells)
        free(self.heap.entries)
        free(self.made)

    def __init__(self, words, start, rule, uint64_t merges, *, size_t memory=0, bint strict=False, tuning):
        """Write the symbols; the pairs are counted by the first `run` or `replay`.

        Args:
            words: `blob`, uint8, the words' bytes; `offsets`, int64 (n + 1,), in it; `counts`, int64 (n,).
            start: `spelling`, what these bytes are, a Spelling of `_symbol_array.pxd`; `inner`, uint32, the token of a
                byte or code point, or NO_TOKEN; `last`, the same at the last place of a word; both None for TOKENS;
                `mark`, the end-of-word mark where it is a symbol of its own, else NO_TOKEN; `tokens`, the first tokens,
                in id order from 0: (bytes, ends_word, reserved, length).
            rule: `tie_break`, a TieBreak; `min_frequency`; `max_length`, of a token in symbols.
            merges: how many are to be made in all; an estimate serves as well.
            memory: bytes for lists, table and queue; 0 is as suits the corpus.
            strict: never take more than these.
            tuning: a `Tuning` of `trainer.py`.

        """
        cdef const byte_t[::1] blob = words.blob
        cdef const int64_t[::1] offsets = words.offsets
        cdef const int64_t[::1] counts = words.counts
        cdef const uint32_t[::1] inner = start.inner, last = start.last
        cdef int spelling = start.spelling
        cdef uint32_t mark = start.mark
        cdef size_t narrow = tuning.narrow, least = tuning.least, long_list = tuning.long_list
        cdef Alphabet alphabet
        cdef bint encoded = spelling == TOKENS
        if not 0 <= spelling <= TOKENS or (inner is None) != encoded or (last is None) != encoded:
            raise ValueError(f"spelling is {spelling}; bytes and characters need tables of symbols, tokens have none")
        check_offsets(offsets, counts.shape[0], blob.shape[0])
        self.tie_break = <TieBreak><int>rule.tie_break
        self.plan.floor = max(<count_t>rule.min_frequency, 1)
        self.plan.ceiling = INT64_MAX
        self.plan.ratio = max(<count_t>tuning.ratio, 1)
        self.plan.dense = tuning.dense
        self.plan.growing = not strict
        self.keep.max_length = rule.max_length
        self.goal = merges
        self.narrow = min(narrow, <size_t>0xFFFF)
        for token, ends_word, reserved, length in start.tokens:
            add_token(&self.tokens, token, len(token), ends_word, reserved, length)
        alphabet.spelling, alphabet.inner, alphabet.last, alphabet.n_symbols = <Spelling>spelling, NULL, NULL, 0
        if inner is not None and inner.shape[0] > 0 and last.shape[0] > 0:
            alphabet.inner, alphabet.last = &inner[0], &last[0]
            alphabet.n_symbols = min(inner.shape[0], last.shape[0])
        alphabet.n_tokens, alphabet.mark = self.tokens.n, mark
        if mark != NO_TOKEN and mark >= self.tokens.n:
            raise ValueError(f"the end-of-word mark is token {mark}; there are {self.tokens.n} tokens")
        self.mark_occurring(&alphabet, blob)
        self.symbols.wide = self.tokens.n >= self.narrow
        with nogil:
            lay_out(
                &self.symbols, &alphabet, &blob[0] if blob.shape[0] > 0 else NULL, &offsets[0],
                &counts[0] if counts.shape[0] > 0 else NULL, counts.shape[0], self.tie_break != BY_FIRST,
            )
        self.take_memory(memory)
        self.least, self.long_list = max(least, <size_t>1), max(long_list, <size_t>1)
        self.team = Team(parts_worth(max(<int>tuning.threads, 1), self.symbols.n // self.least))
        self.strings.pairs, self.strings.tokens = &self.pairs, &self.tokens
        self.heap.context = &self.strings
        if self.tie_break == BY_SMALLEST:
            self.heap.before = smaller_strings
        elif self.tie_break == BY_GREATEST:
            self.heap.before = greater_strings

    cdef int mark_occurring(self, const Alphabet* alphabet, const byte_t[::1] blob) noexcept:
        """See to it that no token that words begin with has the length 0: no merge makes such a token again."""
        cdef const uint32_t* tables[3]
        cdef size_t sizes[3]
        cdef uint32_t token
        cdef size_t i, k
        tables[0], sizes[0] = alphabet.inner, alphabet.n_symbols
        tables[1], sizes[1] = alphabet.last, alphabet.n_symbols
        tables[2], sizes[2] = &alphabet.mark, 1
        for k in range(3):
            for i in range(sizes[k]):
                if tables[k][i] < self.tokens.n:
                    self.tokens.items[tables[k][i]].length = max(self.tokens.items[tables[k][i]].length, 1)
        if alphabet.spelling == TOKENS:
            for i in range(0, <size_t>blob.shape[0] // sizeof(uint32_t)):
                memcpy(&token, &blob[i * sizeof(uint32_t)], sizeof(uint32_t))
                if token < self.tokens.n:
                    self.tokens.items[token].length = max(self.tokens.items[token].length, 1)
        return 0

    cdef int take_memory(self, size_t memory) except -1:
        """Share out the memory for lists, table and queue; pages that are never written cost nothing."""
        if memory == 0:
            memory = 4 * self.symbols.n + (<size_t>32 << 20)
        self.pool.size = max(memory // 8 * 5 // sizeof(cell_t), <size_t>256)
        self.pool.longest = self.pool.size // 2
        self.pool.most_pairs = max(memory // 8 * 3 // 88, <size_t>16)
        while self.plan.dense > 0 and 16 * self.plan.dense * self.plan.dense > memory // 4:
            self.plan.dense //= 2
        self.pool.cells = <cell_t*>malloc((self.pool.size + MOST_PARTS * SPARE) * sizeof(cell_t))
        if self.pool.cells == NULL:
            raise MemoryError(f"no memory for {self.pool.size} places of pairs; train on less text at once")
        ask_for_huge_pages(self.pool.cells, self.pool.size * sizeof(cell_t))
        self.pool.full = True
        return 0

    # Epochs -----------------------------------------------------------------------------------------------------------

    cdef int next_epoch(self) except -1 nogil:
        """Compact the symbols and count all pairs anew, for a lower threshold or other merges to replay."""
        cdef size_t i
        if self.epochs > 0:
            compact(&self.symbols, self.tokens.width, self.tokens.n, self.team, self.parts())
        if not self.symbols.wide and self.tokens.n >= self.narrow:
            widen(&self.symbols)
        self.epochs += 1
        self.plan.merges = self.goal - self.n_made if self.goal > self.n_made else 1
        recount(&self.symbols, &self.tokens, &self.pairs, &self.pool, &self.keep, &self.plan, self.team, self.parts())
        self.heap.size = 0
        if self.keep.given != NULL:
            return 0
        self.heap.entries = <Entry*>grown(self.heap.entries, &self.heap.room, self.pairs.n, sizeof(Entry))
        for i in range(self.pairs.n):
            self.heap.entries[i] = self.entry_of(<uint32_t>i)
        self.heap.size = self.pairs.n
        heapify(&self.heap)
        return 0

    cdef inline int parts(self) noexcept nogil:
        """In how many parts the symbols are worth to be read."""
        return parts_worth(self.team.size, self.symbols.n // self.least)

    cdef inline bint is_over(self) noexcept nogil:
        """Whether nothing can be merged before the next epoch."""
        return self.pool.full or (self.tokens.n >= self.narrow and not self.symbols.wide)

    cdef Entry entry_of(self, uint32_t number) noexcept nogil:
        """What the queue should hold of a pair now."""
        cdef Entry entry
        cdef Pair* pair = &self.pairs.items[number]
        entry.count = pair.count
        entry.pair = number
        if self.tie_break == BY_FIRST:
            entry.key = first_place(&self.symbols, &self.tokens, &self.pairs, &self.pool, number)
        else:
            entry.key = <uint64_t>pair.left << 32 | pair.right
        return entry

    cdef uint32_t best_pair(self) except? 0xFFFFFFFF nogil:
        """The pair to merge next; NO_PAIR, and `stop` says why, where there is none."""
        cdef Entry entry, now
        cdef count_t count
        while True:
            if self.is_over():
                self.plan.ceiling = INT64_MAX
                self.next_epoch()
            while self.heap.size > 0:
                entry = pop(&self.heap)
                count = self.pairs.items[entry.pair].count
                if count < self.keep.threshold:
                    continue                           # merged already, or for a later epoch
                now = self.entry_of(entry.pair)
                if now.count == entry.count and now.key == entry.key:
                    return entry.pair
                push(&self.heap, now)
            if self.keep.threshold <= self.plan.floor:
                self.stop = RARE if self.any_left() else NO_PAIRS
                return NO_PAIR
            self.plan.ceiling = self.keep.threshold - 1
            self.next_epoch()

    cdef bint any_left(self) except -1 nogil:
        """Whether there are pairs below min_frequency."""
        if self.plan.floor == 1:
            return False
        if self.symbols.wide:
            return any_pair(<const uint32_t*>self.symbols.cells, &self.symbols, &self.tokens, self.keep.max_length)
        return any_pair(<const uint16_t*>self.symbols.cells, &self.symbols, &self.tokens, self.keep.max_length)

    # Merging ----------------------------------------------------------------------------------------------------------

    cdef int make_token(self, token_t left, token_t right, token_t token) except -1 nogil:
        """Give the token of two tokens its length; one that is not there yet is added."""
        cdef Token first = self.tokens.items[left], second = self.tokens.items[right]
        cdef uint32_t length = first.length + second.length
        if token == self.tokens.n:
            add_token(
                &self.tokens, joined(&self.tokens, left, right), <size_t>first.size + second.size, second.ends_word,
                False, length,
            )
        else:
            self.tokens.items[token].length = length
        return 0

    cdef int note(self, token_t left, token_t right, token_t token, count_t count) except -1 nogil:
        """Enter a merge into the list of those made."""
        cdef Made* made
        self.made = <Made*>grown(self.made, &self.made_room, self.n_made + 1, sizeof(Made))
        made = &self.made[self.n_made]
        made.left, made.right, made.token, made.count = left, right, token, count
        self.n_made += 1
        return 0

    cdef int merge(self, uint32_t number, token_t token) except -1 nogil:
        """Merge a pair and enter the new pairs into the queue."""
        cdef size_t i = self.pairs.n
        fit_gather(&self.gathers[0], self.tokens.n)
        merge_pair(
            &self.symbols, &self.tokens, &self.pairs, &self.pool, self.gathers, &self.keep, number, token, self.team,
            self.long_list,
        )
        if self.keep.given == NULL and not self.pool.full:
            for i in range(i, self.pairs.n):
                push(&self.heap, self.entry_of(<uint32_t>i))
        return 0

    def run(self, size_t most, size_t most_tokens):
        """Make up to `most` merges while there are fewer than `most_tokens` tokens; returns those made.

        Returns:
            A list of (left, right, token, count); shorter than `most` where `stop` is set or the tokens are enough.

        """
        cdef uint32_t number
        cdef token_t token
        cdef Pair pair
        merges = []
        while <size_t>len(merges) < most and self.tokens.n < most_tokens and not self.stop:
            PyErr_CheckSignals()                       # of many pieces, the first merges take seconds
            with nogil:
                number = self.best_pair()
                token = NO_TOKEN
                if number != NO_PAIR:
                    pair = self.pairs.items[number]
                    token = token_of(&self.tokens, pair.left, pair.right, self.keep.max_length)
                    if token == NO_TOKEN:
                        self.pairs.items[number].count = 0     # not offered again in this epoch
                    else:
                        self.make_token(pair.left, pair.right, token)
                        self.note(pair.left, pair.right, token, pair.count)
                        self.merge(number, token)
            if token != NO_TOKEN:
                merges.append((pair.left, pair.right, token, pair.count))
        return merges

    def replay(
        self, const uint32_t[::1] left, const uint32_t[::1] right, const uint32_t[::1] token, const int64_t[::1] count
    ):
        """Make the merges that a training has made, in their order, before the first `run`.

        Nothing is searched, but each pair must occur as often as it did: a merge that this training does not make is
        refused, and so none makes a token that is in the symbols already, or one of absurd length.

        Args:
            left, right: the pairs, (n,) each.
            token: what each makes, (n,): always a new token, so that these are the ids from the first free one on.
            count: how often each pair occurred, (n,).

        Raises:
            ValueError: for a merge of tokens that there are not, that makes no new token, or whose count is another.

        """
        cdef size_t i, rank = 0, n = left.shape[0], first = self.tokens.n
        if <size_t>right.shape[0] != n or <size_t>token.shape[0] != n or <size_t>count.shape[0] != n:
            raise ValueError("the parts of the merges to replay differ in number")
        if self.n_made > 0:
            raise ValueError(f"{self.n_made} merges are made already; merges are replayed before the first")
        for i in range(n):
            if left[i] >= first + i or right[i] >= first + i or token[i] != first + i:
                raise ValueError(
                    f"merge {i} makes token {token[i]} of {left[i]} and {right[i]}; it must make token {first + i} of "
                    "tokens before that"
                )
        for i in range(n):
            add_pair(&self.given, left[i], right[i], pair_hash(left[i], right[i]))
        self.keep.given, self.keep.limit = &self.given, 0
        try:
            while rank < n:
                with nogil:
                    for rank in range(rank, min(rank + STEPS, n)):
                        self.replay_one(rank, count[rank])
                    rank += 1
                PyErr_CheckSignals()
        finally:
            self.keep.given = NULL
            self.pool.full = True
            free_pairs(&self.given)
            self.given = Pairs(NULL, 0, 0, NULL, 0)

    cdef int replay_one(self, size_t rank, count_t count) except -1 nogil:
        cdef Pair merge = self.given.items[rank]
        cdef token_t token
        cdef uint32_t number
        cdef count_t found = 0
        if self.is_over() or rank >= self.keep.limit:
            self.keep.first = rank
            self.next_epoch()
        number = find_pair(&self.pairs, merge.left, merge.right, pair_hash(merge.left, merge.right))
        if number != NO_PAIR:
            found = self.pairs.items[number].count
        token = token_of(&self.tokens, merge.left, merge.right, self.keep.max_length)
        if found <= 0 or found != count or token != self.tokens.n:
            with gil:
                raise ValueError(
                    f"merge {rank}, of tokens {merge.left} and {merge.right}, is said to occur {count} times, but "
                    f"occurs {found} times here" if found != count or found <= 0 else
                    f"merge {rank}, of tokens {merge.left} and {merge.right}, makes a token that there is already"
                )
        self.make_token(merge.left, merge.right, token)
        self.note(merge.left, merge.right, token, found)
        self.merge(number, token)
        return 0

    @property
    def n_tokens(self):
        """How many tokens there are."""
        return self.tokens.n

    def spelled(self, size_t token):
        """The bytes of a token that there is."""
        if token >= self.tokens.n:
            raise ValueError(f"there is no token {token}; there are {self.tokens.n}")
        cdef Token* found = &self.tokens.items[token]
        return self.tokens.bytes[found.offset : found.offset + found.size]

    def token_bytes(self, size_t first):
        """The bytes of the tokens from id `first` on, and whether each ends with the end-of-word mark."""
        return [
            (self.tokens.bytes[token.offset : token.offset + token.size], bool(token.ends_word))
            for token in self.tokens.items[first : self.tokens.n]
        ]

    def merges(self):
        """All merges made, those replayed among them: int64 (n, 4), each left, right, token, count."""
        made = np.empty((self.n_made, 4), dtype=np.int64)
        cdef int64_t[:, ::1] rows = made
        if self.n_made > 0:
            memcpy(&rows[0, 0], self.made, self.n_made * sizeof(Made))
        return made

    def vocabulary(self):
        """All tokens: (their bytes one behind the other, int64 offsets (n + 1,), whether each ends with the mark)."""
        cdef size_t i
        offsets = np.zeros(self.tokens.n + 1, dtype=np.int64)
        ends_word = np.zeros(self.tokens.n, dtype=np.bool_)
        cdef int64_t[::1] offset = offsets
        cdef byte_t[::1] ends = ends_word.view(np.uint8)
        for i in range(self.tokens.n):
            offset[i + 1] = self.tokens.items[i].offset + self.tokens.items[i].size
            ends[i] = self.tokens.items[i].ends_word
        return self.tokens.bytes[: self.tokens.n_bytes], offsets, ends_word
