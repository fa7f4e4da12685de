"""Added tokens of a tokenizer.json with all their flags, and post-processors, compared with `tokenizers`."""

from __future__ import annotations

import json
import pickle
import random
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import Peer
from strategies import examples

import bpe
from bpe import normalizers as n
from bpe.base._aho_corasick import Finder
from bpe.corpus.blocks import split_spans
from bpe.formats.huggingface import read, write
from bpe.vocab.special_tokens import SpecialTokens

tokenizers = Peer("tokenizers")

FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
NAMES = ["<a>", "<a>b", "a<", "bb", "  ", "\n", "ÀB", "Ab", "éé", "<|end|>", "\uffffx", "𐐀"]
COUNTS = {"b<": 9, " a": 8, "end": 7, "ab": 6}
PARTS = [
    *NAMES, "a", "B", "c", " ", "   ", "\t", "\u3000", "\x85", "\u200d", "_", "\u0301", "1", "½", "àb", "e\u0301", ">",
    "<", "|end|>", "Ä", "ſ",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PARTS), max_size=14).map("".join)
NORMALIZERS = {None: None, "NFC": n.NFC(), "lower": n.Lowercase(), "empty": n.Sequence()}


def saved(added, normalizer=None, post=None, pretokenizer="gpt2") -> dict:
    """A tokenizer.json with 256 bytes, some merges and added tokens: (name, flags, special)."""
    tok = bpe.train(counts=COUNTS, num_merges=5, pretokenizer=pretokenizer, normalizer=normalizer)
    assert tok.vocab_size == 261
    file = json.loads(write(tok.spec))
    for name, flags, special in added:
        number = tok.vocab_size + len(file["added_tokens"])
        given = {flag: flag in flags for flag in FLAGS}
        file["added_tokens"].append({"id": number, "content": name, **given, "special": special})
    file["post_processor"] = post
    return file


def both(file: dict) -> tuple[bpe.Tokenizer, tokenizers.Tokenizer]:
    data = json.dumps(file)
    return bpe.Tokenizer(read(data.encode())), tokenizers.Tokenizer.from_str(data)


def theirs(peer: tokenizers.Tokenizer, text: str, special: bool = True) -> list[int]:
    peer.encode_special_tokens = not special  # which makes it encode them as text
    return peer.encode(text, add_special_tokens=False).ids


ADDED = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sets(st.sampled_from(FLAGS)), st.booleans()),
    min_size=1, max_size=5, unique_by=lambda each: each[0],
)  # fmt: skip


def overlapped(tok: bpe.Tokenizer, text: str) -> bool:
    """Whether the white space that a token strips contains the start of another; `tokenizers` then uses text twice."""
    names = frozenset(tok.special_tokens)
    return sum(len(piece) for piece, _ in tok._engine.specials.split(text.encode(), names)) != len(text.encode())


@examples(7)
@given(ADDED, st.sampled_from(list(NORMALIZERS)), st.booleans(), st.lists(TEXTS, max_size=5))
def test_flags_work_as_in_tokenizers(added, normalizer, prefix, texts):
    pretokenizer = bpe.Pretokenizer("gpt2", add_prefix_space=prefix)
    tok, peer = both(saved(added, NORMALIZERS[normalizer], pretokenizer=pretokenizer))
    reloaded = tokenizers.Tokenizer.from_str(write(tok.spec).decode())
    assert bpe.Tokenizer(read(write(tok.spec))) == tok == pickle.loads(pickle.dumps(tok))
    for text in texts:
        ids = theirs(peer, text)
        assert tok.encode(text, allowed_special="all").tolist() == ids
        assert tok.encode(text).tolist() == theirs(peer, text, special=False)
        assert theirs(reloaded, text) == ids
        assert tok.encode_batch([text, text], allowed_special="all").to_list() == [ids, ids]
        assert tok.encode_batch([text])[0].tolist() == tok.encode(text).tolist()
        chunks = [text[i : i + 2] for i in range(0, len(text), 2)]
        stream = list(tok.encode_stream(chunks, allowed_special="all"))
        assert [int(number) for array in stream for number in array] == ids
        actual, spans = tok.encode_with_offsets(text, allowed_special="all")
        assert actual.tolist() == ids
        if not overlapped(tok, text):
            assert (spans[:, 1] <= len(text)).all()
            assert (np.diff(spans[:, 0]) >= 0).all()


