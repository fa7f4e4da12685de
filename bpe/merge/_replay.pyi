from bpe.merge._merger import Merger
from bpe.merge.tables import EventList, MergeList, SymbolTables

class EventMerger(Merger):
    def __init__(self, merges: MergeList, symbols: SymbolTables, events: EventList) -> None: ...
