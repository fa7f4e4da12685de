"""The words of a training as one flat array of symbols, and the count of each word without a byte per symbol.

    | - | l | o | w | - | l | o | w | e | r | - |        - is NONE: before the first word and after each

The first and the last cell of a token hold its id, so that its left neighbour is found at p - 1 and its right one at
p + width; there are no links. When the array is written and whenever it is compacted, every token is one cell; merges
make tokens wider until the next time.

Words of equal count are adjacent: a class is a range of cells whose words all occur `counts[k]` times. A list of
positions ascends, so that a walk along it is a walk along the classes too.

The array is divided among threads at anchors: no pair crosses one, nor does a merge move one.

A cell is 16 bits wide while that holds every id, which halves the memory, else 32.
"""

from bpe.base._binary_search cimport lower_bound
from bpe.base._team cimport Team
from bpe.base._types cimport cell_t, count_t
from bpe.training._token_table cimport Tokens
from libc.stdint cimport uint16_t, uint32_t

cdef enum:
    N_ANCHORS = 256           # parts of a job begin and end at some of them

ctypedef fused id_t:
    uint16_t
    uint32_t

cdef struct SymbolArray:
    void* cells               # uint16_t, or uint32_t where `wide`
    bint wide
    size_t n                  # cells in use; the last one is NONE
    cell_t* starts            # (n_classes + 1,): the first cell of each class, and n
    count_t* counts           # (n_classes,): of each word of the class
    size_t n_classes
    size_t capacity           # of `starts` and `counts`
    cell_t anchors[N_ANCHORS + 1]  # word starts, ascending, about evenly spaced; the last one is n

cdef int write_symbols(SymbolArray* symbols, Tokens* tokens, words, initial, bint by_count, Team team) except -1
cdef int compact(SymbolArray* symbols, uint32_t* width, size_t n_tokens) except -1 nogil
cdef int widen(SymbolArray* symbols) except -1 nogil
cdef void free_symbols(SymbolArray* symbols) noexcept nogil


cdef inline size_t find_count_class(const SymbolArray* symbols, cell_t position, size_t first_class) noexcept nogil:
    """Find the class of a position in class `first_class` or a later one, by galloping and then bisection."""
    cdef const cell_t* starts = symbols.starts
    cdef size_t last_class = symbols.n_classes - 1, step = 1, low = first_class
    while low + step <= last_class and starts[low + step] <= position:
        low += step
        step *= 2
    return low + lower_bound(starts + low + 1, min(step - 1, last_class - low), position + 1)


cdef inline cell_t find_part_start(const SymbolArray* symbols, int part, int parts) noexcept nogil:
    """Find where a part of all cells begins; part `parts` begins where the last one ends."""
    return symbols.anchors[N_ANCHORS * part // parts]
