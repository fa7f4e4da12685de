"""GGUF files: the tokens that llama.cpp gives. The values were its own in October 2026, reading the vocabulary only."""

from __future__ import annotations

import random
import struct

import pytest
from checks import load_check
from sentencepiece_files import BYTE, CONTROL, NORMAL, SPACE, UNKNOWN, UNUSED, USER_DEFINED, build_gguf

import bpe
from bpe.formats import gguf
from bpe.formats.gguf import header
from bpe.formats.gguf.patterns import NAMES_OF_LINE_PATTERNS, PRETOKENIZERS
from bpe.text.letters import list_byte_letters

LETTERS = sorted(list_byte_letters())
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def load_gguf(values: dict[str, object]) -> bpe.Tokenizer:
    general_keys = {key: value for key, value in values.items() if "." in key}
    tokenizer_keys = {f"tokenizer.ggml.{key}": value for key, value in values.items() if "." not in key}
    return bpe.Tokenizer(gguf.read(build_gguf({**general_keys, **tokenizer_keys})))


def build_byte_level(
    extra_tokens: list[str], merges: list[str], types: list[int] | None = None, **keys: object
) -> bpe.Tokenizer:
    values = {"model": "gpt2", "pre": "gpt-2", **keys, "merges": merges or ["Q Z"]}
    values["tokens"] = [*LETTERS, *extra_tokens, "QZ"]
    return load_gguf({**values, "token_type": [NORMAL] * 256 + (types or [NORMAL] * len(extra_tokens)) + [NORMAL]})


def build_scored(pieces: list[tuple[str, float, int]], **keys: object) -> bpe.Tokenizer:
    texts, scores, types = map(list, zip(*pieces, strict=True))
    return load_gguf({"model": "llama", "tokens": texts, "scores": scores, "token_type": types, **keys})


def tokenize(tok: bpe.Tokenizer, text: str, allowed_special: object = ()) -> list[str]:
    return [
        tok.token_bytes(token_id).decode("latin-1") for token_id in tok.encode(text, allowed_special=allowed_special)
    ]


def test_chat_templates_are_read() -> None:
    keys = {
        "tokenizer.chat_template": "{{ a }}",
        "tokenizer.chat_template.rag": "r",
        "tokenizer.chat_templates": ["rag"],
    }
    tok = load_gguf({"model": "llama", "tokens": ["▁", "a"], "scores": [0.0, 0.0], **keys})
    assert dict(tok.spec.chat_templates) == {"default": "{{ a }}", "rag": "r"}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"tokenizer.chat_template": 5}, "tokenizer.chat_template: it is 5; a chat template must be a string"),
        ({"tokenizer.chat_template.rag": ["r"]}, r"chat_template.rag: it is \['r'\]; a chat template must be a string"),
        (
            {"tokenizer.chat_template": "a", "tokenizer.chat_template.default": "b"},
            "tokenizer.chat_template.default: the chat template 'default' occurs twice; each must be unique",
        ),
    ],
)
def test_invalid_chat_templates_are_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(bpe.FormatError, match=message):
        load_gguf({"model": "llama", "tokens": ["▁", "a"], "scores": [0.0, 0.0], **keys})


# Byte-level models ----------------------------------------------------------------------------------------------------


def test_an_array_of_too_many_items_is_refused() -> None:
    key, is_uint32 = b"tokenizer.ggml.tokens", 4
    data = b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, len(key)) + key + struct.pack("<IIQ", 9, is_uint32, 1 << 25)
    with pytest.raises(bpe.FormatError, match=f"an array declares {1 << 25} items; at most {1 << 24}"):
        gguf.read(data)


@pytest.mark.parametrize("item_type", header._SCALARS)
def test_numbers_of_arrays(item_type: int) -> None:
    """As `struct` reads them one by one; any byte but 0 is true."""
    code, content = header._SCALARS[item_type], bytes(range(256)) * 3
    expected = [number for (number,) in struct.iter_unpack(f"<{code}", content)]
    numbers = header._list_numbers(content, item_type)
    assert repr(numbers) == repr(expected)  # the same types, and NaNs


