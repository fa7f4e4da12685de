"""What `tokenizers`' tests of components, of its documentation and of asynchronous calls describe, with both packages.

`test_tokenizers_behaviour.py` has those of the class `Tokenizer`.
"""

from __future__ import annotations

import asyncio
import gzip
import pickle
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_tokenizers_behaviour import lib, of_bytes, of_words

import bpe
import bpe.compat.huggingface as compat

tokenizers = pytest.importorskip("tokenizers", reason="compares with the tokenizers package")
pre, post, decoders, normalizers, models = (
    tokenizers.pre_tokenizers, tokenizers.processors, tokenizers.decoders, tokenizers.normalizers, tokenizers.models
)  # fmt: skip
__all__ = ["lib"]  # the fixture
#: Text that the tokenizers below are trained on.
HARBOUR = ["Boats sail at dawn.", "Crews sail boats at sea!", "At sea, a crew of 12 sails.", "Don't sail at night?"] * 8


def train(lib: SimpleNamespace, model: Any, pre_tokenizer: Any, **trainer: Any) -> Any:
    """A tokenizer that the package trained."""
    tok = lib.Tokenizer(model)
    tok.pre_tokenizer = pre_tokenizer
    tok.train_from_iterator(HARBOUR, tokenizers.trainers.BpeTrainer(show_progress=False, **trainer))
    return tok


def with_ends(lib: SimpleNamespace) -> Any:
    """Words as added tokens, after "[SEP]" (0) and "[CLS]" (1)."""
    tok = lib.Tokenizer(models.BPE())
    tok.add_special_tokens(["[SEP]", "[CLS]"])
    tok.add_tokens(["we", "sail", "at", "Ġdawn", "crew"])
    return tok


# Added tokens ---------------------------------------------------------------------------------------------------------


def test_the_content_and_the_kind_of_an_added_token_are_set(lib: SimpleNamespace) -> None:
    token = lib.AddedToken("<hole>")
    assert [token.special, token.lstrip, token.rstrip, token.single_word, token.normalized] == [False] * 4 + [True]
    token.content = token.content.upper()
    token.special = True
    assert (str(token), token.special, token.normalized) == ("<HOLE>", True, False)
    flags = "rstrip=False, lstrip=False, single_word=False, normalized=False, special=True"
    assert repr(token) == f'AddedToken("<HOLE>", {flags})'
    loaded = pickle.loads(pickle.dumps(token))
    assert loaded == token
    assert loaded.special
    assert token != lib.AddedToken("<HOLE>")
    assert lib.AddedToken("x", special=True, normalized=True).normalized is True
    for flag in ("lstrip", "rstrip", "single_word"):
        token = lib.AddedToken("x", **{flag: True})
        assert [name for name in ("lstrip", "rstrip", "single_word") if getattr(token, name)] == [flag]


def test_special_tokens_among_added_ones_are_skipped(lib: SimpleNamespace) -> None:
    tok = lib.Tokenizer(models.BPE())
    assert tok.add_tokens([lib.AddedToken("we", special=True), lib.AddedToken("sail"), "at", "dawn"]) == 4
    assert tok.decode([0, 1, 2, 3], skip_special_tokens=False) == "we sail at dawn"
    assert tok.decode([0, 1, 2, 3]) == "sail at dawn"
    assert tok.get_added_tokens_decoder()[0].special


def test_tokens_that_are_added_while_special_ones_are_text(lib: SimpleNamespace) -> None:
    tok = of_bytes(lib)
    tok.encode_special_tokens = True
    tok.add_tokens(["s>"])
    assert tok.encode_special_tokens is True
    assert tok.encode("a<s>").tokens == ["a", "<", "s>"]


def test_white_space_around_an_added_token_with_metaspace(lib: SimpleNamespace) -> None:
    tok = train(lib, models.BPE(unk_token="<unk>"), pre.Metaspace(), special_tokens=["<unk>", "<s>"])
    tok.pre_tokenizer.split = False  # in place
    tok.add_tokens([lib.AddedToken("<end>", rstrip=True, lstrip=True)])
    assert tok.encode("sail <end> at").tokens == ["▁sail", " <end> ", "▁at"]
    assert tok.encode("<end>sail<s>, at").tokens[:3] == ["<end>", "▁sail", "<s>"]


