"""CLIP's tokenizer: OpenAI's ids, clean-up and its options, `tokenize`."""

from __future__ import annotations

import gzip
import importlib.util
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import reference
from conftest import only_errors_logged

import bpe
from bpe.normalizers import Lowercase

LIST = "bpe_simple_vocab_16e6.txt"
START, END = 49406, 49407
TEXTS = [
    "a photo of a cat",
    "Hello, world! 123 😊",
    "king",
    "",
    " ",
    "  Two\t\nspaces\u3000 and  more  ",
    "I'm you're IT'S we'LL they'd 'ſ don't",
    "R&amp;amp;B &lt;b&gt; &amp;lt; caf&eacute;",
    "CAFÉ ΑΣ ΟΔΟΣ ΑΣ. İstanbul ǅ",
    "한국어 日本語 العربية हिन्दी",
    "1234567890 ¼ ² Ⅷ ٣",
    "a<|startoftext|b <|endoftext ||> <endoftext>",
    "!!! ... -- __ #@$%",
    "x" * 500,
    "e\u0301 \u0301 a\u200bb \ufeff",
    "sâ€™il vous plaÃ®t â€œquotesâ€\x9d",
]


@pytest.fixture(scope="module")
def plain(shared_vocab: Callable[[str], Path]) -> reference.Clip:
    """The naive reference, with ftfy where it is installed."""
    repair = None
    if importlib.util.find_spec("ftfy"):
        import ftfy

        repair = ftfy.fix_text
    return reference.Clip(shared_vocab(LIST).read_text(encoding="utf-8").split("\n"), repair)


@pytest.fixture(scope="module")
def tok(shared_vocab: Callable[[str], Path]) -> Iterator[bpe.Tokenizer]:
    with only_errors_logged():
        yield bpe.Tokenizer.from_clip(shared_vocab(LIST))


def test_published_ids(tok: bpe.Tokenizer) -> None:
    assert tok.encode("a photo of a cat").tolist() == [320, 1125, 539, 320, 2368]
    assert tok.encode("Hello, world! 123 😊").tolist() == [3306, 267, 1002, 256, 272, 273, 274, 3020]
    assert tok.encode("king").tolist() == [674]
    rows, lengths = tok.clip_rows(["a photo of a cat"])
    assert rows[0, :8].tolist() == [START, 320, 1125, 539, 320, 2368, END, 0]
    assert lengths.tolist() == [7]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_ids_equal_the_naive_reference(tok: bpe.Tokenizer, plain: reference.Clip, text: str) -> None:
    expected = plain.encode(text)
    assert tok.encode(text).tolist() == expected
    assert tok.encode(text.encode()).tolist() == expected
    assert tok.tokens(text) == [tok.token_bytes(token_id) for token_id in expected]
    assert tok.count_tokens(text) == len(expected)


def test_tokenize_equals_the_naive_reference(tok: bpe.Tokenizer, plain: reference.Clip) -> None:
    texts = [*TEXTS, " ".join(TEXTS[:5] * 20)]
    for length in (77, 10, 2):
        rows, lengths = tok.clip_rows(texts, context_length=length, truncate=True)
        expected, true_lengths = plain.clip_rows(texts, length)
        assert rows.tolist() == expected
        assert lengths.tolist() == true_lengths
        assert rows.shape == (len(texts), length)
        assert np.issubdtype(rows.dtype, np.integer)


def test_tokenize_finds_the_two_special_tokens(tok: bpe.Tokenizer, plain: reference.Clip) -> None:
    """As in OpenAI's code, where the split pattern finds them, so not inside a run of other characters."""
    texts = ["a <|endoftext|> b", "<|STARTOFTEXT|>x", "!<|endoftext|>", "a<|endoftext|><|endoftext|>b", "<|endoftext|"]
    rows, lengths = tok.clip_rows(texts)
    expected, true_lengths = plain.clip_rows(texts)
    assert rows.tolist() == expected
    assert lengths.tolist() == true_lengths
    assert rows[0, 2] == END


