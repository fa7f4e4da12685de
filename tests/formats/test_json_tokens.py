"""The kernel's tokenizer.json reader gives the same tokenizer as reading with `json`, or leaves the file to `json`."""

import json
import random
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SOAK

import bpe
from bpe.errors import FormatError
from bpe.formats import _json_tokens
from bpe.formats.huggingface import read, write
from bpe.formats.huggingface.lists import PLACEHOLDERS, KernelLists, NeedsParserError, split_off_lists
from bpe.formats.huggingface.spelling import build_letter_table
from bpe.formats.huggingface.tokenizer_json import _build
from bpe.formats.schema import parse_json
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import ORDINARY

TEXT = 'Ein "Text" mit \\ und / und é, 日本語, 😀\n\tdef f(x):\n    return "\\"" # 한국어 the the them\n'


def build_file(**options) -> dict:
    tok = bpe.train(texts=[TEXT], vocab_size=300, special_tokens=["<s>", "<|日|>"], pretokenizer="gpt2", **options)
    return json.loads(write(tok.spec))


def read_usual(data: bytes) -> TokenizerSpec | None:
    """What the kernel reads; None for a file that is left to `json`."""
    try:
        split = split_off_lists(data, parse_json)
        return None if split is None else _build(split[0], list_spans=split[1:])
    except (FormatError, NeedsParserError):
        return None


def load_without_kernel(data: bytes) -> bpe.Tokenizer | None:
    try:
        return bpe.Tokenizer(_build(parse_json(data)))
    except FormatError:
        return None


def load_with_kernel(data: bytes) -> bpe.Tokenizer | None:
    spec = read_usual(data)
    return None if spec is None else bpe.Tokenizer(spec)


WAYS = [{}, {"indent": 2}, {"ensure_ascii": False}, {"separators": (",", ":")}, {"indent": "\t", "ensure_ascii": False}]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("strings", [True, False])
def test_the_kernel_reads_common_files(way, strings):
    content = build_file()
    content["model"]["vocab"] |= {"😀": 300, "a b": 301, "\u0000": 302}  # not written in byte letters
    if strings:
        content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]
    for model in (content["model"], dict(reversed(content["model"].items()))):
        content["model"] = model
        for top in (content, dict(reversed(content.items()))):
            data = json.dumps(top, **way).encode()
            assert load_with_kernel(data) is not None
            assert load_with_kernel(data) == load_without_kernel(data)
            assert load_with_kernel(b" \r\n\t" + data + b"\n") == load_without_kernel(data)


def test_ids_in_any_order():
    content = build_file()
    rng = random.Random(3)
    for _ in range(5):
        items = list(content["model"]["vocab"].items())
        rng.shuffle(items)
        content["model"]["vocab"] = dict(items)
        data = json.dumps(content).encode()
        assert (
            load_with_kernel(data)
            == load_without_kernel(data)
            == bpe.Tokenizer(_build(parse_json(json.dumps(build_file()).encode())))
        )
    content["model"]["vocab"] = {token: 7 * token_id for token, token_id in items}
    for token in content["added_tokens"]:
        token["id"] *= 7
    data = json.dumps(content).encode()
    assert load_with_kernel(data) == load_without_kernel(data) is not None


def test_the_kernel_never_differs_on_randomly_changed_files():
    rng = random.Random(5)
    content = build_file()
    content["model"]["vocab"] = {
        token: token_id for token, token_id in content["model"]["vocab"].items() if token_id < 30
    }
    names = content["model"]["vocab"].keys()
    content["model"]["vocab"] |= {"Ġt": 30, "Ġth": 31, "é": 32, "☃": 33}
    names |= {"Ġ"}
    content["model"]["vocab"] |= {
        letter: 40 + i for i, letter in enumerate("Ġth") if letter not in content["model"]["vocab"]
    }
    content["model"]["merges"] = ["Ġ t", "Ġt h"]
    files = [json.dumps(content, **way).encode() for way in WAYS]
    assert all(load_with_kernel(data) is not None for data in files)
    read_by_kernel = 0
    for _ in range(2000 * SOAK):
        data = bytearray(rng.choice(files))
        for _ in range(rng.choice([1, 1, 2])):
            position = rng.randrange(len(data))
            new_byte = rng.choice(
                [b'"', b"\\", b",", b":", b"{", b"}", b"[", b"]", b" ", b"0", b"\xc4", b"\xff", b"u", b"", b"\n"]
            )
            data[position : position + rng.choice([0, 1, 1, 3])] = new_byte
        tok = load_with_kernel(bytes(data))
        read_by_kernel += tok is not None
        assert tok is None or tok == load_without_kernel(bytes(data))
    assert read_by_kernel > 50  # for example after changes of ignored fields


