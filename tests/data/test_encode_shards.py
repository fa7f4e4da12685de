"""`encode_shards`: the same bytes for any number of threads, boundaries of shards, ids around documents, refusals."""

from __future__ import annotations

import logging
import os
from dataclasses import replace

import numpy as np
import pytest
from shard_corpus import (
    END,
    WORDS,
    make_texts,
    open_sources,
    read_files,
    read_rows,
    small_groups,
    tokenizer,
    write_corpus,
)

import bpe
from bpe.data import TokenShards, encode_shards, encoding, grouping, verify
from bpe.data.encoding import MANIFEST_NAME
from bpe.data.formats import SHARD_FORMATS
from bpe.data.plan import find_end_of_text, find_largest_id
from bpe.vocab.special_names import EOS_NAMES

__all__ = ["small_groups", "tokenizer"]  # fixtures

#: Options that are refused.
OTHER_OPTIONS = [
    ({"shard_size": 5}, "shard_size was 268435456 and is 5"),
    ({"append": END}, "append was None and is "),
    ({"seed": 1}, "seed (--shuffle) was None and is 1"),
    ({"validation": 0.5}, "validation was 0.0 and is 0.5"),
    ({"format": "megatron"}, "format was 'native' and is 'megatron'"),
    ({"rank": 0, "world": 2}, "part (rank=, world=, --part) was None"),
]


# The result -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"seed": 3}, {"validation": 0.3}, {"seed": 3, "validation": 0.3}])
@pytest.mark.usefixtures("small_groups")
def test_the_output_does_not_depend_on_threads_or_groups(tmp_path, tokenizer, monkeypatch, options):
    paths = write_corpus(tmp_path / "corpus", make_texts(1, 300))
    contents = []
    for threads, max_group_bytes in ((1, 3000), (2, 500), (3, 10**6)):
        monkeypatch.setattr(grouping, "MAX_WRITTEN_BYTES", max_group_bytes)
        monkeypatch.setattr(grouping, "MAX_GROUP_BYTES", max_group_bytes)
        out = tmp_path / f"out{threads}"
        encode_shards(open_sources(paths), tokenizer, out, shard_size=2000, threads=threads, **options)
        contents.append(read_files(out))
    assert contents[0] == contents[1] == contents[2]
    assert len(contents[0]) > 6


@pytest.mark.parametrize("format_name", ["native", "parquet"])
def test_the_output_does_not_depend_on_the_threads_that_write(tmp_path, tokenizer, monkeypatch, format_name):
    if format_name == "parquet":
        pytest.importorskip("pyarrow")
    monkeypatch.setattr(encoding, "MIN_SHARED_BYTES", 0)
    paths = write_corpus(tmp_path / "corpus", make_texts(1, 3000))
    contents = []
    for threads in (1, 2, 6):
        out = tmp_path / f"out{threads}"
        encode_shards(open_sources(paths), tokenizer, out, shard_size=200_000, threads=threads, format=format_name)
        contents.append(read_files(out))
    assert contents[0] == contents[1] == contents[2]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.usefixtures("small_groups")
def test_encoding_goes_on_at_every_document(tmp_path, tokenizer, threads):
    """Files that the kernel reads: each document of a group has a resume point, which is seldom far before it."""
    paths = write_corpus(tmp_path / "corpus", make_texts(7, 100))
    rows = [tokenizer.encode(text).tolist() for text in make_texts(7, 100)]

    def encode(start: grouping.ResumePoint) -> list[grouping.Group]:
        sources = open_sources(paths).with_ending_separators()
        groups = grouping.GroupEncoder(sources, tokenizer._engine, (None, None), frozenset(), start)
        return list(groups.encode(threads))

    row, most_skipped = 0, 0
    for group in encode(grouping.ResumePoint()):
        for index in range(len(group.lengths)):
            point = group.find_resume_point(index)
            most_skipped = max(most_skipped, point.documents_after_position)
            rest = encode(point)
            ids = np.concatenate([part.ids for part in rest]).tolist()
            assert ids == [token for later in rows[row + index :] for token in later]
            assert rest[0].find_file_and_index(0) == group.find_file_and_index(index)
        row += group.n_complete
    assert row == len(rows)
    assert most_skipped < 30


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("size", [1, 100, 1000, 10**9])
def test_documents_and_where_shards_end(tmp_path, tokenizer, size):
    texts = make_texts(2, 100)
    manifest = encode_shards(
        open_sources(write_corpus(tmp_path / "corpus", texts)), tokenizer, tmp_path / "out", shard_size=size
    )
    rows = [tokenizer.encode(text).tolist() for text in texts]
    assert read_rows(tmp_path / "out") == rows
    assert manifest.documents == len(rows)
    assert manifest.tokens == sum(map(len, rows))
    first = 0
    for shard in manifest.shards:
        shard_rows = rows[first : first + shard.documents]
        first += shard.documents
        assert sum(map(len, shard_rows)) == shard.tokens
        if first < len(rows):
            assert sum(map(len, shard_rows[:-1])) < size <= shard.tokens
    assert [shard.stem for shard in manifest.shards] == sorted(shard.stem for shard in manifest.shards)