def test_special_letters_of_bytes_are_decoded_as_text(tmp_path):
    types = [{"ª": USER_DEFINED, "Ġ": CONTROL}.get(letter, NORMAL) for letter in LETTERS]
    tok = load_gguf({"model": "gpt2", "merges": ["a b"], "tokens": [*LETTERS, "ab"], "token_type": [*types, NORMAL]})
    tok.save(tmp_path / "tokenizer.json")
    for tokenizer in (tok, bpe.Tokenizer.load(tmp_path / "tokenizer.json")):
        assert tokenizer.decode([LETTERS.index("ª"), 256, LETTERS.index("Ġ")]) == "ªabĠ"
        assert tokenize(tokenizer, "ªĠ", "all") == tokenize(tok, "ªĠ", "all")


def test_strings_that_are_not_utf_8_matter_in_tokens_and_templates_alone():
    values = {"general.author": "Xx", "general.tags": ["Xx", "y"], "tokenizer.ggml.model": "llama"}
    values |= {"tokenizer.chat_template": "Zz", "tokenizer.ggml.tokens": ["▁", "a", "Y", "y", "Yy"], "general.Xx": 1}
    data = build_gguf(values)
    tok = bpe.Tokenizer(gguf.read(data.replace(b"Xx", b"X\xff")))
    assert tok.encode("a").tolist() == [0, 1]
    with pytest.raises(bpe.FormatError, match="string 4 is not UTF-8"):
        gguf.read(data.replace(b"Yy", b"Y\xff"))
    with pytest.raises(bpe.FormatError, match=r"offset \d+: it is not UTF-8.*a chat template must be UTF-8"):
        gguf.read(data.replace(b"Zz", b"Z\xff"))
    with pytest.raises(bpe.FormatError, match="add_space_prefix: it is 'no'; it must be a bool"):
        gguf.read(build_gguf({**values, "tokenizer.ggml.add_space_prefix": "no"}))


PAIRS = ["l o", "lo lo", "lolo lolo", "\u0120 lo", "a b", "ab ab", "\u00c3 \u00a9", "\u00e2 \u0142"]


@pytest.mark.parametrize("pre", ["gpt-2", "llama3", "default"])
def test_bytes_without_a_token_are_left_out_after_merging(pre, tmp_path):
    """As in llama.cpp; the other file has tokens for them, which no merge has."""
    missing_letters = {LETTERS[i] for i in (3, 40, 200)} | {list_byte_letters()[byte] for byte in b"\x00\x0b\xf1-\x82"}
    kept_letters = [letter for letter in LETTERS if letter not in missing_letters]
    pairs = [pair for pair in PAIRS if not missing_letters & set(pair)]
    values = {
        "model": "gpt2",
        "pre": pre,
        "merges": pairs,
        "tokens": [*kept_letters, *(p.replace(" ", "") for p in pairs)],
    }
    tok = load_gguf(values)
    complete_tok = load_gguf({**values, "tokens": [*values["tokens"], *sorted(missing_letters)]})
    tok.save(tmp_path / "tokenizer.json")
    assert bpe.Tokenizer.load(tmp_path / "tokenizer.json") == tok
    rng, limit = random.Random(1), tok.n_vocab
    parts = ["lo", "lolo", " lo", "ab", "\x0b", "\0", "-", "é", "€", "\U00050000", " ", "\n", "あ"]
    texts = ["".join(rng.choices(parts, k=size)) for size in (0, 1, 2, 5, 5, 9, 9, 30, 200)]
    texts += ["-" * 90, "ab" * 50 + "-" + "lo" * 900, "-".join(["lolo"] * 300), "-", "lo\x0blo"]
    expected = [[token_id for token_id in complete_tok.encode(text).tolist() if token_id < limit] for text in texts]
    assert [tok.encode(text).tolist() for text in texts] == expected
    assert [row.tolist() for row in tok.encode_batch(texts, threads=3)] == expected
    assert [token_id for row in tok.encode_stream(texts) for token_id in row] == tok.encode("".join(texts)).tolist()
    for text, ids in zip(texts, expected, strict=True):
        ids_with_dropout = complete_tok.encode(text, dropout=0.3, seed=5)
        assert tok.encode(text, dropout=0.3, seed=5).tolist() == ids_with_dropout[ids_with_dropout < limit].tolist()
        assert (tok.count_tokens(text), tok.tokens(text)) == (len(ids), [tok.token_bytes(token_id) for token_id in ids])
        token_ids, spans = tok.encode_with_offsets(text, "byte")
        data = "".join(list_byte_letters()[byte] for byte in text.encode())
        assert token_ids.tolist() == ids
        for token_id, (start, end) in zip(ids, spans.tolist(), strict=True):
            left = "".join(letter for letter in data[start:end] if letter not in missing_letters)
            assert left == values["tokens"][token_id] or not text.encode()[start:end].isascii()  # of whole characters
            assert values["tokens"][token_id] in left
    assert "ids none" not in tok.explain("lo-lo")
    assert bpe.plots.show_merges(tok, "lo-lo")


