"""A playground that serves in a thread, for the tests of the server and of the page in a browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import bpe
from bpe.report import Playground


@contextmanager
def serve_playground(tokenizers: Mapping[str, bpe.Tokenizer]) -> Iterator[Playground]:
    """A playground on a free port; it has ended after the block."""
    with Playground(tokenizers, port=0) as server:
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
