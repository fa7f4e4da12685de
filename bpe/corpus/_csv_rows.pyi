from typing_extensions import Self

class RowDialect:
    def __new__(
        cls, delimiter: str, has_quotes: bool, may_swallow_rows: bool, requires_utf8: bool, max_row_bytes: int
    ) -> Self: ...
