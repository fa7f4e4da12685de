"""Find the characters whose normalization depends on the Unicode version (`unicode.py` treats them separately)."""

from bpe.base._utf8 cimport CodeUnits, get_code_unit, get_code_units


def find_new(str text, Py_ssize_t start):
    """Find the index of the first NEW character (see `generate_unicode.py`) at or after `start`, or -1."""
    cdef CodeUnits units = get_code_units(text)
    cdef Py_ssize_t index = max(start, 0)
    if units.width < 2:                                    # no character below U+0100 is NEW
        return -1
    with nogil:
        while index < units.n and not get_class_of_code(get_code_unit(&units, index)) & NEW:
            index += 1
    return index if index < units.n else -1
