"""The ids of runs of characters of three bytes."""

from bpe._core.types cimport byte_t
from bpe._core.values cimport Values
from bpe._core.workspace cimport Workspace

cdef int emit_run(Values values, Workspace space, const byte_t* text) except -1 nogil
