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
CALLS = 4

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doors")


@pytest.fixture(scope="module")
def doors(folder: Path) -> Iterator[dict[str, Door]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
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
