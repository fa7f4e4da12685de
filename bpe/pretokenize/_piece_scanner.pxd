"""Scanning text for pieces that some merges never cross, and for long pretokens, which no merge crosses."""

from bpe.base._types cimport byte_t
from bpe.pretokenize._char_masks cimport Cursor
from libc.stdint cimport uint32_t

cdef extern from "bpe/pretokenize/_byte_cuts.h" nogil:
    ctypedef struct ByteCuts "bpe_byte_cuts":
        byte_t group[256]
        byte_t after[256]

cdef struct PretokenRules:    # how a text is divided into long pretokens
    int divider               # UNDIVIDED, NUMBERS or SIGNS
    const byte_t* classes     # of the code points below N_CLASSES: bits of `Class`
    bint never_joins_digits   # whether no merge joins an ASCII digit and a character that is no number
    ByteCuts starts           # where a match may start, by its first two bytes

cdef struct PretokenState:    # the state of a scan, for numbers of any length
    Py_ssize_t end            # of the pretoken; 0 at first
    Py_ssize_t digits_start   # position of digits whose number is known, or 0
    Py_ssize_t n_digits       # that number

cdef enum:
    UNDIVIDED = 0             # a text is one pretoken
    N_CLASSES = 0x40000       # later code points are no letters, numbers or white space in Unicode 16


cdef class PieceRules:
    """Where text is cut into long pretokens and into pieces; immutable."""

    cdef ByteCuts cuts
    cdef PretokenRules pretoken_rules
    cdef const byte_t[::1] classes


cdef Py_ssize_t scan_pieces(
    Cursor* cursor,
    const ByteCuts* cuts,
    uint32_t* bounds,          # OUT (limit + 65,)
    Py_ssize_t limit,          # at least MIN_ROOM
) noexcept nogil

cdef Py_ssize_t find_piece_end(const Cursor* cursor, const ByteCuts* cuts) noexcept nogil

cdef Py_ssize_t find_pretoken_end(
    const PretokenRules* rules, PretokenState* state, const byte_t* text, Py_ssize_t pos, Py_ssize_t end
) noexcept nogil
