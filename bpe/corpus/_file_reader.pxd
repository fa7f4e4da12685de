"""Reading text files in small blocks without the GIL."""

cimport cython

from bpe.base._aho_corasick cimport Finder, MatchList
from bpe.base._types cimport byte_t
from bpe.corpus._csv_rows cimport RowDialect
from bpe.corpus._json_fields cimport FieldPath
from libc.stdint cimport int64_t

#: Called as find_last(context, text, low, end): the last position greater than `low` where `text[:end]` may be split
#: whatever follows it, or `low`.
ctypedef Py_ssize_t (*find_last_t)(void* context, const byte_t* text, Py_ssize_t low, Py_ssize_t end) noexcept nogil

cdef enum Beginning:          # what a file's first bytes show
    IS_TEXT
    MAY_BE_JSON               # or text; not compressed
    MAY_BE_OTHER

cdef enum:
    SPLIT_CONTEXT = 8         # bytes before a split point that decide whether it is one
    SAMPLE_BYTES = 4096       # that `check_first_bytes` gets

cdef enum:                    # columns of `FileReader.units`, each row a part of a file
    FILE_INDEX = 0            # among the sources
    UNIT_START                # where it begins
    UNIT_END                  # where it ends; -1 for the end of the file
    LISTED_SIZE               # bytes of the file when it was listed
    UNIT_COLUMNS

cdef struct OpenFile:         # a file whose blocks are read
    int descriptor
    Py_ssize_t unit_index     # among the units of its reader
    Py_ssize_t size           # in bytes, when it was opened
    Py_ssize_t end            # of the unit
    int64_t modified          # the time of its last change by then, in ns
    Py_ssize_t n_unread       # blocks that were given out and have not been read
    bint is_given_out         # all its blocks
    OpenFile* next            # of the reader's open files


cdef Beginning classify_beginning(const byte_t* text, Py_ssize_t n) noexcept nogil


cdef class FileReader


cdef class FileBlock:
    cdef bytearray buffer
    cdef byte_t* data                  # of the buffer
    cdef Py_ssize_t capacity           # bytes of the buffer
    cdef Py_ssize_t n                  # bytes of the text, which the buffer begins with
    cdef Py_ssize_t offset             # of the text in the file
    cdef Py_ssize_t disk_bytes         # bytes of the file that it is read from
    cdef byte_t* lines                 # of records, before their texts are read
    cdef size_t lines_capacity
    cdef Py_ssize_t n_lines_before     # lines of the unit before a `SequentialReader`'s block
    cdef Py_ssize_t counted_to, n_counted_lines  # where the last bad record began, and the lines before it
    cdef Py_ssize_t column, n_columns  # of rows: which has the text, of how many
    cdef object buffers                # a `BufferPool` to take the buffer from, or None
    cdef readonly Py_ssize_t index     # among the blocks of its reader
    cdef readonly bint begins_document  # with a new document rather than the rest of one
    cdef readonly bint ends_document   # the last document ends with the block
    cdef FileReader reader             # where it comes from
    cdef OpenFile* file                # until it is read; NULL for a file that is one block
    cdef readonly Py_ssize_t unit_index  # among the units of the reader
    cdef bint drops_trailing           # a separator at the end starts no empty document
    cdef int64_t* starts               # of the documents
    cdef int64_t* sizes                # in bytes
    cdef Py_ssize_t n_documents
    cdef size_t starts_capacity, sizes_capacity
    cdef Py_ssize_t n_bad_records      # that were left out of the block
    cdef MatchList matches             # of separators

    cdef int reserve(self, Py_ssize_t size, Py_ssize_t kept) except -1 nogil
    cdef int split(self, FileReader reader) except -1 nogil
    cdef int add_document(self, Py_ssize_t start, Py_ssize_t end) except -1 nogil


