"""Two-stage training for superwords gives the merges of its definition, and stock `tokenizers` gives the ids."""

from __future__ import annotations

import errno
import io
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import regex
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import bpe
from bpe.base.offsets import compute_offsets
from bpe.pretokenize.patterns import SUPERBPE_SECOND_STAGE, SUPERBPE_V2_SECOND_STAGE, SUPERBPE_V2_WORDS, SUPERBPE_WORDS
from bpe.training import encoded, extend
from bpe.training.superwords import SuperWords

pytestmark = pytest.mark.usefixtures("quiet")

WORDS = ["the", "end", "of", "a", "day", "in", "2024", "12345", "no", "end,", "day:", "of\tthe", "½3", "é"]


def corpus(seed: int) -> list[str]:
    """Documents of several lines, some of which repeat; the last line of some has no newline."""
    rng = random.Random(seed)
    lines = [
        " ".join(rng.choices(WORDS, k=rng.randint(0, 8))) + rng.choice(["\n", "\n", ".\n", "\n\n", " \n"])
        for _ in range(12)
    ]
    return ["".join(rng.choices(lines, k=rng.randint(1, 6))) + rng.choice(["", "the end"]) for _ in range(8)]


def lines_of(texts: list[str]) -> list[str]:
    """The lines of all texts, each with its newline."""
    return [line for text in texts for line in regex.findall(r"[^\n]*\n|[^\n]+", text)]


def pieces(lines: list[str], pattern: str | None, *, gaps: bool) -> list[bytes]:
    """What a pattern makes of each line: its matches and, with `gaps`, the text between them."""
    parts: list[str] = []
    for line in lines:
        if pattern is None:
            parts.append(line)
            continue
        at = 0
        for match in regex.finditer(pattern, line):
            parts += [line[at : match.start()]] * gaps + [match[0]]
            at = match.end()
        parts += [line[at:]] * gaps
    return [piece.encode() for piece in parts if piece]


def vetoed(token: bytes, max_words: int | None, forbidden: tuple[str, ...]) -> bool:
    """Whether stage 2 may not make a token."""
    words = [part for part in token.split(b" ") if part]
    return (max_words is not None and len(words) > max_words) or any(each.encode() in token for each in forbidden)


def trained(
    first: list[bytes], second: list[bytes], superwords: SuperWords, vocab_size: int
) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
    """Both stages by their definition: (merges, tokens in id order). Every pair is counted anew at each step."""
    alphabet = reference.gpt2_byte_order()
    one = reference.train(
        reference.count_words([reference.byte_word(word) for word in first]),
        vocab_size=superwords.transition,
        alphabet=alphabet,
    )
    tokens, merges = list(alphabet), []
    units = list(reference.count_words([reference.byte_word(unit) for unit in second]).items())
    for step in one.steps:
        pair = step.left, step.right
        if superwords.unused == "keep" or pair in reference.pair_counts(units):
            tokens.append(step.left + step.right)
            merges.append(pair)
        units = [(reference.merge_all(symbols, *pair), count) for symbols, count in units]
    ids = {token: token_id for token_id, token in enumerate(tokens)}
    while len(ids) < vocab_size:
        counts = {
            pair: count
            for pair, count in reference.pair_counts(units).items()
            if not vetoed(pair[0] + pair[1], superwords.max_words, superwords.forbidden)
        }
        if not counts:
            break
        max_count = max(counts.values())
        pair = min(
            (each for each in counts if counts[each] == max_count), key=lambda each: (ids[each[0]], ids[each[1]])
        )
        merges.append(pair)
        ids.setdefault(pair[0] + pair[1], len(ids))
        units = [(reference.merge_all(symbols, *pair), count) for symbols, count in units]
    return merges, list(ids)


def merges_of(tok: bpe.Tokenizer) -> list[tuple[bytes, bytes]]:
    vocab = {token_id: token for token, token_id in tok.vocab().items()}
    return [(vocab[left], vocab[right]) for left, right in tok.merges.tolist()]


KINDS: dict[str, Any] = {
    "lines": lambda **options: SuperWords(270, **options),
    "paper": lambda **options: SuperWords.paper(275, **options),
    "v2": lambda **options: SuperWords.v2(268, **options),
    "words": lambda **options: SuperWords(270, max_words=None, forbidden=(), **options),
    "short": lambda **options: SuperWords(264, max_words=1, forbidden=("e", "a "), **options),
}