BAD = [
    b"", b"{", b"[]", b'{"model":', b'{"model":{}}', b'{"model":{"vocab":{},"merges":{}}}',
    b'{"model":{"vocab":1,"merges":[]}}', b'{"model":{"vocab":{"a":1},"merges":[', b'{"model', b'{"model"',
    b'{"a":"', b'{"a":1 "b":2}', b'{"a":1,}', b"{1:2}",
]  # fmt: skip


@pytest.mark.parametrize("data", BAD)
def test_files_without_the_usual_sections(data):
    assert read_usual(data) is None


LISTS = [
    b"{}", b'{"a":1,}', b'{"a":01}', b'{"a":1.0}', b'{"a":-1}', b'{"a":2147483647}', b'{"a":99999999999}', b'{"a":}',
    b'{"a"}', b'{"a" 1}', b'{"a":1 "b":2}', b'{"a":1,"a":2}', b'{"a":1,"\\u0061":2}', b'{"":1}', b'{"a\n":1}',
    b'{"\\u00":1}', b'{"\\u00zz":1}',
    b'{"a":1]', b'{"a":1', b"{1:1}", b'{"\\ud800":1}', b'{"\\x":1}', b'{" \\q":2}',
    b'{" \n":1}',
]  # fmt: skip


@pytest.mark.parametrize("vocab", LISTS, ids=lambda vocab: repr(vocab[:20]))
def test_unusual_vocabs_are_left_to_json(vocab):
    assert _json_tokens.read_vocab(vocab, 0, build_letter_table()[:512]) is None


STRINGS = [b'{"\xff":1}', b'{" ":1," ":2}']


@pytest.mark.parametrize("vocab", STRINGS)
def test_unusual_strings_are_left_to_json(vocab):
    tokens = _json_tokens.read_vocab(vocab[:-1] + b',"a":5}', 0, build_letter_table()[:512])
    assert tokens is not None
    with pytest.raises((NeedsParserError, FormatError)):
        KernelLists("byte", tokens, *np.empty((2, 0), dtype=np.int32))


def test_the_kernel_reads_a_vocab():
    data = '{"a":1, "\\u0120b" : 0,"\\"\\\\\\/":5,"Ġ":3,"\\n":4, "日":9}'.encode()
    tokens = _json_tokens.read_vocab(data, 0, build_letter_table()[:512])
    assert tokens is not None
    assert tokens.blob.tobytes() == b'a b"\\/ '
    assert tokens.offsets.tolist() == [0, 1, 3, 6, 7]
    assert tokens.token_ids.tolist() == [1, 0, 5, 3]
    assert tokens.other_tokens == [(b'"\\n"', 4), ('"日"'.encode(), 9)]
    assert len(tokens) == 6
    assert [tokens.find(token) for token in (b"a", b" b", b"b", b"", b" ")] == [0, 1, -1, -1, 3]


MERGES = [
    (b'["a b"]', [[0, 1]]),
    (b'[ ["a" , "b"] , "ab a" ]', [[0, 1], [2, 0]]),
    (b"[]", []),
    (b"[ \n ]", []),
    *((bad, None) for bad in (
        b'["a  b"]', b'["ab"]', b'["a b "]', b'[" b"]', b'["a "]', b'["a b",]', b'["a b" "a b"]', b'[["a"]]',
        b'[["a","b","a"]]', b'[["a" "b"]]', b'["a b"', b'["b a"]', b'["a z"]', b'["z a"]',
        b"[1]", b'[["a","b"]', b'[["a",""]]', b'["a b"}',
        b'["a b', b'[["a', b'[["a"', b'[["a",', b'[["a","b', b'[["a","b"', b"[",
    )),
]  # fmt: skip


