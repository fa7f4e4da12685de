"""Reading the escapes of JSON strings."""

from bpe.base._types cimport byte_t


cdef inline int hexadecimal(const byte_t* text) noexcept nogil:
    """Return the value of four hexadecimal digits, or -1."""
    cdef int i, digit, number = 0
    for i in range(4):
        digit = text[i]
        if c"0" <= digit <= c"9":
            digit -= c"0"
        elif c"a" <= (digit | 32) <= c"f":
            digit = (digit | 32) - c"a" + 10
        else:
            return -1
        number = number << 4 | digit
    return number


cdef inline int escaped_code(const byte_t* text, Py_ssize_t left) noexcept nogil:
    """The code point, or the half of a pair, of the escape that follows a backslash; negative if it is invalid."""
    if left < 1:
        return -1
    if text[0] == c"u":
        return hexadecimal(text + 1) if left >= 5 else -1
    if text[0] == c'"' or text[0] == c"\\" or text[0] == c"/":
        return text[0]
    if text[0] == c"n":
        return 10
    if text[0] == c"t":
        return 9
    if text[0] == c"r":
        return 13
    if text[0] == c"b":
        return 8
    return 12 if text[0] == c"f" else -1


cdef inline int escape_size(const byte_t* text) noexcept nogil:
    """The bytes of a valid escape after its backslash."""
    return 5 if text[0] == c"u" else 1
