"""Seeds, several sizes out of one run, and the curve of a training, against their definitions."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import reference
from strategies import SOAK, TIE_BREAKS, interrupt_at

import bpe

pytestmark = pytest.mark.usefixtures("quiet")

#: Options of trainings to several sizes.
TRAININGS = [
    {},
    {"model": "char", "end_of_word": "</w>", "special_tokens": ["<s>"], "alphabet": bpe.Alphabet(first_id=5)},
    {"alphabet": bpe.Alphabet(byte_fallback=True, limit=12), "unk_token": "<unk>"},
    {"superwords": bpe.SuperWords(262)},
    {"seeds": bpe.research.Seeds(tokens=["the"])},
    {"min_frequency": 5},
]


def random_words(rng: random.Random) -> dict[str, int]:
    """Words over few letters, with runs of one."""
    letters = rng.choice(["ab", "abc", "aé", "a"])
    sizes = (1, 2, 3, 5, 8, 13)
    return {"".join(rng.choices(letters, k=rng.choice(sizes))): rng.randint(1, 9) for _ in range(8)}


def seed_merges(seeds: bpe.research.Seeds, symbols: Any) -> list[tuple[Any, Any]]:
    """The merges of seeds by the definition, for tokens as `symbols` divides them."""
    merges = list(seeds.merges)
    for token in seeds.tokens:
        while True:
            ranks = {pair: rank for rank, pair in enumerate(merges)}
            parts = reference.encode_word(symbols(token), ranks)
            if len(parts) == 1:
                break
            merges.append((parts[0], parts[1]))
    return merges


def oracle(
    words: dict[Any, int],
    seeds: list[tuple[Any, Any]],
    ids: dict[Any, int],
    max_merges: int,
    tie_break: str,
    min_frequency: int,
) -> tuple[list[tuple[Any, Any]], list[int]]:
    """(All merges, the corpus's length in tokens before each learned one and at the end). `ids` grows."""
    merges = list(seeds)
    split = list(words.items())
    for left, right in seeds:
        ids[left + right] = len(ids)
        split = [(reference.merge_all(symbols, left, right), count) for symbols, count in split]
    lengths = [sum(len(symbols) * count for symbols, count in split)]
    while len(merges) < max_merges:
        counts = {pair: count for pair, count in reference.pair_counts(split).items() if count >= min_frequency}
        if not counts:
            break
        tied = [pair for pair, count in counts.items() if count == max(counts.values())]
        left, right = reference.first_of_equals(tied, tie_break, ids)
        merges.append((left, right))
        ids[left + right] = len(ids)
        split = [(reference.merge_all(symbols, left, right), count) for symbols, count in split]
        lengths.append(sum(len(symbols) * count for symbols, count in split))
    return merges, lengths


def curve_of(lengths: list[int], n_bytes: int, before: int) -> list[tuple[int, float]]:
    """(Merges, bytes per token) after each power of two and at the end."""
    n = len(lengths) - 1
    after = sorted({1 << power for power in range(n.bit_length())} | ({n} if n else set()))
    return [(before + k, n_bytes / lengths[k]) for k in after]


@pytest.mark.parametrize("model", ["byte", "char", "mark", "glued"])
def test_seeds_and_curves_are_those_of_the_definition(model: str) -> None:
    """Random corpora, seeds, tie rules: the same merges, ids and lengths at every power of two."""
    rng = random.Random(model)
    options: dict[str, Any] = {} if model == "byte" else {"model": "char"}
    glued = model == "glued"
    mark = "_" if model in ("mark", "glued") else None
    if mark is not None:
        options |= {"end_of_word": mark, "end_of_word_glued": glued}

    def symbols(token: Any) -> tuple[Any, ...]:
        if model == "byte":
            return reference.byte_word(token)
        if mark is not None and token.endswith(mark):
            return reference.char_word(token[:-1], mark, glued) or (mark,)
        return reference.char_word(token)

    for _ in range(20 * SOAK):
        words = random_words(rng)
        symbol_words = {word.encode() if model == "byte" else word: count for word, count in words.items()}
        made = [*symbol_words] + [word + (mark or "") for word in symbol_words if mark is not None]
        made += [word[:3] for word in symbol_words]
        tokens = rng.sample(made, rng.randint(0, min(4, len(made))))
        tokens = [token for token in dict.fromkeys(tokens) if len(symbols(token)) > 1]
        merges = seed_merges(bpe.research.Seeds(tokens=tokens), symbols)
        cut = rng.randint(0, len(merges))
        done = [left + right for left, right in merges[:cut]]
        seeds = bpe.research.Seeds(merges=merges[:cut], tokens=[token for token in tokens if token not in done])
        merges = seed_merges(seeds, symbols)
        tie_break, min_frequency = rng.choice(TIE_BREAKS), rng.choice((1, 3))
        max_merges = len(merges) + rng.choice((0, 3, 100))
        tok = bpe.research.train_seeded(
            seeds,
            counts=symbol_words,
            num_merges=max_merges,
            min_frequency=min_frequency,
            rules=bpe.MergeRules(tie_break=tie_break),
            **options,
        )
        vocab = tok.vocab()
        ids = {token: token_id for token, token_id in vocab.items() if token_id < tok.vocab_size - len(tok.merges)}
        if mark is not None:
            split = {reference.char_word(str(word), mark, glued): count for word, count in symbol_words.items()}
        else:
            split = {symbols(word): count for word, count in symbol_words.items()}
        expected, lengths = oracle(split, merges, ids, max_merges, tie_break, min_frequency)
        assert vocab == ids, (symbol_words, seeds)
        assert [tuple(pair) for pair in tok.merges.tolist()] == [(ids[left], ids[right]) for left, right in expected]
        assert tok.spec.training is not None
        assert tok.spec.training.merges == len(expected)
        n_bytes = sum(len(word.encode()) * count for word, count in words.items())
        curve = [(row[0], row[2]) for row in tok.spec.training.curve]
        assert curve == curve_of(lengths, n_bytes, len(merges))


def test_wrong_seeds_are_refused() -> None:
    for seeds, message in (
        ({"merges": [("a", "bc")]}, "b'bc' is neither a symbol of the alphabet nor the result of an earlier merge"),
        ({"merges": [("a", "b"), ("b", "c"), ("a", "bc")]}, "is never made: the merges before it divide b'abc' into"),
        ({"merges": [("a", "b"), ("a", "b")]}, "makes b'ab', which is a token already"),
        ({"tokens": ["<s>"]}, "the seed b'<s>' is a special token"),
        ({"tokens": ["<s>x"]}, "a seed needs the token b'<s>' as a part"),
        (
            {"tokens": ["abcdefgh"]},
            "the seeds make 7 tokens, beside 257 initial tokens; vocab_size must be at least 264",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            bpe.research.train_seeded(
                bpe.research.Seeds(**seeds),  # type: ignore[arg-type]
                counts={"abc": 2},
                vocab_size=262,
                special_tokens=["<s>"],
            )
    with pytest.raises(ValueError, match="has 'x', which is not in the alphabet"):
        bpe.research.train_seeded(bpe.research.Seeds(tokens=["ax"]), counts={"abc": 2}, model="char", num_merges=9)
    with pytest.raises(ValueError, match="has a digit, which split_digits keeps apart"):
        bpe.research.train_seeded(bpe.research.Seeds(tokens=["a1"]), counts={"a1": 2}, num_merges=9, split_digits=True)
    with pytest.raises(ValueError, match="the seeds make 2 merges; num_merges must be at least that"):
        bpe.research.train_seeded(bpe.research.Seeds(tokens=["abc"]), counts={"a1": 2}, num_merges=1)
    with pytest.raises(TypeError, match=r"seeds is .*; it must be a bpe.research.Seeds or None"):
        bpe.research.train_seeded(["abc"], counts={"a1": 2}, num_merges=1)  # type: ignore[arg-type]
    for wrong in ({"tokens": "abc"}, {"tokens": [""]}, {"tokens": [1]}, {"merges": ["ab"]}, {"merges": [("a",)]}):
        with pytest.raises((TypeError, ValueError)):
            bpe.research.Seeds(**wrong)  # type: ignore[arg-type]


def test_training_with_seeds_resumes_and_keeps_to_its_memory(tmp_path: Path) -> None:
    texts = ["the low lower lowest", "new newer newest wide"] * 9
    options: dict[str, Any] = {
        "texts": texts,
        "num_merges": 30,
        "seeds": bpe.research.Seeds(tokens=["lowest", "the w"]),
    }
    expected = bpe.research.train_seeded(**options)
    assert b"the w" in expected.vocab()
    path = tmp_path / "run.ckpt"

    with pytest.raises(KeyboardInterrupt):
        bpe.research.train_seeded(**options, checkpoint=path, on_merge=interrupt_at(12))
    assert bpe.research.train_seeded(**options, checkpoint=path) == expected
    with pytest.raises(ValueError, match="was made with seeds="):
        bpe.research.train_seeded(**options | {"seeds": None}, checkpoint=path)
    assert bpe.research.train_seeded(**options, max_memory="3G", threads=2) == expected
    superwords = bpe.SuperWords(280)
    tok = bpe.research.train_seeded(options["seeds"], texts=texts, vocab_size=290, superwords=superwords)
    assert [*tok.vocab()][256:260] == [b"lo", b"low", b"lowe", b"lowes"]


# Several sizes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    TRAININGS,
    ids=["byte", "char", "fallback", "superwords", "seeds", "min_frequency"],
)
def test_several_sizes_equal_several_trainings(options: dict[str, Any]) -> None:
    texts = ["the low lower lowest\n", "new newer newest wide wider\n"] * 9
    base = bpe.train(
        texts=texts, num_merges=1, **{k: v for k, v in options.items() if k not in ("superwords", "seeds")}
    )
    sizes = [base.vocab_size + more for more in (6, 30, 9, 1000, 9)]
    options = {"seeds": None} | options
    toks = bpe.research.train_seeded(texts=texts, vocab_size=sizes, **options)
    assert isinstance(toks, list)
    for tok, size in zip(toks, sizes, strict=True):
        alone = bpe.research.train_seeded(texts=texts, vocab_size=size, **options)
        assert tok == alone
        assert tok.spec.training is not None
        assert alone.spec.training is not None
        assert (tok.spec.training.stopped, tok.spec.training.merges) == (
            alone.spec.training.stopped,
            alone.spec.training.merges,
        )
        assert set(alone.spec.training.curve) <= set(tok.spec.training.curve)
        assert tok.spec.training.curve[-1] == alone.spec.training.curve[-1]


def test_wrong_sizes_are_refused() -> None:
    for sizes, message in (
        ([], "vocab_size is an empty list"),
        ([300, 100], "vocab_size is 100, but the alphabet has 256 symbols"),
        ([300, 0], "vocab_size is 0; it must be"),
        ([300, "9"], "vocab_size is '9'"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            bpe.train(texts=["text"], vocab_size=sizes)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"superwords need a vocab_size of at least their transition, 270; it is 265"):
        bpe.train(texts=["text"], vocab_size=[300, 265], superwords=bpe.SuperWords(270))


# The curve ------------------------------------------------------------------------------------------------------------


def test_the_curve_is_saved_and_loaded(tmp_path: Path) -> None:
    texts = ["the low lower lowest aaaaaaa\n", "new newer newest wide wider\n"] * 9
    tok = bpe.train(texts=texts, vocab_size=280, superwords=bpe.SuperWords(265))
    assert tok.spec.training is not None
    rows = tok.spec.training.curve
    assert [row[0] for row in rows] == [1, 2, 4, 8, 9, 10, 11, 13, 17, 24]
    assert [row[2] for row in rows] == sorted(row[2] for row in rows)
    n_bytes, tokens = sum(map(len, texts)), sum(len(tok.encode(text)) for text in texts)
    assert rows[-1][2] == n_bytes / tokens
    path = tmp_path / "tokenizer.json"
    tok.save(path)
    again = bpe.Tokenizer.load(path)
    assert again == tok
    assert again.spec.training is not None
    assert again.spec.training.curve == rows
    assert (again.spec.training.merges, again.spec.training.words) == (
        tok.spec.training.merges,
        tok.spec.training.words,
    )
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    assert again.truncate_vocab(270)[0].spec.training is None
    content = path.read_text(encoding="utf-8")
    for wrong in ('"curve": [[1, 2]]', '"curve": [[1, -2, 1.0]]', '"curve": 3'):
        start = content.index('"curve"')
        path.write_text(content[:start] + wrong + content[content.index("]]", start) + 2 :], encoding="utf-8")
        with pytest.raises(bpe.FormatError, match=r"model\.training"):
            bpe.Tokenizer.load(path)


def test_stock_tokenizers_loads_a_file_with_a_curve(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tok = bpe.train(texts=["the low lower lowest"] * 3, vocab_size=270)
    tok.save(tmp_path / "tokenizer.json")
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert peer.encode("the lowest").ids == tok.encode("the lowest").tolist()


def test_extending_has_a_curve_of_its_own() -> None:
    counts = bpe.count_words(texts=["the low lower lowest"] * 3)
    tok = bpe.train(counts=counts, vocab_size=262)
    longer = bpe.extend(tok, counts, vocab_size=266)
    expected = bpe.train(counts=counts, vocab_size=266)
    assert longer.spec.training is not None
    assert expected.spec.training is not None
    assert longer.spec.training.curve[-1][1:] == expected.spec.training.curve[-1][1:]
