"""sentencepiece's models and GGUF files, against a naive implementation of sentencepiece's rule and the wheel."""

from __future__ import annotations

import random
from io import BytesIO
from itertools import product

import pytest
from sentencepiece_files import (
    CONTROL,
    NORMAL,
    SPACE,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    build_gguf,
    build_model,
    encode_naively,
    list_usual_pieces,
)

import bpe
from bpe.formats import gguf, sentencepiece
from bpe.text.letters import spell_token_in_letters

MERGED = ["lo", SPACE + "lo", "er", SPACE + "low", "es", "est", "we", "lowe", SPACE + "lower", SPACE + SPACE]
CHARS = SPACE + "lowernstabix"
TEXTS = [
    "lower lowest",
    "",
    " ",
    "  low  er ",
    "slow",
    "lowlow",
    "\tx\u00a0é 한",
    f"{SPACE}low {SPACE}",
    "é",
    "<s>low",
    "éé",
]


def load_model(pieces, **options) -> bpe.Tokenizer:
    return bpe.Tokenizer(sentencepiece.read(build_model(pieces, **options)))


@pytest.mark.parametrize("fallback", [True, False])
@pytest.mark.parametrize("dummy", [True, False])
@pytest.mark.parametrize("remove", [True, False])
def test_ids_follow_the_rule(fallback, dummy, remove):
    pieces = list_usual_pieces(MERGED, CHARS, bytes_too=fallback)
    tok = load_model(pieces, byte_fallback=fallback, dummy=dummy, remove=remove)
    assert tok.spec.merge_ranks is None
    for text in TEXTS:
        expected = encode_naively(text, pieces, byte_fallback=fallback, dummy=dummy, remove=remove)
        assert tok.encode(text).tolist() == expected, text
    assert tok.decode(tok.encode("lower lowest")) == "lower lowest"
    assert tok.special_tokens["</s>"] == 2


def test_characters_of_equal_score_need_no_list_of_splits():
    pieces = list_usual_pieces([SPACE * 2, SPACE * 3, "lo", "low"], CHARS, bytes_too=False)
    pieces = [(text, 0.0 if len(text) == 1 else score, kind) for text, score, kind in pieces]
    tok = load_model(pieces, remove=False)
    assert len(tok.spec.merges) == 4
    assert bpe.Tokenizer(sentencepiece.read(sentencepiece.write(tok.spec))) == tok
    for text in TEXTS:
        assert tok.encode(text).tolist() == encode_naively(text, pieces, remove=False), text


@pytest.mark.parametrize("dummy", [True, False])
def test_other_programs_read_what_is_saved(dummy, tmp_path):
    tok = load_model(list_usual_pieces(MERGED, CHARS, bytes_too=True), byte_fallback=True, dummy=dummy)
    tok.save(tmp_path / "tokenizer.json")
    assert bpe.Tokenizer.load(tmp_path / "tokenizer.json") == tok
    peer = pytest.importorskip("tokenizers").Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in TEXTS:
        assert tok.encode(text, allowed_special="all").tolist() == peer.encode(text, add_special_tokens=False).ids


def test_pieces_in_any_order():
    rng = random.Random(0)
    n_general = 0
    for _ in range(60):
        chars = "abc" + SPACE
        merge_results = list(dict.fromkeys("".join(rng.choices(chars, k=rng.randint(2, 4))) for _ in range(8)))
        pieces = list_usual_pieces(merge_results, chars, bytes_too=False)
        if rng.random() < 0.3:
            pieces = [(text, min(score, -3.0), kind) for text, score, kind in pieces]
        tok = load_model(pieces, remove=False)
        n_general += tok.spec.merge_ranks is not None
        for _ in range(10):
            text = "".join(rng.choices("abc ", k=rng.randint(0, 9)))
            assert tok.encode(text).tolist() == encode_naively(text, pieces, remove=False), (merge_results, text)
    assert n_general > 5


def test_files_are_recognized(tmp_path):
    pieces = list_usual_pieces(MERGED, CHARS)
    (tmp_path / "tokenizer.model").write_bytes(build_model(pieces, byte_fallback=True))
    tok = bpe.Tokenizer.load(tmp_path / "tokenizer.model")
    assert tok == bpe.Tokenizer.load(tmp_path) == load_model(pieces, byte_fallback=True)
    tok.save(tmp_path / "t.json")
    assert bpe.Tokenizer.load(tmp_path / "t.json") == tok
    (tmp_path / "other.tiktoken").write_bytes(b"YQ== 0\n")
    assert bpe.Tokenizer.load(tmp_path, format="sentencepiece") == tok
    tok.save(tmp_path / "again.model")
    assert bpe.Tokenizer.load(tmp_path / "again.model") == tok
    with pytest.raises(ValueError, match="format is 'spm'; it must be one of"):
        tok.save(tmp_path / "x", format="spm")


