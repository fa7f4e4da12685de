from typing_extensions import Self

from bpe.merge._merger import Merger
from bpe.merge.tables import EventList, MergeList, SymbolTables

class EventMerger(Merger):
    def __new__(cls, merges: MergeList, symbols: SymbolTables, events: EventList) -> Self: ...