@pytest.mark.usefixtures("small_groups")
def test_a_document_longer_than_groups_and_shards(tmp_path, tokenizer):
    texts = ["a", WORDS * 300, "", WORDS * 200, "b"]
    out = tmp_path / "out"
    encode_shards(open_sources(write_corpus(tmp_path / "corpus", texts, 1)), tokenizer, out, shard_size=100, append=END)
    end = tokenizer.special_tokens[END]
    assert read_rows(out) == [[*tokenizer.encode(text).tolist(), end] for text in texts]


@pytest.mark.parametrize("name", sorted(SHARD_FORMATS))
def test_every_format(tmp_path, tokenizer, name):
    texts = make_texts(3, 60)
    manifest = encode_shards(
        open_sources(write_corpus(tmp_path / "c", texts)), tokenizer, tmp_path / "out", format=name
    )
    end = tokenizer.special_tokens[END]
    before, after = ([end] if has_one else [] for has_one in SHARD_FORMATS[name].end_of_text_sides)
    rows = [[*before, *tokenizer.encode(text).tolist(), *after] for text in texts]
    ids: list[int] = []
    for shard in manifest.shards:
        for batch in SHARD_FORMATS[name].open(tmp_path / "out" / shard.files[0].name).batches():
            ids += np.asarray(batch.ids).tolist()
    assert ids == [token_id for row in rows for token_id in row]
    assert manifest.documents == len(rows)
    if name == "nanogpt":
        assert [shard.stem for shard in manifest.shards] == ["train"]


@pytest.mark.parametrize(("given", "before", "after"), [
    ({"append": END}, False, True), ({"prepend": END}, True, False), ({"append": END, "prepend": END}, True, True),
    ({"append": None}, False, False), ({}, False, True),
])  # fmt: skip
def test_ids_around_documents_replace_the_default_of_the_format(tmp_path, tokenizer, given, before, after):
    path = write_corpus(tmp_path / "c", ["low", "", "new"])
    encode_shards(open_sources(path), tokenizer, tmp_path / "out", format="datatrove", **given)
    end = [tokenizer.special_tokens[END]]
    expected = [end * before + tokenizer.encode(text).tolist() + end * after for text in ("low", "", "new")]
    assert read_rows(tmp_path / "out") == expected


def test_no_documents(tmp_path, tokenizer, caplog):
    (tmp_path / "empty.txt").write_text("")
    manifest = encode_shards(bpe.Sources(tmp_path / "empty.txt", separator=END), tokenizer, tmp_path / "out")
    assert (manifest.documents, manifest.tokens, manifest.shards) == (0, 0, ())
    assert "no documents" in caplog.text


def test_documents_of_files_without_separator(tmp_path, tokenizer):
    paths = [tmp_path / name for name in ("a.txt", "b.txt", "c.txt")]
    for path, text in zip(paths, ("low", "", "newest"), strict=True):
        path.write_text(text)
    encode_shards(paths, tokenizer, tmp_path / "out")
    assert read_rows(tmp_path / "out") == [tokenizer.encode(text).tolist() for text in ("low", "", "newest")]


