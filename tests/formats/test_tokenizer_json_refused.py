"""tokenizer.json: the files that are refused, and the error messages."""

import copy
import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples
from tokenizer_json import (
    BYTE_MERGES,
    MARKED,
    MARKED_MERGES,
    assert_same,
    make_spec,
    make_split,
)

import bpe
from bpe import normalizers as n
from bpe.errors import FormatError, with_path
from bpe.formats.huggingface import read, write
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.text.letters import list_byte_alphabet


def build_base() -> dict:
    spec = make_spec(
        merges=BYTE_MERGES, special=["<s>", "</s>"], pretokenizer=Pretokenizer("gpt2"), normalizer=n.Sequence(n.NFC())
    )
    return json.loads(write(spec))


def describe_replace(pattern):
    return {"type": "Replace", "pattern": pattern, "content": ""}


def describe_sequence(*pretokenizers):
    return {"type": "Sequence", "pretokenizers": list(pretokenizers)}


def build_template(single, token_id=263):
    tokens = {"<s>": {"id": "<s>", "ids": [token_id], "tokens": ["<s>"]}}
    return {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": tokens}


def describe_piece(name):
    return {"SpecialToken": {"id": name, "type_id": 0}}


TEXT = {"Sequence": {"id": "A", "type_id": 0}}
PREFIX = {"type": "ByteLevel", "add_prefix_space": True, "use_regex": False}
BAD = [
    (("truncation",), {"max_length": 5}, "truncation", "no strategy"),
    (("padding",), {}, "padding", "no strategy"),
    (("padding",), {"strategy": "BatchLongest", "direction": "Left", "pad_id": -1}, "padding.pad_id", "not a token id"),
    (("version",), "2.0", "version", "1.0"),
    (("extra",), 1, "the file", "'extra' is not known"),
    (("post_processor",), {"type": "Unknown"}, "post_processor", "'Unknown' is not known"),
    (("post_processor",), 1, "post_processor", "not an object with a type"),
    (("post_processor",), {"type": "TemplateProcessing"}, "post_processor", "no single"),
    (("post_processor",), build_template([]), "post_processor.single", "one Sequence"),
    (("post_processor",), build_template([TEXT, TEXT]), "post_processor.single", "one Sequence"),
    (("post_processor",), build_template([1, TEXT]), "post_processor.single[0]", "neither"),
    (
        ("post_processor",), build_template([describe_piece("</s>"), TEXT]),
        "post_processor.single[0]", "no ids in special_tokens",
    ),
    (
        ("post_processor",), build_template([describe_piece("<s>"), TEXT], 999),
        "post_processor.special_tokens['<s>'].ids", "no token",
    ),
    (("post_processor",), {"type": "BertProcessing", "sep": ["</s>"], "cls": ["<s>", 263]}, "post_processor.sep", "id"),
    (("added_tokens",), {}, "added_tokens", "not a list"),
    (("added_tokens", 0, "special"), 1, "added_tokens[0].special", "must be true or false"),
    (("added_tokens", 1, "lstrip"), 1, "added_tokens[1].lstrip", "must be true or false"),
    (("added_tokens", 1, "rstrip"), 1, "added_tokens[1].rstrip", "must be true or false"),
    (("added_tokens", 1, "single_word"), 1, "added_tokens[1].single_word", "must be true or false"),
    (("added_tokens", 0, "normalized"), 1, "added_tokens[0].normalized", "must be true or false"),
    (("added_tokens", 0, "id"), True, "added_tokens[0].id", "not a token id"),
    (("added_tokens", 0, "id"), 5, "added token '<s>'", "gives it the id 263"),
    (("added_tokens", 0, "content"), "</s>", "added_tokens[1]", "must be unique"),
    (("added_tokens", 1, "id"), 263, "added_tokens[1]", "must be unique"),
    (("normalizer",), {"type": "Furigana"}, "normalizer", "'Furigana' is not known"),
    (("normalizer", "normalizers", 0), {"type": "NFC", "x": 1}, "normalizer.normalizers[0]", "'x' is not known"),
    (("normalizer", "normalizers", 0), 1, "normalizer.normalizers[0]", "not an object with a type"),
    (("normalizer",), describe_replace({"Regex": "a*"}), "normalizer.pattern", "Oniguruma"),
    (("normalizer",), describe_replace({"Regex": ""}), "normalizer.pattern", "empty"),
    (("normalizer",), describe_replace({"Regex": "^"}), "normalizer.pattern", "puts the content twice"),
    (("normalizer",), describe_replace({"Regex": "(?<=a)|(?=b)"}), "normalizer.pattern", "puts the content twice"),
    (("normalizer",), describe_replace({}), "normalizer.pattern", "either"),
    (("normalizer",), {"type": "bpe.UnescapeHTML", "times": True}, "normalizer", "times"),
    (("normalizer",), {"type": "bpe.Replace", "pattern": "(", "replacement": ""}, "normalizer", "does not compile"),
    (("pre_tokenizer",), {"type": "Digits"}, "pre_tokenizer", "no individual_digits"),
    (("pre_tokenizer", "use_regex"), 1, "pre_tokenizer.use_regex", "must be"),
    (("pre_tokenizer",), make_split(r"\p{N}(?~a)", "Isolated"), "pre_tokenizer", "absent groups"),
    (("pre_tokenizer",), make_split("a", "Merged"), "pre_tokenizer", "MergedWithNext"),
    (("pre_tokenizer",), {"type": "bpe.Regex", "name": "", "add_prefix_space": True}, "pre_tokenizer", "one of"),
    (("pre_tokenizer",), describe_sequence(PREFIX, PREFIX), "pre_tokenizer", "follows a ByteLevel"),
    (("decoder",), {"type": "CTC"}, "decoder", "CTC"),
    (("model",), [], "model", "not an object"),
    (("model", "type"), "WordPiece", "model.type", "must be BPE"),
    (("model", "continuing_subword_prefix"), "##", "model.continuing_subword_prefix", "must be null"),
    (("model", "unk_token"), "<unk>", "model.unk_token", "token of the vocab"),
    (("model", "end_of_word_suffix"), " ", "model.end_of_word_suffix", "GPT-2's letters"),
    (("model", "vocab", "lo"), True, "model.vocab['lo']", "not a token id"),
    (("model", "vocab", "lo"), -1, "model.vocab['lo']", "not a token id"),
    (("model", "vocab", "lo"), 10**30, "model.vocab['lo']", "not a token id"),
    (("model", "vocab", "lo"), 2**31 - 1, "model.vocab", "ids must be below"),
    (("model", "vocab", "lo"), "1", "model.vocab['lo']", "not a token id"),
    (("model", "vocab", "lo"), 3, "model.vocab", "given twice"),
    (("model", "vocab", ""), 999, "model.vocab['']", "empty"),
    (("model", "merges", 3), ["l", "zz"], "model.merges[3]", "right part 'zz' is not in the vocab"),
    (("model", "merges", 3), ["a", "b"], "model.merges[3]", "product 'ab' is not in the vocab"),
    (("model", "merges", 3), ["l"], "model.merges[3]", "not a merge"),
    (("model", "merges", 3), "lo", "model.merges[3]", "not a merge"),
    (("model", "merges", 3), "l o w", "model.merges[3]", "not a merge"),
    (("model", "merges", 3), {"l": 1, "o": 2}, "model.merges[3]", "not a pair"),
    (("model", "merges", 3), [["l"], "o"], "model.merges[3]", "not a merge"),
    (("model", "merges", 3), ["l", "o"], "model.merges[3]", "occurs twice"),
    (("model", "merges"), None, "model.merges", "must be"),
    (("model", "vocab"), [], "model.vocab", "must be"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "value", "where", "message"), BAD, ids=lambda part: str(part)[:40])
def test_the_error_names_the_field_and_the_reason(keys, value, where, message):
    file = parent = build_base()
    for key in keys[:-1]:
        parent = parent[key]
    parent[keys[-1]] = value
    with pytest.raises(FormatError) as error_info, with_path("tokenizer.json"):
        read(json.dumps(file).encode())
    assert error_info.value.where == where
    assert message in str(error_info.value)
    assert str(error_info.value).startswith(f"tokenizer.json, {where}: ")


@pytest.mark.parametrize(
    ("data", "where", "message"),
    [
        (b"", "line 1 column 1", "not JSON"),
        (b'{"a": 1,\n"b" 2}', "line 2 column 5", "not JSON"),
        (b"\xff{}", "offset 0", "not UTF-8"),
        ("{}".encode("utf-16"), "offset 0", "not UTF-8"),
        (b"\xef\xbb\xbf{}", "line 1 column 1", "not JSON"),
        (b"[]", "the file", "not an object"),
        (b"null", "the file", "not an object"),
        (b"{}", "the file", "no model"),
        (b'{"model": NaN}', None, "NaN is not JSON"),
        (b'{"model": 1' + b"0" * 5000 + b"}", None, "cannot be read"),
        (b"[" * 100_000, None, "cannot be read"),
        (b'{"model": {"vocab": {"a": 1, "b": 2, "a": 3}}}', "model.vocab", "key 'a' occurs twice"),
        (b'{"model": 1, "model": 2}', None, "key 'model' occurs twice"),
        (b'{"model": {"vocab": {"\\ud800": 1}}}', "model.vocab['\\ud800']", "lone surrogate"),
        (b'{"model": {"merges": ["a", "\\uDFFF b"]}}', "model.merges[1]", "lone surrogate"),
    ],
)
def test_files_that_are_not_tokenizer_json_are_refused(data, where, message):
    with pytest.raises(FormatError, match=message) as error_info:
        read(data)
    assert error_info.value.where == where


def test_a_file_truncated_anywhere_is_refused():
    data = write(make_spec("char", ["a", "b"], [("a", "b")], special=["<s>"]))
    for size in range(len(data) - 2):
        with pytest.raises(FormatError, match="not JSON"):
            read(data[:size])


def test_deep_nesting_is_refused():
    file = build_base()
    deep = {"type": "NFC"}
    for _ in range(200):
        deep = {"type": "Sequence", "normalizers": [deep]}
    file["normalizer"] = deep
    with pytest.raises(FormatError, match="nested more than 50 deep"):
        read(json.dumps(file).encode())


SAMPLES = [
    build_base(),
    json.loads(write(make_spec("char", MARKED, MARKED_MERGES, ["<s>"], "<unk>", "</w>", True,
    pretokenizer=Pretokenizer("whitespace")))), json.loads(write(make_spec("char", ["a", "b", "_"], [("a", "b"), ("ab",
    "_")], ["<s>", "<t>"], "?", "_", clip=(5, 6),
                               merge_ranks=np.zeros(2, np.int32), normalizer=n.Sequence(n.Replace("a"), n.Strip(),
                               n.UnescapeHTML(2)), pretokenizer=Pretokenizer.from_regex("^a", gaps="keep",
                               add_prefix_space=True)))),
]  # fmt: skip
for _sample in SAMPLES[:1]:  # with fewer letters, random changes would seldom hit them
    _sample["model"]["vocab"] = {k: v for k, v in _sample["model"]["vocab"].items() if len(k) > 1 or k in "lower12Ġê°"}
JUNK = st.sampled_from(
    [None, True, False, 0, 1, -1, 2**31, 10**40, 1.5, "", "a", "<s>", "(", "\ud800", [], {}, [[]], ["a"], ["a", "b"],
    [1, 2], {"type": "NFC"},
     {"type": "Sequence"}, {"type": 1}, {"a": 1}, {"Regex": "("}, "Replace", "ByteLevel", "bpe.BPE", "BPE",
     "bpe.Regex", "Split"]
)  # fmt: skip


def list_paths(value, path=()):
    yield path
    if isinstance(value, dict):
        for key, member in value.items():
            yield from list_paths(member, (*path, key))
    elif isinstance(value, list):
        for i, member in enumerate(value):
            yield from list_paths(member, (*path, i))


PATHS = [list(list_paths(sample))[1:] for sample in SAMPLES]


@given(st.data())
@examples(73)
def test_a_randomly_changed_file_is_read_or_refused(data):
    index = data.draw(st.integers(0, len(SAMPLES) - 1))
    file = copy.deepcopy(SAMPLES[index])
    for _ in range(data.draw(st.integers(1, 3))):
        keys = data.draw(st.sampled_from(PATHS[index]))
        change = data.draw(st.sampled_from(["delete", "replace", "replace", "add", "swap"]))
        try:
            parent = file
            for key in keys[:-1]:
                parent = parent[key]
            if change == "delete":
                del parent[keys[-1]]
            elif change == "replace":
                parent[keys[-1]] = copy.deepcopy(data.draw(JUNK))
            elif change == "swap":
                parent[keys[-1]] = copy.deepcopy(
                    data.draw(st.sampled_from(list(parent.values() if isinstance(parent, dict) else parent)))
                )
            elif isinstance(parent, list):
                parent.append(copy.deepcopy(data.draw(JUNK)))
            else:
                parent[data.draw(st.sampled_from(["type", "extra", "name", "pattern", ""]))] = copy.deepcopy(
                    data.draw(JUNK)
                )
        except (KeyError, IndexError, TypeError, AttributeError):
            continue
    try:
        spec = read(json.dumps(file).encode())
    except FormatError:
        return
    assert_same(read(write(spec)), spec)


def test_a_hundred_thousand_tokens_are_read_in_seconds():
    symbols = [bytes([byte]) for byte in list_byte_alphabet()]
    merges = [(symbols[i // 256 % 256], symbols[i % 256]) for i in range(256 * 256)]
    merges += [(merges[i][0] + merges[i][1], symbols[i % 256]) for i in range(35_000)]
    spec = make_spec(symbols=symbols, merges=merges, special=["<s>"])
    start = time.process_time()  # does not include time of other processes
    data = write(spec)
    write_end = time.process_time()
    assert_same(read(data), spec)
    read_end = time.process_time()
    assert write_end - start < 5  # about 0.3 s each
    assert read_end - write_end < 5


@pytest.mark.parametrize(
    ("change", "where", "message"),
    [
        ({"type": "WordPiece"}, "model.type", "it is 'WordPiece'; it must be BPE"),
        ({"type": "Unigram", "vocab": [["a", 0.0]]}, "model.type", "it is 'Unigram'; it must be BPE"),
    ],
)
def test_unsupported_model_types_are_reported_first(change, where, message):
    file = build_base()
    file["model"] |= change
    file |= {
        "normalizer": {"type": "Prepend", "prepend": "_"},
        "pre_tokenizer": {"type": "Metaspace"},
        "truncation": {},
    }
    with pytest.raises(FormatError) as error_info, with_path("tokenizer.json"):
        read(json.dumps(file).encode())
    assert error_info.value.where == where
    assert message in str(error_info.value)


@pytest.mark.parametrize(("field", "value"), [("merge_ranks", [2, 1, 0]), ("ends_word", [1, 2])])
def test_inconsistent_parts_of_our_own_files_are_refused(tmp_path, field, value):
    path = tmp_path / "t.json"
    bpe.train(counts={"low": 3, "lower": 2}, model="char", num_merges=3, end_of_word="</w>").save(path)
    file = json.loads(path.read_text(encoding="utf-8"))
    file["model"][field] = value
    path.write_text(json.dumps(file), encoding="utf-8")
    with pytest.raises(FormatError, match=field) as error_info:
        bpe.Tokenizer.load(path)
    assert error_info.value.path == str(path)
