"""Shared infrastructure: memory, threads, signals, UTF-8 and files. Nothing here depends on tokenization.

Input is what the system provides (pages, cores, signals, str objects); output is arrays, threads and valid UTF-8 that
the kernels rely on. The files, in the order in which a call uses them:

- `_types.pxd` the C types of ids, counts, cells and bytes; `_bounds.pxd` the checks of offsets that come from Python;
  `_cpu.pyx` (`_levels.h`, `_vectors.h`) the vector level of all kernels;
- `utf8.py` over `_utf8.pyx` (`_transcode.h`, `_utf8.h`): str and bytes as valid UTF-8; `offsets.py`: offsets;
- `threads.py`, `_team.pyx`, `_interrupts.pyx`: threads per call, jobs split into parts, Ctrl-C in long calls, with
  `_atomic.pxd`, a number that several threads share; `_system.pxd` (`_system.h`) files and time on all systems;
- `forks.py` locks and cached properties that a forked process can use;
- `_memory.pxd` growing arrays and hashes, `_ids.pxd` growing arrays of ids, `_pages.pxd` large pages;
- `_ordered_output.pyx`, `_result_pool.pyx`, `_id_array.pyx`: the ids of several threads in one array, and its memory;
- `_visitor.pyx`: what reads ids as they are written; `_id_lists.pyx`: ids as lists of int;
- `_aho_corasick.pyx` searching in text, `_binary_search.pxd` in numbers, `_string_index.pyx` among strings;
  `_slices.pyx` copying strings, `_crc32.pyx` (`_crc32.h`) checksums, `_json.pyx` reading JSON, `_random.pxd` random
  numbers;
- `atomic_files.py` files written atomically, `memory_limits.py` sizes such as "2G", `progress.py` progress bars,
  `spelling.py` tokens in visible characters, `fast_dataclasses.py` dataclasses whose definition takes no time.

Invariants: a kernel never reads past its inputs, allocates only where it can report failure, and holds no lock
while it copies. Cost: linear in the bytes; searching for n strings is linear in their total length and the text's.

Sources: Keiser and Lemire, "Validating UTF-8 in less than one instruction per byte" (2020); Aho and Corasick (1975);
wyhash-style mixing of a 64 by 64 bit product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpe._lazy import import_on_use

if TYPE_CHECKING:
    from bpe.base.progress import Progress

#: The public names, and the modules that define them.
_MODULES = {"Progress": "progress"}

__all__ = ["Progress"]

__getattr__, __dir__ = import_on_use(__name__, _MODULES, __all__)