def test_user_defined_pieces_are_found_first():
    pieces = [*list_usual_pieces(MERGED, CHARS), ("<b>", 0.0, USER_DEFINED), (SPACE * 3, 0.0, USER_DEFINED)]
    n = len(pieces)
    tok = load_model(pieces, byte_fallback=True, dummy=False, remove=False)
    assert tok.encode("<b>   ").tolist() == [n - 2, n - 1]


@pytest.mark.parametrize(
    ("pieces", "options", "message"),
    [
        (list_usual_pieces(MERGED, CHARS, bytes_too=False), {"kind": 1}, "the model is of type Unigram, which is not"),
        (list_usual_pieces(MERGED, "lo", bytes_too=False), {}, "has the character 'e', which is not a piece"),
        (list_usual_pieces(["lo", "lo"], "lo", bytes_too=False), {}, "'lo' is piece 3 too; each must be unique"),
        (list_usual_pieces([], "lo", bytes_too=False)[1:], {}, "it has 0 unknown pieces; it must have one"),
        (list_usual_pieces([], "lo"), {}, "byte_fallback and byte pieces go together"),
        (list_usual_pieces([], "lo")[:100], {"byte_fallback": True}, "it has 97 byte pieces; they must be"),
        ([*list_usual_pieces([], "lo", bytes_too=False), ("x", 0.0, UNUSED)], {}, "piece 'x' is unused; models with"),
        (
            [*list_usual_pieces([], "lo", bytes_too=False), ("x" + SPACE, 0.0, USER_DEFINED)],
            {},
            "piece 'x\u2581' is user-defined, and remove_extra_whitespaces removes spaces like its own",
        ),
        (
            [*list_usual_pieces([], "lo", bytes_too=False), ("x\0", 0.0, USER_DEFINED)],
            {"charsmap": b"\x04\0\0\0\0\0\0\0"},
            r"a user-defined piece has the character U\+0000",
        ),
        ([("<unk>", float("nan"), 2)], {}, "is not a valid piece"),
        (list_usual_pieces(["a" * 1025], "a", bytes_too=False), {}, "has 1025 characters; a piece has at most 1024"),
    ],
)
def test_unsupported_models_are_refused(pieces, options, message):
    with pytest.raises(bpe.FormatError, match=message):
        sentencepiece.read(build_model(pieces, **options))


def test_a_truncated_model_is_refused():
    data = build_model(list_usual_pieces(MERGED, CHARS, bytes_too=False))
    for end in range(len(data)):
        with pytest.raises(bpe.FormatError):
            sentencepiece.read(data[:end])


@pytest.mark.parametrize("rules", ["identity", "nmt_nfkc_cf"])
def test_against_the_wheel(rules, tmp_path):
    spm = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    out = BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(["low lower lowest newer wide est", "한국어 naïve café 12"] * 9),
        model_writer=out,
        model_type="bpe",
        vocab_size=330,
        byte_fallback=True,
        normalization_rule_name=rules,
        minloglevel=2,
    )
    peer = spm.SentencePieceProcessor(model_proto=out.getvalue())
    tok = bpe.Tokenizer(sentencepiece.read(out.getvalue()))
    for text in [
        *TEXTS,
        *("\x01", "\x01\x02", "\x01 a"),
        "naïve 한국어 カフェ\n12",
        "a" * 50,
        "ﬁ Ⅷ e\u0301\u0300 ㄱㅡ ｶﾞ ǅ",
        "\u3000x\ufeff\u200b y\x00",
    ]:
        assert tok.encode(text).tolist() == peer.encode(text), text
    tok.save(tmp_path / "t.json")
    assert bpe.Tokenizer.load(tmp_path / "t.json") == tok


