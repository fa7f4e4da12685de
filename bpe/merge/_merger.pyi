from typing_extensions import Self

from bpe.merge.tables import MergeList, SymbolTables
from bpe.vocab.vocabulary import AFTER_MERGING as AFTER_MERGING

class Merger:
    merges: MergeList
    merges_unknown: bool
    can_split: bool
    def __new__(cls, merges: MergeList, symbols: SymbolTables) -> Self: ...
