"""Call every public function, method and command with arguments that lie, change, raise or call back.

    python benchmarks/checks/check_arguments.py [DOORS …] [--seconds S] [--seed S]
    python benchmarks/checks/check_arguments.py --settings [NAME …]

`tests/support/doors.py` lists the doors. In each call of a door one or two of its valid arguments, or the items within
one, are replaced: by values of other types and ranges; by objects whose `__index__`, `__iter__`, `__len__` or
`__fspath__` raise, give odd values or call the same door again; by lists that lose or gain items while they are read;
by arrays of any shape, dtype, order and alignment. Whatever is given, the call must end within a minute, with a result
or with an error that says what is wrong, or that of the argument's own hook; a process that crashes, and an
AttributeError, a SystemError and the like, are faults. Then the same door, called with valid arguments, must give the
result that it gave before. The doors of each class or module, and all commands, are attacked in a process of their own.

With --settings, every door is called with valid arguments in processes with other settings: Python's debugging
allocator and development mode, hash seeds, locales, time zones, a working folder that nobody may write, closed standard
streams, memory that is not zero. The results must be the same.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import json
import locale
import logging
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from comparing import make_parser, run_each
from doors import Arguments, Door, finish, get_room, make_doors
from sharing import to_plain

#: The most seconds of one call, and the most memory of the process: a row of 2**31 numbers may be asked for.
PATIENCE, MEMORY = 60, 6 << 30
#: Errors that say what is wrong with an argument, or that the system or a missing package is in the way.
EXPECTED = (
    TypeError, ValueError, LookupError, OverflowError, OSError, BufferError, ImportError, NotImplementedError,
    MemoryError, RuntimeError, SystemExit,
)  # fmt: skip
#: Those of them that are faults all the same: nobody raises them to say something.
FAULTS = (RecursionError, UnboundLocalError)


class HookError(Exception):
    """An argument's own hook was called."""


def fail(*_: object, **__: object) -> Any:
    """Raise HookError."""
    raise HookError


# Hostile values -------------------------------------------------------------------------------------------------------


class Index:
    """A number that `index` gives when it is asked for."""

    def __init__(self, index: Callable[[], Any]) -> None:
        self._index = index

    def __index__(self) -> Any:
        return self._index()

    __int__ = __float__ = __index__


class PathOf:
    """A path that `path` gives when it is asked for."""

    def __init__(self, path: Callable[[], Any]) -> None:
        self._path = path

    def __fspath__(self) -> Any:
        return self._path()


class LyingList(list[Any]):
    """A list whose length is not the number of its items."""

    def __init__(self, items: Any, length: Callable[[], Any]) -> None:
        super().__init__(items)
        self._length = length

    def __len__(self) -> Any:
        return self._length()


class ChangingList(list[Any]):
    """A list that changes whenever it is read: `change` gets it."""

    def __init__(self, items: Any, change: Any) -> None:
        super().__init__(items)
        self._change = change

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            self._change(self)
            yield item

    def __getitem__(self, key: Any) -> Any:
        item = super().__getitem__(key)
        self._change(self)
        return item


class OddStr(str):
    """A str whose hooks raise."""

    __slots__ = ()
    __hash__ = __eq__ = __len__ = __iter__ = fail


class OddInt(int):
    """An int whose hooks raise."""

    __hash__ = __eq__ = __lt__ = __gt__ = __le__ = __ge__ = fail


class OddMapping(dict[Any, Any]):
    """A dict whose items are others at each call."""

    def __init__(self, items: Any, rng: random.Random) -> None:
        super().__init__(items)
        self._rng = rng

    def items(self) -> Any:
        """Give the items, without one, or with one more."""
        given = list(super().items())
        return self._rng.choice((given[1:], [*given, ("x", None)], [(1, 2, 3)], None))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rng.choice(([], ["x"], [None], [*super().keys(), 1])))

    def __getitem__(self, key: Any) -> Any:
        return self._rng.choice((None, fail, -1)) if self._rng.random() < 0.5 else super().__getitem__(key)


def raise_midway(items: Any) -> Iterator[Any]:
    """Give the items, then raise."""
    yield from items
    raise HookError


