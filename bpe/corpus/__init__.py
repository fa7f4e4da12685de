"""Sources of text: files of many formats, iterables and Arrow arrays, in blocks of whole documents or safe pieces.

Reads paths, open files or texts and yields `Block`s: UTF-8 text with the bounds of its documents and its source. The
files, in the order in which text meets them:

- `sources.py` the class `Sources`: the files of a corpus as one sequence of documents, in parts and from any position;
- `listing.py` finds the files that paths name, locally and through fsspec; `_listing.pyx` measures many of them;
- `streams.py` opens and decompresses a file's text, with a thread that reads ahead;
- `_file_reader.pyx` reads text and JSON Lines in small blocks, by several threads and without Python code;
  `_sequential_reader.pyx` does so for what has to be read in order, compressed text and CSV; `_json_fields.pyx` and
  `_csv_rows.pyx` take the texts out of lines and rows;
- `reading.py` reads other text block by block and cuts at positions that the caller finds; `contents.py` checks the
  first bytes;
- `jsonl.py`, `delimited.py`, `parquet.py` read records and rows; `records.py` handles bad ones, `damage.py` damaged
  files; `page_headers.py` and `_parquet_headers.pyx` read how much text pages of Parquet can have, `batch_headers.py`
  how much a record batch of Arrow;
- `blocks.py` divides texts in memory into blocks, and finds the documents of a block; `dropping.py` leaves out some;
- `documents.py` reads the rows of Arrow arrays as documents, without a copy; `_content_hash.pyx` hashes documents.

Invariants: joined, the blocks of a text are its bytes; the text is valid UTF-8 unless the caller allows other bytes
(`encoding_errors`); a file that is changed while it is read is an error, not a crash, since files are read and not
mapped; reading from a position that reading gave yields the rest. Memory is bounded by a few blocks per thread, what is
read ahead, and the longest document. Cost: linear.

Sources: RFC 8259, RFC 4180 and the standard library for JSON and CSV; Arrow's C data layout by PyArrow.
"""
