"""What the checks take from the benchmarks: the shared corpora and vocabularies, and the adapters of the peers.

Scripts import each other by name. A check runs as `python benchmarks/checks/check_….py`, with its own folder on the
path, so this module adds the folder above it.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers import SEPARATOR, TOKENIZERS, Vocab
from report import NAMES, SHARED, VOCAB_NAMES, VOCABULARIES, at_least, find_corpora, write_superbpe, write_vocabularies

__all__ = [
    "NAMES", "SEPARATOR", "SHARED", "TOKENIZERS", "VOCABULARIES", "VOCAB_NAMES", "Vocab", "at_least", "find_corpora",
    "write_superbpe", "write_vocabularies",
]  # fmt: skip