@pytest.mark.parametrize(
    "options", [{}, {"unk_surface": "?!"}, {"unk_piece": "[U]"}, {"byte_fallback": True, "vocab_size": 300}]
)
def test_the_unknown_piece_is_decoded_as_by_the_wheel(options, tmp_path):
    spm = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    out = BytesIO()
    texts = ["lower lowest slow low newest widest"] * 9
    settings = {"model_type": "bpe", "vocab_size": 30, "hard_vocab_limit": False, "minloglevel": 2, **options}
    spm.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=out, **settings)
    peer = spm.SentencePieceProcessor(model_proto=out.getvalue())
    tok = bpe.Tokenizer(sentencepiece.read(out.getvalue()))
    tok.save(tmp_path / "t.json")
    reloaded = bpe.Tokenizer.load(tmp_path / "t.json")
    for text in (*TEXTS, "éé low한", "<unk> [U]", "한"):
        ids = peer.encode(text)
        assert tok.decode(ids) == reloaded.decode(ids) == peer.decode(ids)
    assert peer.unk_id() == 0
    assert tok.decode([5, 0]) == peer.decode([5, 0])


@pytest.mark.parametrize(("dummy", "remove"), [(True, True), (True, False), (False, True), (False, False)])
def test_spaces_after_an_unknown_piece_without_text_are_decoded_as_by_the_wheel(dummy: bool, remove: bool) -> None:
    spm = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    data = build_model(list_usual_pieces(["▁l"], "▁lo", bytes_too=False), unk_surface="", dummy=dummy, remove=remove)
    peer = spm.SentencePieceProcessor(model_proto=data)
    tok = bpe.Tokenizer(sentencepiece.read(data))
    for ids in product([0, 3, 4, 5], repeat=4):
        decoder = tok.decoder()
        streamed = "".join(map(decoder.push, ids)) + decoder.flush()
        assert tok.decode(ids) == streamed == peer.decode(list(ids))


@pytest.mark.parametrize(
    ("unk", "surface", "message"),
    [
        ("▁u", "", r"the unknown piece is '▁u', which begins like a word; this is not supported"),
        ("<unk>", "a▁", r"trainer_spec\.unk_surface: it is 'a▁', which decoding takes for a space"),
        ("<unk>", "<0x41>", r"trainer_spec\.unk_surface: it is '<0x41>', which decoding takes for a byte"),
    ],
)
def test_an_unknown_piece_that_would_be_decoded_otherwise_is_refused(unk: str, surface: str, message: str) -> None:
    pieces = [(unk, 0.0, UNKNOWN), *list_usual_pieces([], "lo")[1:]]
    with pytest.raises(bpe.FormatError, match=message):
        sentencepiece.read(build_model(pieces, byte_fallback=True, unk_surface=surface))


@pytest.mark.parametrize(
    ("rules", "dummy", "remove"),
    [("identity", True, True), ("identity", False, False), ("nmt_nfkc", True, False), ("nmt_nfkc", False, True)],
)
@pytest.mark.parametrize("user", [["<b>"], ["a b", "<b>"], ["ﬁ", "e", "a", "<b"], [SPACE + "<b>", "e\u0301"]])
def test_user_defined_pieces_are_those_of_the_wheel(rules, dummy, remove, user, tmp_path):
    spm = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    out = BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(["low lower lowest newer wide a b est", "한국어 naïve café 12"] * 9),
        model_writer=out,
        model_type="bpe",
        vocab_size=340,
        hard_vocab_limit=False,
        byte_fallback=True,
        normalization_rule_name=rules,
        add_dummy_prefix=dummy,
        remove_extra_whitespaces=remove,
        user_defined_symbols=user,
        minloglevel=2,
    )
    peer = spm.SentencePieceProcessor(model_proto=out.getvalue())
    tok = bpe.Tokenizer(sentencepiece.read(out.getvalue()))
    tok.save(tmp_path / "t.json")
    assert bpe.Tokenizer.load(tmp_path / "t.json") == tok
    for text in [
        *TEXTS,
        *("\x01", "\x01<b>\x01", "<b>", " <b> low", "a b", "a  b a b", "<b><b>  <b>", "ﬁ<b>ﬁ Ⅷ"),
        *("<b>\u0338 e\u0301", "e\u0301<b\u0338>"),
        "naïve a b 한국어 <b>カフェ\n12",
    ]:
        ids = peer.encode(text)
        assert tok.encode(text).tolist() == ids, text
        assert tok.encode_with_offsets(text)[0].tolist() == ids, text
        assert [token_id for part in tok.encode_stream(list(text)) for token_id in part] == ids, text
        assert SPACE in text or tok.decode(ids) == peer.decode(ids), text