def test_added_tokens_that_are_not_special_are_always_found(tmp_path):
    tok, _ = both(saved([("<a>", (), False), ("<b>", (), True)]))
    a, b = tok.special_tokens["<a>"], tok.special_tokens["<b>"]
    assert tok.encode("<a><b>").tolist() == [a, *plain("<b>")]
    assert tok.encode("<a><b>", allowed_special="all").tolist() == [a, b]
    assert tok.encode("<a>", disallowed_special="all").tolist() == [a]
    with pytest.raises(ValueError, match="disallowed special token '<a>'"):
        tok.encode("<a>", disallowed_special={"<a>"})
    assert tok.encode_batch(["x<a>", "y"]).to_list() == [[*plain("x"), a], plain("y")]
    assert tok.encode_spans([("<a><b>", False), ("<b>", True)]).tolist() == [a, *plain("<b>"), b]
    assert tok.count_tokens("<a>") == 1
    assert tok.count_tokens(["<a>", ""]).tolist() == [1, 0]
    assert tok.tokens("<a>") == [b"<a>"]
    assert "special token" in tok.explain("<a>")
    path = tmp_path / "text"
    for text in ("x <b> y", "x <a> y", "x <a> y\n" * 20_000):
        path.write_text(text)
        assert tok.encode_files(path)[0].tolist() == tok.encode(text).tolist()
    assert tok.encode_files(path, per_line=True)[5].tolist() == tok.encode("x <a> y\n").tolist()
    assert tok.decode(tok.encode("x <a> y")) == "x <a> y"


def test_whole_words_beside_special_tokens_and_other_spans():
    """A token that is found only as a whole word depends on the characters beside it, whatever finds those."""
    tok, peer = both(saved([("Ab", [], True), ("bb", ["single_word"], False), ("<a>", ["single_word"], True)]))
    for text in ("Abbb", "Ab bb", "bbAb", "Ab<a>", "bb<a>", "é<a>é", "<a>bb<a>"):
        ids = theirs(peer, text)
        assert tok.encode(text, allowed_special="all").tolist() == ids
        assert tok.encode_spans([(text, True)]).tolist() == ids
        chat = tok.chat([{"role": "user", "content": ""}], chat_template=text + "{# #}")
        assert chat.ids.tolist() == ids
        parts = [part for part in re.split("(Ab|bb|<a>)", text) if part]
        assert tok.encode_spans([(part, True) for part in parts]).tolist() == ids


def plain(text: str) -> list[int]:
    """The ids of a text without any added token."""
    only = bpe.train(counts=COUNTS, num_merges=5)
    return only.encode(text).tolist()


def test_stripped_white_space_belongs_to_the_token():
    tok, peer = both(saved([("<m>", ("lstrip",), True), ("<r>", ("rstrip",), True)]))
    text = "x \t\u3000<m> y<r>\u2028\x85 z <m><r>"
    ids, spans = tok.encode_with_offsets(text, allowed_special="all")
    assert ids.tolist() == theirs(peer, text)
    marked = [text[start:end] for (start, end), number in zip(spans, ids, strict=True) if number >= 261]
    assert marked == [" \t\u3000<m>", "<r>\u2028\x85 ", " <m>", "<r>"]


def test_flags_without_effect_are_dropped():
    tok, _ = both(saved([("<a>", ("normalized",), True), ("<b>", (), True)]))
    assert not tok.spec.token_flags
    tok, _ = both(saved([("<a>", ("normalized",), True), ("<a>b", (), True)]))  # the other name is searched for first
    assert tok.spec.token_flags == {"<a>": {"normalized"}}
    tok, _ = both(saved([("<a>", ("normalized",), True)], n.NFC()))
    assert tok.spec.token_flags == {"<a>": {"normalized"}}


def test_tokenizers_with_other_flags_are_not_equal():
    one, other = (both(saved([("<a>", flags, True)]))[0] for flags in ((), ("lstrip",)))
    assert one != other
    smaller, _ = other.without_tokens([other.special_tokens["<a>"]])
    assert not smaller.spec.token_flags
    assert other.without_tokens([0])[0].spec.token_flags == {"<a>": {"lstrip"}}


