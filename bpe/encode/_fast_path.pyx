"""Fast paths for plain calls with short texts: str or bytes, no keyword arguments, a tokenizer that changes no text.

A Python frame takes as long as encoding a few words. So a function here stands in front of each of the methods that
check arguments: it answers plain calls by itself and passes any other call on. Not here: those other calls
(`bpe/tokenizer.py`), and encoding itself (`_encoder.pyx`).

Measured, a call of `encode` with 20 bytes: 0.51 µs through Python, 0.23 here.
"""

cimport numpy as cnp

from bpe.base._memory cimport hash_bytes
from bpe.base._types cimport byte_t
from bpe.base._utf8 cimport BEYOND, Units, most_utf8, to_utf8, units_of
from bpe.encode._chunk cimport ALL, PIECES, Feed, Fragment, is_cut
from bpe.encode._chunk_filler cimport count_threes, feed_fragments
from bpe.encode._encoder cimport SHORT_TEXT, Encoder
from bpe.encode._pieces cimport cut_pieces
from bpe.encode._word_cache cimport (
    CURRENT,
    EMPTY_KEY,
    MIDDLE_WORD,
    SHORT_WORD,
    Cache,
    fetch_line,
    find_front,
    find_long,
    find_short,
    find_word,
    hash_word,
    short_key,
    state_of,
)
from bpe.encode._workspace cimport Workspace, emit_value
from bpe.pretokenize._scanner cimport begin, scan
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

cnp.import_array()

cdef extern from "Python.h":
    Py_ssize_t PyUnicode_GET_LENGTH(object text)

cdef extern from *:
    """
    static inline PyObject* bpe_blank(PyObject* kind) {
        return ((PyTypeObject*)kind)->tp_alloc((PyTypeObject*)kind, 0);
    }
    """
    object blank "bpe_blank"(object kind)      # an object of a class, without `__init__`

cdef enum:
    FEW_BYTES = 128           # of a text for which filling a chunk takes longer than it spares
    SMALL_BATCH = 1 << 16     # characters: for less it does not pay to let the GIL go

cdef object NOTHING = ()      # the defaults, known by identity
cdef object NEVER = 0.0


def before(method):
    """A function before `method`, which is `Tokenizer.encode`: it answers the plain case and hands on any other.

    The tokenizer's `_fast_kernel` is the kernel's `Encoder`, or None where it does not take texts as they are.
    """

    def encode(self, text, *, allowed_special=NOTHING, disallowed_special=NOTHING, dropout=NEVER, seed=None):
        cdef Encoder encoder
        cdef Workspace space
        if allowed_special is NOTHING and disallowed_special is NOTHING and dropout is NEVER:
            encoder = self._fast_kernel
            if encoder is not None:
                space = encoder.workspace()
                if encode_short(encoder, space, text):
                    return encoder.taken(space)
                encoder.give_back(space)
        return method(
            self, text,
            allowed_special=allowed_special, disallowed_special=disallowed_special, dropout=dropout, seed=seed,
        )

    return encode


def before_batch(method, kind):
    """The same before `Tokenizer.encode_batch`, for a list of texts that are short together.

    `kind` is the class of the result, which is made without the checks that its `__init__` has for others.
    """

    def encode_batch(
        self, texts, *, threads=None, out=None, prepend=None, append=None,
        allowed_special=NOTHING, disallowed_special=NOTHING, dropout=NEVER, seed=None,
    ):
        cdef Encoder encoder
        cdef bint usual = out is None and prepend is None and append is None and dropout is NEVER
        if usual and allowed_special is NOTHING and disallowed_special is NOTHING:
            if type(texts) is list and is_usual(threads):
                encoder = self._fast_kernel
                if encoder is not None:
                    batch = encode_few(encoder, texts, kind)
                    if batch is not None:
                        return batch
        return method(
            self, texts, threads=threads, out=out, prepend=prepend, append=append,
            allowed_special=allowed_special, disallowed_special=disallowed_special, dropout=dropout, seed=seed,
        )

    return encode_batch


