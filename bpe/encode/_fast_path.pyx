"""Fast paths for plain calls with short texts: str or bytes, no options, a tokenizer that takes texts unchanged.

A Python frame takes as long as encoding a few words. So a function here wraps each method that checks arguments: it
handles plain calls itself and passes on all others.

Measured, a call of `encode` with 20 bytes: 0.51 µs through Python, 0.23 here.
"""

cimport cython
cimport numpy as cnp

from bpe.base._id_lists cimport make_list
from bpe.base._ids cimport reserve
from bpe.base._memory cimport hash_bytes
from bpe.base._types cimport byte_t, token_t
from bpe.base._utf8 cimport UTF8_PADDING, CodeUnits, copy_padded, max_utf8_size, to_utf8, get_code_unit, get_code_units
from bpe.encode._chunk cimport MAX_EMITTED_IDS, MAX_PIECES, WHOLE, Feed, Fragment, pays_to_split
from bpe.encode._chunk_filler cimport begin_feed, count_three_byte_chars, emit_values
from bpe.encode._encoder cimport MAX_SHORT_TEXT, Encoder, build_split_filter, encode_fragment, get_splits
from bpe.encode._piece_ids cimport enter_value
from bpe.encode._piece_splitter cimport split_singly
from bpe.encode._split_filter cimport SplitTables
from bpe.encode._word_cache cimport (
    CURRENT, EMPTY_KEY, MAX_LONG_WORD, MAX_MIDDLE_WORD, MAX_SHORT_WORD, SHORT_KEY_FACTOR, Cache, fetch_shared_short,
    find_front, find_shared, find_word, get_state, has_capacity, has_ids, hash_word, load_near_key, make_value,
    prefetch_front, prefetch_line, prefetch_spilled,
)
from bpe.encode._workspace cimport N_RECENT_TEXTS, Workspace, emit_spilled, emit_value
from bpe.pretokenize._char_scanner cimport get_skip_gap
from bpe.pretokenize._scanner cimport open_cursor, scan, scan_bounds
from cpython.unicode cimport PyUnicode_Contains, PyUnicode_FindChar, PyUnicode_GET_LENGTH, PyUnicode_Substring
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cnp.import_array()

cdef extern from *:
    """
    static inline PyObject* bpe_new_object(PyObject* kind) {
        return ((PyTypeObject*)kind)->tp_alloc((PyTypeObject*)kind, 0);
    }
    """
    bint PyUnicode_IS_ASCII(object text)
    object new_object "bpe_new_object"(object kind)    # of a class, without `__init__`

cdef enum:
    MAX_REPEATED_BYTES = 1024  # the same for a text that comes again, and whose pieces would be split
    MEAN_TOKEN_BYTES = 6      # a little more than in most texts
    MAX_CUT = 1 << 30         # tokens: a text is cut after fewer
    MIN_TEXT_SIZE = 64        # characters: a text counts for so many more
    MAX_BATCH_CHARS = MIN_TEXT_SIZE * MAX_SHORT_TEXTS  # releasing the GIL does not pay for less

cdef object NO_NAMES = ()     # the default of `allowed_special` and `disallowed_special`; there is one empty tuple


@cython.auto_pickle(False)
cdef class FastKernels:
    """The base class of `Tokenizer`: its kernels, which C code reads without looking an attribute up."""

    cdef public Encoder _fast_encoder  # None if it cannot take texts unchanged
    cdef public FastOffsetEncoder _fast_offsets  # None, too, before `_offset_encoder` is there
    cdef public object _fast_specials  # a SpecialEncoder or None; None before `_special_encoder` is there


def with_fast_encode(method):
    """Wrap `Tokenizer.encode` in a fast path; `method` handles all other calls."""

    def encode(
        FastKernels self not None, text, *, allowed_special=NO_NAMES, disallowed_special=NO_NAMES, dropout=None,
        seed=None, template=False,
    ):
        cdef Encoder encoder
        if disallowed_special is NO_NAMES and dropout is None and seed is None and template is False:
            if allowed_special is NO_NAMES:
                encoder = self._fast_encoder
                ids = None if encoder is None else encode_to_array(encoder, text)
                if ids is not None:
                    return ids
            elif is_all(allowed_special) and (type(text) is str or type(text) is bytes):
                special_encoder = self._fast_specials if self._fast_specials is not None else self._special_encoder
                ids = None if special_encoder is None else special_encoder.encode(text)
                if ids is not None:
                    return ids
        return method(
            self, text, allowed_special=allowed_special, disallowed_special=disallowed_special, dropout=dropout,
            seed=seed, template=template,
        )

    return encode


