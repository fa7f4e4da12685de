"""Other tokenizer libraries. A test that uses one which is not installed is skipped, with the reason."""

from __future__ import annotations

from typing import Any

import pytest


class Peer:
    """A package that is imported when one of its names is used.

    >>> tokenizers = Peer("tokenizers")  # and in a test: tokenizers.Tokenizer.from_str(...)
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(pytest.importorskip(self._name), attribute)
