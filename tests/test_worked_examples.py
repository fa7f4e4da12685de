"""The published results that this project must reproduce: every merge, count, token and id of worked examples A to F.

The merges with their counts, the tokens and the ids come from the library's public calls. The library does not return
the counts of all pairs before the first merge: the naive oracle computes these, and the library's first merge must have
the highest count.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import reference
from options import from_reference_options

import bpe
from bpe.normalizers import Remove

MERGES = list[tuple[str, int]]


def trained(**options: Any) -> tuple[bpe.Tokenizer, MERGES]:
    """A tokenizer, and its merges as worked_examples.md writes them: "a+b" and the count."""
    merges: MERGES = []

    def on_merge(step: int, left: Any, right: Any, token: Any, count: int) -> None:
        assert step == len(merges) + 1
        assert token == left + right
        plus = "+" if isinstance(left, str) else b"+"
        merges.append((left + plus + right, count))

    return bpe.train(**from_reference_options(**options), on_merge=on_merge), merges


def pair_counts(words: dict[tuple[str, ...], int]) -> dict[str, int]:
    return {f"{left}{right}": count for (left, right), count in reference.pair_counts(words.items()).items()}


def tokens_by_id(tok: bpe.Tokenizer) -> list[Any]:
    """The vocabulary in id order; its ids must have no gaps."""
    tokens = sorted(tok.vocab().items(), key=lambda item: item[1])
    assert [number for _, number in tokens] == list(range(tokens[0][1], tokens[0][1] + len(tokens)))
    assert len(tokens) == tok.vocab_size
    return [token for token, _ in tokens]


# A --------------------------------------------------------------------------------------------------------------------

A_SENTENCES = {"low lower": 2, "low new newest": 4, "widest new": 3, "lower new widest": 5}
A_WORDS = {"low": 6, "lower": 7, "new": 12, "newest": 4, "widest": 8}
A_OPTIONS: dict[str, Any] = {"model": "char", "tie_break": "smallest", "first_id": 1, "vocab_size": 12}


def test_a_words() -> None:
    texts = [sentence for sentence, count in A_SENTENCES.items() for _ in range(count)]
    counts = bpe.count_words(texts=texts, pretokenizer="whitespace")
    assert {word.decode(): count for word, count in counts.items()} == A_WORDS


def test_a_pair_counts() -> None:
    counts = pair_counts({tuple(word): count for word, count in A_WORDS.items()})
    assert counts == {
        "lo": 13,
        "ow": 13,
        "we": 11,
        "er": 7,
        "ne": 16,
        "ew": 16,
        "es": 12,
        "st": 12,
        "wi": 8,
        "id": 8,
        "de": 8,
    }


@pytest.mark.parametrize("source", ["counts", "texts"])
def test_a(source: str) -> None:
    texts = [sentence for sentence, count in A_SENTENCES.items() for _ in range(count)]
    given = {"counts": A_WORDS} if source == "counts" else {"texts": texts}
    tok, merges = trained(**given, **A_OPTIONS)
    assert merges == [("e+w", 16), ("n+ew", 16)]
    assert tokens_by_id(tok) == [*"deilnorstw", "ew", "new"]
    assert tok.vocab_size == 12
    assert tok.encode("d ew e i new").tolist() == [1, 11, 2, 3, 12]
    assert tok.tokens("dei") == ["d", "e", "i"]
    assert tok.tokens("lon") == ["l", "o", "n"]
    assert tok.spec.end_of_word is None


# B --------------------------------------------------------------------------------------------------------------------

B_TEXTS = [
    (
        "이 영화를 영화관에서 직접 보지 못한 것을 평생 후회할 것 같다.\n"
        "보는 내내 감탄을 자아냈고 절대 잊지 못할 여운으로 남을 것이다."
    ),
    "평점이 이해되지 않는다 최소 9점은 받아야 한다 반전이 정말 끝내준다",
    "말로 표현할 수 없다 완벽한 영화 보는 내내 소름이 돋았다",
]
B_MERGES = """
    다+</w> (7), 이+</w> (4), 영+화 (3), 지+</w> (3), 을+</w> (3), 할+</w> (3), 한+</w> (2), 보+는 (2), 보는+</w> (2),
    내+내 (2), 내내+</w> (2), 로+</w> (2), 영화+를 (1), 영화를+</w> (1), 영화+관 (1), 영화관+에 (1), 영화관에+서 (1),
    영화관에서+</w> (1), 직+접 (1), 직접+</w> (1)
