"""The rules of a training: which pairs are never merged, by what their tokens spell.

They are asked when a pair is the best one; a refused pair costs no id. `merge_rules.py` has their meaning for users.
"""

from bpe.base._types cimport byte_t
from bpe.text._unicode cimport INVALID, decode_char
from libc.stdint cimport uint32_t
from libc.string cimport memcmp

cdef enum:
    MAX_FORBIDDEN = 64       # as in `merge_rules.py`
    ISOLATED_SCRIPT = 255     # a script whose characters are joined with no other; as in `merge_rules.py`

cdef struct SpellingRules:    # what the token that a merge makes must keep to
    uint32_t max_words        # the most words in a token, 0 for no limit
    const byte_t* strings     # the forbidden strings, end to end: string i ends at `ends[i]`
    size_t ends[MAX_FORBIDDEN]
    size_t n
    const byte_t* scripts     # the script of each code point, 0 for none, where a token must have one only; or NULL
    size_t n_scripts          # code points from this one on have no script
    bint whole_characters     # whether a part of a character may be joined with its next byte only


cdef inline int set_rules(SpellingRules* rules, config, bytes strings, bytes scripts) except -1:
    """Set the rules of a `TrainConfig`. `strings`, its forbidden ones end to end, and `scripts` must live as long."""
    cdef bytes string
    if len(config.forbidden) > MAX_FORBIDDEN:
        raise ValueError(f"{len(config.forbidden)} strings are forbidden in tokens; at most {MAX_FORBIDDEN} may be")
    rules.max_words, rules.strings, rules.n = config.max_words, strings, 0
    for string in config.forbidden:
        rules.ends[rules.n] = len(string) + (rules.ends[rules.n - 1] if rules.n else 0)
        rules.n += 1
    rules.whole_characters = config.whole_characters
    if scripts:
        rules.scripts, rules.n_scripts = scripts, len(scripts)
    return 0


# What a token spells --------------------------------------------------------------------------------------------------

cdef inline size_t count_words_in(const byte_t* text, size_t size) noexcept nogil:
    """Count the words of a text, between spaces: 2 for " by the"."""
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


cdef inline bint mixes_scripts(const SpellingRules* rules, const byte_t* text, size_t size) noexcept nogil:
    """Whether the whole characters of a text have two scripts, or one of several is apart; parts have no script."""
    cdef Py_ssize_t offset = 0, length
    cdef uint32_t code
    cdef byte_t script, first_script = 0
    while offset < <Py_ssize_t>size:
        code = decode_char(text, offset, size, &length)
        offset += length
        script = rules.scripts[code] if code < rules.n_scripts else 0
        if script == ISOLATED_SCRIPT and length < <Py_ssize_t>size:
            return True
        if script != 0 and first_script != 0 and script != first_script:
            return True
        first_script = script if script != 0 else first_script
    return False


cdef inline bint is_whole(const byte_t* text, size_t size) noexcept nogil:
    """Whether a text consists of whole characters, as the empty one does."""
    cdef Py_ssize_t offset = 0, length
    while offset < <Py_ssize_t>size:
        if decode_char(text, offset, size, &length) == INVALID:
            return False
        offset += length
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


cdef inline bint breaks_rules(const SpellingRules* rules, const byte_t* text, size_t left, size_t size) noexcept nogil:
    """Whether a pair must not be merged: `text` is its token without a mark, and `left` the size of its left."""
    cdef size_t i, begin = 0
    if rules.max_words and count_words_in(text, size) > rules.max_words:
        return True
    for i in range(rules.n):
        if contains(text, size, rules.strings + begin, rules.ends[i] - begin):
            return True
        begin = rules.ends[i]
    if rules.scripts != NULL and mixes_scripts(rules, text, size):
        return True
    return rules.whole_characters and joins_parts(text, left, size)
