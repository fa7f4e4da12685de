"""Limits for user patterns: how large a pattern may be, how long it may run, and that limits change no result."""

from __future__ import annotations

import json
import math
import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import bpe
from bpe import normalizers
from bpe.formats.huggingface import read, write
from bpe.text import matching

SLOW = r"(a|a)+b"


@pytest.mark.parametrize(
    "pattern",
    [
        "((a{1000}){1000}){1000}",
        "(?:(?:a?){600}){600}",
        "a{9999999999999999999999}",
        "(?x)(a{1000}) {1000}",
        "(" * 20_000,
        "(?:" * 200 + "a" + ")" * 200,
        "a" * 300_000,
        "(a{600})(?#x){600}",
        "(?x)(?:#)\n(?:a{600})){600}",
        "(?V1)(?:[[^b])]x{1000}){1000}",
    ],
)
def test_patterns_too_large_to_compile_are_refused(pattern):
    with pytest.raises(ValueError, match=r"the limit is|does not compile"):
        bpe.Pretokenizer.from_regex(pattern)
    with pytest.raises(ValueError, match=r"the limit is|does not compile"):
        normalizers.Replace(pattern)
    tok = json.loads(write(bpe.train(texts=["a"], vocab_size=256, pretokenizer=bpe.Pretokenizer.from_regex("^a")).spec))
    for step in tok["pre_tokenizer"]["pretokenizers"][:1]:
        step["pattern"] = pattern
    with pytest.raises(bpe.FormatError, match=r"pre_tokenizer\.pretokenizers\[0\]"):
        read(json.dumps(tok).encode())


@examples(45)
@given(
    st.recursive(
        st.sampled_from([("a", 1), ("[ab{9}]", 1), (r"\p{L}", 4), (r"\{", 1), (".", 1)]),
        lambda inner: (
            st.lists(inner, max_size=3).map(lambda some: ("".join(p for p, _ in some), sum(n for _, n in some)))
            | st.tuples(inner, st.integers(0, 99)).map(
                lambda pair: (f"(?:{pair[0][0]}){{{pair[1]}}}", (pair[0][1] + 2) * max(pair[1], 1))
            )
            | st.tuples(inner, st.integers(1, 99)).map(
                lambda pair: (f"({pair[0][0]}){{1,{pair[1]}}}", pair[0][1] * pair[1])
            )
        ),
        max_leaves=8,
    )
)
def test_pattern_size_equals_the_count_of_its_generated_items(built):
    pattern, items = built
    assert matching.measure_pattern(pattern)[0] == items


def test_no_published_pattern_is_too_large():
    for name in bpe.pretokenize.pretokenizer.NAMES:
        assert matching.measure_pattern(bpe.Pretokenizer(name).pattern)[0] < 1000


def test_matching_beyond_the_timeout_raises():
    slow = bpe.Pretokenizer.from_regex(SLOW, timeout=0.05)
    tok = bpe.train(texts=["aab"], vocab_size=256, pretokenizer=slow)
    text = "a" * 60
    for call in (
        lambda: slow.split(text),
        lambda: tok.encode(text),
        lambda: tok.encode_batch([text]),
        lambda: tok.encode_with_offsets(text),
        lambda: tok.tokens(text),
        lambda: list(tok.encode_stream([text])),
        lambda: bpe.count_words(texts=[text], pretokenizer=slow),
        lambda: normalizers.Replace(SLOW, "c", timeout=0.05)(text),
        lambda: normalizers.Replace(SLOW, "c", timeout=0.05).align(text),
    ):
        with pytest.raises(TimeoutError, match=r"took more than 0\.05 s on a text of 60 characters"):
            call()


