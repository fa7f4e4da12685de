"""What tokens look like, from their bytes: whole characters, spaces, scripts."""

from bpe.base._bounds cimport check_offsets
from bpe.base._types cimport byte_t
from bpe.text._unicode cimport INVALID, SPACE, class_of_code, decode_char
from libc.stdint cimport int64_t, uint8_t, uint32_t

#: Bits of `token_shapes`.
WHOLE, CROSSING, LEADING_SPACE, INNER_SPACE = 1, 2, 4, 8

cdef struct Shape:
    int flags
    int script


cdef int parts_of(const byte_t* token, Py_ssize_t size) noexcept nogil:
    """Return CROSSING if a token has bytes of several characters, at least one of them incomplete; else 0.

    Here bytes are a character if they look like one: a lead byte and as many others as it announces.
    """
    cdef Py_ssize_t at = 0, characters = 0, wanted, found
    cdef bint incomplete = False
    cdef byte_t lead
    while at < size:
        lead = token[at]
        wanted = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        if lead < 0xC0 or lead >= 0xF8:
            wanted = lead < 0x80
        found = 1
        while found < wanted and at + found < size and token[at + found] & 0xC0 == 0x80:
            found += 1
        incomplete |= found != wanted
        characters += 1
        at += found
    return 2 if incomplete and characters > 1 else 0


cdef Shape shape_of(
    const byte_t* token, Py_ssize_t size, const uint8_t* scripts, int partial, int mixed
) noexcept nogil:
    """Return the shape of a token that is not empty."""
    cdef Py_ssize_t at = 0, length
    cdef Shape found = Shape(1, 0)
    cdef bint text = False, gap = False
    cdef uint32_t code
    cdef int script
    while at < size:
        code = decode_char(token, at, size, &length)
        if code == INVALID:
            return Shape(parts_of(token, size), partial)
        if class_of_code(code) & SPACE:
            gap = text
            if at == 0:
                found.flags |= 4
        else:
            if gap:
                found.flags |= 8
            text = True
        script = scripts[code]
        if script:
            found.script = script if found.script in (0, script) else mixed
        at += length
    if not text:
        found.flags &= ~4                                  # white space alone leads nothing
    return found


def token_shapes(
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
    cdef Shape found
    check_offsets(offsets, n, blob.shape[0])
    if scripts.shape[0] != n or table.shape[0] != 0x110000:
        raise ValueError(f"{scripts.shape[0]} scripts and a table of {table.shape[0]} do not fit {n} tokens")
    with nogil:
        for i in range(n):
            found = Shape(0, partial)
            if offsets[i + 1] > offsets[i]:
                found = shape_of(&blob[offsets[i]], offsets[i + 1] - offsets[i], &table[0], partial, mixed)
            flags[i], scripts[i] = found.flags, found.script