cdef class FileReader:
    cdef list names
    cdef list encoded_names
    cdef const char** paths            # of `encoded_names`
    cdef readonly Py_ssize_t n_units
    cdef const int64_t[:, ::1] units   # what is read of the files
    cdef Py_ssize_t block_bytes        # bytes to read at once
    cdef list separators
    cdef bint keep_separator
    cdef bint separator_ends           # a separator at the end starts no empty document
    cdef bint whole_documents          # a block ends where a document does
    cdef bint overlaps_itself          # the separator: matches depend on where the search begins
    cdef readonly bint requires_utf8
    cdef Finder separator_finder       # finds separators
    cdef bytes separator_bytes         # the separator
    cdef const char* separator
    cdef Finder unsplittable_finder    # finds strings that must not be cut
    cdef object check_first_bytes, note_stamp
    cdef FieldPath field               # of JSON Lines that has the text, or None
    cdef RowDialect dialect            # of the rows of CSV, or None
    cdef bint has_records              # JSON Lines or rows, whose texts are the documents
    cdef object count_invalid          # if documents that are not UTF-8 are left out; else None
    cdef object parse_record
    # State that threads share, under this lock, which is never acquired while holding the GIL.
    cdef cython.pythread_type_lock lock
    cdef OpenFile* open_files
    cdef OpenFile* file                # the one that the next block is from; NULL before it is opened
    cdef Py_ssize_t unit_index         # of its unit
    cdef Py_ssize_t offset             # of the next block in it
    cdef readonly Py_ssize_t n_blocks  # that were given out
    cdef Py_ssize_t finished_flag      # 1 when all blocks were, or after an error; read without the lock
    cdef bint begins_document          # the next block, with a new document
    cdef byte_t* window                # the text before a block's end
    cdef Py_ssize_t window_start       # its offset in the file
    cdef size_t window_capacity
    cdef MatchList matches             # of separators

    cdef int attach(self, FileBlock block) except -1
    cdef bint take_block(self, FileBlock block, find_last_t find_last, void* context) except -1 nogil
    cdef bint give_out(self, FileBlock block, find_last_t find_last, void* context) except -1 nogil
    cdef int give_out_next(self, FileBlock block, find_last_t find_last, void* context) except -1 nogil
    cdef int read(self, FileBlock block) except -1 nogil


# What a `SequentialReader` reads by, too.
cdef int raise_for_change(FileReader reader, FileBlock block, Py_ssize_t old_size, Py_ssize_t new_size) except -1
cdef int raise_for_window(FileReader reader, int code, Py_ssize_t end) except -1
cdef int fail_locked(FileReader reader, error) except -1
cdef int open_next(FileReader reader) except -1 nogil
cdef void end_file(FileReader reader, FileBlock block) noexcept nogil
cdef bint end_read(FileReader reader, FileBlock block, OpenFile* file, Py_ssize_t* size) noexcept nogil
cdef byte_t* reserve_input(FileReader reader, FileBlock block, Py_ssize_t size) except NULL nogil
cdef byte_t* input_of(FileReader reader, FileBlock block) noexcept nogil
cdef void end_block(FileReader reader, FileBlock block, const byte_t* end, Py_ssize_t n) noexcept nogil
cdef Py_ssize_t fill(OpenFile* file, byte_t* out, Py_ssize_t size, Py_ssize_t offset) noexcept nogil
cdef Py_ssize_t find_split(
    FileReader reader, const byte_t* text, Py_ssize_t low, Py_ssize_t end, find_last_t find_last, void* context
) except -1 nogil
cdef Py_ssize_t find_last_line(void* context, const byte_t* text, Py_ssize_t start, Py_ssize_t end) noexcept nogil
cdef int read_records(FileReader reader, FileBlock block) except -1 nogil
cdef Py_ssize_t skip_byte_order_mark(const byte_t* text, Py_ssize_t n, Py_ssize_t offset) noexcept nogil
cdef Py_ssize_t count_newlines(const byte_t* text, Py_ssize_t n) noexcept nogil
