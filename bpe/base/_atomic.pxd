"""A number or an address that one thread writes and others read without a lock, with all that was written before."""

cdef extern from *:
    """
    #define bpe_atomic_load(place) __atomic_load_n(place, __ATOMIC_ACQUIRE)
    #define bpe_atomic_store(place, value) __atomic_store_n(place, value, __ATOMIC_RELEASE)
    #define bpe_atomic_add(place, value) __atomic_fetch_add(place, value, __ATOMIC_RELAXED)
    """
    Py_ssize_t load "bpe_atomic_load"(const Py_ssize_t* place) nogil
    void store "bpe_atomic_store"(Py_ssize_t* place, Py_ssize_t value) nogil
    void* load_pointer "bpe_atomic_load"(void* const* place) nogil
    void store_pointer "bpe_atomic_store"(void** place, void* value) nogil
    size_t fetch_add "bpe_atomic_add"(size_t* place, size_t value) nogil  # the number before; orders nothing else
