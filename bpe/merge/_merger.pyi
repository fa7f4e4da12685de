from bpe.merge.tables import MergeList, SymbolTables

class Merger:
    merges: MergeList
    def __init__(self, merges: MergeList, symbols: SymbolTables) -> None: ...
