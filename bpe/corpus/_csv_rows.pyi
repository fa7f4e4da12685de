from typing_extensions import Self

from bpe.base._buffers import Buffer

class RowDialect:
    def __new__(
        cls, delimiter: str, has_quotes: bool, may_swallow_rows: bool, requires_utf8: bool, max_row_bytes: int
    ) -> Self: ...
    def read_rows(self, text: Buffer, wanted: int, n_columns: int) -> tuple[list[tuple[bytes, bytes | None]], int]: ...