def test_added_tokens_of_normalized_text_are_decoded_as_normalized(lib: SimpleNamespace) -> None:
    letters = {letter: token_id for token_id, letter in enumerate(sorted(pre.ByteLevel.alphabet()))}
    for normalizer, decoder in (
        (normalizers.Lowercase(), None),
        (normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), decoders.Replace("▁", " ")),
        (normalizers.ByteLevel(), decoders.ByteLevel()),
        (normalizers.Sequence([normalizers.Lowercase(), normalizers.ByteLevel()]), decoders.ByteLevel()),
    ):
        results = []
        for library in (lib, SimpleNamespace(Tokenizer=tokenizers.Tokenizer, AddedToken=tokenizers.AddedToken)):
            tok = library.Tokenizer(models.BPE(letters, []))
            tok.normalizer, tok.decoder = normalizer, decoder
            tok.add_tokens(["The", "é x", library.AddedToken("Plain", normalized=False)])
            tok.add_special_tokens(
                ["<S>", library.AddedToken("<T>", normalized=True), library.AddedToken("<u>", normalized=True)]
            )
            ids = [*range(256, 262), 5]
            texts = [tok.decode(ids, skip_special_tokens=skip) for skip in (False, True)]
            results.append((texts, [tok.id_to_token(token_id) for token_id in ids], sorted(tok.get_vocab())))
        assert results[0] == results[1]


def test_wide_spaces_are_trimmed_from_spans(lib: SimpleNamespace) -> None:
    tok = lib.Tokenizer(models.BPE({"\u3000": 0, "a": 1, "\u3000a": 2, "\x85": 3}, [("\u3000", "a")]))
    tok.post_processor = post.ByteLevel(trim_offsets=True, add_prefix_space=False)
    assert tok.encode("a\u3000a\x85\u3000").offsets == [(0, 1), (2, 3), (4, 4), (5, 5)]


# Components -----------------------------------------------------------------------------------------------------------


def test_each_component_is_given_back(lib: SimpleNamespace) -> None:
    components = {
        "normalizer": [
            normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD(), normalizers.Lowercase(),
            normalizers.StripAccents(), normalizers.Strip(left=False), normalizers.Replace("a", "b"),
            normalizers.Prepend("_"), normalizers.BertNormalizer(strip_accents=True, lowercase=False),
            normalizers.Nmt(), normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase()]),
        ],
        "pre_tokenizer": [
            pre.Whitespace(), pre.WhitespaceSplit(), pre.BertPreTokenizer(), pre.UnicodeScripts(), pre.ByteLevel(),
            pre.CharDelimiterSplit(","), pre.Digits(True), pre.FixedLength(4), pre.Punctuation("isolated"),
            pre.Metaspace("_", "first", False), pre.Split(tokenizers.Regex(r"\d"), "removed", invert=True),
            pre.Sequence([pre.Whitespace(), pre.Digits()]),
        ],
        "post_processor": [
            post.ByteLevel(trim_offsets=False), post.BertProcessing(("b", 1), ("a", 0)),
            post.RobertaProcessing(("b", 1), ("a", 0)), post.TemplateProcessing("a $A", "a $A $B:1", [("a", 0)]),
            post.Sequence([post.ByteLevel()]),
        ],
        "decoder": [
            decoders.ByteLevel(), decoders.WordPiece("_", False), decoders.ByteFallback(), decoders.Fuse(),
            decoders.Strip("_", 1, 0), decoders.Metaspace("_", "never"), decoders.BPEDecoder("_"), decoders.CTC(),
            decoders.Replace("_", " "), decoders.Sequence([decoders.Fuse()]),
        ],
    }  # fmt: skip
    tok = of_words(lib)
    for name, each in components.items():
        for component in each:
            setattr(tok, name, component)
            assert type(getattr(tok, name)) is type(component)
            assert getattr(tok, name).__getstate__() == component.__getstate__()


def test_a_component_in_a_sequence_is_replaced_and_changed(lib: SimpleNamespace) -> None:
    tok = of_bytes(lib)
    tok.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Prepend("x")])
    assert tok.encode("AB").tokens == ["x", "a", "b"]
    sequence = tok.normalizer
    sequence[1].prepend = "y"
    tok.normalizer = sequence
    assert tok.encode("AB").tokens == ["y", "a", "b"]
    sequence[1] = normalizers.Strip()
    tok.normalizer = sequence
    assert tok.encode(" AB ").tokens == ["a", "b"]
    with pytest.raises(IndexError):
        _ = sequence[2]