@examples(14)
@given(st.sets(st.text("ab<", min_size=1, max_size=5), min_size=1, max_size=12), st.text("ab<", max_size=30))
def test_special_tokens_are_found_as_by_a_regular_expression(names, text):
    special = SpecialTokens({name: i for i, name in enumerate(sorted(names))})
    longest = sorted(names, key=len, reverse=True)
    actual = re.findall("|".join(map(re.escape, longest)), text)
    assert [
        str(piece, "utf-8") for piece, i in special.split(text.encode(), frozenset(names)) if i is not None
    ] == actual
    assert (
        special.may_occur(text, frozenset(names)) == special.may_occur(text.encode(), frozenset(names)) == bool(actual)
    )


def test_names_that_are_prefixes_of_each_other():
    names = ["a" * i for i in range(1, 200)]
    special = SpecialTokens({name: i for i, name in enumerate(names)})
    assert [i for _, i in special.split(b"a" * 250 + b"b", frozenset(names))] == [198, 50, None]


def occurrences(names: list[bytes], text: bytes) -> list[tuple[int, int, int]]:
    """The longest name at each position, from left to right: (start, end, index of the name)."""
    actual, at = [], 0
    while at < len(text):
        here = [index for index, name in enumerate(names) if text.startswith(name, at)]
        longest = max(here, key=lambda index: len(names[index]), default=None)
        if longest is not None:
            actual.append((at, at + len(names[longest]), longest))
        at += 1 if longest is None else len(names[longest])
    return actual


LETTERS = st.lists(st.sampled_from([b"a", b"b", b"<", b"\xc3", b"\xa9"]), max_size=5).map(b"".join)


@examples(19)
@given(st.sets(LETTERS.filter(bool), max_size=9), st.lists(LETTERS, max_size=60).map(b"".join), st.integers(-1, 120))
def test_finder_equals_trying_every_name(given, text, at):
    names = sorted(given)
    finder = Finder(names)
    actual = finder.find(text)
    rows = [] if actual is None else list(zip(*(array.tolist() for array in actual), strict=True))
    assert rows == occurrences(names, text)
    assert finder.occurs(text) == finder.occurs(memoryview(text)) == bool(rows)
    later = finder.find(text, max(at, 0))
    rows = [] if later is None else list(zip(*(array.tolist() for array in later), strict=True))
    assert rows == [(a + max(at, 0), b + max(at, 0), n) for a, b, n in occurrences(names, text[max(at, 0) :])]
    across = any(
        text.startswith(name, i) and i < at < i + len(name) for i in range(len(text)) for name in names
    ) and at < len(text)
    assert finder.crosses(text, at) == across
    half = len(text) // 2
    starts, ends = split_spans(text, np.array([0, half]), np.array([half, len(text)]), names)
    assert b"".join(text[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)) == b"".join(
        part[a:b] for part in (text[:half], text[half:]) for a, b in gaps(occurrences(names, part), len(part))
    )
    assert (starts < ends).all()


def gaps(found: list[tuple[int, int, int]], end: int) -> list[tuple[int, int]]:
    return list(zip([0, *(b for _, b, _ in found)], [*(a for a, _, _ in found), end], strict=True))


def test_finder_finds_names_across_blocks():
    """A long text is searched in blocks; names may cross their ends."""
    text = b"abc<" * 100_000
    for names in ([b"<a", b"abc<abc", b"c<abc<abc"], [b"a" * 70_000 + b"b", b"a"], [b"b", b"c", b"<", b"a", b"ab"]):
        actual = Finder(names).find(text)
        at, want = 0, 0
        for start, end, number in zip(*(array.tolist() for array in actual), strict=True):
            assert text[start:end] == names[number]
            assert start >= at
            at, want = end, want + 1
        assert want == len(re.findall(b"|".join(sorted(map(re.escape, names), key=len, reverse=True)), text))


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("special", [False, True])
def test_many_added_tokens_load_and_search_in_linear_time(normalized, special, tmp_path):
    """Loading and searching once took time quadratic in their number: 10 s for 8,000."""
    file = saved([(f"<{i}>", {"normalized"} if normalized else (), special) for i in range(1_500)])
    tok, peer = both(file)
    for text in ("hello <5> <77> <x> <199999><19999>" * 20, "", "<1", "<" * 50 + "7>"):
        ids = theirs(peer, text)
        assert tok.encode(text, allowed_special="all").tolist() == ids
        assert tok.encode_batch([text, "x"], allowed_special="all")[0].tolist() == ids
        assert np.concatenate([*tok.encode_stream([text[:7], text[7:]], allowed_special="all"), []]).tolist() == ids
        assert tok.encode_with_offsets(text, allowed_special="all")[0].tolist() == ids
        assert tok.decode(ids) == text
    tok.save(tmp_path / "tokenizer.json")
    assert bpe.Tokenizer.load(tmp_path / "tokenizer.json") == tok


