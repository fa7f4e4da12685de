"""What tests reach inside the kernels for. Compiled only for development (setup.py), into `bpe._kernel_hooks`."""

import numpy as np

from bpe.base._cpu cimport follow_vector_level
from bpe.base._ids cimport Ids
from bpe.base._memory cimport INLINE_BYTES, hash_bytes, hash_key, load_key
from bpe.base._team cimport MAX_PARTS, Team
from bpe.base._types cimport byte_t, token_t
from bpe.base._utf8 cimport UTF8_PADDING, CodeUnits, max_utf8_size, to_utf8, get_code_units
from bpe.corpus._file_reader cimport FileBlock, FileReader
from bpe.encode._batch cimport EncodeJob
from bpe.encode._encoder cimport Encoder
from bpe.encode._split_filter cimport SplitFilter, SplitTables, are_three_byte_chars, filter_allows_split
from bpe.encode._word_cache cimport REPLACING, Cache, Line, SharedWordTable, free_lines, open_front
from bpe.encode._workspace cimport Workspace
from bpe.merge._merge_table cimport NO_MERGE, MergeTable, find_pair, pair_hash
from bpe.merge._merger cimport Merger
from bpe.merge._merging cimport Link, Scratch, free_scratch
from bpe.training cimport _pair_table
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

cdef extern from "bpe/encode/_cache_lookup.h" nogil:
    ctypedef struct PieceRun "bpe_run":
        const byte_t* text
        const uint32_t* start
        const uint32_t* end
        size_t n

    ctypedef struct LookupResult "bpe_lookup_result":
        size_t first
        uint64_t* values
        uint16_t* longer
        size_t n_longer
        uint16_t* missed
        uint64_t* missed_keys
        size_t n_missed

    void bpe_look_up(const PieceRun* run, const Line* lines, int shift, LookupResult* found)
    void use_level_look_up "bpe_use_level_look_up"(int level) noexcept

cdef extern from "bpe/encode/_split_filter.h" nogil:
    enum:
        SLICE_WORDS "BPE_SLICE_WORDS"

    void bpe_find_splits(const byte_t* slice, size_t words, const SplitTables* splits, uint64_t* safe)
    void use_level_split_filter "bpe_use_level_split_filter"(int level) noexcept

cdef Py_ssize_t LARGE = <Py_ssize_t>1 << 60    # more work than any test does

cdef enum:
    RUN = 64                  # pieces that `pieces_without_key` looks up

follow_vector_level(use_level_look_up)
follow_vector_level(use_level_split_filter)


cdef struct Trial:
    int fails                 # a bit for each part
    int done[MAX_PARTS]


cdef int try_part(void* job, int part) except -1 nogil:
    cdef Trial* trial = <Trial*>job
    if trial.fails >> part & 1:
        with gil:
            raise MemoryError(f"part {part}")
    trial.done[part] += 1
    return 0


def share_trial(Team team, int parts, fails=()):
    """Share a job of which the parts in `fails` raise MemoryError; how often each part was done."""
    cdef Trial trial
    memset(&trial, 0, sizeof(trial))
    for part in fails:
        trial.fails |= 1 << <int>part
    with nogil:
        team.share(parts, try_part, &trial)
    return [trial.done[part] for part in range(parts)]


def late_tables(Encoder encoder not None):
    """Whether the tables are there that a short text in ASCII does not need: (tree of tokens, split filter)."""
    return bool(encoder.piece_encoder.merger.has_tree), encoder.split_filter is not None


def merge_of(MergeTable table, token_t left, token_t right):
    """The merge of two tokens as (rank, id), or None."""
    cdef uint64_t merge = find_pair(&table.merges, left, right)
    return None if merge == NO_MERGE else (merge >> 32, merge & 0xFFFFFFFF)


def merging(Merger merger, bytes piece):
    """(The ids of a piece, the work that merging it takes, the bytes of scratch memory that this takes).

    Work is measured in the ids that a kernel writes in the same time.
    """
    cdef Scratch scratch
    cdef Ids out = Ids(data=NULL, n=0, capacity=0, lent=False)
    cdef bint unknown = False
    memset(&scratch, 0, sizeof(scratch))
    scratch.watch.next = LARGE
    merger.merge(piece, len(piece), False, &scratch, &out, &unknown)
    ids = np.asarray(<token_t[: out.n]>out.data).copy()
    size = scratch.symbols_capacity * sizeof(token_t) + scratch.links_capacity * sizeof(Link)
    size += scratch.queue.capacity * sizeof(uint64_t) + scratch.window_capacity * sizeof(token_t)
    free_scratch(&scratch)
    free(out.data)
    return ids, LARGE - scratch.watch.next, size


def hashes_of_word(bytes word):
    """The hash of a word in tables that hold short words, and that in all others."""
    cdef const byte_t* data = word
    cdef Py_ssize_t size = len(word)
    return hash_key(load_key(data, 0, size, size)) if size <= INLINE_BYTES else None, hash_bytes(data, size)