cdef bint is_all(allowed_special) except -1:
    """Whether all special tokens are allowed."""
    return type(allowed_special) is str and <str>allowed_special == "all"


def with_fast_batch(method, kind):
    """Wrap `Tokenizer.encode_batch` in a fast path for a list of texts that are short together.

    `kind` is the class of the result, which is created without the checks of its `__init__`.
    """

    def encode_batch(FastKernels self not None, texts, **options):
        cdef Encoder encoder
        if type(texts) is list and (not options or are_plain(options)):
            encoder = self._fast_encoder
            if encoder is not None:
                batch = encode_short_texts(encoder, texts, kind)
                if batch is not None:
                    return batch
        return method(self, texts, **options)

    return encode_batch


def with_fast_count(method):
    """Wrap `Tokenizer.count_tokens` in a fast path for one text, or a list of texts that are short together."""

    def count_tokens(
        FastKernels self not None, text, *, limit=None, threads=None, allowed_special=NO_NAMES,
        disallowed_special=NO_NAMES,
    ):
        cdef Encoder encoder = self._fast_encoder
        if encoder is not None and limit is None and allowed_special is NO_NAMES and disallowed_special is NO_NAMES:
            if is_thread_number(threads):
                counted = count_short_texts(encoder, text) if type(text) is list else count_text(encoder, text)
                if counted is not None:
                    return counted
        return method(
            self, text, limit=limit, threads=threads, allowed_special=allowed_special,
            disallowed_special=disallowed_special,
        )

    return count_tokens


cdef object count_text(Encoder encoder, text):
    """Count the ids of a text; None if the method has to: for other types, long text that is not ASCII, and errors."""
    cdef Workspace workspace = encoder.take_workspace()
    cdef Py_ssize_t n = -1
    cdef Fragment fragment
    if append_short_text(encoder, workspace, text):
        n = workspace.out.n
    elif view_long_text(encoder, text, &fragment):
        n = encoder.count_ids(workspace, &fragment)
    encoder.give_back(workspace)
    return None if n < 0 else n


cdef object count_short_texts(Encoder encoder, list texts):
    """Count the ids of each of several texts, as `encode_short_texts` takes them: int64, or None."""
    cdef cnp.npy_intp n = len(texts)
    cdef Workspace workspace
    cdef int64_t* count
    cdef Py_ssize_t i = 0
    if not are_short_together(texts):
        return None
    counts = cnp.PyArray_EMPTY(1, &n, cnp.NPY_INT64, 0)
    count = <int64_t*>cnp.PyArray_DATA(counts)
    workspace = encoder.take_workspace()
    for text in texts:
        workspace.out.n = 0
        if i == n or not append_short_text(encoder, workspace, text):
            break
        count[i] = <int64_t>workspace.out.n
        i += 1
    encoder.give_back(workspace)
    return counts if i == n else None


cdef object encode_to_array(Encoder encoder, text):
    """Encode a short text to an array; None if `append_short_text` does not take it."""
    cdef Workspace workspace = encoder.take_workspace()
    if append_short_text(encoder, workspace, text):
        return encoder.take_ids(workspace)
    encoder.give_back(workspace)
    return None


cdef class ListEncoder:
    """Encodes short texts to lists of int, for methods that `with_fast_list` wraps.

    `prefix` is what the names of all special tokens begin with, None if there are no special tokens. Without an
    encoder, every text is passed on.
    """

    cdef Encoder encoder
    cdef str prefix

    def __cinit__(self, Encoder encoder, str prefix):
        self.encoder, self.prefix = encoder, prefix

    cdef list encode_to_list(self, str text):
        """Encode a short text to a list; None if `append_short_text` does not take it, or without an encoder."""
        cdef Workspace workspace
        cdef list ids = None
        if self.encoder is None:
            return None
        workspace = self.encoder.take_workspace()
        if append_short_text(self.encoder, workspace, text):
            ids = make_list(workspace.out.data, <Py_ssize_t>workspace.out.n)
        self.encoder.give_back(workspace)
        return ids

    cdef bint has_no_name(self, str text, dict options) except -1:
        """Whether no special token is sought: `disallowed_special=()` alone, or no options and no name in the text."""
        if options:
            return len(options) == 1 and options.get("disallowed_special") is NO_NAMES
        return self.prefix is None or not may_have_name(text, self.prefix)


cdef bint may_have_name(str text, str prefix) except -1:
    """Whether a text may have a name that begins with `prefix`. Its first character is sought first: that is faster."""
    if prefix == "":
        return True
    if PyUnicode_FindChar(text, prefix[0], 0, PyUnicode_GET_LENGTH(text), 1) < 0:
        return False
    return PyUnicode_Contains(text, prefix)


