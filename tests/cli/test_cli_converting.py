"""The commands `bpe convert` and `bpe diff`."""

from __future__ import annotations

import re

import pytest
from conftest import fails

import bpe
from bpe.cli import main
from bpe.converting import TextDifference


def test_convert_there_and_back(tokenizer_file, tmp_path, capsys):
    folder, back = str(tmp_path / "vocabulary"), str(tmp_path / "back.json")
    assert main(["convert", tokenizer_file, folder, "--to", "vocab-merges"]) == 0
    assert main(["convert", folder, back]) == 0
    assert main(["convert", f"{folder}/merges.txt", back, "--from", "vocab-merges", "--to", "huggingface"]) == 0
    assert bpe.Tokenizer.load(back) == bpe.Tokenizer.load(tokenizer_file)
    assert main(["diff", tokenizer_file, folder]) == 0
    assert capsys.readouterr().out == ""


def test_convert_takes_out_as_an_option_too(tokenizer_file, tmp_path, capsys):
    """Wherever it stands, as the other commands do."""
    outs = [str(tmp_path / f"{index}.json") for index in range(4)]
    assert main(["convert", tokenizer_file, "-o", outs[0]]) == 0
    assert main(["convert", "--output", outs[1], tokenizer_file]) == 0
    assert main(["convert", tokenizer_file, "--to", "huggingface", outs[2]]) == 0
    for out in outs[:3]:
        assert bpe.Tokenizer.load(out) == bpe.Tokenizer.load(tokenizer_file)
    capsys.readouterr()
    message = f"error: OUT is {re.escape(outs[0])}, and --output is {re.escape(outs[3])}; give one of them"
    fails(capsys, ["convert", tokenizer_file, outs[0], "-o", outs[3]], 2, message)
    fails(capsys, ["convert", "-o", outs[3]], 2, "the following arguments are required: IN")
    fails(capsys, ["convert", tokenizer_file], 2, "the following arguments are required: OUT")


def test_names_of_other_formats_are_refused_before_any_work(tokenizer_file, tmp_path, capsys):
    out = str(tmp_path / "x.gguf")
    message = "error: --output is .*x.gguf', the name of a GGUF file, but the format to write is"
    fails(capsys, ["convert", tokenizer_file, out, "--to", "tekken"], 1, message)
    assert main(["convert", tokenizer_file, out.replace("gguf", "model"), "--to", "tiktoken", "--lossy"]) == 0
    capsys.readouterr()
    (tmp_path / "corpus.txt").write_bytes(b"\xff")  # it would be refused, if it were read first
    message = "error: OUT is .*x.gguf, a GGUF file with a tokenizer, which does not keep every tokenizer; train to a"
    fails(capsys, ["train", str(tmp_path / "corpus.txt"), "-o", out, "--vocab-size", "300"], 1, message)


def test_convert_writes_gguf_and_sentencepiece(tokenizer_file, tmp_path, capsys):
    gguf, model = str(tmp_path / "x.gguf"), str(tmp_path / "x.model")
    assert main(["convert", tokenizer_file, gguf]) == 0
    assert bpe.Tokenizer.load(gguf) == bpe.Tokenizer.load(tokenizer_file)
    capsys.readouterr()
    message = "error: format sentencepiece cannot hold this tokenizer: its symbols are bytes, and sentencepiece"
    fails(capsys, ["convert", tokenizer_file, model], 1, message)


def test_convert_lists_losses(tokenizer_file, tmp_path, capsys):
    ranks = str(tmp_path / "x.tiktoken")
    message = "error: format tiktoken does not keep special_tokens: .*; pretokenizer: .*; give --to huggingface"
    err = fails(capsys, ["convert", tokenizer_file, ranks], 1, message)
    assert "pass --lossy" in err
    assert not (tmp_path / "x.tiktoken").exists()
    assert main(["convert", tokenizer_file, ranks, "--lossy"]) == 0
    err = capsys.readouterr().err
    assert "x.tiktoken does not keep special_tokens: 1 token only in the tokenizer (" in err
    assert "x.tiktoken, format tiktoken" in err
    fails(capsys, ["convert", tokenizer_file, str(tmp_path / "none" / "t.json")], 1, "folder .*none does not exist")
    fails(capsys, ["convert", tokenizer_file, tokenizer_file], 1, "is one of the inputs")
    fails(capsys, ["convert", str(tmp_path / "none"), ranks], 1, "No such file")


def test_diff_agrees_with_convert_about_what_changes_no_id(tmp_path, capsys):
    """After a conversion without a loss of ids, there is no difference that counts."""
    pair, ranks = str(tmp_path / "pair"), str(tmp_path / "x.tiktoken")
    bpe.train(texts=["low lower newest widest"], vocab_size=262, pretokenizer="gpt2").save(pair, format="vocab-merges")
    assert main(["convert", pair, ranks, "--lossy"]) == 0
    bpe.Tokenizer.from_tiktoken(ranks, "gpt2").save(tmp_path / "ranks.json")
    capsys.readouterr()
    assert main(["diff", pair, str(tmp_path / "ranks.json")]) == 0
    out = capsys.readouterr().out
    assert re.fullmatch(r"settings: ignore_merges: False in .*pair, True in .*ranks\.json; this changes no id\n", out)


