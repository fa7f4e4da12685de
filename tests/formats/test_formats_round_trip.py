"""The formats beside tokenizer.json: vocab.json with merges.txt, rank files, tekken.json, CLIP's list; converting."""

from __future__ import annotations

import base64
import gzip
import json
import os
from dataclasses import replace

import pytest
from conftest import CORPORA
from peers import Peer

import bpe
from bpe.formats.loading import FORMATS, detect_folder_format
from bpe.formats.tiktoken_folder import KIMI_PATTERN, N_KIMI_SPECIAL_TOKENS, QWEN_SPECIAL_TOKENS

tiktoken = Peer("tiktoken")

TEXTS = ["low lower lowest Hello world's 123 한국어, naïve café", "newest wide  widest\n\n", "<|end|> low"]
HOSTILE = [*TEXTS, "", "\x00\xff", "日本語\u3000ｱ", "a" * 99, " \t\r\n \n", "Ünï ﬁ ½ 😀", "low<|end|>er <s>"]


@pytest.fixture(scope="module")
def trained() -> bpe.Tokenizer:
    return bpe.train(texts=TEXTS * 4, vocab_size=300, special_tokens=["<|end|>", "<|user|>"])


@pytest.fixture(scope="module")
def ranked() -> bpe.Tokenizer:
    """A tokenizer that tekken.json can hold: special tokens first, then the bytes in order, tiktoken's merging."""
    return bpe.train(
        texts=TEXTS * 4,
        vocab_size=300,
        special_tokens=["<unk>", "<s>"],
        pretokenizer="tekken",
        alphabet=bpe.Alphabet(initial=[bytes([byte]) for byte in range(256)]),
    )


def encode_texts(tok: bpe.Tokenizer) -> list[list[int]]:
    return [tok.encode(text, allowed_special="all").tolist() for text in HOSTILE]


# Round trips ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["huggingface", "vocab-merges", "tiktoken-folder"])
@pytest.mark.parametrize("pretokenizer", ["gpt2", bpe.Pretokenizer("gpt2", add_prefix_space=True), "qwen2"])
def test_a_tokenizer_comes_back_equal(form, pretokenizer, trained, tmp_path):
    tok = bpe.Tokenizer(replace(trained.spec, pretokenizer=pretokenizer))
    if form == "vocab-merges" and pretokenizer == "qwen2":
        tok = bpe.Tokenizer(replace(tok.spec, normalizer="nfc"))
    if form == "tiktoken-folder" and not isinstance(pretokenizer, str):
        pytest.skip("this format has no prefix space")
    path = tmp_path / ("t.json" if form == "huggingface" else "folder")
    tok.save(path, format=form)
    assert bpe.Tokenizer.load(path) == tok
    assert encode_texts(bpe.Tokenizer.load(path, format=form)) == encode_texts(tok)


def test_flags_and_templates_come_back(trained, tmp_path):
    spec = replace(trained.spec, template=((0,), ()), token_flags={"<|user|>": frozenset({"ordinary", "lstrip"})})
    for template in (((0,), ()), ((0,), (1,)), None):
        tok = bpe.Tokenizer(replace(spec, template=template))
        if template == ((0,), (1,)):
            tok = bpe.Tokenizer(replace(tok.spec, token_flags={}))
        tok.save(tmp_path / "folder", format="vocab-merges")
        assert bpe.Tokenizer.load(tmp_path / "folder") == tok


def test_tekken_comes_back(ranked, tmp_path):
    ranked.save(tmp_path / "tekken.json")
    assert bpe.Tokenizer.load(tmp_path / "tekken.json") == bpe.Tokenizer.load(tmp_path) == ranked
    assert json.loads((tmp_path / "tekken.json").read_bytes())["config"]["default_num_special_tokens"] == 2


