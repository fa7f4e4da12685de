"""The shapes of published tokenizers of SentencePiece's kind, built on small trained vocabularies.

Llama 2, TinyLlama, Mistral 7B, Phi-3 and Gemma: ids, tokens, offsets and text equal those of `tokenizers`.
"""

from __future__ import annotations

import json
import random

import pytest
from peers import Peer

import bpe
from bpe.formats.huggingface import read, write
from bpe.pretokenizers import Metaspace

tokenizers = Peer("tokenizers")
trainers, models, pre_tokenizers = (Peer(f"tokenizers.{name}") for name in ("trainers", "models", "pre_tokenizers"))

SPECIALS = ["<unk>", "<s>", "</s>"]
CORPUS = [
    "The tokenizer of Llama turns text into tokens, and tokens into text.",
    "Words begin with a mark; there are  two  spaces and 12 numbers like 2024 or 365.",
    "한국어 문장도 있고, 日本語の文もあります。 Ünïcödé wörds as well.",
    "the then there these those text texts token tokens tokenize",
] * 3  # fmt: skip
TO_MARK = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
PREPEND = {"type": "Prepend", "prepend": "▁"}
DECODERS = [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
]  # fmt: skip
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
PIECES = [
    "the", "token", "texts", " ", "  ", "   ", "\n", "\t", "\r\n", "12", "٣", "한국어", "日本語", "é", "e\u0301", "▁",
    "▁▁",
    "😊", "\x00", "<s>", "</s>", "<unk>", "<0x41>", "<|end|>", "Ünï", "x" * 70, "\u2028", "\ufffd", "ﬁ",
]  # fmt: skip


def with_all_splits(vocab):
    """The merges that the converter of sentencepiece models writes: every split of every token, by the token's rank."""
    merges = []
    for token, token_id in vocab.items():
        splits = [(token[:position], token[position:]) for position in range(1, len(token))]
        inside = [pair for pair in splits if pair[0] in vocab and pair[1] in vocab]
        merges += [(token_id, list(pair)) for pair in sorted(inside, key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))]
    return [pair for _, pair in sorted(merges, key=lambda item: item[0])]


def added(token_id, content, *, special=True, rstrip=False):
    flags = {"single_word": False, "lstrip": False, "rstrip": rstrip, "normalized": False, "special": special}
    return {"id": token_id, "content": content, **flags}


@pytest.fixture(scope="module")
def vocab():
    """A vocabulary with byte tokens, trained on a few lines, without merges across words."""
    trained = tokenizers.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=[*SPECIALS, *byte_tokens], limit_alphabet=60, show_progress=False
    )
    trained.train_from_iterator(CORPUS, trainer)
    return json.loads(trained.to_str())["model"]["vocab"]


def shape(name, vocab):
    """The file of a published tokenizer's shape, as bytes."""
    vocab = dict(vocab)
    tokens = [added(index, content) for index, content in enumerate(SPECIALS)]
    decoders, normalizer, pre_tokenizer = (
        [*DECODERS, STRIP],
        {"type": "Sequence", "normalizers": [PREPEND, TO_MARK]},
        None,
    )
    if name in ("tinyllama", "mistral"):
        normalizer = None
        scheme = "first" if name == "tinyllama" else "always"
        pre_tokenizer = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": False}
    if name == "phi3":
        tokens += [added(len(vocab), "<|end|>", rstrip=True), added(len(vocab) + 1, "<|user|>", rstrip=True)]
    if name == "gemma":
        decoders, normalizer = DECODERS, TO_MARK
        pre_tokenizer = {
            "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False,
        }  # fmt: skip
        for content in ("▁▁", "▁▁▁", "▁▁▁▁", "\n"):
            vocab.setdefault(content, len(vocab))
        tokens += [added(vocab["▁▁"], "▁▁", special=False), added(vocab["\n"], "\n", special=False)]
    model = {
        "type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": name == "mistral",
        "vocab": vocab, "merges": with_all_splits(vocab),
    }  # fmt: skip
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }
    item = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer, "post_processor": template,
        "decoder": {"type": "Sequence", "decoders": decoders}, "model": model,
    }  # fmt: skip
    return json.dumps(item, ensure_ascii=False).encode()


@pytest.mark.parametrize("name", ["llama2", "tinyllama", "mistral", "phi3", "gemma"])
def test_ids_offsets_and_text_match_tokenizers(name, vocab):
    data = shape(name, vocab)
    peer, tok = tokenizers.Tokenizer.from_str(data.decode()), bpe.Tokenizer(read(data))
    assert bpe.Tokenizer(read(write(tok.spec))) == tok
    rng = random.Random(name)
    texts = [*CORPUS, "", " ", "a", *("".join(rng.choices(PIECES, k=rng.randrange(1, 20))) for _ in range(60))]
    expected = [peer.encode(text, add_special_tokens=False) for text in texts]
    for text, encoding in zip(texts, expected, strict=True):
        ids = tok.encode(text, allowed_special="all")
        assert ids.tolist() == encoding.ids
        assert tok.decode(ids) == peer.decode(encoding.ids, skip_special_tokens=False)
        assert tok.decode(ids, skip_special=True) == peer.decode(encoding.ids)
        decoder = tok.decoder()
        assert "".join(decoder.push(token_id) for token_id in encoding.ids) + decoder.flush() == tok.decode(ids)
        parts = tok.encode_stream(iter(text), allowed_special="all")
        assert [token_id for part in parts for token_id in part.tolist()] == encoding.ids
    batch = tok.encode_batch(texts, allowed_special="all", threads=2)
    assert batch.to_list() == [encoding.ids for encoding in expected]
    plain = "the tokens of 한국어 and 日本語: é"
    ids, spans = tok.encode_with_offsets(plain)
    encoding = peer.encode(plain, add_special_tokens=False)
    assert (ids.tolist(), ids.tolist()) == (encoding.ids, tok.encode(plain).tolist())
    assert [plain[start:end] for start, end in spans.tolist()][-1] == "é"
    assert tok.template == ((1,), ())


