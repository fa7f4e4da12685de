"""Find the starts of pretokens in rare cases: contractions in non-ASCII text, slashes, special tokens of CLIP.

The common cases are inline: `_boundaries.pxd`.
"""

from bpe.base._types cimport byte_t
from bpe.pretokenize._char_masks cimport CASED, LINES, Cursor, mask_below, bpe_ctz
from bpe.pretokenize._char_scanner cimport match_contraction
from libc.stdint cimport uint64_t


cdef uint64_t find_certain_before_slash(Cursor* cursor, uint64_t others, uint64_t absorbed) noexcept nogil:
    """Return the bits before the first absorbed newline if any of `others` is a slash; else all bits.

    `others` follow absorbed newlines. In o200k punctuation ends with `[\\r\\n/]*`, which takes such a slash as well.
    """
    cdef int bit
    while others:
        bit = bpe_ctz(others)
        others &= others - 1
        if cursor.text[cursor.pos + bit] == c"/":
            return mask_below(bpe_ctz(absorbed))
    return ~<uint64_t>0


cdef uint64_t cut_contractions(
    Cursor* cursor, int rules, uint64_t starts, uint64_t candidates, uint64_t letter, Py_ssize_t n_known, bint* at_end
) noexcept nogil:
    """Cut out the contractions among the apostrophes that a letter follows, from left to right; returns the new starts.

    A contraction that may continue after the `n_known` bytes ends the search; the starts from there on are dropped.
    """
    cdef const byte_t* text = cursor.text
    cdef Py_ssize_t offset, contraction_end, pos = cursor.pos, last_end = -1
    cdef uint64_t bit
    cdef bint suffix
    while candidates:
        offset = bpe_ctz(candidates)
        bit = <uint64_t>1 << offset
        candidates &= candidates - 1
        # In o200k a contraction is the end of a word, unless that ended with a contraction already.
        suffix = rules & CASED and bit & (letter << 1) and offset != last_end
        if rules & CASED:
            if not suffix:
                continue
        elif not starts & bit:
            continue
        if offset + 4 > n_known and not at_end[0]:         # part of it may follow the known bytes
            at_end[0] = False
            return starts & (mask_below(offset) if suffix else mask_below(offset + 1))
        contraction_end = match_contraction(text, pos + offset, cursor.end, rules & LINES != 0) - pos
        if contraction_end == offset:
            continue
        last_end = contraction_end
        starts &= ~(mask_below(contraction_end) & ~mask_below(offset if suffix else offset + 1))
        if contraction_end < n_known:
            starts |= <uint64_t>1 << contraction_end
    return starts


cdef uint64_t find_first_clip_token(Cursor* cursor, uint64_t candidates) noexcept nogil:
    """Return the first of the candidates whose text is `<|`, or 0."""
    cdef const byte_t* text
    while candidates:
        text = cursor.text + cursor.pos + bpe_ctz(candidates)
        if text[0] == c"<" and text[1] == c"|":
            return candidates & (0 - candidates)
        candidates &= candidates - 1
    return 0