def with_fast_ordinary_list(method):
    """Wrap `encode_ordinary` of tiktoken's interface as `with_fast_list` wraps `encode`."""

    def encode_ordinary(self, text):
        cdef ListEncoder lists = self._lists
        ids = lists.encode_to_list(text) if type(text) is str else None
        return method(self, text) if ids is None else ids

    return encode_ordinary


def with_fast_list(method):
    """Wrap `encode` of tiktoken's interface in a fast path; `method` handles other calls.

    The encoding's `_lists` is a `ListEncoder`.
    """

    def encode(self, text, **options):
        cdef ListEncoder lists = self._lists
        if type(text) is str and lists.has_no_name(text, options):
            ids = lists.encode_to_list(text)
            if ids is not None:
                return ids
        return method(self, text, **options)

    return encode


cdef bint are_plain(dict options) except -1:
    """Whether options need no check: no special tokens and a valid number of threads."""
    for name, value in options.items():
        if name == "threads":
            if not is_thread_number(value):
                return False
        elif value is not NO_NAMES or name not in ("allowed_special", "disallowed_special"):
            return False
    return True


cdef inline bint is_thread_number(threads) except -1:
    """Whether a number of threads needs no check."""
    return threads is None or (type(threads) is int and 0 < threads <= 64)


cdef bint are_short_together(list texts) except -1:
    """Whether texts are so short that releasing the GIL does not pay, and each of them is short."""
    cdef Py_ssize_t total = 0, size
    for text in texts:
        size = PyUnicode_GET_LENGTH(text) if type(text) is str else len(text) if type(text) is bytes else 0
        total += MIN_TEXT_SIZE + size
        if size > MAX_SHORT_TEXT or total > MAX_BATCH_CHARS:
            return False
    return True


cdef object encode_short_texts(Encoder encoder, list texts, kind):
    """Encode a list of texts to a batch; None if they are long together, or `append_short_text` refuses one of them.

    None, too, if another thread shortens the list: encoding may let it run, to replace a full word table.
    """
    cdef Workspace workspace
    cdef Py_ssize_t i = 0, n = len(texts)
    cdef cnp.npy_intp n_offsets = n + 1
    cdef int64_t* offsets
    if not are_short_together(texts):
        return None
    bounds = cnp.PyArray_EMPTY(1, &n_offsets, cnp.NPY_INT64, 0)
    offsets = <int64_t*>cnp.PyArray_DATA(bounds)
    offsets[0] = 0
    workspace = encoder.take_workspace()
    for text in texts:
        if i == n or not append_short_text(encoder, workspace, text):
            break
        i += 1
        offsets[i] = <int64_t>workspace.out.n
    if i < n:
        encoder.give_back(workspace)
        return None
    batch = new_object(kind)
    cnp.PyArray_CLEARFLAGS(bounds, cnp.NPY_ARRAY_WRITEABLE)
    batch.ids, batch.offsets = encoder.take_ids(workspace), bounds
    return batch


cdef bint append_short_text(Encoder encoder, Workspace workspace, text) except -1:
    """Append the ids of a short text; False if it is long, is no text, or has unknown symbols."""
    cdef byte_t utf8[MAX_SHORT_TEXT + UTF8_PADDING]
    cdef CodeUnits units
    cdef Py_ssize_t size
    if type(text) is str:
        units = get_code_units(text)
        if units.width == 0:
            return append_copied(encoder, workspace, units.data, units.n, True)
        if max_utf8_size(&units) > MAX_SHORT_TEXT:
            return False
        size = to_utf8(&units, utf8)
        memset(utf8 + size, 0, UTF8_PADDING)
        return append_padded(encoder, workspace, utf8, size, False)
    if type(text) is bytes and not encoder.piece_encoder.merger.symbol_tokens.is_char_model:
        return append_copied(encoder, workspace, <const byte_t*><bytes>text, len(<bytes>text), False)
    return False


cdef bint append_copied(
    Encoder encoder, Workspace workspace, const byte_t* text, Py_ssize_t size, bint is_ascii
) except -1:
    """Append the ids of a short UTF-8 text, copied to memory with room after it; False as `append_short_text`."""
    cdef byte_t padded[MAX_SHORT_TEXT + UTF8_PADDING]
    if size > MAX_SHORT_TEXT:
        return False
    copy_padded(text, size, padded)
    return append_padded(encoder, workspace, padded, size, is_ascii)


