"""Counting words: equal to a naive count, in order of first appearance; and the methods of WordCounts."""

from __future__ import annotations

import copy
import math
import os
import pickle
import random
import subprocess
import sys
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from options import from_reference_options
from reference import count_words as naive_count
from reference import split_specials
from strategies import examples

import bpe
from bpe.corpus import reading
from bpe.count.splitter import Splitter
from bpe.normalizers import NFC, Lowercase, Remove
from bpe.pretokenize.patterns import NAMES
from bpe.pretokenize.pretokenizer import Pretokenizer

ATOMS = ["a", "A", " ", "\n", "é", "e\u0301", "語", "12", "'s", "!", "<|x|>", "<|", "low", "lower", "\u3000", "x" * 20]
texts_of_atoms = st.lists(st.lists(st.sampled_from(ATOMS), max_size=15).map("".join), max_size=6)
#: The patterns of both stages of superwords, which have scanners of their own.
SUPERWORDS = [bpe.SuperWords.paper(256), bpe.SuperWords.v2(256)]
STAGES = [stage for both in SUPERWORDS for stage in (both.pretokenizer, both.first_pretokenizer)]
pretokenizers = st.sampled_from(
    [*NAMES, None, Pretokenizer.from_regex(r"\w+"), Pretokenizer("gpt2", add_prefix_space=True), *STAGES]
)

#: Settings whose counts do not merge with the default's.
OTHER_SETTINGS = [
    ({"pretokenizer": "cl100k"}, "pretokenizer"),
    ({"pretokenizer": None}, "pretokenizer"),
    ({"pretokenizer": Pretokenizer("gpt2", add_prefix_space=True)}, "pretokenizer"),
    ({"normalizer": NFC()}, "normalizer"),
    ({"special_tokens": ["<s>"]}, "special_tokens"),
]


def naive(
    texts: list[str], pretokenizer: Any, normalizer: Any = None, specials: tuple[str, ...] = ()
) -> list[tuple[bytes, int]]:
    """Words and counts in order of first appearance, counted by a dict."""
    if isinstance(pretokenizer, str):
        pretokenizer = Pretokenizer(pretokenizer)
    pieces: list[bytes] = []
    for text in texts:
        for part, special in split_specials(text, specials):
            if not special:
                part = normalizer(part) if normalizer else part
                pieces += [part.encode()] if pretokenizer is None else pretokenizer.split_bytes(part)
    return list(naive_count(piece for piece in pieces if piece).items())


# Counting -----------------------------------------------------------------------------------------------------------


@examples(10)
@given(
    texts=texts_of_atoms,
    pretokenizer=pretokenizers,
    normalizer=st.sampled_from([None, Lowercase(), Remove("[a-z]")]),
    specials=st.sampled_from([(), ("<|x|>",), ("<|x|>", "<|", "low")]),
    threads=st.sampled_from([1, 2]),
)
def test_counts_equal_the_naive_counts(
    texts: list[str], pretokenizer: Any, normalizer: Any, specials: tuple[str, ...], threads: int
) -> None:
    expected = naive(texts, pretokenizer, normalizer, specials)
    options: dict[str, Any] = {"pretokenizer": pretokenizer, "normalizer": normalizer, "special_tokens": specials}
    counts = bpe.count_words(texts=texts, threads=threads, **options)
    assert list(counts.items()) == expected
    assert len(counts) == len(expected)
    assert counts.total == sum(count for _, count in expected)
    assert counts == bpe.count_words(texts=[text.encode() for text in texts], **options)
    added = bpe.WordCounts(**options)
    for text in texts:
        added.add(text)
    assert list(added.items()) == expected
    merged = bpe.WordCounts(**options)
    for text in texts:
        merged |= bpe.count_words(texts=[text], **options)
    assert list(merged.items()) == expected


def test_words_of_every_length() -> None:
    """Lengths around those at which a table changes how it stores words, with zero bytes and high bytes."""
    random_ = random.Random(1)
    expected: dict[bytes, int] = {}
    for size in (*range(1, 40), 63, 64, 65, 255, 256, 257, 1000, 70_000):
        for word in (b"\0" * size, b"a" * size, b"\xff" * size, random_.randbytes(size), b"a" * (size - 1) + b"\0"):
            expected[word] = random_.randint(1, 9)
    words = [word for word, count in expected.items() for _ in range(count)]
    random_.shuffle(words)
    order = {word: expected[word] for word in dict.fromkeys(words)}
    counts = bpe.WordCounts(None)
    for word in words:
        counts.add(word)
    assert list(counts.items()) == list(order.items())
    assert list(bpe.count_words(texts=words, pretokenizer=None, threads=2).items()) == list(order.items())
    for word, count in expected.items():
        assert counts[word] == count
        assert word in counts
    assert counts[b"absent"] == 0
    assert "absent" not in counts


