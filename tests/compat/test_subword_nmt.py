"""Files of codes, and `bpe.compat.subword_nmt.BPE`, against the subword-nmt package."""

from __future__ import annotations

import gzip
import io
import random
from collections import Counter

import pytest
from peers import Peer

import bpe
from bpe.compat.subword_nmt import BPE, read_vocabulary
from bpe.formats import subword_nmt
from bpe.formats.subword_nmt import WORD_PATTERN

apply_bpe = Peer("subword_nmt.apply_bpe")
learn_bpe = Peer("subword_nmt.learn_bpe")

TEXT = "low lower lowest newest widest 12 USA, the café\u00a0x\tй 한국어 日本語\n  lo  we \r\n\n" * 3
GLOSSARIES = ["the", "[0-9]+", "U[A-Z]A"]


@pytest.fixture(scope="module")
def codes() -> str:
    out = io.StringIO()
    learn_bpe.learn_bpe(io.StringIO(TEXT), out, 60, verbose=False)
    return out.getvalue()


def old_codes() -> str:
    """Codes of version 0.1, with the mark as a symbol of its own."""
    tok = bpe.train(
        texts=[TEXT],
        num_merges=40,
        model="char",
        end_of_word="</w>",
        pretokenizer=bpe.Pretokenizer.from_regex(WORD_PATTERN),
    )
    texts = [tok.token_bytes(token_id).decode() for token_id in range(tok.n_vocab)]
    return "".join(f"{texts[left]} {texts[right]}\n" for left, right in tok.merges.tolist())


def test_codes_without_a_header_are_recognized(tmp_path):
    codes = old_codes()
    assert "#" not in codes
    assert " </w>\n" in codes
    path = tmp_path / "codes"
    expected = bpe.Tokenizer(subword_nmt.read(codes.encode()))
    for data in (codes.encode(), gzip.compress(codes.encode()), codes.replace("\n", "\r\n").encode()):
        path.write_bytes(data)
        assert bpe.Tokenizer.load(path) == expected
    (tmp_path / "merges.txt").write_text(codes)
    path.write_text("e r</w>\nl o\n")  # version 0.2 without its header, or 0.1 without the merge of r and the mark
    for unclear in (path, tmp_path / "merges.txt"):
        with pytest.raises(bpe.FormatError, match='and codes of subword-nmt with format="subword-nmt"'):
            bpe.Tokenizer.load(unclear)
    path.write_text(f"{codes}l o w\n")
    with pytest.raises(bpe.FormatError, match="it is a list of merges"):
        bpe.Tokenizer.load(path)
    path.write_text('{"version": "1.0"}\n')
    with pytest.raises(bpe.FormatError, match="model"):
        bpe.Tokenizer.load(path)


@pytest.mark.parametrize("version", ["0.1", "0.2"])
def test_units_are_those_of_subword_nmt(version, codes):
    codes = codes if version == "0.2" else old_codes()
    peer, segmenter = apply_bpe.BPE(io.StringIO(codes)), BPE(io.StringIO(codes))
    assert segmenter.version == peer.version
    lines = [*TEXT.splitlines(True), "", " ", "\n", "a", " a</w> </w> b\n", "unseen Ж😀 lowlow"]
    plain = [peer.process_line(line) for line in lines]
    assert [segmenter.process_line(line) for line in lines] == plain
    counts = [f"{unit} {count}" for unit, count in Counter(" ".join(plain).split()).items()]
    for threshold in (None, 4, 10):
        vocab = read_vocabulary(counts, threshold)
        assert vocab == apply_bpe.read_vocabulary(io.StringIO("\n".join(counts)), threshold)
        for glossaries in (None, GLOSSARIES):
            peer = apply_bpe.BPE(io.StringIO(codes), -1, "@@", vocab, glossaries)
            segmenter = BPE(io.StringIO(codes), -1, "@@", vocab, glossaries)
            assert [segmenter.process_line(line) for line in lines] == [peer.process_line(line) for line in lines]
    random.seed(1)
    expected = apply_bpe.BPE(io.StringIO(codes), merges=20).segment("lowest newest lower", 0.3)
    random.seed(1)
    assert BPE(io.StringIO(codes), merges=20).segment("lowest newest lower", 0.3) == expected


def test_any_codes_merge_in_their_order():
    rng = random.Random(0)
    compared = 0
    for _ in range(180):
        new = rng.random() < 0.5
        symbols = ["a", "b", "<", "/", "w", ">"]
        symbols += [char + "</w>" for char in symbols] if new else ["</w>"]
        pairs = []
        for _ in range(rng.randint(1, 12)):
            pairs.append((rng.choice(symbols), rng.choice(symbols)))
            symbols.append("".join(pairs[-1]))
        codes = "#version: 0.2\n" * new + "".join(f"{left} {right}\n" for left, right in pairs)
        try:
            segmenter = BPE(io.StringIO(codes))
        except bpe.FormatError:  # a merge makes the text </w>
            continue
        peer = apply_bpe.BPE(io.StringIO(codes))
        for _ in range(5):
            word = "".join(rng.choices(["a", "b", "ab", "</w>", "<", ">", "x"], k=rng.randint(1, 8)))
            assert segmenter.segment(word) == peer.segment(word), (codes, word)
            compared += 1
    assert compared > 600


def test_codes_are_a_tokenizer_too(codes, tmp_path):
    (tmp_path / "codes").write_text(codes, encoding="utf-8")
    tok = bpe.Tokenizer.load(tmp_path / "codes")
    units = apply_bpe.BPE(io.StringIO(codes)).segment("lowest newest").replace("@@", "").split()
    assert [token.removesuffix("</w>") for token in tok.tokens("lowest newest")] == units
    assert tok.decode(tok.encode("lowest newest")) == "lowest newest"
    tok.save(tmp_path / "again", format="subword-nmt")
    assert bpe.Tokenizer.load(tmp_path / "again") == tok
    (tmp_path / "old").write_text(old_codes(), encoding="utf-8")
    old = bpe.Tokenizer.load(tmp_path / "old", format="subword-nmt")
    assert not old.spec.end_of_word_glued
    old.save(tmp_path / "again", format="subword-nmt")
    assert bpe.Tokenizer.load(tmp_path / "again", format="subword-nmt") == old


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ("#version: 0.3\na b\n", r"line 1: '#version: 0\.3' is not a version that is known"),
        ("#version: 0.2\na b\nc\n", r"line 3: 'c' is not a merge"),
        ("a b\na b c\n", r"line 2: 'a b c' is not a merge"),
        ("< /w>\n", r"makes the text </w>"),
    ],
)
def test_invalid_codes_are_refused(codes, message):
    with pytest.raises(bpe.FormatError, match=message):
        BPE(io.StringIO(codes))
    with pytest.raises(bpe.FormatError, match="line 2: 'a' is not a unit"):
        read_vocabulary(["a 1", "a"], None)


def test_a_word_ends_whatever_the_ranks_of_a_changed_pickle_are() -> None:
    segmenter = BPE(io.StringIO("#version: 0.2\nl o\nlo w</w>\nw e\n"))
    segmenter._ranks[("l", "o")] = float("nan")  # type: ignore[assignment]
    assert "".join(segmenter._merge("lowlow", 0)) == "lowlow"