cdef bint append_padded(
    Encoder encoder, Workspace workspace, const byte_t* text, Py_ssize_t size, bint is_ascii
) except -1:
    """Append the ids of UTF-8 after which UTF8_PADDING bytes can be read: the scanner and the keys load vectors."""
    cdef Fragment fragment = Fragment(text=text, size=size, token=0)
    if size <= (MAX_TINY_BYTES if is_ascii else MAX_REPEATED_BYTES):
        if append_tiny(encoder, workspace, text, size, is_ascii):
            return True
    begin_feed(workspace.feed, &fragment, 1, encoder.scanner)
    workspace.feed.in_one_buffer, workspace.feed.readable = True, text + size + UTF8_PADDING
    workspace.feed.is_ascii = is_ascii
    encoder.encode_feed(workspace, NULL)
    return not workspace.unknown


cdef bint view_long_text(Encoder encoder, text, Fragment* fragment) except -1:
    """Set a fragment to a text too long for `append_short_text`; False if the encoder does not take it unchanged."""
    cdef CodeUnits units
    if type(text) is str:
        units = get_code_units(text)
        fragment.text, fragment.size = units.data, units.n
        return units.width == 0 and units.n > MAX_SHORT_TEXT
    if type(text) is bytes and not encoder.piece_encoder.merger.symbol_tokens.is_char_model:
        fragment.text, fragment.size = <bytes>text, len(<bytes>text)
        return fragment.size > MAX_SHORT_TEXT
    return False


cdef inline const SplitTables* choose_splits(
    Encoder encoder, size_t three_byte_chars, Py_ssize_t size
) except? NULL:
    """Return the split filter, built if need be; NULL if splitting a text of `size` bytes does not pay."""
    cdef const SplitTables* splits
    if not pays_to_split(three_byte_chars, size):
        return NULL
    build_split_filter(encoder)
    splits = get_splits(encoder)
    if splits.bits == NULL:
        return NULL
    return splits


cdef bint append_tiny(
    Encoder encoder, Workspace workspace, const byte_t* text, Py_ssize_t size, bint is_ascii
) except -1:
    """Append the ids of a tiny text, piece by piece; False, and no ids, if a piece has no value.

    UTF8_PADDING bytes can be read after the text.
    """
    cdef size_t n_before = workspace.out.n, three_byte_chars
    cdef Cache* cache = &workspace.cache
    cdef Feed* feed = workspace.feed
    cdef Py_ssize_t* start = feed.start
    cdef Py_ssize_t* end = feed.end
    cdef uint64_t lo[MAX_TINY_BYTES]
    cdef uint64_t hi[MAX_TINY_BYTES]
    cdef uint64_t values[MAX_TINY_BYTES]
    cdef uint64_t value
    cdef Py_ssize_t n, i, first = 0
    cdef const SplitTables* splits
    cdef bint is_splitting, comes_again = not is_ascii and is_repeated(workspace, text, size)
    if size > MAX_TINY_BYTES and not comes_again:
        return False
    three_byte_chars = 0 if is_ascii else count_three_byte_chars(text, size)
    splits = choose_splits(encoder, three_byte_chars, size)
    is_splitting = splits != NULL
    if encoder.piece_rules is not None or three_byte_chars > <size_t>size or get_state(cache.table) != CURRENT:
        return False
    if is_splitting and encoder.piece_encoder.marks_word_ends or size > MAX_TINY_BYTES and not is_splitting:
        return False
    if is_splitting and comes_again:
        return append_whole_pieces(encoder, workspace, text, size, splits)
    open_cursor(&feed.cursor, encoder.scanner, text, 0, size)
    feed.cursor.can_read_on = True
    n = scan_bounds(&feed.cursor, feed.bounds, MAX_PIECES)
    if n == 0:
        n = scan(&feed.cursor, feed.start, feed.end, MAX_PIECES)
    else:
        if not is_splitting:
            first = append_cached(workspace, text, feed.bounds, n)
        for i in range(first, n):
            feed.start[i], feed.end[i] = feed.bounds[i], feed.bounds[i + 1]
    if is_splitting:
        feed.n_found, feed.next, feed.n_bytes_taken = n, 0, 0
        n = split_singly(feed, splits, MAX_PIECES, workspace.chunk.roles)
        start, end = feed.part_start, feed.part_end
    for i in range(first, n):                              # prefetches for all before the first is looked up
        compute_keys(cache, text + start[i], end[i] - start[i], &lo[i], &hi[i])
    for i in range(first, n):
        values[i] = 0
        if end[i] - start[i] <= MAX_SHORT_WORD:
            values[i] = find_front(cache, lo[i])
            if values[i] == 0:
                prefetch_line(cache.table, hash_word(lo[i], EMPTY_KEY))
    for i in range(first, n):
        value = values[i]
        if value == 0:
            value = get_value(
                encoder, workspace, text + start[i], end[i] - start[i], lo[i], hi[i],
                workspace.chunk.roles[i] if is_splitting else WHOLE,
            )
        if value == 0:
            workspace.out.n = n_before
            return False
        emit_value(workspace, value)
    return True


