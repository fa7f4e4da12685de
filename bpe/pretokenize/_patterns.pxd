"""The numbers of the scanners, the same as in `bpe/pretokenize/patterns.py`."""

cdef enum Scanner:
    WHOLE = 0          # the whole text is one pretoken
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
