"""Reading JSON without creating an object for each value."""

from bpe.base._types cimport byte_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    /* The bytes before the first one that is a quote, a backslash or a control character; at most `size`, eight at a
       time. They are copied to `out` where that is not NULL; up to 7 bytes after them are written, too. */
    static inline size_t bpe_plain_bytes(const unsigned char* text, size_t size, unsigned char* out) {
        const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
        size_t at = 0;
        for (; at + 8 <= size; at += 8) {
            uint64_t word, quote, slash, found;
            memcpy(&word, text + at, 8);
            if (out) memcpy(out + at, &word, 8);
            quote = word ^ ones * '"';
            slash = word ^ ones * '\\\\';
            found = (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((word - ones * 32) & ~word)) & high;
            if (found) return at + (size_t)__builtin_ctzll(found) / 8;
        }
        for (; at < size && text[at] >= 32 && text[at] != '"' && text[at] != '\\\\'; at++)
            if (out) out[at] = text[at];
        return at;
    }
    /* The spaces, at most 8, that a text begins with. Files are indented with spaces. */
    static inline size_t bpe_spaces(const unsigned char* text) {
        uint64_t word;
        memcpy(&word, text, 8);
        word ^= 0x2020202020202020u;
        return word ? (size_t)__builtin_ctzll(word) / 8 : 8;
    }
    """
    size_t spaces "bpe_spaces"(const byte_t* text) noexcept nogil
    size_t plain_bytes "bpe_plain_bytes"(const byte_t* text, size_t size, byte_t* out) noexcept nogil

cdef struct JsonReader:
    const byte_t* at          # the next byte
    const byte_t* end         # of the text
    byte_t blank              # white space beside spaces, tabs and carriage returns: a newline, unless it ends a record


cdef inline byte_t next_byte(JsonReader* reader) noexcept nogil:
    """Skip white space. Returns the next byte, which is not taken, or 0 at the end."""
    cdef byte_t char
    while reader.at < reader.end:
        char = reader.at[0]
        if char == c" " and reader.end - reader.at >= 8:
            reader.at += spaces(reader.at)
        elif char == c" " or char == c"\t" or char == c"\r" or char == reader.blank:
            reader.at += 1
        else:
            return char
    return 0


cdef inline bint accept(JsonReader* reader, byte_t wanted) noexcept nogil:
    """Skip white space, and take the byte `wanted` if it follows. Returns whether it did."""
    cdef bint found = next_byte(reader) == wanted
    reader.at += found
    return found


cdef Py_ssize_t read_escape(JsonReader* reader, byte_t* out) noexcept nogil
cdef bint skip_value(JsonReader* reader, int depth) noexcept nogil


cdef inline Py_ssize_t read_string(JsonReader* reader, byte_t* out) noexcept nogil:
    """Take a string after its opening quote, and write it where `out` is not NULL; its size, or -1 if it is unusual.

    The output needs 7 bytes more than the string has.
    """
    cdef Py_ssize_t n, size = 0
    while True:
        n = plain_bytes(reader.at, reader.end - reader.at, NULL if out == NULL else out + size)
        reader.at += n
        size += n
        if reader.at == reader.end or reader.at[0] < 32:
            return -1
        reader.at += 1
        if (reader.at - 1)[0] == c'"':
            return size
        n = read_escape(reader, NULL if out == NULL else out + size)
        if n < 0:
            return -1
        size += n