def test_a_timeout_affects_neither_equality_nor_results():
    pattern = bpe.Pretokenizer.from_regex(SLOW)
    longer = pattern.with_timeout(60)
    assert pattern.with_timeout(10**400).timeout == math.inf
    assert (pattern.timeout, longer.timeout, pattern.with_timeout(math.inf).timeout) == (None, 60.0, math.inf)
    assert longer == pattern
    assert hash(longer) == hash(pattern)
    assert pickle.loads(pickle.dumps(longer)).timeout == 60.0
    assert pickle.loads(pickle.dumps(bpe.Pretokenizer("gpt2").with_timeout(5))).timeout == 5.0
    assert longer.split("aab") == pattern.split("aab") == pattern.with_timeout(math.inf).split("aab") == ["aab"]
    quick, patient = (
        bpe.train(texts=["aab b"], vocab_size=258, pretokenizer=pretokenizer) for pretokenizer in (pattern, longer)
    )
    assert quick.fingerprint == patient.fingerprint
    assert "timeout" not in json.dumps(patient.pretokenizer.to_json())
    replace = normalizers.Replace("a", "b", timeout=3)
    assert replace == normalizers.Replace("a", "b")
    assert replace.to_json() == {"type": "Replace", "pattern": "a", "replacement": "b"}
    assert pickle.loads(pickle.dumps(replace)).timeout == 3.0
    for timeout in (0, -1, math.nan):
        with pytest.raises(ValueError, match="more than 0"):
            bpe.Pretokenizer.from_regex("a", timeout=timeout)
    with pytest.raises(TypeError, match="number of seconds"):
        bpe.Pretokenizer.from_regex("a", timeout="1")


def test_a_loaded_tokenizer_takes_another_timeout():
    """All patterns of a tokenizer count together: those of its steps and of its normalizer."""
    steps = bpe.pretokenizers.Split("b"), bpe.pretokenizers.Split(SLOW)
    replacing = normalizers.Sequence("nfc", normalizers.Replace(SLOW, "c"))
    for option in ({"pretokenizer": steps}, {"normalizer": replacing}):
        tok = read_again(bpe.train(texts=["aab"], vocab_size=257, **option))
        quick = bpe.Tokenizer(tok.spec, timeout=0.1)
        assert quick == tok
        assert quick.fingerprint == tok.fingerprint
        assert quick.encode("aab").tolist() == tok.encode("aab").tolist()
        for tokenizer in (quick, pickle.loads(pickle.dumps(quick))):
            with pytest.raises(TimeoutError, match=r"took more than 0\.\d+ s"):
                tokenizer.encode("a" * 60)
        assert bpe.Tokenizer(quick.spec, timeout=math.inf).encode("aab").tolist() == tok.encode("aab").tolist()
    plain = bpe.train(texts=["aab"], vocab_size=257, pretokenizer=None)
    assert bpe.Tokenizer(plain.spec, timeout=1) == plain
    for tokenizer in (tok, plain):
        with pytest.raises(ValueError, match="more than 0"):
            bpe.Tokenizer(tokenizer.spec, timeout=0)


def read_again(tok: bpe.Tokenizer) -> bpe.Tokenizer:
    """The tokenizer that its tokenizer.json holds."""
    return bpe.Tokenizer(read(write(tok.spec)))


class Load:
    """Clocks of a process whose other threads are busy.

    `regex` counts the time of all threads, `speed` seconds for each second of this thread; `wall` seconds pass.
    """

    def __init__(self, monkeypatch, speed, wall):
        self.speed, self.wall, self.used, self.calls = speed, wall, 100.0, 0
        monkeypatch.setattr(time, "thread_time", lambda: self.used)
        monkeypatch.setattr(time, "process_time", lambda: 100.0 + (self.used - 100.0) * speed)
        monkeypatch.setattr(time, "monotonic", lambda: self.used * self.wall)

    def match(self, seconds):
        """A match that takes seconds of this thread."""

        def found(timeout):
            self.calls += 1
            self.used += min(seconds, timeout / self.speed)
            if seconds * self.speed > timeout:
                raise TimeoutError
            return "found"

        return found


