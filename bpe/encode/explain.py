"""Encoding step by step, for people: every merge in order. Simple and slow; `engine.py` encodes fast.

`explain` follows one pretoken after another, as text. `merge_steps` follows all of a text together, in the order
of ranks, which is the order in which training made the merges.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Any

from bpe.base.spelling import spell_together
from bpe.base.utf8 import TextLike
from bpe.encode.engine import Engine
from bpe.vocab.spec import TokenizerSpec, check_defined
from bpe.vocab.vocabulary import NO_TOKEN

#: What `list_tokens(as_text=True)` puts before a symbol that has no id.
UNKNOWN = "⁇"


def list_tokens(engine: Engine, text: TextLike, allowed: frozenset[str], as_text: bool) -> list[Any]:
    """The tokens of a text, as `Tokenizer.tokens` documents them; a symbol without an id is a token of its own."""
    vocabulary = engine.spec.vocabulary
    found: list[tuple[bytes, bool]] = []  # a token or a symbol without an id, and which of the two
    across = engine.model.across_words is not None
    for piece in engine.encode(text, allowed).tolist() if across else engine.pretokens_and_specials(text, allowed):
        if isinstance(piece, int):
            found.append((vocabulary[piece], True))
            continue
        ids = engine.encode_pretoken(piece)
        unnamed = iter([symbol for symbol, token_id in engine.name_symbols(piece) if token_id == NO_TOKEN])
        found += [(next(unnamed), False) if token_id == NO_TOKEN else (vocabulary[token_id], True) for token_id in ids]
    if as_text:
        return [
            token.decode("utf-8", "replace") if known else UNKNOWN + token.decode("utf-8", "backslashreplace")
            for token, known in found
        ]
    return [token.decode() if engine.spec.model == "char" else token for token, _ in found]


def explain(engine: Engine, text: TextLike) -> str:
    """A paragraph for each pretoken: its symbols, every merge in order with rank and id, and the ids."""
    if engine.model.events is None:
        check_defined(engine.spec, "explain", across_words=False)
    pieces, spec = engine.pretokens_and_specials(text, engine.specials.always), engine.spec
    events, ranks = engine.model.events, engine.words.ranks
    paragraphs = []
    for piece in pieces:
        if isinstance(piece, int):
            paragraphs.append(f"{_quote(spec.vocabulary[piece])}\n  special token, id {piece}")
        else:
            symbols, final = engine.name_symbols(piece), engine.encode_pretoken(piece)
            if events is None:
                steps = _explain_merges(spec, ranks, symbols, final)
            else:
                steps = chain(events.explain(symbols), [_describe_ids(final)])
            paragraphs.append("\n".join([_quote(piece), *steps]))
    return "\n".join(paragraphs)


def merge_steps(engine: Engine, text: TextLike) -> list[tuple[str, list[tuple[bytes, int]]]]:
    """The tokens of a text before any merge, and after each merge that changes it.

    Returns:
        for each step, its description and the tokens as (bytes, id); NO_TOKEN for a symbol without an id. The tokens of
        the last step are those that encoding gives.

    """
    spec = engine.spec
    check_defined(spec, "show_merges", across_words=False)
    ranks, whole = engine.words.ranks, list(engine.pretokens_and_specials(text, engine.specials.always))
    state = [
        [(spec.vocabulary[piece], piece)] if isinstance(piece, int) else engine.name_symbols(piece) for piece in whole
    ]
    final = [[piece] if isinstance(piece, int) else engine.encode_pretoken(piece) for piece in whole]
    best = [_find_best_merge(symbols, ranks) for symbols in state]
    steps = [("", [symbol for symbols in state for symbol in symbols])]
    while (found := min((merge for merge in best if merge), default=None)) is not None:
        rank, token, index = found
        symbols = next(symbols for symbols, merge in zip(state, best, strict=True) if merge == found)
        left, right = _spell(symbols)[index : index + 2]
        for i, symbols in enumerate(state):
            while (merge := best[i]) is not None and merge[:2] == (rank, token):
                symbols[merge[2] : merge[2] + 2] = [(spec.vocabulary[token], token)]
                best[i] = _find_best_merge(symbols, ranks)
        made = [symbol for symbols in state for symbol in symbols]
        steps.append((f"{left} + {right} (rank {rank}, id {token})", made))
    if [number for _, number in steps[-1][1]] != [number for ids in final for number in ids]:
        unnamed = iter([symbol for symbol in steps[-1][1] if symbol[1] == NO_TOKEN])
        known = [
            next(unnamed, (b"", NO_TOKEN)) if number == NO_TOKEN else (spec.vocabulary[number], number)
            for ids in final
            for number in ids
        ]
        steps.append(("words and symbols that become tokens without merges", known))
    return steps


def _find_best_merge(
    symbols: list[tuple[bytes, int]], ranks: dict[tuple[int, int], tuple[int, int]]
) -> tuple[int, int, int] | None:
    """The first merge of the best rank in a pretoken: its rank, its result and its index; None if there is none."""
    return min(
        (
            (*ranks[left[1], right[1]], index)
            for index, (left, right) in enumerate(pairwise(symbols))
            if (left[1], right[1]) in ranks
        ),
        key=lambda merge: (merge[0], merge[2]),
        default=None,
    )


def _explain_merges(
    spec: TokenizerSpec,
    ranks: dict[tuple[int, int], tuple[int, int]],
    named: list[tuple[bytes, int]],
    final: list[int],
) -> Iterator[str]:
    """A line for the symbols of a pretoken, (name, id) each, one for every merge, and one for its ids."""
    symbols = [(token if number == NO_TOKEN else spec.vocabulary[number], number) for token, number in named]
    spelled = _spell(symbols)
    yield "  " + " ".join(spelled)
    if spec.ignore_merges and len(final) == 1 and len(symbols) > 1:
        yield f"  the whole word is a token, id {final[0]}"
        return
    while (found := _find_best_merge(symbols, ranks)) is not None:
        rank, token, index = found
        left, right = spelled[index], spelled[index + 1]
        symbols[index : index + 2] = [(spec.vocabulary[token], token)]
        spelled = _spell(symbols)
        yield f"  {left} + {right} -> {spelled[index]}  (rank {rank}, id {token})    {' '.join(spelled)}"
    yield _describe_ids(final)


def _describe_ids(ids: list[int]) -> str:
    return "  ids " + " ".join("none" if token_id == NO_TOKEN else str(token_id) for token_id in ids)


def _spell(symbols: list[tuple[bytes, int]]) -> list[str]:
    return spell_together(token for token, _ in symbols)


def _quote(piece: bytes) -> str:
    return repr(piece.decode("utf-8", "backslashreplace"))
