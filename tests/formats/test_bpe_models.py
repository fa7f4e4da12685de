"""Every option of Hugging Face's BPE model and every decoder, on random small models, side by side with `tokenizers`.

By hand, with more models:

    python tests/formats/test_bpe_models.py FIRST_SEED LAST_SEED
"""

from __future__ import annotations

import json
import random
import sys

import pytest
from peers import Peer

import bpe
from bpe.errors import FormatError
from bpe.formats.huggingface import read, write

tokenizers = Peer("tokenizers")

CHARACTERS = ["a", "b", "c", "é", "한", "😊", " ", "▁", "<", "#", "?"]
OTHERS = ["x", "y", "ж", "</w>", "<unk>", "<0x41>"]
LLAMA = [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
]

#: Options of Hugging Face's BPE model.
MODEL_OPTIONS = [
    {"byte_fallback": True},
    {"unk_token": "<unk>", "fuse_unk": False},
    {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": False},
    {"unk_token": None, "byte_fallback": False},
    {"unk_token": "?", "fuse_unk": True},
    {"ignore_merges": True},
    {"continuing_subword_prefix": "##"},
    {"end_of_word_suffix": "</w>"},
    {"continuing_subword_prefix": "#", "end_of_word_suffix": "#"},
    {"end_of_word_suffix": "</w>", "ignore_merges": True},
    {"continuing_subword_prefix": "##", "end_of_word_suffix": "</w>", "byte_fallback": True},
]


def describe_metaspace(scheme):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}


def draw_model(rng, **fixed_fields):
    """A model with random options, vocabulary and merges; `fixed_fields` are fields to set."""
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": rng.choice([None, "<unk>", "<unk>", "?", "a"]),
        "continuing_subword_prefix": rng.choice([None, None, None, "##", "#", "ç"]),
        "end_of_word_suffix": rng.choice([None, None, None, "</w>", "#", "b"]),
        "fuse_unk": rng.random() < 0.5,
        "byte_fallback": rng.random() < 0.5,
        "ignore_merges": rng.random() < 0.3,
        **fixed_fields,
    }
    prefix, suffix = model["continuing_subword_prefix"] or "", model["end_of_word_suffix"] or ""
    kept_bytes = rng.choice([1.0, 0.8]) if model["byte_fallback"] else 0
    tokens = [model["unk_token"]] if model["unk_token"] else []
    tokens += [f"<0x{byte:02X}>" for byte in range(256) if rng.random() < kept_bytes]
    parts = [t for t in ("<0xC3>", "<0xA9>", "<0xED>", "<0x95>") if t in tokens and rng.random() < 0.3]
    symbols = {start + char + end for char in CHARACTERS for start in ("", prefix) for end in ("", suffix)}
    parts += [symbol for symbol in sorted(symbols) if rng.random() < 0.6]
    vocab = {token: token_id for token_id, token in enumerate(dict.fromkeys([*tokens, *parts]))}
    merges = []
    for _ in range(rng.randrange(14) if parts else 0):
        continuing_parts = [part for part in parts if part.startswith(prefix)]
        left, right = (
            rng.choice(parts),
            rng.choice(continuing_parts if continuing_parts and rng.random() < 0.7 else parts),
        )
        remainder = right.encode()[len(prefix.encode()) :]
        if remainder and remainder[0] & 0xC0 != 0x80 and [left, right] not in merges:
            merges.append([left, right])
            parts.append(left + remainder.decode())
            vocab.setdefault(parts[-1], len(vocab))
    return {**model, "vocab": vocab, "merges": merges}


def draw_decoder(rng, suffix):
    steps = [
        *LLAMA,
        {"type": "Strip", "content": rng.choice("a< "), "start": rng.randrange(3), "stop": rng.randrange(3)},
        {"type": "BPEDecoder", "suffix": suffix},
        {"type": "WordPiece", "prefix": "##", "cleanup": rng.random() < 0.5},
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "$0"},
        describe_metaspace(rng.choice(["always", "first", "never"])),
    ]
    if rng.random() < 0.3:
        return {"type": "Sequence", "decoders": LLAMA}
    if rng.random() < 0.4:
        return rng.choice(steps)
    return {"type": "Sequence", "decoders": rng.choices(steps, k=rng.randrange(1, 5))}