def make_array(rng: random.Random) -> Any:
    """Make an array of some shape, dtype, order, alignment."""
    numbers = np.array([rng.choice([0, 1, 5, 70, 299, 300, 2**31 - 1]) for _ in range(rng.choice([0, 1, 3, 40]))])
    kind = rng.choice(["<u4", "<i4", ">i8", "<f8", "?", "O", "<u2", "<u8", "<c16", "S3", "<M8[s]", "<i1"])
    with np.errstate(all="ignore"):
        array = numpy_cast(numbers, kind)
    change = rng.randrange(7)
    if change == 0:
        array = array.reshape(1, -1)
    elif change == 1:
        array = array[::-1]
    elif change == 2:
        array = np.repeat(array, 2)[::2]
    elif change == 3 and array.dtype.kind in "iuf":
        raw = np.zeros(array.nbytes + 1, dtype=np.uint8)
        array = raw[1:].view(array.dtype)  # misaligned
    elif change == 4:
        array = array.copy()
        array.flags.writeable = False
    elif change == 5:
        array = np.array(rng.choice([0, -1, 2.5, None, "x"]))
    return array


def numpy_cast(numbers: Any, kind: str) -> Any:
    """Cast numbers to any dtype."""
    return np.array([f"{number}" for number in numbers], dtype=kind) if kind == "S3" else numbers.astype(kind)


def make_hostile(value: Any, rng: random.Random, call_again: Callable[[], object], folder: Path) -> Any:
    """Make a value to pass in place of a valid one; at times one of the same kind, at times any."""
    deep: list[Any] = []
    for _ in range(2000):
        deep = [deep]
    itself: list[Any] = []
    itself.append(itself)
    anything: list[Callable[[], Any]] = [
        lambda: rng.choice([None, True, -1, 0, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400]),
        lambda: rng.choice(
            [0.5, float("nan"), float("inf"), -0.0, 1e308, 1j, np.float32(2), np.int8(-1), np.uint64(9)]
        ),
        lambda: rng.choice(["", "\ud800", "\0", "x" * 70_000, "a\u0301" * 99, "all", "<|end|>", OddStr("low")]),
        lambda: rng.choice([b"", b"\xff\xfe", bytearray(b"low"), memoryview(b"low lower")[::2], memoryview(b"")]),
        lambda: rng.choice([[], (), {}, set(), frozenset({1}), iter([]), [None], [[]], {"a": {"b": []}}, deep, itself]),
        lambda: rng.choice([object(), type, fail, ..., NotImplemented, np, logging, lambda: 1, {1: 2}.items()]),
        lambda: rng.choice([folder, folder / "missing", str(folder), os.devnull, "/dev/full", -1]),
        lambda: Index(rng.choice([fail, lambda: 2**70, lambda: -5, lambda: 2, lambda: "x", call_again])),
        lambda: PathOf(rng.choice([fail, lambda: 3, lambda: "", lambda: "\0", lambda: b"\xff", call_again])),
        lambda: OddInt(rng.choice([0, 2, -9])),
        lambda: make_array(rng),
    ]
    if isinstance(value, (list, tuple)) or (isinstance(value, Iterator) and not isinstance(value, io.IOBase)):
        items = list(value)
        same: list[Callable[[], Any]] = [
            lambda: LyingList(items, rng.choice([fail, lambda: 0, lambda: 2**40, lambda: 1, lambda: len(items) + 3])),
            lambda: ChangingList(items, rng.choice([list.clear, list.pop])),
            lambda: ChangingList(items, lambda it: list.__len__(it) < 3000 and it.append(rng.choice([None, *items]))),
            lambda: ChangingList(items, lambda _: call_again()),
            lambda: raise_midway(items),
            lambda: (rng.choice(anything)() for _ in range(rng.randrange(4))),
            lambda: [rng.choice(anything)() if rng.random() < 0.4 else item for item in items],
            lambda: items * rng.choice([0, 50]),
        ]
    elif isinstance(value, Mapping):
        pairs = list(value.items())
        same = [
            lambda: OddMapping(pairs, rng),
            lambda: {key: rng.choice(anything)() if rng.random() < 0.5 else item for key, item in pairs},
            lambda: {**dict(pairs), rng.choice(["x", 1, None, b"x", (1,)]): rng.choice(anything)()},
            lambda: dict(pairs[1:]),
        ]
    elif isinstance(value, str):
        same = [
            lambda: value + rng.choice(["\ud800", "\0", "x" * 3000, "é"]),
            lambda: value[: rng.randrange(len(value) + 1)],
            lambda: OddStr(value),
            lambda: value.encode(),
        ]
    elif isinstance(value, np.ndarray):
        same = [lambda: make_array(rng), lambda: value.astype(rng.choice(["i8", "u8", "f4", "u1"])), value.tolist]
    elif isinstance(value, Path):
        same = [
            lambda: rng.choice([path for path in folder.rglob("*") if path.is_dir()]),
            lambda: damage(rng.choice([path for path in folder.rglob("*") if path.is_file()]), rng, folder),
            lambda: damage(value, rng, folder),
        ]
    elif callable(value):
        same = [lambda: fail, lambda: lambda *_, **__: call_again(), lambda: lambda: None]
    else:
        same = anything
    return rng.choice(same if rng.random() < 0.6 else anything)()


