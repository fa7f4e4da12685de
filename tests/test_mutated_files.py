"""A few of the changes of files and states that `benchmarks/checks` makes, and text that no pattern matches."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path

import pytest
from checks import load_check
from conftest import only_errors_logged

import bpe
from bpe.formats.huggingface import read, write
from bpe.formats.loading import FORMATS

CHECKS = Path(__file__).parent.parent / "benchmarks" / "checks"


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, CHECKS / f"{name}.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_mutated_files_are_refused_or_read_correctly():
    found = loaded("check_mutations").check(300, 1)
    assert all(0 < number < 300 for number in found.values()), found


def test_damaged_files_of_every_format_are_refused_or_read():
    with only_errors_logged():
        found = loaded("check_damaged").check(15, 1)
    tokenizers = {form for form in FORMATS if form != "tiktoken"} | {"compat"}
    assert tokenizers <= set(found)
    assert all(form.startswith(("parquet", "arrow", "jsonl", "csv", "txt")) for form in found.keys() - tokenizers)
    assert all(number < 15 for form, number in found.items() if form != "txt"), found  # of which any bytes are read


def test_changed_states_are_refused_or_read_correctly():
    states = load_check("check_states")
    found = {kind: states.check(kind, 15, 1) for kind in states.KINDS}
    assert {kind: faults for kind, (_, faults) in found.items() if faults} == {}
    assert all(n_accepted < 15 for n_accepted, _ in found.values()), found


def test_text_between_matches_logs_a_warning_or_raises(caplog):
    own = bpe.Pretokenizer.from_regex("[a-z]+")
    with caplog.at_level(logging.WARNING, logger="bpe"):
        assert own.split("ab 12 cd") == own.split("ab 12 cd") == ["ab", "cd"]
    assert len(caplog.records) == 1
    assert "' 12 '" in caplog.records[0].getMessage()
    strict = bpe.Pretokenizer.from_regex("[a-z]+", gaps="error")
    assert strict.split("ab") == ["ab"]
    with pytest.raises(ValueError, match="does not match all of a text: ' 12 '"):
        strict.split("ab 12 cd")
    tok = bpe.train(texts=["ab"], vocab_size=256, pretokenizer=strict)
    assert read(write(tok.spec)).pretokenizer == strict
