"""Reading JSON without creating an object for each value.

What is read here is valid by RFC 8259. Strings are copied and searched for escapes eight bytes at a time. The functions
return False for anything unusual, and the callers hand that to `json`, which decides what is an error. Cost: linear.
Fields of records: `bpe/corpus/_json_fields.pyx`; vocabularies: `bpe/formats/_json_tokens.pyx`.
"""

from bpe.base._utf8 cimport bpe_write_character
from libc.string cimport memcmp

cdef extern from *:
    """
    /* What a letter means after a backslash. */
    static const unsigned char bpe_escaped[256] = {
        ['"'] = '"', ['\\\\'] = '\\\\', ['/'] = '/', ['b'] = 8, ['f'] = 12, ['n'] = 10, ['r'] = 13, ['t'] = 9,
    };
    """
    const byte_t* bpe_escaped

cdef enum:
    MAX_DEPTH = 64           # arrays and objects within each other; deeper values are left to `json`


# Strings --------------------------------------------------------------------------------------------------------------


cdef int read_unit(JsonReader* reader) noexcept nogil:
    """Take an escape after its backslash. Returns the code point, or the half of a pair, that it means, or -1."""
    cdef byte_t char = reader.at[0] if reader.at < reader.end else 0
    cdef int i, digit, number = 0
    if char != c"u":
        reader.at += 1
        return bpe_escaped[char] if bpe_escaped[char] else -1
    if reader.end - reader.at < 5:
        return -1
    for i in range(1, 5):
        digit = reader.at[i]
        if c"0" <= digit <= c"9":
            digit -= c"0"
        elif c"a" <= (digit | 32) <= c"f":
            digit = (digit | 32) - c"a" + 10
        else:
            return -1
        number = number << 4 | digit
    reader.at += 5
    return number


cdef Py_ssize_t read_escape(JsonReader* reader, byte_t* out) noexcept nogil:
    """Take an escape after its backslash, and write what it means unless `out` is NULL. Returns its size, or -1."""
    cdef byte_t unused[4]
    cdef int low, code = read_unit(reader)
    if code < 0 or 0xDC00 <= code < 0xE000:
        return -1
    if 0xD800 <= code < 0xDC00:                            # half of a pair
        if reader.end - reader.at < 2 or reader.at[0] != c"\\" or reader.at[1] != c"u":
            return -1
        reader.at += 1
        low = read_unit(reader)
        if not 0xDC00 <= low < 0xE000:
            return -1
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
    if out == NULL:
        out = unused
    return bpe_write_character(out, code) - out


# Values ---------------------------------------------------------------------------------------------------------------


cdef inline bint skip_digits(JsonReader* reader) noexcept nogil:
    """Take digits. Returns whether there was one."""
    cdef const byte_t* start = reader.at
    while reader.at < reader.end and c"0" <= reader.at[0] <= c"9":
        reader.at += 1
    return reader.at > start


cdef bint skip_number(JsonReader* reader) noexcept nogil:
    """Take a number; False if it is none."""
    reader.at += reader.at[0] == c"-"
    if reader.at < reader.end and reader.at[0] == c"0":
        reader.at += 1
    elif not skip_digits(reader):
        return False
    if reader.at < reader.end and reader.at[0] == c".":
        reader.at += 1
        if not skip_digits(reader):
            return False
    if reader.at < reader.end and reader.at[0] | 32 == c"e":
        reader.at += 1
        reader.at += reader.at < reader.end and (reader.at[0] == c"+" or reader.at[0] == c"-")
        return skip_digits(reader)
    return True


cdef inline bint skip_word(JsonReader* reader, const char* word, Py_ssize_t size) noexcept nogil:
    """Take `true`, `false` or `null`; False if something else follows."""
    if reader.end - reader.at < size or memcmp(reader.at, word, size) != 0:
        return False
    reader.at += size
    return True


cdef bint skip_value(JsonReader* reader, int depth) noexcept nogil:
    """Take any value, which is within `depth` others; False if it is invalid or too deep."""
    cdef byte_t char = next_byte(reader)
    if char == c'"':
        reader.at += 1
        return read_string(reader, NULL) >= 0
    if char == c"{" or char == c"[":
        return skip_items(reader, depth + 1)
    if char == c"t":
        return skip_word(reader, "true", 4)
    if char == c"f":
        return skip_word(reader, "false", 5)
    if char == c"n":
        return skip_word(reader, "null", 4)
    return char != 0 and skip_number(reader)


cdef bint skip_items(JsonReader* reader, int depth) noexcept nogil:
    """Take an array or an object; False if it is invalid or too deep."""
    cdef bint is_object = reader.at[0] == c"{"
    cdef byte_t close = c"}" if is_object else c"]"
    reader.at += 1
    if depth > MAX_DEPTH:
        return False
    if accept(reader, close):
        return True
    while True:
        if is_object and not (accept(reader, c'"') and read_string(reader, NULL) >= 0 and accept(reader, c":")):
            return False
        if not skip_value(reader, depth):
            return False
        if not accept(reader, c","):
            return accept(reader, close)