def test_tokenize_defaults(tok: bpe.Tokenizer) -> None:
    rows, lengths = tok.clip_rows(["king", ""])
    assert rows.shape == (2, 77)
    assert rows[0, :4].tolist() == [START, 674, END, 0]
    assert rows[1, :3].tolist() == [START, END, 0]
    assert lengths.tolist() == [3, 2]
    row, length = tok.clip_rows("king")
    assert row.tolist() == rows[:1].tolist()
    assert length.tolist() == [3]
    empty, none = tok.clip_rows([])
    assert empty.shape == (0, 77)
    assert len(none) == 0


def test_truncation_keeps_start_and_end(tok: bpe.Tokenizer) -> None:
    text = "a photo of a cat " * 40
    rows, lengths = tok.clip_rows([text, "king"], context_length=8, truncate=True)
    assert rows[0].tolist() == [START, 320, 1125, 539, 320, 2368, 320, END]
    assert rows[1].tolist() == [START, 674, END, 0, 0, 0, 0, 0]
    assert lengths.tolist() == [8, 3]
    with pytest.raises(ValueError, match=r"(?s)text 1 .*202.*77.*truncate=True"):
        tok.clip_rows(["king", text])  # as OpenAI's


def test_words_end_with_the_mark(tok: bpe.Tokenizer) -> None:
    assert tok.tokens("king kings x") == [b"king</w>", b"kings</w>", b"x</w>"]
    assert tok.decode(tok.encode("A photo,  of 12")) == "a photo , of 1 2"
    assert tok.spec.end_of_word == "</w>"
    assert tok.token_id("king</w>") == tok.token_id(b"king</w>") == 674
    assert tok.token_bytes(674) == b"king</w>"


def test_special_tokens_are_text_by_default(tok: bpe.Tokenizer) -> None:
    text = "a <|endoftext|> b"
    ids = tok.encode(text).tolist()
    assert END not in ids
    assert tok.encode(text, allowed_special="all").tolist() == [tok.token_id("a</w>"), END, tok.token_id("b</w>")]
    assert tok.encode(text, allowed_special={"<|startoftext|>"}).tolist() == ids
    with pytest.raises(ValueError, match=r"disallowed special token '<\|endoftext\|>'"):
        tok.encode(text, disallowed_special="all")


def test_options_of_the_clean_up(shared_vocab: Callable[[str], Path], plain: reference.Clip) -> None:
    path = shared_vocab(LIST)
    without_clean_up = bpe.Tokenizer.from_clip(
        path, lowercase=False, clean_whitespace=False, unescape_html=False, ftfy=False
    )
    assert without_clean_up.normalizer is None
    assert without_clean_up.tokens("R&amp;B  X") == [b"R</w>", b"&</w>", b"amp</w>", b";</w>", b"B</w>", b"X</w>"]
    cased = bpe.Tokenizer.from_clip(path, lowercase=False, ftfy=False)
    assert cased.tokens("R&amp;amp;B") == [b"R</w>", b"&</w>", b"B</w>"]
    with_lowercase = bpe.Tokenizer.from_clip(path, clean_whitespace=False, unescape_html=False, ftfy=False)
    assert with_lowercase.normalizer in (Lowercase(final_sigma=True), with_lowercase.normalizer)
    assert with_lowercase.tokens("KING&lt;") == [b"king</w>", b"&</w>", b"lt</w>", b";</w>"]
    no_repair = bpe.Tokenizer.from_clip(path, ftfy=False)
    plain_without_clean_up = reference.Clip(path.read_text(encoding="utf-8").split("\n"))
    for text in TEXTS:
        assert no_repair.encode(text).tolist() == plain_without_clean_up.encode(text)
    assert len({tok.fingerprint for tok in (without_clean_up, cased, with_lowercase, no_repair)}) == 4


def test_ftfy_repairs_text(shared_vocab: Callable[[str], Path]) -> None:
    pytest.importorskip("ftfy")
    with_ftfy = bpe.Tokenizer.from_clip(shared_vocab(LIST), ftfy=True)
    assert with_ftfy == bpe.Tokenizer.from_clip(shared_vocab(LIST))
    assert with_ftfy.encode("plaÃ®t").tolist() == with_ftfy.encode("plaît").tolist()
    without_ftfy = bpe.Tokenizer.from_clip(shared_vocab(LIST), ftfy=False)
    assert without_ftfy.encode("plaÃ®t").tolist() != without_ftfy.encode("plaît").tolist()