def before_count(method):
    """The same before `Tokenizer.count_tokens`, for a list; a single text's ids are asked for."""

    def count_tokens(self, text, *, threads=None, allowed_special=NOTHING, disallowed_special=NOTHING):
        cdef Encoder encoder
        if type(text) is list and allowed_special is NOTHING and disallowed_special is NOTHING and is_usual(threads):
            encoder = self._fast_kernel
            if encoder is not None:
                found = count_few(encoder, text)
                if found is not None:
                    return found
        return method(
            self, text, threads=threads, allowed_special=allowed_special, disallowed_special=disallowed_special
        )

    return count_tokens


cdef bint is_usual(threads) except -1:
    """Whether a number of threads needs no checks."""
    return threads is None or (type(threads) is int and 0 < threads <= 64)


cdef object encode_few(Encoder encoder, list texts, kind):
    """A batch of a list of texts, or None where `encode_short` does not take one, or they are not few."""
    cdef Workspace space = encoder.workspace()
    bounds = few_bounds(encoder, space, texts)
    if bounds is None:
        encoder.give_back(space)
        return None
    batch = blank(kind)
    cnp.PyArray_CLEARFLAGS(bounds, cnp.NPY_ARRAY_WRITEABLE)
    batch.ids, batch.offsets = encoder.taken(space), bounds
    return batch


cdef object count_few(Encoder encoder, list texts):
    """How many ids each of a list of texts has, or None."""
    cdef Workspace space = encoder.workspace()
    cdef cnp.npy_intp n = len(texts), i
    cdef int64_t* offsets
    cdef int64_t* lengths
    bounds = few_bounds(encoder, space, texts)
    encoder.give_back(space)
    if bounds is None:
        return None
    found = cnp.PyArray_EMPTY(1, &n, cnp.NPY_INT64, 0)
    offsets, lengths = <int64_t*>cnp.PyArray_DATA(bounds), <int64_t*>cnp.PyArray_DATA(found)
    for i in range(n):
        lengths[i] = offsets[i + 1] - offsets[i]
    return found


cdef inline object few_bounds(Encoder encoder, Workspace space, list texts):
    """Encode a list of texts; where the ids of each begin and end, or None."""
    cdef Py_ssize_t total = 0, i, n = len(texts)
    cdef cnp.npy_intp n_offsets = n + 1
    cdef int64_t* offsets
    for i in range(n):
        total += 64 + (PyUnicode_GET_LENGTH(texts[i]) if type(texts[i]) is str else 0)
        if total > SMALL_BATCH:
            return None
    bounds = cnp.PyArray_EMPTY(1, &n_offsets, cnp.NPY_INT64, 0)
    offsets = <int64_t*>cnp.PyArray_DATA(bounds)
    offsets[0] = 0
    for i in range(n):
        if not encode_short(encoder, space, texts[i]):
            return None
        offsets[i + 1] = <int64_t>space.out.n
    return bounds


cdef bint encode_short(Encoder encoder, Workspace space, text) except -1:
    """Append the ids of a short text; False for any other and where there are unknown symbols."""
    cdef byte_t utf8[SHORT_TEXT + BEYOND]
    cdef Fragment fragment
    cdef Units units
    cdef const byte_t* readable = NULL
    if type(text) is str:
        units = units_of(text)
        fragment.text, fragment.size = units.data, units.n
        if units.width:
            if most_utf8(&units) > SHORT_TEXT:
                return False
            fragment.text, fragment.size = utf8, to_utf8(&units, utf8)
            readable = utf8 + SHORT_TEXT + BEYOND
    elif type(text) is bytes and not encoder.values.merger.alphabet.chars:
        fragment.text, fragment.size = <bytes>text, len(<bytes>text)
    else:
        return False
    if fragment.size <= FEW_BYTES:
        if readable == NULL:
            readable = fragment.text + fragment.size
        if append_few(encoder, space, fragment.text, fragment.size, readable):
            return True
    if fragment.size >= SHORT_TEXT:
        return False
    feed_fragments(space.feed, &fragment, 1, encoder.scanner)
    encoder.run(space, NULL)
    return not space.unknown


