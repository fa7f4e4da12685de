"""Counting the words of a corpus: how often each distinct pretoken occurs.

Reads blocks of text and makes a `WordCounts`, in order of first appearance. The files, in the order in which text
meets them:

- `counting.py` `count_words`: shares the blocks out to threads and puts their tables together;
- `_word_table.pyx` one thread's table: words of at most 15 bytes inside a 32-byte slot, longer ones in an arena;
- `_table_merge.pyx` the tables of all threads into one, `_word_list.pyx` its words in order: both in any number of
  threads, without the GIL;
- `spilling.py` tables that outgrow `max_memory` go to disk in parts by hash, and are merged part by part;
- `splitter.py` texts into words, and where a text may be divided before that;
- `word_counts.py` the class `WordCounts`, its Arrow columns; `sealed_files.py` its file format; `word_lists.py` lists
  of words and counts as text.

Invariants: the counts, and their order, do not depend on threads, blocks or memory; counts are 64 bits, and overflow
is refused; counts made with other settings are not merged. Cost: linear in the text, one probe of a table for each
pretoken, load at most five eighths (long words: one half); spilling writes and reads each distinct word once.

Sources: open addressing with linear probing, and one 64 by 64 bit multiplication as hash (wyhash). The batches that are
hashed and prefetched before they are counted hide the latency of memory; they are this project's own.
"""