def draw_text(rng):
    return "".join(rng.choice(CHARACTERS + OTHERS) for _ in range(rng.choice([1, 4, 8, 90])))


def build_file(model, **fields):
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"))
    content = {"version": "1.0", **empty, "added_tokens": [], **fields, "model": model}
    return json.dumps(content, ensure_ascii=False).encode()


def decode_in_steps(rng, tok, ids):
    decoder, text, position = tok.decoder(), "", 0
    while position < len(ids):
        size = rng.randrange(1, 4)
        text += decoder.push(ids[position : position + size])
        position += size
    return text + decoder.flush()


def decode_with_peer(peer, ids):
    """Their text; None where `tokenizers` panics."""
    try:
        return peer.decode(ids, skip_special_tokens=False)
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return None


def check_model(seed, n_texts=4, **fixed_fields):
    """Compare ids, tokens, offsets and decoding of a random model with those of `tokenizers`."""
    rng = random.Random(seed)
    model = draw_model(rng, **fixed_fields)
    suffix = model["end_of_word_suffix"]
    data = build_file(
        model,
        decoder=draw_decoder(rng, suffix or "</w>"),
        pre_tokenizer=rng.choice([None, {"type": "WhitespaceSplit"}]),
    )
    peer, tok = tokenizers.Tokenizer.from_str(data.decode()), bpe.Tokenizer(read(data))
    assert bpe.Tokenizer(read(write(tok.spec))) == tok
    affix_bytes = model["byte_fallback"] and (suffix or model["continuing_subword_prefix"])
    for _ in range(n_texts):
        text = draw_text(rng)
        expected = peer.encode(text)
        ids, spans = tok.encode_with_offsets(text)
        assert tok.encode(text).tolist() == expected.ids == ids.tolist()
        assert tok.encode_batch([text, text]).to_list() == [expected.ids] * 2
        assert [token_id for part in tok.encode_stream(iter(text)) for token_id in part.tolist()] == expected.ids
        if not affix_bytes:  # these are no text; `tokenizers` gives them positions of other text
            assert list(map(tuple, spans.tolist())) == expected.offsets
        check_columns(tok, text, expected)
        for sample in (expected.ids, rng.choices(list(model["vocab"].values()), k=6) if model["vocab"] else []):
            decoded = decode_with_peer(peer, sample) if sample else ""
            if decoded is not None:
                assert tok.decode(sample) == decoded
                assert tok.decode_batch([sample, []]) == [decoded, ""]
                if "\ufffd" not in decoded:  # else characters were returned before their run turned out bad
                    assert decode_in_steps(rng, tok, sample) == decoded


def check_columns(tok, text, expected, specials=frozenset()):
    """Compare offsets and word ids by the convention of `tokenizers`."""
    encoder = tok._offset_encoder
    ids, spans, words = encoder.encode_with_word_numbers(text, specials, "char", "tokenizers")
    assert ids.tolist() == expected.ids
    assert list(map(tuple, spans.tolist())) == expected.offsets
    assert words.tolist() == expected.word_ids


@pytest.mark.parametrize("seed", range(20))
def test_random_models_match_tokenizers(seed):
    check_model(seed)


@pytest.mark.parametrize(
    "option",
    MODEL_OPTIONS,
    ids=lambda option: ", ".join(map(str, option.items())),
)
def test_each_option_matches_tokenizers(option):
    for seed in range(100, 102):
        check_model(seed, 3, **option)


TINY = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "abab": 3}, "merges": [["a", "b"], ["ab", "ab"]]}


def test_unknown_tokens_are_written_after_the_bytes_between_them():
    vocab = {"<unk>": 0, "a": 1, "<0xC3>": 2, "<0xA9>": 3}
    data = build_file({"type": "BPE", "unk_token": "<unk>", "byte_fallback": True, "vocab": vocab, "merges": []})
    tok, text = bpe.Tokenizer(read(data)), "жéa"
    expected = tokenizers.Tokenizer.from_str(data.decode()).encode(text)
    assert tok.encode(text).tolist() == expected.ids == [2, 3, 0, 1]
    assert list(map(tuple, tok.encode_with_offsets(text)[1].tolist())) == expected.offsets
    assert "<unk>" in tok.explain(text)