@pytest.mark.parametrize("pretokenizer", [*NAMES, None, *STAGES])
@pytest.mark.parametrize("normalizer", [None, "strip"])
def test_empty_texts_have_no_words(pretokenizer: Any, normalizer: str | None) -> None:
    """Nor has a text that the normalizer leaves nothing of."""
    empty = "" if normalizer is None else " "
    expected = bpe.count_words(texts=["low 12", "日本"], pretokenizer=pretokenizer, normalizer=normalizer)
    texts = [empty, "low 12", empty, "日本", empty]
    assert bpe.count_words(texts=texts, pretokenizer=pretokenizer, normalizer=normalizer) == expected
    assert not len(bpe.count_words(texts=[empty] * 2, pretokenizer=pretokenizer, normalizer=normalizer))


@cache
def generated() -> bytes:
    """Some 600 KB of generated text."""
    random_ = random.Random(3)
    stems = ["".join(random_.choices("abcdeé語 \n'1!", k=random_.randint(1, 12))) for _ in range(5_000)]
    return "".join(random_.choices(stems, k=70_000)).encode()


@pytest.mark.parametrize("pretokenizer", [*NAMES, None])
def test_any_number_of_threads_gives_the_same_counts(pretokenizer: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of the words is the same, too."""
    data = generated()[:300_000]
    for block in ("bpe.corpus.blocks.BLOCK_BYTES", "bpe.corpus.documents.BLOCK_BYTES"):
        monkeypatch.setattr(block, len(data) // 9)  # what threads get
    many = [data[i : i + 20_000] for i in range(0, len(data), 20_000)]
    for texts in ([data], many):
        first, *others = (
            bpe.count_words(texts=texts, pretokenizer=pretokenizer, threads=threads) for threads in (1, 2, 8)
        )
        for other in others:
            assert other == first
    few = [data[i : i + 20_000].decode("utf-8", "ignore") for i in range(0, 160_000, 20_000)]
    assert list(bpe.count_words(texts=few, pretokenizer=pretokenizer).items()) == naive(few, pretokenizer)


def test_files_have_the_counts_of_their_texts(tmp_path: Path) -> None:
    texts = ["low lower<|x|>low\r\n", "", "é\u3000語 low", "\ufeffbom"]
    paths = []
    for i, text in enumerate(texts):
        paths.append(tmp_path / f"{i}.txt")
        paths[-1].write_bytes(text.encode())
    expected = bpe.count_words(texts=texts)
    for files in (paths, tuple(map(str, paths)), iter(paths)):
        assert bpe.count_words(files=files) == expected
    assert bpe.count_words(files=paths[0]) == bpe.count_words(files=str(paths[0])) == bpe.count_words(texts=texts[:1])
    split = bpe.count_words(files=bpe.Sources(paths, separator="<|x|>"))
    assert split == bpe.count_words(texts=["low lower", "low\r\n", *texts[1:]])
    assert bpe.count_words(files=[]) == bpe.count_words(texts=[])


@pytest.mark.parametrize("pretokenizer", NAMES)
def test_blocks_of_text_files_have_the_counts_of_the_documents(
    pretokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Python code for a block; the order of the words is that of the files, too."""
    data = generated()[:15_000].decode("utf-8", "ignore").replace("a1", "<|x|>")
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, text in zip(paths, (data, data[::-1]), strict=True):
        path.write_text(text, encoding="utf-8", newline="")
    kinds: list[dict[str, Any]] = [
        {},
        {"separator": "<|x|>"},
        {"separator": "<|x|>", "special_tokens": ["<|x|>"]},
        {"per_line": True},
    ]
    for options in kinds:
        separator = "\n" if "per_line" in options else options.get("separator")
        texts: list[str] = []
        for text in (data, data[::-1]):
            documents = text.split(separator) if separator else [text]
            texts += [f"{document}\n" for document in documents[:-1]] if separator == "\n" else documents[:-1]
            texts.append(documents[-1])
        expected = list(bpe.count_words(texts=texts, pretokenizer=pretokenizer).items())
        with monkeypatch.context() as patch:
            patch.setattr(Splitter, "count", None)
            for size, threads in ((7, 1), (1000, 1), (1000, 3), (1 << 18, 2)):
                patch.setattr(reading, "MAX_READ", size)
                given = from_reference_options(files=paths, pretokenizer=pretokenizer, threads=threads, **options)
                counts = bpe.count_words(**given)
                assert list(counts.items()) == expected


@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_bytes_of_a_file_that_are_not_utf8_are_named(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"low lower " * 300 + b"\xff low" * 300)
    monkeypatch.setattr(reading, "MAX_READ", 50)
    monkeypatch.setattr(Splitter, "count", None)
    for _ in range(10):
        with pytest.raises(bpe.FormatError, match=r"text, offset 3000: byte 0xff is not UTF-8"):
            bpe.count_words(files=path, threads=threads)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_a_pipe_is_opened_once_and_read_to_its_end(tmp_path: Path) -> None:
    """All that is written to the pipe is counted, and the call returns when the writer closes it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = f"import bpe; print(bpe.count_words(files=[{os.fspath(pipe)!r}], pretokenizer='whitespace').total)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as reader:
        writer = subprocess.Popen(
            [sys.executable, "-c", f"open({os.fspath(pipe)!r}, 'wb').write(b'low lower ' * 100_000)"]
        )
        try:
            assert reader.communicate(timeout=120)[0] == "200000\n"
            assert writer.wait(timeout=120) == 0
        finally:
            reader.kill()
            writer.kill()
            writer.wait()


def test_invalid_bytes_are_counted_unchanged() -> None:
    assert dict(bpe.count_words(texts=[b"a\xff b\xff"], pretokenizer="whitespace").items()) == {
        b"a\xff": 1,
        b"b\xff": 1,
    }


# The class ----------------------------------------------------------------------------------------------------------


def test_update_and_most_common() -> None:
    counts = bpe.WordCounts()
    counts.update({"b": 2, b"a": 5, "é": 0})
    counts.update({"b": np.int64(3), "c": 1})
    assert list(counts.items()) == [(b"b", 5), (b"a", 5), ("é".encode(), 0), (b"c", 1)]
    assert counts.total == 11
    assert counts.most_common() == [(b"b", 5), (b"a", 5), (b"c", 1), ("é".encode(), 0)]
    assert counts.most_common(1) == [(b"b", 5)]
    assert counts.most_common(0) == []
    assert counts["b"] == counts[b"b"] == 5
    counts.add("b c")
    assert counts["b"] == 6
    assert counts.total == 13
    assert repr(counts) == "WordCounts(5 words, 13 in all, pretokenizer=Pretokenizer('gpt2'))"


def test_counts_are_read_as_a_mapping() -> None:
    counts = bpe.WordCounts("whitespace")
    assert (list(counts), dict(counts)) == ([], {})
    counts.add("b a b c")
    assert list(counts) == list(counts.keys()) == [b"b", b"a", b"c"]
    assert list(counts.values()) == [2, 1, 1]
    assert dict(counts) == {**counts} == dict(counts.items())
    assert sorted(counts) == [b"a", b"b", b"c"]
    assert [word in counts for word in ("a", b"a", "d")] == [True, True, False]
    with pytest.raises(TypeError, match="not reversible"):
        reversed(counts)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"word is 0, an int; it must be str or bytes \(most_common lists words"):
        counts[0]  # type: ignore[index]


def test_merge_equals_counting_both_corpora_in_order() -> None:
    one, two = bpe.count_words(texts=["b a b"]), bpe.count_words(texts=["c a b", "d"])
    before = list(two.items())
    one.merge(two)
    assert one == bpe.count_words(texts=["b a b", "c a b", "d"])
    assert list(two.items()) == before
    one |= one
    assert one == bpe.count_words(texts=["b a b", "c a b", "d"] * 2)


def test_in_place_merge_keeps_the_object() -> None:
    one = held = bpe.count_words(texts=["a"])
    one |= bpe.count_words(texts=["b"])
    assert one is held


@pytest.mark.parametrize(
    ("options", "name"),
    OTHER_SETTINGS,
)
def test_counts_with_other_settings_do_not_merge(options: dict[str, Any], name: str) -> None:
    own, given_counts = bpe.WordCounts(), bpe.WordCounts(**options)
    given_counts.update({"a": 1})
    with pytest.raises(
        ValueError,
        match=rf"were made with {name}=.*, these with .*; only counts made with the same settings can be merged",
    ):
        own.merge(given_counts)
    assert own != given_counts
    assert len(own) == 0


def test_merging_a_dict_is_refused() -> None:
    with pytest.raises(TypeError, match=r"\{'a': 1\} is a dict; only WordCounts merge \(update takes a mapping\)"):
        bpe.WordCounts().merge({"a": 1})  # type: ignore[arg-type]


def test_equality_and_copies() -> None:
    counts = bpe.count_words(
        texts=["low lower low é"], pretokenizer="clip", normalizer=[Lowercase()], special_tokens=["<s>"]
    )
    for other in (pickle.loads(pickle.dumps(counts)), copy.deepcopy(counts), copy.copy(counts)):
        assert other == counts
        other.add("more")
        assert other != counts
    assert counts != bpe.WordCounts("clip", [Lowercase()], ["<s>"])
    assert counts != 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(counts)


@pytest.mark.parametrize(
    ("mapping", "error", "message"),
    [
        ({"": 1}, ValueError, "word '' is empty; leave it out: a word is at least one character"),
        ({b"": 1}, ValueError, "word b'' is empty"),
        ({"a": -1}, ValueError, "the count of 'a' is -1; it must be at least 0"),
        ({"a": 1.0}, TypeError, "the count of 'a' is 1.0; it must be an int"),
        ({"a": True}, TypeError, "the count of 'a' is True; it must be an int"),
        ({"a": "1"}, TypeError, "the count of 'a' is '1'; it must be an int"),
        ({3: 1}, TypeError, "word 3 is an int; it must be str or bytes"),
        ({"a": 2**63 - 1}, ValueError, rf"the counts sum to {2**63}; the sum must be at most 2\*\*63 - 1"),
        ({"a": 2**62, "b": 2**62}, ValueError, "the counts sum to"),
        ([("a", 1)], TypeError, r"counts is \[\('a', 1\)\], a list; it must be a mapping of word to count"),
        ("a", TypeError, "counts is 'a', a str; it must be a mapping"),
    ],
)
def test_invalid_updates_add_nothing(mapping: Any, error: type[Exception], message: str) -> None:
    counts = bpe.WordCounts()
    if isinstance(mapping, dict):
        mapping = {"good": 1, **mapping}
    with pytest.raises(error, match=message):
        counts.update(mapping)
    assert len(counts) == counts.total == 0


def test_counts_up_to_the_limit() -> None:
    counts = bpe.WordCounts()
    counts.update({"a": 2**63 - 2, "b": 1})
    assert counts.total == 2**63 - 1
    with pytest.raises(ValueError, match="the counts sum to"):
        counts.update({"b": 1})
    with pytest.raises(ValueError, match="the counts sum to"):
        counts.merge(bpe.count_words(texts=["c"]))
    with pytest.raises(ValueError, match="the counts sum to"):
        counts |= counts
    assert counts.total == 2**63 - 1
    assert len(counts) == 2
    assert pickle.loads(pickle.dumps(counts)) == counts


@pytest.mark.parametrize("text", ["a", "b"])
def test_text_over_the_limit(text: str) -> None:
    """Adding or training raises an error if a count or the sum exceeds the limit; nothing wraps around."""
    counts = bpe.WordCounts()
    counts.update({"a": 2**63 - 1})
    with pytest.raises(ValueError, match=r"2\*\*63 - 1"):
        bpe.train(counts=counts, num_merges=1)
    with pytest.raises(ValueError, match=r"2\*\*63 - 1"):
        counts.add(text)
    assert counts["a"] == 2**63 - 1


# Files of counts ------------------------------------------------------------------------------------------------------


@examples(14)
@given(
    words=st.dictionaries(st.binary(min_size=1, max_size=20), st.integers(0, 2**50), max_size=10),
    pretokenizer=pretokenizers,
    normalizer=st.sampled_from([None, NFC(), [Lowercase(), Remove("x")]]),
    specials=st.sampled_from([(), ("<|x|>", "é")]),
)
def test_save_and_load(tmp_path_factory: Any, words: Any, pretokenizer: Any, normalizer: Any, specials: Any) -> None:
    path = tmp_path_factory.mktemp("counts") / "a.counts"
    counts = bpe.WordCounts(pretokenizer, normalizer, specials)
    counts.update(words)
    counts.save(path)
    again = bpe.WordCounts.load(path)
    assert again == counts
    assert list(again.items()) == list(counts.items())
    assert (again.pretokenizer, again.normalizer, again.special_tokens) == (
        counts.pretokenizer,
        counts.normalizer,
        specials,
    )


def test_file_is_compact(tmp_path: Path) -> None:
    counts = bpe.WordCounts()
    counts.update({f"w{i}": i % 200 for i in range(1000)})
    counts.save(tmp_path / "a.counts")
    assert (tmp_path / "a.counts").stat().st_size < 1000 * (4 + 2) + 500
    assert [path.name for path in tmp_path.iterdir()] == ["a.counts"]


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.counts"
    counts = bpe.count_words(texts=["low lower low é"])
    counts.save(str(path))
    good = path.read_bytes()
    random_ = random.Random(1)
    for size in range(len(good)):
        path.write_bytes(good[:size])
        with pytest.raises(bpe.FormatError, match=r"a\.counts"):
            bpe.WordCounts.load(path)
    for cut_position in range(len(good)):
        path.write_bytes(
            good[:cut_position] + bytes([good[cut_position] ^ 1 << random_.randrange(8)]) + good[cut_position + 1 :]
        )
        with pytest.raises(bpe.FormatError, match=r"a\.counts") as caught:
            bpe.WordCounts.load(path)
        assert caught.value.path == str(path)
    for data in (b"", b"{}", good + b"x"):
        path.write_bytes(data)
        with pytest.raises(bpe.FormatError):
            bpe.WordCounts.load(path)
    with pytest.raises(FileNotFoundError):
        bpe.WordCounts.load(tmp_path / "none")


def test_arrow() -> None:
    pa = pytest.importorskip("pyarrow")
    counts = bpe.WordCounts()
    counts.update({"low": 2, b"\xff": 3, "é": 0})
    table = counts.to_arrow()
    assert table.schema == pa.schema([("word", pa.large_binary()), ("count", pa.int64())])
    assert table.to_pylist()[1] == {"word": b"\xff", "count": 3}
    assert bpe.WordCounts.from_arrow(table) == counts


# Bad arguments ------------------------------------------------------------------------------------------------------


def test_invalid_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give exactly one of files= and texts="):
        bpe.count_words()
    with pytest.raises(ValueError, match="give exactly one of files= and texts="):
        bpe.count_words(files=[], texts=[])
    for text in ("abc", b"abc"):
        with pytest.raises(
            TypeError, match=rf"texts is one {type(text).__name__}; it must be an iterable of texts: \["
        ):
            bpe.count_words(texts=text)
    with pytest.raises(TypeError, match="texts is 3, an int; it must be an iterable of str or bytes"):
        bpe.count_words(texts=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="text 1 is 3, an int; it must be str or bytes"):
        bpe.count_words(texts=["a", 3])  # type: ignore[list-item]
    with pytest.raises(FileNotFoundError):
        bpe.count_words(files=[tmp_path / "none"])
    with pytest.raises(TypeError, match="file 3 is an int; it must be a path"):
        bpe.count_words(files=[3])  # type: ignore[list-item]
    with pytest.raises(FileNotFoundError, match="the directory has no files"):
        bpe.count_words(files=[tmp_path])
    with pytest.raises(ValueError, match="separator is ''; it must be at least one character, or None"):
        bpe.count_words(files=bpe.Sources([], separator=""))
    with pytest.raises(ValueError, match="threads is 0; it must be"):
        bpe.count_words(texts=[], threads=0)
    with pytest.raises(TypeError, match=r"threads is 1\.5, a float; it must be an int"):
        bpe.count_words(texts=[], threads=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="pretokenizer is 'nope'; it must be one of 'gpt2'"):
        bpe.count_words(texts=[], pretokenizer="nope")


def test_an_error_in_the_middle_is_raised() -> None:
    def texts() -> Any:
        yield "a " * 3_000_000
        yield "b " * 3_000_000
        raise OSError("the disk is gone")

    for threads in (1, 2):
        with pytest.raises(OSError, match="the disk is gone"):
            bpe.count_words(texts=texts(), threads=threads)


def test_files_from_an_iterator_are_counted_with_and_without_progress(tmp_path: Path) -> None:
    """An iterator of paths is consumed once, although progress also needs the files' sizes."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"low {name} low")
    paths = [tmp_path / "a", tmp_path / "b"]
    expected = bpe.count_words(files=paths)
    assert len(expected) == 4
    for progress in (False, True):
        assert bpe.count_words(files=iter(paths), progress=progress) == expected


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ({"l o w </w>": 5, "l o w e r </w>": 2}, "write 'low', and train with end_of_word='</w>'"),
        ({b"l o w </w>": 5, "</w>": 1}, "write 'low', and train with end_of_word='</w>'"),
        ({"l o w</w>": 5, "n e w</w>": 2}, "write 'low', and train with end_of_word='</w>', end_of_word_glued=True"),
        ({"h u g": 10, "p u g": 5, "x": 3}, "write 'hug'"),
        ({"한 국 </w>": 10}, "write '한국', and train with end_of_word='</w>'"),
    ],
)
def test_words_with_a_space_between_all_symbols_give_a_warning(words, instead, caplog):
    tok = bpe.train(counts={"low": 2}, num_merges=1, model="char")
    counts = bpe.WordCounts()
    for call in (
        lambda: bpe.train(counts=words, num_merges=1, model="char"),
        lambda: bpe.extend(tok, words, vocab_size=tok.vocab_size),
        lambda: counts.update(words),
    ):
        caplog.clear()
        call()
        warned = [record.getMessage() for record in caplog.records if "space" in record.getMessage()]
        assert len(warned) == 1
        assert warned[0].endswith("each space becomes a symbol too; " + instead)
    caplog.clear()
    counts.update(words)  # which logged the warning
    bpe.train(counts=counts, num_merges=1)
    assert not caplog.records
    assert counts.total == 2 * sum(words.values()), "the words are counted unchanged despite the warning"


