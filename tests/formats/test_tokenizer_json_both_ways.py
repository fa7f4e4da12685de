"""tokenizer.json: files by `tokenizers` have the same ids here, and ours have the same ids there, trained ones too."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from options import from_reference_options
from peers import Peer
from strategies import examples
from tokenizer_json import (
    BYTE_MERGES,
    CLIP_FILE,
    LLAMA3,
    TEXTS,
    assert_same,
    load_by_tokenizers,
    make_byte_level,
    make_spec,
    make_split_and_bytes,
    replace_fields,
    save_by_tokenizers,
)

import bpe
from bpe import normalizers as n
from bpe.formats.huggingface import read, write
from bpe.pretokenize.patterns import ONIGURUMA_SPELLINGS
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.pretokenize.simplifying import make_prefix_pretokenizer, make_whitespace_pretokenizer
from bpe.text.letters import list_byte_alphabet, spell_token_in_letters

tokenizers = Peer("tokenizers")
decoders = Peer("tokenizers.decoders")
models = Peer("tokenizers.models")
normalizers = Peer("tokenizers.normalizers")
pre_tokenizers = Peer("tokenizers.pre_tokenizers")
processors = Peer("tokenizers.processors")
trainers = Peer("tokenizers.trainers")

CORPUS = (
    "The lowest low, the newest new; it's we'll I'VE low lower lowest newest widest wider 12345 67 8.",
    "def f(x):\n    return x ** 2  # Kommentar\r\n\n\tdone   \n",
    "이 영화를 영화관에서 직접 보지 못한 것을 평생 후회할 것 같다. 보는 내내 감탄을 자아냈고",
    "日本語の文章です。東京都に行きました。 東京都 東京タワー",
    "Ωμέγα και άλφα, ΟΔΟΣ; Привет, мир! привет 👍🏽 😊😊 naïve café cafe\u0301",
)


# Their files ----------------------------------------------------------------------------------------------------------


def build_peer(
    vocab=None, merges=(), special=(), pre=None, normalizer=None, decoder=None, post=None, **model
) -> tokenizers.Tokenizer:
    if vocab is None:
        vocab = {letter: i for i, letter in enumerate(spell_token_in_letters(bytes(list_byte_alphabet())))}
        vocab |= {"th": 256, "the": 257, "Ġthe": 258}
        merges = [("t", "h"), ("th", "e"), ("Ġ", "the")]
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=list(merges), **model))
    for name, part in (
        ("pre_tokenizer", pre),
        ("normalizer", normalizer),
        ("decoder", decoder),
        ("post_processor", post),
    ):
        if part is not None:
            setattr(tokenizer, name, part)
    tokenizer.add_special_tokens(list(special))
    return tokenizer


CL100K_PUBLISHED = Pretokenizer("cl100k").pattern.replace("{1,3}+", "{1,3}")
THEIRS = {
    "ByteLevel": (
        lambda: build_peer(pre=make_byte_level(), decoder=decoders.ByteLevel(), post=processors.ByteLevel()),
        Pretokenizer("gpt2"),
    ),
    "ByteLevel, prefix": (
        lambda: build_peer(pre=pre_tokenizers.ByteLevel()),
        Pretokenizer("gpt2", add_prefix_space=True),
    ),
    "ByteLevel, whole": (
        lambda: build_peer(pre=pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)),
        None,
    ),
    "ByteLevel, whole, prefix": (
        lambda: build_peer(pre=pre_tokenizers.ByteLevel(use_regex=False)),
        make_prefix_pretokenizer(),
    ),
    "special": (lambda: build_peer(pre=make_byte_level(), special=["<s>", "</s>"]), Pretokenizer("gpt2")),
    "cl100k": (lambda: build_peer(pre=make_split_and_bytes(CL100K_PUBLISHED)), Pretokenizer("cl100k")),
    "cl100k removed": (
        lambda: build_peer(pre=make_split_and_bytes(CL100K_PUBLISHED, "removed", True)),
        Pretokenizer("cl100k"),
    ),
    "StarCoder": (
        lambda: build_peer(
            pre=pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), make_byte_level()])
        ),
        Pretokenizer("starcoder"),
    ),
    "o200k": (
        lambda: build_peer(pre=make_split_and_bytes(ONIGURUMA_SPELLINGS["o200k"], "removed", True)),
        Pretokenizer("o200k"),
    ),
    "Llama 3": (
        lambda: build_peer(pre=make_split_and_bytes(LLAMA3), ignore_merges=True, special=["<|eot|>"]),
        Pretokenizer.from_regex(LLAMA3, gaps="keep"),
    ),
    "CLIP": (
        lambda: build_peer(
            pre=make_split_and_bytes(CLIP_FILE, "removed", True),
            end_of_word_suffix="</w>",
            normalizer=normalizers.Sequence(
                [normalizers.NFC(), normalizers.Replace(tokenizers.Regex(r"\s+"), " "), normalizers.Lowercase()]
            ),
        ),
        Pretokenizer.from_regex(CLIP_FILE),
    ),
    "words, bytes": (
        lambda: build_peer(
            pre=pre_tokenizers.Sequence(
                [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
            )
        ),
        Pretokenizer("whitespace"),
    ),
    "Whitespace": (
        lambda: build_peer(
            {"<unk>": 0, "t": 1, "h": 2, "th": 3}, [("t", "h")], pre=pre_tokenizers.Whitespace(), unk_token="<unk>"
        ),
        make_whitespace_pretokenizer(),
    ),
    "WhitespaceSplit": (
        lambda: build_peer(
            {"<unk>": 0, "t": 1, "h": 2, "th": 3},
            [("t", "h")],
            pre=pre_tokenizers.WhitespaceSplit(),
            unk_token="<unk>",
            fuse_unk=True,
        ),
        Pretokenizer("whitespace"),
    ),
    "removed white space": (
        lambda: build_peer(
            {"?": 0, "t": 1, "h": 2, "th": 3},
            [("t", "h")],
            pre=pre_tokenizers.Split(tokenizers.Regex(r"\s+"), "removed"),
            unk_token="?",
        ),
        Pretokenizer("whitespace"),
    ),
    "suffix": (
        lambda: build_peer(
            {"<unk>": 0, "t": 1, "h": 2, "th": 3, "e</w>": 4, "h</w>": 5, "the</w>": 6},
            [("t", "h"), ("th", "e</w>")],
            pre=pre_tokenizers.WhitespaceSplit(),
            unk_token="<unk>",
            end_of_word_suffix="</w>",
            decoder=decoders.BPEDecoder("</w>"),
            normalizer=normalizers.Lowercase(),
            special=["<unk>"],
        ),
        Pretokenizer("whitespace"),
    ),
    "no pretokenizer": (
        lambda: build_peer({"t": 0, "h": 1, "e": 2, " ": 3, "e ": 4}, [("e", " ")], decoder=decoders.Fuse()),
        None,
    ),
    "string pattern": (
        lambda: build_peer({"t": 0, "h": 1, "?": 2}, pre=pre_tokenizers.Split("the", "isolated"), unk_token="?"),
        Pretokenizer.from_regex("the", gaps="keep"),
    ),
    "added at the end": (lambda: build_peer({"t": 0, "h": 1}, special=["<a>", "<b>"]), None),
}


@pytest.mark.parametrize("kind", THEIRS)
def test_their_files_have_the_same_ids_here(kind):
    make, pretokenizer = THEIRS[kind]
    peer = make()
    spec = read(save_by_tokenizers(peer))
    assert spec.pretokenizer == pretokenizer
    reloaded = load_by_tokenizers(spec)
    tok = bpe.Tokenizer(spec)

    parts = ["the", " the", "th", "Th", "e", " ", "t", "h", "<s>", "<a>", "<unk>", "</w>", "\n"]

    @given(TEXTS | st.lists(st.sampled_from(parts)).map("".join))
    @examples(4)
    def check(text):
        ids = peer.encode(text).ids
        assert reloaded.encode(text).ids == ids
        if peer.model.unk_token is not None or (spec.model == "byte" and spec.end_of_word is None):
            assert tok.encode(text, allowed_special="all").tolist() == ids

    check()


def test_files_of_old_versions_load():
    spec = make_spec(merges=BYTE_MERGES)
    old_file = json.loads(write(spec))
    old_file["model"]["merges"] = [" ".join(pair) for pair in old_file["model"]["merges"]]
    for name in ("type", "fuse_unk", "byte_fallback", "ignore_merges", "dropout"):
        del old_file["model"][name]
    old_file["model"] |= {"unk_token": "", "continuing_subword_prefix": "", "end_of_word_suffix": ""}
    del old_file["version"], old_file["truncation"], old_file["padding"], old_file["pre_tokenizer"]["use_regex"]
    assert_same(read(json.dumps(old_file).encode()), replace_fields(spec, pretokenizer=Pretokenizer("gpt2")))


def test_normalized_special_tokens_without_a_normalizer():
    old_file = json.loads(write(make_spec(special=["<s>"])))
    old_file["added_tokens"][0]["normalized"] = True
    assert read(json.dumps(old_file).encode()).special_tokens == {"<s>": 256}


@pytest.mark.parametrize("pattern", ["[[:alpha:]]+", r"\s{2,}+", "^t", r"\h", "[a-h&&[^c]]{2}+", "(?<=t)(?=h)"])
def test_patterns_of_normalizers_are_saved_as_they_were(pattern):
    peer = build_peer(pre=pre_tokenizers.ByteLevel(), normalizer=normalizers.Replace(tokenizers.Regex(pattern), "_"))
    spec = read(save_by_tokenizers(peer))
    assert read(write(spec)).normalizer == spec.normalizer
    reloaded, copied = (
        load_by_tokenizers(spec),
        pickle.loads(pickle.dumps(spec.normalizer)),
    )  # the file is one that tokenizers reads
    assert write(replace_fields(spec, normalizer=copied.with_timeout(9))) == write(spec)
    for text in ("the heat  \n\tth abccba12", "the\nthe é"):
        assert reloaded.encode(text).ids == peer.encode(text).ids
        assert bpe.Tokenizer(spec).encode(text).tolist() == peer.encode(text).ids
    with pytest.raises(ValueError, match="what the pattern was translated from"):
        n.Replace("a", spelled="b")


# From training to ids, in both directions -----------------------------------------------------------------------------


SETTINGS = {
    "byte gpt2": {},
    "byte cl100k, special": {"pretokenizer": "cl100k", "special_tokens": ["<s>", "</s>"]},
    "byte o200k": {"pretokenizer": "o200k"},
    "byte clip, glued": {
        "pretokenizer": "clip",
        "end_of_word": "</w>",
        "end_of_word_glued": True,
        "unk_token": "<unk>",
    },
    "byte whitespace, corpus alphabet": {
        "pretokenizer": "whitespace",
        "initial_alphabet": "corpus",
        "unk_token": "<unk>",
    },
    "byte whole text": {"pretokenizer": None, "alphabet": bpe.Alphabet(first_id=5)},
    "byte, prefix": {"pretokenizer": Pretokenizer("gpt2", add_prefix_space=True), "special_tokens": ["<s>"]},
    "byte, normalized": {"normalizer": n.Sequence(n.NFKC(), n.Lowercase(), n.CollapseWhitespace(), n.Strip())},
    "byte, own pattern": {"pretokenizer": Pretokenizer.from_regex(r"\p{Han}|\p{L}+|\d{1,2}", gaps="keep")},
    "char": {"model": "char", "unk_token": "<unk>"},
    "char gpt2": {"model": "char", "pretokenizer": "gpt2", "unk_token": "<unk>", "special_tokens": ["<s>"]},
    "char glued": {"model": "char", "end_of_word": "</w>", "end_of_word_glued": True, "unk_token": "<unk>"},
    "char glued, ▁": {
        "model": "char",
        "end_of_word": "▁",
        "end_of_word_glued": True,
        "unk_token": "<s>",
        "special_tokens": ["<s>"],
    },
    "char, few letters": {"model": "char", "limit_alphabet": 10, "unk_token": "<unk>", "normalizer": n.NFD()},
    "char whole text": {
        "model": "char",
        "pretokenizer": None,
        "unk_token": "<unk>",
        "alphabet": bpe.Alphabet(first_id=3),
    },
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_our_trained_tokenizers_have_the_same_ids_there(kind, tmp_path):
    tok = bpe.train(texts=CORPUS * 2, num_merges=150, **from_reference_options(**SETTINGS[kind]))
    tok.save(tmp_path / "tokenizer.json")
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    reloaded = bpe.Tokenizer.load(tmp_path / "tokenizer.json")
    assert reloaded == tok
    assert_same(reloaded.spec, tok.spec)
    for text in CORPUS:
        assert peer.encode(text).ids == tok.encode(text, allowed_special="all").tolist()
        assert peer.decode(peer.encode(text).ids) == tok.decode(tok.encode(text)) or tok.spec.end_of_word is not None

    @given(TEXTS)
    @examples(4)
    def check(text):
        assert peer.encode(text).ids == tok.encode(text, allowed_special="all").tolist()
        assert reloaded.encode(text).tolist() == tok.encode(text).tolist()

    check()


@pytest.mark.parametrize(
    "options",
    [
        {"model": "char", "end_of_word": "</w>", "unk_token": "<unk>"},
        {"model": "byte", "end_of_word": "</w>"},
        {"normalizer": n.UnescapeHTML()},
        {"pretokenizer": Pretokenizer.from_regex(r"\w+|.")},
    ],
    ids=str,
)
def test_features_that_only_we_have_round_trip_and_are_refused_there(options, tmp_path):
    tok = bpe.train(texts=CORPUS, num_merges=50, **options)
    tok.save(tmp_path / "tokenizer.json")
    reloaded = bpe.Tokenizer.load(tmp_path / "tokenizer.json")
    assert reloaded == tok
    for text in CORPUS:
        assert reloaded.encode(text).tolist() == tok.encode(text).tolist()
        assert reloaded.decode(reloaded.encode(text)) == tok.decode(tok.encode(text))
    with pytest.raises(Exception, match="did not match any variant"):
        tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))


def train_peer(unk=None, fuse=False, suffix=None, pre=None, normalizer=None, **options):
    given_options = {"unk_token": unk, "end_of_word_suffix": suffix}
    options_given = {name: value for name, value in given_options.items() if value is not None}
    tokenizer = tokenizers.Tokenizer(models.BPE(fuse_unk=fuse, **options_given))
    tokenizer.pre_tokenizer = pre or make_byte_level()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if suffix is not None:
        options["end_of_word_suffix"] = suffix
    trainer = trainers.BpeTrainer(vocab_size=500, show_progress=False, **options)
    tokenizer.train_from_iterator(CORPUS * 2, trainer)
    return tokenizer


TRAINED = {
    "bytes": lambda: train_peer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<s>"]),
    "bytes, Llama 3": lambda: train_peer(
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), pre=make_split_and_bytes(LLAMA3)
    ),
    "bytes, NFKC": lambda: train_peer(
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), normalizer=normalizers.NFKC()
    ),
    "characters": lambda: train_peer(unk="<unk>", special_tokens=["<unk>"], pre=pre_tokenizers.WhitespaceSplit()),
    "characters, fused": lambda: train_peer(
        unk="<unk>", fuse=True, limit_alphabet=20, special_tokens=["<unk>"], pre=pre_tokenizers.Whitespace()
    ),
    "characters, suffix": lambda: train_peer(
        unk="<unk>", suffix="</w>", special_tokens=["<unk>", "<s>"], pre=pre_tokenizers.WhitespaceSplit()
    ),
}


@pytest.mark.parametrize("kind", TRAINED)
def test_their_trained_tokenizers_have_the_same_ids_here(kind, tmp_path):
    peer = TRAINED[kind]()
    for pretty in (False, True):
        peer.save(str(tmp_path / "tokenizer.json"), pretty=pretty)
        tok = bpe.Tokenizer.load(tmp_path / "tokenizer.json")

    @given(st.sampled_from(CORPUS) | TEXTS)
    @examples(7)
    def check(text):
        assert tok.encode(text, allowed_special="all").tolist() == peer.encode(text).ids

    check()


def test_their_predefined_tokenizers(tmp_path):
    byte_level = tokenizers.ByteLevelBPETokenizer(add_prefix_space=True, lowercase=True)
    byte_level.train_from_iterator(CORPUS, vocab_size=400, show_progress=False, special_tokens=["<s>"])
    char_level = tokenizers.CharBPETokenizer(split_on_whitespace_only=True, lowercase=True)
    char_level.train_from_iterator(CORPUS, vocab_size=300, show_progress=False)
    for peer in (byte_level, char_level):
        peer.save(str(tmp_path / "tokenizer.json"))
        tok = bpe.Tokenizer.load(tmp_path / "tokenizer.json")
        for text in CORPUS:
            assert tok.encode(text, allowed_special="all").tolist() == peer.encode(text).ids