def test_ftfy_is_optional_unless_required(
    shared_vocab: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By default, text is repaired if ftfy is installed, and otherwise a warning is logged; ftfy=True requires ftfy."""
    monkeypatch.setitem(sys.modules, "ftfy", None)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *args: None if name == "ftfy" else find(name, *args))
    with caplog.at_level(logging.WARNING, logger="bpe"):
        tok = bpe.Tokenizer.from_clip(shared_vocab(LIST))
    assert "ftfy is not installed" in caplog.text
    assert "bytepair[clip]" in caplog.text
    assert tok.encode("king").tolist() == [674]
    with pytest.raises(ModuleNotFoundError, match=r"bytepair\[clip\]"):
        bpe.Tokenizer.from_clip(shared_vocab(LIST), ftfy=True).encode("king")


def test_gzipped_lists_load(shared_vocab: Callable[[str], Path], tmp_path: Path, tok: bpe.Tokenizer) -> None:
    packed = tmp_path / f"{LIST}.gz"
    packed.write_bytes(gzip.compress(shared_vocab(LIST).read_bytes(), 1))
    assert bpe.Tokenizer.from_clip(packed) == tok


def test_save_and_load(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    tok.save(tmp_path / "clip.json")
    reloaded = bpe.Tokenizer.load(tmp_path / "clip.json")
    assert reloaded == tok
    for text in TEXTS:
        assert reloaded.encode(text).tolist() == tok.encode(text).tolist()
    rows, lengths = reloaded.clip_rows(TEXTS, truncate=True)
    expected = tok.clip_rows(TEXTS, truncate=True)
    assert np.array_equal(rows, expected[0])
    assert np.array_equal(lengths, expected[1])


def test_a_list_with_fewer_merges(tmp_path: Path) -> None:
    """A list with fewer merges makes a smaller vocabulary of the same structure."""
    path = tmp_path / "few.txt"
    path.write_text("#version: 0.2\nk i\nki n\nkin g</w>\n", encoding="utf-8")
    tok = bpe.Tokenizer.from_clip(path, ftfy=False)
    assert tok.vocab_size == 512 + 3 + 2
    assert tok.encode("king kin").tolist() == [514, 512, tok.token_id("n</w>")]
    assert tok.special_tokens == {"<|startoftext|>": 515, "<|endoftext|>": 516}
    rows, _ = tok.clip_rows(["king"], context_length=4)
    assert rows.tolist() == [[515, 514, 516, 0]]


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("h\na b c\n", "line 2", "'a b c' is not a merge; it must be two symbols separated by a space"),
        ("h\na b\nabc d\n", "line 3", "symbol 'abc' is not the result of an earlier merge"),
        ("h\na b\na b\n", "line 3", "'ab' is the result of two merges"),
        ("h\na</w> b\n", "line 2", "'a</w>' ends a word, so it cannot be a left part"),
        ("h\n\na b\n", "line 2", "'' is not a merge"),
    ],
)
def test_invalid_lists_are_refused(tmp_path: Path, text: str, where: str, message: str) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(bpe.FormatError, match=message) as error_info:
        bpe.Tokenizer.from_clip(path, ftfy=False)
    assert error_info.value.path == str(path)
    assert error_info.value.where == where


def test_damaged_lists_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt.gz"
    for data in (gzip.compress(b"h\na b\n")[:-9], b"\x1f\x8bnonsense", b"h\n\xff b\n"):
        path.write_bytes(data)
        with pytest.raises(bpe.FormatError, match="wrong"):
            bpe.Tokenizer.from_clip(path, ftfy=False)
    with pytest.raises(FileNotFoundError):
        bpe.Tokenizer.from_clip(tmp_path / "none.txt", ftfy=False)


def test_invalid_arguments_are_refused(tok: bpe.Tokenizer) -> None:
    with pytest.raises(ValueError, match="context_length is 1; it must be"):
        tok.clip_rows(["a"], context_length=1)
    with pytest.raises(TypeError, match=r"context_length is 7\.0, a float"):
        tok.clip_rows(["a"], context_length=7.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="text is 3, an int; it must be str or bytes"):
        tok.clip_rows(["a", 3])  # type: ignore[list-item]
    with pytest.raises(
        TypeError, match=r"not CLIP's; clip_rows is for one made by Tokenizer\.from_clip: use encode_batch"
    ):
        bpe.train(counts={"a": 1}, num_merges=0).clip_rows(["a"])
