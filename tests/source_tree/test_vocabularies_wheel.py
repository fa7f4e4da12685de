"""The wheel of rank files that `vocabularies/build.py` builds, installed into a folder, without network or cache."""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import reference
from conftest import SHARED
from peers import Peer

import bpe

tiktoken: Any = Peer("tiktoken")

PACKAGE_ROOT = Path(bpe.__file__).parents[1]
BUILD = Path(__file__).resolve().parents[2] / "vocabularies" / "build.py"
PATTERNS = {"r50k": reference.GPT2, "cl100k": reference.CL100K}
TEXTS = [
    "Hello, world! It's 12345.",
    "낮말은 새가 듣고\r\n\n  밤말은 쥐가",
    "",
    "x = [i**2 for i in range(10)]\t# naïve",
]
OFFLINE = """
import json, sys, urllib.request
import bpe
def refuse(*args, **kwargs):
    raise AssertionError("it asks the network")
urllib.request.urlopen = refuse
names = ["r50k_base", "cl100k_base", "gpt2"]
texts = json.loads(sys.stdin.read())
print(json.dumps({name: [bpe.get_encoding(name).encode(text).tolist() for text in texts] for name in names}))
"""


def run(
    *command: object, environment: dict[str, str] | None = None, text: str = ""
) -> subprocess.CompletedProcess[str]:
    variables = os.environ | {"PYTHONPATH": str(PACKAGE_ROOT)} | (environment or {})
    return subprocess.run(
        [sys.executable, *map(str, command)], env=variables, input=text, capture_output=True, text=True, check=False
    )


def test_an_installed_wheel_gives_the_ids_of_tiktoken_offline(tmp_path, tiktoken_ranks) -> None:
    pytest.importorskip("setuptools", minversion="77")
    if not [*importlib.metadata.distributions(name="pip")]:  # importing it would disable the distutils of setuptools
        pytest.skip("needs pip")
    if not (SHARED / "vocab").exists():
        pytest.skip("the shared vocabularies are not beside this repository (../shared/data/vocab)")
    files = tmp_path / "files"
    files.mkdir()
    for name in PATTERNS:  # two of the files, which take less time
        (path,) = (SHARED / "vocab").glob(f"{name}_base.tiktoken*")
        (files / path.name).symlink_to(path)
    built = run(BUILD, files, "-o", tmp_path)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    installed = run("-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", site, wheel)
    assert installed.returncode == 0, installed.stderr
    assert "Copyright (c) 2022 OpenAI" in next(site.glob("*.dist-info/licenses/LICENSE")).read_text()
    environment = {
        "PYTHONPATH": f"{PACKAGE_ROOT}{os.pathsep}{site}",
        "TIKTOKEN_CACHE_DIR": str(tmp_path / "absent"),
    }
    encoded = run("-c", OFFLINE, environment=environment, text=json.dumps(TEXTS))
    assert encoded.returncode == 0, encoded.stderr
    ids = json.loads(encoded.stdout)
    for name, pattern in PATTERNS.items():
        theirs = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=tiktoken_ranks(name), special_tokens={})
        assert ids[f"{name}_base"] == [theirs.encode_ordinary(text) for text in TEXTS]
    assert ids["gpt2"] == ids["r50k_base"]


def test_files_that_are_not_the_published_ones_are_refused(tmp_path) -> None:
    (tmp_path / "cl100k_base.tiktoken").write_bytes(b"IQ== 0\n")
    done = run(BUILD, tmp_path, "-o", tmp_path)
    assert done.returncode == 1
    assert "cl100k_base.tiktoken has the SHA-256" in done.stderr
    (tmp_path / "cl100k_base.tiktoken").unlink()
    done = run(BUILD, tmp_path, "-o", tmp_path)
    assert f"{tmp_path} has none of r50k_base.tiktoken, p50k_base.tiktoken" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "data",
    [gzip.compress(b"IQ== 0\n", mtime=0)[:-3], b"not gzip"],
    ids=["cut", "not gzip"],
)
def test_damaged_gzip_data_are_refused_in_words(data, tmp_path) -> None:
    path = tmp_path / "cl100k_base.tiktoken.gz"
    path.write_bytes(data)
    done = run(BUILD, tmp_path, "-o", tmp_path)
    assert done.returncode == 1
    (error,) = done.stderr.splitlines()
    assert error.startswith(str(path))
    assert "the gzip data is damaged" in error or "has the SHA-256" in error


def test_a_file_that_cannot_be_read_is_named(tmp_path) -> None:
    (tmp_path / "cl100k_base.tiktoken").mkdir()
    done = run(BUILD, tmp_path, "-o", tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "cl100k_base.tiktoken" in done.stderr
