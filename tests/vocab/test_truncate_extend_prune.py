"""Truncating, extending and pruning vocabularies, compared with training, naive twins and all short words."""

from __future__ import annotations

import base64
import json
import pickle
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from generated import make_file, make_token
from hypothesis import given
from hypothesis import strategies as st
from options import from_reference_options
from peers import Peer
from strategies import TIE_BREAKS, corpora, each_tie_break, examples
from written import read_spelling

import bpe
from bpe.formats import huggingface
from bpe.vocab.spec import TokenizerSpec, text_can_spell_mark
from bpe.vocab.symbols import BYTE_NAMES, find_word_symbols
from bpe.vocab.vocabulary import SPECIAL, Vocabulary

pytestmark = pytest.mark.usefixtures("quiet")
tiktoken = Peer("tiktoken")
KINDS: dict[str, dict[str, Any]] = {
    "byte": {},
    "specials": {"special_tokens": ["<s>", "aa"], "first_id": 5, "unk_token": "<unk>", "initial_alphabet": "corpus"},
    "char": {"model": "char"},
    "unk": {"model": "char", "unk_token": "<unk>", "special_tokens": ["<s>"], "limit_alphabet": 2},
    "mark": {"model": "char", "end_of_word": "</w>", "special_tokens": ["<s>"]},
    "glued": {"model": "char", "end_of_word": "_", "end_of_word_glued": True, "first_id": 1},
    "byte mark": {"end_of_word": "</w>", "initial_alphabet": "corpus"},
    "byte glued": {"end_of_word": "</w>", "end_of_word_glued": True, "initial_alphabet": "corpus"},
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def trained(words: dict[str, int], kind: str, **options: Any) -> bpe.Tokenizer:
    return bpe.train(counts=words, pretokenizer=None, **from_reference_options(**KINDS[kind], **options))


# Truncating and extending ---------------------------------------------------------------------------------------------


@examples(4)
@given(words=corpora(), most=st.integers(0, 40), more=st.integers(0, 40))
def test_truncating_and_extending_equal_training(words: dict[str, int], most: int, more: int) -> None:
    """Truncating gives the same tokenizer as training to that size, and extending gives the larger one again."""
    for tie_break in each_tie_break():
        check_sizes("byte", tie_break, words, most, more)


@each_kind
@examples(3)
@given(words=corpora(), most=st.integers(0, 40), more=st.integers(0, 40), tie_break=st.sampled_from(TIE_BREAKS))
def test_truncating_and_extending_equal_training_for_every_model(
    kind: str, tie_break: str, words: dict[str, int], most: int, more: int
) -> None:
    check_sizes(kind, tie_break, words, most, more)


def check_sizes(kind: str, tie_break: str, words: dict[str, int], most: int, more: int) -> None:
    """Truncate to no merges, to all of them, and to a number between; extend each again."""
    whole = trained(words, kind, num_merges=most, tie_break=tie_break)
    base = trained(words, kind, num_merges=0).vocab_size
    straight = trained(words, kind, vocab_size=max(whole.vocab_size, base), tie_break=tie_break)
    between = base + more % (straight.vocab_size - base + 1)
    for size in {base, between, straight.vocab_size}:
        smaller = trained(words, kind, vocab_size=size, tie_break=tie_break)
        truncated = straight.truncate_vocab(size)[0]
        assert truncated == smaller
        assert whole == straight or whole.truncate_vocab(size)[0] == smaller
        assert bpe.extend(truncated, words, straight.vocab_size, rules=bpe.MergeRules(tie_break=tie_break)) == straight
        assert (
            size != between or bpe.extend(truncated, words, size, rules=bpe.MergeRules(tie_break=tie_break)) == smaller
        )


@examples(7)
@given(words=corpora(), others=corpora(), most=st.integers(0, 20), more=st.integers(0, 20), longest=st.integers(1, 8))
def test_extending_with_other_counts_equals_the_naive_trainer(
    words: dict[str, int], others: dict[str, int], most: int, more: int, longest: int
) -> None:
    """Old ids and merges stay; the naive trainer makes the same new merges of the words as the old ones split them."""
    for tie_break in each_tie_break():
        check_extending(tie_break, words, others, most, more, longest)


def check_extending(
    tie_break: str, words: dict[str, int], others: dict[str, int], most: int, more: int, longest: int
) -> None:
    tok = bpe.train(
        counts=words,
        num_merges=most,
        alphabet=bpe.Alphabet(first_id=2),
        special_tokens=["<s>"],
        rules=bpe.MergeRules(tie_break=tie_break),
    )
    vocab, old = tok.vocab(), tok.merges.tolist()
    merged_ids = tok.spec.merge_results.tolist()
    seen: list[Any] = []
    longer = bpe.extend(
        tok,
        others,
        tok.vocab_size + more,
        min_frequency=2,
        on_merge=lambda *each: seen.append(each),
        rules=bpe.MergeRules(tie_break=tie_break, max_token_length=longest),
    )
    assert vocab.items() <= longer.vocab().items()
    assert longer.merges[: len(old)].tolist() == old
    assert longer.special_tokens == tok.special_tokens
    if len(set(merged_ids)) < len(merged_ids):
        return  # two merges make the same token, and then the naive trainer breaks ties differently
    split = {}
    for word, count in others.items():
        symbols = reference.byte_word(word.encode())
        for left, right in old:
            symbols = reference.merge_all(symbols, tok.token_bytes(left), tok.token_bytes(right))
        split[symbols] = count
    expected = reference.train(
        split,
        vocab_size=tok.vocab_size + more,
        tie_break=tie_break,
        alphabet=[token for token in vocab if token != b"<s>"],
        specials=[b"<s>"],
        first_id=2,
        max_token_length=longest,
        min_frequency=2,
    )
    assert longer.vocab() == expected.ids
    assert seen == [
        (token_id, step.left, step.right, step.left + step.right, step.count)
        for token_id, step in enumerate(expected.steps, 1)
    ]


def test_extending_a_vocabulary_that_was_not_trained_here() -> None:
    """Ids with gaps, special tokens with higher ids, a token that no merge makes, symbols that the tokenizer lacks."""
    spec = TokenizerSpec(
        model="char",
        vocabulary=Vocabulary([(3, b"b"), (7, b"a"), (9, b"ab"), (10, b"xyz")], [(20, b"<s>")]),
        merges=np.array([[7, 3]], dtype=np.int32),
        merge_results=np.array([9], dtype=np.int32),
        special_tokens={"<s>": 20},
        pretokenizer=bpe.Pretokenizer("whitespace"),
    )
    longer = bpe.extend(bpe.Tokenizer(spec), {"abab": 5, "abc": 3, "cab": 3}, 7)
    assert longer.vocab() == {"b": 3, "a": 7, "ab": 9, "xyz": 10, "<s>": 20, "abab": 21}
    assert longer.merges.tolist() == [[7, 3], [9, 9]]
    assert longer.spec.training is not None
    assert (longer.spec.training.stopped, longer.spec.training.merges) == ("no pairs left", 1)


@st.composite
def any_tokenizers(draw: st.DrawFn) -> bpe.Tokenizer:
    """A tokenizer that training cannot produce: merges in any order, several for one token, tokens without a merge."""
    suffix = draw(st.sampled_from([None, None, "b", "bb"]))
    random_ = draw(st.randoms(use_true_random=False))
    tokens = ["a", "b", "c"]
    marked = [False] * 3
    if suffix is not None:
        tokens += [letter + suffix for letter in "abc"]
        marked += [True] * 3
    merges: list[tuple[int, int, int]] = []
    for _ in range(random_.randint(0, 8)):
        left, right = random_.randrange(len(tokens)), random_.randrange(len(tokens))
        joined = tokens[left] + tokens[right]
        if marked[left] or any(pair == (left, right) for *pair, _ in merges):
            continue
        if joined not in tokens:
            tokens.append(joined)
            marked.append(marked[right])
        merges.append((left, right, tokens.index(joined)))
    for joined in ("abc", "bca", "aab"):
        if random_.random() < 0.3 and joined not in tokens:
            tokens.append(joined)  # no merge makes it
            marked.append(False)
    random_.shuffle(merges)
    pairs = np.array([merge[:2] for merge in merges], dtype=np.int32).reshape(-1, 2)
    ranks = np.sort(np.array([random_.randrange(4) for _ in merges], dtype=np.int32))
    shared = random_.random() < 0.3 and all(a[2] == b[2] for a, b in product(merges, merges))
    spec = TokenizerSpec(
        model="char",
        vocabulary=Vocabulary((token_id, token.encode()) for token_id, token in enumerate(tokens)),
        merges=pairs,
        merge_results=np.array([merge[2] for merge in merges], dtype=np.int32),
        merge_ranks=ranks if shared else None,
        end_of_word=suffix,
        end_of_word_glued=suffix is not None,
        ends_word=None if suffix is None else np.array(marked),
        ignore_merges=suffix is None and random_.random() < 0.4,
    )
    return bpe.Tokenizer(spec)


def plain_merge(ids: list[int], left: int, right: int, token: int) -> list[int]:
    merged: list[int] = []
    for token_id in ids:
        if merged and (merged[-1], token_id) == (left, right):
            merged[-1] = token
        else:
            merged.append(token_id)
    return merged


def plain_best(rows: list[list[int]], counts: list[int], refused: set[tuple[int, int]]) -> Any:
    """(count, pair) of the most frequent pair, of equal ones the smallest ids; None if no pair is left."""
    pairs: dict[tuple[int, int], int] = {}
    for ids, count in zip(rows, counts, strict=True):
        for pair in pairwise(ids):
            pairs[pair] = pairs.get(pair, 0) + count
    return min(((-count, pair) for pair, count in pairs.items() if pair not in refused), default=None)


@examples(11)
@given(tok=any_tokenizers(), words=st.dictionaries(st.text("abc", min_size=1, max_size=9), st.integers(1, 9)))
def test_extending_merges_the_ids_that_encoding_gives(tok: bpe.Tokenizer, words: dict[str, int]) -> None:
    """Every new merge is of the most frequent pair of adjacent ids, and the longer tokenizer encodes accordingly."""
    steps: list[Any] = []
    if not words or text_can_spell_mark(tok.spec):
        return
    longer = bpe.extend(tok, words, tok.vocab_size + 6, on_merge=lambda *each: steps.append(each))
    old, spec = len(tok.merges), longer.spec
    assert spec.merges[:old].tolist() == tok.merges.tolist()
    rows, counts = [tok.encode(word).tolist() for word in words], list(words.values())
    merged_ids = {
        *spec.merge_results[:old].tolist(),
        *(token_id for token_id, token in spec.vocabulary.items() if len(token) == 1),
    }
    if tok.spec.end_of_word is not None:
        merged_ids |= set(range(6))
    merged_ids |= set(tok.merges.ravel().tolist())  # old merges use these tokens
    merged_ids |= {token_id for row in rows if len(row) > 1 for token_id in row}
    for step, (pair, token) in enumerate(
        zip(spec.merges[old:].tolist(), spec.merge_results[old:].tolist(), strict=True)
    ):
        taken = {tok.spec.vocabulary[token_id] for token_id in merged_ids if token_id < tok.spec.vocabulary.limit}
        # A token with the end-of-word mark and one without it are two tokens.
        marked = spec.ends_word if spec.ends_word is not None else np.zeros(spec.vocabulary.limit, dtype=np.bool_)
        ends = {spec.vocabulary[token_id]: bool(marked[token_id]) for token_id in range(tok.vocab_size)}
        refused = set()
        for left, right in {pair for row in rows for pair in pairwise(row)}:
            spelled = spec.vocabulary[left] + spec.vocabulary[right]
            if spelled in taken or ends.get(spelled, marked[right]) != marked[right]:
                refused.add((left, right))
        best = plain_best(rows, counts, refused)
        assert (tuple(pair), steps[step][4]) == (best[1], -best[0])
        rows = [plain_merge(row, *pair, token) for row in rows]
        merged_ids.add(token)
    assert [longer.encode(word).tolist() for word in words] == rows


def test_extending_a_token_that_is_a_symbol_and_a_merge() -> None:
    """With a glued suffix, a symbol and a merge may have the same token."""
    n = 60
    suffix = "b" * n
    tokens = ["a", "b", *("a" + "b" * k for k in range(1, n + 1))]
    spec = TokenizerSpec(
        model="char",
        vocabulary=Vocabulary((token_id, token.encode()) for token_id, token in enumerate(tokens)),
        merges=np.array([[0, 1], *([k + 1, 1] for k in range(1, n))], dtype=np.int32),
        merge_results=np.arange(2, n + 2, dtype=np.int32),
        end_of_word=suffix,
        end_of_word_glued=True,
        ends_word=np.array([False] * (n + 1) + [True]),
    )
    tok = bpe.Tokenizer(spec)
    words = {"a" + "b" * n + "a": 5, "a" * 40: 4, "ba": 3}
    with pytest.raises(ValueError, match="stand both for the mark at a word's end and for"):
        bpe.extend(tok, words, tok.vocab_size + 9)


@pytest.mark.parametrize("ignore_merges", [False, True])
def test_extending_merges_out_of_order_or_ignored(ignore_merges: bool) -> None:
    """The corpus is encoded as the tokenizer does: `abcx` gives abc x, and with ignore_merges ab c x."""
    merges = [[0, 1]] if ignore_merges else [[4, 2], [0, 1]]
    spec = TokenizerSpec(
        model="char",
        vocabulary=Vocabulary(enumerate([b"a", b"b", b"c", b"x", b"ab", b"abc"])),
        merges=np.array(merges, dtype=np.int32),
        merge_results=np.array([4] if ignore_merges else [5, 4], dtype=np.int32),
        ignore_merges=ignore_merges,
    )
    longer = bpe.extend(bpe.Tokenizer(spec), {"abc": 10, "abcx": 10, "x": 3}, 7)
    assert longer.tokens("abc") == ["abc"]
    assert longer.tokens("abcx") == (["ab", "cx"] if ignore_merges else ["abcx"])


def test_extending_with_ignore_merges_and_a_mark_is_refused() -> None:
    spec = bpe.train(counts={"ab": 1}, model="char", num_merges=1, end_of_word="_", end_of_word_glued=True).spec
    tok = bpe.Tokenizer(replace(spec, ignore_merges=True))
    with pytest.raises(ValueError, match=r"has ignore_merges and the end-of-word mark '_'.*cannot be extended"):
        bpe.extend(tok, {"ab": 1}, 9)


def test_invalid_arguments_of_extend_are_refused() -> None:
    tok = bpe.train(counts={"ab": 1}, num_merges=1)
    with pytest.raises(ValueError, match=r"made with pretokenizer=.*cl100k.*count_words\(..., pretokenizer=tok.pretok"):
        bpe.extend(tok, bpe.WordCounts("cl100k"), 300)
    with pytest.raises(ValueError, match=r"made with normalizer=.*NFC.*but the tokenizer has None"):
        bpe.extend(tok, bpe.WordCounts("gpt2", bpe.normalizers.NFC()), 300)
    with pytest.raises(ValueError, match=r"vocab_size is 256, but the tokenizer has 257 tokens; .* tok.truncate_vocab"):
        bpe.extend(tok, {"a": 1}, 256)
    with pytest.raises(ValueError, match="it must be from 1 to 2147483648"):
        bpe.extend(tok, {"a": 1}, 2**31 + 1)
    later = bpe.train(counts={"ab": 1}, num_merges=1, alphabet=bpe.Alphabet(first_id=9))
    with pytest.raises(ValueError, match="it must be at most 2147483639, since ids are below 2147483648"):
        bpe.extend(later, {"a": 1}, 2**31)
    with pytest.raises(ValueError, match="no words"):
        bpe.extend(tok, {}, 300)
    with pytest.raises(TypeError, match=r"must be a bpe.Tokenizer"):
        bpe.extend(tok.spec, {"a": 1}, 300)  # type: ignore[arg-type]


def test_truncating_to_an_impossible_size_is_refused() -> None:
    tok = bpe.train(counts={"aab": 3}, num_merges=2, special_tokens=["<s>"])
    assert tok.truncate_vocab(259)[0] == tok
    assert tok.truncate_vocab(257)[0].merges.shape == (0, 2)
    with pytest.raises(ValueError, match=r"vocab_size is 260, but the tokenizer has 259 tokens; bpe.extend makes a v"):
        tok.truncate_vocab(260)
    with pytest.raises(
        ValueError, match=r"vocab_size is 256, but 257 tokens .* cannot be removed; it must be at least 257"
    ):
        tok.truncate_vocab(256)
    with pytest.raises(TypeError, match="vocab_size is '9'"):
        tok.truncate_vocab("9")  # type: ignore[arg-type]


# Pruning --------------------------------------------------------------------------------------------------------------


def plain_prune(tok: bpe.Tokenizer, ids: set[int]) -> tuple[set[int], list[tuple[int, int, int]]]:
    """The ids and merges that remain, by the documented rule."""
    merges = [(a, b, c) for (a, b), c in zip(tok.merges.tolist(), tok.spec.merge_results.tolist(), strict=True)]
    makable = {c for _, _, c in merges}
    gone = set(ids)
    while True:
        merges = [merge for merge in merges if not gone & set(merge)]
        more = {c for c in makable - gone if not any(c == merged_ids for _, _, merged_ids in merges)}
        if not more:
            return set(tok.vocab().values()) - gone, merges
        gone |= more


@each_kind
@examples(4)
@given(words=corpora(), most=st.integers(0, 30), data=st.data())
def test_prune_equals_the_naive_prune(kind: str, words: dict[str, int], most: int, data: st.DataObject) -> None:
    tok = trained(words, kind, num_merges=most)
    mark = tok.spec.end_of_word is not None and not tok.spec.end_of_word_glued
    fixed = {tok.token_id(tok.spec.end_of_word)} if mark else set()
    token_ids = [token_id for token_id in tok.vocab().values() if token_id not in fixed]
    ids = data.draw(st.lists(st.sampled_from(token_ids), max_size=4)) if token_ids else []
    smaller, remap = tok.without_tokens(ids)
    kept, merges = plain_prune(tok, set(ids))
    first = min(tok.vocab().values())
    assert remap.dtype == np.int32
    assert remap.tolist() == [
        first + sorted(kept).index(token_id) if token_id in kept else -1
        for token_id in range(max(tok.vocab().values()) + 1)
    ]
    assert smaller.vocab() == {token: remap[token_id] for token, token_id in tok.vocab().items() if token_id in kept}
    assert smaller.merges.tolist() == [[remap[a], remap[b]] for a, b, _ in merges]
    assert smaller.spec.merge_results.tolist() == [remap[c] for _, _, c in merges]
    assert smaller.special_tokens == {
        name: remap[token_id] for name, token_id in tok.special_tokens.items() if token_id in kept
    }
    lost = {tuple(pair) for pair in tok.merges.tolist()} - {(a, b) for a, b, _ in merges}
    for word in words:
        if not lost & merged_in(tok, word):
            before = tok.encode(word).tolist()
            if set(before) <= kept:
                assert smaller.encode(word).tolist() == remap[before].tolist()


def merged_in(tok: bpe.Tokenizer, word: str) -> set[tuple[int, int]]:
    """The pairs that are merged when a word is encoded."""
    token_ids = {
        token if isinstance(token, bytes) else token.encode(): token_id for token, token_id in tok.vocab().items()
    }
    steps = [line.split() for line in tok.explain(word).splitlines() if " -> " in line]
    pairs = [read_spelling(f"{left}|{right}", shared=True) for left, _, right, *_ in steps]
    return {(token_ids[left], token_ids[right]) for left, right in pairs}


def test_pruned_rank_files_keep_tokens_that_no_merge_makes(tmp_path: Path) -> None:
    """A pretoken that equals such a token encodes to it, whatever its id after pruning."""
    tokens = [*(bytes([byte]) for byte in range(256)), b"ab", b"xyz", b"cd"]
    path = tmp_path / "ranks.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens)))
    tok = bpe.Tokenizer.from_tiktoken(path, "gpt2", {"<e>": 300})
    assert tok.encode("xyz").tolist() == [257]
    smaller, remap = tok.without_tokens([256])
    assert smaller.encode("xyz").tolist() == [remap[257]] == [256]
    assert smaller.encode("abcd").tolist() == [97, 98, 257]
    assert tok.without_tokens([257])[0].encode("xyzcd").tolist() == [120, 121, 122, 257]
    assert tok.truncate_vocab(259)[0].encode("xyz").tolist() == [257]


def test_prune_names_the_ids_that_it_refuses() -> None:
    tok = bpe.train(counts={"aab": 3}, num_merges=2, end_of_word="</w>", special_tokens=["<s>"], unk_token="<?>")
    with pytest.raises(ValueError, match="is the end-of-word mark, which ends every word; leave it out"):
        tok.without_tokens([tok.token_id("</w>")])
    with pytest.raises(ValueError, match="id 9999 is no token of this vocabulary, which has 261 tokens"):
        tok.without_tokens(np.array([9999]))
    with pytest.raises(ValueError, match=r"'a' is no special or added token; the names to choose from are \['<s>'\]"):
        tok.without_tokens(["a"])
    with pytest.raises(TypeError, match="id is b'a'"):
        tok.without_tokens([b"a"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="tokens is 5, an int; it must be a list or an array"):
        tok.without_tokens(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="id is -1"):
        tok.without_tokens([-1])
    smaller, remap = tok.without_tokens([0, 1])
    assert smaller.special_tokens == {}
    assert smaller.spec.unk_token is None
    assert remap[:3].tolist() == [-1, -1, 0]
    same, remap = tok.without_tokens([])
    assert same == tok
    assert remap.tolist() == list(range(261))


def read_merged_special_tokens(special: str, **flags: bool) -> bpe.Tokenizer:
    """A tokenizer.json whose merges make `ab`, `abc`, `cd`, of which one is an added token, too, and `x y`."""
    vocab = {token: index for index, token in enumerate(["a", "b", "c", "d", "x", " ", "y", "ab", "abc", "cd"])}
    added = [make_token(special, id=vocab[special], **flags), make_token("x y", id=len(vocab), special=False, **flags)]
    merges = [["a", "b"], ["ab", "c"], ["c", "d"]]
    model = {"unk_token": None, "byte_fallback": False}
    file = make_file(vocab, merges, added, model, pre_tokenizer=None, decoder=None)
    return bpe.Tokenizer(huggingface.read(json.dumps(file).encode()))


def test_what_a_special_token_is_merged_of_stays() -> None:
    tok = read_merged_special_tokens("abc")
    for shrink in (bpe.prune, bpe.research.adapt):
        smaller, new_ids = shrink(tok, 10, texts=["abcd"])
        assert (smaller.vocab_size, new_ids[7:].tolist()) == (10, [7, 8, -1, 9])
        assert smaller.encode("abcd").tolist() == [8, 3]
        with pytest.raises(ValueError, match=r"but 10 tokens .* cannot be removed; it must be at least 10"):
            shrink(tok, 9, texts=["abcd"])


@pytest.mark.parametrize("special", ["cd", "abc"])
def test_a_special_token_that_is_merged_no_longer_is_special_alone(special: str) -> None:
    tok = read_merged_special_tokens(special)
    smaller, _ = tok.without_tokens([2])
    assert smaller.special_tokens[special] in dict(smaller.spec.vocabulary.items(SPECIAL))
    assert bpe.Tokenizer(huggingface.read(huggingface.write(smaller.spec))) == smaller
    assert smaller.encode(special, allowed_special="all").tolist() == [smaller.special_tokens[special]]


def test_a_decoder_that_is_the_usual_one_without_a_token_is_dropped() -> None:
    """ByteLevel reads the name of `é` as a byte, so that it is not the decoder of a tokenizer that has none."""
    tok = bpe.train(counts={"ab": 2}, num_merges=1, special_tokens=["<s>"]).with_tokens(special=["é"])
    file = json.loads(huggingface.write(tok.spec))
    del file["decoder"]["native"]
    tok = bpe.Tokenizer(huggingface.read(json.dumps(file).encode()))
    assert tok.spec.decoder is not None
    smaller, _ = tok.without_tokens(["é"])
    assert smaller == bpe.train(counts={"ab": 2}, num_merges=1, special_tokens=["<s>"])


def test_flags_that_have_no_effect_any_more_are_dropped() -> None:
    """Without a normalizer, "normalized" matters only beside other tokens that are sought first."""
    tok = read_merged_special_tokens("cd").with_tokens(special=["y "], added=["z"])
    assert tok.spec.token_flags["z"] == {"normalized", "ordinary"}
    for smaller in (tok.without_tokens(["x y", "y "])[0], tok.without_tokens([10, 11])[0]):
        assert smaller.spec.token_flags == {"z": {"ordinary"}}
        assert bpe.Tokenizer(huggingface.read(huggingface.write(smaller.spec))) == smaller


def test_prune_and_truncate_a_rank_file() -> None:
    """Special tokens above a gap, as in tiktoken's vocabularies."""
    words = {"lower": 5, "lowest": 3, "newest": 6}
    merged_ids = bpe.train(counts=words, num_merges=12, alphabet=bpe.Alphabet(initial=range(256)))
    spec = TokenizerSpec(
        model="byte",
        vocabulary=Vocabulary(
            ((token_id, token) for token, token_id in merged_ids.vocab().items()), [(300, b"<|end|>")]
        ),
        merges=merged_ids.merges,
        merge_results=merged_ids.spec.merge_results,
        special_tokens={"<|end|>": 300},
        pretokenizer=merged_ids.pretokenizer,
        ignore_merges=True,
    )
    tok = bpe.Tokenizer(spec)
    smaller, new_ids = tok.truncate_vocab(256 + 5 + 1, renumber=False)
    assert new_ids.tolist() == [*range(261), *[-1] * 39, 300]
    assert smaller.special_tokens == {"<|end|>": 300}
    assert [smaller.token_bytes(token_id) for token_id in range(256, 261)] == [
        merged_ids.token_bytes(token_id) for token_id in range(256, 261)
    ]
    assert smaller.merges.tolist() == merged_ids.merges[:5].tolist()
    dense, remap = smaller.without_tokens([])
    assert dense.special_tokens == {"<|end|>": 261}
    assert (remap[300], remap[261]) == (261, -1)
    truncated, new_ids = tok.truncate_vocab(256 + 5 + 1)
    assert truncated == dense
    assert new_ids.tolist() == [*range(261), *[-1] * 39, 261]
    plain, new_ids = tok.without_tokens(["<|end|>", 264])
    assert plain.encode("low<|end|>").tolist() == tok.without_tokens([264, 300])[0].encode("low<|end|>").tolist()
    assert (new_ids[264], new_ids[300], plain.special_tokens) == (-1, -1, {})


@each_kind
def test_saved_and_loaded(kind: str, tmp_path: Path) -> None:
    tok = trained({"elever": 5, "eleven": 3, "level": 6}, kind, num_merges=5)
    for token_id, each in enumerate(
        (
            tok.truncate_vocab(tok.vocab_size - 1)[0],
            tok.without_tokens([tok.token_id("e")])[0],
            bpe.extend(tok, {"lel": 2}, 400),
        )
    ):
        each.save(tmp_path / f"{token_id}.json")
        assert bpe.Tokenizer.load(tmp_path / f"{token_id}.json") == each
        assert pickle.loads(pickle.dumps(each)) == each


# Unreachable tokens ---------------------------------------------------------------------------------------------------


@st.composite
def vocabularies(draw: st.DrawFn) -> TokenizerSpec:
    """Small vocabularies with merges in any order, several for one token, and merges that are never used."""
    glued = draw(st.sampled_from([None, False, True]))
    mark = "" if glued is None else "_"
    letters = "ab" if glued is None else draw(st.sampled_from(["a", "ab"]))
    inner = [(letter, False) for letter in letters]
    tokens = inner + (
        [("_", True)] if glued is False else [(letter + "_", True) for letter in letters] if glued else []
    )
    merges: list[tuple[int, int, int]] = []
    for _ in range(draw(st.integers(0, 6))):
        left = draw(st.sampled_from([i for i, (_, ends) in enumerate(tokens) if not ends]))
        right = draw(st.integers(0, len(tokens) - 1))
        text, ends = tokens[left][0] + tokens[right][0], tokens[right][1]
        if len(text.rstrip("_")) > (4 if letters == "a" else 3) or (left, right) in [merge[:2] for merge in merges]:
            continue
        if (text, ends) not in tokens:
            tokens.append((text, ends))
        merges.append((left, right, tokens.index((text, ends))))
    if draw(st.booleans()):
        tokens.append(("bb" if ("bb", False) not in tokens else "baba", False))
        if len({text for text, _ in tokens}) < len(tokens):
            tokens.pop()
    merges = draw(st.permutations(merges))
    unk = draw(st.booleans())
    limit = len(tokens) + unk
    return TokenizerSpec(
        model="char",
        vocabulary=Vocabulary(
            ((token_id, text.encode()) for token_id, (text, _) in enumerate(tokens)),
            [(len(tokens), b"?")] if unk else [],
        ),
        merges=np.array([merge[:2] for merge in merges], dtype=np.int32).reshape(-1, 2),
        merge_results=np.array([merge[2] for merge in merges], dtype=np.int32),
        unk_token="?" if unk else None,
        end_of_word=mark or None,
        end_of_word_glued=bool(glued),
        ends_word=np.array([*(ends for _, ends in tokens), *([False] * unk)])[:limit] if mark else None,
    )


@examples(7)
@given(spec=vocabularies())
def test_unreachable_tokens_are_those_that_no_word_encodes_to(spec: TokenizerSpec) -> None:
    """Encodes every word of one letter up to 20 long, of two up to 10, and of two and one unknown up to 7."""
    tok = bpe.Tokenizer(spec)
    letters = sorted({letter for token in tok.vocab() for letter in token if letter in "ab"})
    letters += ["z"] if tok.spec.unk_token else []
    seen: set[int] = set()
    for length in range(1, {1: 21, 2: 11, 3: 8}[len(letters)]):
        for word in product(letters, repeat=length):
            with suppress(ValueError):  # raised for an unknown letter at the end of a word
                seen.update(tok.encode("".join(word)).tolist())
    assert tok.unreachable().tolist() == sorted(set(tok.vocab().values()) - seen)


def test_unreachable_special_and_unknown_tokens() -> None:
    words = {"low": 5, "lowest": 2}
    tok = bpe.train(counts=words, num_merges=5, special_tokens=["<s>"], unk_token="<unk>")
    assert tok.unreachable().tolist() == [1]
    assert tok.unreachable().dtype == np.int64
    assert bpe.train(counts=words, num_merges=5, model="char", unk_token="<unk>").unreachable().tolist() == []
    some = bpe.train(counts=words, num_merges=5, unk_token="<unk>", alphabet=bpe.Alphabet(initial="corpus"))
    assert some.unreachable().tolist() == []
    gone, _ = tok.without_tokens([tok.token_id("l")])
    assert gone.unreachable().tolist() == []


def test_tokens_of_bytes_are_found_among_tokens_of_their_length() -> None:
    texts = ["<0x4Z> <0xAA> <0xAB <0x00>0 é"]
    tok = bpe.train(texts=texts, vocab_size=300, pretokenizer="metaspace", alphabet=bpe.Alphabet(byte_fallback=True))
    assert tok.spec.byte_fallback
    actual = find_word_symbols(tok.spec).byte_ids
    naive = {token: token_id for token_id, token in tok.spec.vocabulary.items()}
    assert actual is not None
    assert actual.tolist() == [naive[name.encode()] for name in BYTE_NAMES]


def test_n_vocab_is_the_largest_id_plus_one() -> None:
    ranks = {bytes([byte]): byte for byte in range(256)}
    theirs = tiktoken.Encoding("test", pat_str=r"\w+", mergeable_ranks=ranks, special_tokens={"<|end|>": 300})
    tok = bpe.train(texts=["a"], num_merges=0, special_tokens=["<|end|>"], alphabet=bpe.Alphabet(first_id=44))
    assert tok.n_vocab == theirs.n_vocab == 301
    assert tok.vocab_size == 257
    assert tok.without_tokens([44])[0].n_vocab == 300
    with pytest.raises(AttributeError):
        tok.n_vocab = 3