cdef bint append_few(
    Encoder encoder, Workspace space, const byte_t* text, Py_ssize_t size, const byte_t* readable
) except -1:
    """Append the ids of at most FEW_BYTES, piece by piece; False, and none, where a piece cannot be cached.

    Nothing at or past `readable` is read.
    """
    cdef size_t before = space.out.n, threes = count_threes(text, size)
    cdef Cache* cache = &space.cache
    cdef Feed* feed = space.feed
    cdef const Py_ssize_t* start = feed.start
    cdef const Py_ssize_t* end = feed.end
    cdef uint64_t lo[FEW_BYTES]
    cdef uint64_t hi[FEW_BYTES]
    cdef uint64_t values[FEW_BYTES]
    cdef const byte_t* word
    cdef uint64_t value
    cdef Py_ssize_t n, i, length
    cdef bint cutting = encoder.splits is not None and is_cut(&encoder.splits.joints, threes, size)
    if threes > <size_t>size or (cutting and encoder.values.marked) or state_of(cache.words) != CURRENT:
        return False
    begin(&feed.cursor, encoder.scanner, text, 0, size)
    n = scan(&feed.cursor, feed.start, feed.end, PIECES)
    if cutting:
        feed.n_found, feed.next, feed.within = n, 0, 0
        n = cut_pieces(feed, &encoder.splits.joints, PIECES, space.chunk.part)
        start, end = feed.cut_start, feed.cut_end
    for i in range(n):                                     # what is not near is fetched for all before it is looked at
        values[i] = look_near(cache, text + start[i], end[i] - start[i], readable, &lo[i], &hi[i])
    for i in range(n):
        value = values[i]
        if value == 0:
            word, length = text + start[i], end[i] - start[i]
            value = look_far(cache, word, length, lo[i], hi[i])
            if value == 0:
                encoder.values.work_out(
                    space, word, length, space.chunk.part[i] if cutting else ALL, lo[i], hi[i], &value
                )
        if value == 0:
            space.out.n = before
            return False
        emit_value(space, value)
    return True


cdef inline uint64_t look_near(
    const Cache* cache, const byte_t* word, Py_ssize_t length, const byte_t* readable, uint64_t* lo, uint64_t* hi
) noexcept nogil:
    """The value that the front table has for a word, or 0; then its line elsewhere is prefetched.

    `lo` and `hi` become its keys; of a word of more than MIDDLE_WORD bytes `lo` is its hash.
    """
    cdef uint64_t value = 0
    hi[0] = EMPTY_KEY
    if length <= SHORT_WORD:
        lo[0] = short_key(word, length, readable)
        value = find_front(cache, lo[0])
        if value == 0:
            fetch_line(cache.words, hash_word(lo[0], EMPTY_KEY))
    elif length <= MIDDLE_WORD:
        memcpy(lo, word, 8)
        hi[0] = short_key(word + 8, length - 8, readable)
        fetch_line(cache.words, hash_word(lo[0], hi[0]))
    else:
        lo[0] = hash_bytes(word, length)
    return value


cdef inline uint64_t look_far(
    Cache* cache, const byte_t* word, Py_ssize_t length, uint64_t lo, uint64_t hi
) noexcept nogil:
    """The value that the other tables have for a word, or 0."""
    if length <= SHORT_WORD:
        return find_short(cache, lo)
    if length <= MIDDLE_WORD:
        return find_word(cache.words, lo, hi, hash_word(lo, hi))
    return find_long(cache.words, word, length, lo)
