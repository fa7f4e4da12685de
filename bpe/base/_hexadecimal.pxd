"""Reading hexadecimal numbers of a fixed length, as in the escapes of JSON."""

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