def test_a_rank_file_keeps_ranks_only(trained, tmp_path, caplog):
    path = tmp_path / "x.tiktoken"
    with pytest.raises(ValueError, match=r"format tiktoken does not keep special_tokens: 2 tokens .*pretokenizer: "):
        trained.save(path)
    assert not path.exists()
    trained.save(path, lossy=True)
    assert "does not keep pretokenizer" in caplog.text
    reloaded = bpe.Tokenizer.from_tiktoken(path, "gpt2", trained.special_tokens)
    assert encode_texts(reloaded) == encode_texts(trained)
    diff = bpe.diff(trained, reloaded, ["low lower"])
    assert not diff
    assert [(difference.field, difference.harmless) for difference in diff.tokenizers] == [("ignore_merges", True)]


def test_openai_files_are_written_as_published(shared_vocab, tmp_path):
    path = shared_vocab("r50k_base.tiktoken")
    tok = bpe.Tokenizer.load(path)
    tok.save(tmp_path / "r50k_base.tiktoken")
    assert (tmp_path / "r50k_base.tiktoken").read_bytes() == path.read_bytes()


def test_gpt2_from_its_two_files(shared_vocab, corpus, tmp_path):
    vocab, merges = shared_vocab("gpt2_vocab.json"), shared_vocab("gpt2_merges.txt")
    tok = bpe.Tokenizer.from_vocab_merges(vocab, merges)
    ranks = bpe.Tokenizer.load(shared_vocab("r50k_base.tiktoken"))
    for name in CORPORA:
        text = corpus(name, 20_000).decode()
        assert tok.encode(text).tolist() == ranks.encode(text).tolist()
    tok.save(tmp_path / "f", format="tiktoken-folder")
    assert bpe.Tokenizer.load(tmp_path / "f") == tok
    ranks.save(tmp_path / "g", format="vocab-merges")
    assert bpe.Tokenizer.load(tmp_path / "g") == ranks


def test_clip_list_is_written(tmp_path):
    lines = b'"bpe_simple_vocab_16e6.txt#version: 0.2\nl o\nlo w</w>\ne r</w>\nlo w\nlow er</w>\n'
    (tmp_path / "a.txt").write_bytes(lines)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(lines))
    tok = bpe.Tokenizer.from_clip(tmp_path / "a.txt")
    assert bpe.Tokenizer.load(tmp_path / "a.txt.gz") == tok
    tok.save(tmp_path / "b.txt", format="clip")
    assert (tmp_path / "b.txt").read_bytes() == lines
    cased = bpe.Tokenizer.from_clip(tmp_path / "a.txt", lowercase=False)
    with pytest.raises(ValueError, match="format clip does not keep normalizer"):
        cased.save(tmp_path / "c.txt", format="clip")


# Against the libraries that define the formats ------------------------------------------------------------------------


def build_encoding(tok: bpe.Tokenizer, pattern: str):
    ranks = {tok.token_bytes(i): i for i in range(tok.n_vocab) if i not in tok.special_tokens.values()}
    return tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens=tok.special_tokens)


def test_tekken_gives_tiktokens_ids(ranked, tmp_path):
    ranked.save(tmp_path / "tekken.json")
    config = json.loads((tmp_path / "tekken.json").read_bytes())["config"]
    peer = build_encoding(ranked, config["pattern"])
    for text in HOSTILE:
        assert ranked.encode(text).tolist() == peer.encode(text, disallowed_special=()), text


