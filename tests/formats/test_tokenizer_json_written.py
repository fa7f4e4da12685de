"""tokenizer.json: `tokenizers` loads exactly those of our files that give the same results there."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given
from hypothesis import strategies as st
from peers import Peer
from strategies import examples
from tokenizer_json import (
    BYTE_MERGES,
    CLIP_FILE,
    LLAMA3,
    MARKED,
    OLD,
    PIECES,
    TEXTS,
    assert_same,
    load_by_tokenizers,
    make_spec,
    replace_fields,
    save_by_tokenizers,
)

import bpe
from bpe import normalizers as n
from bpe.compat.huggingface import Tokenizer as HuggingFaceTokenizer
from bpe.errors import FormatError
from bpe.formats.huggingface import read, write
from bpe.formats.huggingface.expressible import explain_different_ids
from bpe.pretokenize.patterns import NAMES, ONIGURUMA_SPELLINGS
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.pretokenize.simplifying import make_prefix_pretokenizer, make_whitespace_pretokenizer
from bpe.text.letters import map_letters_to_bytes, spell_token_in_letters
from bpe.text.oniguruma import escape_literal, is_shared_pattern
from bpe.vocab.spec import TokenizerSpec

tokenizers = Peer("tokenizers")
pre_tokenizers = Peer("tokenizers.pre_tokenizers")


def is_loaded_by_tokenizers(spec: TokenizerSpec) -> bool:
    """Whether `tokenizers` loads the file; if not, it must be because of a type that it does not know."""
    try:
        load_by_tokenizers(spec)
    except Exception as error:
        if "did not match any variant" not in str(error):
            raise
        return False
    return True


PATTERNS_OF_USERS = [
    r"\d+|\D+", r"\s+|\S", "[a-z]+", r"[^\s]+", "한|日本", r"\p{Han}|\p{L}+", LLAMA3, CLIP_FILE, "(?:ab)+?c",
    r"[\u0370-\u03ff]+|\s",
]  # fmt: skip
# Syntax that Oniguruma interprets differently, or might.
PATTERNS_OF_OUR_OWN = [
    r"\w+", "^a|.", r".+$", r"\p{N}{1,3}+|.", "(?i)st|.", "(?i:st|.)", "a*", r"(?<=a)b|.", "(?s:.+)", r"\b.",
    "[[:alpha:]]+|.",
    ONIGURUMA_SPELLINGS["clip"], ONIGURUMA_SPELLINGS["cl100k"] + "|x", r"\p{Emoji}|.",
]  # fmt: skip
PRETOKENIZERS = [
    None,
    make_prefix_pretokenizer(),
    make_whitespace_pretokenizer(),
    *(Pretokenizer(name, add_prefix_space=prefix) for name in NAMES for prefix in (False, True)),
    *(Pretokenizer.from_regex(pattern, gaps=gaps) for pattern in PATTERNS_OF_USERS for gaps in ("drop", "keep")),
    *(Pretokenizer.from_regex(pattern, gaps=gaps) for pattern in PATTERNS_OF_OUR_OWN for gaps in ("drop", "keep")),
    Pretokenizer.from_regex(r"\S+", gaps="keep"),
    Pretokenizer.from_regex("[a-z]+", gaps="keep", add_prefix_space=True),
]
PLAIN_NORMALIZERS = [
    n.NFC(), n.NFD(), n.NFKC(), n.NFKD(), n.Lowercase(), n.Strip(), n.Strip(left=False), n.Strip(right=False),
    n.CollapseWhitespace(), n.Replace(r"\s+", " "), n.Replace("[0-9]", "0"), n.Remove(r"[^가-힣\s]"),
    n.Replace(escape_literal("a.*'"), "$1"), n.Replace(r"\p{White_Space}|x", r"\1"), n.Sequence(), n.Sequence(n.NFKC(),
    n.Sequence(n.Lowercase(), n.Strip()), n.CollapseWhitespace()),
]  # fmt: skip
OWN_NORMALIZERS = [
    n.UnescapeHTML(), n.UnescapeHTML(times=2), n.FixText(), n.Lowercase(final_sigma=True), n.Replace(r"\w", "x"),
    n.Replace(r"\p{White_Space}+", " "), n.Sequence(n.NFC(), n.UnescapeHTML(2)), n.Sequence(n.Sequence(n.Replace("^a",
    ""))),
]  # fmt: skip


# Our specs, written and read back -------------------------------------------------------------------------------------


@st.composite
def specs(draw, plain=False):
    """A spec of any kind; with `plain`, mostly one that `tokenizers` can express, with an unknown token."""
    model = draw(st.sampled_from(["byte", "char"]))
    mark = draw(st.sampled_from([None, None, "</w>", "▁", "é "]))
    glued = mark is not None and (plain or draw(st.booleans()))
    letters = draw(st.lists(st.sampled_from("abc é한😊\n<"), min_size=1, unique=True))
    symbols = letters if model == "char" else list(dict.fromkeys(bytes([b]) for c in letters for b in c.encode()))
    end_of_word = None if mark is None else mark.encode() if model == "byte" else mark
    if end_of_word is not None:
        symbols = symbols + [symbol + end_of_word for symbol in symbols] if glued else [*symbols, end_of_word]
    tokens, merges = list(symbols), []
    for left, right in draw(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=12)):
        pair = tokens[left % len(tokens)], tokens[right % len(tokens)]
        if pair not in merges:
            merges.append(pair)
            tokens.append(pair[0] + pair[1])
    special = draw(
        st.lists(st.sampled_from(["<s>", "<|endoftext|>", "ab", "Ġ", "x", " y ", "a</w>", "é"]), unique=True)
    )
    unk = draw(st.sampled_from(["<unk>", "<s>", "?", "q"] if plain else [None, "<unk>", "<s>", "?", "q"]))
    pretokenizers = SAME if plain else PRETOKENIZERS
    normals = PLAIN_NORMALIZERS[:2] if plain else PLAIN_NORMALIZERS + OWN_NORMALIZERS
    ranks = [None] if plain else [None, None, np.arange(len(merges), dtype=np.int32) // 2]
    spec = make_spec(
        model, symbols, merges, special, unk, mark, glued,
        first_id=draw(st.sampled_from([0, 1, 7])), gap=draw(st.sampled_from([0, 3])), fuse_unk=draw(st.booleans()),
        ignore_merges=draw(st.booleans()) and not (plain and glued), pretokenizer=draw(st.sampled_from(pretokenizers)),
        normalizer=draw(st.none() | st.sampled_from(normals)),
        merge_ranks=draw(st.sampled_from(ranks)),
    )  # fmt: skip
    if not plain and len(special) >= 2 and draw(st.booleans()):
        spec = replace_fields(spec, clip=(spec.special_tokens[special[0]], spec.special_tokens[special[1]]))
    if not plain and mark is not None and draw(st.integers(0, 9)) == 0:
        spec = replace_fields(spec, ends_word=~spec.ends_word & (spec.vocabulary.kinds == 1))
    return spec


@given(specs())
@examples(14)
def test_specs_round_trip(spec):
    data = write(spec)
    assert_same(read(data), spec)
    assert write(read(data)) == data
    loaded = json.loads(data)["model"]["type"] == "BPE"
    assert loaded == (explain_different_ids(spec) is None)


@pytest.mark.parametrize("with_mark", [False, True])
@pytest.mark.parametrize("byte_fallback", [False, True])
@pytest.mark.parametrize("unk", ["?", "q", "Ġ", "é", "<0x3F>", "?</w>"])
@pytest.mark.parametrize("model", ["char", "byte"])
def test_a_spec_whose_unknown_token_is_one_character_round_trips(model, unk, byte_fallback, with_mark):
    byte_fallback = byte_fallback and model == "char"  # a byte model has none
    mark = "</w>" if with_mark else None
    symbols = [*"abc<", *(f"{char}</w>" for char in "abc<" if with_mark)]
    symbols += ["<0x40>" if unk == "<0x3F>" else "<0x3F>"] if byte_fallback else []
    symbols = symbols if model == "char" else [symbol.encode() for symbol in symbols]
    spec = make_spec(model, symbols, [], ["<s>"], unk, mark, with_mark, byte_fallback=byte_fallback)
    reloaded = read(write(spec))
    assert_same(reloaded, spec)
    tok, again = bpe.Tokenizer(spec), bpe.Tokenizer(reloaded)
    peer = load_by_tokenizers(spec) if is_loaded_by_tokenizers(spec) and not with_mark else None
    for text in ("?", "a?b", "ab?", "q", "aĠb", "é?"):
        ids = tok.encode(text).tolist()
        assert again.encode(text).tolist() == ids
        assert peer is None or peer.encode(text).ids == ids


@given(specs())
@examples(14)
def test_tokenizers_loads_files_without_types_of_our_own(spec):
    data = write(spec)
    assert is_loaded_by_tokenizers(spec) == (b'"type": "bpe.' not in data)
    if is_loaded_by_tokenizers(spec):
        theirs = load_by_tokenizers(data)
        assert theirs.get_vocab(with_added_tokens=True) == {
            (
                token.decode()
                if kind == 2
                else (spell_token_in_letters(token) if spec.model == "byte" else token.decode())
            ): number
            for kind in (1, 2)
            for number, token in spec.vocabulary.items(kind)
        }
        assert_same(read(save_by_tokenizers(theirs)), spec)


@given(specs(plain=True), TEXTS | st.text(alphabet="abc é한😊\n<q?x", max_size=30))
@examples(14, suppress_health_check=[HealthCheck.filter_too_much])
def test_specs_that_tokenizers_loads_have_the_same_ids_there(spec, text):
    # Without an unknown token, `tokenizers` drops unknown characters, and we raise an error.
    data = write(spec)
    assume(b'"type": "bpe.' not in data)
    ids = bpe.Tokenizer(spec).encode(text, allowed_special="all")
    assert load_by_tokenizers(data).encode(text).ids == ids.tolist()


def test_the_vocabulary_is_in_id_order_one_entry_per_line():
    text = write(make_spec(merges=BYTE_MERGES, special=["<s>"], gap=3)).decode()
    lines = text.splitlines()
    assert lines[lines.index('    "vocab": {') + 1] == '      "!": 0,'
    assert '      ["Ġ", "low"],' in lines
    assert list(json.loads(text)["model"]["vocab"].values()) == [*range(256 + 7), 256 + 7 + 3]
    assert json.loads(text)["added_tokens"] == [
        {"id": 266, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
        "special": True}
    ]  # fmt: skip


@pytest.mark.parametrize("model", ["byte", "char"])
def test_every_pretokenizer_round_trips(model):
    for pretokenizer in PRETOKENIZERS:
        spec = make_spec(model, [b"a"] if model == "byte" else ["a"], pretokenizer=pretokenizer)
        assert_same(read(write(spec)), spec)


@pytest.mark.parametrize("normalizer", PLAIN_NORMALIZERS + OWN_NORMALIZERS, ids=str)
def test_every_normalizer_round_trips(normalizer):
    spec = make_spec(normalizer=normalizer)
    assert_same(read(write(spec)), spec)
    assert is_loaded_by_tokenizers(spec) == (normalizer in PLAIN_NORMALIZERS)


@pytest.mark.parametrize(
    "spec",
    [
        make_spec("char", ["a", "b", "</w>"], [("b", "</w>")], mark="</w>"),
        make_spec(symbols=[b"a", b"</w>"], mark="</w>"),
        make_spec(merges=BYTE_MERGES, merge_ranks=np.array([0, 1, 1, 2, 3, 4, 5], dtype=np.int32)),
        make_spec(special=["<|startoftext|>", "<|endoftext|>"], clip=(256, 257)),
        make_spec(merges=BYTE_MERGES, special=["low"]),
        make_spec(symbols=[b"a"], unk="Ġ", fuse_unk=True),
        make_spec("char", ["a"], unk="?", fuse_unk=True),
        make_spec(unk="<unk>", ignore_merges=True),
        make_spec("char", ["a"], special=["é"], unk="?", normalizer=n.NFC()),
        make_spec("char", ["a"], special=["K"], unk="?", normalizer=n.NFC()),
        make_spec("char", ["a"], special=["<"], unk="?", normalizer=n.NFD()),
        make_spec("char", ["a"], pretokenizer=Pretokenizer.from_regex("^a")),
        make_spec(pretokenizer=Pretokenizer("cl100k", add_prefix_space=True)),
        make_spec("char", ["a"], pretokenizer=Pretokenizer("gpt2", add_prefix_space=True)),
    ],
)
def test_tokenizers_refuses_files_that_it_would_interpret_differently(spec):
    assert_same(read(write(spec)), spec)
    assert not is_loaded_by_tokenizers(spec)


@pytest.mark.parametrize(
    "spec",
    [
        make_spec(special=["<s>"], ignore_merges=True, normalizer=n.NFKC()),
        make_spec("char", MARKED[:4], special=["b</w>"], mark="</w>", glued=True),
    ],
)
def test_a_special_token_that_text_could_become_is_left_out_of_the_vocab(spec):
    assert_same(read(write(spec)), spec)
    name = next(iter(spec.special_tokens))
    assert is_loaded_by_tokenizers(spec)
    assert name not in json.loads(write(spec))["model"]["vocab"]
    peer = load_by_tokenizers(write(spec))
    peer.encode_special_tokens = True
    for text in (name, "＜s＞") if spec.model == "byte" else ():  # no token is a b that ends a word
        assert peer.encode(text).ids == bpe.Tokenizer(spec).encode(text).tolist()


@pytest.mark.parametrize("normalizer", OWN_NORMALIZERS, ids=str)
def test_tokenizers_refuses_our_normalizers_alone_and_in_a_sequence(normalizer):
    assert not is_loaded_by_tokenizers(make_spec(normalizer=normalizer))
    assert not is_loaded_by_tokenizers(make_spec(normalizer=n.Sequence(n.NFC(), normalizer)))


def test_inconsistent_specs_are_not_written():
    spec = make_spec(merges=BYTE_MERGES, special=["<s>"])
    for changes, message in (
        ({"special_tokens": {"<t>": 263}}, "must be the same"),
        ({"special_tokens": {}}, "must be the same"),
        ({"unk_token": "<unk>"}, "not in the vocabulary"),
        ({"merge_results": spec.merge_results[::-1].copy()}, "not spelled as"),
        ({"end_of_word": "</w>"}, "go together"),
        ({"end_of_word_glued": True}, "go together"),
    ):
        with pytest.raises(ValueError, match=message):
            write(replace_fields(spec, **changes))
    deep = n.Sequence()
    for _ in range(60):
        deep = n.Sequence(deep)
    with pytest.raises(ValueError, match="nested"):
        write(make_spec(normalizer=deep))


# The same pretokens and the same normalized text ----------------------------------------------------------------------


def split_by_bpe(pretokenizer, text):
    data = pretokenizer.edit_for_scanner(text.encode())
    starts, ends = pretokenizer.find_spans_by_regex(data)
    return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def split_by_peer(peer, model, text):
    pieces = [piece for piece, _ in peer.pre_tokenizer.pre_tokenize_str(text)]
    return [bytes(map_letters_to_bytes()[c] for c in piece) if model == "byte" else piece.encode() for piece in pieces]


SAME = [
    *(Pretokenizer(name) for name in NAMES),
    make_whitespace_pretokenizer(),
    *(Pretokenizer.from_regex(pattern, gaps=gaps) for pattern in PATTERNS_OF_USERS for gaps in ("drop", "keep")),
]


@pytest.mark.parametrize(
    ("model", "pretokenizer"),
    [(model, one) for model in ("byte", "char") for one in SAME]
    + [("byte", make_prefix_pretokenizer()), ("byte", Pretokenizer("gpt2",
    add_prefix_space=True))], ids=str,
)  # fmt: skip
def test_tokenizers_finds_the_same_pretokens(model, pretokenizer):
    spec = make_spec(model, [b"a"] if model == "byte" else ["a"], pretokenizer=pretokenizer)
    peer = load_by_tokenizers(spec)
    all_characters = "".join(OLD[i] + PIECES[i % len(PIECES)] for i in range(0, len(OLD), 97)) + "!\u0345!"
    assert split_by_peer(peer, model, all_characters) == split_by_bpe(pretokenizer, all_characters)

    @given(TEXTS)
    @examples(4)
    def check(text):
        assert split_by_peer(peer, model, text) == split_by_bpe(pretokenizer, text)

    check()


@pytest.mark.parametrize("normalizer", PLAIN_NORMALIZERS, ids=str)
def test_tokenizers_normalizes_alike(normalizer):
    peer = load_by_tokenizers(make_spec(normalizer=normalizer)).normalizer
    for start in range(0, len(OLD), 5000):
        text = " ".join(OLD[start : start + 5000])
        assert peer.normalize_str(text) == normalizer(text)

    @given(TEXTS)
    @examples(4)
    def check(text):
        assert peer.normalize_str(text) == normalizer(text)

    check()


@given(st.text(alphabet=[*list(r"ab.|()[]{}*+?^$\-&,:=!<>i01dsSpPLuNn '"), "é"], max_size=8))
@examples(32)
@example(r"(?i:s)(?i:t)")
@example("[z-a]")
@example("a{2,1}")
def test_translated_patterns_match_alike(pattern):
    if not is_shared_pattern(pattern):
        return
    try:
        pretokenizer = Pretokenizer.from_regex(pattern, gaps="keep")
    except ValueError:  # such as a range from z to a
        return
    peer = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    for text in ("ab.(a)[b] {a}**bb01 dsS pPLu\n\nNi", "ß ﬆ éa,b:=!<>^$-&|'ia  11", "aaabbb???+++"):
        assert [piece.encode() for piece, _ in peer.pre_tokenize_str(text)] == split_by_bpe(pretokenizer, text)


def test_which_patterns_are_translated():
    for pattern in (
        *PATTERNS_OF_USERS,
        ONIGURUMA_SPELLINGS["o200k"],
        "[-a]",
        "[^a-]+",
        "a{3}",
        "(?>a|b)c",
        "x(?!y)",
        r"\.\*",
        "[a|b&]",
    ):
        assert is_shared_pattern(pattern), pattern
    refused = ["", "a|", "(?=a)", "a**", "(a", "a)", "[a&&b]", "a{2}?", "a{2}+", "(?i:é)", "(?P<x>a)"]
    refused += [r"a\1", r"\p{Foo}", r"\ud800", "(" * 60 + "a" + ")" * 60, "a" * 20_000]
    for pattern in [pattern for pattern in PATTERNS_OF_OUR_OWN[:11] if "(?<" not in pattern] + refused:
        assert not is_shared_pattern(pattern), pattern


@pytest.mark.parametrize("in_file", [0, 1, 3])
def test_added_tokens_may_be_given_by_their_fields(in_file):
    tok = bpe.train(texts=["low lower"], vocab_size=258).with_tokens(special=["<s>", "é "], added=["C++"])
    document = json.loads(write(tok.spec))
    tokens = document["added_tokens"]
    rows = [tuple(token.values()) for token in tokens[in_file:]]
    shorter_file = json.dumps({**document, "added_tokens": tokens[:in_file]}).encode()
    spec = read(shorter_file, added_tokens=rows)
    assert_same(spec, tok.spec)
    assert dict(spec.token_flags) == dict(tok.spec.token_flags)
    if rows:
        with pytest.raises(FormatError, match=r"added_tokens\[3\]"):
            read(shorter_file, added_tokens=[*rows, rows[-1]])


# The pattern cl100k, saved as Llama 3's -------------------------------------------------------------------------------

SPACE_MERGES = [(b" ", b" "), (b"\n", b"\n"), (b"  ", b"\n"), (b"\r", b"\n"), (b"\n", b" "), (b"\n ", b"\n")]
CL100K = Pretokenizer("cl100k")


def save_to_json(spec):
    """The JSON of a file as `Tokenizer.save` writes it, and the pattern of its Split."""
    document = json.loads(write(spec, with_record=True))
    steps = document["pre_tokenizer"].get("pretokenizers", [document["pre_tokenizer"]])
    return document, steps[0]["pattern"]["Regex"]


@pytest.mark.parametrize("merges", [SPACE_MERGES[:4], BYTE_MERGES])
@pytest.mark.parametrize("ignore_merges", [False, True])
def test_cl100k_is_saved_in_the_spelling_of_llama3(merges, ignore_merges):
    spec = make_spec(merges=merges, special=["<s>"], gap=2, ignore_merges=ignore_merges, pretokenizer=CL100K)
    document, pattern = save_to_json(spec)
    assert pattern == ONIGURUMA_SPELLINGS["llama3"]
    reread = read(json.dumps(document).encode())
    assert_same(reread, spec)
    assert write(reread, with_record=True) == write(spec, with_record=True)
    data = json.dumps(document).encode()
    tok, peer, compat = bpe.Tokenizer(spec), load_by_tokenizers(data), HuggingFaceTokenizer.from_str(data.decode())

    @given(st.text(alphabet=" \n\r\t\u3000\x85\xa0a1!'", max_size=12) | TEXTS)
    @examples(8)
    @example("a \n  ")
    @example("\r\n \n\u3000 ")
    def check(text):
        assert peer.encode(text, add_special_tokens=False).ids == tok.encode(text, allowed_special="all").tolist()
        assert compat.encode(text).word_ids == peer.encode(text).word_ids

    check()


@pytest.mark.parametrize(
    "spec",
    [
        make_spec(merges=SPACE_MERGES[:5], pretokenizer=CL100K),  # "\n " reaches across the end of the first pretoken
        make_spec(merges=[(b"\n", b"\xe3"), (b"\n\xe3", b"\x80")], pretokenizer=CL100K),
        make_spec(symbols=[b" ", b"\n", b"a"], pretokenizer=CL100K),
        make_spec("char", [" ", "\n"], pretokenizer=CL100K),
        make_spec(mark="</w>", glued=True, pretokenizer=CL100K),
        make_spec(dropout=0.1, pretokenizer=CL100K),
    ],
)
def test_cl100k_keeps_its_own_spelling_where_ids_might_differ(spec):
    document, pattern = save_to_json(spec)
    assert pattern == ONIGURUMA_SPELLINGS["cl100k"]
    assert_same(read(json.dumps(document).encode()), spec)


def test_tokens_that_only_a_look_up_makes_keep_the_spelling_of_cl100k():
    spec = make_spec(merges=[(b" ", b"\n"), (b"\n", b"\n"), (b" \n", b"\n")], ignore_merges=True, pretokenizer=CL100K)
    assert save_to_json(spec)[1] == ONIGURUMA_SPELLINGS["llama3"]
    swapped = replace_fields(
        make_spec(merges=[(b"\n", b"\n"), (b" ", b"\n"), (b" \n", b"\n")], ignore_merges=True), pretokenizer=CL100K
    )  # " \n\n" is looked up, and merging makes " " and "\n\n"
    assert save_to_json(swapped)[1] == ONIGURUMA_SPELLINGS["cl100k"]
    tok, peer = bpe.Tokenizer(swapped), load_by_tokenizers(write(swapped, with_record=True))
    for text in ("a \n\n", "a \n\n  ", "\n\n \n\n b"):
        assert peer.encode(text).ids == tok.encode(text).tolist()


def test_a_file_that_was_changed_has_the_pattern_that_is_written_in_it():
    spec = make_spec(merges=SPACE_MERGES[:4], pretokenizer=CL100K)
    document, _ = save_to_json(spec)
    document["model"]["vocab"]["Ċ "] = 400
    assert read(json.dumps(document).encode()).pretokenizer == Pretokenizer("llama3")
    document, _ = save_to_json(spec)
    document["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = ONIGURUMA_SPELLINGS["qwen2"]
    assert read(json.dumps(document).encode()).pretokenizer == Pretokenizer("qwen2")
    document["model"]["fingerprint_with_cl100k"] = 1
    with pytest.raises(FormatError, match="fingerprint_with_cl100k"):
        read(json.dumps(document).encode())


#: Another library → the function of a file's path that returns the one that encodes.
RIVALS = {
    "gigatoken": lambda module, path: module.Tokenizer(path).encode,
    "splintr": lambda module, path: module.from_json(path).encode_with_special,
    "fastokens": lambda module, path: module._native.Tokenizer.from_file(path).encode,
    "tuetoken": lambda module, path: module.Tokenizer(path).encode_ordinary,
}


@pytest.mark.parametrize("name", ["gpt2", "cl100k", "o200k", "llama3", "qwen2", "tekken", "deepseek_v3"])
@pytest.mark.parametrize("rival", RIVALS)
def test_other_libraries_read_the_published_patterns(rival, name, tmp_path):
    module = pytest.importorskip(rival)
    text = "I'VE 12345  a\n\n  b\r\n!!/ caf\u00e9 e\u0301 \u65e5\u672c\u8a9e DONe it's\t x \n"
    tok = bpe.train(texts=[text] * 3, vocab_size=300, pretokenizer=name)
    tok.save(tmp_path / "tokenizer.json")
    encode = RIVALS[rival](module, str(tmp_path / "tokenizer.json"))
    for piece in (text, text + "  ", text.strip(), " \n ", "a \n  ", text.upper()):
        ids = encode(piece)
        assert list(getattr(ids, "ids", ids)) == tok.encode(piece).tolist()


def test_a_prefix_and_what_tokenizers_lacks_are_refused_with_the_reason() -> None:
    tok = bpe.train(counts={"low": 2}, num_merges=2, model="char")
    spec = replace(tok.spec, subword_prefix="##", merge_ranks=np.zeros(2, dtype=np.int32))
    with pytest.raises(ValueError, match="the subword prefix '##', and several of its merges share a rank"):
        write(spec)
