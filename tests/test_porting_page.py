"""docs/porting.md names every public name of the two libraries, and the calls that it gives have equal results."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bpe
import bpe.compat.huggingface
import bpe.compat.tiktoken

PAGE = Path(__file__).resolve().parents[1] / "docs" / "porting.md"
TEXTS = ["low lower lowest", "new newer newest", "naïve café 낮 😀", "  two  spaces "]


def sections() -> dict[str, list[tuple[str, str]]]:
    """The rows of the page's tables, (their name, the equivalent here), by the heading above them."""
    found: dict[str, list[tuple[str, str]]] = {}
    heading = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ").replace("`", "")
        cells = re.split(r"(?<!\\)\|", line.strip())[1:-1]
        if line.startswith("|") and len(cells) == 2 and not line.startswith("|---"):
            found.setdefault(heading, []).append((cells[0], cells[1]))
    return found


def names(rows: list[tuple[str, str]]) -> set[str]:
    """Every name in the code in the left column."""
    code = " ".join(" ".join(re.findall(r"`([^`]*)`", there)) for there, _ in rows)
    return set(re.findall(r"[A-Za-z_]\w*", code))


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def documented(package: str) -> Any:
    """The package, if its release is the one that the page describes; a newer one may have more names."""
    module = pytest.importorskip(package)
    found = re.search(rf"`{package}` (\d+\.\d+)", PAGE.read_text(encoding="utf-8"))
    assert found is not None
    if not version(package).startswith(f"{found[1]}."):
        pytest.skip(f"{package} {version(package)} is installed; docs/porting.md is about {found[1]}")
    return module


def test_the_page_has_every_public_name_of_tiktoken() -> None:
    tiktoken = documented("tiktoken")
    pytest.importorskip("tiktoken.load")
    rows = sections()
    encoding = tiktoken.Encoding("x", pat_str=r".", mergeable_ranks={b"a": 0}, special_tokens={})
    assert public(encoding) - names(rows["tiktoken.Encoding"]) == set()
    assert public(tiktoken) - names(rows["Getting an encoding"]) == set()
    functions = {name for name, each in vars(tiktoken.load).items() if inspect.isfunction(each)}
    assert functions - names(rows["Getting an encoding"]) == set()
    arguments = tiktoken.Encoding.__init__.__annotations__.keys() - {"return"}
    assert arguments - names(rows["Getting an encoding"]) == set()
    listed = set(re.findall(r"\w+", PAGE.read_text(encoding="utf-8")))
    assert set(tiktoken.list_encoding_names()) - listed == set()


def test_the_page_has_every_public_name_of_tokenizers() -> None:
    tokenizers = documented("tokenizers")
    rows = sections()
    assert public(tokenizers.Tokenizer) - names(rows["tokenizers.Tokenizer"]) == set()
    assert public(tokenizers.Encoding) - names(rows["tokenizers.Encoding"]) == set()
    rest = names(rows["Training, added tokens and the rest"])
    model = {"dropout", "unk_token", "continuing_subword_prefix", "fuse_unk", "byte_fallback", "ignore_merges"}
    assert model | {"from_file", "read_file"} <= rest
    assert model <= public(tokenizers.models.BPE)
    assert public(tokenizers.trainers.BpeTrainer) - rest == set()
    assert public(tokenizers.AddedToken) - {"content"} - rest == set()
    assert public(tokenizers.decoders.DecodeStream) - names(rows["tokenizers.Tokenizer"]) == set()
    parts = names(rows["The parts of a tokenizer"])
    bases = {"NORMALIZERS", "Normalizer", "PreTokenizer", "PostProcessor", "Decoder", "Model", "Trainer"}
    for module in ("normalizers", "pre_tokenizers", "processors", "decoders", "models", "trainers"):
        classes = {name for name in public(getattr(tokenizers, module)) if name[0].isupper()}
        assert classes - parts - bases == set(), module


def test_every_name_in_the_right_column_exists() -> None:
    batch = bpe.TokenBatch.from_lists([[1]])
    things = {"tok": bpe.train(texts=["a"], num_merges=0), "bpe": bpe, "batch": batch, "np": np}
    things["decoder"] = things["tok"].decoder()
    for here in [here for rows in sections().values() for _, here in rows]:
        for code in re.findall(r"`([^`]*)`", here):
            for owner, dotted in re.findall(r"\b(tok|bpe|batch|np|decoder)((?:\.[A-Za-z_]\w*)+)", code):
                thing: object = things[owner]
                for name in dotted[1:].split("."):
                    assert hasattr(thing, name), f"{owner}{dotted}"
                    thing = getattr(thing, name)


def test_no_row_is_empty_on_the_right() -> None:
    for rows in sections().values():
        for there, here in rows:
            assert here.strip(), there


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A tokenizer of this package, and the same one loaded by `tokenizers`."""
    tokenizers = pytest.importorskip("tokenizers")
    tok = bpe.train(texts=TEXTS * 3, vocab_size=290, special_tokens=["<|endoftext|>", "<pad>"])
    path = tmp_path_factory.mktemp("porting") / "tokenizer.json"
    tok.save(path)
    return tok, tokenizers.Tokenizer.from_file(str(path))


@pytest.mark.parametrize("text", [*TEXTS, "low<|endoftext|>new", ""])
def test_single_texts_give_the_results_of_tokenizers(both, text):
    tok, hf = both
    e = hf.encode(text, add_special_tokens=False)
    ids, spans = tok.encode_with_offsets(text, allowed_special="all")
    assert ids.tolist() == e.ids == tok.encode(text, allowed_special="all").tolist()
    assert [tuple(span) for span in spans.tolist()] == e.offsets
    for i in range(len(text)):
        token = int(np.searchsorted(spans[:, 1], i, side="right"))
        assert e.char_to_token(i) == token
        assert e.token_to_chars(token) == tuple(spans[token])
    assert tok.decode(ids) == hf.decode(e.ids, skip_special_tokens=False)
    special = list(tok.special_tokens.values())
    assert tok.decode(ids[~np.isin(ids, special)]) == hf.decode(e.ids)
    assert [tok.token_id(token) for token in tok.tokens(text, allowed_special="all")] == e.ids
    hf.encode_special_tokens = True
    assert tok.encode(text).tolist() == hf.encode(text).ids
    hf.encode_special_tokens = False
    e.truncate(2)
    assert e.ids == ids[:2].tolist()


@pytest.mark.parametrize("text", ["a low  lower ", "new\n low", "naïve  café"])
def test_trimmed_offsets(both, text):
    tok, hf = both
    page: dict[str, Any] = {}
    code = re.search(r">>> (def trimmed.*?)>>>", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    exec(re.sub(r"^\.\.\. ", "", code[1], flags=re.MULTILINE), page)
    processors = pytest.importorskip("tokenizers.processors")
    hf.post_processor = processors.RobertaProcessing(("<pad>", 1), ("<pad>", 1), trim_offsets=True)
    theirs = hf.encode(text, add_special_tokens=False)
    hf.post_processor = processors.ByteLevel(trim_offsets=False)
    assert [page["trimmed"](text, *span) for span in tok.encode_with_offsets(text)[1].tolist()] == theirs.offsets


def test_offsets_of_composed_characters(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    tok = bpe.train(texts=TEXTS * 3, vocab_size=290, normalizer="nfc")
    tok.save(tmp_path / "tokenizer.json")
    hf = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = "cafe\u0301 low"
    assert hf.encode(text).ids == tok.encode(text).tolist()
    assert not any(start <= text.index("\u0301") < end for start, end in hf.encode(text).offsets)
    assert "".join(text[start:end] for start, end in tok.encode_with_offsets(text)[1]) == text


def test_batches_give_the_results_of_tokenizers(both):
    tok, hf = both
    for side in ("right", "left"):
        hf.enable_padding(direction=side, pad_id=1, pad_token="<pad>")
        theirs = hf.encode_batch(TEXTS)
        rows, lengths = tok.encode_batch(TEXTS, allowed_special="all").padded(pad_id=1, side=side)
        assert rows.tolist() == [e.ids for e in theirs]
        if side == "right":
            mask = np.arange(rows.shape[1]) < lengths[:, None]
            assert mask.astype(int).tolist() == [e.attention_mask for e in theirs]
    hf.no_padding()
    hf.enable_truncation(3)
    assert tok.encode(TEXTS[0])[:3].tolist() == hf.encode(TEXTS[0]).ids
    hf.no_truncation()
    words = ["low", " lower", "new"]
    assert tok.encode_batch(words).ids.tolist() == hf.encode(words, is_pretokenized=True).ids
    assert tok.vocab_size == hf.get_vocab_size()
    assert {i: name for name, i in tok.special_tokens.items()} == {
        i: token.content for i, token in hf.get_added_tokens_decoder().items()
    }


def test_the_quick_tour_of_tokenizers_trains_the_same_vocabulary(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    special = ["[UNK]", "[CLS]", "[SEP]"]
    hf = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[UNK]"))
    hf.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    hf.train_from_iterator(
        TEXTS * 3, tokenizers.trainers.BpeTrainer(vocab_size=45, special_tokens=special, show_progress=False)
    )
    tok = bpe.train(
        texts=TEXTS * 3,
        vocab_size=45,
        model="char",
        pretokenizer=bpe.Pretokenizer.from_regex(r"\w+|[^\w\s]+"),
        special_tokens=special,
        unk_token="[UNK]",
    )
    assert tok.vocab() == dict(sorted(hf.get_vocab().items(), key=lambda item: item[1]))
    tok.save(tmp_path / "tokenizer.json")
    again = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in [*TEXTS, "lowest? 낯 [CLS]"]:
        ids = tok.encode(text, allowed_special="all").tolist()
        assert ids == hf.encode(text).ids == again.encode(text).ids


@pytest.mark.parametrize("text", [*TEXTS, "low<|endoftext|>new", ""])
def test_texts_give_the_results_of_tiktoken(text):
    tiktoken = pytest.importorskip("tiktoken")
    tok = bpe.train(texts=TEXTS * 3, vocab_size=290)
    ranks = {tok.token_bytes(i): i for i in range(290)}
    tok = tok.with_tokens(special=["<|endoftext|>"])
    pattern = bpe.Pretokenizer("gpt2").pattern
    enc = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens=tok.special_tokens)
    ids = tok.encode(text)
    assert ids.tolist() == enc.encode_ordinary(text)
    allowed = tok.encode(text, allowed_special="all")
    assert allowed.tolist() == enc.encode(text, allowed_special="all")
    assert np.array_equal(allowed, enc.encode_to_numpy(text, allowed_special="all"))
    assert tok.tokens(text) == enc.decode_tokens_bytes(ids.tolist()) == [tok.token_bytes(i) for i in ids]
    ends = np.cumsum(tok.token_byte_lengths[ids])
    assert ends.tolist() == np.cumsum([len(token) for token in enc.decode_tokens_bytes(ids.tolist())]).tolist()
    assert (tok.n_vocab, tok.n_vocab - 1) == (enc.n_vocab, enc.max_token_value)
    assert tok.token_id("<|endoftext|>") == enc.eot_token
    assert set(tok.special_tokens) == enc.special_tokens_set
    assert sorted(list(tok.vocab())[:-1]) == enc.token_byte_values()
    assert [i in tok.special_tokens.values() for i in range(291)] == [enc.is_special_token(i) for i in range(291)]
    if "<|" in text:
        with pytest.raises(ValueError, match="disallowed special token"):
            tok.encode(text, disallowed_special="all")
        with pytest.raises(ValueError, match="disallowed special token"):
            enc.encode(text)


def test_parts_of_tokenizers_that_the_page_has_are_read(tmp_path: Path) -> None:
    """Those that it says are "not yet" here are refused, and all others load and give the same ids."""
    tokenizers = documented("tokenizers")
    arguments = {
        "CharDelimiterSplit": ("-",), "FixedLength": (3,), "Prepend": ("_",), "Replace": ("a", "b"),
        "Strip": (" ", 0, 0), "Split": ("a", "isolated"),
    }  # fmt: skip
    rows = sections()["The parts of a tokenizer"]
    missing = names([row for row in rows if row[1].strip() == "not yet"])
    for kind, module in (("normalizer", "normalizers"), ("pre_tokenizer", "pre_tokenizers"), ("decoder", "decoders")):
        parts = vars(getattr(tokenizers, module))
        for name in sorted(names(rows) & {name for name in parts if name[0].isupper()}):
            if name in ("DecodeStream", "Precompiled", "Normalizer", "PreTokenizer", "Decoder"):
                continue
            given = arguments.get(name, ()) if kind != "normalizer" or name != "Strip" else ()
            vocab = {letter: i for i, letter in enumerate("abcAB ,1_-")}
            plain = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, []))
            setattr(plain, kind, parts[name]([]) if name == "Sequence" else parts[name](*given))
            plain.save(str(tmp_path / "tokenizer.json"))
            if name in missing:
                with pytest.raises(bpe.FormatError, match=name):
                    bpe.Tokenizer.load(tmp_path / "tokenizer.json")
            elif name != "ByteLevel":  # the letters of bytes are not in this vocabulary
                tok = bpe.Tokenizer.load(tmp_path / "tokenizer.json")
                assert tok.encode("ab cA-B,1").tolist() == plain.encode("ab cA-B,1").ids, name