def test_the_pattern_of_kimi(trained, tmp_path):
    trained.save(tmp_path / "kimi", format="tiktoken-folder")
    config = tmp_path / "kimi" / "tokenizer_config.json"
    ranks = [b"%s %d\n" % (base64.b64encode(bytes([byte])), byte) for byte in range(256)]
    ranks += [b"%s %d\n" % (base64.b64encode(token), 256 + i) for i, token in enumerate((b"lo", b"low", b"er"))]
    (tmp_path / "kimi" / "tiktoken.model").write_bytes(b"".join(ranks))
    decoder = {"260": {"content": "[BOS]", "special": True}, "261": {"content": "<|call|>", "special": False}}
    config.write_text(json.dumps({"tokenizer_class": "TikTokenTokenizer", "added_tokens_decoder": decoder}))
    tok = bpe.Tokenizer.load(tmp_path / "kimi")
    assert len(tok.special_tokens) == N_KIMI_SPECIAL_TOKENS
    assert tok.special_tokens["<|reserved_token_259|>"] == 259
    assert tok.special_tokens["<|call|>"] == 261
    peer = build_encoding(tok, KIMI_PATTERN)
    for text in [*HOSTILE, "漢字한국Kanji漢e 日本'LLx"]:
        assert tok.encode(text).tolist() == peer.encode(text, disallowed_special=()), text
    config.write_text(json.dumps({"tokenizer_class": "QWenTokenizer"}))
    qwen = bpe.Tokenizer.load(tmp_path / "kimi" / "tiktoken.model")
    assert qwen.special_tokens["<|extra_204|>"] == 259 + 207
    assert qwen.encode("e\u0301 12").tolist() == qwen.encode("é 12").tolist()
    config.write_text(json.dumps({"tokenizer_class": "Own"}))
    with pytest.raises(bpe.FormatError, match=r"tokenizer_class: it is 'Own', whose pattern is not known; write the"):
        bpe.Tokenizer.load(tmp_path / "kimi")


@pytest.mark.parametrize("ignore_merges", [False, True])
def test_a_tokenizer_of_qwen_1_is_written_as_one(ignore_merges, tmp_path):
    trained_tok = bpe.train(texts=TEXTS * 4, vocab_size=300, normalizer="nfc", pretokenizer="qwen2")
    trained_tok = bpe.Tokenizer(replace(trained_tok.spec, ignore_merges=ignore_merges))
    tok = trained_tok.with_tokens(special=QWEN_SPECIAL_TOKENS)
    tok.save(tmp_path / "qwen", format="tiktoken-folder")
    tok.save(tmp_path / "qwen", format="tiktoken-folder")
    assert sorted(os.listdir(tmp_path / "qwen")) == ["qwen.tiktoken", "tokenizer_config.json"]
    assert '"QWenTokenizer"' in (tmp_path / "qwen" / "tokenizer_config.json").read_text()
    assert bpe.Tokenizer.load(tmp_path / "qwen").fingerprint == tok.fingerprint
    bpe.convert(tmp_path / "qwen", tmp_path / "again", to_format="tiktoken-folder")
    assert bpe.Tokenizer.load(tmp_path / "again" / "qwen.tiktoken") == tok
    for other_tok in (tok.with_tokens(special=["<|own|>"]), trained_tok):
        with pytest.raises(ValueError, match="format tiktoken-folder does not keep normalizer: "):
            other_tok.save(tmp_path / "other", format="tiktoken-folder")
    (tmp_path / "qwen" / "qwen.tiktoken").rename(tmp_path / "qwen" / "tiktoken.model")
    with pytest.raises(ValueError, match=r"which has another rank file than qwen\.tiktoken, and programs would load"):
        tok.save(tmp_path / "qwen", format="tiktoken-folder")


def test_a_folder_as_transformers_4_writes_it(trained, tmp_path):
    trained.save(tmp_path / "f", format="vocab-merges")
    vocab = json.loads((tmp_path / "f" / "vocab.json").read_bytes())
    vocab = {token: token_id - 2 for token, token_id in vocab.items() if token_id >= 2}
    n = len(vocab)
    merges = (tmp_path / "f" / "merges.txt").read_bytes()
    folder = tmp_path / "g"
    folder.mkdir()
    for name, value in {
        "vocab.json": vocab,
        "added_tokens.json": {"<|end|>": n, "<new>": n + 1},
        "special_tokens_map.json": {
            "eos_token": "<|end|>",
            "mask_token": {"content": "<mask>", "lstrip": True, "rstrip": False, "normalized": False},
            "additional_special_tokens": ["<|user|>"],
        },
        "tokenizer_config.json": {"tokenizer_class": "GPT2TokenizerFast", "add_prefix_space": True, "bos_token": None},
    }.items():
        (folder / name).write_text(json.dumps(value))
    (folder / "merges.txt").write_bytes(merges.replace(b"\n", b"\r\n"))
    tok = bpe.Tokenizer.load(folder)
    names = ("<|end|>", "<new>", "<|endoftext|>", "<mask>", "<|user|>")  # the third is the class's unk_token
    assert tok.special_tokens == {name: n + i for i, name in enumerate(names)}
    assert tok.spec.token_flags == {
        "<new>": {"ordinary", "normalized"},
        "<mask>": {"lstrip"},
    }
    assert tok.pretokenizer == bpe.Pretokenizer("gpt2", add_prefix_space=True)
    assert tok == bpe.Tokenizer.load(folder / "merges.txt") == bpe.Tokenizer.load(folder / "vocab.json")
    two_files = bpe.Tokenizer.from_vocab_merges(folder / "vocab.json", folder / "merges.txt", "gpt2", {"<|end|>": n})
    assert two_files.tokens("low lower") == trained.tokens("low lower")


