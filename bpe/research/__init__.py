"""Trainers and tools from research papers, each in one module with one public function or class.

- `parity.py` `train_parity`: each merge is chosen by the language that is encoded worst;
- `boundless.py` `train_boundless`: merges of whole words; `runs.py` `count_runs` counts what they are learned from;
- `picky.py` `train_picky`: deletes tokens that merges use up, with the kernel `_picky.pyx`;
- `seeds.py` `train_seeded` and `Seeds`: tokens that a vocabulary begins with;
- `adapting.py` `adapt`: those tokens of a larger vocabulary that make a corpus short;
- `random_splits.py` `stochastok`: tokens split at random, so that a model sees what its tokens are made of.

A trainer takes the options of `bpe.train`, and gives a `Tokenizer`. It is a strategy: a function that a `TrainingJob`
(`bpe/training/job.py`) calls, and that counts, learns and checks with the parts of `bpe/training`. Nothing below this
room knows of it, so plain training asks none of its questions. To add a trainer: a module with such a function, a name
in the table below, and a test that compares it with an implementation that counts everything anew at every step:
`docs/internals/add_a_trainer.md`.
"""

from typing import TYPE_CHECKING

from bpe._lazy import import_on_use

if TYPE_CHECKING:
    from bpe.research.adapting import adapt
    from bpe.research.boundless import PAPER_ELIGIBLE, train_boundless
    from bpe.research.parity import train_parity
    from bpe.research.picky import train_picky
    from bpe.research.random_splits import stochastok
    from bpe.research.runs import count_runs
    from bpe.research.seeds import Seeds, train_seeded

_MODULES = {
    "PAPER_ELIGIBLE": "boundless",
    "Seeds": "seeds",
    "adapt": "adapting",
    "count_runs": "runs",
    "stochastok": "random_splits",
    "train_boundless": "boundless",
    "train_parity": "parity",
    "train_picky": "picky",
    "train_seeded": "seeds",
}

__all__ = [
    "PAPER_ELIGIBLE",
    "Seeds",
    "adapt",
    "count_runs",
    "stochastok",
    "train_boundless",
    "train_parity",
    "train_picky",
    "train_seeded",
]

__getattr__, __dir__ = import_on_use(__name__, _MODULES, __all__)