@pytest.mark.parametrize(
    "words",
    [{" low": 1, "low": 2}, {"a b": 1, "more than symbols": 1}, {"  ": 1, "\n \n": 2, " a": 3}, {"a": 1}, {" ": 1}, {}],
)
def test_other_spaces_give_no_warning(words, caplog):
    bpe.WordCounts().update(words)
    assert not caplog.records


# Weights --------------------------------------------------------------------------------------------------------------


def test_weights_multiply_and_round_once() -> None:
    """Against exact arithmetic, with integers, fractions and floats, in 64 bits and beyond them."""
    rng = random.Random(3)
    weights: list[Any] = [
        1,
        3,
        np.int64(2),
        Fraction(1, 3),
        Fraction(7, 2),
        0.1,
        2.5,
        Fraction(10**20 + 1, 10**20),
        1e-3,
    ]
    for most in (9, 2**40, 2**61):
        for weight in weights:
            own, given_counts = bpe.WordCounts(None), bpe.WordCounts(None)
            own.update({"both": 2, "one": 1})
            words = {"both": rng.randint(1, most), "new": rng.randint(1, most), "rare": 1}
            given_counts.update(words)
            exact = Fraction(str(weight))  # also of a float: the decimal number
            products = {word: math.floor(count * exact + Fraction(1, 2)) for word, count in words.items()}
            expected = {"both": 2, "one": 1}
            for word, product in products.items():
                if product:
                    expected[word] = expected.get(word, 0) + product
            if sum(expected.values()) >= 2**63:
                with pytest.raises(ValueError, match="the sum must be at most"):
                    own.merge(given_counts, weight)
                continue
            own.merge(given_counts, weight)
            assert [(word.decode(), count) for word, count in own.items()] == list(expected.items())


@pytest.mark.parametrize("weight", [0, -1, 0.0, float("nan"), float("inf"), "2", True, None, Fraction(0)])
def test_wrong_weights_are_refused(weight: Any) -> None:
    counts = bpe.WordCounts()
    with pytest.raises((TypeError, ValueError), match="weight is"):
        counts.merge(bpe.WordCounts(), weight)


def test_counts_with_any_normalizer_load_in_a_new_process(tmp_path: Path) -> None:
    """The classes of normalizers are found by name, whatever was imported before."""
    kinds = [bpe.normalizers.Prepend("x"), bpe.normalizers.Nmt(), bpe.normalizers.NFC()]
    for index, normalizer in enumerate(kinds):
        bpe.count_words(texts=["low lower"], normalizer=normalizer).save(tmp_path / str(index))
    code = "import sys, bpe; print([bpe.WordCounts.load(path).normalizer for path in sys.argv[1:]])"
    paths = [str(tmp_path / str(index)) for index in range(len(kinds))]
    process = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == str(kinds)
