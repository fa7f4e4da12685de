"""What the loops of training, `_trainer.pyx` and `picky/_learner.pyx`, have in common.

That is: which of two pairs with the same count goes first where their bytes decide, why a loop stops, and the bytes of
tokens.
"""

from bpe.base._types cimport token_t
from bpe.training._pair_heap cimport Entry, Heap
from bpe.training._pair_table cimport TrackedPair, TrackedPairs
from bpe.training._token_table cimport Token, Tokens
from libc.string cimport memcmp

cdef enum TieBreak:           # as in `TIE_BREAKS` of options.py
    BY_ID = 0
    BY_FIRST = 1
    BY_SMALLEST = 2
    BY_GREATEST = 3

cdef enum Stop:               # as in `STOPS` of trainer.py
    RUNNING = 0
    NO_PAIRS = 1
    RARE = 2                  # the best pair is below min_frequency

cdef struct Compared:         # what ties are decided by
    const Tokens* tokens
    const TrackedPairs* pairs


cdef inline int compare_tokens(const Tokens* tokens, token_t a, token_t b) noexcept nogil:
    cdef const Token* first = &tokens.items[a]
    cdef const Token* second = &tokens.items[b]
    cdef int found = memcmp(tokens.bytes + first.offset, tokens.bytes + second.offset, min(first.size, second.size))
    return found if found else (first.size > second.size) - (first.size < second.size)


cdef inline int compare_pairs(const void* context, const Entry* a, const Entry* b) noexcept nogil:
    """Order two pairs as (left bytes, right bytes)."""
    cdef const Compared* compared = <const Compared*>context
    cdef const TrackedPair* first = &compared.pairs.items[a.pair]
    cdef const TrackedPair* second = &compared.pairs.items[b.pair]
    cdef int found = compare_tokens(compared.tokens, first.left, second.left)
    return found if found else compare_tokens(compared.tokens, first.right, second.right)


cdef inline bint smaller_strings(const void* context, const Entry* a, const Entry* b) noexcept nogil:
    return compare_pairs(context, a, b) < 0


cdef inline bint greater_strings(const void* context, const Entry* a, const Entry* b) noexcept nogil:
    return compare_pairs(context, a, b) > 0


cdef inline void set_order(
    Heap* heap, Compared* compared, const Tokens* tokens, const TrackedPairs* pairs, TieBreak tie_break
) noexcept nogil:
    """Let a queue decide ties by this rule; `compared` must live as long as the queue."""
    compared.tokens, compared.pairs = tokens, pairs
    heap.context = compared
    if tie_break == BY_SMALLEST:
        heap.before = smaller_strings
    elif tie_break == BY_GREATEST:
        heap.before = greater_strings


cdef inline bytes spelled_token(const Tokens* tokens, size_t token):
    """The bytes of a token; ValueError if there is no such token."""
    if token >= tokens.n:
        raise ValueError(f"token {token} does not exist; there are {tokens.n} tokens")
    cdef const Token* found = &tokens.items[token]
    return tokens.bytes[found.offset : found.offset + found.size]


cdef inline tuple spelled_tokens(const Tokens* tokens):
    """The bytes of all tokens end to end, and where each begins and the last one ends, as int64 (n + 1,)."""
    import numpy as np
    return tokens.bytes[: tokens.n_bytes], np.array(
        [token.offset for token in tokens.items[: tokens.n]] + [tokens.n_bytes], dtype=np.int64
    )