def test_tokenizers_refuses_what_it_would_encode_differently(tmp_path):
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    pieces = [*list_usual_pieces(MERGED, CHARS), ("<b>", 0.0, USER_DEFINED)]
    for charsmap in (b"", b"\x04\0\0\0\0\0\0\0"):
        for dummy in (True, False):
            tok = load_model(pieces, byte_fallback=True, dummy=dummy, remove=False, charsmap=charsmap)
            tok.save(tmp_path / "t.json")
            assert bpe.Tokenizer.load(tmp_path / "t.json") == tok
            if dummy or charsmap:
                with pytest.raises(Exception, match="data did not match"):
                    tokenizers.Tokenizer.from_file(str(tmp_path / "t.json"))
            else:
                peer = tokenizers.Tokenizer.from_file(str(tmp_path / "t.json"))
                assert peer.encode("low <b> low").ids == tok.encode("low <b> low").tolist()


def test_user_defined_pieces_have_no_role_as_in_the_wheel():
    sp = pytest.importorskip("sentencepiece").SentencePieceProcessor()
    for pad_type, roles in ((CONTROL, {"pad_token": "<pad>"}), (USER_DEFINED, {})):
        tok = load_model([*list_usual_pieces(MERGED, CHARS), ("<pad>", 0.0, pad_type)], byte_fallback=True)
        assert tok.roles == {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", **roles}
        sp.LoadFromSerializedProto(sentencepiece.write(tok.spec))
        ids = [tok.token_id(tok.roles[role]) if role in tok.roles else -1 for role in ("bos_token", "pad_token")]
        assert [sp.bos_id(), sp.pad_id()] == ids


def test_spaces_that_are_not_escaped_are_decoded_as_by_the_wheel():
    spm = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    data = build_model(list_usual_pieces([" l", " lo"], " low", bytes_too=False), escape=False)
    peer, tok = spm.SentencePieceProcessor(model_proto=data), bpe.Tokenizer(sentencepiece.read(data))
    for text in ("low low", " lo  w"):
        ids = peer.encode(text)
        assert tok.encode(text).tolist() == ids
        assert tok.decode(ids) == peer.decode(ids)


@pytest.mark.parametrize("dummy", [True, False])
@pytest.mark.parametrize("remove", [True, False])
def test_bytes_and_leading_spaces_are_decoded_as_by_the_wheel(dummy, remove, tmp_path):
    spm = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    names = [SPACE, SPACE * 2, SPACE + "a", "a", "x<", "x<unk>"]
    pieces = [*list_usual_pieces([], "x<unk>"), *((name, -float(i), NORMAL) for i, name in enumerate(names))]
    data = build_model(pieces, byte_fallback=True, dummy=dummy, remove=remove)
    peer, tok = spm.SentencePieceProcessor(model_proto=data), bpe.Tokenizer(sentencepiece.read(data))
    tok.save(tmp_path / "t.json")
    assert bpe.Tokenizer.load(tmp_path / "t.json") == tok
    rng = random.Random(0)
    space, a, unk = len(pieces) - 6, len(pieces) - 3, 0
    cases = [[3 + byte for byte in b"\xf0\x9f\n"], [space, space, space + 2], [space + 1, a], [unk, a], [space, unk]]
    cases += [[a, 3 + 0xE9], [3 + 0x20, space], [3 + 0xC3, 3 + 0xC3, 3 + 0xA9, a], [space] * 3]
    near = [0, *range(space, len(pieces)), *(3 + byte for byte in b"\xc3\xa9\xf0\x9f\x98\x8a \n")]
    cases += [rng.choices(near, k=rng.randrange(1, 9)) for _ in range(150)]
    for ids in cases:
        decoder = tok.decoder()
        streamed = "".join(decoder.push(token_id) for token_id in ids) + decoder.flush()
        assert tok.decode(ids) == peer.decode(ids) == streamed, ids
        assert tok.decode_batch([ids]) == [tok.decode(ids)]


def test_control_pieces_of_one_character_are_never_text():
    spm = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    data = build_model([*list_usual_pieces([], "b" + SPACE, bytes_too=False), ("a", 0.0, CONTROL)])
    peer, tok = spm.SentencePieceProcessor(model_proto=data), bpe.Tokenizer(sentencepiece.read(data))
    assert tok.encode("ab").tolist() == peer.encode("ab") == [4, 0, 3]


def test_a_surface_that_is_not_utf8_is_refused():
    data = build_model(list_usual_pieces(MERGED, CHARS)) + bytes([2 << 3 | 2, 5, 0xE2, 0x02, 0x02, 0xC3, 0x28])
    with pytest.raises(bpe.FormatError, match=r"trainer_spec\.unk_surface: its text is not UTF-8"):
        sentencepiece.read(data)


# GGUF -----------------------------------------------------------------------------------------------------------------


def describe_as_gguf(tok: bpe.Tokenizer, pre: str) -> dict[str, object]:
    special = {token_id: name for name, token_id in tok.special_tokens.items()}
    names = [
        special.get(token_id) or spell_token_in_letters(tok.token_bytes(token_id)) for token_id in range(tok.n_vocab)
    ]
    return {
        "general.architecture": "own",
        "general.list": [1, 2, 3],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": names,
        "tokenizer.ggml.token_type": [CONTROL if token_id in special else NORMAL for token_id in range(tok.n_vocab)],
        "tokenizer.ggml.merges": [f"{names[left]} {names[right]}" for left, right in tok.merges.tolist()],
        "general.bool": True,
    }


@pytest.fixture(scope="module")
def byte_level() -> bpe.Tokenizer:
    return bpe.train(
        texts=["low lower lowest 123"] * 4, vocab_size=264, special_tokens=["<|end|>"], pretokenizer="qwen2"
    )


def test_gguf_of_a_byte_level_model(byte_level, tmp_path):
    data = build_gguf(describe_as_gguf(byte_level, "qwen2"))
    (tmp_path / "model.gguf").write_bytes(data + bytes(1000))
    assert bpe.Tokenizer.load(tmp_path / "model.gguf") == byte_level
    llama3 = bpe.Tokenizer(gguf.read(build_gguf(describe_as_gguf(byte_level, "llama-bpe"))))
    assert llama3.spec.ignore_merges
    assert llama3.pretokenizer == bpe.Pretokenizer("llama3")
    for end in range(len(data)):
        with pytest.raises(bpe.FormatError):
            gguf.read(data[:end])


def test_gguf_of_a_sentencepiece_model():
    pieces = list_usual_pieces(MERGED, CHARS)
    texts, scores, types = (list(column) for column in zip(*pieces, strict=True))
    values = {"model": "llama", "tokens": texts, "scores": scores, "token_type": types}

    def read(change):
        changed_values = {**values, **change}
        return gguf.read(
            build_gguf({f"tokenizer.ggml.{key}": value for key, value in changed_values.items()}, version=2)
        )

    gguf_tok, peer = bpe.Tokenizer(read({})), load_model(pieces, byte_fallback=True, remove=False)
    for text in TEXTS:
        assert gguf_tok.encode(text).tolist() == peer.encode(text).tolist()
    for prefix in (True, False):
        change = {"tokens": [*texts, "<b>"], "scores": [*scores, 0.0], "token_type": [*types, USER_DEFINED]}
        ids = bpe.Tokenizer(read({**change, "add_space_prefix": prefix})).encode("<b>").tolist()
        assert ids == [282]
    with pytest.raises(bpe.FormatError, match=r"scores: a score is not a number"):
        read({"scores": [float("nan"), *scores[1:]]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokenizer.ggml.model": "bert"}, "tokenizer.ggml.model: it is 'bert', which is not byte-pair encoding"),
        ({"tokenizer.ggml.pre": "own"}, "tokenizer.ggml.pre: it is 'own', whose pattern is not known; known are"),
        ({"tokenizer.ggml.pre": ["qwen2"]}, r"tokenizer.ggml.pre: it is \['qwen2'\], whose pattern is not known"),
        ({"tokenizer.ggml.tokens": ["a", "a"], "tokenizer.ggml.token_type": [1, 1]}, "token 'a' occurs twice"),
        ({"tokenizer.ggml.token_type": [1, 1]}, "it has 2 items for 264 tokens"),
        ({"tokenizer.ggml.merges": ["l x"]}, r"model.merges\[0\]"),
        ({"tokenizer.ggml.merges": 3}, "tokenizer.ggml.merges: it is not an array of str"),
    ],
)
def test_unsupported_gguf_files_are_refused(change, message, byte_level):
    with pytest.raises(bpe.FormatError, match=message):
        gguf.read(build_gguf({**describe_as_gguf(byte_level, "qwen2"), **change}))
    with pytest.raises(bpe.FormatError, match=r"it has no key tokenizer\.ggml\.model"):
        gguf.read(build_gguf({"a": 1}))
    with pytest.raises(bpe.FormatError, match="version 9 is not known"):
        gguf.read(build_gguf({"a": 1}, version=9))
