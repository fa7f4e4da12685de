"""Adapters for the libraries that are measured, one per library and job. They measure nothing.

An adapter is a class with `name`, `get_version()` and one job: training (`trainers.py`), encoding with a vocabulary
that was just trained (`encoders.py`), encoding and decoding with a published vocabulary (`published.py`), counting
words (`counters.py`), finding pretokens (`scanners.py`) or writing training shards (`pipelines.py`). Each adapter uses
the library's fastest way that gives the right result. `callers.py` has the small calls of each library.

Two modules are programs: `measure_cores.py` measures for `bench_cores.py`, and `check_servers.py` compares servers with
and without this package's plugin.
"""

from peers.common import SEPARATOR, THREAD_VARIABLES, Vocab, flatten
from peers.counters import COUNTERS
from peers.encoders import ENCODERS
from peers.pipelines import PIPELINES
from peers.published import TOKENIZERS
from peers.scanners import SCANNERS
from peers.trainers import TRAINERS

__all__ = [
    "COUNTERS", "ENCODERS", "PIPELINES", "SCANNERS", "SEPARATOR", "THREAD_VARIABLES", "TOKENIZERS", "TRAINERS", "Vocab",
    "flatten",
]  # fmt: skip
