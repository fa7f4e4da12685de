"""Words that are tokens, which every word table but the first has from the start.

If merging the bytes of a token gives that token, the word with those bytes has this one id. Such words are entered into
each large table, so that they are never merged. With an end-of-word mark, a token with the mark is a word, and a token
without it goes to the table of parts that do not end a word.
"""

import numpy as np

from bpe.base._bounds cimport check_offsets
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.encode._word_cache cimport (
    EMPTY_KEY, MAX_SHORT_WORD, CachedWords, SharedWordTable, enter_word, prefetch_line, hash_word, load_short_key,
)
from bpe.merge._merger cimport Merger
from bpe.merge._token_tree cimport TokenTree
from libc.stdint cimport uint8_t, uint64_t

from bpe.merge.tables import find_irregular_tokens

cdef enum:
    NO_SEED = 0
    SEED = 1                  # for the table of words
    INNER_SEED = 2            # for the table of parts that do not end a word
    MAX_KEYED_BYTES = 16      # of a word; one that ends in 0xFF has no key
    PREFETCH_AHEAD = 32       # tokens whose lines are prefetched before they are entered


cdef class CacheSeeds:

    def __cinit__(self, Merger merger not None, tokens):
        """Take the tokens of a vocabulary, a TokenBytes (bpe/merge/tables.py)."""
        cdef Py_ssize_t limit = merger.merges.limit
        check_offsets(tokens.offsets, limit, len(tokens.blob))
        if tokens.ends_word is not None and len(tokens.ends_word) != limit:
            raise ValueError(f"ends_word has {len(tokens.ends_word)} elements; it must have {limit}")
        self.blob, self.offsets = tokens.blob, tokens.offsets
        self.ends, self.mark_size = tokens.ends_word, tokens.mark_size
        self.marks_word_ends = tokens.ends_word is not None
        self.merger = merger

    cdef int choose(self) except -1:
        """Choose the seeds, for the first table that gets them."""
        cdef token_t token
        cdef Py_ssize_t size
        cdef size_t n_seeds = 0
        cdef const uint8_t[::1] is_irregular = None
        cdef byte_t[::1] kinds
        cdef TokenTree tree
        if self.are_chosen:
            return 0
        self.merger.build_tree()
        tree = self.merger.tree
        kinds = np.zeros(tree.limit, dtype=np.uint8)
        if not tree.is_ordered or not self.blob.shape[0]:
            self.kinds, self.are_chosen = kinds, True
            return 0
        if self.marks_word_ends:
            is_irregular = find_irregular_tokens(self.merger.merges, np.asarray(self.ends))
        with nogil:
            for token in range(<token_t>tree.limit):
                size = measure_word(self, token)
                if not tree.merges_to_itself[token] or not 0 < size <= MAX_KEYED_BYTES:
                    continue
                if get_word(self, token)[size - 1] == 0xFF or (is_irregular is not None and is_irregular[token]):
                    continue
                if self.unmerged_words is not None:
                    if self.unmerged_words.find(get_word(self, token), size) != NO_TOKEN:
                        continue
                kinds[token] = INNER_SEED if self.marks_word_ends and not self.ends[token] else SEED
                n_seeds += 1
        self.kinds, self.n_seeds, self.are_chosen = kinds, n_seeds, True  # only now: a fork may come before
        return 0

    cdef int sow(self, SharedWordTable table) noexcept nogil:
        """Enter the seeds into an empty table; none if they would take more than three quarters of it."""
        cdef const byte_t* end = &self.blob[0] + self.blob.shape[0]
        cdef const byte_t* word
        cdef CachedWords* words[PREFETCH_AHEAD]
        cdef uint64_t lo[PREFETCH_AHEAD]
        cdef uint64_t hi[PREFETCH_AHEAD]
        cdef uint64_t hashed[PREFETCH_AHEAD]
        cdef token_t tokens[PREFETCH_AHEAD]
        cdef size_t i, n = 0
        cdef token_t token, limit = <token_t>self.kinds.shape[0]
        cdef Py_ssize_t size
        if 4 * self.n_seeds > 3 * table.words.max_entries:
            return 0
        for token in range(limit):
            if self.kinds[token] != NO_SEED:
                word, size = get_word(self, token), measure_word(self, token)
                words[n] = &table.words if self.kinds[token] == SEED else &table.inner_parts
                lo[n], hi[n] = load_short_key(word, min(size, MAX_SHORT_WORD), end), EMPTY_KEY
                if size > MAX_SHORT_WORD:
                    hi[n] = load_short_key(word + MAX_SHORT_WORD, size - MAX_SHORT_WORD, end)
                hashed[n], tokens[n] = hash_word(lo[n], hi[n]), token
                prefetch_line(words[n], hashed[n])
                n += 1
            if n == PREFETCH_AHEAD or token + 1 == limit:
                for i in range(n):
                    enter_word(words[i], lo[i], hi[i], hashed[i], tokens[i] + <uint64_t>1, True)
                n = 0
        return 0


cdef inline const byte_t* get_word(CacheSeeds seeds, token_t token) noexcept nogil:
    return &seeds.blob[0] + seeds.offsets[token]


cdef inline Py_ssize_t measure_word(CacheSeeds seeds, token_t token) noexcept nogil:
    """Measure a token in bytes, without its mark."""
    cdef Py_ssize_t size = seeds.offsets[token + 1] - seeds.offsets[token]
    return size - seeds.mark_size if seeds.marks_word_ends and seeds.ends[token] else size