def test_what_changes_a_text_and_divides_it(lib: SimpleNamespace) -> None:
    tok = of_bytes(lib)
    tok.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])
    assert tok.normalizer.normalize_str("Söul är") == "Soul ar"
    tok.pre_tokenizer = pre.Sequence([pre.WhitespaceSplit(), pre.Punctuation()])
    expected = [("At", (0, 2)), ("sea", (4, 7)), ("!", (7, 8)), ("?", (8, 9))]
    assert tok.pre_tokenizer.pre_tokenize_str("At  sea!?") == expected


class InPython:
    """A component that is written in Python."""

    def pre_tokenize(self, text: Any) -> None:
        """Leave the text as it is."""

    normalize = pre_tokenize


def test_components_in_python_are_refused_by_name() -> None:
    tok = compat.Tokenizer(models.BPE())
    with pytest.raises(TypeError, match=r"pre_tokenizer is a PreTokenizer written in Python.*use the components"):
        tok.pre_tokenizer = pre.PreTokenizer.custom(InPython())
    with pytest.raises(TypeError, match="normalizer is "):
        tok.normalizer = normalizers.Normalizer.custom(InPython())
    assert tok.pre_tokenizer is None


# Post-processors ------------------------------------------------------------------------------------------------------


def test_spans_with_and_without_their_spaces(lib: SimpleNamespace) -> None:
    tok = train(
        lib, models.BPE(), pre.ByteLevel(add_prefix_space=True), initial_alphabet=pre.ByteLevel.alphabet()
    )  # fmt: skip
    text, tokens = "Boats sail at sea", ["ĠBoats", "Ġsail", "Ġat", "Ġsea"]
    whole, inner = [(0, 5), (5, 10), (10, 13), (13, 17)], [(0, 5), (6, 10), (11, 13), (14, 17)]
    for processor, offsets in (
        (None, whole),
        (post.ByteLevel(trim_offsets=True, add_prefix_space=True), inner),
        (post.ByteLevel(trim_offsets=True, add_prefix_space=False), [(1, 5), *inner[1:]]),
        (post.ByteLevel(trim_offsets=False, add_prefix_space=True), whole),
    ):
        tok.post_processor = processor
        encoding = tok.encode(text)
        assert (encoding.tokens, encoding.offsets) == (tokens, offsets)