# Errors ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("merges.txt", b"#version: 0.2\nl o\nlo w x\n", r"merges.txt, line 3: 'lo w x' is not the two parts"),
        ("merges.txt", b"#version: 0.2\nl o\nzz w\n", r"merges.txt, line 3: .*'zz'"),
        ("merges.txt", b"\xff", r"merges.txt: it is not UTF-8"),
        ("vocab.json", b'{"l": 0, "o": "1"}', r"vocab.json\['o'\]: '1' is not a token id"),
        ("vocab.json", b'{"l": 0', r"vocab.json, line 1 column"),
        ("vocab.json", b"[]", r"vocab.json: \[\] is not an object"),
        (
            "tokenizer_config.json",
            b'{"tokenizer_class": "MyTokenizer"}',
            r"tokenizer_class: it is 'MyTokenizer', whose",
        ),
        ("tokenizer_config.json", b'{"added_tokens_decoder": {"x": {}}}', r"added_tokens_decoder\['x'\]: \{\} is not"),
        (
            "tokenizer_config.json",
            b'{"added_tokens_decoder": {"%s": {}}}' % (b"9" * 5000),
            r"added_tokens_decoder\['999",
        ),
        (
            "tokenizer_config.json",
            b'{"add_bos_token": true, "bos_token": null}',
            "bos_token: .* is not a special token",
        ),
        ("added_tokens.json", b'{"<a>": "1"}', r"added_tokens.json\['<a>'\]: '1' is not an id"),
        ("special_tokens_map.json", b'{"eos_token": 3}', r"eos_token: 3 is not a token"),
    ],
)
def test_an_invalid_folder_is_refused(name, content, message, tmp_path):
    letters = json.dumps({**{chr(code): i for i, code in enumerate(range(97, 123))}, "lo": 26})
    (tmp_path / "vocab.json").write_text(letters)
    (tmp_path / "merges.txt").write_text("#version: 0.2\nl o\n")
    assert bpe.Tokenizer.load(tmp_path).tokens("lo") == [b"lo"]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(bpe.FormatError, match=message) as error_info:
        bpe.Tokenizer.load(tmp_path)
    assert str(tmp_path) in str(error_info.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": None}, "the file.config: it is None"),
        ({"config.default_vocab_size": 10**6}, "config.default_vocab_size: it is 1000000; there are 298 tokens"),
        ({"config.default_num_special_tokens": 1}, "config.default_vocab_size: it is 300"),
        ({"config.pattern": "("}, "config.pattern: "),
        ({"vocab.3.rank": 4}, r"vocab\[3\].rank: it is 4; ranks must be"),
        ({"vocab.3.token_bytes": "!"}, r"vocab\[3\].token_bytes: '!' is not a token in base64"),
        ({"vocab.3.token_bytes": "QQ=="}, r"vocab\[3\].token_bytes: token 3 is b'A'; the first 256"),
        ({"vocab.258.token_bytes": "QQ=="}, "vocab: token b'A' is given twice"),
        ({"special_tokens.1.token_str": "<unk>"}, r"special_tokens\[1\]: "),
    ],
)
def test_an_invalid_tekken_is_refused(change, message, ranked, tmp_path):
    ranked.save(tmp_path / "tekken.json")
    value = json.loads((tmp_path / "tekken.json").read_bytes())
    for name, new_value in change.items():
        parent = value
        *parts, key = [int(part) if part.isdigit() else part for part in name.split(".")]
        for part in parts:
            parent = parent[part]
        parent[key] = new_value
    (tmp_path / "tekken.json").write_text(json.dumps(value))
    with pytest.raises(bpe.FormatError, match=message):
        bpe.Tokenizer.load(tmp_path / "tekken.json")


