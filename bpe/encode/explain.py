"""Encoding step by step, for people: every merge in order. Simple and slow; `engine.py` encodes fast.

`explain` follows one pretoken after another, as text. `list_merge_steps` follows all of a text together, in the order
of ranks, which is the order in which training made the merges.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Any

from bpe.base.spelling import spell_shared_characters, spell_together
from bpe.base.utf8 import TextLike
from bpe.encode.engine import Engine
from bpe.errors import pluralize, short_repr
from bpe.vocab.spec import TokenizerSpec, check_supported
from bpe.vocab.vocabulary import NO_TOKEN

#: What `list_tokens(as_text=True)` puts before a symbol that has no id.
UNKNOWN_MARK = "⁇"
#: The most tokens that `describe_encoding` lists.
_MAX_DESCRIBED_TOKENS = 8


def list_tokens(engine: Engine, text: TextLike, allowed: frozenset[str], as_text: bool) -> list[Any]:
    """List the tokens of a text, as `Tokenizer.tokens` documents them; a symbol without an id is a token of its own."""
    vocabulary = engine.spec.vocabulary
    tokens: list[tuple[bytes, bool]] = []  # a token or a symbol without an id, and which of the two
    merges_across = not engine.ids_are_final
    for item in engine.encode(text, allowed).tolist() if merges_across else engine.iterate_pretokens(text, allowed):
        if isinstance(item, int):
            tokens.append((vocabulary[item], True))
            continue
        ids = engine.encode_pretoken(item)
        symbols_without_id = iter([symbol for symbol, token_id in engine.name_symbols(item) if token_id == NO_TOKEN])
        tokens += [
            (next(symbols_without_id), False) if token_id == NO_TOKEN else (vocabulary[token_id], True)
            for token_id in ids
        ]
    if as_text:
        spellings = spell_shared_characters(token for token, _ in tokens)
        return [UNKNOWN_MARK * (not has_id) + spelling for spelling, (_, has_id) in zip(spellings, tokens, strict=True)]
    return [token.decode() if engine.spec.model == "char" else token for token, _ in tokens]


def describe_encoding(engine: Engine, text: bytes) -> str:
    """Describe the tokens that a text is encoded as, for the error of what is no token; empty if it has no ids."""
    try:
        ids = engine.encode(text, frozenset()).tolist()
    except ValueError:
        return ""
    if not ids:
        return ""
    tokens = ", ".join(f"{short_repr(engine.spec.vocabulary[token_id])} ({token_id})" for token_id in ids)
    listed = f": {tokens}" if len(ids) <= _MAX_DESCRIBED_TOKENS else ""
    return f"; it is encoded as {pluralize(len(ids), 'token')}{listed}"


def explain(engine: Engine, text: TextLike) -> str:
    """Explain each pretoken in a paragraph: its symbols, every merge in order with rank and id, and the ids."""
    if engine.parts.events is None:
        check_supported(engine.spec, "explain", allow_across_words=False)
    items, spec = engine.iterate_pretokens(text, engine.specials.always_names), engine.spec
    events, ranks = engine.parts.events, engine.word_model.ranks
    paragraphs = []
    for item in items:
        if isinstance(item, int):
            paragraphs.append(f"{_quote(spec.vocabulary[item])}\n  special token, id {item}")
        else:
            symbols, ids = engine.name_symbols(item), engine.encode_pretoken(item)
            if events is None:
                steps = _explain_merges(spec, ranks, symbols, ids)
            else:
                steps = chain(events.explain(symbols), [_describe_ids(ids)])
            paragraphs.append("\n".join([_quote(item), *steps]))
    return "\n".join(paragraphs)


def list_merge_steps(engine: Engine, text: TextLike) -> list[tuple[str, list[tuple[bytes, int]]]]:
    """List the tokens of a text before any merge, and after each merge that changes it.

    Returns:
        for each step, its description and the tokens as (bytes, id); NO_TOKEN for a symbol without an id. The tokens of
        the last step are those that encoding gives.

    """
    spec = engine.spec
    check_supported(spec, "show_merges", allow_across_words=False)
    ranks, items = engine.word_model.ranks, list(engine.iterate_pretokens(text, engine.specials.always_names))
    symbols_of_items = [
        [(spec.vocabulary[item], item)] if isinstance(item, int) else engine.name_symbols(item) for item in items
    ]
    final_ids = [[item] if isinstance(item, int) else engine.encode_pretoken(item) for item in items]
    best_merges = [_find_best_merge(symbols, ranks) for symbols in symbols_of_items]
    steps = [("", [symbol for symbols in symbols_of_items for symbol in symbols])]
    while (next_merge := min((merge for merge in best_merges if merge), default=None)) is not None:
        rank, result_id, index = next_merge
        symbols = next(
            symbols for symbols, merge in zip(symbols_of_items, best_merges, strict=True) if merge == next_merge
        )
        left, right = _spell(symbols)[index : index + 2]
        for i, symbols in enumerate(symbols_of_items):
            while (merge := best_merges[i]) is not None and merge[:2] == (rank, result_id):
                symbols[merge[2] : merge[2] + 2] = [(spec.vocabulary[result_id], result_id)]
                best_merges[i] = _find_best_merge(symbols, ranks)
        tokens = [symbol for symbols in symbols_of_items for symbol in symbols]
        steps.append((f"{left} + {right} (rank {rank}, id {result_id})", tokens))
    if [token_id for _, token_id in steps[-1][1]] != [token_id for ids in final_ids for token_id in ids]:
        symbols_without_id = iter([symbol for symbol in steps[-1][1] if symbol[1] == NO_TOKEN])
        final_tokens = [
            next(symbols_without_id, (b"", NO_TOKEN)) if token_id == NO_TOKEN else (spec.vocabulary[token_id], token_id)
            for ids in final_ids
            for token_id in ids
        ]
        steps.append(("words and symbols that become tokens without merges", final_tokens))
    return steps


def _find_best_merge(
    symbols: list[tuple[bytes, int]], ranks: dict[tuple[int, int], tuple[int, int]]
) -> tuple[int, int, int] | None:
    """Find the first merge of the best rank in a pretoken: (rank, result, index); None if there is none."""
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
    symbols: list[tuple[bytes, int]],
    ids: list[int],
) -> Iterator[str]:
    """Yield a line for the symbols of a pretoken, (name, id) each, one for every merge, and one for its ids."""
    tokens = [(name if token_id == NO_TOKEN else spec.vocabulary[token_id], token_id) for name, token_id in symbols]
    names = _spell(tokens)
    yield "  " + " ".join(names)
    if spec.ignore_merges and len(ids) == 1 and len(tokens) > 1:
        yield f"  the whole word is a token, id {ids[0]}"
        return
    while (next_merge := _find_best_merge(tokens, ranks)) is not None:
        rank, result_id, index = next_merge
        left, right = names[index], names[index + 1]
        tokens[index : index + 2] = [(spec.vocabulary[result_id], result_id)]
        names = _spell(tokens)
        yield f"  {left} + {right} -> {names[index]}  (rank {rank}, id {result_id})    {' '.join(names)}"
    yield _describe_ids(ids)


def _describe_ids(ids: list[int]) -> str:
    return "  ids " + " ".join("none" if token_id == NO_TOKEN else str(token_id) for token_id in ids)


def _spell(symbols: list[tuple[bytes, int]]) -> list[str]:
    return spell_together(name for name, _ in symbols)


def _quote(pretoken: bytes) -> str:
    return repr(pretoken.decode("utf-8", "backslashreplace"))