#: A value of `pre` for each pattern → how it cuts PROBE.
PROBE = "I'M x1234567 $+a.b!\n\n  é\u0301 हि न日本語ab,c\r\n    end"
CUTS = {
    "default": "I|'|M| x|123|456|7| |$+|a|.|b|!|\n\n | é|́| ह|ि| न日本語ab|,|c|\r\n   | end",
    "gpt-2": "I|'|M| x|1234567| $+|a|.|b|!|\n\n | é|́| ह|ि| न日本語ab|,|c|\r\n   | end",
    "llama3": "I|'M| x|123|456|7| $+|a|.b|!\n\n| | é|́| ह|ि| न日本語ab|,c|\r\n|   | end",
    "qwen2": "I|'M| x|1|2|3|4|5|6|7| $+|a|.b|!\n\n| | é|́| ह|ि| न日本語ab|,c|\r\n|   | end",
    "gpt-4o": "I'M| x|123|456|7| $+|a|.b|!\n\n| | é́| हि| न日本語ab|,c|\r\n|   | end",
    "starcoder": "I|'|M| x|1|2|3|4|5|6|7| $+|a|.|b|!|\n\n | é|́| ह|ि| न日本語ab|,|c|\r\n   | end",
    "tekken": "I|'M| x|1|2|3|4|5|6|7| $+|a|.b|!\n\n| | é́| हि| न日本語ab|,c|\r\n|   | end",
    "deepseek-v3": "I|'M| x|123|456|7| $+|a|.b|!\n\n| | é́| हि| न|日本語|ab|,c|\r\n|   | end",
    "kimi-k2": "I'M| x|123|456|7| $+|a|.b|!\n\n| | é́| हि| न|日本語|ab|,c|\r\n|   | end",
    "qwen35": "I|'M| x|1|2|3|4|5|6|7| $+|a|.b|!\n\n| | é́| हि| न日本語ab|,c|\r\n|   | end",
    "k2-horizon": "I|'M| x|123|456|7| $+|a|.b|!\n\n| | é́| हि| न日本語ab|,c|\r\n|   | end",
    "ufakzeka": "I|'M| x|1|2|3|4|5|6|7| $+|a|.b|!\n\n| | é|́| ह|ि| न日本語ab|,c|\r\n|   | end",
    "seed-coder": "I|'M| x|1|2|3|4|5|6|7| $+|a|.b|!|\n\n| | é|́| ह|ि| न日本語ab|,c|\r\n|   | end",
    "laguna": "I|'M| x|1|2|3|4|5|6|7| $+|a|.b|!|\n\n| | é|́| ह|ि| न日本語ab|,c|\r|\n|   | end",
    "minicpm5": "I|'M| x|123|456|7| $+|a|.b|!\n\n| | é|́| ह|ि| न日本語ab|,c|\r\n|   | end",
    "exaone-moe": "I|'M| x|1|2|3|4|5|6|7| $+|a|.b|!\n|\n| | é́ हि न日本語ab|,c|\r\n|   | end",
    "jais-2": "I|'M| x|123|456|7| $+|a|.b|!\n\n| | é|́| ह|ि| न日本語ab|,c|\r\n|  | | end",
    "tiny_aya": "I'M| x|1|234|567| $+|a|.b|!\n\n| | é́| हि| न日本語ab|,c|\r\n|   | end",
    "youtu": "I'M| x|1|2|3|4|5|6|7| $+|a|.b|!\n\n| | é́| हि| न|日本語|ab|,c|\r\n|   | end",
    "spark2_5": "I|'M| x|1|2|3|4|5|6|7| $+|a|.b|!|\n|\n| | é́| हि| न|日本語|ab|,c|\r|\n|   | end",
    "afmoe": "I|'M| x|1|234|567| $+|a|.b|!\n\n| | é́| हि| न|日本語|ab|,c|\r\n|   | end",
    "deepseek-llm": "I|'|M| x|1234567| $+|a|.|b|!|\n|\n| | é|́ |हि| |न日本語|ab|,|c|\r|\n|   | end",
    "deepseek-coder": "I|'|M| x|1|2|3|4|5|6|7| $+|a|.|b|!|\n|\n| | é|́| |ह|ि| |न日本語|ab|,|c|\r|\n|   | end",
    "falcon": "I|'|M| x|123|456|7| |$+|a|.|b|!|\n\n | é|́| ह|ि| न日本語ab|,|c|\r\n   | end",
    "poro-chat": "I'M| x1234567| $+a|.|b|!\n\n | é́| हि| न日本語ab|,|c|\r\n   | end",
    "viking": "I'M| x|1|2|3|4|5|6|7| $+a|.|b|!\n\n | é́| हि| न日本語ab|,|c|\r\n   | end",
    "superbpe": "I'M x|1|234|567| $+a.b!\n\n  é́ हि न日本語ab,c\r\n    end",
    "chameleon": "I|'|M| x|1|2|3|4|5|6|7| |$|+|a|.|b|!|\n|\n|  |é|́| ह|ि| न日本語ab|,|c|\r|\n|    |end",
}


