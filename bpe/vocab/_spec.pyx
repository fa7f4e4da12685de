"""Check the merges of a tokenizer against its vocabulary.

The other checks of a spec: `spec.py`.
"""

from bpe.base._bounds cimport check_offsets
from bpe.base._types cimport byte_t, token_t
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp


def find_wrong_merge(
    const int[:, ::1] merges, const int[::1] ids, const byte_t[::1] blob, const int64_t[::1] offsets,
    const uint8_t[::1] is_checked,
):
    """Find the first merge whose result is not spelled as its parts, one after the other; -1 if there is none.

    Token i is `blob[offsets[i]:offsets[i + 1]]`. A merge is checked if `is_checked` of all its three tokens;
    all ids are within these arrays.
    """
    cdef Py_ssize_t i, n = merges.shape[0]
    cdef int64_t n_left, n_right
    cdef token_t left, right, result
    check_offsets(offsets, is_checked.shape[0], blob.shape[0])
    if blob.shape[0] == 0 or ids.shape[0] != n:
        return 0 if n else -1
    with nogil:
        for i in range(n):
            left, right, result = merges[i, 0], merges[i, 1], ids[i]
            if max(max(left, right), result) >= <size_t>is_checked.shape[0]:
                break
            if not is_checked[left] & is_checked[right] & is_checked[result]:
                continue
            n_left, n_right = offsets[left + 1] - offsets[left], offsets[right + 1] - offsets[right]
            if (
                offsets[result + 1] - offsets[result] != n_left + n_right
                or memcmp(&blob[0] + offsets[result], &blob[0] + offsets[left], n_left) != 0
                or memcmp(&blob[0] + offsets[result] + n_left, &blob[0] + offsets[right], n_right) != 0
            ):
                break
        else:
            i = -1
    return i
