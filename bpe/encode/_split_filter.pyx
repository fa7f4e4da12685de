"""The split filter: pairs of neighbouring characters that some token holds, as hashed bits.

If no token holds two characters side by side, no merge crosses the border between them, and a piece that is cut there
gives the same ids. So text without spaces (Japanese, Chinese) and long words (Korean) fall into short pieces that
occur again and again. Only characters of three bytes are considered, since the usual vocabularies hold most pairs of
shorter ones.

The bytes around a border: a token may hold both characters whole, or begin within the first one, or end within the
second. A bit (`_split_filter.h` says which) is set for

- all six bytes, where the token holds the first character whole; a token that ends after the second one's second byte
  sets the bits of all characters that go on so;
- the last byte of the first character and the second one, where the token begins within the first;
- the last byte of the first character and the first one of the second, where the token ends after that.

If two pairs share a hash, or differ only in what is not hashed, a possible cut is lost, but no id changes. A vocabulary
with so many such pairs that little could be cut has no filter.

A whole text, too, may be cut between two ideographs, or two syllables of Hangul, that no token holds side by side (a
`parting`), for threads and streams, where ends of words are not marked: to every pattern that has a scanner these are
letters without case, one as good as another, so that what follows is the same pretoken, or the same end of one, at the
beginning of a text.

Measured, first passes with cl100k: Japanese 27 MB/s without splitting, 296 with it; Korean 64 and 334.
"""

import numpy as np

from bpe.base._types cimport byte_t
from bpe.base._utf8 cimport Units, unit_at
from libc.stdint cimport int64_t, uint16_t, uint32_t
from libc.string cimport memcpy

cdef extern from "bpe/encode/_split_filter.h" nogil:
    uint32_t joint_hash "bpe_joint_hash"(uint32_t last_and_three)
    uint32_t joint_within "bpe_joint_within"(uint32_t hashed)
    uint32_t joint_whole "bpe_joint_whole"(uint32_t hashed, uint32_t first_two)

cdef enum:
    JOINT_WORDS = 15          # log2 of the filter's words while it is filled: 128 KB
    FEWEST_WORDS = 9          # and at least, when it is folded
    MOST_BITS = 1 << (JOINT_WORDS + 4)    # set in the filter, before it is given up


cdef class SplitFilter:

    def __init__(self):
        self.held = np.zeros((1 << JOINT_WORDS) + 1, dtype=np.uint32)
        self.held[1 << JOINT_WORDS] = 0xFFFFFFFF
        self.joints.bits = &self.held[0]
        self.joints.shift = 32 - JOINT_WORDS
        self.left = MOST_BITS

    def add_merges(self, const int[:, ::1] merges, const byte_t[::1] blob, const int64_t[::1] offsets):
        """Enter the borders of merges: token i is `blob[offsets[i]:offsets[i + 1]]`.

        A token's inner borders are those of its parts and the one between them, so each merge has one border to enter.
        """
        cdef Py_ssize_t i, left, right
        if not blob.shape[0]:
            return
        with nogil:
            for i in range(merges.shape[0]):
                left, right = merges[i, 0], merges[i, 1]
                if offsets[right] < blob.shape[0] and blob[offsets[right]] & 0xF0 == 0xE0:    # one of three bytes
                    self.add(&blob[0], offsets[left], offsets[left + 1], offsets[right], offsets[right + 1])

    def add_word(self, const byte_t[::1] word):
        """Enter all borders within a word that is never to be cut."""
        cdef Py_ssize_t at
        for at in range(1, word.shape[0]):
            self.add(&word[0], 0, at, at, word.shape[0])

    def fold(self):
        """Make the filter as small as it can be, to stay in a near cache; nothing is added after this.

        Of 64 bits at most one is set then, which loses few cuts. A hash's first bits are its word in any size.
        """
        cdef Py_ssize_t used = MOST_BITS - self.left
        words, all_set = np.split(np.asarray(self.held), [1 << JOINT_WORDS])
        while len(words) > 1 << FEWEST_WORDS and 16 * len(words) >= 64 * used and self.joints.bits != NULL:
            words = words[0::2] | words[1::2]
            self.joints.shift += 1
        self.held = np.concatenate([words, all_set])
        if self.joints.bits != NULL:
            self.joints.bits = &self.held[0]
        self.left = 0

    def cuts(self, const byte_t[::1] text):
        """The places where a text may be cut, for the tests: a list of offsets."""
        cdef Py_ssize_t at
        places = []
        for at in range(3, text.shape[0] - 2):
            if self.joints.bits != NULL and is_joint(&text[at - 3]) and may_cut(&self.joints, &text[at]):
                places.append(at)
        return places

    cdef int add(
        self, const byte_t* blob, Py_ssize_t start, Py_ssize_t before, Py_ssize_t behind, Py_ssize_t end
    ) noexcept nogil:
        """Enter the border between `blob[start:before]` and `blob[behind:end]` if it is one between characters."""
        cdef byte_t six[8]
        cdef Py_ssize_t n_left = before - start, n_right = end - behind, i
        cdef byte_t third
        if self.left == 0 or n_left == 0 or n_right == 0 or blob[behind] & 0xF0 != 0xE0:
            return 0
        for i in range(1, min(<Py_ssize_t>3, n_left) + 1):
            if blob[before - i] & (0xF0 if i == 3 else 0xC0) != (0xE0 if i == 3 else 0x80):
                return 0                                   # the first character is not of three bytes
        for i in range(8):
            six[i] = 0
        for i in range(min(<Py_ssize_t>3, n_left)):
            six[2 - i] = blob[before - 1 - i]
        for i in range(min(<Py_ssize_t>3, n_right)):
            six[3 + i] = blob[behind + i]
        if n_right == 1:
            self.joints.ends[blob[before - 1] & 63] |= <uint16_t>1 << (blob[behind] & 15)
            return 0
        for third in range(0x80, 0xC0):
            if n_right > 2 and third != six[5]:
                continue
            six[5] = third
            self.set_bit(six, n_left >= 3)
        return 0

    cdef int set_bit(self, const byte_t* six, bint whole) noexcept nogil:
        """Set the bits of a border; `whole` where the first character is known whole."""
        cdef uint32_t first_two = 0, last_and_three, hashed, bit
        cdef size_t word
        memcpy(&first_two, six, 2)
        memcpy(&last_and_three, six + 2, 4)
        hashed = joint_hash(last_and_three)
        bit = joint_whole(hashed, first_two) if whole else joint_within(hashed)
        word = hashed >> (32 - JOINT_WORDS)
        if self.left > 0 and not self.held[word] & bit:
            self.held[word] |= bit
            self.left -= 1
            if self.left == 0:
                self.joints.bits = NULL
        return 0


