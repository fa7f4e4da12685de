"""Which tokens encoding gives back: encode(decode([id])) == [id] (Land and Bartolo 2024).

A token that is not whole characters cannot be tested that way: it is undecodable, and counts as such only. Tokenizers
that put a space before a text or drop one after it are asked a second time, with `«` before the token. With an
end-of-word mark, a token is reachable if some word has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.evaluation.adapters import Adapter, NativeAdapter

#: Encoded in one call.
_BATCH = 1 << 16
_QUOTE = "«"


@dataclass(frozen=True)
class Reachability:
    """The ids of ordinary tokens that their own text does not encode to, ascending.

    Attributes:
        tested: how many tokens were tested.
        single: tokens whose text is another single token.
        several: tokens whose text is several tokens, or none.
        undecodable: tokens that are not whole characters; not tested.

    """

    tested: int
    single: list[int]
    several: list[int]
    undecodable: list[int]

    @property
    def unreachable(self) -> list[int]:
        """All that are not given back."""
        return sorted([*self.single, *self.several])

    def to_dict(self) -> dict[str, Any]:
        """How many there are of each."""
        return {
            "unreachable_tokens": len(self.single) + len(self.several),
            "unreachable_as_one_token": len(self.single),
            "unreachable_as_several_tokens": len(self.several),
            "undecodable_tokens": len(self.undecodable),
        }


def reachability(adapter: Adapter, whole: NDArray[np.bool_]) -> Reachability:
    """Test the ordinary tokens of a tokenizer; `whole` says by id which are whole characters."""
    known = adapter.tokens.ordinary
    token_ids = np.flatnonzero(whole & known)
    never = _find_never_made(adapter)
    single: list[int] = []
    several: list[int] = []
    for first in range(0, len(token_ids), _BATCH):
        part = token_ids[first : first + _BATCH]
        texts = adapter.decode_each(part.tolist())
        rows = adapter.encode_texts(texts)
        same = rows.lengths == 1
        same[same] = rows.ids[rows.offsets[:-1][same]] == part[same]
        missed = np.flatnonzero(~same).tolist()
        if never is not None:
            missed = [index for index in missed if int(part[index]) in never]
        elif missed:
            inside = _encode_after_quote(adapter, [texts[index] for index in missed])
            missed = [index for index, row in zip(missed, inside, strict=True) if row != [int(part[index])]]
        for index in missed:
            (single if rows.lengths[index] == 1 else several).append(int(part[index]))
    return Reachability(len(token_ids), single, several, np.flatnonzero(known & ~whole).tolist())


def _find_never_made(adapter: Adapter) -> set[int] | None:
    """With an end-of-word mark, no text is a token inside words: the ids that no word has. None without a mark."""
    if not isinstance(adapter, NativeAdapter) or adapter.tokenizer.spec.end_of_word is None:
        return None
    return set(adapter.tokenizer.unreachable().tolist())


def _encode_after_quote(adapter: Adapter, texts: list[str]) -> list[list[int] | None]:
    """The ids of each text with `«` before it, without those of `«`; None where `«` changes or has no id."""
    try:
        before = adapter.encode_texts([_QUOTE]).to_list()[0]
        rows = adapter.encode_texts([_QUOTE + text for text in texts]).to_list()
    except ValueError:
        return [None] * len(texts)
    return [row[len(before) :] if row[: len(before)] == before else None for row in rows]