@pytest.mark.parametrize(("merges", "expected"), MERGES)
def test_the_kernel_reads_merges(merges, expected):
    data = b'{"a":0,"b":1,"ab":2,"aba":3}'
    tokens = _json_tokens.read_vocab(data, 0, build_letter_table()[:512])
    assert tokens is not None
    pairs = tokens.read_merges(merges, 0)
    if expected is None:
        assert pairs is None
    else:
        assert pairs is not None
        assert pairs[0].tolist() == expected
        assert pairs[0].dtype == pairs[1].dtype == np.int32
        assert pairs[2] == len(merges)


@pytest.mark.parametrize("letters", [build_letter_table()[:512], None])
@pytest.mark.parametrize(
    "merges", [b'[["a","b\\q]', b'[["a","b\\q"]]', b'[["a\\q,"b"]', b'["a b\\q]', b'[["a","b\x01]', b'["a \\u12]']
)
def test_unusual_strings_of_merges_are_left_to_json(merges, letters):
    tokens = _json_tokens.read_vocab(b'{"a":0,"b":1,"ab":2}', 0, letters)
    assert tokens is not None
    assert tokens.read_merges(merges, 0) is None


def test_unusual_files_are_left_to_json():
    for change in (
        lambda content: content["model"]["merges"].append(content["model"]["merges"][0]),
        lambda content: content["model"]["vocab"].__setitem__("Ġé", 5),
        lambda content: content.__setitem__("truncation", 5),
    ):
        content = build_file()
        change(content)
        data = json.dumps(content).encode()
        assert read_usual(data) is None
        with pytest.raises(FormatError):
            read(data)


TEXTS = [
    '{"a":0,"日本":1,"\\n":2,"\\u00e9":3,"\\u65e5":4,"\\"\\\\\\/\\t\\r\\b\\f":5,"😀":6," ":7,"\\ud83d\\ude00!":8}',
    '{"<0x0A>":0}',
]


@pytest.mark.parametrize("vocab", TEXTS)
def test_the_kernel_reads_a_vocab_of_text(vocab):
    tokens = _json_tokens.read_vocab(vocab.encode(), 0, None)
    assert tokens is not None
    assert tokens.end == _json_tokens.find_value_end(vocab.encode(), 0) == len(vocab.encode())
    texts = [tokens.blob[a:b].tobytes().decode() for a, b in pairwise(tokens.offsets.tolist())]
    assert dict(zip(texts, tokens.token_ids.tolist(), strict=True)) == json.loads(vocab)


@pytest.mark.parametrize("vocab", ['{"\\ud83d":1}', '{"\\q":1}', '{"a\x01":1}', '{"\\u12":1}', '{"a\\'])
def test_unusual_text_is_left_to_json(vocab):
    assert _json_tokens.read_vocab(vocab.encode(), 0, None) is None


def test_strings_and_brackets_are_passed_over():
    data = b'[{"a]":"\\"}",  "b":[[],{}]}] ]'
    assert _json_tokens.find_value_end(data, 0) == len(data) - 2
    assert [_json_tokens.find_value_end(invalid, 0) for invalid in (b"[", b'["]', b'["\\', b"x", b'{"a":[}')] == [
        -1,
        -1,
        -1,
        -1,
        -1,
    ]


@given(
    st.lists(st.text(st.sampled_from('ab"\\[]{} ,日'), max_size=20) | st.lists(st.text('\\"', max_size=9)), max_size=9),
    st.sampled_from([None, 1, 8, 9, "\t"]),
    st.randoms(),
)
def test_the_end_of_a_list_is_found(value, indent, source):
    data = json.dumps(value, indent=indent, ensure_ascii=source.random() < 0.5).encode()
    assert _json_tokens.find_value_end(data + b' ]"', 0) == len(data)
    assert _json_tokens.find_value_end(data[: source.randrange(len(data))], 0) == -1


def test_a_repeated_token_is_left_to_json():
    """The hash table is filled ahead of the tokens that it is asked for: one of them may be far from its equal."""
    for n, at, equal in ((2, 1, 0), (40, 39, 0), (40, 39, 38), (40, 17, 1)):
        names = [f"t{i}" for i in range(n)]
        assert (
            _json_tokens.read_vocab(json.dumps({name: i for i, name in enumerate(names)}).encode(), 0, None) is not None
        )
        names[at] = names[equal]
        vocab = "{" + ",".join(f'"{name}":{i}' for i, name in enumerate(names)) + "}"
        assert _json_tokens.read_vocab(vocab.encode(), 0, None) is None


