"""`bpe.evaluate`: every metric against its twin, files against texts, other packages' tokenizers, arguments."""

from __future__ import annotations

import copy
import dataclasses
import gzip
import json
import math
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import naive
import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

import bpe
import bpe.report
from bpe.base.utf8 import to_bytes
from bpe.evaluation import corpora, metrics, tallying
from bpe.evaluation._tally import MAX_TOKEN_BYTES
from bpe.evaluation.adapters import adapt
from bpe.evaluation.evaluating import Evaluation

CORPUS = [
    "The quick brown fox, 1234567 times; it's 42 or 100000. naïve café\n",
    "다람쥐 헌 쳇바퀴에 타고파 ㅋㅋㅋ 2024년 12월\n",
    "吾輩は猫である。名前はまだ無い。 12345\n",
    "สวัสดี ชาวโลก 😀😀 мир\n\n  two  spaces\t",
] * 3

#: Arguments that are refused.
REFUSED_ARGUMENTS = [
    ({}, "exactly one"),
    ({"texts": ["a"], "files": "x"}, "exactly one"),
    ({"texts": "one text"}, "one str"),
    ({"texts": {"en": "one text"}}, "one str"),
    ({"texts": {}}, "empty mapping"),
    ({"texts": {1: ["a"]}}, "name of a corpus is 1"),
    ({"texts": {"": ["a"], "b": ["b"]}}, "name of a corpus is ''; of several"),
    ({"texts": ["a"], "reference": "ko"}, "reference is 'ko'"),
    ({"texts": ["a"], "words": "letters"}, "words is 'letters'"),
    ({"texts": ["a"], "alpha": 0}, "alpha is 0"),
    ({"texts": ["a"], "confidence": 2}, "confidence is 2"),
    ({"texts": ["a"], "rare": 0}, "rare is 0"),
    ({"texts": [1]}, "text 0 is 1"),
]


@pytest.fixture(scope="module")
def tok() -> bpe.Tokenizer:
    return bpe.train(texts=CORPUS, vocab_size=330, special_tokens=["<|end|>"])


@pytest.fixture(scope="module")
def small_tok() -> bpe.Tokenizer:
    return bpe.train(texts=CORPUS[:1], vocab_size=290)


def evaluate_naively(tok: Any, documents: list[bytes], mode: str = "script") -> dict[str, Any]:
    """The metrics from `Tokenizer.tokens` and plain Python."""
    rows = [tok.tokens(data) for data in documents]
    tokens = [token for row in rows for token in row]
    sums = [sum(column) for column in zip(*(naive.sum_text(data, mode) for data in documents), strict=True)]
    n_bytes, n_chars, n_words, n_wide, n_numbers, n_ideal = sums
    cut_sums = [naive.sum_cuts(data, naive.find_cuts(row), mode) for data, row in zip(documents, rows, strict=True)]
    cut_words, split_characters, number_cuts, right_cuts = (
        sum(column) for column in zip(*(row_sums for row_sums, _ in cut_sums), strict=True)
    )
    n = len(tokens)

    def share(numerator: float, denominator: float) -> float | None:
        return numerator / denominator if denominator else None

    whole_tokens = [token for token in tokens if reference.is_whole(token)]
    return {
        "tokens": n,
        "bytes": n_bytes,
        "characters": n_chars,
        "words": n_words,
        "numbers": n_numbers,
        "documents": len(documents),
        "bytes_per_token": share(n_bytes, n),
        "characters_per_token": share(n_chars, n),
        "fertility": share(n, n_words),
        "continued_words": share(cut_words, n_words),
        "single_token_words": None if not n_words else 1 - cut_words / n_words,
        "split_characters": share(split_characters, n_wide),
        "digits_f1": share(sum(f1 for _, f1 in cut_sums), n_numbers),
        "digits_precision": share(right_cuts, number_cuts),
        "digits_recall": share(right_cuts, n_ideal),
        "renyi_efficiency": naive.compute_renyi(tokens, 2.5, tok.vocab_size) if n else None,
        "renyi_efficiency_observed": naive.compute_renyi(tokens, 2.5),
        "tokenization_scorer": naive.compute_renyi(tokens, 3.0),
        "shannon_efficiency": naive.compute_renyi(tokens, 1, tok.vocab_size) if n else None,
        "shannon_efficiency_observed": naive.compute_renyi(tokens, 1),
        "percentile_mass": naive.compute_percentile_mass(tokens),
        "used_tokens": len(set(tokens)),
        "utilisation": len(set(tokens)) / tok.vocab_size,
        "rare_tokens": sum(tokens.count(token) < 10 for token in tok.vocab()),
        "whole_character_tokens": share(len(whole_tokens), n),
        "crossing_tokens": share(sum(naive.is_crossing(token) for token in tokens if not reference.is_whole(token)), n),
        "leading_space_tokens": share(sum(map(naive.has_leading_space, whole_tokens)), n),
        "inner_space_tokens": share(sum(map(naive.has_inner_space, whole_tokens)), n),
        "length_histogram": [sum(min(len(token), 32) == size for token in tokens) for size in range(1, 33)],
    }


