"""The encoder kernel: UTF-8 to token ids, a chunk of pieces at a time.

Text is encoded in chunks of some hundred pieces (`_chunk_filler.pyx`). The scanner finds pretokens, the split filter
splits them where no token reaches across (`_split_filter.pyx`), all pieces of a chunk are looked up in the word cache
together (`_piece_ids.pyx`), and their ids are written in order. A piece that is too long for the cache is merged when
its ids are written (`merge/_merger.pyx`).

All threads share the tables. Only the word table changes, and it needs no lock. A larger or an empty word table
replaces a full one; each thread changes over with its next chunk, and the last one to do so frees the full one.
Each call takes an idle workspace (recent words, chunk, buffers) and gives it back, so that no two threads use the same
one. Idle workspaces are a linked list, since a Python list of one frees its memory whenever that one is taken. The lock
of the critical section is the GIL if there is one.
"""

import os

import numpy as np

cimport cython

from bpe.base._atomic cimport load_pointer, store_pointer
from bpe.base._binary_search cimport lower_bound
from bpe.base._bounds cimport check_offsets, check_spans
from bpe.base._id_array cimport as_array
from bpe.base._id_lists cimport make_list
from bpe.base._ids cimport Ids, append_id, reserve
from bpe.base._interrupts cimport begin_watch, poll_if_due, restart_count
from bpe.base._result_pool cimport ResultPool
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.base._utf8 cimport UTF8_PADDING, CodeUnits, to_utf8
from bpe.encode._cache_seeds cimport CacheSeeds
from bpe.encode._chunk cimport INNER, MAX_EMITTED_IDS, WHOLE, Chunk, Feed, Fragment
from bpe.encode._chunk_filler cimport begin_feed, close_fragment, emit_values, fill_chunk, want_ids
from bpe.encode._piece_ids cimport PieceEncoder, select_cache, merge_piece
from bpe.encode._split_filter cimport SplitTables, SplitFilter, find_first_unjoined, find_last_unjoined
from bpe.encode._unmerged_words cimport UnmergedWords
from bpe.encode._word_cache cimport (
    CURRENT, EXHAUSTED, REPLACED, REPLACING, SharedWordTable, change_state, copy_words, measure_key, get_state,
)
from bpe.encode._workspace cimport Workspace, emit_spilled, prepare_output
from bpe.merge._high_merges cimport PRETOKEN_BREAK
from bpe.merge._merger cimport Merger
from bpe.merge._token_tree cimport TokenTree
from bpe.pretokenize._safe_points cimport find_next_pretoken_split, find_last_pretoken_split
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memmove

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

#: Memory of a tokenizer's word table, in bytes, which all threads share.
CACHE_MEMORY = 32 << 20

cdef enum:
    POOL_MULTIPLE = 4         # the memory of a freed result that is kept for the next one is so many times the table's
    PRETOKENS_PER_CALL = 256  # that are encoded at once
    SPLIT_SEARCH_BYTES = 256  # bytes in which the split filter looks for a split point
    FIRST_WORDS = 1 << 9      # for which the first table has room, about
    MAX_WANTED_IDS = 1 << 30  # with a higher limit, all ids are wanted
    CONVERT_CHARS = 1024      # characters of a str that are converted to find a split point