def test_what_a_format_cannot_hold_is_an_error(trained, tmp_path):
    char = bpe.train(texts=TEXTS, vocab_size=60, model="char", end_of_word="</w>", unk_token="<unk>")
    for format_ in FORMATS.values():
        if format_.name in ("huggingface", "compiled", "subword-nmt"):
            continue
        with pytest.raises(ValueError, match="cannot hold"):
            char.save(tmp_path / "x", format=format_.name, lossy=True)
    with pytest.raises(ValueError, match=r"does not keep pretokenizer: Pretokenizer\('cl100k'\) in the tokenizer"):
        bpe.train(texts=TEXTS, vocab_size=270, pretokenizer="cl100k").save(tmp_path / "x", format="vocab-merges")
    with pytest.raises(ValueError, match="format is 'own'; it must be one of 'huggingface', 'vocab-merges'"):
        trained.save(tmp_path / "x", format="own")
    assert not list(tmp_path.iterdir())
    with pytest.raises(
        FileNotFoundError, match=r"the folder has no tokenizer; it must have one of these: a tokenizer\.json; vocab"
    ):
        bpe.Tokenizer.load(tmp_path)
    (tmp_path / "merges.txt").write_bytes(b"#version: 0.2\nl o\n")
    with pytest.raises(bpe.FormatError, match=r"merges.txt: it is a list of merges, which can be of several formats"):
        bpe.Tokenizer.load(tmp_path / "merges.txt")


@pytest.mark.parametrize(
    ("name", "form", "message"),
    [
        ("x.gguf", "huggingface", "the name of a GGUF file, but the format to write is huggingface, a tokenizer"),
        ("x.GGUF", "tiktoken", "is tiktoken, a rank file, .tiktoken; give another name, or another format: gguf$"),
        (
            "x.model",
            "huggingface",
            "a rank file, but .* give another name, or another format: sentencepiece or tiktoken$",
        ),
        ("x.model", "tiktoken-folder", "sentencepiece, or a rank file, but the format to write is tiktoken-folder"),
        ("x.tiktoken", "huggingface", "the name of a rank file, but the format to write is huggingface, a tokenizer"),
        ("tekken.json", "huggingface", "the name of Mistral's format, but .* or another format: tekken$"),
    ],
)
def test_names_of_other_formats_are_refused(name, form, message, trained, tmp_path):
    trained.save(tmp_path / "t.json")
    with pytest.raises(ValueError, match=message):
        trained.save(tmp_path / name, format=form)
    with pytest.raises(ValueError, match=message):
        bpe.convert(tmp_path / "t.json", tmp_path / name, to_format=form, lossy=True)
    assert os.listdir(tmp_path) == ["t.json"]
    trained.save(tmp_path / "tiktoken.model", format="tiktoken", lossy=True)
    assert (tmp_path / "tiktoken.model").read_bytes().startswith(b"IQ==")


def test_files_of_a_folder_are_chosen_by_name(trained, tmp_path, caplog):
    assert detect_folder_format(["tokenizer.json", "tekken.json", "vocab.json", "merges.txt"]) == (
        "huggingface",
        ["tokenizer.json"],
    )
    assert detect_folder_format(["qwen.tiktoken", "tokenizer_config.json"])[0] == "tiktoken-folder"
    assert detect_folder_format(["a.tiktoken", "b.tiktoken"]) is None
    trained.save(tmp_path, format="huggingface")  # into a folder that exists
    assert (tmp_path / "tokenizer.json").exists()
    trained.save(tmp_path, format="vocab-merges")
    assert "has a tokenizer.json too" in caplog.text
    assert bpe.Tokenizer.load(tmp_path) == bpe.Tokenizer.load(tmp_path, format="vocab-merges") == trained