def hashes_of_pair(token_t left, token_t right):
    """The hash of a pair of tokens in the table of merges, and that in training."""
    return pair_hash(<uint64_t>left << 32 | right), _pair_table.hash_pair(left, right)


def pieces_without_key(bytes text, list sizes):
    """Which of up to RUN pieces of these sizes, all at the start of a text of 8 bytes, have no key of 64 bits.

    Nothing after the 8 bytes is read, so the pieces may have any size below 2**32.
    """
    cdef uint32_t start[RUN]
    cdef uint32_t end[RUN]
    cdef uint64_t value[RUN + 8]
    cdef uint16_t longer[RUN + 8]
    cdef uint16_t missed[RUN + 8]
    cdef uint64_t missed_keys[RUN + 8]
    cdef PieceRun run = PieceRun(text=text, start=&start[0], end=&end[0], n=len(sizes))
    cdef LookupResult found = LookupResult(
        first=0, values=&value[0], longer=&longer[0], n_longer=0,
        missed=&missed[0], missed_keys=&missed_keys[0],
        n_missed=0,
    )
    cdef Cache cache
    cdef size_t i
    if len(text) != 8 or len(sizes) > RUN:
        raise ValueError(f"{len(text)} bytes and {len(sizes)} sizes")
    for i in range(run.n):
        start[i], end[i] = 0, sizes[i]
    open_front(&cache, 0)
    bpe_look_up(&run, cache.front, cache.front_shift, &found)
    free_lines(cache.front)
    return [longer[i] for i in range(found.n_longer)]


def split_points(SplitFilter split not None, const byte_t[::1] text):
    """The offsets where a text may be split, looked up one by one."""
    cdef Py_ssize_t at
    return [
        at
        for at in range(3, text.shape[0] - 2)
        if split.tables.bits and are_three_byte_chars(&text[at - 3]) and filter_allows_split(&split.tables, &text[at])
    ]


def split_points_of_slice(SplitFilter split not None, const byte_t[::1] text):
    """The same of a text of at most one slice, by vector instructions."""
    cdef byte_t padded[64 + 64 * SLICE_WORDS + 192]
    cdef uint64_t safe[SLICE_WORDS]
    cdef Py_ssize_t i
    memset(padded, 0, sizeof(padded))
    for i in range(min(text.shape[0], 64 * <Py_ssize_t>SLICE_WORDS)):
        padded[64 + i] = text[i]
    bpe_find_splits(padded + 64, SLICE_WORDS, &split.tables, safe)
    return [i for i in range(64 * SLICE_WORDS) if safe[i >> 6] >> (i & 63) & 1]


def work_alternated(EncodeJob job, int n):
    """Do a job as n threads of equal speed do, a part each in turn."""
    cdef list threads = [(job.encoder.take_workspace(), job.new_buffers()) for _ in range(n)]
    cdef bint found = True
    while found:
        found = False
        for workspace, buffers in threads:
            found |= job.encode_next(workspace, buffers)
    for workspace, _ in threads:
        job.finish(workspace)


cdef Py_ssize_t find_any_split(void* context, const byte_t* text, Py_ssize_t low, Py_ssize_t end) noexcept nogil:
    return end


def read_after_close(FileReader reader not None):
    """Have a reader give out all of its blocks, close it, and read them: the texts."""
    cdef FileBlock block
    cdef bint has_block = True
    cdef list blocks = [], texts = []
    while has_block:
        block = FileBlock()
        with nogil:
            has_block = reader.give_out(block, find_any_split, NULL)
        if has_block:
            blocks.append(block)
    reader.close()
    for block in blocks:
        with nogil:
            reader.read(block)
        texts.append(bytes(block.buffer)[:block.n])
    return texts


def utf8(str text):
    """The UTF-8 of a str that is not ASCII."""
    cdef CodeUnits units = get_code_units(text)
    cdef bytearray out = bytearray(max_utf8_size(&units) + UTF8_PADDING)
    return bytes(out[: to_utf8(&units, out)])


def begin_replacing(Encoder encoder):
    """Set the state of the word table as a thread does that replaces it."""
    encoder.table.state = REPLACING


def cache_state(Encoder encoder):
    """Statistics of a tokenizer's word table: a dict of int."""
    cdef SharedWordTable table = encoder.table
    cdef Workspace workspace = encoder.idle
    idle = 0
    while workspace is not None:
        idle, workspace = idle + 1, workspace.next
    return {
        "idle": idle,                                      # workspaces
        "words": table.words.n_entries,
        "room": <size_t>3 << table.log2_lines,
        "long": min(table.words.n_long_words, table.words.max_long_words),
        "kept": table.words.n_long_bytes,
        "spilled": table.words.n_spilled,
        "rejected": table.words.n_rejected,
        "parts": table.inner_parts.n_entries + table.inner_parts.n_long_words,
        "seeds": encoder.seeds.n_seeds,
        "is_seeded": table.is_seeded,
        "bytes": <size_t>(256 if table.marks_word_ends else 128) << table.log2_lines,
    }
