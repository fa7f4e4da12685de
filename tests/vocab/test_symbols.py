"""The tokens of single symbols: the tables that NumPy fills are those of a loop over all tokens."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.symbols import build_symbol_tables
from bpe.vocab.vocabulary import NO_TOKEN, Vocabulary

#: Symbols of each size in UTF-8, bytes that are none (a tail alone, a surrogate, an overlong form), marks and prefixes.
PIECES = ["a", "é", "日", "😀", "</w>", "##", "$"]
PARTS = [
    *(piece.encode() for piece in PIECES),
    b"\x80",
    b"\xed\xa0\x80",
    b"\xc0\x81",
    b"\xf4\x90\x80\x80",
    b"\xff",
    b"\xe3",
]


def naive_tables(spec: TokenizerSpec, prefixed: bool) -> tuple[dict[int, int], dict[int, int], int]:
    """(code → token inside a word, code → token of its last symbol, token of the mark), one token at a time."""
    mark, prefix = (spec.end_of_word or "").encode(), (spec.subword_prefix or "").encode() if prefixed else b""
    token_ids = [token_id for token_id, _ in spec.vocabulary.items(1)]
    inner: dict[int, int] = {}
    last: dict[int, int] = {}
    own_mark = NO_TOKEN
    for token_id in token_ids:
        token = spec.vocabulary[token_id]
        if mark and token == mark and not spec.end_of_word_glued:
            own_mark = token_id
        if not token.startswith(prefix):
            continue
        symbol = token[len(prefix) :]
        ends = symbol.endswith(mark) if spec.subword_prefix else spec.ends_word is not None and spec.ends_word[token_id]
        if spec.subword_prefix or not ends:
            enter(inner, symbol, token_id, spec.model)
        if ends:
            enter(last, symbol[: len(symbol) - len(mark)], token_id, spec.model)
    return inner, last if spec.end_of_word_glued else inner, own_mark


def enter(table: dict[int, int], symbol: bytes, number: int, model: str) -> None:
    try:
        text = symbol.decode("latin-1" if model == "byte" else "utf-8")
    except UnicodeDecodeError:
        return
    if len(text) == 1:
        table[ord(text)] = number


def as_dict(table: np.ndarray) -> dict[int, int]:
    codes = np.flatnonzero(table != NO_TOKEN)
    return dict(zip(codes.tolist(), table[codes].tolist(), strict=True))


def test_ids_of_numpy_are_found_in_a_vocabulary():
    vocabulary = Vocabulary([(0, b"a"), (2, b"b")])
    for make_id in (int, np.int64, np.uint32, np.uint8):
        assert [make_id(token_id) in vocabulary for token_id in range(4)] == [True, False, True, False]


@given(st.data(), st.sampled_from(["byte", "char"]), st.booleans())
def test_tables_of_symbols(data, model, prefixed):
    tokens = data.draw(
        st.lists(st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map(b"".join), min_size=1, unique=True)
    )
    special = data.draw(st.integers(0, min(2, len(tokens) - 1)))
    entries = list(enumerate(tokens))
    vocabulary = Vocabulary(entries[special:], entries[:special])
    mark = data.draw(st.sampled_from([None, "</w>", "$", "é"]))
    ends = None
    if mark is not None:
        chosen = data.draw(st.randoms())
        ends = np.array([token.endswith(mark.encode()) and chosen.random() < 0.8 for token in tokens])
    spec = TokenizerSpec(
        model,
        vocabulary,
        np.empty((0, 2), dtype=np.int32),
        np.empty(0, dtype=np.int32),
        subword_prefix=data.draw(st.sampled_from([None, "##", "日"])),
        end_of_word=mark,
        end_of_word_glued=mark is not None and data.draw(st.booleans()),
        ends_word=ends,
    )
    inner, last, own_mark = build_symbol_tables(spec, prefixed=prefixed)
    assert (as_dict(inner), as_dict(last), own_mark) == naive_tables(spec, prefixed)
    assert len(inner) == len(last) >= (256 if model == "byte" else 1)