@pytest.mark.parametrize("unused", ["keep", "drop"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_merges_are_those_of_the_definition(kind: str, unused: str, seed: int) -> None:
    superwords = KINDS[kind](unused=unused)
    texts = corpus(seed)
    tok = bpe.train(texts=texts, vocab_size=320, superwords=superwords)
    first, second = superwords.get_pretokenizer(1), superwords.get_pretokenizer(2)
    words = pieces(lines_of(texts), first.pattern, gaps=first.gaps == "keep")
    units = pieces(lines_of(texts), None if second is None else second.pattern, gaps=True)
    merges, tokens = trained(words, units, superwords, 320)
    assert merges_of(tok) == merges
    assert list(tok.vocab()) == tokens
    assert tok.pretokenizer == second


def test_the_papers_patterns_are_two_steps_of_tokenizers() -> None:
    """Digits, then a Split, as the published tokenizers have them, cut text as the one pattern of each stage does."""
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import pre_tokenizers as steps

    groups = r"(?=(\d{3})+(?!\d))"
    words = groups + r"| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    superwords = SuperWords.paper(300)
    texts = [line for seed in range(20) for line in corpus(seed)]
    texts += ["a  1", "  12 345", "1234567½", "²³ 12345678 ٣٤٥٦", "x1000\n\n 1", "...  ,1,000.5", "\u3000 9", " 1  "]
    for stage, pattern in ((1, words), (2, groups)):
        split = steps.Sequence(
            [steps.Digits(individual_digits=False), steps.Split(tokenizers.Regex(pattern), "isolated")]
        )
        ours = superwords.get_pretokenizer(stage)
        assert ours is not None
        for text in texts:
            assert ours.split(text) == [piece for piece, _ in split.pre_tokenize_str(text)]


@examples(7)
@given(texts=st.lists(st.text(st.sampled_from("aB éßǅ日1٣½ \t\r\n\u3000.,/-'\u0301\U0001f600\U00011f51"), min_size=1)))
def test_the_units_scanner_finds_what_the_patterns_match(texts: list[str]) -> None:
    """Also of texts that lie end to end, where digits meet."""
    datas = [text.encode() for text in texts]
    offsets = compute_offsets([len(data) for data in datas])
    for pattern in (SUPERBPE_WORDS, SUPERBPE_SECOND_STAGE, SUPERBPE_V2_WORDS, SUPERBPE_V2_SECOND_STAGE):
        pretokenizer = bpe.Pretokenizer.from_regex(pattern, gaps="keep")
        spans = zip(*pretokenizer.find_spans_of_texts(b"".join(datas), offsets[:-1], offsets[1:]), strict=True)
        expected = []
        for data, start in zip(datas, offsets, strict=False):
            first, last = pretokenizer.find_spans_by_regex(data)
            expected += list(zip(first + start, last + start, strict=True))
        assert sorted(spans) == expected


@pytest.mark.parametrize("kind", ["lines", "paper", "v2"])
def test_tokenizers_gives_the_ids_of_the_saved_file(kind: str, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    texts = corpus(3)
    tok = bpe.train(texts=texts, vocab_size=330, superwords=KINDS[kind]())
    tok.save(tmp_path / "tokenizer.json")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in [*texts, *corpus(4), "", "  1234567 :  of the end, no"]:
        assert tok.encode(text).tolist() == theirs.encode(text, add_special_tokens=False).ids
    assert bpe.Tokenizer.load(tmp_path / "tokenizer.json") == tok
    assert any(b" " in token.strip() for token in tok.vocab())


def test_files_texts_and_counts_give_the_same_tokenizer(tmp_path: Path) -> None:
    """A separator may contain newlines: documents are divided before lines are."""
    texts = [text.rstrip("\n") or "x" for text in corpus(5)]
    superwords = SuperWords.v2(270)
    expected = bpe.train(texts=texts, vocab_size=310, superwords=superwords, threads=1)
    for i, separator in enumerate(["<|end|>", "\n--\n"]):
        path = tmp_path / f"{i}.txt"
        path.write_text(separator.join(texts), newline="")
        for threads in (1, 2):
            again = bpe.train(
                files=bpe.Sources(path, separator=separator), vocab_size=310, superwords=superwords, threads=threads
            )
            assert again == expected
        first, second = (
            superwords.count_words(stage, files=bpe.Sources(path, separator=separator)) for stage in (1, 2)
        )
        assert bpe.train(counts=(first, second), vocab_size=310, superwords=superwords) == expected
    assert bpe.train(texts=texts, vocab_size=310, superwords=superwords, max_memory="2G") == expected


def test_blocks_end_between_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is read in many blocks has the units of one that is read at once."""
    from bpe.corpus import reading

    path = tmp_path / "corpus.txt"
    path.write_text("<|end|>".join(corpus(seed)[0] for seed in range(60)), newline="")
    superwords = SuperWords(280)
    sources = bpe.Sources(path, separator="<|end|>")
    counts = [superwords.count_words(2, files=sources, special_tokens=["the end"])]
    monkeypatch.setattr(reading, "MAX_READ", 64)
    monkeypatch.setattr(reading, "MIN_READ", 64)
    counts.append(superwords.count_words(2, files=sources, special_tokens=["the end"], threads=2))
    assert counts[0] == counts[1]
    assert all(b"\n" not in unit[:-1] for unit, _ in counts[0].items())


def test_an_interrupted_training_resumes(tmp_path: Path) -> None:
    texts = corpus(6)
    superwords = SuperWords(270)
    options: dict[str, Any] = {"texts": texts, "vocab_size": 310, "superwords": superwords}
    expected = bpe.train(**options)

    for stop_at in (5, 25):
        path = tmp_path / f"{stop_at}.ckpt"
        done = 0

        def stop(step: int, *_: object) -> None:
            nonlocal done
            done += 1
            if done == stop_at:  # noqa: B023
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            bpe.train(**options, checkpoint=path, on_merge=stop)
        assert bpe.train(**options, checkpoint=path) == expected
        with pytest.raises(ValueError, match="superwords"):
            bpe.train(**options | {"superwords": SuperWords(271)}, checkpoint=path)


def test_special_tokens_come_first_and_divide_text() -> None:
    texts = [text + "<|end|>" + text for text in corpus(7)]
    tok = bpe.train(texts=texts, vocab_size=310, special_tokens=["<|end|>"], superwords=SuperWords(270))
    assert tok.special_tokens == {"<|end|>": 0}
    assert not any(b"<|end|>" in token[1:] for token in tok.vocab())
    assert tok.decode(tok.encode(texts[0], allowed_special="all")) == texts[0]


def test_extend_learns_superwords() -> None:
    texts = corpus(8)
    superwords = SuperWords(270)
    lines = bpe.train(texts=lines_of(texts), vocab_size=270, pretokenizer="gpt2")
    units = superwords.count_words(2, texts=texts)
    assert bpe.extend(lines, units, 310, superwords=superwords) == bpe.train(
        texts=texts, vocab_size=310, superwords=superwords
    )


def test_wrong_arguments_are_refused() -> None:
    texts = ["the end of the day\n"]
    for options, error, message in (
        ({"superwords": 300}, TypeError, "bpe.SuperWords"),
        ({"superwords": SuperWords(400)}, ValueError, "transition, 400; it is 300"),
        ({"superwords": SuperWords(270), "model": "char"}, ValueError, "byte models"),
        ({"superwords": SuperWords(270), "texts": iter(texts)}, TypeError, "only once"),
        ({"superwords": SuperWords(270), "texts": None, "counts": {"a": 1}}, TypeError, "tuple of two"),
    ):
        with pytest.raises(error, match=message):
            bpe.train(**{"texts": texts, "vocab_size": 300, **options})  # type: ignore[arg-type]
    first, second = (SuperWords(270).count_words(stage, texts=texts) for stage in (1, 2))
    for pair in ((second, first), (first, first)):
        with pytest.raises(ValueError, match="the counts were made with pretokenizer"):
            bpe.train(counts=pair, vocab_size=300, superwords=SuperWords(270))
    other = SuperWords(270).count_words(2, texts=texts, normalizer="nfc")
    with pytest.raises(ValueError, match="those of stage 2 with"):
        bpe.train(counts=(first, other), vocab_size=300, superwords=SuperWords(270))
    for wrong in ({"transition": 0}, {"max_words": 0}, {"forbidden": ("",)}, {"unused": "maybe"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            SuperWords(**{"transition": 300, **wrong})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="forbidden"):
        SuperWords(300, forbidden=": ")  # type: ignore[arg-type]


def test_the_command_line_equals_the_library(tmp_path: Path) -> None:
    from bpe.cli import main

    texts = [text.rstrip("\n") or "x" for text in corpus(9)]
    path, out = tmp_path / "corpus.txt", tmp_path / "tokenizer.json"
    path.write_text("<|end|>".join(texts), newline="")
    given = ["train", str(path), "--separator", "<|end|>", "--quiet", "--vocab-size", "300", "-o", str(out)]
    assert main([*given, "--superwords", "270"]) == 0
    assert bpe.Tokenizer.load(out) == bpe.train(texts=texts, vocab_size=300, superwords=SuperWords(270))


@pytest.mark.parametrize("unused", ["keep", "drop"])
@pytest.mark.parametrize("alphabet", [None, "corpus"])
def test_units_encoded_in_groups_have_the_same_ids(monkeypatch: pytest.MonkeyPatch, alphabet: Any, unused: Any) -> None:
    """How many units are encoded together changes nothing."""
    texts = corpus(10)
    first, second = (SuperWords(270).count_words(stage, texts=texts) for stage in (1, 2))
    second.add("a unit \xff of other bytes\n")
    options: dict[str, Any] = {
        "counts": (first, second),
        "vocab_size": 330,
        "superwords": SuperWords(270, unused=unused),
        "alphabet": bpe.Alphabet(alphabet),
    }
    made = []
    for group in (1, 100, 1 << 22):
        monkeypatch.setattr(encoded, "GROUP_BYTES", group)
        made += [bpe.train(**options, threads=threads) for threads in (1, 2)]
    assert all(tok == made[0] for tok in made)


@pytest.mark.parametrize("whole_lines", [False, True])
def test_encoded_groups_are_the_ids_of_each_word(monkeypatch: pytest.MonkeyPatch, whole_lines: bool) -> None:
    """Lines are encoded in pieces, unless merges reach across words from the first on; a byte may have no token."""
    monkeypatch.setattr(encoded, "GROUP_BYTES", 50)
    texts = corpus(3)
    pretokenizer = None if whole_lines else "gpt2"
    tok = bpe.train(texts=texts, vocab_size=300, pretokenizer=pretokenizer, alphabet=bpe.Alphabet(initial="corpus"))
    tok = bpe.Tokenizer(replace(tok.spec, pretokenizer=None))
    engine = tok._engine
    words = [*(line.encode() for line in lines_of(texts)), b"the \xff end", b"x" * 200]
    offsets = np.concatenate([[0], np.cumsum([len(word) for word in words])])
    ids: list[int] = []
    lengths: list[int] = []
    for group_ids, bounds in encoded.encode_in_groups(tok.spec, np.frombuffer(b"".join(words), np.uint8), offsets, 2):
        ids += group_ids.tolist()
        lengths += np.diff(bounds).tolist()
    alone = [engine.encode_words(np.frombuffer(word, np.uint8), np.array([0, len(word)])).ids for word in words]
    expected = [each.tolist() for each in alone]
    assert [len(each) for each in expected] == lengths
    assert [token_id for each in expected for token_id in each] == ids
    assert expected[:-2] == [tok.encode(word).tolist() for word in words[:-2]]
    assert list(encoded.encode_in_groups(tok.spec, np.empty(0, np.uint8), np.zeros(1, np.int64))) == []


# Encoded words that do not fit in memory ------------------------------------------------------------------------------


def test_encoded_words_go_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory is limited, stage 2 maps its tokens from a temporary file; the tokenizer is the same."""
    rng, mapped = random.Random(5), []
    texts = ["".join(rng.choices("abcdefgh ", k=60)) + "\n" for _ in range(4000)] * 2
    options: dict[str, Any] = {"texts": texts, "vocab_size": 290, "superwords": SuperWords(270), "threads": 2}
    expected = bpe.train(**options)
    whole = encoded.ArraySpool.take_all

    def spied(spool: encoded.ArraySpool) -> Any:
        result = whole(spool)
        mapped.append((result[1], len(result[0])))
        return result

    monkeypatch.setattr(encoded.ArraySpool, "take_all", spied)
    assert bpe.train(**options, max_memory="8G") == expected
    monkeypatch.setattr(extend, "measure_memory", lambda: 1 << 40)
    assert bpe.train(**options, max_memory="8G") == expected
    assert [each for each, _ in mapped] == [False, True]
    assert mapped[0][1] == mapped[1][1] > 4 << 17  # so much that pages are let go meanwhile


@pytest.mark.parametrize("max_bytes", [None, 0, 20, 1000])
def test_token_numbers_are_joined(max_bytes: int | None) -> None:
    parts = [np.arange(n, dtype=np.uint32) for n in (3, 0, 5, 1)]
    numbers = encoded.ArraySpool(max_bytes)
    for part in parts:
        numbers.append(part)
    blob, mapped = numbers.take_all()
    assert blob.tobytes() == b"".join(part.tobytes() for part in parts)
    assert mapped == (max_bytes is not None and max_bytes < 36)


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: Full())
    with pytest.raises(OSError, match="for a temporary file of encoded words; set TMPDIR to use another folder"):
        encoded.ArraySpool(0).append(np.zeros(1, dtype=np.uint32))
