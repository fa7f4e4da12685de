"""`with_tokens` and `bpe edit`: new tokens get the next ids, as in `tokenizers`."""

from __future__ import annotations

import copy
import pickle
import random
from dataclasses import replace

import numpy as np
import pytest
from conftest import fails
from hypothesis import given
from hypothesis import strategies as st
from peers import Peer
from strategies import examples

import bpe
from bpe.cli import main
from bpe.errors import ID_LIMIT

tokenizers = Peer("tokenizers")

COUNTS = {"b<": 9, " a": 8, "end": 7, "ab": 6, "low": 5, " low": 4}
NAMES = ["<a>", "<a>b", "a<", "bb", "  ", "ÀB", "Ab", "éé", "<|end|>", "𐐀", "한국", "ending", "lowab"]
PARTS = [*NAMES, "a", "B", "low", "end", "ab", " ", "1", "àb", "e\u0301é", ">", "|end|>", "\n", "국"]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)
TOKENS = st.lists(st.sampled_from(NAMES), max_size=4, unique=True)
NORMALIZERS = (None, "nfc", "lower", ["nfd", "lower"])

#: New tokens that are refused.
INVALID_TOKENS = [
    ({"special": "<x>"}, TypeError, r"special is '<x>'; it must be a list of str"),
    ({"added": b"x"}, TypeError, r"added is b'x'; it must be a list of str"),
    ({"added": 3}, TypeError, r"added is 3; it must be a list of str"),
    ({"roles": []}, TypeError, r"roles is \[\], a list; it must map roles to special tokens"),
    ({"roles": 0}, TypeError, r"roles is 0, an int; it must map roles to special tokens"),
    ({"added": {"p", "q"}}, TypeError, r"added is .* a set, whose order differs from run to run"),
    ({"added": ["x", 3]}, TypeError, r"added token 3 is an int; it must be a str"),
    ({"special": [b"<x>"]}, TypeError, r"special token b'<x>' is a bytes; it must be a str"),
    ({"special": [""]}, ValueError, r"special token '' is empty"),
    ({"added": ["qq", "qq"]}, ValueError, r"added token 'qq' is given twice"),
    ({"special": ["qq"], "added": ["qq"]}, ValueError, r"'qq' is both special and added"),
    ({"special": ["\ud800"]}, ValueError, r"lone surrogate"),
    ({"special": ["<s>"]}, ValueError, r"'<s>' is a special token already, with id 0; leave it out"),
    ({"added": ["qq", "low", "<s>"]}, ValueError, r"'low' is a token already, with id \d+, and 1 more .* is one"),
    ({"added": ["a"]}, ValueError, r"'a' is a token already"),
    ({"special": ["<u>"]}, ValueError, r"'<u>' is a special token already"),
    ({"special": ["C++"]}, ValueError, r"'C\+\+' is an added token already"),
]


def test_an_added_token_of_which_the_normalizer_leaves_nothing_is_refused():
    tok = made("strip")
    with pytest.raises(ValueError, match=r"'  ' is to be added, but the normalizer leaves nothing of it"):
        tok.with_tokens(added=["qq", "  "])
    assert tok.with_tokens(special=["  "]).token_id("  ") == tok.n_vocab


def made(normalizer=None, **kwargs) -> bpe.Tokenizer:
    return bpe.train(counts=COUNTS, num_merges=6, normalizer=normalizer, special_tokens=["<s>"], **kwargs)


def theirs(tok: bpe.Tokenizer, tmp_path_factory) -> tokenizers.Tokenizer:
    path = tmp_path_factory.mktemp("with_tokens") / "tokenizer.json"
    tok.save(path)
    return tokenizers.Tokenizer.from_file(str(path))


@examples(7)
@given(TOKENS, TOKENS, st.sampled_from(NORMALIZERS), st.lists(TEXTS, max_size=4))
def test_ids_are_those_of_tokenizers(tmp_path_factory, special, added, normalizer, texts):
    added = [name for name in added if name not in special]
    tok = made(normalizer)
    peer = theirs(tok, tmp_path_factory)
    peer.add_special_tokens(special)
    peer.add_tokens(added)
    more = tok.with_tokens(special=special, added=added)
    assert {name: peer.token_to_id(name) for name in [*special, *added]} == {
        name: more.token_id(name) for name in [*special, *added]
    }
    again = theirs(more, tmp_path_factory)
    path = tmp_path_factory.mktemp("theirs") / "tokenizer.json"
    peer.save(str(path))
    loaded = bpe.Tokenizer.load(path).spec  # the decoder of `tokenizers` reads the names as letters of bytes
    assert bpe.Tokenizer(replace(loaded, decoder=None)) == more
    for text in texts:
        ids = peer.encode(text, add_special_tokens=False).ids
        assert more.encode(text, allowed_special="all").tolist() == ids
        assert again.encode(text, add_special_tokens=False).ids == ids
        for one in (peer, again):
            one.encode_special_tokens = True  # which makes it encode special tokens as text
        ids = peer.encode(text, add_special_tokens=False).ids
        assert more.encode(text).tolist() == again.encode(text, add_special_tokens=False).ids == ids
        for one in (peer, again):
            one.encode_special_tokens = False