cdef inline uint64_t get_value(
    Encoder encoder, Workspace workspace, const byte_t* word, Py_ssize_t size, uint64_t lo, uint64_t hi, int role
) except? 0:
    """Return the value of a word that the front table does not have, merged if need be; 0 if it has none."""
    cdef uint64_t value = find_behind_front(&workspace.cache, word, size, lo, hi)
    if value == 0:
        encoder.piece_encoder.merge_and_cache(workspace, word, size, role, lo, hi, &value)
    return value


cdef inline uint64_t find_behind_front(
    Cache* cache, const byte_t* word, Py_ssize_t size, uint64_t lo, uint64_t hi
) noexcept nogil:
    """Find the shared value of a word that the front table does not have, or 0."""
    if size <= MAX_SHORT_WORD:
        return fetch_shared_short(cache, lo)
    return find_shared(cache.table, word, size, lo, hi)


cdef bint is_repeated(Workspace workspace, const byte_t* text, Py_ssize_t size) noexcept nogil:
    """Whether a text came to this workspace before, not long ago; or, rarely, one of its size with the same ends.

    16 bytes can be read from the start of the text, whatever its size.
    """
    cdef uint64_t first[2]
    cdef uint64_t last, hashed
    memcpy(first, text, 16)
    memcpy(&last, text + max(size - 8, <Py_ssize_t>0), 8)
    hashed = hash_word(hash_word(first[0], first[1]) + size * SHORT_KEY_FACTOR, last)
    cdef uint32_t* recent = &workspace.recent_texts[hashed & (N_RECENT_TEXTS - 1)]
    cdef bint is_known = recent[0] == <uint32_t>(hashed >> 32)
    recent[0] = <uint32_t>(hashed >> 32)
    return is_known


cdef bint append_whole_pieces(
    Encoder encoder, Workspace workspace, const byte_t* text, Py_ssize_t size, const SplitTables* splits
) except -1:
    """Append the ids of a text, whose pieces are split only if the cache does not have them; False as `append_tiny`.

    Only for texts that come again: entering the pieces of all texts made new ones take twice as long.
    """
    cdef Cache* cache = &workspace.cache
    cdef Feed* feed = workspace.feed
    cdef uint64_t* values = workspace.chunk.values
    cdef uint64_t* keys = workspace.chunk.keys
    cdef size_t n_before = workspace.out.n
    cdef Py_ssize_t n, i, length
    cdef token_t* out
    open_cursor(&feed.cursor, encoder.scanner, text, 0, size)
    feed.cursor.can_read_on = True
    n = scan_bounds(&feed.cursor, feed.bounds, MAX_PIECES)
    if n == 0 or feed.cursor.pos < size:
        return False
    for i in range(n):
        compute_keys(
            cache, text + feed.bounds[i], feed.bounds[i + 1] - feed.bounds[i], &keys[2 * i], &keys[2 * i + 1]
        )
    for i in range(n):
        length = feed.bounds[i + 1] - feed.bounds[i]
        values[i] = find_front(cache, keys[2 * i]) if length <= MAX_SHORT_WORD else 0
        if values[i] == 0 and length <= MAX_LONG_WORD:
            values[i] = find_behind_front(cache, text + feed.bounds[i], length, keys[2 * i], keys[2 * i + 1])
        prefetch_spilled(cache, values[i])
    i = 0
    while True:
        reserve(&workspace.out, MAX_EMITTED_IDS * (n - i) + 16)
        out = workspace.out.data + workspace.out.n
        i += emit_values(values + i, n - i, cache.table.spilled, &out)
        workspace.out.n = out - workspace.out.data
        if i >= n:
            return True
        if values[i]:
            emit_spilled(workspace, values[i])
        elif not append_split_piece(encoder, workspace, text, feed.bounds[i], feed.bounds[i + 1], splits):
            workspace.out.n = n_before
            return False
        i += 1