def test_each_value_of_pre_cuts_as_its_pattern_does():
    for pre, cuts in CUTS.items():
        pretokenizer = build_byte_level([], [], pre=pre).pretokenizer
        assert pretokenizer is not None
        assert [part.decode() for part in pretokenizer.split_bytes(PROBE)] == cuts.split("|"), pre


def test_all_patterns_are_probed():
    assert {PRETOKENIZERS[pre].patterns for pre in CUTS} | {
        PRETOKENIZERS[pre].patterns for pre in NAMES_OF_LINE_PATTERNS
    } == {pattern.patterns for pattern in PRETOKENIZERS.values()}


def test_a_missing_or_empty_pre_is_the_default():
    tok = build_byte_level(["Ġ("], ["Ġ ("])
    assert tokenize(tok, "x (") == ["x", " ("]
    for keys in ({"pre": ""}, {"pre": "default"}):
        assert tokenize(build_byte_level(["Ġ("], ["Ġ ("], **keys), "x (") == ["x", " ", "("]
    values = {"model": "gpt2", "tokens": [*LETTERS, "Ġ("], "merges": ["Ġ ("]}
    assert tokenize(load_gguf(values), "x (") == ["x", " ", "("]


def test_a_space_prefix_means_nothing_in_a_byte_level_model():
    assert tokenize(build_byte_level([], [], add_space_prefix=True), "QZ") == ["QZ"]


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        (["ab", "bcd"], "xabcdx", ["x", "a", "bcd", "x"]),
        (["bc", "ab"], "abc", ["a", "bc"]),  # of equal length: by id
        (["ab", "bc"], "abc", ["ab", "c"]),
        (["xy", "yzw", "xyz"], "xyzwxyzxy", ["x", "yzw", "xyz", "xy"]),
        (["\n\n\n", "\n\n", "\n"], "\n" * 5, ["\n\n\n", "\n\n"]),
        (["  ", "x y"], "x  y x y", ["x", "  ", "y", " ", "x y"]),
    ],
)
def test_the_longest_user_defined_token_is_found_first(names, text, expected, tmp_path):
    tok = build_byte_level(names, [], [USER_DEFINED] * len(names))
    assert tokenize(tok, text) == expected
    assert [token_id for part in tok.encode_stream(list(text)) for token_id in part] == tok.encode(text).tolist()
    tok.save(tmp_path / "t.json")
    assert bpe.Tokenizer.load(tmp_path / "t.json") == tok