def damage(path: Path, rng: random.Random, folder: Path) -> Path:
    """Make a damaged copy of a file."""
    if not path.is_file():
        return path / "x"
    data = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 9)):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    copy = folder / f"damaged{path.suffix}"
    copy.write_bytes(data[: rng.choice([len(data), rng.randrange(len(data) + 1)])])
    return copy


# The check ------------------------------------------------------------------------------------------------------------


def spoil(valid: Arguments, rng: random.Random, call_again: Callable[[], object], folder: Path) -> Arguments:
    """Replace one or two of the arguments by hostile values, or add an option that nobody knows."""
    arguments, options = list(valid[0]), dict(valid[1])
    places: list[int | str] = [*range(len(arguments)), *options]
    for place in rng.sample(places, min(len(places), rng.choice([1, 1, 1, 2]))):
        target: Any = arguments if isinstance(place, int) else options
        target[place] = make_hostile(target[place], rng, call_again, folder)
    if not places or rng.random() < 0.03:
        arguments.append(make_hostile(None, rng, call_again, folder))
    return tuple(arguments), options


def find_outcome(door: Door) -> str:
    """Call a door with valid arguments: its result, or its error, as text."""
    try:
        return re.sub("0x[0-9a-f]+", "", repr(to_plain(door.use())))[:100_000]
    except EXPECTED as error:
        return type(error).__name__


def attack(door: Door, rng: random.Random, folder: Path) -> str:
    """Call a door once with hostile arguments: what is wrong, or nothing."""
    depth = 0

    def call_again() -> object:
        nonlocal depth
        if depth > 2:
            raise HookError
        depth += 1
        try:
            return door.use()
        finally:
            depth -= 1

    try:
        arguments, options = spoil(door.make_arguments(), rng, call_again, folder)
    except ModuleNotFoundError:  # a package that valid arguments need
        return ""
    try:
        finish(door.call(*arguments, **options))
    except (HookError, MemoryError, SystemExit):
        return ""
    except BaseException as error:  # noqa: BLE001 (whatever else it is, it is a fault, and shown)
        if isinstance(error, FAULTS) or not isinstance(error, EXPECTED):
            return traceback.format_exc(limit=-4)
        return "" if str(error) else f"{error!r} says nothing"
    return ""


def check_room(room: str, seconds: float, seed: int) -> int:
    """Attack the doors of a room, in this process: the number of doors with a fault."""
    faulthandler.enable()
    logging.disable()
    warnings.simplefilter("ignore")
    os.environ["HF_HUB_OFFLINE"] = "1"
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    n_calls = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary, mute():
        folder = Path(temporary)
        doors = {name: door for name, door in make_doors(folder).items() if get_room(name) == room}
        os.chdir(folder)
        expected = {name: find_outcome(door) for name, door in doors.items()}
        end = time.monotonic() + seconds
        rngs = {name: random.Random(f"{name} {seed}") for name in doors}
        faults: dict[str, str] = {}
        while time.monotonic() < end and len(faults) < len(doors):
            for name in doors.keys() - faults.keys():
                faulthandler.dump_traceback_later(PATIENCE, exit=True, file=2)
                problem = attack(doors[name], rngs[name], folder)
                if not problem and not doors[name].changes and find_outcome(doors[name]) != expected[name]:
                    problem = "afterwards, the door gives another result for valid arguments"
                n_calls += 1
                if problem:
                    faults[name] = problem
        faulthandler.cancel_dump_traceback_later()
    for name, problem in faults.items():
        print(f"{name}: {problem}", flush=True)
    print(f"{room}: {n_calls} calls of {len(doors)} doors, {len(faults)} with a fault", flush=True)
    return len(faults)