cdef bint append_split_piece(
    Encoder encoder, Workspace workspace, const byte_t* text, Py_ssize_t start, Py_ssize_t end,
    const SplitTables* splits,
) except -1:
    """Append the ids of a piece, part by part, and enter them as those of the piece; False if a part has no value."""
    cdef Feed* feed = workspace.feed
    cdef Cache* cache = &workspace.cache
    cdef byte_t* role = workspace.chunk.roles
    cdef size_t n_before = workspace.out.n
    cdef Py_ssize_t k, n, size
    cdef const byte_t* part
    cdef uint64_t lo, hi, value
    feed.start[0], feed.end[0], feed.next, feed.n_found, feed.n_bytes_taken = start, end, 0, 1, 0
    n = split_singly(feed, splits, MAX_PIECES, role)
    for k in range(n):
        part, size = text + feed.part_start[k], feed.part_end[k] - feed.part_start[k]
        if size > MAX_LONG_WORD:
            return False
        load_keys(part, size, &lo, &hi)
        value = find_front(cache, lo) if size <= MAX_SHORT_WORD else 0
        if value == 0:
            value = get_value(encoder, workspace, part, size, lo, hi, role[k])
        if value == 0:
            return False
        emit_value(workspace, value)
    # Where words have tokens without merging, a part may have the same key.
    if n > 1 and end - start <= MAX_LONG_WORD and encoder.piece_encoder.unmerged_words is None:
        if has_capacity(cache.table):
            load_keys(text + start, end - start, &lo, &hi)
            value = make_value(cache.table, workspace.out.data + n_before, workspace.out.n - n_before)
            enter_value(cache, text + start, end - start, lo, hi, value)
    return True


cdef inline Py_ssize_t append_cached(
    Workspace workspace, const byte_t* text, const uint32_t* bounds, Py_ssize_t n
) except -1:
    """Append the ids of pieces up to the first one that is not found at once; returns their number."""
    cdef const Cache* cache = &workspace.cache
    cdef const byte_t* word
    cdef token_t* out
    cdef Py_ssize_t i, length
    cdef uint64_t value, lo, hi
    reserve(&workspace.out, 2 * n)
    out = workspace.out.data + workspace.out.n
    for i in range(n):
        word, length = text + bounds[i], bounds[i + 1] - bounds[i]
        if length <= MAX_SHORT_WORD:
            value = find_front(cache, load_near_key(word, length))
        elif length <= MAX_MIDDLE_WORD:
            load_keys(word, length, &lo, &hi)
            value = find_word(cache.table, lo, hi, hash_word(lo, hi))
        else:
            n = i
            break
        if not has_ids(value):
            n = i
            break
        out[0], out[1] = <token_t>value - 1, <token_t>(value >> 32) - 1
        out += 1 + (value >> 32 != 0)
    workspace.out.n = out - workspace.out.data
    return n


cdef inline void compute_keys(
    const Cache* cache, const byte_t* word, Py_ssize_t length, uint64_t* lo, uint64_t* hi
) noexcept nogil:
    """Set the keys of a word as `load_keys`, and prefetch the first line where it may be."""
    load_keys(word, length, lo, hi)
    if length <= MAX_SHORT_WORD:
        prefetch_front(cache, lo[0])
    elif length <= MAX_MIDDLE_WORD:
        prefetch_line(cache.table, hash_word(lo[0], hi[0]))


cdef inline void load_keys(const byte_t* word, Py_ssize_t length, uint64_t* lo, uint64_t* hi) noexcept nogil:
    """Set the keys of a word of which 8 bytes can be read from any of its bytes; `lo` of a long word is its hash."""
    hi[0] = EMPTY_KEY
    if length <= MAX_SHORT_WORD:
        lo[0] = load_near_key(word, length)
    elif length <= MAX_MIDDLE_WORD:
        memcpy(lo, word, 8)
        hi[0] = load_near_key(word + 8, length - 8)
    else:
        lo[0] = hash_bytes(word, length)


# Offsets --------------------------------------------------------------------------------------------------------------


