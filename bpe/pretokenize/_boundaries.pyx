"""Rare cases of where pretokens begin: contractions among other scripts' letters, slashes, CLIP's special tokens.

Not here: the common cases, which are inline (`_boundaries.pxd`).
"""

from bpe.base._types cimport byte_t
from bpe.pretokenize._char_masks cimport CASED, LINES, Cursor, below
from bpe.pretokenize._char_scanner cimport contraction
from libc.stdint cimport uint64_t

cdef extern from "bpe/pretokenize/_char_masks.h" nogil:
    int bpe_ctz(uint64_t bits)


cdef uint64_t slashes(Cursor* cursor, uint64_t others, uint64_t absorbed) noexcept nogil:
    """What stays certain where o200k's `[\\r\\n/]*` may meet a slash behind a newline: all before those newlines."""
    cdef int bit
    while others:
        bit = bpe_ctz(others)
        others &= others - 1
        if cursor.text[cursor.pos + bit] == c"/":
            return below(bpe_ctz(absorbed))
    return ~<uint64_t>0


cdef uint64_t cut_contractions(
    Cursor* cursor, int rules, uint64_t S, uint64_t candidates, uint64_t L, Py_ssize_t known, bint* whole
) noexcept nogil:
    """Cut out the contractions among the apostrophes that a letter follows, from left to right."""
    cdef const byte_t* text = cursor.text
    cdef Py_ssize_t at, behind, pos = cursor.pos, done = -1
    cdef uint64_t bit
    cdef bint suffix
    while candidates:
        at = bpe_ctz(candidates)
        bit = <uint64_t>1 << at
        candidates &= candidates - 1
        # In o200k a contraction is the end of a word, unless that ended with a contraction already.
        suffix = rules & CASED and bit & (L << 1) and at != done
        if rules & CASED:
            if not suffix:
                continue
        elif not S & bit:
            continue
        if at + 4 > known and not whole[0]:                # a part of it may be unknown, and what it cuts
            whole[0] = False
            return S & (below(at) if suffix else below(at + 1))
        behind = contraction(text, pos + at, cursor.end, rules & LINES != 0) - pos
        if behind == at:
            continue
        done = behind
        S &= ~(below(behind) & ~below(at if suffix else at + 1))
        if behind < known:
            S |= <uint64_t>1 << behind
    return S


cdef uint64_t clip_tokens(Cursor* cursor, uint64_t candidates) noexcept nogil:
    """The first of the candidates where `<|` stands, or 0."""
    cdef const byte_t* text
    while candidates:
        text = cursor.text + cursor.pos + bpe_ctz(candidates)
        if text[0] == c"<" and text[1] == c"|":
            return candidates & (0 - candidates)
        candidates &= candidates - 1
    return 0
