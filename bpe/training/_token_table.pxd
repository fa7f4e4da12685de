"""The tokens of a training: their bytes, their lengths, and finding one by its bytes."""

from bpe.base._memory cimport grow_array
from bpe.base._string_index cimport StringTable, enter_string, enter_strings, find_string, hash_string, reserve_slots
from bpe.base._types cimport byte_t, token_t
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

cdef struct Token:
    uint32_t length           # in symbols
    bint ends_word
    bint reserved             # special and unknown tokens: no merge makes or takes part in them

cdef struct Tokens:
    Token* items
    uint32_t* width           # in cells of the array of symbols, by token
    byte_t* bytes             # token i is bytes[offsets[i]:offsets[i + 1]]
    int64_t* offsets          # (n + 1,), also without tokens
    StringTable strings       # of them; of two with the same bytes the earlier one is found
    size_t n
    size_t capacity
    size_t bytes_capacity


cdef inline size_t count_token_bytes(const Tokens* tokens, token_t token) noexcept nogil:
    """Count a token's bytes."""
    return tokens.offsets[token + 1] - tokens.offsets[token]


cdef inline token_t find_token(const Tokens* tokens, const byte_t* data, size_t size) noexcept nogil:
    """Find the token with these bytes, or NO_TOKEN, which is -1 as a token."""
    return <token_t>find_string(&tokens.strings, data, size)


cdef inline byte_t* reserve_bytes(Tokens* tokens, size_t size) except NULL nogil:
    """Reserve `size` bytes for the next token, and return where they begin."""
    tokens.bytes = <byte_t*>grow_array(tokens.bytes, &tokens.bytes_capacity, tokens.offsets[tokens.n] + size, 1)
    tokens.strings.blob = tokens.bytes
    return tokens.bytes + tokens.offsets[tokens.n]


cdef inline int add_token(
    Tokens* tokens, const byte_t* data, size_t size, bint ends_word, bint reserved, uint32_t length
) except -1 nogil:
    """Add a token whose bytes are `data`, or those that `join_tokens` has written where it is NULL."""
    cdef size_t widths = tokens.capacity, offsets = tokens.capacity, n = tokens.n
    tokens.width = <uint32_t*>grow_array(tokens.width, &widths, n + 2, sizeof(uint32_t))
    tokens.offsets = <int64_t*>grow_array(tokens.offsets, &offsets, n + 2, sizeof(int64_t))
    tokens.items = <Token*>grow_array(tokens.items, &tokens.capacity, n + 2, sizeof(Token))
    tokens.strings.offsets = tokens.offsets
    if data != NULL:
        memcpy(reserve_bytes(tokens, size), data, size)
    tokens.items[n] = Token(length=length, ends_word=ends_word, reserved=reserved)
    tokens.width[n] = 1
    tokens.offsets[n + 1] = tokens.offsets[n] + <int64_t>size
    tokens.n += 1
    if tokens.n * 2 > tokens.strings.mask:
        reserve_slots(&tokens.strings, max(4 * tokens.n, <size_t>1 << 11))
        enter_strings(&tokens.strings, tokens.n)
    else:
        enter_string(&tokens.strings, n, hash_string(&tokens.strings, n))
    return 0


cdef inline byte_t* join_tokens(Tokens* tokens, token_t left, token_t right) except NULL nogil:
    """Write the bytes of two tokens end to end after those of all tokens, where the next call replaces them."""
    cdef size_t first = count_token_bytes(tokens, left), second = count_token_bytes(tokens, right)
    cdef byte_t* data = reserve_bytes(tokens, first + second)
    memcpy(data, tokens.bytes + tokens.offsets[left], first)
    memcpy(data + first, tokens.bytes + tokens.offsets[right], second)
    return data


cdef inline void free_tokens(Tokens* tokens) noexcept nogil:
    free(tokens.items)
    free(tokens.width)
    free(tokens.bytes)
    free(tokens.offsets)
    free(tokens.strings.slots)
