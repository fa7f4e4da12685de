from bpe.corpus.blocks import Block

class FileBlock:
    def block(self) -> Block: ...

class FileReader:
    finished: bool
    def __init__(
        self,
        file: int,
        source: str,
        size: int,
        separators: list[bytes],
        keep: bool,
        strings: list[bytes],
        checked: bool,
    ) -> None: ...