"""


def korean() -> tuple[bpe.Tokenizer, MERGES]:
    return trained(
        texts=B_TEXTS,
        num_merges=20,
        model="char",
        normalizer=Remove(r"[^가-힣\s]"),
        pretokenizer="whitespace",
        end_of_word="</w>",
        tie_break="first",
    )


def test_b_words_and_pair_counts() -> None:
    counts = bpe.count_words(texts=B_TEXTS, pretokenizer="whitespace", normalizer=Remove(r"[^가-힣\s]"))
    words = {word.decode(): count for word, count in counts.items()}
    assert "점은" in words
    assert "같다" in words
    assert "것이다" in words
    pairs = pair_counts({reference.char_word(word, "</w>"): count for word, count in words.items()})
    expected = {"다</w>": 7, "이</w>": 4, "영화": 3, "지</w>": 3, "을</w>": 3, "보는": 2}
    assert {pair: pairs[pair] for pair in expected} == expected


def test_b_merges() -> None:
    tok, merges = korean()
    listed = [item.rsplit(" ", 1) for item in " ".join(B_MERGES.split()).split(", ")]
    assert merges == [(pair, int(count.strip("()"))) for pair, count in listed]
    assert len(merges) == 20
    assert tok.spec.training is not None
    assert tok.spec.training.stopped is None


def test_b_words_after_merging() -> None:
    tok, _ = korean()
    for word in ("이", "영화를", "영화관에서", "직접", "보는", "내내"):
        assert tok.tokens(word) == [word + "</w>"]
    assert tok.tokens("보지") == ["보", "지</w>"]
    assert tok.tokens("것을") == ["것", "을</w>"]
    assert tok.tokens("자아냈고") == ["자", "아", "냈", "고", "</w>"]
    assert tok.tokens("영화") == ["영화", "</w>"]


def test_b_final_vocabulary() -> None:
    """The symbols of all words, with the count of each in the corpus."""
    tok, _ = korean()
    symbols = Counter(token for text in B_TEXTS for token in tok.tokens(text))
    expected = {"다</w>": 7, "</w>": 10, "이</w>": 4, "지</w>": 3, "것": 3, "보는</w>": 2, "이": 2, "영화": 1}
    assert {symbol: symbols[symbol] for symbol in expected} == expected
    counts = bpe.count_words(texts=B_TEXTS, pretokenizer="whitespace", normalizer=Remove(r"[^가-힣\s]"))
    oracle = reference.train(
        {reference.char_word(word.decode(), "</w>"): count for word, count in counts.items()},
        num_merges=20,
        tie_break="first",
    )
    assert symbols == Counter(symbol for word, count in oracle.words for symbol in word * count)


# C --------------------------------------------------------------------------------------------------------------------

C_TEXT = " ".join(["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3)
C_MERGES = [
    "e+s",
    "es+t",
    "l+o",
    "lo+w",
    "Ġ+low",
    "Ġ+n",
    "Ġn+e",
    "Ġne+w",
    "Ġnew+est",
    "Ġ+w",
    "Ġw+i",
    "Ġwi+d",
    "Ġwid+est",
    "Ġlow+e",
    "Ġlowe+r",
]


def as_letters(data: bytes) -> str:
    return data.decode().replace(" ", "Ġ")


def gpt2_style() -> tuple[bpe.Tokenizer, MERGES]:
    return trained(
        texts=[C_TEXT], vocab_size=50, initial_alphabet="corpus", special_tokens=["<|endoftext|>"], tie_break="first"
    )


def test_c_words() -> None:
    counts = bpe.count_words(texts=[C_TEXT])
    assert [(as_letters(word), count) for word, count in counts.items()] == [
        ("low", 1), ("Ġlow", 4), ("Ġlower", 2), ("Ġnewest", 6), ("Ġwidest", 3)
    ]  # fmt: skip


def test_c_merges_and_vocabulary() -> None:
    tok, merges = gpt2_style()
    assert [as_letters(pair) for pair, _ in merges] == C_MERGES
    assert tok.spec.training is not None
    assert tok.spec.training.stopped == "no pairs left"
    assert tok.vocab_size == 27
    made = [pair.replace("+", "") for pair in C_MERGES]
    assert [as_letters(token) for token in tokens_by_id(tok)] == ["<|endoftext|>", *"deilnorstwĠ", *made]
    assert tok.special_tokens == {"<|endoftext|>": 0}
    oracle = reference.train(
        {reference.byte_word(word): count for word, count in bpe.count_words(texts=[C_TEXT]).items()}, tie_break="first"
    )
    assert [count for _, count in merges] == [step.count for step in oracle.steps]


def test_c_tokens() -> None:
    tok, _ = gpt2_style()
    text = "The lowest, newest and widest!"
    tokens = tok.tokens(text)
    assert [as_letters(token) for token in tokens] == [
        "T",
        "h",
        "e",
        "Ġlow",
        "est",
        ",",
        "Ġnewest",
        "Ġ",
        "a",
        "n",
        "d",
        "Ġwidest",
        "!",
    ]
    assert b"".join(tokens).decode() == text
    assert tok.tokens("lowest") == [b"low", b"est"]
    assert tok.decode(tok.encode("lower newest widest")) == "lower newest widest"


def test_c_with_all_bytes() -> None:
    """With the default alphabet, every text can be encoded and decodes back to itself."""
    tok, merges = trained(texts=[C_TEXT], num_merges=15, special_tokens=["<|endoftext|>"], tie_break="first")
    assert [as_letters(pair) for pair, _ in merges] == C_MERGES
    assert tok.vocab_size == 1 + 256 + 15
    for text in ("The lowest, newest and widest!", "이 영화를 😊\0", ""):
        assert tok.decode(tok.encode(text)) == text
    assert tok.tokens("The lowest") == [b"T", b"h", b"e", b" low", b"est"]


# D --------------------------------------------------------------------------------------------------------------------

D_WORDS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
D_MERGES = [("u+g", 20), ("u+n", 16), ("h+ug", 15)]


def test_d_pair_counts() -> None:
    counts = pair_counts({tuple(word): count for word, count in D_WORDS.items()})
    assert counts == {"hu": 15, "ug": 20, "pu": 17, "un": 16, "bu": 4, "gs": 5}


@pytest.mark.parametrize("tie_break", ["id", "first", "smallest", "greatest"])
def test_d(tie_break: str) -> None:
    tok, merges = trained(
        counts=D_WORDS, vocab_size=10, model="char", initial_alphabet=list("hugpnbs"), tie_break=tie_break
    )
    assert merges == D_MERGES
    assert tokens_by_id(tok) == [*"hugpnbs", "ug", "un", "hug"]


def test_d_with_unknown_token() -> None:
    tok, merges = trained(
        counts=D_WORDS, vocab_size=11, model="char", initial_alphabet=list("hugpnbs"), unk_token="<unk>"
    )
    assert merges == D_MERGES
    assert tokens_by_id(tok) == ["<unk>", *"hugpnbs", "ug", "un", "hug"]
    assert tok.tokens("pug bug mug") == ["p", "ug", "b", "ug", "<unk>", "ug"]
    assert tok.encode("pug bug mug").tolist() == [4, 8, 6, 8, 0, 8]


# E --------------------------------------------------------------------------------------------------------------------

E_MERGES = [
    ("u+g", 20), ("u+n", 16), ("un+</w>", 16), ("h+ug", 15), ("p+un</w>", 12), ("hug+</w>", 10), ("p+ug", 5),
    ("pug+</w>", 5), ("hug+s", 5), ("hugs+</w>", 5),
]  # fmt: skip


def test_e() -> None:
    tok, merges = trained(counts=D_WORDS, num_merges=10, model="char", end_of_word="</w>", tie_break="first")
    assert merges == E_MERGES
    assert tok.tokens("bun") == ["b", "un</w>"]
    assert [token.removesuffix("</w>") for token in tok.tokens("bun")] == ["b", "un"]
    for word in ("pun", "hug", "pug", "hugs"):
        assert tok.tokens(word) == [word + "</w>"]
    for letter in "hugpnbs":
        assert [shown for token in tok.tokens(letter) if (shown := token.removesuffix("</w>"))] == [letter]
        assert tok.decode(tok.encode(letter)) == letter
    assert tok.decode(tok.encode("bun hugs")) == "bun hugs"
    assert "u" in tok.explain("bun")


def test_e_at_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same from a text file, with the merges printed by --trace; then `bun` is encoded with the written file."""
    from bpe.cli import main

    corpus, out = tmp_path / "words.txt", tmp_path / "tokenizer.json"
    corpus.write_text(" ".join(word for word, count in D_WORDS.items() for _ in range(count)), encoding="utf-8")
    arguments = ["--num-merges", "10", "--model", "char", "--end-of-word", "</w>", "--tie-break", "first", "--trace"]
    assert main(["train", str(corpus), "-o", str(out), *arguments]) == 0
    traced = "".join(capsys.readouterr()).replace("\x1b", "")
    lines = [line for line in traced.splitlines() if any(char.isdigit() for char in line)]
    at = 0
    for pair, count in E_MERGES:
        left, right = pair.split("+")
        while not (left in lines[at] and right in lines[at] and left + right in lines[at] and str(count) in lines[at]):
            at += 1
        at += 1
    tok = bpe.Tokenizer.load(out)
    assert tok.tokens("bun") == ["b", "un</w>"]
    text = tmp_path / "text.txt"
    text.write_text("bun", encoding="utf-8")
    assert main(["encode", str(text), "-t", str(out)]) == 0
    assert [int(number) for number in capsys.readouterr().out.split()] == tok.encode("bun").tolist()