# Comparing ------------------------------------------------------------------------------------------------------------


def test_diff_finds_what_differs(trained):
    assert not bpe.diff(trained, bpe.Tokenizer(trained.spec), TEXTS)
    other_tok = bpe.train(texts=TEXTS * 4, vocab_size=290, special_tokens=["<|user|>"], pretokenizer="cl100k")
    diff = bpe.diff(trained, other_tok, ["low", "lower lowest 123"])
    assert diff
    kinds = [(difference.kind, difference.field) for difference in diff.tokenizers]
    assert kinds[0] == ("vocabulary", "vocabulary")
    assert ("settings", "special_tokens") in kinds
    assert ("settings", "pretokenizer") in kinds
    assert [difference.text for difference in diff.texts] == [0, 1]
    assert diff.texts[0].index == 0
    spec = trained.spec
    reversed_spec = replace(spec, merges=spec.merges[::-1].copy(), merge_results=spec.merge_results[::-1].copy())
    (only,) = bpe.diff(trained, bpe.Tokenizer(reversed_spec)).tokenizers
    assert only.message.startswith("the same in another order; merge 0 is ")
    with pytest.raises(TypeError, match=r"b is 'x', a str; it must be a bpe\.Tokenizer"):
        bpe.diff(trained, "x")


def test_a_setting_that_changes_ids_is_a_difference(tmp_path):
    """Without its merge, a token comes only of a whole word."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"ab", b"abc"]
    (tmp_path / "x.tiktoken").write_bytes(b"".join(b"%b %d\n" % (base64.b64encode(t), i) for i, t in enumerate(tokens)))
    spec = bpe.Tokenizer.from_tiktoken(tmp_path / "x.tiktoken", "gpt2").spec
    for merges, is_harmless in ((spec.merges, True), (spec.merges[:1], False)):
        results = spec.merge_results[: len(merges)]
        changed_spec = replace(spec, merges=merges, merge_results=results, unmerged=None)
        diff = bpe.diff(*(bpe.Tokenizer(replace(changed_spec, ignore_merges=each)) for each in (True, False)), ["abc"])
        assert [(each.field, each.harmless) for each in diff.tokenizers] == [("ignore_merges", is_harmless)]
        assert bool(diff) == bool(diff.texts) == (not is_harmless)
    assert str(diff.tokenizers[0]) == "ignore_merges: True in the first, False in the second"


def test_convert_returns_the_losses(trained, tmp_path):
    trained.save(tmp_path / "tokenizer.json")
    assert bpe.convert(tmp_path / "tokenizer.json", tmp_path / "f", to_format="vocab-merges") == []
    with pytest.raises(ValueError, match="does not keep"):
        bpe.convert(tmp_path / "f", tmp_path / "x.tiktoken")
    losses = bpe.convert(tmp_path / "f", tmp_path / "x.tiktoken", lossy=True)
    assert [loss.field for loss in losses] == ["special_tokens", "pretokenizer", "ignore_merges"]
    assert (tmp_path / "x.tiktoken").exists()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("tokenizer.json", b"", "it is empty"),
        (
            "a.json",
            b"Once upon a time\n",
            "it begins with b'Once upon a time\\\\n', and is of no known format; known are a tok",
        ),
        ("README.md", b"# bpe\n\nIt is fast.\n", "is of no known format"),
        ("a.gguf", b"GGML", "it begins with b'GGML'; a GGUF file begins with b'GGUF'"),
        ("a.model", b"\x00\x01", "it is neither a model of sentencepiece nor a rank file"),
        (
            "tokenizer.json.gz",
            b"\x1f\x8b\x08",
            "it is gzip data that is neither a rank file nor CLIP's list; decompress it",
        ),
        ("tokenizer.json", b"\xef\xbb\xbf{}", "it begins with a byte order mark"),
        ("tokenizer_config.json", b"{}", "it is a part of a tokenizer, not a whole one; load its folder"),
    ],
)
def test_a_file_of_no_known_format_says_what_it_is(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(bpe.FormatError, match=message):
        bpe.Tokenizer.load(tmp_path / name)
