"""Tokens of a tokenizer as people see them: what `Tokenizer.show`, a notebook's card, `bpe.plots` and the report draw.

The rooms below draw (`bpe/show`); here ids and tokens of a tokenizer become what they take.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from bpe.base.utf8 import TextLike, to_bytes
from bpe.encode.explain import list_tokens
from bpe.errors import check_int
from bpe.show.html import DrawnToken, Html, format_separately, make_card
from bpe.show.views import TokenView
from bpe.vocab.comparing import compute_fingerprint
from bpe.vocab.spec import describe_merges, describe_model
from bpe.vocab.special_tokens import Allowed
from bpe.vocab.vocabulary import SPECIAL

if TYPE_CHECKING:
    from bpe.tokenizer import Tokenizer

#: How many special tokens, and how many of the longest tokens, a notebook's card shows.
MAX_SHOWN_TOKENS = 10


def show(tokenizer: Tokenizer, text: TextLike, allowed_special: Allowed, max_tokens: int) -> TokenView:
    """Draw the tokens of a text in colours, for `Tokenizer.show`, and print them if its caller drops the result."""
    rows = _list_tokens_with_ids(tokenizer, text, allowed_special)
    limit = check_int("max_tokens", max_tokens, 1)
    view = TokenView(draw_tokens(tokenizer, rows[:limit]), len(rows), len(to_bytes(text)))
    if _is_result_unused():
        print(view)  # noqa: T201
    return view


def _is_result_unused() -> bool:
    """Whether the user's call of `Tokenizer.show` is a statement of its own, whose result nothing shows or keeps.

    Python does not tell a function this, but its compiler drops such a result by POP_TOP (CPython 3.10 to 3.13). At a
    prompt, in a notebook's last line and in doctest there is another instruction, which shows the result. A call by a
    function that is not Python code, as in `list(map(tok.show, texts))`, counts as a part of the call of that function.
    """
    import dis
    from inspect import currentframe

    frame = currentframe()
    for _ in range(3):  # to `show` above, to the method, to the user
        frame = None if frame is None else frame.f_back
    if frame is None:
        return False
    instructions = dis.get_instructions(frame.f_code)
    following = next((instruction for instruction in instructions if instruction.offset > frame.f_lasti), None)
    return following is not None and following.opname == "POP_TOP"


def draw_text(tokenizer: Tokenizer, text: TextLike) -> list[DrawnToken]:
    """List the tokens of a text, to be drawn."""
    return draw_tokens(tokenizer, _list_tokens_with_ids(tokenizer, text, ()))


def draw_ids(tokenizer: Tokenizer, ids: Iterable[int]) -> list[DrawnToken]:
    """List tokens by their ids, to be drawn."""
    return draw_tokens(tokenizer, ((tokenizer.spec.vocabulary[token_id], token_id) for token_id in ids))


def draw_tokens(tokenizer: Tokenizer, tokens: Iterable[tuple[bytes, int | None]]) -> list[DrawnToken]:
    """List tokens with their ids and ranks, to be drawn; the id is None for a symbol without one."""
    kinds, find_rank = tokenizer.spec.vocabulary.kinds, tokenizer._merge_tree.find_rank
    return [
        DrawnToken(data) if i is None else DrawnToken(data, i, find_rank(i), bool(kinds[i] == SPECIAL))
        for data, i in tokens
    ]


def draw_card(tokenizer: Tokenizer) -> str:
    """Draw the properties of a tokenizer as HTML."""
    spec, lengths = tokenizer.spec, tokenizer.spec.vocabulary.lengths
    longest = np.argsort(-lengths.astype(np.int64), kind="stable")[:MAX_SHOWN_TOKENS]
    names = [f"{name} ({token_id})" for name, token_id in spec.special_tokens.items()]
    remainder = [f"and {len(names) - MAX_SHOWN_TOKENS} more"] if len(names) > MAX_SHOWN_TOKENS else []
    properties = {
        "model": describe_model(spec),
        "vocabulary": f"{len(spec.vocabulary):,} tokens",
        "merges": describe_merges(spec),
        "special tokens": ", ".join(names[:MAX_SHOWN_TOKENS] + remainder) or "none",
        "pretokenizer": "none" if spec.pretokenizer is None else spec.pretokenizer.name or repr(spec.pretokenizer),
        "normalizer": "none" if spec.normalizer is None else repr(spec.normalizer),
        "longest tokens": Html(format_separately(*(spec.vocabulary[i] for i in longest.tolist() if lengths[i]))),
        "fingerprint": compute_fingerprint(spec)[:12],
    }
    return make_card("bpe.Tokenizer", properties)


def _list_tokens_with_ids(
    tokenizer: Tokenizer, text: TextLike, allowed_special: Allowed
) -> list[tuple[bytes, int | None]]:
    """List the tokens of a text with their ids; None for a symbol without an id."""
    vocabulary, engine = tokenizer.spec.vocabulary, tokenizer._engine
    try:
        ids = tokenizer.encode(text, allowed_special=allowed_special)
    except ValueError:  # a symbol without an id; anything else raises again
        special = {token: token_id for token_id, token in vocabulary.items(SPECIAL)}
        tokens = map(to_bytes, list_tokens(engine, text, engine.specials.resolve_allowed(allowed_special), False))
        return [(token, vocabulary.id_of_token.get(token, special.get(token))) for token in tokens]
    return [(vocabulary[token_id], token_id) for token_id in ids.tolist()]
