from bpe.base._team import Team
from bpe.count._word_table import WordTable

def merge_tables(table: WordTable, others: list[WordTable], team: Team) -> None: ...
