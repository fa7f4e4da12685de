"""What every room stands on: memory, threads, signals, UTF-8, files. Nothing here knows what a token is for.

In comes what the machine gives (pages, cores, signals, str objects); out come arrays, spans of time and bytes that
the kernels can rely on. The files, in the order in which a call meets them:

- `_types.pxd` the C types of ids, ranks and counts; `_bounds.pxd` the checks of offsets that come from Python;
- `utf8.py` over `_utf8.pyx` (`_transcode.h`, `_utf8.h`): str and bytes as valid UTF-8;
- `threads.py`, `_team.pyx`, `_interrupts.pyx`: threads per call, jobs in parts, Ctrl-C in long calls;
- `_memory.pxd` growing arrays and hashes, `_ids.pxd` growing arrays of ids, `_pages.pxd` large pages;
- `_delivery.pyx`, `_result_pool.pyx`, `_id_array.pyx`: ids of several threads in one array, and its memory;
- `_aho_corasick.pyx`, `_binary_search.pxd`: searching in text and in sorted numbers;
- `atomic_files.py` files that appear whole or not at all, `memory_limits.py` sizes such as "2G", `progress.py` bars,
  `spelling.py` tokens in visible characters.

Invariants: a kernel never reads past what it was given, allocates only where it can report failure, and holds no lock
while it copies. Cost: linear in the bytes; searching n strings is linear in them and in the text, whatever they hold.

Sources: Keiser and Lemire, "Validating UTF-8 in less than one instruction per byte" (2020); Aho and Corasick (1975);
wyhash-style mixing of a 64 by 64 bit product.
"""