cdef class Encoder:

    def __cinit__(
        self,
        Merger merger not None,
        tokens,                            # a TokenBytes (bpe/merge/tables.py)
        int scanner,                       # of bpe/pretokenize/_scanner; -1 if the caller finds the pretokens
        size_t memory=CACHE_MEMORY,        # of the word table, in bytes
        two_stages=None,                   # a TwoStageMerges (bpe/merge/two_stages.py)
    ):
        self.scanner, self.max_table_bytes = scanner, memory
        self.pool = ResultPool(POOL_MULTIPLE * memory)
        self.full_merger = merger
        if two_stages is not None:
            merger, high, self.piece_rules = two_stages
            self.high_merges = high if high.n_merges else None
        self.piece_encoder = PieceEncoder(merger, tokens.ends_word is not None)
        self.seeds = CacheSeeds(merger, tokens)
        if not merger.can_split:
            self.splits = &no_splits

    def set_unmerged_words(self, bytes blob, const int64_t[::1] offsets, const uint32_t[::1] ids, bint even_if_merged):
        """Encode word i, `blob[offsets[i]:offsets[i + 1]]`, as the token `ids[i]`, without merging.

        A word that merging makes this token anyway is left out, unless `even_if_merged` or the list of merges knows the
        unmerged tokens. Called once, before any encoding.
        """
        cdef Workspace workspace = Workspace(0)
        cdef Merger merger = self.piece_encoder.merger
        cdef TokenTree tree
        cdef Py_ssize_t i, n = ids.shape[0]
        cdef const byte_t* data = blob
        check_offsets(offsets, n, len(blob))
        if n and np.max(ids) >= merger.merges.limit:
            raise ValueError(f"a whole word is token {np.max(ids)}; ids are below {merger.merges.limit}")
        is_kept = np.ones(n, dtype=np.uint8)
        cdef byte_t[::1] keep = is_kept
        if not even_if_merged and merger.merges.unmerged is None:
            merger.build_tree()
            tree = merger.tree
            with nogil:
                for i in range(n):
                    if tree.is_ordered:
                        keep[i] = not tree.merges_to_itself[ids[i]]
                        continue
                    workspace.out.n = 0
                    merge_piece(self.piece_encoder, workspace, data + offsets[i], offsets[i + 1] - offsets[i], WHOLE)
                    keep[i] = workspace.out.n != 1 or workspace.out.data[0] != ids[i]
        word_indices = np.flatnonzero(is_kept).astype(np.int64)  # intp is another type on some systems
        if not len(word_indices):
            return
        self.piece_encoder.unmerged_words = UnmergedWords(blob, offsets, ids, word_indices)
        self.seeds.unmerged_words = self.piece_encoder.unmerged_words
        self.unmerged = blob, np.asarray(offsets), word_indices

    def keep_pretokens_whole(self):
        """Split no pretoken. For vocabularies in which most pretokens are whole words; call it before `finish`.

        The word cache may then hold unmerged words too, since no part of a pretoken has the same key.
        """
        self.splits = &no_splits
        self.piece_encoder.keeps_pretokens_whole = True

    def select_unmerged(self, const uint8_t[::1] candidates):
        """Select the candidates (by id) that merging their own bytes does not give: int32; None if unknown."""
        cdef TokenTree tree
        self.piece_encoder.merger.build_tree()
        tree = self.piece_encoder.merger.tree
        if not tree.is_ordered or not tree.limit or <size_t>candidates.shape[0] != tree.limit:
            return None
        merges_to_itself = np.asarray(<const byte_t[: tree.limit]>tree.merges_to_itself)
        return np.flatnonzero(np.asarray(candidates) > merges_to_itself).astype(np.int32)

    def finish(self):
        """Allocate a workspace when all words are set; called once, before any encoding."""
        self.give_back(self.take_workspace())

    # Chunks -----------------------------------------------------------------------------------------------------------

    cdef int want_beginnings(self, Workspace workspace, Py_ssize_t max_ids) except -1:
        """Let the call that has a workspace encode of each text at least the first `max_ids` ids; 0 for all of them.

        A text, or a fragment between special tokens, that is not encoded to its end has as many ids itself. The merges
        across pieces of a superword vocabulary need whole texts.
        """
        if self.high_merges is None and self.piece_rules is None and 0 < max_ids <= MAX_WANTED_IDS:
            workspace.feed.max_ids = max_ids
        return 0

    cdef int encode_feed(self, Workspace workspace, int64_t* lengths) except -1 nogil:
        """Write the ids of everything in the feed; `lengths` gets the number of ids of each fragment, unless NULL."""
        cdef size_t fragment_start = workspace.out.n
        while self.encode_chunk(workspace, lengths, &fragment_start):
            pass
        return 0

    cdef bint encode_chunk(self, Workspace workspace, int64_t* lengths, size_t* fragment_start) except -1 nogil:
        """Encode one chunk of pieces; False at the end of the feed.

        `fragment_start` is where the ids of the current fragment begin in the output; before the first chunk, where the
        output ends.
        """
        cdef Chunk* chunk = workspace.chunk
        cdef Feed* feed = workspace.feed
        cdef const SplitTables* splits = get_splits(self)
        cdef Py_ssize_t i, piece = 0, n_wanted
        cdef size_t n_before = workspace.out.n
        if splits == NULL and feed.wants_splits:
            with gil:
                build_split_filter(self)
            splits = get_splits(self)
        if splits == NULL:
            splits = &no_splits
        if get_state(workspace.cache.table) != CURRENT:
            replace_table(self, workspace)
        fill_chunk(
            chunk, feed, splits, &workspace.cache, select_cache(self.piece_encoder, workspace, INNER),
        )
        if chunk.n == 0 and chunk.n_fragment_ends == 0:
            return False
        poll_if_due(&workspace.scratch.watch, workspace.out.n)
        self.piece_encoder.look_up(workspace)
        for i in range(chunk.n_fragment_ends):
            emit_pieces(self, workspace, piece, chunk.fragment_ends[i].piece, True)
            piece = chunk.fragment_ends[i].piece
            if feed.fragments[chunk.fragment_ends[i].fragment].size < 0:
                append_id(&workspace.out, feed.fragments[chunk.fragment_ends[i].fragment].token)
            end_fragment(workspace, chunk.fragment_ends[i].fragment, lengths, fragment_start)
        emit_pieces(self, workspace, piece, chunk.n, False)
        if feed.max_ids:
            feed.n_pieces += chunk.n
            feed.n_ids += workspace.out.n - n_before
            if feed.is_open or feed.next < feed.n_found:
                n_wanted = feed.max_ids - <Py_ssize_t>(workspace.out.n - fragment_start[0])
                if n_wanted > 0:
                    want_ids(feed, n_wanted)
                else:
                    end_fragment(workspace, feed.n_done, lengths, fragment_start)
                    close_fragment(feed)
        return feed.next < feed.n_found or feed.is_open or feed.n_done < feed.n_fragments

    cdef Py_ssize_t count_ids(self, Workspace workspace, const Fragment* fragment) except -2:
        """Count the ids of one text without the GIL; -1 if it has unknown symbols. No more ids are kept than a chunk's.
        """
        cdef Py_ssize_t n = 0
        cdef size_t fragment_start = 0
        cdef bint more = True
        begin_feed(workspace.feed, fragment, 1, self.scanner)
        begin_watch(&workspace.scratch.watch)
        try:
            with nogil:
                while more and not workspace.unknown:
                    more = self.encode_chunk(workspace, NULL, &fragment_start)
                    n += workspace.out.n
                    restart_count(&workspace.scratch.watch, workspace.out.n)
                    workspace.out.n = 0
        except BaseException as error:
            self.abandon(workspace, error)
            raise
        return -1 if workspace.unknown else n

    cdef bint encode_until(self, Workspace workspace, const Fragment* fragment, size_t max_ids) except -1:
        """Write ids of one text, without the GIL, by chunks until there are more than `max_ids`; True at its end."""
        cdef size_t fragment_start = 0
        cdef bint more = True
        begin_feed(workspace.feed, fragment, 1, self.scanner)
        begin_watch(&workspace.scratch.watch)
        try:
            with nogil:
                while more and workspace.out.n <= max_ids:
                    more = self.encode_chunk(workspace, NULL, &fragment_start)
        except BaseException as error:
            self.abandon(workspace, error)
            raise
        return not more

    # Split points of texts --------------------------------------------------------------------------------------------

    cdef Py_ssize_t find_next_split(self, const CodeUnits* text, Py_ssize_t pos) noexcept nogil:
        """Find a position at or after `pos` where a text may be split; its length if none is found.

        A str is converted to UTF-8 CONVERT_CHARS characters at a time. All rules ask for two characters before a
        position and one after it.
        """
        cdef byte_t utf8[4 * CONVERT_CHARS + UTF8_PADDING]
        cdef CodeUnits units = text[0]
        cdef Py_ssize_t low, end, split, next_pos, i
        if text.width == 0:
            return self.find_next_split_utf8(text.data, pos, text.n)
        pos = max(pos, <Py_ssize_t>2)
        while pos < text.n:
            units.data, units.n = text.data + (pos - 2) * text.width, 2
            low = to_utf8(&units, utf8)
            units.n = min(<Py_ssize_t>CONVERT_CHARS, text.n - pos + 2)
            end = to_utf8(&units, utf8)
            split = self.find_next_split_utf8(utf8, low, end)
            next_pos = pos + units.n - 2
            if split < end:
                for i in range(low, split):
                    pos += utf8[i] & 0xC0 != 0x80
                units.n -= next_pos - pos
                if to_utf8(&units, utf8) == split:         # not if a surrogate pair has become one character
                    return pos
            pos = next_pos
        return text.n

    cdef Py_ssize_t find_next_split_utf8(self, const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
        """Find the next safe split point of UTF-8, `text[:end]`.

        Near `pos`, the split filter finds any safe position; further on, the scanner finds the start of a pretoken.
        """
        cdef const SplitTables* splits = get_text_split_tables(self)
        cdef Py_ssize_t search_end = min(pos + SPLIT_SEARCH_BYTES, end), split
        if splits != NULL:
            split = find_first_unjoined(splits, text, pos, search_end)
            if split < search_end:
                return split
        return find_next_pretoken_split(self.scanner, text, pos, end)

    def find_last_split(self, const byte_t[::1] text, Py_ssize_t start):
        """Find the last position after `start` where a text may be split, whatever follows it; else `start`."""
        cdef Py_ssize_t end = text.shape[0]
        start = max(start, <Py_ssize_t>0)
        if end <= start:
            return start
        with nogil:
            start = self.find_last_split_in(&text[0], start, end)
        return start

    cdef Py_ssize_t find_last_split_in(self, const byte_t* text, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
        """Find the last position after `start` where `text[:end]` may be split, whatever follows it; else `start`."""
        cdef const SplitTables* splits = get_text_split_tables(self)
        cdef Py_ssize_t search_start = max(start, end - SPLIT_SEARCH_BYTES), split
        if splits != NULL:
            split = find_last_unjoined(splits, text, search_start, end)
            if split > search_start:
                return split
        split = find_last_pretoken_split(self.scanner, text, start, end)
        if split <= start and splits != NULL:
            split = find_last_unjoined(splits, text, start, end)
        return split

    # For Python -------------------------------------------------------------------------------------------------------

    def encode(self, text):
        """Encode one str or bytes: (uint32 array, whether all symbols have an id)."""
        cdef Workspace workspace = self.take_workspace()
        cdef Fragment fragment
        cdef bytes data
        if isinstance(text, str) and PyUnicode_IS_ASCII(text):
            fragment.text = <const byte_t*>PyUnicode_AsUTF8AndSize(text, &fragment.size)
        else:
            data = text.encode() if isinstance(text, str) else text
            fragment.text, fragment.size = data, len(data)
        encode_fragment(self, workspace, &fragment)
        all_known = not workspace.unknown
        return self.take_ids(workspace), all_known

    def encode_pretokens(self, const byte_t[::1] text, const int64_t[::1] starts, const int64_t[::1] ends):
        """Encode a text whose pretokens, none of them empty, are at the given byte offsets, which ascend."""
        cdef Workspace workspace
        cdef Fragment fragment
        check_spans(starts, ends, text.shape[0], False, True)
        workspace = self.take_workspace()
        if starts.shape[0] and self.piece_rules is not None:
            prepare_output(workspace, text.shape[0])
            encode_long_pretokens(self, workspace, &text[0], starts, ends)
        elif starts.shape[0]:
            fragment.text, fragment.size = &text[0], text.shape[0]
            begin_feed(workspace.feed, &fragment, 1, -1)
            workspace.feed.given_starts, workspace.feed.given_ends = &starts[0], &ends[0]
            workspace.feed.n_given = starts.shape[0]
            encode_feed_without_gil(self, workspace, fragment.size)
        all_known = not workspace.unknown
        return self.take_ids(workspace), all_known

    def encode_pretoken(self, bytes piece):
        """Encode one pretoken, merged without cache, to a list; NO_TOKEN for symbols without an id."""
        cdef Workspace workspace = Workspace(0)
        cdef token_t token = NO_TOKEN
        if piece:
            if self.piece_encoder.unmerged_words is not None:
                token = self.piece_encoder.unmerged_words.find(piece, len(piece))
            if token != NO_TOKEN:
                return [token]
            self.full_merger.merge(piece, len(piece), False, &workspace.scratch, &workspace.out, &workspace.unknown)
        return make_list(workspace.out.data, <Py_ssize_t>workspace.out.n)

    # Workspaces -------------------------------------------------------------------------------------------------------

    cdef Workspace take_workspace(self):
        """Take an idle workspace, or make a new one."""
        cdef Workspace workspace
        with cython.critical_section(self):
            workspace = self.idle
            if workspace is not None:
                self.idle = workspace.next
                workspace.next = None
                return workspace
        workspace = Workspace(self.max_table_bytes, self.piece_encoder.marks_word_ends)
        workspace.pool = self.pool
        if self.piece_rules is not None:
            workspace.feed.cuts = &self.piece_rules.cuts
            workspace.feed.pretoken_rules = &self.piece_rules.pretoken_rules
        with cython.critical_section(self):
            if self.table is None:
                self.table = make_table(self, None)
            workspace.use(self.table)
        return workspace

    cdef int give_back(self, Workspace workspace) except -1:
        """Make a workspace idle."""
        workspace.reset()
        with cython.critical_section(self):
            if workspace.table is not self.table:
                workspace.use(self.table)
            workspace.next = self.idle
            self.idle = workspace
        return 0

    cdef int abandon(self, Workspace workspace, error) except -1:
        """Give a workspace back after an error; after a MemoryError it may be inconsistent, and is dropped."""
        return 0 if isinstance(error, MemoryError) else self.give_back(workspace)

    cdef object take_ids(self, Workspace workspace):
        """Return the output as an array, and give the workspace back."""
        ids = as_array(&workspace.out, workspace.pool, &workspace.block)
        self.give_back(workspace)
        return ids


# Writing the ids of a chunk -------------------------------------------------------------------------------------------


cdef inline void end_fragment(
    Workspace workspace, Py_ssize_t fragment, int64_t* lengths, size_t* fragment_start
) noexcept nogil:
    """Note the number of ids of a fragment, and whether it has unknown symbols, when all its ids are written."""
    if lengths != NULL:
        lengths[fragment] = <int64_t>(workspace.out.n - fragment_start[0])
    if workspace.unknown and workspace.unknown_fragment < 0:
        workspace.unknown_fragment = fragment
    fragment_start[0] = workspace.out.n


cdef int emit(Encoder encoder, Workspace workspace, Py_ssize_t start, Py_ssize_t end) except -1 nogil:
    """Write the ids of pieces of the chunk, whatever pretokens they are in."""
    cdef const uint64_t* values = workspace.chunk.values
    cdef token_t* out
    while True:
        reserve(&workspace.out, MAX_EMITTED_IDS * (end - start) + 16)
        out = workspace.out.data + workspace.out.n
        start += emit_values(values + start, end - start, workspace.cache.table.spilled, &out)
        workspace.out.n = out - workspace.out.data
        if start >= end:
            return 0
        if values[start]:
            emit_spilled(workspace, values[start])
        else:
            emit_uncached(encoder, workspace, start)
        start += 1


cdef int emit_uncached(Encoder encoder, Workspace workspace, Py_ssize_t piece) except -1 nogil:
    """Write the ids of a piece of the chunk that has no value."""
    cdef Chunk* chunk = workspace.chunk
    cdef size_t index = lower_bound(chunk.longer, chunk.n_longer, <uint16_t>piece)
    cdef const byte_t* word
    cdef Py_ssize_t size
    cdef token_t token = NO_TOKEN
    if index < chunk.n_longer and chunk.longer[index] == piece:
        word, size = chunk.words[index], chunk.sizes[index]
    else:
        index = lower_bound(chunk.missed, chunk.n_missed, <uint16_t>piece)
        word, size = <const byte_t*>&chunk.missed_keys[index], measure_key(chunk.missed_keys[index])
    if encoder.piece_encoder.unmerged_words is not None and chunk.roles[piece] == WHOLE:
        token = encoder.piece_encoder.unmerged_words.find(word, size)
    if token == NO_TOKEN:
        return merge_piece(encoder.piece_encoder, workspace, word, size, chunk.roles[piece])
    return append_id(&workspace.out, token)


cdef int emit_pieces(
    Encoder encoder, Workspace workspace, Py_ssize_t start, Py_ssize_t end, bint text_ends
) except -1 nogil:
    """Write the ids of pieces `start` to `end` of the chunk.

    Those of a superword vocabulary are merged on; unless a text ends with them, the last low tokens stay in `low`.
    """
    cdef Ids* low = &workspace.pending_low
    cdef size_t n_merged
    if encoder.high_merges is None:
        return emit(encoder, workspace, start, end)
    workspace.out, workspace.pending_low = workspace.pending_low, workspace.out
    try:
        emit_low_tokens(encoder, workspace, start, end)
    finally:
        workspace.out, workspace.pending_low = workspace.pending_low, workspace.out
    n_merged = encoder.high_merges.merge(
        low.data, low.n, &workspace.n_in_open_run, text_ends, &workspace.scratch, &workspace.out
    )
    low.n -= n_merged
    if n_merged and low.n:
        memmove(low.data, low.data + n_merged, low.n * sizeof(token_t))
    return 0


cdef int emit_low_tokens(Encoder encoder, Workspace workspace, Py_ssize_t start, Py_ssize_t end) except -1 nogil:
    """Write the low tokens of pieces, with a PRETOKEN_BREAK between two pretokens."""
    cdef Chunk* chunk = workspace.chunk
    cdef Py_ssize_t pretoken_start
    while chunk.next_pretoken < chunk.n_pretokens and chunk.pretokens[chunk.next_pretoken] < end:
        pretoken_start = chunk.pretokens[chunk.next_pretoken]
        chunk.next_pretoken += 1
        emit(encoder, workspace, start, pretoken_start)
        start = pretoken_start
        if workspace.out.n:
            append_id(&workspace.out, PRETOKEN_BREAK)
    return emit(encoder, workspace, start, end)


# Whole texts ----------------------------------------------------------------------------------------------------------


cdef int encode_fragment(Encoder encoder, Workspace workspace, const Fragment* fragment) except -1:
    """Write the ids of one text."""
    begin_feed(workspace.feed, fragment, 1, encoder.scanner)
    if fragment.size < MAX_SHORT_TEXT:
        return encoder.encode_feed(workspace, NULL)
    return encode_feed_without_gil(encoder, workspace, fragment.size)


cdef int encode_feed_without_gil(Encoder encoder, Workspace workspace, Py_ssize_t size) except -1:
    """Write the ids of everything in the feed, some `size` bytes, without the GIL."""
    begin_watch(&workspace.scratch.watch)
    try:
        with nogil:
            prepare_output(workspace, size)
            encoder.encode_feed(workspace, NULL)
    except BaseException as error:
        encoder.abandon(workspace, error)
        raise
    return 0


cdef int encode_long_pretokens(
    Encoder encoder, Workspace workspace, const byte_t* text, const int64_t[::1] starts, const int64_t[::1] ends
) except -1:
    """Write the ids of the long pretokens of a superword vocabulary: each is a text of its own."""
    cdef Fragment fragments[PRETOKENS_PER_CALL]
    cdef Py_ssize_t i, n, first = 0
    while first < starts.shape[0]:
        n = min(<Py_ssize_t>PRETOKENS_PER_CALL, starts.shape[0] - first)
        for i in range(n):
            fragments[i].text, fragments[i].size = text + starts[first + i], ends[first + i] - starts[first + i]
        begin_feed(workspace.feed, fragments, n, encoder.scanner)
        workspace.feed.are_pretokens = True                # found in the text, which may forbid to divide them
        encode_feed_without_gil(encoder, workspace, ends[first + n - 1] - starts[first])
        first += n
    return 0


# The split filter -----------------------------------------------------------------------------------------------------
#
# It is built when a text has many characters of three bytes, or is to be split, and not when a vocabulary is loaded.

cdef SplitTables no_splits                                 # allow no split


cdef const SplitTables* get_splits(Encoder encoder) noexcept nogil:
    """Return the tables of the split filter; NULL before they are built."""
    return <const SplitTables*>load_pointer(<void* const*>&encoder.splits)


cdef int build_split_filter(Encoder encoder) except -1:
    """Build the split filter; of several threads, the first one's stays."""
    cdef SplitFilter split_filter
    if get_splits(encoder) != NULL:
        return 0
    split_filter = SplitFilter()
    split_filter.add_merges(encoder.piece_encoder.merger.merges.pairs, encoder.seeds.blob, encoder.seeds.offsets)
    if encoder.unmerged is not None:
        split_filter.add_words(*encoder.unmerged)
    split_filter.fold()
    with cython.critical_section(encoder):
        if encoder.split_filter is None:
            encoder.split_filter = split_filter
            store_pointer(<void**>&encoder.splits, &split_filter.tables)
    return 0


cdef const SplitTables* get_text_split_tables(Encoder encoder) noexcept nogil:
    """Return the split filter; NULL if texts may not be split by it: their ids depend on where a word ends."""
    cdef const SplitTables* splits
    if encoder.high_merges is not None or encoder.scanner < 0:
        return NULL
    if encoder.piece_encoder.marks_word_ends or encoder.piece_encoder.unmerged_words is not None:
        return NULL
    if get_splits(encoder) == NULL:
        with gil:
            try:
                build_split_filter(encoder)
            except MemoryError:                            # the only error: it runs no Python code
                return NULL
    splits = get_splits(encoder)
    if splits.bits == NULL:
        return NULL
    return splits


# The word table -------------------------------------------------------------------------------------------------------

#: The state of a table that this process replaces: REPLACING, and another number in each forked process. If a thread
#: replaces a table during a fork, no thread of the child does, so that one of the child's begins anew.
cdef int replacing = REPLACING


def _begin_child():
    """Take another number in a forked process."""
    global replacing
    replacing += 4


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


cdef SharedWordTable make_table(Encoder encoder, SharedWordTable old):
    """Make the table that follows another one, or the first one, which is small and empty.

    The second has the vocabulary's tokens too, which takes milliseconds that a process with a few short texts does not
    pay. Later ones are larger, with the words of `old`; or as large, with the vocabulary's tokens only.
    """
    cdef bint marks_word_ends = encoder.piece_encoder.marks_word_ends, grows
    cdef SharedWordTable table
    if old is None:
        return SharedWordTable(encoder.max_table_bytes, FIRST_WORDS, marks_word_ends)
    encoder.seeds.choose()
    grows = old.log2_lines < old.max_log2_lines
    table = SharedWordTable(
        encoder.max_table_bytes, max(<size_t>1 << old.log2_lines, 0 if old.is_seeded else encoder.seeds.n_seeds),
        marks_word_ends,
    )
    table.is_seeded = True
    with nogil:
        if not grows or not old.is_seeded:
            encoder.seeds.sow(table)
        if grows:
            copy_words(&table.words, &old.words)
            if marks_word_ends:
                copy_words(&table.inner_parts, &old.inner_parts)
    return table


cdef int replace_table(Encoder encoder, Workspace workspace) except -1 nogil:
    """Swap in a larger table, or an empty one, for a full one. One thread makes it; the others go on meanwhile."""
    cdef int state = get_state(workspace.cache.table)
    if state & 3 == REPLACING and state != replacing:
        change_state(workspace.cache.table, state, EXHAUSTED)
    if change_state(workspace.cache.table, EXHAUSTED, replacing):
        with gil:
            install_table(encoder, workspace.table)
    if get_state(workspace.cache.table) == REPLACED:
        with gil:
            with cython.critical_section(encoder):
                workspace.use(encoder.table)
    return 0


cdef int install_table(Encoder encoder, SharedWordTable full) except -1:
    """Replace a full table by a new one; without memory for one, the full table stays."""
    cdef Workspace workspace
    try:
        table = make_table(encoder, full)
    except MemoryError:
        return 0
    except BaseException:                                      # of a signal handler: another call tries again
        change_state(&full.words, replacing, EXHAUSTED)
        raise
    with cython.critical_section(encoder):
        encoder.table = table
        workspace = encoder.idle
        while workspace is not None:
            workspace.use(table)
            workspace = workspace.next
    change_state(&full.words, replacing, REPLACED)
    return 0