def test_characters_of_byte_tokens_are_streamed_as_soon_as_by_tokenizers(vocab):
    data = shape("llama2", vocab)
    peer, tok = tokenizers.Tokenizer.from_str(data.decode()), bpe.Tokenizer(read(data))
    stream, decoder = tokenizers.decoders.DecodeStream(skip_special_tokens=False), tok.decoder()
    byte_ids = [vocab[f"<0x{byte:02X}>"] for byte in "é낮😊\n".encode()]
    for token_id in [*tok.encode("tokens").tolist(), *byte_ids, *tok.encode("text").tolist()]:
        assert decoder.push(token_id) == (stream.step(peer, token_id) or "")
    assert decoder.flush() == ""


def test_bytes_that_are_not_text_are_streamed_without_the_characters_before_them(vocab):
    tok = bpe.Tokenizer(read(shape("llama2", vocab)))
    ids = [vocab[f"<0x{byte:02X}>"] for byte in b"\xc3\xa9\xc3\x0a\x41"]
    decoder = tok.decoder()
    assert [decoder.push(token_id) for token_id in ids] == ["", "é", "", "\ufffd\ufffd", "\ufffd"]
    assert decoder.flush() == ""
    assert tok.decode(ids) == "\ufffd" * 5  # as in `tokenizers`, which cannot know at the first character
    decoder.push(ids[:1])
    assert decoder.flush() == "\ufffd"


@pytest.mark.parametrize("name", ["llama2", "gemma"])
def test_a_long_text_is_cut_before_marks_and_gives_the_same_ids(name, vocab):
    """Without a pretokenizer the whole text is one word; no merge crosses a mark, so parts of it are cached."""
    data = shape(name, vocab)
    peer, tok = tokenizers.Tokenizer.from_str(data.decode()), bpe.Tokenizer(read(data))
    rng = random.Random(1)
    text = "".join(rng.choices(PIECES[:8] + PIECES[9:19], k=4000))
    assert tok.encode(text).tolist() == peer.encode(text, add_special_tokens=False).ids
    assert tok.encode("▁" * 500).tolist() == peer.encode("▁" * 500, add_special_tokens=False).ids


def test_merges_across_marks_are_not_cut():
    model = {"type": "BPE", "vocab": {"a": 0, "▁": 1, "a▁": 2, "▁a▁": 3}, "merges": [["a", "▁"], ["▁", "a▁"]]}
    empty = dict.fromkeys(("truncation", "padding", "pre_tokenizer", "post_processor", "decoder"))
    data = json.dumps({"version": "1.0", **empty, "added_tokens": [], "normalizer": TO_MARK, "model": model}).encode()
    peer, tok = tokenizers.Tokenizer.from_str(data.decode()), bpe.Tokenizer(read(data))
    for text in ("a a a", " a  a", "aa  a a"):
        assert tok.encode(text).tolist() == peer.encode(text).ids


@pytest.mark.parametrize("options", [{}, {"prepend_scheme": "first"}, {"prepend_scheme": "never"}, {"split": False}])
def test_a_tokenizer_like_llama_2_is_trained(options, tmp_path):
    metaspace = Metaspace(**options)
    tok = bpe.train(
        texts=CORPUS,
        vocab_size=360,
        pretokenizer=metaspace,
        special_tokens=SPECIALS,
        unk_token="<unk>",
        alphabet=bpe.Alphabet(byte_fallback=True, coverage=0.97),
        split_digits=True,
    )
    tok.save(tmp_path / "tokenizer.json")
    assert bpe.Tokenizer.load(tmp_path / "tokenizer.json") == tok
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    rng = random.Random(str(options))
    for text in [*CORPUS[:4], *("".join(rng.choices(PIECES, k=rng.randrange(1, 12))) for _ in range(40))]:
        encoding = peer.encode(text)
        assert tok.encode(text, allowed_special="all").tolist() == encoding.ids
        assert tok.decode(encoding.ids) == peer.decode(encoding.ids, skip_special_tokens=False)
    for text in CORPUS[:4]:
        assert tok.decode(tok.encode(text)) == text
    assert [token for token in tok.tokens("in 2024") if token.strip("▁").isdigit()] == ["2", "0", "2", "4"]