def test_merges_of_an_unknown_token_that_is_a_symbol_too():
    vocab = {"?": 0, "b": 1, "??": 2, "한": 3, "한한": 4}
    model = {"type": "BPE", "unk_token": "?", "vocab": vocab, "merges": [["?", "?"], ["한", "한"]]}
    data = build_file(model)
    peer, tok = tokenizers.Tokenizer.from_str(data.decode()), bpe.Tokenizer(read(data))
    for text in ("中国中", "\u1112\u1161\u11ab", "한한中国", "x中?", "中" * 301):
        expected = peer.encode(text)
        assert tok.encode(text).tolist() == expected.ids
        check_columns(tok, text, expected)


def test_normalized_tokens_are_decoded_as_they_are_found():
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
    added = [{"id": n, "content": name, "normalized": n < 6, **flags} for n, name in ((4, "AB"), (5, "CD"), (6, "EF"))]
    for model, decoder in (
        (TINY, {"type": "Fuse"}),
        ({**TINY, "end_of_word_suffix": "b"}, {"type": "BPEDecoder", "suffix": "b"}),
    ):
        data = build_file(model, added_tokens=added, normalizer={"type": "Lowercase"}, decoder=decoder)
        peer, tok = tokenizers.Tokenizer.from_str(data.decode()), bpe.Tokenizer(read(data))
        ids = [0, 4, 5, 6, 2]
        assert tok.decode(ids) == peer.decode(ids) == decode_in_steps(random.Random(1), tok, ids)
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    letters = {letter: n for n, letter in enumerate(sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()))}
    added = [{**token, "id": token["id"] + 252} for token in added]
    parts = {"added_tokens": added, "normalizer": {"type": "Lowercase"}, "pre_tokenizer": level, "decoder": level}
    data = build_file({"type": "BPE", "vocab": letters, "merges": []}, **parts)
    peer, tok = tokenizers.Tokenizer.from_str(data.decode()), bpe.Tokenizer(read(data))
    ids = [256, 65, 257, 258]
    assert tok.decode(ids) == peer.decode(ids) == tok.decode_bytes(ids).decode()
    assert tok.token_bytes(256) == b"AB"


@pytest.mark.parametrize("dropout", [None, 1.0])
def test_bytes_of_a_prefix_and_a_suffix_get_the_offsets_of_tokenizers(dropout):
    vocab = {name: token_id for token_id, name in enumerate(["a", "<s>", *(f"<0x{byte:02X}>" for byte in range(256))])}
    affixes = {"continuing_subword_prefix": "##", "end_of_word_suffix": "</w>"}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    data = build_file(
        {"type": "BPE", "byte_fallback": True, "dropout": dropout, **affixes, "vocab": vocab, "merges": []},
        pre_tokenizer={"type": "WhitespaceSplit"},
        normalizer={"type": "Replace", "pattern": {"String": "x"}, "content": "한국"},
        added_tokens=[{"id": 1, "content": "<s>", **flags}],
    )
    peer, tok = tokenizers.Tokenizer.from_str(data.decode()), bpe.Tokenizer(read(data))
    for text in ("aé", "aa  béé<s> x", "x<s>é한 y", "한", " a" * 40 + "é"):
        check_columns(tok, text, peer.encode(text), frozenset(["<s>"]))
    ids, spans = tok.encode_with_offsets("aé")
    assert len(ids) == 9
    assert spans.tolist() == [[0, 1]] + [[1, 2]] * 2 + [[2, 2]] * 6  # by our convention, they are at the word's end
    byte_spans = tok.encode_with_offsets("aé", unit="byte", convention="tokenizers")[1]
    assert byte_spans[-1].tolist() == [8, 9]


def test_characters_without_a_token_are_left_out_unless_the_file_says_error():
    tok = bpe.Tokenizer(read(build_file(TINY)))
    assert tok.encode("xaxbx").tolist() == [2]
    strict_tok = bpe.Tokenizer(read(build_file({**TINY, "unknown_symbols": "error"})))
    with pytest.raises(ValueError, match="not in the vocabulary"):
        strict_tok.encode("xab")
    assert tok != strict_tok
    for tokenizer in (tok, strict_tok):
        assert bpe.Tokenizer(read(write(tokenizer.spec))) == tokenizer