def test_many_and_long_merges():
    """Merges are read in blocks of 32."""
    vocab, merges = {letter: i for i, letter in enumerate("abcdefgh")}, []
    for size in range(1, 16):
        for letter in "abcdefgh":
            half = letter * (1 << size - 1)
            merges.append([half, half])
            vocab[half + half] = len(vocab)
    content = build_file()
    content["model"] |= {"vocab": vocab, "merges": merges}
    content["added_tokens"] = []
    data = json.dumps(content).encode()
    tok = load_with_kernel(data)
    assert tok is not None
    assert tok == load_without_kernel(data)
    assert tok.token_bytes(tok.n_vocab - 1) == b"h" * (1 << 15)
    content["model"]["merges"][77][0] = "absent"
    assert read_usual(json.dumps(content).encode()) is None


def build_character_file(vocab: list[str], merges: list[list[str]], **fields) -> dict:
    tok = bpe.train(texts=["ab"], vocab_size=2, model="char", pretokenizer="whitespace")
    content = json.loads(write(tok.spec))
    content["model"] |= {"vocab": {token: i for i, token in enumerate(vocab)}, "merges": merges, **fields}
    return content


def test_merges_with_a_subword_prefix_are_read_by_the_kernel():
    vocab = ["a", "b", "##b", "##é", "ab", "abé", "##bé", "é", "##", "a##"]
    for merges in ([["a", "##b"], ["ab", "##é"], ["##b", "##é"]], ["##b ##é", "a ##b"], [["a", "##bé"]]):
        data = json.dumps(build_character_file(vocab, merges, continuing_subword_prefix="##")).encode()
        assert load_with_kernel(data) is not None
        assert load_with_kernel(data) == load_without_kernel(data)
    for prefix, merge in (("##", ["a", "##"]), ("x", ["a", "é"]), ("##", ["b", "##b"]), ("####", ["a", "##b"])):
        data = json.dumps(build_character_file(vocab, [merge], continuing_subword_prefix=prefix)).encode()
        assert read_usual(data) is None
        with pytest.raises(FormatError):
            read(data)


def test_merges_of_added_tokens_are_read_by_the_kernel():
    """As in Gemma's file."""
    content = build_character_file(["a", "b", "ab", "aba", "<s>"], ["a b", "ab a"])
    content["added_tokens"] = [
        {"id": 2, "content": "ab", "special": True},
        {"id": 4, "content": "<s>", "special": True},
    ]
    data = json.dumps(content).encode()
    tok = load_with_kernel(data)
    assert tok is not None
    assert tok == load_without_kernel(data)
    assert tok.encode("aba ab").tolist() == [3, 2]


def test_character_models_are_read_by_the_kernel():
    tok = bpe.train(
        texts=[TEXT + "日本語 é😀"], vocab_size=100, model="char", pretokenizer="whitespace", special_tokens=["<s>"]
    )
    data = write(tok.spec)
    spec = read_usual(data)
    assert spec is not None
    assert bpe.Tokenizer(spec) == load_without_kernel(data) == tok
    invalid = data.replace("日".encode(), b"\xe6\x97")
    assert read_usual(invalid) is None
    with pytest.raises(FormatError, match="UTF-8"):
        read(invalid)


WORDS = {"lower": 9, "lowest": 8, "slowly": 1, "newest": 5}
OWN = {
    "mark that is a symbol": partial(bpe.train, counts=WORDS, vocab_size=30, model="char", end_of_word="</w>"),
    "PickyBPE": partial(bpe.research.train_picky, 0.6, counts=WORDS, vocab_size=268, pretokenizer=None),
    "BoundlessBPE": partial(bpe.research.train_boundless, texts=[TEXT] * 3, vocab_size=300),
}


@pytest.mark.parametrize("name", OWN)
def test_own_models_are_read_by_the_kernel(name):
    tok = OWN[name]()
    for special in ([], ["<s>", "<|日|>"], ["😀"]):
        expected = tok.with_tokens(special=special) if special else tok
        data = write(expected.spec)
        assert json.loads(data)["model"]["type"].startswith("bpe.")
        assert load_with_kernel(data) == load_without_kernel(data) == expected