def test_templates_of_pairs(lib: SimpleNamespace) -> None:
    tok, ends = with_ends(lib), (("[SEP]", 0), ("[CLS]", 1))
    tok.post_processor = post.BertProcessing(*ends)
    encoding = tok.encode("we sail", "crew")
    assert encoding.tokens == ["[CLS]", "we", "sail", "[SEP]", "crew", "[SEP]"]
    assert (encoding.ids, encoding.type_ids) == ([1, 2, 3, 0, 6, 0], [0, 0, 0, 0, 1, 1])
    tok.post_processor = post.TemplateProcessing("[CLS] $0 [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ends)
    loaded = tok.encode("we sail", "crew")
    assert (loaded.ids, loaded.type_ids, loaded.tokens) == (encoding.ids, encoding.type_ids, encoding.tokens)
    tok.post_processor = post.RobertaProcessing(*ends)
    encoding = tok.encode("we sail", "crew")
    assert (encoding.ids, encoding.type_ids) == ([1, 2, 3, 0, 0, 6, 0], [0] * 7)
    tok.post_processor = post.TemplateProcessing("$A", "$B:1 $A:3 [SEP]:2", ends)
    encoding = tok.encode("we sail", "crew")
    assert (encoding.ids, encoding.type_ids) == ([6, 2, 3, 0], [1, 3, 3, 2])


def test_template_tokens_of_several_ids(lib: SimpleNamespace) -> None:
    tok = with_ends(lib)
    question = {"id": "Q", "ids": [2, 4], "tokens": ["_ask", ":"]}
    tok.post_processor = post.TemplateProcessing(["Q", "$0"], ["Q", "$A", "Q", "$B"], [question])
    encoding = tok.encode("sail", "crew")
    assert (encoding.ids, encoding.tokens) == ([2, 4, 3, 2, 4, 6], ["_ask", ":", "sail", "_ask", ":", "crew"])
    assert encoding.special_tokens_mask == [1, 1, 0, 1, 1, 0]
    assert (tok.num_special_tokens_to_add(False), tok.num_special_tokens_to_add(True)) == (2, 4)


def test_post_processors_in_a_sequence(lib: SimpleNamespace) -> None:
    tok = with_ends(lib)
    template = post.TemplateProcessing(
        ["[CLS]", "$0", "[SEP]"], ["[CLS]:0", "$A", "[SEP]:0", "$B:1", "[SEP]:1"], [("[CLS]", 1), ("[SEP]", 0)]
    )
    nowhere = (0, 0)
    for processor, start in ((template, 11), (post.Sequence([post.ByteLevel(trim_offsets=True), template]), 12)):
        tok.post_processor = processor
        one, pair = tok.encode("we sail at Ġdawn"), tok.encode("we sail at Ġdawn", "crew")
        spans = [nowhere, (0, 2), (3, 7), (8, 10), (start, 16), nowhere]
        assert (one.ids, one.offsets) == ([1, 2, 3, 4, 5, 0], spans)
        assert (pair.offsets, pair.type_ids) == ([*spans, (0, 4), nowhere], [0] * 6 + [1] * 2)


# Decoders -------------------------------------------------------------------------------------------------------------


def test_streams_with_other_decoders(lib: SimpleNamespace) -> None:
    tok = lib.Tokenizer(models.BPE({"<unk>": 0, "<0x20>": 1, "<0xC3>": 2, "<0xA9>": 3}, [], byte_fallback=True))
    tok.decoder = decoders.ByteFallback()
    stream = lib.DecodeStream(skip_special_tokens=False)
    assert [stream.step(tok, token_id) for token_id in (1, 2, 3)] == [" ", None, "é"]
    tok = lib.Tokenizer(models.BPE({"<unk>": 0, "▁sail": 1}, []))
    tok.decoder = decoders.Metaspace()
    stream = lib.DecodeStream(skip_special_tokens=False)
    assert [stream.step(tok, 1), stream.step(tok, 1)] == ["sail", " sail"]


@pytest.mark.parametrize("decoder", [None, decoders.ByteLevel(), decoders.Fuse(), decoders.BPEDecoder()])
def test_ids_that_are_no_tokens(lib: SimpleNamespace, decoder: Any) -> None:
    tok = lib.Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    if decoder is not None:
        tok.decoder = decoder
    expected = tok.decode([0, 1])
    for ids in ((0, 1), np.array([0, 1]), [np.int64(0), 1], [0, 2, 1], [0, 1, 2**32 - 1]):
        assert tok.decode(ids) == expected
        assert tok.decode_batch([ids]) == [expected]
    for invalid_id in (-1, -100, 2**32, 2**70):
        for ids in (
            [0, invalid_id],
            [invalid_id] * 20,
            *([np.array([0, invalid_id])] if abs(invalid_id) < 2**62 else []),
        ):
            for skip in (False, True):
                with pytest.raises(OverflowError):
                    tok.decode(ids, skip_special_tokens=skip)
        with pytest.raises((TypeError, OverflowError)):
            lib.DecodeStream(skip_special_tokens=False).step(tok, invalid_id)
    for kind in ("0", 1.0, None):
        with pytest.raises(TypeError):
            tok.decode([kind])


@pytest.mark.parametrize(
    ("decoder", "tokens", "text"),
    [
        (decoders.ByteLevel(), ["We", "Ġsail", "Ġat"], "We sail at"),
        (decoders.WordPiece(), ["We", "sa", "##il", "!", "it", "'s"], "We sail! it's"),
        (decoders.WordPiece("__", False), ["We", "sa", "__il", "'m"], "We sail 'm"),
        (decoders.BPEDecoder(), ["We</w>", "sa", "il</w>"], "We sail"),
        (decoders.BPEDecoder("_"), ["We_", "sa", "il_"], "We sail"),
        (decoders.Metaspace(), ["▁We", "▁sail"], "We sail"),
        (decoders.Metaspace("-", "never"), ["-We", "-sail"], " We sail"),
        (decoders.Replace("_", " "), ["We", "_sail"], "We sail"),
        (decoders.Strip("_", 1, 0), ["_We", "__-", " _"], "We_- _"),
        (decoders.Fuse(), ["We", " sa", "il"], "We sail"),
        (decoders.CTC(), ["<pad>", "W", "W", "<pad>", "e", "e"], "We"),
        (decoders.Sequence([decoders.CTC(), decoders.Metaspace()]), ["▁", "▁", "W", "W", "e", "▁", "a"], "We a"),
        *[
            (decoders.ByteFallback(), tokens, text)
            for tokens, text in (
                (["We", " sail"], "We sail"),
                (["<0x61>"], "a"),
                (["<0xE5>"], "\ufffd"),
                (["<0xE5>", "<0x8f>"], "\ufffd\ufffd"),
                (["<0xE5>", "<0x8f>", "<0xab>", "a"], "叫a"),
                (["<0xE5>", "<0x8f>", "a"], "\ufffd\ufffda"),
            )
        ],
    ],
    ids=str,
)
def test_texts_of_decoders(lib: SimpleNamespace, decoder: Any, tokens: list[str], text: str) -> None:
    names = list(dict.fromkeys(tokens))
    tok = lib.Tokenizer(models.BPE({name: token_id for token_id, name in enumerate(names)}, []))
    tok.decoder = decoder
    assert tok.decode([names.index(token) for token in tokens]) == text
    assert tok.decoder.decode(tokens) == text


# Training and the quick tour ------------------------------------------------------------------------------------------


def test_training_without_a_trainer_and_from_compressed_files(lib: SimpleNamespace, tmp_path: Path) -> None:
    paths = [tmp_path / f"{token_id}.gz" for token_id in range(2)]
    for path in paths:
        with gzip.open(path, "wt") as file:
            file.write("\n".join(HARBOUR))

    def lines() -> Iterator[str]:
        for path in paths:
            with gzip.open(path, "rt") as file:
                yield from file

    files = []
    for source in (lines(), HARBOUR * 2):
        tok = lib.Tokenizer(models.BPE())
        tok.pre_tokenizer = pre.WhitespaceSplit()
        tok.train_from_iterator(source)
        assert tok.encode("sail boats").tokens == ["sail", "boats"]
        files.append(tok.get_vocab())
    assert files[0] == files[1]


def test_special_tokens_come_first_and_the_alphabet_is_whole(lib: SimpleNamespace) -> None:
    tok = train(
        lib, models.BPE(), pre.Whitespace(), vocab_size=60, special_tokens=["<pad>", "<s>"], initial_alphabet=["£", "é"]
    )  # fmt: skip
    assert [tok.token_to_id(name) for name in ("<pad>", "<s>")] == [0, 1]
    assert tok.token_to_id("£") is not None
    assert tok.encode("é<s>").tokens == ["é", "<s>"]


def test_the_quick_tour(lib: SimpleNamespace, tmp_path: Path) -> None:
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    tok = train(lib, models.BPE(unk_token="[UNK]"), pre.Whitespace(), special_tokens=special)
    tok.save(str(tmp_path / "tokenizer.json"))
    tok = lib.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = "At sea, boats 😁 sail?"
    encoding = tok.encode(text)
    assert encoding.tokens == ["At", "sea", ",", "boats", "[UNK]", "sail", "?"]
    start, end = encoding.offsets[4]
    assert text[start:end] == "😁"
    assert tok.token_to_id("[SEP]") == 2
    tok.post_processor = post.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [
        (name, tok.token_to_id(name)) for name in ("[CLS]", "[SEP]")
    ])  # fmt: skip
    pair = tok.encode("At sea,", "boats 😁?")
    assert pair.tokens == ["[CLS]", "At", "sea", ",", "[SEP]", "boats", "[UNK]", "?", "[SEP]"]
    assert pair.type_ids == [0] * 5 + [1] * 4
    tok.enable_padding(pad_id=3, pad_token="[PAD]")
    batch = tok.encode_batch(["At sea, boats", "sail 😁"])
    assert batch[1].tokens == ["[CLS]", "sail", "[UNK]", "[SEP]", "[PAD]", "[PAD]"]
    assert batch[1].attention_mask == [1, 1, 1, 1, 0, 0]
    assert tok.decode(tok.encode(text).ids) == "At sea , boats sail ?"