def test_a_files_dropout_applies_to_every_method():
    tok = bpe.Tokenizer(read(build_file({**TINY, "dropout": 1.0})))
    assert tok.encode("abab").tolist() == tok.encode_batch(["abab"])[0].tolist() == [0, 1, 0, 1]
    assert tok.encode_with_offsets("abab")[0].tolist() == [0, 1, 0, 1]
    assert tok.count_tokens("abab") == 4
    assert [part.tolist() for part in tok.encode_stream(["ab", "ab"])] == [[0, 1, 0, 1]]
    assert tok.encode("abab", dropout=0).tolist() == tok.encode_batch(["abab"], dropout=0)[0].tolist() == [3]
    assert bpe.Tokenizer(read(write(tok.spec))) == tok
    half_dropout = bpe.Tokenizer(read(build_file({**TINY, "dropout": 0.5})))
    assert len({tuple(half_dropout.encode("abab" * 4).tolist()) for _ in range(50)}) > 5


def test_added_tokens_may_be_parts_and_results_of_merges_as_in_gemma():
    added = [
        {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": False}
        for token_id, content in ((2, "ab"), (4, "b"))
    ]  # fmt: skip
    model = {"type": "BPE", "vocab": {"a": 0, "c": 1, "ab": 2, "abc": 3, "b": 4}, "merges": [["a", "b"], ["ab", "c"]]}
    data = build_file(model, added_tokens=added)
    peer, tok = tokenizers.Tokenizer.from_str(data.decode()), bpe.Tokenizer(read(data))
    for text in ("abc", "aabcb", "acb"):
        assert tok.encode(text).tolist() == peer.encode(text).ids
    assert bpe.Tokenizer(read(write(tok.spec))) == tok


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"merges": [["a", "x"]]}, r"merges\[0\]"),
        ({"merges": [["b", "a"]]}, r"merges\[0\]"),
        ({"merges": [["a", "b"]], "continuing_subword_prefix": "b"}, "longer than the prefix"),
        ({"continuing_subword_prefix": "x" * 65}, "at most 64 bytes"),
        ({"continuing_subword_prefix": 1}, "continuing_subword_prefix"),
        ({"byte_fallback": "yes"}, "byte_fallback"),
        ({"dropout": 1.5}, "dropout"),
        ({"dropout": True}, "dropout"),
        ({"unknown_symbols": "ignore"}, "unknown_symbols"),
        ({"fuse_unk": 1}, "fuse_unk"),
    ],
)
def test_damaged_models_are_refused(change, where):
    with pytest.raises(FormatError, match=where):
        read(build_file({**TINY, **change}))


@pytest.mark.parametrize(
    "decoder",
    [
        {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
        {"type": "Strip", "content": "ab", "start": 0, "stop": 0},
        {"type": "Strip", "content": "a", "start": -1, "stop": 0},
        {"type": "Strip", "content": "a", "start": 1 << 70, "stop": 0},
        {"type": "Replace", "pattern": {"String": ""}, "content": ""},
        {"type": "Replace", "pattern": {"Regex": "("}, "content": ""},
        {"type": "Replace", "pattern": {"String": "a"}},
        {"type": "Metaspace", "replacement": "ab", "prepend_scheme": "always"},
        {"type": "Metaspace", "replacement": "a", "prepend_scheme": "sometimes"},
        {"type": "BPEDecoder", "suffix": ""},
        {"type": "Sequence", "decoders": [{"type": "Fuse"}, 1]},
        {"type": "Fuse", "more": 1},
        "Fuse",
        [],
    ],
    ids=str,
)
def test_unsupported_and_damaged_decoders_are_refused(decoder):
    with pytest.raises(FormatError, match="decoder"):
        read(build_file(TINY, decoder=decoder))


def test_deeply_nested_decoders_are_refused():
    decoder = {"type": "Fuse"}
    for _ in range(60):
        decoder = {"type": "Sequence", "decoders": [decoder]}
    with pytest.raises(FormatError, match="nested"):
        read(build_file(TINY, decoder=decoder))


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        check_model(number)