def test_special_tokens_are_found_only_if_allowed(tmp_path, tokenizer):
    (tmp_path / "a.txt").write_text(f"low{END}er")
    for index, allowed, recorded in ((0, (), False), (1, "all", True), (2, {END}, [END])):
        out = tmp_path / str(index)
        manifest = encode_shards(tmp_path / "a.txt", tokenizer, out, allowed_special=allowed)
        expected = tokenizer.encode(f"low{END}er", allowed_special=allowed)
        assert read_rows(out) == [expected.tolist()]
        assert manifest.options["allow_special"] == recorded
        assert verify(out) == []
    for invalid, error in (({"<none>"}, ValueError), (END, TypeError), (True, TypeError)):
        with pytest.raises(error, match="allowed_special"):
            encode_shards(tmp_path / "a.txt", tokenizer, tmp_path / "wrong", allowed_special=invalid)


def test_default_none_and_given_ends(tmp_path, tokenizer):
    """None is nothing; the format decides if neither argument is given."""
    (tmp_path / "a.txt").write_text("low")
    ids, end = tokenizer.encode("low").tolist(), tokenizer.token_id(END)
    for index, (options, expected) in enumerate(
        [
            ({}, [end, *ids]),
            ({"append": None}, ids),
            ({"prepend": None}, ids),
            ({"append": END}, [*ids, end]),
            ({"append": 65, "prepend": END}, [end, *ids, 65]),
        ]
    ):
        out = tmp_path / str(index)
        manifest = encode_shards(tmp_path / "a.txt", tokenizer, out, format="llmc", **options)
        assert TokenShards(out).tokens(0, manifest.tokens).tolist() == expected
    with pytest.raises(ValueError, match="append is '', which is no special token"):
        encode_shards(tmp_path / "a.txt", tokenizer, tmp_path / "wrong", append="")
    with pytest.raises(ValueError, match="rank is given without world"):
        encode_shards(tmp_path / "a.txt", tokenizer, tmp_path / "wrong", rank=0)


@pytest.mark.parametrize("name", ["default", "None"])
def test_a_special_token_of_any_name_is_appended(tmp_path, name):
    tokenizer = bpe.train(texts=["low"], vocab_size=258, special_tokens=[name, END])
    (tmp_path / "a.txt").write_text("low")
    manifest = encode_shards(tmp_path / "a.txt", tokenizer, tmp_path / "out", format="nanogpt", append=name)
    expected = [*tokenizer.encode("low").tolist(), tokenizer.token_id(name)]
    assert TokenShards(tmp_path / "out").tokens(0, manifest.tokens).tolist() == expected
    assert (manifest.options["prepend"], manifest.options["append"]) == (None, tokenizer.token_id(name))


# Ids ------------------------------------------------------------------------------------------------------------------


def test_a_name_of_a_special_token_in_the_text_is_warned_about(tmp_path, tokenizer, caplog):
    paths = write_corpus(tmp_path / "c", ["low lower", "new", "wide", "low"], files=2)
    encode_shards(paths, tokenizer, tmp_path / "plain", append=END)
    (warning,) = caplog.messages
    assert warning.startswith(f"{paths[0]}: '{END}' occurs at least 2 times as ordinary text")
    assert "--separator" in warning
    assert "--allow-special" in warning
    caplog.clear()
    encode_shards(open_sources(paths), tokenizer, tmp_path / "separated", append=END)
    encode_shards(paths, tokenizer, tmp_path / "allowed", append=END, allowed_special="all")
    assert caplog.messages == []


def test_the_dtype_comes_from_the_largest_usable_id(tmp_path):
    vocabulary = bpe.train(texts=["low"], vocab_size=256, special_tokens=[])
    with_special = vocabulary.with_tokens(special=["<s>"])
    assert find_largest_id(vocabulary, (None, None), frozenset()) == 255
    assert find_largest_id(with_special, (None, None), frozenset()) == 255
    assert find_largest_id(with_special, (None, with_special.special_tokens["<s>"]), frozenset()) == 256
    assert find_largest_id(with_special, (None, None), frozenset({"<s>"})) == 256
    large = bpe.train(texts=["low"], vocab_size=256, alphabet=bpe.Alphabet(first_id=1 << 16))
    (tmp_path / "a.txt").write_text("low")
    assert encode_shards(tmp_path / "a.txt", large, tmp_path / "out").dtype == "uint32"
    with pytest.raises(ValueError, match="largest id is 65791; nanogpt shards hold ids up to 65535"):
        encode_shards(tmp_path / "a.txt", large, tmp_path / "other", format="nanogpt", append=None)
    assert not (tmp_path / "other").exists(), "refused before anything is written"