def test_rank_files_with_a_pattern(tokenizer_file, text_file, tmp_path, capsys):
    """A rank file that is not OpenAI's own becomes a tokenizer.json, and is compared, with the pattern given."""
    ranks, converted, pattern = (str(tmp_path / name) for name in ("x.tiktoken", "made.json", "pattern.json"))
    assert main(["convert", tokenizer_file, ranks, "--lossy"]) == 0
    capsys.readouterr()
    fails(capsys, ["convert", ranks, converted], 1, "its pattern is unknown.* --pretokenizer NAME")
    assert main(["convert", ranks, converted, "--pretokenizer", "gpt2"]) == 0
    expected = bpe.Tokenizer.from_tiktoken(ranks, "gpt2")
    assert bpe.Tokenizer.load(converted) == expected
    assert bpe.convert(ranks, pattern, pretokenizer=expected.pretokenizer) == []
    assert bpe.Tokenizer.load(pattern) == expected
    assert main(["convert", ranks, pattern, "--pattern", r"\w+|\W+"]) == 0
    assert bpe.Tokenizer.load(pattern).pretokenizer.pattern == r"\w+|\W+"
    capsys.readouterr()

    assert main(["diff", ranks, converted, text_file, "--pretokenizer", "gpt2"]) == 0
    assert main(["diff", converted, ranks, "--pattern", r"\w+|\W+"]) == 1
    assert "pretokenizer" in capsys.readouterr().out
    fails(capsys, ["diff", ranks, converted], 2, "its pattern is unknown")
    fails(capsys, ["diff", converted, converted, "--pretokenizer", "gpt2"], 2, "neither A nor B is one")
    fails(capsys, ["diff", ranks, converted, "--pretokenizer", "nosuch"], 2, "must be one of 'gpt2'")
    fails(capsys, ["convert", converted, converted, "--pretokenizer", "gpt2"], 1, "is one of the inputs")
    fails(capsys, ["convert", converted, pattern, "--pretokenizer", "gpt2"], 1, "is not a rank file, .* --pretokenizer")


@pytest.mark.parametrize("name", ["out.xyz", "out", "OUT.JSONL"])
def test_names_that_stand_for_no_format_are_refused(name, tokenizer_file, tmp_path, capsys):
    out = str(tmp_path / name)
    message = rf"{name}', a name that stands for no format; name a file \*.json, .* or pass --to.* huggingface, vocab-"
    fails(capsys, ["convert", tokenizer_file, out], 1, message)
    with pytest.raises(ValueError, match="stands for no format"):
        bpe.convert(tokenizer_file, out)
    assert main(["convert", tokenizer_file, out, "--to", "huggingface"]) == 0
    assert bpe.Tokenizer.load(out) == bpe.Tokenizer.load(tokenizer_file)


def test_diff(tokenizer_file, text_file, tmp_path, capsys):
    other = str(tmp_path / "other.json")
    bpe.train(texts=["low lower newest widest"], vocab_size=262, pretokenizer="cl100k").save(other)
    assert main(["diff", tokenizer_file, tokenizer_file, text_file]) == 0
    assert capsys.readouterr().out == ""
    assert main(["diff", tokenizer_file, other, text_file]) == 1
    out = capsys.readouterr().out
    assert "vocabulary: vocabulary:" not in out
    kinds = [line.split(":")[0] for line in out.splitlines()]
    assert kinds == ["vocabulary", "merges", "settings", "settings", "ids"]
    assert re.search(rf"vocabulary: \d+ tokens only in {re.escape(tokenizer_file)} \(", out)
    assert re.search(rf"ids: text {re.escape(text_file)}: \d+ tokens and \d+, the first difference at token 0: ", out)
    assert main(["diff", tokenizer_file, other, text_file, "--per-line"]) == 1
    assert re.search(r"document 0: .*; 4 documents of 4 differ\n$", capsys.readouterr().out)


def test_diff_names_the_tokenizer_that_cannot_encode(tokenizer_file, text_file, tmp_path, capsys):
    other = str(tmp_path / "other.json")
    bpe.train(texts=["x"], num_merges=0, model="char").save(other)
    message = f"with {other}: {text_file}: character .* is not in the vocabulary"
    fails(capsys, ["diff", tokenizer_file, other, text_file], 2, message)


def test_a_difference_of_the_same_tokens_with_other_ids():
    difference = TextDifference("a.txt", (1, 1), 0, ([b"low"], [b"low"]))
    assert (
        str(difference)
        == "text a.txt: 1 token and 1, the first difference at token 0: b'low', the same tokens with other ids"
    )


@pytest.mark.parametrize("argv", [["none.json"], ["damaged"]])
def test_diff_without_tokenizers(argv, tokenizer_file, tmp_path, capsys):
    (tmp_path / "damaged").write_text("{")
    assert main(["diff", tokenizer_file, str(tmp_path / argv[0])]) == 2
    assert argv[0] in capsys.readouterr().err
