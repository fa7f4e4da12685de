"""The tokens of a training: their bytes, their lengths, and finding one by its bytes."""

from bpe.base._memory cimport allocated, grown, hash_bytes
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

cdef struct Token:
    size_t offset             # its bytes
    uint32_t size
    uint32_t length           # in symbols
    bint ends_word
    bint reserved             # special and unknown tokens: no merge makes or takes part in them

cdef struct Tokens:
    Token* items
    uint32_t* width           # in cells of the array of symbols, by token
    size_t n
    size_t room
    byte_t* bytes             # all tokens' bytes
    size_t n_bytes
    size_t bytes_room
    uint32_t* names           # token + 1 by the hash of its bytes, 0 where empty
    size_t names_size         # a power of two, or 0


cdef inline void enter_name(Tokens* tokens, token_t token) noexcept nogil:
    """Enter a token into the table by its bytes; of two with the same bytes the earlier one is found."""
    cdef size_t mask = tokens.names_size - 1
    cdef size_t at = hash_bytes(tokens.bytes + tokens.items[token].offset, tokens.items[token].size) & mask
    while tokens.names[at] != 0:
        at = (at + 1) & mask
    tokens.names[at] = token + 1


cdef inline int grow_names(Tokens* tokens) except -1 nogil:
    cdef size_t larger = max(tokens.names_size * 4, <size_t>1 << 12)
    cdef uint32_t* names = <uint32_t*>allocated(calloc(larger, sizeof(uint32_t)), larger, b"names of tokens")
    cdef token_t token
    free(tokens.names)
    tokens.names = names
    tokens.names_size = larger
    for token in range(<token_t>tokens.n):
        enter_name(tokens, token)
    return 0


cdef inline token_t token_named(const Tokens* tokens, const byte_t* data, size_t size) noexcept nogil:
    """The token with these bytes, or NO_TOKEN."""
    cdef size_t mask = tokens.names_size - 1, at = hash_bytes(data, size) & mask
    cdef const Token* token
    while tokens.names[at] != 0:
        token = &tokens.items[tokens.names[at] - 1]
        if token.size == size and memcmp(tokens.bytes + token.offset, data, size) == 0:
            return tokens.names[at] - 1
        at = (at + 1) & mask
    return NO_TOKEN


cdef inline int add_token(
    Tokens* tokens, const byte_t* data, size_t size, bint ends_word, bint reserved, uint32_t length
) except -1 nogil:
    """Add a token whose bytes are `data`, which may be those that `joined` put at the end of `tokens.bytes`."""
    cdef size_t room = tokens.room
    cdef Token* token
    tokens.width = <uint32_t*>grown(tokens.width, &room, tokens.n + 1, sizeof(uint32_t))
    tokens.items = <Token*>grown(tokens.items, &tokens.room, tokens.n + 1, sizeof(Token))
    if tokens.bytes == NULL or data != tokens.bytes + tokens.n_bytes:
        tokens.bytes = <byte_t*>grown(tokens.bytes, &tokens.bytes_room, tokens.n_bytes + size, 1)
        memcpy(tokens.bytes + tokens.n_bytes, data, size)
    token = &tokens.items[tokens.n]
    token.offset = tokens.n_bytes
    token.size = <uint32_t>size
    token.length = length
    token.ends_word = ends_word
    token.reserved = reserved
    tokens.width[tokens.n] = 1
    tokens.n_bytes += size
    tokens.n += 1
    if tokens.n * 2 > tokens.names_size:
        grow_names(tokens)
    else:
        enter_name(tokens, <token_t>(tokens.n - 1))
    return 0


cdef inline byte_t* joined(Tokens* tokens, token_t left, token_t right) except NULL nogil:
    """The bytes of two tokens end to end, written after those of all tokens, where the next `joined` replaces them."""
    cdef Token first = tokens.items[left], second = tokens.items[right]
    cdef byte_t* data
    tokens.bytes = <byte_t*>grown(tokens.bytes, &tokens.bytes_room, tokens.n_bytes + first.size + second.size, 1)
    data = tokens.bytes + tokens.n_bytes
    memcpy(data, tokens.bytes + first.offset, first.size)
    memcpy(data + first.size, tokens.bytes + second.offset, second.size)
    return data


cdef inline void free_tokens(Tokens* tokens) noexcept nogil:
    free(tokens.items)
    free(tokens.width)
    free(tokens.bytes)
    free(tokens.names)