def test_the_end_of_text_token_is_found_by_name(tmp_path, tokenizer):
    assert find_end_of_text(tokenizer) == tokenizer.special_tokens[END]
    for name in EOS_NAMES:
        tok = bpe.train(texts=["low"], vocab_size=258, special_tokens=["<pad>", name])
        assert find_end_of_text(tok) == tok.special_tokens[name]
    with_several = bpe.train(texts=["low"], vocab_size=258, special_tokens=["</s>", "<|endoftext|>"])
    assert with_several.eos_token == "<|endoftext|>"
    assert find_end_of_text(with_several) == with_several.special_tokens["<|endoftext|>"]
    with_role = bpe.Tokenizer(replace(with_several.spec, roles={"eos_token": "</s>"}))
    assert with_role.eos_token == "</s>"
    assert find_end_of_text(with_role) == with_role.special_tokens["</s>"]
    without_end = bpe.train(texts=["low"], vocab_size=258, special_tokens=["<pad>"])
    (tmp_path / "a.txt").write_text("low")
    with pytest.raises(ValueError, match=r"llmc shards have an end-of-text id before each document.*'<pad>'"):
        encode_shards(tmp_path / "a.txt", without_end, tmp_path / "out", format="llmc")
    assert not (tmp_path / "out").exists()


# The folder -----------------------------------------------------------------------------------------------------------


def test_a_finished_folder_is_left_alone(tmp_path, tokenizer, caplog):
    paths = write_corpus(tmp_path / "c", make_texts(4, 30))
    first = encode_shards(open_sources(paths), tokenizer, tmp_path / "out", threads=1)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    (tmp_path / "out" / "journal.jsonl").write_text("")  # killed after the manifest was written
    caplog.set_level(logging.INFO, "bpe")
    assert encode_shards(open_sources(paths), tokenizer, tmp_path / "out", threads=2) == first
    assert "is finished: 30 documents" in caplog.text
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before


def test_a_finished_folder_of_a_changed_file_is_refused(tmp_path, tokenizer):
    """The file has its old size and another text."""
    paths = write_corpus(tmp_path / "c", make_texts(4, 30))
    encode_shards(open_sources(paths), tokenizer, tmp_path / "out")
    later = paths[1].stat().st_mtime_ns + 10**12
    encode_shards(write_corpus(tmp_path / "d", ["new"]), tokenizer, tmp_path / "out", extend=True)
    for shard in (tmp_path / "out" / "added-00000").iterdir():
        os.utime(shard, ns=(0, later + 10**12))  # an addition says nothing of the files before it
    os.utime(paths[1], ns=(0, later))
    for extend in (False, True):
        with pytest.raises(ValueError, match=r"1.txt was changed after it was encoded to .*; (name|give)"):
            encode_shards(open_sources(paths), tokenizer, tmp_path / "out", extend=extend)


def test_an_unlisted_addition_of_a_changed_file_is_refused(tmp_path, tokenizer):
    paths, others = (write_corpus(tmp_path / name, make_texts(4, 30)) for name in "cd")
    encode_shards(open_sources(others), tokenizer, tmp_path / "out")
    manifest = (tmp_path / "out" / "manifest.json").read_bytes()
    encode_shards(open_sources(paths), tokenizer, tmp_path / "out", extend=True)
    (tmp_path / "out" / "manifest.json").write_bytes(manifest)  # killed before the addition was listed
    os.utime(paths[1], ns=(0, paths[1].stat().st_mtime_ns + 10**12))
    with pytest.raises(ValueError, match=r"1.txt was changed after it was encoded to .*added-00000; name another"):
        encode_shards(open_sources(paths), tokenizer, tmp_path / "out", extend=True)


def test_new_standard_input_for_a_finished_folder_is_refused(tmp_path, tokenizer, monkeypatch):
    for text in ("low", "lower"):
        (tmp_path / "input").write_text(text)
        with open(tmp_path / "input") as file:
            monkeypatch.setattr("sys.stdin", file)
            if text == "low":
                encode_shards("-", tokenizer, tmp_path / "out")
                continue
            with pytest.raises(ValueError, match=r"out is finished, and the pipe or standard input .* was not read"):
                encode_shards("-", tokenizer, tmp_path / "out")
            encode_shards("-", tokenizer, tmp_path / "out", extend=True)
    assert [tokenizer.decode(row) for row in read_rows(tmp_path / "out")] == ["low", "lower"]


