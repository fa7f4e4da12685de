"""Encoding short texts, for kernels that make other objects of the ids."""

from bpe.encode._encoder cimport Encoder


cdef object short_ids(Encoder encoder, text)               # an array, or None