cdef class FastOffsetEncoder:
    """Encodes texts with offsets, for tokenizers whose tokens are parts of the text; `lengths` is their bytes by id."""

    cdef Encoder encoder
    cdef const uint32_t[::1] lengths
    cdef bint are_adjacent    # whether no text is left out between tokens

    def __cinit__(self, Encoder encoder not None, const uint32_t[::1] lengths not None):
        self.encoder, self.lengths = encoder, lengths
        self.are_adjacent = get_skip_gap(encoder.scanner) == NULL

    cpdef object encode(self, text, bint in_chars):
        """Encode a text to (ids, spans); None if it has surrogates or unknown symbols, or its tokens leave out text."""
        cdef Encoder encoder = self.encoder
        cdef Workspace workspace = encoder.take_workspace()
        cdef CodeUnits units
        cdef cnp.npy_intp[2] shape
        cdef bint located
        if not encode_text(encoder, workspace, text, &units):
            encoder.give_back(workspace)
            return None
        shape[0], shape[1] = workspace.out.n, 2
        spans = cnp.PyArray_EMPTY(2, shape, cnp.NPY_INT64, 0)
        if units.width == 0:
            located = locate_bytes(
                self, workspace.out.data, workspace.out.n, units.n, <int64_t*>cnp.PyArray_DATA(spans)
            )
        else:
            located = locate_characters(
                self, workspace.out.data, workspace.out.n, &units, in_chars, <int64_t*>cnp.PyArray_DATA(spans)
            )
        ids = encoder.take_ids(workspace)
        return (ids, spans) if located else None

    cdef object truncate(self, text, Py_ssize_t max_tokens):
        """Cut a text as `offsets.truncate` does; None where `encode` is. Only the beginning of the text is encoded."""
        cdef Encoder encoder = self.encoder
        cdef Workspace workspace
        cdef Fragment fragment
        cdef Py_ssize_t i, cut, n_first, end = 0
        cdef bytes data = None                             # keeps the memory of the fragment
        if type(text) is bytes or not PyUnicode_IS_ASCII(text):
            try:
                data = text if type(text) is bytes else (<str>text).encode()
            except UnicodeEncodeError:
                return None
            fragment.text, fragment.size = data, len(data)
        else:
            fragment.text, fragment.size = get_code_units(text).data, len(<str>text)
        workspace = encoder.take_workspace()
        n_first = self.find_beginning(&fragment, max_tokens)
        is_whole = append_copied(encoder, workspace, fragment.text, n_first, data is None)
        if n_first < fragment.size and workspace.out.n <= <size_t>max_tokens:
            workspace.out.n = 0
            is_whole = append_copied(encoder, workspace, fragment.text, fragment.size, data is None)
        if not is_whole and not workspace.unknown:
            is_whole = encoder.encode_until(workspace, &fragment, max_tokens)
        if workspace.unknown:
            encoder.give_back(workspace)
            return None
        if is_whole and workspace.out.n <= <size_t>max_tokens:
            encoder.give_back(workspace)
            return text
        for i in range(max_tokens):
            end += self.measure(workspace.out.data[i])
        if end > fragment.size:                            # lengths of another vocabulary
            encoder.give_back(workspace)
            return None
        for i in range(max_tokens, 0, -1):
            cut = end
            while 0 < cut < fragment.size and fragment.text[cut] & 0xC0 == 0x80:
                cut -= 1
            if cut == end and encoder.find_next_split_utf8(fragment.text, cut, min(cut + 8, fragment.size)) == cut:
                break                                      # the prefix has these i tokens
            if count_prefix(encoder, &fragment, cut, data is None) <= max_tokens:
                break
            end -= self.measure(workspace.out.data[i - 1])
        else:
            cut = 0
        encoder.give_back(workspace)
        if data is None:
            return PyUnicode_Substring(text, 0, cut)
        return data[:cut] if type(text) is bytes else data[:cut].decode()

    cdef Py_ssize_t find_beginning(self, const Fragment* text, Py_ssize_t max_tokens) noexcept:
        """Find a safe split point near the end of the first `max_tokens` tokens of most texts; else the text's size.

        If some bytes have no token, the whole text is encoded as before: it may have one.
        """
        cdef Py_ssize_t start = MEAN_TOKEN_BYTES * max_tokens + 1, end = min(start + MAX_TINY_BYTES, text.size), split
        if not self.encoder.piece_encoder.merger.symbol_tokens.has_all_bytes or start >= text.size:
            return text.size
        split = self.encoder.find_next_split_utf8(text.text, start, end)
        return split if split < end else text.size

    cdef inline Py_ssize_t measure(self, token_t token) noexcept:
        return self.lengths[token] if token < <size_t>self.lengths.shape[0] else 0


cdef inline FastOffsetEncoder get_offset_encoder(FastKernels tokenizer):
    """Return a tokenizer's `FastOffsetEncoder`; None if tokens may differ from the text."""
    return tokenizer._fast_offsets if tokenizer._fast_offsets is not None else tokenizer._offset_encoder.fast_encoder