@pytest.mark.parametrize(("change", "message"), OTHER_OPTIONS)  # fmt: skip
def test_other_options_are_refused(tmp_path, tokenizer, change, message):
    paths = write_corpus(tmp_path / "c", make_texts(5, 10))
    encode_shards(open_sources(paths), tokenizer, tmp_path / "out")
    with pytest.raises(ValueError, match=r"made (with other options|from other sources)") as caught:
        encode_shards(open_sources(paths), tokenizer, tmp_path / "out", **change)
    assert message in str(caught.value)


def test_other_sources_and_tokenizers_are_refused(tmp_path, tokenizer):
    paths = write_corpus(tmp_path / "c", make_texts(6, 10))
    encode_shards(open_sources(paths), tokenizer, tmp_path / "out")
    with pytest.raises(ValueError, match=r"other sources: there were 3 files, and there are 2 now"):
        encode_shards(open_sources(paths[:2]), tokenizer, tmp_path / "out")
    with pytest.raises(ValueError, match=r"other sources: file 1 was '.*0\.txt' and is '.*1\.txt'"):
        encode_shards(open_sources(paths[1:]), tokenizer, tmp_path / "out")
    with pytest.raises(ValueError, match=r"other sources: separator"):
        encode_shards(bpe.Sources(paths, separator="|"), tokenizer, tmp_path / "out")
    other = bpe.train(texts=["low"], vocab_size=260, special_tokens=[END])
    with pytest.raises(ValueError, match=r"made with another tokenizer: .* was \w+… and is \w+…; use"):
        encode_shards(open_sources(paths), other, tmp_path / "out")
    paths[0].write_text(paths[0].read_text() + "more")
    with pytest.raises(ValueError, match=r"other sources: the size of '.*0\.txt' was \d+ and is \d+"):
        encode_shards(open_sources(paths), tokenizer, tmp_path / "out")


def test_the_path_of_a_tokenizer_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"tokenizer is 't\.json', a str; it must be a bpe\.Tokenizer: use bpe\.Tokeni"):
        encode_shards([tmp_path / "a.txt"], "t.json", tmp_path / "out")


def test_foreign_folders_are_refused(tmp_path, tokenizer):
    paths = write_corpus(tmp_path / "c", ["low"])
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"not empty \(thesis.tex\)"):
        encode_shards(open_sources(paths), tokenizer, out)
    assert read_files(out) == {"thesis.tex": b"years of work"}
    with pytest.raises(ValueError, match="is a file"):
        encode_shards(open_sources(paths), tokenizer, out / "thesis.tex")


