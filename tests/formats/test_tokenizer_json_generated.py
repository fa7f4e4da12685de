"""Generated files of tokenizer.json, and added tokens that text can become, beside `tokenizers`.

`benchmarks/checks/check_tokenizer_json.py` compares any number of generated files.
"""

from __future__ import annotations

import json
import random
from typing import Any

import generated
import pytest
from checks import load_check
from generated import BYTE_LETTERS as LETTERS
from generated import LEVEL, make_token
from peers import Peer

import bpe
from bpe.compat.huggingface import Tokenizer
from bpe.errors import FormatError
from bpe.formats.huggingface import explain_refusal, read, write

tokenizers = Peer("tokenizers")


def build_file(vocab: dict[str, int], merges: list[list[str]], added: list[dict[str, Any]], **fields: Any) -> str:
    return json.dumps(generated.make_file(vocab, merges, added, **fields))


def compare(data: str, texts: list[str]) -> bpe.Tokenizer:
    """Compare ids, texts and the file that is written again."""
    peer, compat_tok = tokenizers.Tokenizer.from_str(data), Tokenizer.from_str(data)
    tok = bpe.Tokenizer(read(data.encode()))
    reloaded = tokenizers.Tokenizer.from_str(write(tok.spec).decode()) if explain_refusal(tok.spec) is None else peer
    assert bpe.Tokenizer(read(write(tok.spec))) == tok
    for text in texts:
        assert reloaded.encode(text).ids == peer.encode(text).ids, text
    results = load_check("check_tokenizer_json").results(random.Random(0), peer, tok, compat_tok, texts)
    for kind, actual, expected in results:
        assert actual == expected, kind
    return tok


@pytest.mark.parametrize("seed", range(60))
def test_generated_files_give_the_results_of_tokenizers(seed: int) -> None:
    rng = random.Random(seed)
    file = generated.draw_tokenizer(rng)
    file["decoder"] = None
    data = json.dumps(file)
    peer = tokenizers.Tokenizer.from_str(data)
    try:
        tok = bpe.Tokenizer(read(data.encode()))
    except FormatError:
        return
    if generated.is_undecided(file, peer):
        return
    names = [token["content"] for token in file["added_tokens"]]
    for text in (generated.draw_text(rng, names) for _ in range(4)):
        try:
            ids = tok.encode(text, allowed_special="all").tolist()
        except ValueError:  # a byte without a token
            continue
        assert ids == peer.encode(text, add_special_tokens=False).ids, (text, data)
    assert bpe.Tokenizer(read(write(tok.spec))) == tok


def test_a_token_of_a_merge_may_be_added() -> None:
    vocab = {**LETTERS, "!!": 256, "Ġa": 257, "Ġab": 258, "12": 259}
    merges = [["!", "!"], ["Ġ", "a"], ["Ġa", "b"], ["1", "2"]]
    plain = bpe.Tokenizer(read(build_file(vocab, merges, []).encode()))
    texts = ["a!! b", "!!!", "x a Ġa ab Ġab 12", " !é12 1 2", "", "Ġ Ċ\n"]
    for names in (["!!"], ["Ġa"], ["!", "1", "2"], ["Ġab", "Ġ"], ["!!", "Ġa", "Ġab", "12", "Ċ"]):
        for special in (True, False):
            tok = compare(
                build_file(vocab, merges, [make_token(name, id=vocab[name], special=special) for name in names]), texts
            )
            assert tok.special_tokens == {name: vocab[name] for name in names}
            assert tok.encode("!! a", dropout=0.0).tolist() == tok.encode("!! a").tolist()
            assert tok.count_tokens("a!! b") == len(tok.encode("a!! b"))
            reduced, _ = tok.without_tokens(names, renumber=False)
            assert reduced.special_tokens == {}
            assert reduced.encode("!! a").tolist() == plain.encode("!! a").tolist()


def test_formats_that_cannot_hold_such_a_token_refuse_it(tmp_path: Any) -> None:
    vocab = {**LETTERS, "!!": 256}
    tok = bpe.Tokenizer(read(build_file(vocab, [["!", "!"]], [make_token("!!", id=256)]).encode()))
    for name in ("tiktoken", "tiktoken-folder", "tekken"):
        with pytest.raises(ValueError, match=name):
            tok.save(tmp_path / f"{name}.out", format=name)
    tok.save(tmp_path / "pair", format="vocab-merges")
    assert bpe.Tokenizer.load(tmp_path / "pair") == tok
    tok.save(tmp_path / "tokenizer.json")
    assert bpe.Tokenizer.load(tmp_path / "tokenizer.json") == tok


def test_words_that_are_added_tokens_with_ignore_merges() -> None:
    vocab = {**LETTERS, "<x>": 256, "ab": 257, "Ġab": 258}
    added = [
        make_token("<x>", id=256, single_word=True),
        make_token("ab", id=257, normalized=True),
        make_token("Ġab", id=258),
    ]
    fields = {"pre_tokenizer": {**LEVEL, "use_regex": False}, "normalizer": {"type": "Lowercase"}}
    compare(
        build_file(vocab, [], added, model={"ignore_merges": True}, **fields), ["<x>", "a<x>", "AB", " ab", "<X>", "ab"]
    )


def test_the_decoder_byte_level_keeps_the_mark_as_for_clip() -> None:
    vocab = {**LETTERS, **{letter + "</w>": 256 + token_id for letter, token_id in LETTERS.items()}, "bc</w>": 512}
    level = {**LEVEL, "use_regex": True}
    mark = {"type": "BPEDecoder", "suffix": "</w>"}
    replace = {"type": "Replace", "pattern": {"String": "</w>"}, "content": " "}
    fuse = {"type": "Fuse"}
    pairs = [[level, mark], [level, replace], [level, fuse], [mark, level], [replace, level], [fuse, level]]
    decoders = [level, mark, *pairs]
    for steps in decoders:
        decoder = {"type": "Sequence", "decoders": steps} if isinstance(steps, list) else steps
        added = [make_token(name, id=token_id) for name, token_id in (("é", 165), ("Ġé", 513), ("<s>", 514))]
        data = build_file(vocab, [["b", "c</w>"]], added, decoder=decoder, model={"end_of_word_suffix": "</w>"})
        compare(data, ["a bc", "é b é<s>a", "bc</w> 中", ""])


def test_this_packages_decoder_of_marks_is_kept(tmp_path: Any) -> None:
    tok = bpe.train(texts=["low lower"] * 3, vocab_size=520, end_of_word="</w>", special_tokens=["éé"])
    ids = tok.encode("low lower éé", allowed_special="all")
    tok.save(tmp_path / "tokenizer.json")
    reloaded = bpe.Tokenizer.load(tmp_path / "tokenizer.json")
    assert reloaded == tok
    assert reloaded.decode(ids) == tok.decode(ids)


def test_a_name_that_normalization_makes_of_other_text_is_found() -> None:
    compare(
        build_file(LETTERS, [], [make_token("é", id=165, normalized=True)], normalizer={"type": "NFC"}),
        ["e\u0301", "é", "e"],
    )
