"""What tokens look like, from their bytes: whole characters, spaces, scripts."""

from bpe.base._bounds cimport check_offsets
from bpe.base._types cimport byte_t
from bpe.text._unicode cimport INVALID, SPACE, get_class_of_code, decode_char
from libc.stdint cimport int64_t, uint8_t, uint32_t

#: Bits of `find_token_shapes`.
WHOLE, CROSSING, LEADING_SPACE, INNER_SPACE = 1, 2, 4, 8

cdef struct Shape:
    int flags
    int script


cdef int find_crossing(const byte_t* token, Py_ssize_t size) noexcept nogil:
    """Return CROSSING if a token has bytes of several characters, at least one of them incomplete; else 0.

    Here bytes are a character if they look like one: a lead byte and as many others as it announces.
    """
    cdef Py_ssize_t position = 0, n_characters = 0, n_announced, n_present
    cdef bint incomplete = False
    cdef byte_t lead
    while position < size:
        lead = token[position]
        n_announced = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        if lead < 0xC0 or lead >= 0xF8:
            n_announced = lead < 0x80
        n_present = 1
        while n_present < n_announced and position + n_present < size and token[position + n_present] & 0xC0 == 0x80:
            n_present += 1
        incomplete |= n_present != n_announced
        n_characters += 1
        position += n_present
    return 2 if incomplete and n_characters > 1 else 0


cdef Shape find_shape(
    const byte_t* token, Py_ssize_t size, const uint8_t* scripts, int partial, int mixed
) noexcept nogil:
    """Return the shape of a token that is not empty."""
    cdef Py_ssize_t position = 0, length
    cdef Shape shape = Shape(1, 0)
    cdef bint has_text = False, after_gap = False
    cdef uint32_t code
    cdef int script
    while position < size:
        code = decode_char(token, position, size, &length)
        if code == INVALID:
            return Shape(find_crossing(token, size), partial)
        if get_class_of_code(code) & SPACE:
            after_gap = has_text
            if position == 0:
                shape.flags |= 4
        else:
            if after_gap:
                shape.flags |= 8
            has_text = True
        script = scripts[code]
        if script:
            shape.script = script if shape.script in (0, script) else mixed
        position += length
    if not has_text:
        shape.flags &= ~4                                  # white space alone leads nothing
    return shape


def find_token_shapes(
    const byte_t[::1] blob,            # IN all tokens
    const int64_t[::1] offsets,        # IN of the tokens in it, (n + 1,)
    const uint8_t[::1] table,          # IN the script of each code point, (0x110000,); 0 for those of any script
    int partial,                       # the script of tokens that are not whole characters
    int mixed,                         # the script of tokens with several
    uint8_t[::1] flags,                # OUT (n,)
    uint8_t[::1] scripts,              # OUT (n,)
):
    """Find the shape of each token."""
    cdef Py_ssize_t i, n = flags.shape[0]
    cdef Shape shape
    check_offsets(offsets, n, blob.shape[0])
    if scripts.shape[0] != n or table.shape[0] != 0x110000:
        raise ValueError(f"{scripts.shape[0]} scripts and a table of {table.shape[0]} do not fit {n} tokens")
    with nogil:
        for i in range(n):
            shape = Shape(0, partial)
            if offsets[i + 1] > offsets[i]:
                shape = find_shape(&blob[offsets[i]], offsets[i + 1] - offsets[i], &table[0], partial, mixed)
            flags[i], scripts[i] = shape.flags, shape.script