def test_arguments_that_are_refused(tmp_path, tokenizer):
    (tmp_path / "a.txt").write_text("low")
    for arguments, message in [
        ({"format": "bin"}, "format is 'bin'"),
        ({"shard_size": 0}, "shard_size is 0"),
        ({"shards": 4}, "shards is 4, but the shards are not shuffled"),
        ({"shards": 4, "seed": 0, "shard_size": 4}, "at most one"),
        ({"validation": 1.5}, "validation is 1.5"),
        ({"validation": float("nan")}, "validation is nan"),
        ({"rank": 2, "world": 2}, "rank is 2"),
        ({"append": "<nil>"}, "append is '<nil>', which is no special token"),
        ({"threads": 0}, "threads is 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            encode_shards(tmp_path / "a.txt", tokenizer, tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_a_bad_document_ends_the_call_and_the_rest_follows_later(tmp_path, tokenizer):
    paths = write_corpus(tmp_path / "c", make_texts(7, 30))
    good = paths[1].read_bytes()
    paths[1].write_bytes(b"\xff" * len(good))
    with pytest.raises(bpe.FormatError, match="is not UTF-8"):
        encode_shards(open_sources(paths), tokenizer, tmp_path / "out")
    assert not (tmp_path / "out" / MANIFEST_NAME).exists()
    assert not [name for name in read_files(tmp_path / "out") if name.endswith(".tmp")]


def test_progress_is_reported(tmp_path, tokenizer):
    paths = write_corpus(tmp_path / "c", make_texts(8, 30))
    seen: list[bpe.base.Progress] = []
    manifest = encode_shards(open_sources(paths), tokenizer, tmp_path / "out", seed=1, progress=seen.append)
    encoded = [each for each in seen if each.stage == "encode"]
    assert encoded[-1].done == encoded[-1].total == sum(path.stat().st_size for path in paths)
    assert (encoded[-1].documents, encoded[-1].tokens) == (30, manifest.tokens)
    assert [each for each in seen if each.stage == "shuffle"][-1].done == manifest.tokens


# Sides of a split -----------------------------------------------------------------------------------------------------


def test_a_split_that_leaves_a_side_empty_is_refused_before_the_work(tmp_path, tokenizer):
    """A text file is one document without a separator, as in nanoGPT's own example."""
    path, out = tmp_path / "input.txt", tmp_path / "out"
    path.write_text("".join(f"low {number}\n" for number in range(100)))
    options = {"format": "nanogpt", "append": None, "validation": 0.1}
    with pytest.raises(
        ValueError,
        match=r"all on one side: a text file without a separator is one document, .*; pass separator= or per_line.* for"
        " paragraphs",
    ):
        encode_shards(path, tokenizer, out, **options)
    for number, texts in enumerate((["a", "b"], ["x"])):
        (tmp_path / f"{number}.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))
        message = rf"put the sources' {len(texts)} documents? all on training: the hash of a document's text decides"
        with pytest.raises(ValueError, match=message):
            encode_shards(tmp_path / f"{number}.jsonl", tokenizer, out, validation=1e-9)
    with pytest.raises(ValueError, match="all on validation"):
        encode_shards(tmp_path / "0.jsonl", tokenizer, out, validation=1 - 1e-9)
    assert not out.exists()
    encode_shards(bpe.Sources(path, per_line=True), tokenizer, out, **options)
    encode_shards(path, tokenizer, tmp_path / "all", validation=1.0)  # as the call says


def test_a_large_corpus_with_a_side_empty_gives_a_warning(tmp_path, tokenizer, monkeypatch, caplog):
    monkeypatch.setattr("bpe.data.encoding._MAX_CHECKED_BYTES", 10)
    paths = write_corpus(tmp_path / "c", make_texts(40, 30))
    with caplog.at_level(logging.WARNING, "bpe"):
        encode_shards(open_sources(paths), tokenizer, tmp_path / "out", validation=1e-9)
    assert "all documents are on one side of the split, train" in caplog.text
    assert "whole documents" not in caplog.text


@pytest.mark.parametrize("fraction", [0.1, 0.9])
def test_a_split_of_few_large_files_gives_a_warning_before_the_work(tmp_path, tokenizer, monkeypatch, caplog, fraction):
    monkeypatch.setattr("bpe.data.encoding._MAX_CHECKED_BYTES", 10)
    paths = [tmp_path / f"{number}.txt" for number in range(3)]
    for path in paths:
        path.write_text(f"low lower {path.name}\n" * 9)
    message = "each of the 3 text files is one: with this fraction, all may be on one side"
    with caplog.at_level(logging.WARNING, "bpe"):
        encode_shards(paths, tokenizer, tmp_path / "out", validation=fraction)
        assert message in caplog.text
        caplog.clear()
        encode_shards(bpe.Sources(paths, per_line=True), tokenizer, tmp_path / "lines", validation=fraction)
        encode_shards(paths, tokenizer, tmp_path / "half", validation=0.5)
    assert message not in caplog.text


def test_bad_records_are_counted_once_with_a_split(tmp_path, tokenizer):
    path = tmp_path / "a.jsonl"
    path.write_text('{\n{"text": "low"}\n{"text": "lower"}\n{"text": "new"}\n{"text": "wide"}\n')
    manifest = encode_shards(bpe.Sources(path, on_error="skip"), tokenizer, tmp_path / "out", validation=0.5)
    assert manifest.skipped == 1


def test_a_source_whose_name_is_no_text_is_refused_before_the_work(tmp_path, tokenizer):
    path = os.path.join(os.fsencode(tmp_path), b"a\xff.txt")
    with open(path, "w") as file:
        file.write("low")
    with pytest.raises(ValueError, match=r"the name of the source .* holds a lone surrogate"):
        encode_shards(os.fsdecode(path), tokenizer, tmp_path / "out")
    assert not (tmp_path / "out").exists()