#: For each setting the variables of the environment, the options of Python, and whether the streams are closed.
SETTINGS: dict[str, tuple[dict[str, str], list[str], bool]] = {
    "usual": ({}, [], False),
    "debugging allocator": ({"PYTHONMALLOC": "debug"}, [], False),
    "development mode": ({}, ["-X", "dev"], False),
    "hash seed 1": ({"PYTHONHASHSEED": "1"}, [], False),
    "hash seed 2": ({"PYTHONHASHSEED": "2"}, [], False),
    "locale C": ({"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, [], False),
    "Turkish locale": ({"LC_ALL": "tr_TR.UTF-8"}, [], False),
    "time zone": ({"TZ": "Pacific/Kiritimati"}, [], False),
    "without assertions": ({}, ["-OO"], False),
    "closed streams": ({}, [], True),
    "memory that is not zero": ({"MALLOC_PERTURB_": "165"}, [], False),  # what malloc of glibc fills it with
}


def find_results() -> dict[str, str]:
    """Call each door with valid arguments, in a folder that nobody may write: its result as text."""
    logging.disable()
    warnings.simplefilter("ignore")
    os.environ["HF_HUB_OFFLINE"] = "1"
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "")
    results = {}
    with tempfile.TemporaryDirectory() as inputs, tempfile.TemporaryDirectory() as working:
        os.chmod(working, 0o555)
        os.chdir(working)
        with mute():
            doors = make_doors(Path(inputs))
        for name, door in doors.items():
            if not door.changes:
                # A command whose output is closed fails, as it must.
                keeps_closed = sys.stdout is None and get_room(name) != "commands"
                if "MALLOC_PERTURB_" in os.environ:
                    fill_free_memory()
                with contextlib.nullcontext() if keeps_closed else mute():
                    results[name] = find_outcome(door).replace(inputs, "")
    return results


def fill_free_memory() -> None:
    """Fill the small pieces of memory that NumPy keeps for new arrays, 7 of each size below 1 kB."""
    arrays = [np.full(size, 165, dtype=np.uint8) for size in range(1, 1024) for _ in range(7)]
    arrays.clear()


def compare_settings(names: list[str]) -> int:
    """Compare the results of all doors under these settings, all if none is named, with the usual ones: the status."""
    usual: dict[str, str] = {}
    failed = 0
    for name in dict.fromkeys(["usual", *(names or SETTINGS)]):
        variables, options, is_closed = SETTINGS[name]
        with tempfile.NamedTemporaryFile() as file:
            command = [sys.executable, *options, __file__, "--in-process", f"--results={file.name}"]
            if is_closed:
                command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]
            status = subprocess.run(command, env=os.environ | variables).returncode
            results = json.loads(file.read() or "{}")
        usual = usual or results
        different = [door for door in usual if results.get(door) != usual[door]]
        for door in different[:5]:
            print(f"{name}: {door} gives {str(results.get(door))[:300]}, usually {usual[door][:300]}", flush=True)
        print(f"{name}: {len(results)} results, {len(different)} different", flush=True)
        failed += status != 0 or bool(different) or not results
    return min(failed, 1)


def make_stream() -> io.TextIOWrapper:
    """Make a stream that nobody reads."""
    return io.TextIOWrapper(io.BytesIO())


@contextlib.contextmanager
def mute() -> Iterator[None]:
    """Let commands print nothing."""
    with contextlib.redirect_stdout(make_stream()), contextlib.redirect_stderr(make_stream()):
        yield


def main() -> int:
    """Run the checks."""
    parser = make_parser(__doc__)
    parser.add_argument("rooms", nargs="*", metavar="DOORS", help="such as bpe.Tokenizer; default all")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each class, module, and all commands")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--settings", nargs="*", choices=SETTINGS, metavar="NAME", help="compare the results under these, or all"
    )
    parser.add_argument("--results", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.settings is not None:
        return compare_settings(options.settings)
    if options.results:
        Path(options.results).write_text(json.dumps(find_results()))
        return 0
    if options.in_process:
        return min(check_room(options.rooms[0], options.seconds, options.seed), 1)
    rooms = list_rooms()
    if unknown := set(options.rooms) - set(rooms):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(rooms)}")
    arguments = [f"--seconds={options.seconds}", f"--seed={options.seed}"]
    return run_each(__file__, options.rooms or rooms, arguments, options.seconds + 2 * PATIENCE)


def list_rooms() -> list[str]:
    """List the classes and modules that have doors, and "commands"."""
    logging.disable()
    with tempfile.TemporaryDirectory() as name:
        return list(dict.fromkeys(map(get_room, make_doors(Path(name)))))


if __name__ == "__main__":
    sys.exit(main())
