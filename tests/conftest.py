"""Shared by the whole suite: a deterministic hypothesis profile, files for the command line, corpora, vocabularies.

The corpora are not part of the project. Tests read them through the fixtures below, which skip the test if they are
absent.
"""

from __future__ import annotations

import base64
import codecs
import gc
import gzip
import logging
import lzma
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from command_server import CommandServer
from hypothesis import HealthCheck, settings
from skips import summarize
from strategies import SOAK

import bpe
from bpe.cli import main
from bpe.formats.openai_encodings import ENCODINGS, FILES
from bpe.named.cache import make_cached_name

settings.register_profile(
    "deterministic",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=7 * SOAK,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("deterministic")


#: Tests that read, compile or install the sources, and take half a minute; `.ci/run lint` names the folder.
collect_ignore = ["source_tree"]

#: Where Linux has a file system in memory, and the bytes that must be free there: ten times what the tests write.
MEMORY_FOLDER, ROOM = Path("/dev/shm"), 8 << 30


def pytest_configure() -> None:
    """Let the tests write into memory where there is room, which takes a twentieth less processor time than a disk."""
    if MEMORY_FOLDER.is_dir() and shutil.disk_usage(MEMORY_FOLDER).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY_FOLDER))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped, by what they lack, in at most ten lines."""
    reports = terminalreporter.stats.get("skipped", [])
    if reports and not terminalreporter.hasopt("s"):
        terminalreporter.section(f"{len(reports)} tests skipped; -rs prints each reason", sep="-")
        for line in summarize(str(report.longrepr[2]) for report in reports):
            terminalreporter.line(line)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Let a worker process report a test once: each message of pytest-xdist takes 0.15 ms of processor time.

    Not sent are the beginning of a test, and fixtures that were made and removed within 20 ms and without an error.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.duration > 0.02:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_collection_finish() -> None:
    """Keep what collection made out of all later garbage collections, which take a tenth of the time then."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def without_collecting_again() -> None:
    """Keep what earlier modules left, such as loaded libraries, out of the garbage collections of this one."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run the tests in an empty folder; processes that they start import the same `bpe`, installed or this folder's.

    `os.fsync` does nothing in this process: the files of tests need not survive a power cut.
    """
    root, package = Path(__file__).resolve().parents[1], Path(bpe.__file__).resolve().parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.chdir(tmp_path_factory.mktemp("empty"))
        patch.setenv("OPENBLAS_NUM_THREADS", "1")  # else processes that import NumPy start threads, which wait busily
        if package.parent == root:
            patch.setenv("PYTHONPATH", str(root), prepend=os.pathsep)
        yield


@pytest.fixture(scope="session")
def hooks() -> Any:
    """The functions that reach inside the kernels (`_kernel_hooks.pyx`)."""
    return pytest.importorskip("bpe._kernel_hooks", reason="compiled only for development")


@contextmanager
def only_errors_logged() -> Iterator[None]:
    """Log errors only; the level is restored afterwards, even if a test is skipped or fails inside."""
    logger = logging.getLogger("bpe")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@pytest.fixture
def quiet() -> Iterator[None]:
    """Suppress the warning of training that stops early, which some tests would log thousands of times."""
    with only_errors_logged():
        yield


# Inputs for the command line -----------------------------------------------------------------------------------------

TEXT = "The first line, naïve café.\n\n두 번째 줄: 다람쥐 헌 쳇바퀴에 타고파 😀\r\n\tlast line | no newline · here"


@pytest.fixture(scope="session")
def command_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    """A process that runs commands of `bpe` in its copies."""
    with CommandServer(tmp_path_factory.mktemp("server") / "socket") as server:
        yield server


@pytest.fixture(scope="session")
def programs(command_server: CommandServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program `bpe`, which runs commands in copies of one process."""
    folder = tmp_path_factory.mktemp("bin")
    command_server.write_client(folder / "bpe")
    return folder


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small byte-level tokenizer.json with one special token."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    bpe.train(texts=[TEXT, "low lower newest widest " * 5], vocab_size=300, special_tokens=["<|end|>"]).save(path)
    return str(path)


@pytest.fixture
def text_file(tmp_path: Path) -> str:
    """A file with several lines, several scripts and bytes that are not UTF-8."""
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT.encode())
    return str(path)


def fails(capsys: pytest.CaptureFixture[str], argv: list[str], status: int, pattern: str) -> str:
    """Run a command that must fail: this status, nothing on stdout, and one line on stderr, which is returned."""
    assert main(argv) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert re.search(pattern, err), err
    assert err.startswith("bpe: error: " if status == 1 else "bpe")
    return err


# Shared corpora and vocabularies --------------------------------------------------------------------------------------

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
CORPORA = ("english", "korean", "japanese", "python")
SEPARATOR = b"<|endoftext|>"


@cache
def corpus_bytes(name: str, size: int) -> bytes:
    """The first `size` bytes of a shared corpus, without an incomplete character at the end."""
    with lzma.open(SHARED / "corpora" / f"{name}.txt.xz") as file:
        data = file.read(size)
    return codecs.getincrementaldecoder("utf-8")().decode(data).encode()


@pytest.fixture(scope="session")
def corpus() -> Callable[[str, int], bytes]:
    """A function: (name, size) → the first bytes of a shared corpus, up to the end of a character."""

    def read(name: str, size: int) -> bytes:
        if not (SHARED / "corpora" / f"{name}.txt.xz").exists():
            pytest.skip(f"the shared corpus {name} is not beside this repository (../shared/data/corpora)")
        return corpus_bytes(name, size)

    return read


@pytest.fixture(scope="session")
def shared_vocab(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function: name of a shared vocabulary file (without .gz) → its path, decompressed if necessary."""
    folder = tmp_path_factory.mktemp("vocab")

    def path(name: str) -> Path:
        plain, packed = SHARED / "vocab" / name, SHARED / "vocab" / f"{name}.gz"
        if plain.exists():
            return plain
        if not packed.exists():
            pytest.skip(f"the shared vocabulary {name} is not beside this repository (../shared/data/vocab)")
        unpacked = folder / name
        if not unpacked.exists():
            unpacked.write_bytes(gzip.decompress(packed.read_bytes()))
        return unpacked

    return path


@pytest.fixture(scope="session")
def tiktoken_ranks(shared_vocab: Callable[[str], Path]) -> Callable[[str], dict[bytes, int]]:
    """A function: "r50k", "cl100k" or "o200k" → OpenAI's ranks as a dict of bytes to int."""

    @cache
    def ranks(name: str) -> dict[bytes, int]:
        lines = shared_vocab(f"{name}_base.tiktoken").read_bytes().split(b"\n")
        return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}

    return ranks


@pytest.fixture(scope="session")
def openai_files(
    tmp_path_factory: pytest.TempPathFactory, shared_vocab: Callable[[str], Path]
) -> Callable[[str], Path]:
    """A function: name of an encoding of OpenAI's → a folder that has its files as tiktoken's cache does."""
    folder = tmp_path_factory.mktemp("openai")
    shared = {"vocab.bpe": "gpt2_merges.txt", "encoder.json": "gpt2_vocab.json"}

    def prepare(name: str) -> Path:
        for file in ENCODINGS[name].files:
            target = folder / make_cached_name(FILES[file].address)
            if not target.exists():
                target.write_bytes(shared_vocab(shared.get(file, file)).read_bytes())
        return folder

    return prepare
