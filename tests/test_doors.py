"""Every public function, method and command has a door, whose valid call works, and takes hostile arguments."""

from __future__ import annotations

import importlib.util
import logging
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from doors import Door, list_documented_names, make_doors

from bpe.cli.arguments import COMMANDS

CHECKS = Path(__file__).resolve().parents[1] / "benchmarks" / "checks"
#: Hostile calls of each door; `check_arguments.py` makes as many as there is time for.
CALLS = 3
#: What valid calls raise that name what nobody has published: the tests must not need a network.
OF_UNKNOWN_NAMES: dict[str, type[Exception]] = {
    "bpe.Tokenizer.from_pretrained": OSError,
    "bpe.get_encoding": ValueError,
    "bpe.encoding_for_model": KeyError,
    "bpe.compat.tiktoken.get_encoding": ValueError,
    "bpe.compat.tiktoken.encoding_for_model": KeyError,
}
#: The doors whose valid call raises ModuleNotFoundError without a package.
DOORS_OF_PACKAGES = {
    "huggingface_hub": ["bpe.Tokenizer.from_pretrained"],
    "transformers": ["bpe.accelerate"],
    "torch": ["bpe.data.torch_batches", "bpe.data.torch_collate"],
    "pandas": ["bpe.evaluation.Evaluation.to_pandas"],
    "matplotlib": [
        "bpe.evaluation.Evaluation.plot",
        "bpe.plots.plot_lengths",
        "bpe.plots.plot_frequencies",
        "bpe.plots.plot_compression",
    ],
    "jinja2": [
        "bpe.Tokenizer.chat",
        "bpe.Tokenizer.chat that continues",
        "bpe.Tokenizer.chat with tools",
        "bpe.data.encode_shards of chats",
    ],
    "pyarrow": [
        "bpe.WordCounts.to_arrow",
        "bpe.WordCounts.from_arrow",
        "bpe.TokenBatch.to_arrow",
        "bpe.data.mapping.MapFunction.encode_table",
        "bpe.evaluation.Evaluation.to_arrow",
    ],
}
#: The status of commands whose valid call finds a fault, or is one.
STATUSES = {
    "bpe verify": 1,  # the folder has no copy of the tokenizer
    "bpe play": 2,  # a port that no machine has, so that it ends
}

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doors")


@pytest.fixture(scope="module")
def doors(folder: Path) -> Iterator[dict[str, Door]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        if "huggingface_hub" in sys.modules:  # by other tests, and it has read the environment
            patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        yield make_doors(folder)


@pytest.fixture(scope="module")
def harness() -> Iterator[ModuleType]:
    """The module check_arguments.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(CHECKS))
        spec = importlib.util.spec_from_file_location("check_arguments", CHECKS / "check_arguments.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def test_every_public_name_has_a_door(doors: dict[str, Door]) -> None:
    names = {name if name.startswith("bpe ") else name.split(" ")[0] for name in doors}
    expected = {*list_documented_names(), *(f"bpe {command}" for command in COMMANDS)}
    assert sorted(expected - names) == [], "these public names need a row in tests/support/doors.py"


@pytest.mark.filterwarnings("ignore")
def test_valid_calls_raise_only_what_is_listed(
    doors: dict[str, Door], harness: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdin", None)
    raised: dict[str, type[BaseException]] = {}
    statuses = {}
    with harness.mute():
        for name, door in doors.items():
            try:
                result = door.use()
            except Exception as error:  # noqa: BLE001, PERF203 (whichever it is, it must be listed)
                raised[name] = type(error)
            else:
                if name.startswith("bpe ") and result != 0:
                    statuses[name] = result
    expected: dict[str, type[BaseException]] = dict(OF_UNKNOWN_NAMES)
    for package, names in DOORS_OF_PACKAGES.items():
        if importlib.util.find_spec(package) is None:
            expected |= dict.fromkeys(names, ModuleNotFoundError)
    assert raised == expected
    assert statuses == STATUSES


def test_doors_take_hostile_arguments(
    doors: dict[str, Door], harness: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdin", None)
    faults = {}
    logging.disable()
    try:
        with harness.mute():
            for name, door in doors.items():
                rng = random.Random(name)
                faults[name] = "".join(harness.attack(door, rng, folder) for _ in range(CALLS))
    finally:
        logging.disable(logging.NOTSET)
    assert {name: problem for name, problem in faults.items() if problem} == {}