def test_names_that_overlap_are_found_as_by_tokenizers():
    """Random names with common prefixes and overlaps, with every flag."""
    rng = random.Random(8)
    for _ in range(60):
        names = sorted(
            {"".join(rng.choices("ab< ", k=rng.randint(2, 6))) for _ in range(rng.randint(1, 40))} - {"ab", "b<"}
        )
        flags = [{flag for flag in FLAGS if rng.random() < 0.15} for _ in names]
        tok, peer = both(saved([(name, own, True) for name, own in zip(names, flags, strict=True)]))
        for _ in range(20):
            text = "".join(rng.choices("ab< c", k=rng.randint(0, 40)))
            assert tok.encode(text, allowed_special="all").tolist() == theirs(peer, text)


def test_training_searches_for_many_special_tokens_at_once():
    """One search finds all of them; they are not searched for one by one."""
    names = [f"<{i}>" for i in range(20_000)]
    texts = ["low lower<19999>low <5", "lowest<7><7>newest <20000>"]
    tok = bpe.train(texts=texts * 50, vocab_size=20_300, special_tokens=names)
    few = bpe.train(texts=texts * 50, vocab_size=258 + 300 - 256, special_tokens=["<19999>", "<7>"])
    assert list(tok.spec.ranks()) == list(few.spec.ranks())
    assert tok.encode("low<7>", allowed_special="all").tolist()[-1] == 7


def test_stripped_white_space_is_read_once():
    tok, _ = both(saved([("\n", ("rstrip",), True)]))
    assert len(tok.encode("\n" * 50_000, allowed_special="all")) == 50_000


def test_names_that_lone_surrogates_turn_into():
    special = SpecialTokens({"\ufffd": 0, "𐐀": 1})
    for text in ("\ud800", "\ud801\udc00"):
        assert special.may_occur(text, frozenset(["\ufffd", "𐐀"]))
    assert not SpecialTokens({"a": 0}).may_occur("\ud800", frozenset("a"))


def test_occur_in_a_long_text():
    special = SpecialTokens({"<a>": 0, "<b>": 1})
    names = frozenset(["<a>", "<b>"])
    for text in (b"x" * (1 << 17), b"<a" * (1 << 16)):
        assert not special.may_occur(text, names)
        assert special.may_occur(text + b"<b>", names)
        assert special.may_occur(b"<b>" + text, names)
        assert special.may_occur(memoryview(text + b"<a>"), names)


# Post-processors ------------------------------------------------------------------------------------------------------


def template(single: list, tokens: dict[str, int]) -> dict:
    return {
        "type": "TemplateProcessing", "single": single, "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {name: {"id": name, "ids": [i], "tokens": [name]} for name, i in tokens.items()},
    }  # fmt: skip


def token(name: str) -> dict:
    return {"SpecialToken": {"id": name, "type_id": 0}}


TEXT = {"Sequence": {"id": "A", "type_id": 0}}
LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
BOS = template([token("<a>"), TEXT], {"<a>": 261, "<b>": 262})
POSTS = [
    (BOS, ((261,), ())),
    (template([token("<a>"), token("<b>"), TEXT, token("<b>")], {"<a>": 261, "<b>": 262}), ((261, 262), (262,))),
    (template([TEXT], {}), ((), ())),
    ({"type": "Sequence", "processors": [LEVEL, BOS]}, ((261,), ())),
    (LEVEL, ((), ())),
    (
        {"type": "RobertaProcessing", "sep": ["<b>", 262], "cls": ["<a>", 261], "trim_offsets": True,
         "add_prefix_space": False},
        ((261,), (262,)),
    ),
    ({"type": "BertProcessing", "sep": ["<b>", 262], "cls": ["<a>", 261]}, ((261,), (262,))),
]  # fmt: skip


