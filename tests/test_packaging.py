"""The declarations of pyproject.toml, and the files that it names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import bpe

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    if sys.version_info < (3, 11):
        pytest.skip("the standard library reads TOML since Python 3.11")
    import tomllib

    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def group(settings: dict[str, Any], name: str) -> set[str]:
    """The requirements of a dependency group, including those of the groups that it includes."""
    found: set[str] = set()
    for item in settings["dependency-groups"][name]:
        found |= {item} if isinstance(item, str) else group(settings, item["include-group"])
    return found


@pytest.mark.parametrize("name", ["test", "docs", "bench", "ray", "spark", "corpus", "remote", "chat"])
def test_dependency_groups_equal_the_extras(settings: dict[str, Any], name: str) -> None:
    assert group(settings, name) == set(settings["project"]["optional-dependencies"][name])


def test_the_development_group_equals_its_extra(settings: dict[str, Any]) -> None:
    extras = settings["project"]["optional-dependencies"]
    assert group(settings, "dev") == {*extras["dev"], *extras["test"]} - {"bytepair[test]"}


def test_classifiers_name_the_pythons_that_wheels_are_built_for(settings: dict[str, Any]) -> None:
    prefix = "Programming Language :: Python :: 3."
    declared = {line[len(prefix) - 2 :] for line in settings["project"]["classifiers"] if line.startswith(prefix)}
    built = {name[2:].rstrip("-*") for name in settings["tool"]["cibuildwheel"]["build"]}
    assert {name.replace(".", "") for name in declared} == {name.rstrip("t") for name in built}
    assert settings["project"]["requires-python"] == ">=" + min(declared, key=lambda name: int(name[2:]))


def test_the_citation_names_the_version() -> None:
    assert f"\nversion: {bpe.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_tests_of_a_wheel_exist(settings: dict[str, Any]) -> None:
    command = settings["tool"]["cibuildwheel"]["test-command"]
    named = [word for word in command.split() if word.startswith("{project}/")]
    assert named
    for word in named:
        assert (ROOT / word.removeprefix("{project}/")).exists(), word