def assert_equal_metrics(values: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, abs=1e-9), name


documents = st.lists(
    st.lists(
        st.sampled_from([*CORPUS[0].split(), *CORPUS[1].split(), *CORPUS[2][:8], "ก", " ", "\n", "7", "x\xff"]),
        max_size=9,
    )
    .map("".join)
    .map(lambda text: text.encode("latin-1", "ignore") if "\xff" in text else text.encode()),
    max_size=4,
)


@given(documents)
def test_every_metric_equals_its_twin(given_documents: list[bytes]) -> None:
    tok = _small()
    assert_equal_metrics(
        bpe.evaluate(tok, texts=given_documents, resamples=20).to_dict(),
        evaluate_naively(tok, given_documents) if given_documents else {},
    )


_KEPT: list[bpe.Tokenizer] = []


def _small() -> bpe.Tokenizer:
    if not _KEPT:
        _KEPT.append(bpe.train(texts=CORPUS, vocab_size=310))
    return _KEPT[0]


def test_corpora_by_name(tok: bpe.Tokenizer, small_tok: bpe.Tokenizer) -> None:
    corpora = {"en": CORPUS[:1] * 2, "ko": CORPUS[1:2] * 2, "ja": CORPUS[2:3] * 2}
    values = bpe.evaluate([tok, small_tok], corpora, reference="ko", words="spaces", parallel=True).to_dict()
    assert set(values) == {"tokenizers"}
    for row, tokenizer in zip(values["tokenizers"], (tok, small_tok), strict=True):
        every = [text.encode() for texts in corpora.values() for text in texts]
        assert_equal_metrics(row, evaluate_naively(tokenizer, every, "spaces"))
        costs = []
        for name, texts in corpora.items():
            assert_equal_metrics(
                row["corpora"][name], evaluate_naively(tokenizer, [text.encode() for text in texts], "spaces")
            )
            costs.append(row["corpora"][name]["tokens"] / row["corpora"][name]["bytes"])
        mean = sum(costs) / 3
        assert row["gini"] == pytest.approx(sum(abs(a - b) for a in costs for b in costs) / (2 * 9 * mean), abs=1e-12)
        n = {name: row["corpora"][name]["tokens"] for name in corpora}
        assert row["premium"] == {name: n[name] / n["ko"] for name in corpora}
        assert row["relative_tokens_per_byte"] == dict(zip(corpora, (cost / costs[1] for cost in costs), strict=True))
    first, second = values["tokenizers"]
    assert second["normalized_sequence_length"] == second["tokens"] / first["tokens"]
    assert second["corpora"]["ko"]["normalized_sequence_length"] > 1
    assert json.loads(json.dumps(values)) == values