def with_fast_offsets(method):
    """Wrap `Tokenizer.encode_with_offsets` in the kernel; `method` handles all other calls."""

    def encode_with_offsets(
        FastKernels self not None, text, unit="char", *, allowed_special=NO_NAMES, disallowed_special=NO_NAMES,
        template=False, convention="whole",
    ):
        cdef FastOffsetEncoder fast_encoder
        cdef bint in_chars, is_plain = allowed_special is NO_NAMES and disallowed_special is NO_NAMES
        if is_plain and template is False and type(convention) is str and convention == "whole" and type(unit) is str:
            in_chars = unit == "char"
            fast_encoder = get_offset_encoder(self) if in_chars or unit == "byte" else None
            if fast_encoder is not None and (type(text) is str or not in_chars):
                encoded = fast_encoder.encode(text, in_chars)
                if encoded is not None:
                    return encoded
        return method(
            self, text, unit, allowed_special=allowed_special, disallowed_special=disallowed_special,
            template=template, convention=convention,
        )

    return encode_with_offsets


def with_fast_truncate(method):
    """Wrap `Tokenizer.truncate` in the kernel likewise."""

    def truncate(FastKernels self not None, text, max_tokens, *, side="right", allowed_special=NO_NAMES):
        cdef FastOffsetEncoder fast_encoder
        cdef bint is_plain = allowed_special is NO_NAMES and type(side) is str and side == "right"
        if is_plain and type(max_tokens) is int and 0 <= max_tokens < MAX_CUT:
            fast_encoder = get_offset_encoder(self)
            if fast_encoder is not None and fast_encoder.are_adjacent and (type(text) is str or type(text) is bytes):
                beginning = fast_encoder.truncate(text, max_tokens)
                if beginning is not None:
                    return beginning
        return method(self, text, max_tokens, side=side, allowed_special=allowed_special)

    return truncate


cdef Py_ssize_t count_prefix(Encoder encoder, const Fragment* text, Py_ssize_t size, bint is_ascii) except -2:
    """Count the ids of the first `size` bytes of a text by themselves."""
    cdef Workspace workspace = encoder.take_workspace()
    cdef Fragment fragment = Fragment(text=text.text, size=size, token=0)
    cdef Py_ssize_t n
    if append_copied(encoder, workspace, text.text, size, is_ascii):
        n = workspace.out.n
    else:
        n = encoder.count_ids(workspace, &fragment)
    encoder.give_back(workspace)
    return n


cdef bint encode_text(Encoder encoder, Workspace workspace, text, CodeUnits* units) except -1:
    """Write the ids of a text of any length, and set its characters; False if the kernel cannot."""
    cdef Fragment fragment
    if type(text) is str:
        units[0] = get_code_units(text)
    elif type(text) is bytes:
        units[0] = CodeUnits(data=<const byte_t*><bytes>text, n=len(<bytes>text), width=0)
    else:
        return False
    if append_short_text(encoder, workspace, text):
        return True
    if workspace.unknown:
        return False
    if units.width:
        try:
            text = (<str>text).encode()
        except UnicodeEncodeError:
            return False
    if not view_long_text(encoder, text, &fragment):
        return False
    encode_fragment(encoder, workspace, &fragment)
    return not workspace.unknown


cdef bint locate_bytes(
    FastOffsetEncoder fast_encoder, const token_t* ids, Py_ssize_t n, Py_ssize_t size, int64_t* span
) noexcept nogil:
    """Set the start and end of each of n tokens in bytes. Returns whether they end at `size`."""
    cdef const uint32_t* lengths = &fast_encoder.lengths[0] if n else NULL
    cdef size_t limit = fast_encoder.lengths.shape[0]
    cdef int64_t position = 0
    cdef Py_ssize_t i
    for i in range(n):
        span[2 * i] = position
        position += lengths[ids[i]] if ids[i] < limit else 0
        span[2 * i + 1] = position
    return position == size


cdef bint locate_characters(
    FastOffsetEncoder fast_encoder, const token_t* ids, Py_ssize_t n, const CodeUnits* text, bint in_chars,
    int64_t* span,
) noexcept nogil:
    """Set the spans of tokens of a text that is not ASCII; False if it has surrogates, or if they are not its bytes."""
    cdef const uint32_t* lengths = &fast_encoder.lengths[0] if n else NULL
    cdef size_t limit = fast_encoder.lengths.shape[0]
    cdef int64_t position = 0, n_chars = 0, chars_end = 0  # characters that start before `position`, and their bytes
    cdef uint32_t code
    cdef Py_ssize_t i
    for i in range(n):
        span[2 * i] = n_chars - (chars_end > position) if in_chars else position
        position += lengths[ids[i]] if ids[i] < limit else 0
        while chars_end < position:
            if n_chars == text.n:
                return False
            code = get_code_unit(text, n_chars)
            if code - <uint32_t>0xD800 < 0x800:
                return False
            chars_end += 1 + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000)
            n_chars += 1
        span[2 * i + 1] = n_chars if in_chars else position
    return n_chars == text.n and chars_end == position
