"""The numbers of the scanners; those of named patterns are also in `bpe/pretokenize/patterns.py`."""

cdef enum:
    WHOLE_TEXT = 0          # the whole text is one pretoken
    GPT2 = 1
    CL100K = 2
    O200K = 3
    CLIP = 4
    WHITESPACE = 5
    LLAMA3 = 6
    QWEN2 = 7
    TEKKEN = 8
    DEEPSEEK = 9
    STARCODER = 10
    METASPACE = 32     # each U+2581 starts a pretoken
    SPACE_RUNS = 33    # each U+2581 that follows another character starts one
    SCANNERS = 34      # all numbers are below this


cdef inline bint is_metaspace(const unsigned char* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return whether U+2581, which stands for a space in SentencePiece's vocabularies, is at `pos`."""
    return pos + 3 <= end and text[pos] == 0xE2 and text[pos + 1] == 0x96 and text[pos + 2] == 0x81
