"""Methods from papers, built on the public pieces of this package. The plain paths never ask about them.

In come a tokenizer or a corpus, and options; out come a tokenizer or ids. Each method has one module with one public
function:

- `random_splits.py` `stochastok`: tokens split at random, so that a model sees what its tokens are made of.

Invariants: the same input gives the same output, with any number of threads and on every machine; what is random
depends on the argument `seed` alone. No module here is imported before it is used. Cost: that of each method stands in
its docstring.

Sources: Sims et al., "StochasTok" (2025, arXiv 2506.01687).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpe._lazy import import_on_use

if TYPE_CHECKING:
    from bpe.research.random_splits import stochastok

#: The public names, and the modules that define them.
_MODULES = {"stochastok": "random_splits"}

__all__ = ["stochastok"]

__getattr__, __dir__ = import_on_use(__name__, _MODULES, __all__)