@pytest.mark.parametrize(("post", "expected"), POSTS)
def test_template(post, expected):
    tok, peer = both(saved([("<a>", (), True), ("<b>", (), True)], post=post))
    reloaded = tokenizers.Tokenizer.from_str(write(tok.spec).decode())
    assert bpe.Tokenizer(read(write(tok.spec))) == tok == pickle.loads(pickle.dumps(tok))
    before, after = tok.template
    assert tok.template == expected
    for text in ("", "x <a>", "ab"):
        ids = tok.encode(text, allowed_special="all").tolist()
        assert ids == theirs(peer, text)
        assert [*before, *ids, *after] == peer.encode(text).ids == reloaded.encode(text).ids


def test_template_of_a_smaller_vocabulary():
    tok, _ = both(saved([("<a>", (), True), ("<b>", (), True)], post=POSTS[1][0]))
    assert tok.without_tokens([0])[0].template == ((260, 261), (261,))
    assert tok.without_tokens([262])[0].template == ((261,), ())
    assert tok.without_tokens([261, 262])[0].template == ((), ())
    assert tok.truncate_vocab(tok.vocab_size - 2, renumber=False)[0].template == tok.template
    assert tok.truncate_vocab(tok.vocab_size - 2)[0].template == ((259, 260), (260,))
    assert tok != both(saved([("<a>", (), True), ("<b>", (), True)]))[0]


def test_texts_with_names_of_a_long_list():
    """Hundreds of names with a common prefix, like reserved tokens."""
    source = random.Random(4)
    names = [f"<|reserved_{i}|>" for i in range(300)]
    tok, peer = both(saved([(name, (), i % 7 > 0) for i, name in enumerate(names)]))
    for _ in range(20):
        text = "".join(source.choice([*names[:20], "<|reserved_", "1", "|>", "x ", "<", "5|>"]) for _ in range(30))
        assert tok.encode(text, allowed_special="all").tolist() == theirs(peer, text)
        assert tok.encode(text).tolist() == theirs(peer, text, special=False)


# Tokens that encoding never produces ----------------------------------------------------------------------------------


def test_byte_level_tokens_that_are_not_written_in_byte_letters():
    """Emoji that the vocab lists literally, as in Command R's file: encoding never produces them."""
    file = saved([])
    file["model"]["vocab"] |= {"😀": 261, "‼": 262, "a b": 263, "Ġ▁": 264}
    tok, peer = both(file)
    assert tok.vocab_size == 265
    for text in ("😀‼ a b", "▁ ▁"):
        assert tok.encode(text).tolist() == theirs(peer, text)
    ids = [261, 262, 263, *tok.encode("é")]
    assert tok.decode(ids) == peer.decode(ids) == "😀‼a bé"
    assert tok.decode([264]) == peer.decode([264]) == "Ġ▁"
    assert bpe.Tokenizer(read(write(tok.spec))) == tok
    assert {261, 262, 263, 264} <= set(tok.unreachable().tolist())
    assert tok.token_id("‼") == 262
    smaller, remap = tok.without_tokens([0, 261])
    assert smaller.token_bytes(int(remap[262])) == "‼".encode()
    file["model"]["merges"].append(["‼", "a"])
    with pytest.raises(bpe.FormatError, match=r"its left part '‼' is not in the vocab"):
        both(file)


def test_such_tokens_may_be_special_or_unknown_tokens():
    file = saved([("<s> t", (), True)])
    file["model"]["vocab"] |= {"<s> t": 261, "<unk> x": 262}
    file["model"]["unk_token"] = "<unk> x"
    tok, peer = both(file)
    assert tok.encode("<s> t", allowed_special="all").tolist() == [261] == theirs(peer, "<s> t")
    assert tok.unreachable().tolist() == [262]
    assert bpe.Tokenizer(read(write(tok.spec))) == tok
