"""The encoder kernel's class."""

from bpe.base._result_pool cimport ResultPool
from bpe.base._types cimport byte_t
from bpe.base._utf8 cimport CodeUnits
from bpe.encode._cache_seeds cimport CacheSeeds
from bpe.encode._chunk cimport Fragment
from bpe.encode._piece_ids cimport PieceEncoder
from bpe.encode._split_filter cimport SplitTables, SplitFilter
from bpe.encode._word_cache cimport SharedWordTable
from bpe.encode._workspace cimport Workspace
from bpe.merge._high_merges cimport HighMerges
from bpe.merge._merger cimport Merger
from bpe.pretokenize._piece_scanner cimport PieceRules
from libc.stdint cimport int64_t

cdef enum:
    MAX_SHORT_TEXT = 4096     # bytes: releasing the GIL does not pay for less


cdef class Encoder:
    """The tables of one tokenizer, and encoding with them; immutable but for the word table and idle workspaces."""

    cdef PieceEncoder piece_encoder
    cdef Merger full_merger   # all merges; `piece_encoder.merger` has the low ones if there are `high_merges`
    cdef readonly HighMerges high_merges  # the high merges of a superword vocabulary, or None
    cdef PieceRules piece_rules  # where the text of a superword vocabulary is cut into pieces, or None
    cdef SplitFilter split_filter  # None until `build_split_filter`, and if nothing may be split
    cdef SplitTables* splits  # its tables; NULL until they are there; atomic
    cdef tuple unmerged       # the arguments of `add_words` for the unmerged words, or None
    cdef CacheSeeds seeds
    cdef int scanner
    cdef size_t max_table_bytes  # bytes of the word table, at most
    cdef readonly ResultPool pool  # memory for results
    cdef SharedWordTable table      # the current one
    cdef Workspace idle       # the last one that was given back; `next` links the others

    cdef int want_beginnings(self, Workspace workspace, Py_ssize_t max_ids) except -1
    cdef int encode_feed(self, Workspace workspace, int64_t* lengths) except -1 nogil
    cdef bint encode_chunk(self, Workspace workspace, int64_t* lengths, size_t* fragment_start) except -1 nogil
    cdef bint encode_until(self, Workspace workspace, const Fragment* fragment, size_t max_ids) except -1
    cdef Py_ssize_t count_ids(self, Workspace workspace, const Fragment* fragment) except -2
    cdef Py_ssize_t find_next_split(self, const CodeUnits* text, Py_ssize_t pos) noexcept nogil
    cdef Py_ssize_t find_next_split_utf8(self, const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t find_last_split_in(self, const byte_t* text, Py_ssize_t start, Py_ssize_t end) noexcept nogil
    cdef Workspace take_workspace(self)
    cdef int give_back(self, Workspace workspace) except -1
    cdef int abandon(self, Workspace workspace, error) except -1
    cdef object take_ids(self, Workspace workspace)


cdef int build_split_filter(Encoder encoder) except -1
cdef const SplitTables* get_splits(Encoder encoder) noexcept nogil
cdef int encode_fragment(Encoder encoder, Workspace workspace, const Fragment* fragment) except -1
cdef int encode_feed_without_gil(Encoder encoder, Workspace workspace, Py_ssize_t size) except -1
