"""Sources of text: files, iterables and Arrow arrays, in blocks of whole documents or safe pieces.

In come paths, open files or texts; out come `Block`s: UTF-8 with the bounds of the documents in it, and where it came
from. The files, in the order in which text meets them:

- `blocks.py` lists files, and makes blocks of files and of texts;
- `reading.py` reads a file in blocks whose size grows, checks UTF-8, and cuts where the caller says;
- `_separators.pyx` finds the documents of a block;
- `documents.py` the columns of Arrow arrays as documents, without a copy.

Invariants: joined, the blocks of a source are its text, byte for byte; every byte is valid UTF-8 or the caller chose
otherwise (`encoding_errors`); a source that changes while it is read is an error, not a crash, since files are read
and not mapped. Memory is bounded by a few blocks per thread and the longest document. Cost: linear in the text.

Sources: `bytes.decode` for what "replace" makes of bytes that are not UTF-8; Arrow's C data layout by PyArrow.
"""
