"""Chunks: some hundred pieces of text on their way from the scanner to their ids, and where they come from.

    fragments        the texts to encode, and the ids of special tokens between them
       |  pretokenize/_scanner.pyx finds pieces (pretokens), as bounds or as starts and ends
    Feed             up to 512 pieces found; in scripts without spaces they are cut into parts
       |  fill (_chunk_filler.pyx) looks each up in the front table of the word cache
    Chunk            a value for each; what is not there is listed in `missed` and `others`
       |  _piece_ids.pyx looks those up in the other tables, and merges what is in none
    ids              emit_values writes them out

Each step runs over the whole chunk before the next begins, so that memory prefetched in one is there in the next. For
"the theory of everything", where the front table has " the" and " of":

    piece       0 "the"   1 " theory"   2 " of"   3 " everything"
    value       0         0             ids       0
    missed      0, 1                                                 short words: at most 8 bytes
    others                                        3                  others, with two keys or a hash

Pieces of one text follow each other in a chunk, and a `Segment` says where a fragment ends: before piece 4 here.
"""

from bpe.base._types cimport byte_t, token_t
from bpe.encode._split_filter cimport Joints
from bpe.encode._word_cache cimport Cache
from bpe.pretokenize._char_masks cimport Cursor
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

cdef enum:
    PIECES = 512              # in a chunk; its arrays stay in the first-level cache, or near
    FEW_IDS = 7               # of a piece that `emit_values` writes
    FEW_THREES = 24           # text of which fewer bytes than one in so many begin characters of three is not cut

cdef enum:                    # what a part is of its piece; _split_filter.h has the same numbers
    ALL = 0                   # the whole of it
    LAST = 1                  # the last one of several
    EARLIER = 2               # one before it: where a word's end is marked, its ids may differ from a whole word's

cdef struct Fragment:         # a text, or an id between texts
    const byte_t* text
    Py_ssize_t size           # -1: `token` is the id
    token_t token

cdef struct Feed:             # where pieces come from
    # The texts.
    const Fragment* fragments
    Py_ssize_t n_fragments
    Py_ssize_t done           # fragments whose pieces all are in a chunk
    const byte_t* readable    # nothing at or past this is read
    bint shared               # all fragments lie in one buffer, which `readable` is the end of
    int scanner               # which one finds the pieces (pretokenize/_patterns.pxd)
    const int64_t* starts     # the pieces of the one fragment, if they are given: `n_given` of them
    const int64_t* ends
    Py_ssize_t n_given
    bint open                 # the scanner is within a fragment
    # Pieces found and not yet in a chunk: numbers `next` to `n_found`.
    bint bounded              # they have bounds: i is from `base + bounds[i]` to `base + bounds[i + 1]`
    Py_ssize_t base
    uint32_t bounds[PIECES + 1]
    Py_ssize_t start[PIECES]  # of those without bounds, and of those to be cut
    Py_ssize_t end[PIECES]
    Py_ssize_t n_found
    Py_ssize_t next
    # Their parts, where they are cut.
    bint cutting              # they are to be cut where that is safe
    bint gapless              # each begins where the one before ends
    bint odd                  # some byte of them is 0xFF, which no key can end with
    Py_ssize_t within         # how far into the next piece the last chunk came
    Py_ssize_t cut_start[PIECES + 65]  # parts of pieces; more are written than there are
    Py_ssize_t cut_end[PIECES + 64]
    Cursor cursor             # where the scanner is in the open fragment

cdef struct Segment:          # the end of a fragment in a chunk
    Py_ssize_t piece          # its pieces come before this one
    Py_ssize_t fragment       # its number

cdef struct Chunk:
    Py_ssize_t n              # pieces in it
    byte_t part[PIECES + 64]  # what each is of the piece that the scanner found
    uint64_t value[PIECES + 8]  # its ids, as the cache has them; 0 where it has none
    size_t n_missed           # short words that the front table does not have
    uint16_t missed[PIECES + 8]  # which pieces they are, in order
    uint64_t missed_key[PIECES + 8]  # and their keys
    size_t n_others           # words that one key does not hold: longer ones, and those that end in 0xFF
    uint16_t others[PIECES + 8]  # which pieces they are, in order; the five arrays below are in the same order
    const byte_t* word[PIECES]
    Py_ssize_t size[PIECES]   # in bytes
    uint64_t key[2 * PIECES]  # of a middle word its two keys, of any other EMPTY_KEY twice
    uint64_t hash[PIECES]     # of the two keys, or of the bytes of a long word
    uint64_t found[PIECES + 8]  # values in the first line of each: of `missed`, then of `others`
    Py_ssize_t n_segments
    Segment segments[PIECES]


cdef inline bint is_cut(const Joints* joints, size_t threes, size_t n) noexcept nogil:
    """Whether pieces of n bytes with so many characters of three are to be cut where that is safe."""
    return joints.bits != NULL and threes * FEW_THREES >= n
