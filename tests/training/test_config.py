"""The arguments of `bpe.train` are the same in its signature, in `TrainConfig` and in the types of `bpe.research`."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

import bpe
from bpe.training.config import CorpusOptions, TrainConfig

PARAMETERS = set(inspect.signature(bpe.train).parameters)
#: Fields of `TrainConfig` that no caller gives.
OWN = {"vocab_sizes", "count_non_overlapping", "reserved_names"}


def test_train_has_few_parameters_which_all_trainers_take() -> None:
    assert len(PARAMETERS) == 22
    assert {each.name for each in fields(TrainConfig)} - OWN == PARAMETERS - {"superwords"}
    assert {*CorpusOptions.__annotations__} == PARAMETERS - {"superwords", "vocab_size"}


@pytest.mark.parametrize("name", [name for name in dir(bpe.research) if name.startswith("train_")])
def test_every_trainer_of_research_refuses_unknown_options(name: str) -> None:
    given = [bpe.research.Seeds()] if name == "train_seeded" else []
    with pytest.raises(TypeError, match="unexpected keyword argument 'separator'"):
        getattr(bpe.research, name)(*given, texts=["text"], vocab_size=300, separator="|")


def test_the_alphabet_is_checked() -> None:
    for options, error, message in (
        ({"limit": 0}, ValueError, "limit is 0"),
        ({"coverage": 1.5}, ValueError, r"coverage is 1.5; it must be above 0 and at most 1"),
        ({"byte_fallback": 1}, TypeError, "byte_fallback is 1, an int; it must be a bool"),
    ):
        with pytest.raises(error, match=message):
            bpe.Alphabet(**options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"alphabet is 'corpus', a str; it must be a bpe.Alphabet or None"):
        bpe.train(texts=["text"], vocab_size=300, alphabet="corpus")  # type: ignore[call-overload]