def test_e_is_saved_so_that_hugging_face_refuses_it(tmp_path: Path) -> None:
    """Their models have no end-of-word mark that is its own symbol, so the file must not load as another model."""
    tokenizers = pytest.importorskip("tokenizers")
    tok, _ = trained(counts=D_WORDS, num_merges=10, model="char", end_of_word="</w>", tie_break="first")
    tok.save(tmp_path / "tokenizer.json")
    json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert bpe.Tokenizer.load(tmp_path / "tokenizer.json") == tok
    with pytest.raises(Exception, match=r"."):
        tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))


# F --------------------------------------------------------------------------------------------------------------------


def test_f_split() -> None:
    assert bpe.Pretokenizer("clip").split("Hello, world! 123 😊") == ["Hello", ",", "world", "!", "1", "2", "3", "😊"]


def test_f_vocabulary(shared_vocab: Callable[[str], Path]) -> None:
    path = shared_vocab("bpe_simple_vocab_16e6.txt")
    tok = bpe.Tokenizer.from_clip(path)
    lines = path.read_text(encoding="utf-8").split("\n")
    assert tok.vocab_size == 49408
    assert tok.special_tokens == {"<|startoftext|>": 49406, "<|endoftext|>": 49407}
    tokens = tokens_by_id(tok)
    order = reference.gpt2_byte_order()
    assert tokens[:256] == order
    assert tokens[256:512] == [byte + b"</w>" for byte in order]
    plain = reference.Clip(lines)
    letters = {letter: byte for byte, letter in plain.letters.items()}
    names = list(plain.ids)
    assert tokens[512:] == [
        bytes(letters[letter] for letter in name.removesuffix("</w>")) + b"</w>" * name.endswith("</w>")
        for name in names[512:-2]
    ] + [b"<|startoftext|>", b"<|endoftext|>"]
    assert tok.encode("king").tolist() == [674]
    assert tok.tokens("king") == [b"king</w>"]
    assert "g</w>" in tok.explain("king")