def test_new_ids_follow_the_largest(tmp_path):
    tok = made()
    more = tok.with_tokens(special=["<x>", "<y>"], added=["C++"])
    assert more.special_tokens == {"<s>": 0, "<x>": tok.n_vocab, "<y>": tok.n_vocab + 1, "C++": tok.n_vocab + 2}
    assert (more.n_vocab, more.vocab_size) == (tok.n_vocab + 3, tok.vocab_size + 3)
    assert tok.special_tokens == {"<s>": 0}
    assert more.spec.training == tok.spec.training
    assert more._engine.encoder is tok._engine.encoder  # making its tables takes 10 ms and more
    assert [more.token_bytes(i) for i in range(tok.n_vocab)] == [tok.token_bytes(i) for i in range(tok.n_vocab)]
    assert more.encode("low<x>C++<s>").tolist() == [*tok.encode("low<x>"), more.token_id("C++"), *tok.encode("<s>")]
    assert more.encode("<x>", allowed_special={"<x>"}).tolist() == [tok.n_vocab]
    with pytest.raises(ValueError, match="disallowed special token '<y>'"):
        more.encode("<y>", disallowed_special="all")
    assert more.encode("C++", disallowed_special="all").tolist() == [tok.n_vocab + 2]
    gaps = bpe.train(
        counts=COUNTS, num_merges=0, special_tokens=["<s>"], alphabet=bpe.Alphabet(first_id=1000)
    ).with_tokens(special=["<x>"])
    assert gaps.token_id("<x>") == 1257


def test_without_new_tokens_the_tokenizer_is_equal():
    tok = made()
    assert tok.with_tokens() == tok
    assert tok.with_tokens(special=(), added=[]).fingerprint == tok.fingerprint
    once, twice = tok.with_tokens(special=["<x>"], added=["C++"]), tok.with_tokens(special=["<x>"])
    assert once == twice.with_tokens(added=["C++"])
    assert once != twice
    assert twice != tok.with_tokens(added=["<x>"])


@pytest.mark.parametrize("model", ["byte", "char"])
@pytest.mark.parametrize("mark", [None, ("</w>", False), ("</w>", True)])
def test_tokenizers_with_new_tokens_support_every_method(model, mark, tmp_path):
    options = {} if mark is None else {"end_of_word": mark[0], "end_of_word_glued": mark[1]}
    counts = {"low": 5, "lowest": 2, "newer": 6, "wider": 3}
    tok = bpe.train(counts=counts, num_merges=6, model=model, pretokenizer="whitespace", **options)
    more = tok.with_tokens(special=["<x>"], added=["C++"])
    text = "low C++ <x> newer"
    ids = more.encode(text, allowed_special="all").tolist()
    assert more.token_id("C++") in ids
    assert more.token_id("<x>") in ids
    assert ids == [
        *tok.encode("low "), more.token_id("C++"), *tok.encode(" "), more.token_id("<x>"), *tok.encode(" newer")
    ]  # fmt: skip
    assert more.decode(ids).replace(" ", "") == "lowC++<x>newer"
    decoder = more.decoder()
    assert "".join(map(decoder.push, ids)) + decoder.flush() == more.decode(ids)
    assert np.concatenate(list(more.encode_stream(list(text), allowed_special="all"))).tolist() == ids
    actual, spans = more.encode_with_offsets(text, allowed_special="all")
    assert actual.tolist() == ids
    assert [text[start:end] for start, end in spans[actual == more.token_id("C++")]] == ["C++"]
    assert more.encode_batch([text] * 3, allowed_special="all").to_list() == [ids] * 3
    assert more.count_tokens(text, allowed_special="all") == len(ids)
    more.save(tmp_path / "t.json")
    for same in (bpe.Tokenizer.load(tmp_path / "t.json"), pickle.loads(pickle.dumps(more)), copy.deepcopy(more)):
        assert same == more
        assert (same.fingerprint, hash(same)) == (more.fingerprint, hash(more))
        assert same.encode(text, allowed_special="all").tolist() == ids
    # Truncated and extended vocabularies keep the tokens.
    smaller = more.truncate_vocab(more.vocab_size - 3, renumber=False)[0]
    assert smaller.special_tokens == more.special_tokens
    assert smaller.token_id("C++") == more.token_id("C++")
    assert smaller.encode("C++").tolist() == [more.token_id("C++")]
    longer = bpe.extend(more, counts, vocab_size=more.vocab_size + 2)
    assert longer.special_tokens == more.special_tokens
    assert longer.n_vocab == more.n_vocab + 2
    assert longer.encode("C++").tolist() == [more.token_id("C++")]
    without, remap = more.without_tokens([more.token_id("C++")])
    assert without == tok.with_tokens(special=["<x>"])
    assert remap[more.token_id("<x>")] == more.token_id("<x>")
    assert more.token_id("C++") not in more.unreachable()