@pytest.mark.parametrize("speed", [1.0, 1.7, 8.0, 64.0])
@pytest.mark.parametrize("wall", [1.0, 30.0])
def test_only_the_time_of_the_thread_counts(monkeypatch, speed, wall):
    """Whatever other threads do, matching succeeds within the limit, and no later."""
    for seconds in (0.01, 1.2, 8.5, 9.99, 10.01, 15.0, 1000.0):
        load = Load(monkeypatch, speed, wall)
        if seconds < 10:
            assert matching.run_within_time("a", "aa", 10.0, load.match(seconds)) == "found"
        else:
            with pytest.raises(TimeoutError, match=r"pattern 'a' took more than 10 s on a text of 2 characters, 'aa'"):
                matching.run_within_time("a", "aa", 10.0, load.match(seconds))
        assert load.calls < 9


@pytest.mark.parametrize("speed", [1.0, 1.7, 8.0])
@pytest.mark.parametrize("wall", [1.0, 30.0])
def test_pieces_of_a_text_have_one_limit(monkeypatch, speed, wall):
    for seconds, n_pieces in ((0.001, 6000), (0.6, 9), (2.0, 3), (4.0, 2)):
        load = Load(monkeypatch, speed, wall)
        deadline = matching.Deadline(5.0, 10)
        allowed = int(4.94 / seconds)
        for _ in range(min(allowed, n_pieces)):
            assert deadline.run("a", "aa", load.match(seconds)) == "found"
        with pytest.raises(TimeoutError, match=r"more than 5 s on a part of 2 characters of a text of 10 characters"):
            [deadline.run("a", "aa", load.match(seconds)) for _ in range(n_pieces)]


def test_waiting_takes_nothing_of_the_limit(monkeypatch):
    """A thread that waits for others, while the clock goes on, has its whole limit left."""
    load = Load(monkeypatch, 1.0, 1.0)
    deadline = matching.Deadline(5.0, 2)
    monkeypatch.setattr(time, "monotonic", lambda: load.used + 1000.0)
    assert deadline.run("a", "aa", load.match(4.9)) == "found"


def test_limits_without_an_end(monkeypatch):
    """The `regex` package times out at once where its own clock cannot count to the limit."""
    limits = []
    for limit in (math.inf, 1e300, 2e9):
        assert matching.run_within_time("a", "aa", limit, limits.append) is None
    assert limits == [None] * 3


def test_nested_json_is_refused():
    for data in (b"[" * 100_000, b'{"a":' * 100_000, b'{"model": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"):
        with pytest.raises(bpe.FormatError):
            read(data)


@pytest.mark.parametrize("pattern", [r"(?r)\w+", r"(?i:(?r)\w+)", r"x|(?r:\w+)", r"(?V1r)[a--b]+", r"a(?rx) b"])
def test_patterns_that_search_from_right_to_left_are_refused(pattern: str) -> None:
    """Their matches come in descending order, which kernels read out of bounds."""
    for make in (bpe.Pretokenizer.from_regex, bpe.normalizers.Replace, matching.compile_pattern):
        with pytest.raises(ValueError, match=r"searches from right to left.* remove the flag \(\?r\)"):
            make(pattern)


@pytest.mark.parametrize("pattern", [r"(?=abc\K)", r"a|(?<=\Ka)b", r"a(?=b\K)", r"(?<=(\K.*))b|b"])
def test_matches_that_overlap_are_refused(pattern: str) -> None:
    r"""`\K` in a look-around moves the start of a match anywhere, and some are found endlessly."""
    replace = bpe.normalizers.Replace(pattern, "-")
    for gaps in ("drop", "keep"):
        with pytest.raises(ValueError, match="without overlaps"):
            bpe.Pretokenizer.from_regex(pattern, gaps=gaps).split("abcab")
    with pytest.raises(ValueError, match="without overlaps"):
        replace("abcab")


def test_the_start_of_a_match_may_be_moved_forward() -> None:
    pretokenizer = bpe.Pretokenizer.from_regex(r"a\K.|\\K", gaps="keep")
    assert pretokenizer.split("xabcab\\K") == ["xa", "b", "ca", "b", "\\K"]
    assert bpe.normalizers.Replace(r"a\Kb", "-")("xabcab") == "xa-ca-"