def test_words_with_an_end_mark(lib: SimpleNamespace) -> None:
    tok = train(
        lib, models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), pre.BertPreTokenizer(),
        special_tokens=["<unk>"], end_of_word_suffix="</w>", limit_alphabet=20,
    )  # fmt: skip
    tok.normalizer = normalizers.Lowercase()
    tok.decoder = decoders.BPEDecoder("</w>")
    encoding = tok.encode("Sail at", "SEA")
    assert encoding.tokens == ["sail</w>", "at</w>", "sea</w>"]
    assert (encoding.offsets, encoding.type_ids) == ([(0, 4), (5, 7), (0, 3)], [0, 0, 1])
    assert tok.encode("xsail").tokens[0] == "<unk>"
    assert tok.decode(encoding.ids) == "sail at sea"


def test_a_text_without_a_prefix_space_and_with_one(lib: SimpleNamespace) -> None:
    alphabet = pre.ByteLevel.alphabet()
    for prefix, first in ((False, "Boats"), (True, "ĠBoats")):
        tok = train(lib, models.BPE(), pre.ByteLevel(add_prefix_space=prefix), initial_alphabet=alphabet)
        encoding = tok.encode("Boats sail")
        assert encoding.tokens == [first, "Ġsail"]
        assert encoding.offsets == [(0, 5), (5, 10)]


