"""How good a vocabulary is for texts: counts of one pass over text and ids, and the metrics made of them.

Takes tokenizers and corpora; returns an `Evaluation`. The files, in the order in which data meets them:

- `evaluating.py` `bpe.evaluate`: checks arguments, runs one pass for all tokenizers, and returns an `Evaluation`;
- `adapters.py` tokenizers of this package and of others, as what gives ids and where their boundaries are;
- `corpora.py` the corpora, as blocks of documents, which `_common_cuts.pyx` ends where all tokenizers allow it;
- `tallying.py` blocks to counts on several threads, with `_tally.pyx` (`_block_masks.h`); `_file_tally.pyx` does so for
  files and lists of texts;
- `metrics.py` the definitions of the metrics of a text, and of their intervals;
- `vocabulary_metrics.py` what needs no text: shapes of tokens (`_shapes.pyx`), reachable tokens, borders of morphemes;
- `result.py` the results of an `Evaluation`, and which tokens save most; `table.py` a table of the results;
  `sanity.py` `bpe.evaluation.sanity_check`.

Invariants: figures do not depend on threads or on how the text is divided into blocks; ids are those of
`Tokenizer.encode`; intervals depend on the seed alone. Memory is that of a few blocks, the tokenizers' caches, and
8 bytes for each token of a vocabulary, thread and corpus. Cost: linear in the text.

Sources: Zouhar et al. 2023, Petrov et al. 2023, Gowda and May 2020, Land and Bartolo 2024, Arnett and Bergen 2025
(MorphScore), Singh and Strouse 2024; the definitions of TokEval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpe._lazy import import_on_use

if TYPE_CHECKING:
    from bpe.evaluation.evaluating import Evaluation
    from bpe.evaluation.sanity import sanity_check

#: The public names, and the modules that define them.
_MODULES = {"Evaluation": "evaluating", "sanity_check": "sanity"}

__all__ = ["Evaluation", "sanity_check"]

__getattr__, __dir__ = import_on_use(__name__, _MODULES, __all__)
