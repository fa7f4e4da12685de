"""The libraries that are measured, by job: one adapter per library and job. Nothing here measures.

An adapter is a class with `name`, `version()` and one job: training (`trainers.py`), encoding with what was trained
(`encoders.py`), encoding and decoding with a published vocabulary (`published.py`), counting words (`counters.py`) or
finding pretokens (`scanners.py`). Outputs are compared as they are. Each library is given its own fastest way that
gives the right result.
"""

from peers.common import SEPARATOR, THREAD_VARIABLES, Vocab, flat
from peers.counters import COUNTERS
from peers.encoders import ENCODERS
from peers.published import TOKENIZERS
from peers.scanners import SCANNERS
from peers.trainers import TRAINERS

__all__ = [
    "COUNTERS", "ENCODERS", "SCANNERS", "SEPARATOR", "THREAD_VARIABLES", "TOKENIZERS", "TRAINERS", "Vocab", "flat",
]  # fmt: skip