def test_files_equal_texts_whatever_the_blocks(
    tok: bpe.Tokenizer, small_tok: bpe.Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long document is cut where all tokenizers allow it, and words and numbers are not."""
    monkeypatch.setattr("bpe.corpus.reading.MAX_READ", 512)
    monkeypatch.setattr("bpe.corpus.reading.MIN_READ", 256)
    generator = np.random.default_rng(3)
    text = "".join(CORPUS[i] for i in generator.integers(0, 4, 60))
    path = tmp_path / "a.txt"
    for separator in (None, "<|doc|>"):
        parts = [text, text[:700], "", text[300:]] if separator else [text]
        path.write_text((separator or "").join([*parts, ""] if separator else parts), encoding="utf-8", newline="")
        expected = bpe.evaluate([tok, small_tok], texts=parts).to_dict()
        for threads in (1, 3):
            evaluation = bpe.evaluate([tok, small_tok], files=bpe.Sources(path, separator=separator), threads=threads)
            assert evaluation.to_dict() == expected
            assert evaluation[0].total.sums["tokens"] == sum(map(len, (tok.encode(part) for part in parts)))


def test_an_iterable_is_read_by_the_callers_thread(tok: bpe.Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may belong to that thread, as a cursor of sqlite3 does."""
    monkeypatch.setattr("bpe.corpus.blocks.BLOCK_BYTES", 64)
    readers: set[int] = set()

    def texts() -> Iterator[str]:
        for index in range(2000):
            readers.add(threading.get_ident())
            yield CORPUS[index % 4]

    evaluation = bpe.evaluate(tok, texts=texts(), threads=3)
    assert readers == {threading.get_ident()}
    assert evaluation.to_dict() == bpe.evaluate(tok, texts=list(CORPUS[:4]) * 500, threads=1).to_dict()


def test_texts_of_all_kinds_and_sizes(
    tok: bpe.Tokenizer, small_tok: bpe.Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A str of each width, bytes that are UTF-8 or not, other buffers, empty ones, and more than are joined at once."""
    parts = ["low 12345", "é low", "가나다", "\U0001f600 low", "", b"\xff low", "낮은".encode(), b"", "low \ud83d"]
    texts: list[Any] = [part * size for size in (1, 3, 200) for part in parts] * 40
    texts += ["가나 " * 200_000, b"low " * 200_000, bytearray(b"low"), memoryview(b"lowest")]
    data = [to_bytes(text) if isinstance(text, str) else bytes(text) for text in texts]
    expected = bpe.evaluate([tok, small_tok], texts=data, resamples=20).to_dict()
    evaluation = bpe.evaluate([tok, small_tok], texts=texts, resamples=20)
    assert evaluation.to_dict() == expected
    assert evaluation[0].total.sums["tokens"] == sum(len(tok.encode(text)) for text in data)
    monkeypatch.setattr(corpora, "_GROUP_BYTES", 100)
    for threads in (1, 3):
        assert bpe.evaluate([tok, small_tok], texts=iter(texts), threads=threads, resamples=20).to_dict() == expected


def find_common_cuts(*tokenizers: bpe.Tokenizer) -> Any:
    return corpora.find_common_cuts([adapt(tokenizer) for tokenizer in tokenizers])


def test_documents_are_cut_where_every_tokenizer_allows_it_and_no_word_is_cut(
    tok: bpe.Tokenizer, small_tok: bpe.Tokenizer
) -> None:
    texts = ["low lower lowest\n" * 200, "".join(CORPUS) * 20, "吾輩は猫である。\n" * 99, "nowhitespace" * 99]
    o200k = bpe.train(texts=["low lower"], vocab_size=260, pretokenizer="o200k")
    for text in texts:
        data = text.encode()
        for group in ((tok,), (tok, small_tok), (small_tok, o200k, tok)):
            for end in range(len(data), max(len(data) - 300, 0), -7):
                cut = find_common_cuts(*group).find_last(data[:end], 5)
                assert 5 <= cut < end
                if cut > 5:
                    assert data[cut - 1 : cut].isspace() or data[cut : cut + 1].isspace()
                for tokenizer in group if cut > 5 else ():
                    assert [*tokenizer.encode(data[:cut]), *tokenizer.encode(data[cut:])] == tokenizer.encode(
                        data
                    ).tolist()
            assert (cut == 5) is (text == texts[-1])


def test_some_tokenizers_allow_no_cut(tok: bpe.Tokenizer) -> None:
    assert find_common_cuts(tok, bpe.train(texts=["ab"], num_merges=1, model="char")) is None
    assert find_common_cuts(tok, bpe.train(texts=["ab"], num_merges=1, normalizer="nfc")) is None


@pytest.mark.parametrize(("threads", "step"), [(1, 1 << 20), (3, 64)])
def test_a_document_that_continues_in_other_blocks_has_the_same_metrics(
    tok: bpe.Tokenizer,
    small_tok: bpe.Tokenizer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    threads: int,
    step: int,
) -> None:
    """From plain files, which a kernel reads, and from compressed ones; an empty document at the end is none."""
    monkeypatch.setattr(corpora, "_READ_BYTES", step)
    long = "low lower lowest\n\n" * 600
    for separator, options in (
        ("<doc>", long),
        ("<doc>", "low " * 99),
        ("\n\n", long),
        ("<doc>", "".join(CORPUS) + "<doc><doc>x<doc>"),
        ("<doc>", "<doc>"),
    ):
        text = f"low{separator}{options}"
        plain, packed = tmp_path / "a.txt", tmp_path / "a.txt.gz"
        plain.write_text(text)
        packed.write_bytes(gzip.compress(text.encode()))
        parts = text.split(separator)
        parts = parts[:-1] if parts[-1] == "" else parts
        expected = bpe.evaluate([tok, small_tok], texts=parts * 2).to_dict()
        for files in ([plain, plain], [packed, plain], [plain, packed]):
            evaluation = bpe.evaluate([tok, small_tok], files=bpe.Sources(files, separator=separator), threads=threads)
            assert evaluation.to_dict() == expected


def test_a_file_that_is_not_utf8_is_refused(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"low lower " * 99 + b"\xff low")
    with pytest.raises(bpe.FormatError, match=r"a.txt.*not UTF-8"):
        bpe.evaluate(tok, files=path)
    values = bpe.evaluate(tok, files=bpe.Sources(path, encoding_errors="bytes")).to_dict()
    assert values == bpe.evaluate(tok, texts=[path.read_bytes()]).to_dict()


def test_only_parallel_corpora_have_premiums(tok: bpe.Tokenizer) -> None:
    evaluation = bpe.evaluate(tok, {"en": ["low", "lower"], "ko": ["낮은", "높은"], "none": []}, reference="ko")
    facts = evaluation.to_dict()
    assert facts["premium"] is facts["gini_parallel"] is None
    assert set(facts["relative_tokens_per_byte"]) == {"en", "ko"}
    empty = bpe.evaluate(tok, {"en": ["low"], "none": []}, reference="none").to_dict()
    assert empty["relative_tokens_per_byte"] == {"en": None}
    with pytest.raises(ValueError, match=r"parallel is True, but of the documents en has 1.*document by document"):
        bpe.evaluate(tok, {"en": ["low"], "ko": ["낮은", "높은"]}, parallel=True)
    with pytest.raises(ValueError, match=r"parallel is True, but there is one corpus"):
        bpe.evaluate(tok, {"en": ["low"]}, parallel=True)


def test_a_result_is_iterated_by_the_names_of_its_metrics(tok: bpe.Tokenizer) -> None:
    result = bpe.evaluate(tok, {"en": ["low"], "ko": ["낮은"]}).results[0]
    assert list(result) == list(result.total) == list(result.total.to_dict())
    assert [name in result for name in ("tokens", "ko", "kr")] == [True, True, False]
    assert [name in result.total for name in ("tokens", "ko")] == [True, False]


def test_intervals_depend_on_the_seed_alone(tok: bpe.Tokenizer, small_tok: bpe.Tokenizer) -> None:
    texts = [text[:n] for n in range(1, 30) for text in CORPUS[:4]]
    with_seed_1 = bpe.evaluate([tok, small_tok], texts=texts, seed=1).to_dict()
    assert with_seed_1 == bpe.evaluate([tok, small_tok], texts=texts, seed=1, threads=3).to_dict()
    with_seed_2 = bpe.evaluate([tok, small_tok], texts=texts, seed=2).to_dict()
    for a, b in zip(with_seed_1["tokenizers"], with_seed_2["tokenizers"], strict=True):
        low, high = a["bytes_per_token_interval"]
        assert low < a["bytes_per_token"] < high
        assert [low, high] != b["bytes_per_token_interval"]
        assert b["bytes_per_token_interval"] == pytest.approx([low, high], rel=0.05)
    assert bpe.evaluate(tok, texts=["one"]).to_dict()["bytes_per_token_interval"] is None
    assert bpe.evaluate(tok, texts=texts, resamples=0).to_dict()["fertility_interval"] is None


def test_an_interval_holds_the_mean_as_often_as_it_says() -> None:
    """95% intervals of the ratio of sums of 60 documents, 200 times."""
    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        rows = generator.gamma(2, 1, (60, 2)) * [2, 1]
        sums = metrics.resample(rows, 300, 0)
        assert sums is not None
        low, high = metrics.percentile_interval(sums[:, 0] / sums[:, 1], 0.95) or (0, 0)
        hits += low <= 2 <= high
    assert 175 <= hits <= 199


def test_groups_keep_the_sums_and_bound_the_rows() -> None:
    generator = np.random.default_rng(0)
    for n in (0, 1, 7, 8, 9, 100, 1001):
        rows = generator.integers(0, 100, (n, 3)).astype(np.float64)
        at_once, by_one, by_13 = tallying.DocumentSums(3, 4), tallying.DocumentSums(3, 4), tallying.DocumentSums(3, 4)
        at_once.add(rows)
        for row in rows:
            by_one.add(row[None])
        for start in range(0, n, 13):
            by_13.add(rows[start : start + 13])
        assert at_once.n_documents == n
        for sums in (at_once, by_one, by_13):
            assert sums.documents_per_row == at_once.documents_per_row
            assert len(sums.to_array()) <= 9
            per_row = sums.documents_per_row
            expected = [rows[start : start + per_row].sum(axis=0) for start in range(0, n, per_row)]
            assert sums.to_array().tolist() == [row.tolist() for row in expected]


# Published figures ----------------------------------------------------------------------------------------------------


def test_the_examples_of_tokenization_scorer() -> None:
    """Its README gives these for two texts; they are those of its default order, 3."""
    for text, published in (
        ("pick @@ed pick @@l @@ed pick @@les", 0.8031528501359657),
        ("pick @@e @@d pick @@l @@e @@d pick @@l @@e @@s", 0.9105681923824472),
    ):
        words = text.split()
        counts = np.array([words.count(word) for word in set(words)])
        assert metrics.efficiency(counts, None, metrics.SCORER_ALPHA) == pytest.approx(published, abs=1e-12)


class CuttingTokenizer:
    """Gives each text the tokens that its bars show: `1|234` is the text 1234 as two tokens."""

    def __init__(self, *shown: str) -> None:
        self._parts = {text.replace("|", ""): [part.encode() for part in text.split("|")] for text in shown}
        self.vocab = {
            part: token_id for token_id, part in enumerate(sorted({p for ps in self._parts.values() for p in ps}))
        }

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [[self.vocab[part] for part in self._parts.get(text, [text.encode()])] for text in texts]


@pytest.mark.parametrize(
    ("shown", "published"),
    [("1|234|567", 1), ("1234|567", 2 / 3), ("12|345|67", 0), ("1234567", 0), ("42", 1), ("4|2", 0)],
)
def test_the_examples_of_tokeval_for_numbers(shown: str, published: float) -> None:
    text, tokenizer = shown.replace("|", ""), CuttingTokenizer(shown)
    values = bpe.evaluate(tokenizer, texts=[text]).to_dict()
    assert values["digits_f1"] == pytest.approx(published, abs=1e-9)
    cuts = {
        position for position in range(1, len(text)) if position in np.cumsum([len(part) for part in shown.split("|")])
    }
    assert naive.compute_f1(cuts, set(range(len(text) - 3, 0, -3))) == pytest.approx(published)


# Tokenizers of other packages -----------------------------------------------------------------------------------------


class SimpleTokenizer:
    """The least that `bpe.evaluate` needs."""

    def __init__(self, tok: bpe.Tokenizer, short: bool = False) -> None:
        self._tok, self._short = tok, short
        self.vocab = {(token[:-1] or b"?" if short else token): token_id for token, token_id in tok.vocab().items()}

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [self._tok.encode(text).tolist() for text in texts]


def list_without_names(evaluation: Evaluation) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in values.items() if name != "tokenizer"}
        for values in evaluation.to_dict()["tokenizers"]
    ]


def test_tokenizers_of_other_packages(tmp_path: Path) -> None:
    tokenizers, tiktoken = pytest.importorskip("tokenizers"), pytest.importorskip("tiktoken")
    tok = bpe.train(texts=CORPUS, vocab_size=330)
    tok.save(tmp_path / "tokenizer.json")
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    ranks = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=dict(tok.vocab()), special_tokens={})
    values = list_without_names(
        bpe.evaluate({"a": tok, "b": peer, "c": ranks, "d": SimpleTokenizer(tok)}, texts=CORPUS)
    )
    for row in values[1:]:
        assert row == values[0]


def test_settings_of_other_packages_that_change_how_many_tokens_a_text_has(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    """Padding, truncation and special tokens in text: transformers sets the first two in each call, and leaves them."""
    tokenizers = pytest.importorskip("tokenizers")
    tok.save(tmp_path / "tokenizer.json")
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    peer.enable_padding(length=400)
    peer.enable_truncation(2)
    texts = [*CORPUS, "a<|end|>b"]
    values = list_without_names(bpe.evaluate([tok, peer], texts=texts))
    assert values[0] == values[1]
    assert bpe.evaluation.sanity_check(peer)[1].level == "ok"
    assert peer.encode("a<|end|>b").ids[1:] == [tok.token_id("<|end|>"), *[0] * 398]
    peer.no_padding()
    for data in (b"\xff low lower", b"\xff\xfe"):  # is replaced by longer text, in which cuts lie elsewhere
        values = list_without_names(bpe.evaluate([tok, peer], texts=[*CORPUS, data]))
        assert values[1]["bytes"] == values[0]["bytes"]
        assert values[1]["continued_words"] == bpe.evaluate(tok, texts=CORPUS)["continued_words"]
    peer.pre_tokenizer = tokenizers.pre_tokenizers.PreTokenizer.custom(SimpleTokenizer(tok))
    with pytest.raises(TypeError, match="cannot be copied"):
        bpe.evaluate(peer, texts=texts)


def test_dropout_is_left_out_and_added_tokens_have_shapes(tmp_path: Path) -> None:
    """The figures of a tokenizer and of `tokenizers` with its file are the same, whether it has a dropout or not."""
    tokenizers = pytest.importorskip("tokenizers")
    plain = bpe.train(texts=CORPUS, vocab_size=300).with_tokens(added=["café", "쳇바퀴", "<new>"], special=["<s>"])
    texts = [*CORPUS, "<new>쳇바퀴<s> ǅ"]
    ignored = dict.fromkeys(("tokenizer", "unreachable_tokens", "unreachable_as_several_tokens"))  # é decodes as a byte
    results = []
    for dropout in (0.0, 0.5):
        tok = bpe.Tokenizer(dataclasses.replace(plain.spec, dropout=dropout))
        tok.save(tmp_path / "tokenizer.json")
        other = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        (tmp_path / "corpus.txt").write_text("".join(texts))
        found = [*bpe.evaluate([tok, other], texts=texts), *bpe.evaluate([tok, other], tmp_path / "corpus.txt")]
        results.append([{**result.to_dict(), **ignored} for result in found])
        assert other.model.dropout == (dropout or None)
        assert results[-1][0] == results[-1][1]
        assert results[-1][2] == results[-1][3]
    assert results[0] == results[1]
    assert results[0][0]["length_histogram"][9 - 1] > 0  # 쳇바퀴


def test_tokenizers_with_normalizers_and_marks_are_measured_by_offsets() -> None:
    tok = bpe.train(texts=CORPUS, vocab_size=330)
    upper = bpe.Tokenizer(dataclasses.replace(tok.spec, normalizer=bpe.normalizers.Lowercase()))
    values = bpe.evaluate(upper, texts=["The QUICK fox"]).to_dict()
    assert (values["tokens"], values["words"]) == (upper.count_tokens("The QUICK fox"), 3)
    assert values["continued_words"] is not None
    marked = bpe.train(texts=["low lower"], num_merges=5, model="char", end_of_word="</w>")
    values = bpe.evaluate(marked, texts=["low lower"]).to_dict()
    assert (values["bytes"], values["words"], values["tokens"]) == (9, 2, marked.count_tokens("low lower"))


def test_characters_that_are_split_where_spans_are_of_whole_characters(tmp_path: Path) -> None:
    """Spans of normalized text are of whole characters: a token within one begins within it all the same."""
    tokenizers = pytest.importorskip("tokenizers")
    texts = ["낮은 높은 日本 é", "\u3000x 한국어\n12 ß", "low 😀 lower"]
    for normalizer in (None, bpe.normalizers.NFC(), bpe.normalizers.Prepend(" ")):
        tok = bpe.train(texts=CORPUS, vocab_size=300, normalizer=normalizer)
        tok.save(tmp_path / "tokenizer.json")
        peer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        n_split = n_multibyte = 0
        for text in texts:
            cuts = naive.find_cuts(tok.tokens(text))
            added = 1 if isinstance(normalizer, bpe.normalizers.Prepend) else 0
            for index, char in enumerate(text):
                start, size = len(text[:index].encode()) + added, len(char.encode())
                n_multibyte += size > 1
                n_split += any(cut in cuts for cut in range(start + 1, start + size))
        for values in list_without_names(bpe.evaluate([tok, peer], texts=texts)):
            assert values["split_characters"] == n_split / n_multibyte > 0


def test_tokens_of_another_length_than_the_text_are_only_counted() -> None:
    tok = bpe.train(texts=CORPUS, vocab_size=330)
    values = bpe.evaluate(SimpleTokenizer(tok, short=True), texts=CORPUS).to_dict()
    assert values["tokens"] == sum(tok.count_tokens(CORPUS))
    assert values["continued_words"] is None
    assert values["single_token_words_interval"] is None


@pytest.mark.parametrize(
    ("vocab", "ids", "message"),
    [
        ({"a": 0}, [5], "gave the id 5; each id must be in its vocab"),
        ({}, [0], "gave the id 0"),
        ({"a": -1, "b": 0}, [0], "gives 'a' the id -1; ids must be whole numbers"),
        ({"a": "0"}, [0], "gives 'a' the id '0'"),
    ],
)
def test_a_vocab_that_does_not_fit_its_ids(vocab: dict[str, Any], ids: list[int], message: str) -> None:
    class Wrong:
        def __init__(self) -> None:
            self.vocab = vocab

        def encode_batch(self, texts: list[str]) -> list[list[int]]:
            return [ids for _ in texts]

    for use in (lambda: bpe.evaluate(Wrong(), texts=["a"]), lambda: bpe.report.page_html(Wrong(), texts="a")):
        with pytest.raises(ValueError, match=message):
            use()


def test_reachability() -> None:
    tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
    spec = tok.spec
    tokens = [*[(n, t) for n, t in spec.vocabulary.items()], (260, b"zz"), (261, b"\xed\x95\xed")]
    import dataclasses

    from bpe.vocab.vocabulary import Vocabulary

    wider = bpe.Tokenizer(dataclasses.replace(spec, vocabulary=Vocabulary(tokens)))
    reachability = bpe.evaluate(wider, texts=["low"])[0].measured_vocab.reachability
    assert (reachability.unreachable, reachability.as_several, reachability.as_one) == ([260], [260], [])
    assert 261 in reachability.undecodable
    assert bpe.evaluate(wider, texts=["low"]).to_dict()["unreachable_tokens"] == 1


def test_morphemes() -> None:
    tok = bpe.train(counts={"un": 9, "do": 9, "ing": 9, "undo": 1}, num_merges=4)
    assert [tok.tokens(word) for word in ("undoing", "un", "doing")] == [
        [b"un", b"do", b"ing"],
        [b"un"],
        [b"do", b"ing"],
    ]
    words = {"undoing": ["undo", "ing"], "un": ["u", "n"], "doing": ["doi", "ng"]}
    values = bpe.evaluate(tok, texts=["x"], morphemes=words).to_dict()
    assert (values["morpheme_words"], values["morphological_alignment"]) == (3, 0.5)
    assert (values["morpheme_precision"], values["morpheme_recall"]) == (1 / 3, 1 / 3)
    with pytest.raises(ValueError, match="joined"):
        bpe.evaluate(tok, texts=["x"], morphemes={"undo": ["un", "d"]})
    iterators: Any = [iter(parts) for parts in words.values()]
    again = bpe.evaluate(tok, texts=["x"], morphemes=iterators).to_dict()
    assert {name: again[name] for name in values if "morph" in name} == {
        name: value for name, value in values.items() if "morph" in name
    }
    wrong: Any
    for wrong in (["undo"], [5], [[]], [["un", ""]], {"un": 5}, {"ab": [1, 2]}):
        with pytest.raises(TypeError, match="list of str"):
            bpe.evaluate(tok, texts=["x"], morphemes=wrong)
    with pytest.raises(TypeError, match="morphemes is 5"):
        bpe.evaluate(tok, texts=["x"], morphemes=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="surrogate"):
        bpe.evaluate(tok, texts=["x"], morphemes=[["\ud800"]])


def test_names_are_distinct_and_the_table_says_the_confidence(tok: bpe.Tokenizer) -> None:
    evaluation = bpe.evaluate({1: tok, "1": tok, "1 (2)": tok}, texts=["a", "bc"], confidence=0.5, alpha=10**400)
    assert [result.name for result in evaluation] == ["1", "1 (3)", "1 (2)"]
    assert "50 times of 100" in str(evaluation)
    limit = bpe.evaluate(tok, texts=["a", "bc"], alpha=math.inf)
    assert evaluation[0]["renyi_efficiency"] == limit["renyi_efficiency"]


# Results and arguments ------------------------------------------------------------------------------------------------


def test_results_for_people_and_data_frames(tok: bpe.Tokenizer, small_tok: bpe.Tokenizer) -> None:
    evaluation = bpe.evaluate({"a": tok, "b": small_tok}, {"en": CORPUS[:1] * 4, "ko": CORPUS[1:2] * 4})
    text = str(evaluation)
    assert "fewer tokens" in text or "more tokens" in text
    assert "ko" in text
    assert repr(evaluation) == "<bpe.evaluation.Evaluation of a, b, en, ko>"
    hostile = bpe.evaluate({"\x1b[2J\u202e": tok}, {"\x07": ["low"]})
    assert all(repr(part).isprintable() for part in (hostile, hostile[0], hostile[0].corpora["\x07"]))
    assert str(bpe.evaluate({"a": tok, "b": tok}, texts=["low"])).count("b takes as many tokens as a.") == 1
    assert [result.name for result in evaluation] == ["a", "b"]
    assert evaluation["b"]["ko"]["tokens"] == evaluation[1].corpora["ko"].to_dict()["tokens"]
    assert evaluation["a"].counts.sum() == evaluation["a"]["tokens"]
    with pytest.raises(KeyError, match="no tokenizer"):
        evaluation["c"]
    with pytest.raises(KeyError, match="no metric"):
        evaluation["a"]["speed"]
    arrow = pytest.importorskip("pyarrow")
    rows = evaluation.to_arrow()
    assert isinstance(rows, arrow.Table)
    assert rows.column("corpus").to_pylist() == ["", "en", "ko"] * 2
    assert rows.column("tokens").to_pylist()[1] == evaluation["a"]["en"]["tokens"]
    assert not any(name.endswith("_interval") for name in rows.column_names)


def test_an_empty_corpus(tok: bpe.Tokenizer) -> None:
    evaluation = bpe.evaluate(tok, texts=[])
    assert evaluation["bytes_per_token"] is None
    assert evaluation["tokens"] == evaluation["documents"] == 0
    assert "–" in str(bpe.evaluate(tok, {"a": [], "b": ["x"]}))
    assert math.isfinite(bpe.evaluate(tok, texts=[""])["utilisation"])


@pytest.mark.parametrize(
    ("options", "message"),
    REFUSED_ARGUMENTS,
)
def test_arguments_that_are_refused(tok: bpe.Tokenizer, options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        bpe.evaluate(tok, **options)


@pytest.mark.parametrize(
    ("tokenizers", "message"),
    [
        ("tokenizer.json", "load it first"),
        ([], "at least one"),
        (3, "bpe.Tokenizer"),
        ([object()], "encode_batch and vocab"),
    ],
)
def test_tokenizers_that_are_refused(tokenizers: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        bpe.evaluate(tokenizers, texts=["a"])


def test_two_corpora_of_files(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "ko.txt").write_text(CORPUS[1])
    (tmp_path / "bad.txt").write_bytes(b"low \xff")
    evaluation = bpe.evaluate(tok, {"ko": str(tmp_path / "ko.txt"), "also": [tmp_path / "ko.txt"], "texts": ["a"]})
    assert evaluation["ko"]["tokens"] == evaluation["also"]["tokens"]
    with pytest.raises(bpe.FormatError, match=r"bad\.txt"):
        bpe.evaluate(tok, files=tmp_path / "bad.txt")
    assert bpe.evaluate(tok, files=bpe.Sources(tmp_path / "bad.txt", encoding_errors="bytes"))["characters"] == 5
    with pytest.raises(OSError, match=r"none\.txt"):
        bpe.evaluate(tok, files=tmp_path / "none.txt")


def test_a_table_of_one_document_says_how_to_get_intervals(tok: bpe.Tokenizer) -> None:
    lines = str(bpe.evaluate(tok, texts=["low lower"])).splitlines()
    assert lines[0] == "9 bytes, 2 words, 1 document"
    assert lines[-1].endswith("in Python bpe.Sources(path, per_line=True) or separator=).")


def test_an_evaluation_as_a_data_frame_and_a_table(tok: bpe.Tokenizer, small_tok: bpe.Tokenizer) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    evaluation = bpe.evaluate({"a": tok, "b": small_tok}, {"en": ["low", "lower"], "ko": ["낮은", "높은"]})
    frame, arrow = evaluation.to_pandas(), evaluation.to_arrow()
    assert isinstance(frame, pandas.DataFrame)
    assert arrow.column_names == list(frame.columns)
    assert frame[["tokenizer", "corpus"]].values.tolist() == [[a, b] for a in "ab" for b in ("", "en", "ko")]
    for rows in (frame.to_dict("records"), arrow.to_pylist()):
        for row in rows:
            result = evaluation[row["tokenizer"]].corpora.get(row["corpus"], evaluation[row["tokenizer"]].total)
            assert row["tokens"] == result["tokens"]
            assert row["bytes_per_token"] == result["bytes_per_token"]


def test_tokens_too_long_for_the_table_of_counts_have_their_length() -> None:
    tok = bpe.train(texts=["ab" * 1024] * 3, vocab_size=266, pretokenizer=None)
    assert max(tok.token_byte_lengths) > MAX_TOKEN_BYTES
    text = "ab" * 700 + " abab"
    (result,) = bpe.evaluate(tok, texts=[text])
    assert result.to_dict()["tokens"] == len(tok.encode(text))
    assert result.to_dict()["continued_words"] == 0.5


def test_files_with_a_tokenizer_whose_tokens_are_too_long_for_the_table(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    long = bpe.train(texts=["ab" * 1024] * 3, vocab_size=266, pretokenizer="gpt2")
    assert max(long.token_byte_lengths) > MAX_TOKEN_BYTES
    text = f"low {'ab' * 700} lower {'ab' * 1024}\n" * 9
    path = tmp_path / "a.txt"
    path.write_text(text)
    assert find_common_cuts(tok, long) is not None
    assert bpe.evaluate([tok, long], files=path).to_dict() == bpe.evaluate([tok, long], texts=[text]).to_dict()


def test_a_file_with_a_byte_that_has_no_token_is_refused_by_name(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    few = bpe.train(texts=["low low wow lo lo"], num_merges=1, alphabet=bpe.Alphabet(initial="corpus"))
    path = tmp_path / "a.txt"
    path.write_text("low low wow low")
    assert bpe.evaluate([tok, few], files=path)[1].total.sums["tokens"] == 12
    path.write_text("low low x low")
    with pytest.raises(bpe.FormatError, match=r"a\.txt.*'x'|a\.txt.*0x78"):
        bpe.evaluate([tok, few], files=path)
    path.write_text("low low wow low")
    assert bpe.evaluate([tok, few], files=path)[1].total.sums["tokens"] == 12


def test_evaluations_and_specs_are_pickled_and_copied() -> None:
    texts = {"x": ["low lower", "newest"] * 5, "y": ["lowest <e>", "wider"] * 5}
    for names in ([], ["<e>"]):
        tok = bpe.train(texts=texts["x"], vocab_size=262, special_tokens=names)
        result = bpe.evaluate([tok, tok], texts=texts)
        for copied in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
            assert copied.to_dict() == result.to_dict()
        for spec in (pickle.loads(pickle.dumps(tok.spec)), copy.deepcopy(tok.spec)):
            assert bpe.Tokenizer(spec) == tok


@pytest.mark.parametrize("n_per_call", [1, 5, 2000])
def test_the_tokens_that_save_most_are_those_of_a_twin(
    tok: bpe.Tokenizer, small_tok: bpe.Tokenizer, n_per_call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bpe.evaluation.result, "_TOKENS_PER_CALL", n_per_call)
    texts = {"a": [*CORPUS, "low lowest"], "b": ["lowest 가나다 low"]}
    evaluation = bpe.evaluate({"tok": tok, "other": small_tok}, texts)
    for tokenizer, baseline_tokenizer, tokenizer_result, baseline in (
        (small_tok, tok, evaluation["other"], None),
        (tok, small_tok, evaluation["tok"], evaluation["other"]),
    ):
        for corpus, result in tokenizer_result.corpora.items():
            expected = []
            for token_id, count in enumerate(result.counts.tolist()):
                data = tokenizer.token_bytes(token_id)
                if count and reference.is_whole(data) and len(baseline_tokenizer.encode(data)) > 1:
                    expected.append((count * (len(baseline_tokenizer.encode(data)) - 1), data.decode()))
            savings = result.savings(10_000, baseline and baseline[corpus])
            assert sorted((saving.saved, saving.text) for saving in savings) == sorted(expected)
            assert [saving.saved for saving in savings] == sorted((saved for saved, _ in expected), reverse=True)
            for n in range(4):
                best = result.savings(n, baseline and baseline[corpus])
                assert [saving.saved for saving in best] == [saving.saved for saving in savings[:n]]
    assert evaluation["tok"]["a"].savings() == []
    assert "saves most by '" in str(evaluation)


def test_names_that_are_neither_metrics_nor_corpora(tok: bpe.Tokenizer) -> None:
    evaluation = bpe.evaluate(tok, {"ko": ["낮은"], "en": ["low"]})
    with pytest.raises(KeyError, match="'kr' is no metric and no corpus; the corpora are ko, en"):
        evaluation["kr"]
    assert bpe.evaluate(tok, {"ko": ["낮은"]}).to_dict()["gini"] is None


def test_merges_across_words_are_counted_in_files_as_in_texts(tmp_path: Path) -> None:
    """The kernel's ids are not the tokenizer's there: a second step merges words."""
    texts = ["of the low of the lower", "of the lowest of the low"] * 3
    tok = bpe.research.train_boundless(texts=texts, vocab_size=270)
    path = tmp_path / "texts.txt"
    path.write_text("\n\n".join(texts))
    from_files = bpe.evaluate([tok], files=bpe.Sources(path, separator="\n\n"))
    assert from_files[0].to_dict()["tokens"] == sum(len(tok.encode(text)) for text in texts)