cdef Py_ssize_t first_parting(const Joints* joints, const Units* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """The first parting of a text at or after `pos` and before `end`; `end` if there is none."""
    cdef byte_t six[8]
    cdef uint32_t left, right
    if text.width == 0:                                    # UTF-8
        pos = max(pos, <Py_ssize_t>3)
        while pos < end and not (pos + 3 <= text.n and is_parting(joints, text.data + pos)):
            pos += 1
        return min(pos, end)
    pos = max(pos, <Py_ssize_t>1)
    while pos < end:
        left, right = unit_at(text, pos - 1), unit_at(text, pos)
        if is_alike(left, right):
            write_three(left, six)
            write_three(right, six + 3)
            if may_cut(joints, six + 3):
                return pos
        pos += 1
    return min(pos, end)


cdef Py_ssize_t last_parting(
    const Joints* joints, const byte_t* text, Py_ssize_t low, Py_ssize_t end
) noexcept nogil:
    """The last parting of a text of UTF-8 that ends at `end`, beyond `low`; `low` if there is none."""
    cdef Py_ssize_t pos = end - 3, first = max(low, <Py_ssize_t>2)
    while pos > first:
        if is_parting(joints, text + pos):
            return pos
        pos -= 1
    return low


cdef inline bint is_parting(const Joints* joints, const byte_t* place) noexcept nogil:
    """Whether a text may be cut at a place that has three bytes before it and three behind."""
    return is_joint(place - 3) and is_alike(code_of_three(place - 3), code_of_three(place)) and may_cut(joints, place)


cdef inline bint is_alike(uint32_t left, uint32_t right) noexcept nogil:
    """Whether both are ideographs, of the oldest block, or both syllables of Hangul."""
    if 0x4E00 <= left <= 0x9FA5:
        return 0x4E00 <= right <= 0x9FA5
    return 0xAC00 <= left <= 0xD7A3 and 0xAC00 <= right <= 0xD7A3


cdef inline uint32_t code_of_three(const byte_t* text) noexcept nogil:
    return (text[0] & 15) << 12 | (text[1] & 63) << 6 | (text[2] & 63)


cdef inline void write_three(uint32_t code, byte_t* out) noexcept nogil:
    out[0] = 0xE0 | code >> 12
    out[1] = 0x80 | (code >> 6 & 63)
    out[2] = 0x80 | (code & 63)