# Descriptions, threads, asynchronous calls ----------------------------------------------------------------------------


def test_descriptions() -> None:
    both_tokenizers = [library.Tokenizer(models.BPE(unk_token="?")) for library in (compat, tokenizers)]
    for tok in both_tokenizers:
        tok.add_tokens(["we"])
        tok.pre_tokenizer = pre.ByteLevel()
        tok.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Strip()])
        tok.post_processor = post.TemplateProcessing("a $0", "a $A:0 $B:1", [("a", 0)])
        tok.enable_truncation(5)
    assert (repr(both_tokenizers[0]), str(both_tokenizers[0])) == (repr(both_tokenizers[1]), str(both_tokenizers[1]))


def test_the_description_without_tokenizers(monkeypatch: pytest.MonkeyPatch) -> None:
    tok = compat.Tokenizer(bpe.train(texts=["low low"], vocab_size=257))
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert repr(tok) == str(tok) == 'Tokenizer(version="1.0", truncation=None, padding=None, model=BPE(257 tokens))'


def test_tokenizers_are_made_and_used_in_threads(lib: SimpleNamespace) -> None:
    def encoded(text: str) -> list[list[int]]:
        tok = of_words(lib)
        method = tok.encode_batch if text < "c" else tok.encode_batch_fast
        return [each.ids for each in method([text * 20] * 5)]

    texts = ["at dawn ", "crew sail ", "we sail "] * 4
    with ThreadPoolExecutor(4) as executor:
        assert list(executor.map(encoded, texts)) == [encoded(text) for text in texts]


BATCHES: list[tuple[Any, bool]] = [
    (["we sail", "crew"], False),
    ([("we sail", "at dawn"), ("we", "crew")], False),
    ([("we sail", "at dawn"), ["we", "crew"]], False),
    (("we sail", "crew"), False),
    ([], False),
    (np.array(["we sail", "crew"]), False),
    (np.array([["we", "sail"], ["at", "dawn"]], dtype=object), True),
]


@pytest.mark.parametrize("add_special", [True, False])
def test_asynchronous_calls_return_what_others_do(lib: SimpleNamespace, add_special: bool) -> None:
    tok = with_ends(lib)
    tok.post_processor = post.BertProcessing(("[SEP]", 0), ("[CLS]", 1))
    tok.enable_truncation(4)
    tok.enable_padding(length=5)
    names = ("ids", "tokens", "attention_mask", "special_tokens_mask", "type_ids")

    async def compare() -> None:
        for batch, words in BATCHES:
            for name in ("encode_batch", "encode_batch_fast"):
                expected = getattr(tok, name)(batch, words, add_special)
                found = await getattr(tok, f"async_{name}")(batch, words, add_special)
                assert [[getattr(each, column) for column in names] for each in found] == [
                    [getattr(each, column) for column in names] for each in expected
                ]
        one = await tok.async_encode("we sail", "crew", add_special_tokens=add_special)
        assert one.ids == tok.encode("we sail", "crew", add_special_tokens=add_special).ids
        assert await tok.async_decode_batch([[2, 3], [6]]) == ["we sail", "crew"]
        for wrong, words in ((123, False), ("we sail", True)):
            with pytest.raises(TypeError):
                await tok.async_encode_batch(wrong, words)
            with pytest.raises(TypeError):
                tok.encode_batch(wrong, words)

    asyncio.run(compare())