def test_a_character_model_finds_new_tokens(tmp_path_factory):
    tok = bpe.train(texts=["low lower"], model="char", num_merges=3, unk_token="<unk>")
    more = tok.with_tokens(special=["<x>"], added=["!!", "한"])
    peer = theirs(more, tmp_path_factory)
    text = "low!!한 <x>low?"
    ids = peer.encode(text, add_special_tokens=False).ids
    assert more.encode(text, allowed_special="all").tolist() == ids
    assert more.tokens(text) == ["low", "!!", "한", "<unk>", "<unk>", "<unk>", "low", "<unk>"]


def test_clip_keeps_its_two_special_tokens(tmp_path):
    merges = "#version: 0.2\nl o\nlo w</w>\n"
    path = tmp_path / "merges.txt"
    path.write_text(merges)
    tok = bpe.Tokenizer.from_clip(path)
    more = tok.with_tokens(special=["low"[:2] + "x"], added=["<photo>"])
    row = more.clip_rows(["low <|endoftext|> lox <photo>"])[0][0].tolist()
    start, end = (tok.token_id(name) for name in ("<|startoftext|>", "<|endoftext|>"))
    inside = [*tok.encode("low"), end, *tok.encode("lox"), more.token_id("<photo>")]
    assert row[: len(inside) + 2] == [start, *inside, end]
    assert tok.clip_rows(["low lox"])[0].tolist() == more.clip_rows(["low lox"])[0].tolist()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    INVALID_TOKENS,
)
def test_invalid_new_tokens_are_refused(arguments, error, message):
    tok = made(unk_token="<u>").with_tokens(added=["C++"])
    with pytest.raises(error, match=message):
        tok.with_tokens(**arguments)


def test_ids_beyond_the_largest_are_refused():
    tok = made()
    vocabulary = tok.spec.vocabulary
    near = copy.copy(vocabulary)
    near.limit = ID_LIMIT - 1
    spec = copy.copy(tok.spec)
    object.__setattr__(spec, "vocabulary", near)
    tok = copy.copy(tok)
    with pytest.raises(ValueError, match=r"2 more tokens would have ids up to 2147483648; ids must be below"):
        bpe.vocab.editing.with_tokens(spec, ["<x>", "<y>"], [])


def test_many_tokens(tmp_path):
    """So many that `tokenizers` takes minutes; each is found and has its own id."""
    names = [f"<extra_{i}>" for i in range(20_000)]
    tok = made().with_tokens(special=names[::2], added=names[1::2])
    assert tok.n_vocab == made().n_vocab + len(names)
    some = random.Random(1).sample(names[1::2], 100)
    assert tok.encode("".join(some)).tolist() == [tok.special_tokens[name] for name in some]
    with pytest.raises(ValueError, match="and 19999 more of the names are tokens too"):
        tok.with_tokens(special=names)


def test_edit_writes_a_vocabulary_with_new_tokens(tokenizer_file, tmp_path, capsys):
    out = tmp_path / "more.json"
    argv = ["edit", tokenizer_file, "-o", str(out), "--add-special", "<|user|>", "<|bot|>", "--add", "C++"]
    assert main([*argv, "--add", "한국어", "--add-special=--x"]) == 0
    assert capsys.readouterr() == ("", f"bpe: 5 more tokens, ids 300 to 304: {out}\n")
    assert main(["edit", tokenizer_file, "-o", str(tmp_path / "one.json"), "--add", "C++"]) == 0
    assert capsys.readouterr().err.startswith("bpe: 1 more token, id 300: ")
    tok = bpe.Tokenizer.load(tokenizer_file)
    want = tok.with_tokens(special=["<|user|>", "<|bot|>", "--x"], added=["C++", "한국어"])
    assert bpe.Tokenizer.load(out) == want
    assert main(["info", str(out)]) == 0
    lines = capsys.readouterr().out
    assert "special tokens:   <|end|> 0, <|user|> 300, <|bot|> 301, --x 302\n" in lines
    assert "added tokens:     C++ 303, 한국어 304\n" in lines


def test_edit_refuses_invalid_tokens(tokenizer_file, tmp_path, capsys):
    out = str(tmp_path / "more.json")
    fails(capsys, ["edit", tokenizer_file, "-o", out], 2, "give the tokens to add, with --add-special or --add")
    fails(capsys, ["edit", tokenizer_file, "-o", out, "--add", "<|end|>"], 1, "'<|end|>' is a special token already")
    fails(capsys, ["edit", tokenizer_file, "-o", out, "--add", ""], 1, "added token '' is empty")
    fails(capsys, ["edit", tokenizer_file, "-o", tokenizer_file, "--add", "qqq"], 1, "would replace it")
    fails(capsys, ["edit", tokenizer_file, "--add", "qqq"], 2, "required: -o")
    assert not (tmp_path / "more.json").exists()