def test_lists_of_other_objects_are_left_to_json():
    """A vocab or merges elsewhere in the file, twice, or the marks that stand for them."""
    content = build_file()
    vocab, merges = content["model"]["vocab"], content["model"]["merges"]
    for change in (
        lambda top: {"vocab": vocab} | top,
        lambda top: {"other": {"merges": merges}} | top,
        lambda top: top | {"model": {**top["model"], "vocab": PLACEHOLDERS[0]}, "decoder": {"vocab": vocab}},
        lambda top: top | {"model": {**top["model"], "vocab": float(PLACEHOLDERS[0])}, "decoder": {"vocab": vocab}},
        lambda top: [top],
        lambda top: top | {"model": [top["model"]]},
    ):
        assert read_usual(json.dumps(change(content)).encode()) is None
    data = json.dumps(content).encode()
    with_two_vocabs = data.replace(b'"vocab"', b'"vocab": {"a": 0}, "vocab"', 1)
    assert with_two_vocabs != data
    assert read_usual(data) is not None
    assert read_usual(with_two_vocabs) is None


def test_find_ids_returns_those_of_ordinary_tokens():
    vocabulary = bpe.Tokenizer(read(json.dumps(build_file()).encode())).spec.vocabulary
    tokens = {token for _, token in vocabulary.items(ORDINARY)}
    queries = {*list(tokens)[::3], b"<s>", b"no such token", b"zz", b"thx"}
    assert vocabulary.find_ids(queries) == {token: vocabulary.id_of_token[token] for token in queries & tokens}
    assert vocabulary.find_ids(set()) == {}


def cut(texts: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The texts as slices of one blob, the last text first."""
    blob = b"".join(reversed(texts))
    starts = [len(blob) - len(b"".join(texts[: index + 1])) for index in range(len(texts))]
    return np.frombuffer(blob, np.uint8), np.array(starts, np.int64), np.array(list(map(len, texts)), np.int64)


@given(st.lists(st.tuples(st.binary(max_size=5), st.binary(max_size=3), st.integers(-(2**63), 2**63 - 1)), max_size=9))
def test_lines_are_joined(rows):
    left, right, numbers = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
    pairs = b"".join(b"[%b, %b]\n" % row[:2] for row in rows)
    assert _json_tokens.join_lines([b"[", b", ", b"]\n"], [cut(left), cut(right)]) == pairs
    entries = b"".join(b"%b: %d\n" % row[::2] for row in rows)
    assert _json_tokens.join_lines([b"", b": ", b"\n"], [cut(left), np.array(numbers, np.int64)]) == entries


def test_slices_of_lines_outside_a_blob_are_refused():
    blob, one = np.frombuffer(b"abcd", np.uint8), np.array([1], np.int64)
    for start, length in ((-1, 1), (4, 1), (0, 5), (0, -1), (2**63 - 1, 1), (1, 2**63 - 1)):
        column = (blob, np.array([start]), np.array([length]))
        with pytest.raises(ValueError, match="slice 0 does not lie within the 4 bytes of its blob"):
            _json_tokens.join_lines([b"", b""], [column])
    with pytest.raises(ValueError, match="columns have 1 and 2 lines"):
        _json_tokens.join_lines([b"", b"", b""], [one, np.array([1, 2], np.int64)])
    for constants, columns in (([b""], []), ([b""], [one]), ([b""] * 4, [one] * 3)):
        with pytest.raises(ValueError, match="give 1 or 2, and one more"):
            _json_tokens.join_lines(constants, columns)


@given(st.lists(st.binary(max_size=6), max_size=9))
def test_bytes_are_spelled_with_letters(tokens):
    letters = np.array([[byte ^ 1, byte % 3] for byte in range(256)], np.uint8)
    spelled = [b"".join(bytes([byte ^ 1, byte % 3][: 1 + (byte % 3 > 0)]) for byte in token) for token in tokens]
    offsets = np.cumsum([0, *map(len, tokens)])
    blob, bounds = _json_tokens.spell_letters(b"".join(tokens), offsets, letters)
    assert blob.tobytes() == b"".join(spelled)
    assert bounds.tolist() == np.cumsum([0, *map(len, spelled)]).tolist()
    with pytest.raises(ValueError, match="offset"):
        _json_tokens.spell_letters(b"ab", np.array([0, 3]), letters)
