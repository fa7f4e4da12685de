"""Sources of text: files, iterables and Arrow arrays, in blocks of whole documents or safe pieces.

In come paths, open files or texts; out come `Block`s: UTF-8 text with the bounds of its documents and its source. The
files, in the order in which text meets them:

- `blocks.py` lists files, and divides files and texts into blocks;
- `reading.py` reads a file block by block, checks its first bytes, and cuts at positions that the caller finds;
- `_separators.pyx` finds the documents of a block;
- `documents.py` reads the rows of Arrow arrays as documents, without a copy.

Invariants: joined, the blocks of a source are its text, byte for byte; the text is valid UTF-8 unless the caller
allows other bytes (`encoding_errors`); a file that gets shorter while it is read is an error, not a crash, since files
are read and not mapped. Memory is bounded by a few blocks per thread and the longest document. Cost: linear.

Sources: `bytes.decode` for what "replace" makes of bytes that are not UTF-8; Arrow's C data layout by PyArrow.
"""