def test_longer_and_longer_tokens_that_overlap_are_refused():
    with pytest.raises(
        bpe.FormatError, match=r"special tokens 'bcd' and 'ab' overlap, and llama\.cpp seeks the longest"
    ):
        build_byte_level(["ab", "bcd", "cdef"], [], [USER_DEFINED] * 3)


def test_control_tokens_are_found_if_allowed_and_user_defined_ones_always():
    tok = build_byte_level(["<c>", "<u>", "<k>", "<n>"], [], [CONTROL, USER_DEFINED, UNKNOWN, UNUSED])
    assert tokenize(tok, "<c><u><k>") == [*"<c>", "<u>", *"<k>"]
    assert tokenize(tok, "<c><u><k>", "all") == ["<c>", "<u>", "<k>"]
    assert tokenize(tok, "<n>", "all") == [*"<n>"]


@pytest.mark.parametrize(
    ("names", "plain", "special"),
    [
        (["<|im_end|>"], [], [0]),
        (["<|file_sep|>"], [], [0]),
        (["<|channel|>"], [0], [0]),
        (["<|end|>"], [], [0]),
        (["<|end|>", "<|call|>", "<|return|>"], [0], [0, 1, 2]),
        (["<|end|>", "<|calls|>", "<|flush|>"], [0], [0, 1, 2]),
        (["<|end|>", "<|flush|>", "<|return|>"], [], [0, 1, 2]),
        (["</s>"], [], [0]),
        (["</s>", "<|tool_response>"], [], [1]),
    ],
)
@pytest.mark.parametrize("kind", [NORMAL, CONTROL])
def test_some_names_have_a_type_whatever_the_file_says(names, plain, special, kind):
    tok = build_byte_level(names, [], [kind] * len(names))
    text = "".join(names)
    for allowed_special, expected in (((), plain), ("all", special)):
        ids = [
            token_id - 256 for token_id in tok.encode(text, allowed_special=allowed_special).tolist() if token_id >= 256
        ]
        assert ids == expected


def test_two_names_of_a_role_are_refused_unless_the_file_decides():
    names = ["<fim_suffix>", "<SUF>"]
    with pytest.raises(bpe.FormatError, match=r"'<fim_suffix>' and '<SUF>' have the same role.*fim_suf_token_id"):
        build_byte_level(names, [], [NORMAL, CONTROL])
    tok = build_byte_level(names, [], [NORMAL, CONTROL], fim_suf_token_id=257)
    assert tokenize(tok, "<SUF>", "all") == ["<SUF>"]
    assert len(tokenize(tok, "<fim_suffix>", "all")) == len("<fim_suffix>")
    assert tokenize(build_byte_level(names, [], [CONTROL, CONTROL]), "<SUF>", "all") == ["<SUF>"]


def test_phi_3_takes_the_white_space_after_special_tokens():
    names = ["<|user|>", "<s>", "</s>", "<unk>", "<|endoftext|>"]
    tok = build_byte_level(names, [], [CONTROL] * 5, **{"general.name": "Phi3 mini"})
    assert tokenize(tok, "<|user|> \n a</s>\t<s> a", "all") == [
        "<|user|>", "a", "</s>", "<s>", " ", "a",
    ]  # fmt: skip


def test_unusual_lists_are_read():
    tok = build_byte_level(
        ["", "ab", "abc"], ["a b", "a b", "ab", "ab c"]
    )  # an empty token; a merge twice, one of one part
    assert tokenize(tok, "abc[EMPTY_256]") == ["abc", *"[EMPTY_256]"]
    assert tok.decode([256]) == "[EMPTY_256]"
    values = {"model": "gpt2", "pre": "gpt-2", "tokens": [*LETTERS, "ab"], "merges": ["a b"]}
    assert tokenize(load_gguf({**values, "token_type": [NORMAL] * 300}), "ab") == ["ab"]
    assert tokenize(load_gguf({**values, "token_type": [0] * 257}), "ab") == ["ab"]
    with pytest.raises(bpe.FormatError, match="it has 256 items for 257 tokens"):
        load_gguf({**values, "token_type": [NORMAL] * 256})
    kimi = {key: value for key, value in values.items() if key != "merges"}
    assert tokenize(load_gguf({**kimi, "pre": "kimi-k2"}), "ab") == ["a", "b"]
    with pytest.raises(bpe.FormatError, match="merges: it is not an array"):
        load_gguf(kimi)


