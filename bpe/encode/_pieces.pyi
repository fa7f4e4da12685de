from bpe.base._buffers import Buffer
from bpe.encode._split_filter import SplitFilter

def safe_places(split: SplitFilter, text: Buffer) -> list[int]: ...
