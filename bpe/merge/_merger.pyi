from bpe.merge.tables import MergeList, SymbolTables

class Merger:
    merges: MergeList
    merges_unknown: bool
    can_split: bool
    def __init__(self, merges: MergeList, symbols: SymbolTables) -> None: ...