def test_a_special_token_that_is_a_pretoken_is_refused_where_pretokens_are_looked_up():
    with pytest.raises(bpe.FormatError, match="'<|' is a whole pretoken".replace("|", r"\|")):
        build_byte_level(["<|"], [], [CONTROL], pre="llama3")
    assert tokenize(build_byte_level(["<|"], [], [CONTROL]), "<|") == ["<", "|"]
    assert tokenize(build_byte_level(["<|x|>"], [], [CONTROL], pre="llama3"), "<|x|>") == [*"<|x|>"]


def test_where_llama_cpp_differs_from_the_published_pattern_the_published_one_counts():
    for pre in ("gpt-4o", "tekken"):
        pretokenizer = build_byte_level([], [], pre=pre).pretokenizer
        assert pretokenizer is not None
        assert pretokenizer.split("É\nA") == ["É", "\n", "A"]
        assert pretokenizer.split("СловоДва हिन्दी") == ["Слово", "Два", " हिन्दी"]


# Models of characters -------------------------------------------------------------------------------------------------


def list_gemma_pieces(unk: int) -> list[tuple[str, float, int]]:
    pieces = [("<unk>", 0.0, unk), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    pieces += [(name, 0.0, BYTE) for name in BYTES]
    return [*pieces, (SPACE, -3.0, NORMAL), ("a", -1.0, NORMAL), ("b", -2.0, NORMAL), (SPACE * 2, -4.0, NORMAL)]


@pytest.mark.parametrize("unk", [UNKNOWN, CONTROL])
@pytest.mark.parametrize("prefix", [False, True])
def test_user_defined_tokens_are_found_in_the_text_as_it_is(unk, prefix):
    more_pieces = [("  ", -1000.0, USER_DEFINED), ("<a b>", -1000.0, USER_DEFINED)]
    tok = build_scored(list_gemma_pieces(unk) + more_pieces, add_space_prefix=prefix)
    prefix_tokens = [SPACE] if prefix else []

    def space(text):
        return [token.encode("latin-1").decode() for token in tokenize(tok, text)]

    assert space("a  b") == [*prefix_tokens, "a", "  ", *prefix_tokens, "b"]
    assert space("<a b>a b") == ["<a b>", *prefix_tokens, "a", SPACE, "b"]
    assert space(" a") == ([SPACE * 2] if prefix else [SPACE]) + ["a"]
    assert tok.decode(tok.encode("a")) == "a"


def test_tokens_of_all_types_are_merged():
    more_pieces = [("<", -5.0, NORMAL), ("s", -6.0, NORMAL), (">", -7.0, NORMAL), ("<s", -8.0, UNUSED)]
    pieces = [*list_gemma_pieces(UNKNOWN), *more_pieces]
    tok = build_scored(pieces, add_space_prefix=False)
    assert tokenize(tok, "<s>") == ["<s>"]  # although it is of type control, and not allowed
    assert tokenize(tok, "<s") == ["<s"]


def test_two_unknown_tokens_and_other_scores_are_read():
    tok = build_scored(
        [*list_gemma_pieces(UNKNOWN), ("<u>", 0.0, UNKNOWN), ("ab", 0.0, NORMAL)], add_space_prefix=False
    )
    assert tokenize(tok, "ab<u>") == ["ab", *(f"<0x{byte:02X}>" for byte in b"<u>")]
    assert tokenize(tok, "ab<u>", "all") == ["ab", "<u>"]
    texts, _, types = map(list, zip(*list_gemma_pieces(UNKNOWN), ("ab", 0.0, NORMAL), ("ba", 0.0, NORMAL), strict=True))
    values = {"model": "llama", "tokens": texts, "token_type": types, "add_space_prefix": False}
    assert tokenize(load_gguf(values), "aba") == ["ab", "a"]
    last_id = len(texts) - 1
    assert tokenize(load_gguf({**values, "scores": [0] * last_id + [1, 1]}), "aba") == ["a", "ba"]


def test_what_is_found_before_takes_no_part_in_merging():
    pieces_found_first = [
        ("\n", 0.0, USER_DEFINED),
        ("a\n", -1.0, NORMAL),
        ("xy", 0.0, USER_DEFINED),
        ("zzzz", 0.0, NORMAL),
    ]
    tok = build_scored(list_gemma_pieces(UNKNOWN) + pieces_found_first, add_space_prefix=False)
    assert tokenize(tok, "a\nxyzzzz") == ["a", "\n", "xy", *["<0x7A>"] * 4]
    long_pieces = [("b" * 2**i, 0.0, NORMAL) for i in range(1, 12)]
    with pytest.raises(bpe.FormatError, match="has 2048 characters; a token has at most 1024"):
        build_scored(list_gemma_pieces(UNKNOWN) + long_pieces)
    for scores in (3, ["a"]):
        with pytest.raises(bpe.FormatError, match=r"tokenizer\.ggml\.scores: it is not an array of float"):
            load_gguf({"model": "llama", "tokens": ["a"], "scores": scores})


def test_characters_without_a_token_and_bytes_are_errors():
    tok = build_scored([("<unk>", 0.0, UNKNOWN), ("a", 0.0, NORMAL), (SPACE, 0.0, NORMAL)])
    assert tokenize(tok, "a")[1:] == ["a"]
    with pytest.raises(ValueError, match="character 'b' of the text"):
        tok.encode("b")
    with pytest.raises(bpe.FormatError, match="token 'ax' has the character 'x', which is not a token"):
        build_scored([("a", 0.0, NORMAL), ("ax", 0.0, NORMAL)])


@pytest.mark.parametrize(("pre", "space"), [("gemma4", []), ("mmbert", [SPACE]), ("sarvam-moe", [])])
def test_models_of_lines(pre, space):
    texts = [SPACE, "a", "b", "<x>", SPACE + "a", "ab", "\n", "\n\n", *BYTES, "<mask>"]
    types = [NORMAL] * 3 + [USER_DEFINED] + [NORMAL] * 4 + [BYTE] * 256 + [USER_DEFINED]
    values = {"model": "gpt2", "pre": pre, "tokens": texts, "token_type": types, "merges": ["a b", "\n \n"]}
    tok = load_gguf(values)

    def found(text):
        return [texts[token_id] for token_id in tok.encode(text).tolist()]

    assert found("ab<x>a") == [*space, "ab", "<x>", *space, "a"]
    assert found(" a\nb\n\n\na") == [SPACE, "a", "\n", *space, "b", "\n\n", "\n", *space, "a"]
    assert found("é") == [*space, "<0xC3>", "<0xA9>"]
    assert found("a \n<mask>") == [*space, "a", *([] if space else [SPACE, "\n"]), "<mask>"]
    assert tok.decode([0, 1, 8 + 0xC3, 8 + 0xA9]) == " aé"
    if pre == "gemma4":
        assert load_gguf({**values, "model": "gemma4", "pre": "x"}) == tok
        with pytest.raises(bpe.FormatError, match=r"'\\n\\n' is not what merging makes of its characters"):
            load_gguf({**values, "merges": ["a b"]})


# Generated files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "peers"), [("check_gguf", ["xllamacpp", "tokenizers"]), ("check_sentencepiece", ["sentencepiece"])]
)
def test_generated_files_give_what_the_peer_gives(name, peers, capsys):
    for peer in peers:
        pytest.importorskip(peer, reason=f"{peer} is not installed")
    counts = load_check(name).check(["--files", "15", "--seed", "1"])
    assert not [kind for kind in counts if kind.startswith("different")], capsys.readouterr().out
    assert counts["same"] > 7
