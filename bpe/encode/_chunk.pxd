"""Chunks: some hundred pieces of text between the scanner and their ids, and the feed that they come from.

    fragments        the texts to encode, and the ids of special tokens between them
       |  pretokenize/_scanner.pyx finds pieces (pretokens), as bounds or as starts and ends
    Feed             up to 512 pieces; in scripts without spaces they are split into parts
       |  fill_chunk (_chunk_filler.pyx) looks each up in the front table of the word cache
    Chunk            a value for each; `missed` and `longer` list the pieces that are not in the front table
       |  _piece_ids.pyx looks those up in the shared tables, and merges new ones
    ids              emit_values writes them

Each step runs over the whole chunk before the next starts, so that memory that one step prefetches has arrived when the
next reads it. For "the theory of everything", if the front table has " the" and " of":

    piece       0 "the"   1 " theory"   2 " of"   3 " everything"
    value       0         0             ids       0
    missed      0, 1                                                 short words: at most 8 bytes
    longer                                        3                  longer words, with two keys or a hash

A `FragmentEnd` marks where a fragment ends in a chunk: before piece 4 here.
"""

from bpe.base._types cimport byte_t, token_t
from bpe.pretokenize._char_masks cimport Cursor
from bpe.pretokenize._piece_scanner cimport ByteCuts, PretokenRules, PretokenState
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

cdef enum:
    MAX_PIECES = 512          # in a chunk; its arrays stay in the first-level cache, or near
    MAX_EMITTED_IDS = 31      # of a piece that `emit_values` writes
    MAX_BYTES_PER_WIDE_CHAR = 24  # text is not split if fewer than one byte in 24 starts a character of three bytes

cdef enum:                    # the role of a piece in the chunk; _split_filter.h has the same numbers
    WHOLE = 0                 # the whole piece
    LAST = 1                  # the last of several parts
    INNER = 2                 # a part before the last: with an end-of-word mark, its ids may differ from a whole word's

cdef struct Fragment:         # a text, or an id between texts
    const byte_t* text
    Py_ssize_t size           # -1: `token` is the id
    token_t token

cdef struct Feed:             # the source of pieces
    # The texts.
    const Fragment* fragments
    Py_ssize_t n_fragments
    Py_ssize_t n_done         # fragments whose pieces are all in a chunk
    const byte_t* readable    # nothing at or past this is read
    bint in_one_buffer        # all fragments lie in one buffer, which ends at `readable`
    bint is_ascii             # as far as the caller knows
    int scanner               # its number (pretokenize/_patterns.pxd)
    const int64_t* given_starts  # the `n_given` pieces of the only fragment, if the caller found them
    const int64_t* given_ends
    Py_ssize_t n_given
    # Of a superword vocabulary, where text is divided into pretokens and pieces whatever the scanner; else NULL.
    const ByteCuts* cuts
    const PretokenRules* pretoken_rules
    bint are_pretokens        # each fragment is one pretoken, which is not divided
    PretokenState pretoken    # the one that the next piece is in
    bint is_open              # the scanner is inside a fragment
    # The ids that are wanted.
    Py_ssize_t max_ids        # of each text: once there are as many, its rest is left out. 0: all, until a call sets it
    Py_ssize_t n_wanted       # pieces of the open fragment that are taken before its ids are counted
    Py_ssize_t n_pieces       # taken so far, if `max_ids` is not 0, and their ids
    Py_ssize_t n_ids
    # Pieces found and not yet in a chunk: numbers `next` to `n_found`.
    bint has_bounds           # piece i is from `base + bounds[i]` to `base + bounds[i + 1]`; else see `start`
    Py_ssize_t base
    uint32_t bounds[MAX_PIECES + 65]  # up to 64 more are written
    Py_ssize_t start[MAX_PIECES]  # of pieces without bounds, and of those to be split
    Py_ssize_t end[MAX_PIECES]
    Py_ssize_t n_found
    Py_ssize_t next
    # Their parts, if they are split.
    bint is_splitting         # they are to be split at safe positions
    bint wants_splits         # some were worth splitting so far, whether or not the filter is built
    bint is_gapless           # each starts where the previous one ends
    bint contains_0xFF        # some byte of them is 0xFF, which no key can end with
    Py_ssize_t n_bytes_taken  # bytes of the next piece that are in a chunk already
    Py_ssize_t part_start[MAX_PIECES + 65]  # parts of pieces; up to 64 more are written
    Py_ssize_t part_end[MAX_PIECES + 64]
    Cursor cursor             # the scanner's position in the open fragment

cdef struct FragmentEnd:      # the end of a fragment in a chunk
    Py_ssize_t piece          # the first piece after the fragment
    Py_ssize_t fragment       # its number

cdef struct Chunk:
    Py_ssize_t n              # pieces in it
    byte_t roles[MAX_PIECES + 64]  # of each: WHOLE, LAST or INNER
    uint64_t values[MAX_PIECES + 8]  # of each: its ids as the word cache has them, or 0
    size_t n_missed           # short words that the front table does not have
    uint16_t missed[MAX_PIECES + 8]  # which pieces they are, in order
    uint64_t missed_keys[MAX_PIECES + 8]  # and their keys
    size_t n_longer  # words without a key of 64 bits: longer ones, and those that end in 0xFF
    uint16_t longer[MAX_PIECES + 8]  # which pieces they are, in order, as in the arrays below
    const byte_t* words[MAX_PIECES]
    Py_ssize_t sizes[MAX_PIECES]  # in bytes
    uint64_t keys[2 * MAX_PIECES]  # of a middle word its two keys, of any other EMPTY_KEY twice
    uint64_t hashes[MAX_PIECES]  # of the two keys, or of the bytes of a long word
    uint64_t shared_values[MAX_PIECES + 8]  # of the shared table, for `missed`, then for `longer`; or 0
    Py_ssize_t pretokens[MAX_PIECES]  # of a superword vocabulary: the first piece of each pretoken, in order
    Py_ssize_t n_pretokens
    Py_ssize_t next_pretoken  # the first one that is not written
    Py_ssize_t n_fragment_ends
    FragmentEnd fragment_ends[MAX_PIECES]


cdef inline bint pays_to_split(size_t three_byte_chars, size_t n) noexcept nogil:
    """Whether to split pieces of n bytes together, of which `three_byte_chars` characters have three bytes."""
    return three_byte_chars * MAX_BYTES_PER_WIDE_CHAR >= n
