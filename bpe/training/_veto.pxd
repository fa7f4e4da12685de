"""The veto of a training: which pairs are never merged, by what their tokens spell; and the pairs already refused.

A veto is asked when a pair is the best one. It costs no id. It lasts: a refused pair is remembered and not counted
again in later epochs, so refused pairs take neither lists nor room in the queue from then on.

Not here: the rules' meaning for users (`merge_rules.py`), and vetoes by Python (`_trainer.pyx` calls them).
"""

from bpe.base._memory cimport mix
from bpe.base._types cimport byte_t, token_t
from bpe.text._unicode cimport INVALID, decode_char
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

cdef enum:
    MOST_FORBIDDEN = 64       # as in kernel_input.py

cdef struct Veto:             # a merge must not make a token
    uint32_t max_words        # with more parts between spaces than this, unless it is 0
    const byte_t* strings     # or with one of `n` strings inside: string i ends at `ends[i]`
    size_t ends[MOST_FORBIDDEN]
    size_t n
    const byte_t* scripts     # or with characters of two scripts: a number for each code point, 0 for none; or NULL
    size_t n_scripts          # code points from this one on have no script
    bint whole_characters     # nor join a part of a character with anything but its next byte

cdef struct RefusedPairs:     # a hash set
    uint64_t* keys            # (left << 32 | right) + 1, 0 where empty
    size_t n
    size_t n_slots            # a power of two, or 0


cdef inline int set_rules(Veto* veto, rule, bytes strings, bytes scripts) except -1:
    """Set the rules of a `NextMerge`. `strings`, its forbidden ones end to end, and `scripts` must live as long."""
    cdef bytes string
    if len(rule.forbidden) > MOST_FORBIDDEN:
        raise ValueError(f"{len(rule.forbidden)} strings are forbidden in tokens; at most {MOST_FORBIDDEN} may be")
    veto.max_words, veto.strings, veto.n = rule.max_words, strings, 0
    for string in rule.forbidden:
        veto.ends[veto.n] = len(string) + (veto.ends[veto.n - 1] if veto.n else 0)
        veto.n += 1
    veto.whole_characters = rule.whole_characters
    if scripts:
        veto.scripts, veto.n_scripts = scripts, len(scripts)
    return 0


# What a token spells --------------------------------------------------------------------------------------------------

cdef inline size_t words_in(const byte_t* text, size_t size) noexcept nogil:
    """The number of parts that spaces divide a text into: 2 for " by the"."""
    cdef size_t i, n = 0
    cdef bint after_space = True
    for i in range(size):
        n += after_space and text[i] != c" "
        after_space = text[i] == c" "
    return n


cdef inline bint contains(const byte_t* text, size_t size, const byte_t* string, size_t length) noexcept nogil:
    cdef size_t i
    for i in range(length, size + 1):
        if memcmp(text + i - length, string, length) == 0:
            return True
    return False


cdef inline bint mixes_scripts(const Veto* veto, const byte_t* text, size_t size) noexcept nogil:
    """Whether the whole characters of a text have two scripts; parts of characters have none."""
    cdef Py_ssize_t at = 0, length
    cdef uint32_t code
    cdef byte_t script, found = 0
    while at < <Py_ssize_t>size:
        code = decode_char(text, at, size, &length)
        at += length
        script = veto.scripts[code] if code < veto.n_scripts else 0
        if script != 0 and found != 0 and script != found:
            return True
        found = script if script != 0 else found
    return False


cdef inline bint is_whole(const byte_t* text, size_t size) noexcept nogil:
    """Whether a text consists of whole characters, as the empty one does."""
    cdef Py_ssize_t at = 0, length
    while at < <Py_ssize_t>size:
        if decode_char(text, at, size, &length) == INVALID:
            return False
        at += length
    return True


cdef inline bint is_character_start(const byte_t* text, size_t size) noexcept nogil:
    """Whether a text of 1 to 4 bytes is a character or its first bytes."""
    cdef byte_t padded[4]
    cdef Py_ssize_t length, i
    cdef Py_ssize_t n = 1 if text[0] < 0x80 else 2 if text[0] < 0xE0 else 3 if text[0] < 0xF0 else 4
    if <Py_ssize_t>size > n:
        return False
    for i in range(4):                                 # any byte that may follow, with the second as E0 to F4 need it
        padded[i] = text[i] if i < <Py_ssize_t>size else 0xBF if i == 1 and text[0] in (0xE0, 0xF0) else 0x80
    return decode_char(padded, 0, 4, &length) != INVALID


cdef inline bint joins_parts(const byte_t* text, size_t left, size_t size) noexcept nogil:
    """Whether a pair, whose left part has `left` bytes, joins a partial character with more than its next byte."""
    if is_whole(text, left):
        return not is_whole(text + left, size - left)
    return size != left + 1 or size > 4 or not is_character_start(text, size)


cdef inline bint is_vetoed(const Veto* veto, const byte_t* text, size_t left, size_t size) noexcept nogil:
    """Whether a pair must not be merged: `text` is what its token spells, without a mark, and `left` what is left."""
    cdef size_t i, begin = 0
    if veto.max_words and words_in(text, size) > veto.max_words:
        return True
    for i in range(veto.n):
        if contains(text, size, veto.strings + begin, veto.ends[i] - begin):
            return True
        begin = veto.ends[i]
    if veto.scripts != NULL and mixes_scripts(veto, text, size):
        return True
    return veto.whole_characters and joins_parts(text, left, size)


# Refused pairs --------------------------------------------------------------------------------------------------------

cdef inline bint is_refused(const RefusedPairs* refused, token_t left, token_t right) noexcept nogil:
    cdef uint64_t key = (<uint64_t>left << 32 | right) + 1
    cdef size_t mask = refused.n_slots - 1, at
    if refused.n == 0:
        return False
    at = mix(key, <uint64_t>0x9E3779B97F4A7C15) & mask
    while refused.keys[at] != 0:
        if refused.keys[at] == key:
            return True
        at = (at + 1) & mask
    return False


cdef inline void enter_refused(uint64_t* keys, size_t n_slots, uint64_t key) noexcept nogil:
    cdef size_t at = mix(key, <uint64_t>0x9E3779B97F4A7C15) & (n_slots - 1)
    while keys[at] != 0:
        at = (at + 1) & (n_slots - 1)
    keys[at] = key


cdef inline int refuse(RefusedPairs* refused, token_t left, token_t right) except -1 nogil:
    """Remember a pair that is not in the set yet."""
    cdef size_t i, larger = max(2 * refused.n_slots, <size_t>64)
    cdef uint64_t* keys
    if 2 * (refused.n + 1) > refused.n_slots:
        keys = <uint64_t*>calloc(larger, sizeof(uint64_t))
        if keys == NULL:
            with gil:
                raise MemoryError(f"no memory for {refused.n} pairs that must not be merged")
        for i in range(refused.n_slots):
            if refused.keys[i] != 0:
                enter_refused(keys, larger, refused.keys[i])
        free(refused.keys)
        refused.keys, refused.n_slots = keys, larger
    enter_refused(refused.keys, refused.n_slots, (<uint64_t>left << 32 | right) + 1)
    refused.n += 1
    return 0
