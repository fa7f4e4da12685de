"""The effects of `import bpe`. `test_layers.py` checks which module may import which."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from source_trees import parse, walk_statements

import bpe
from bpe import _names
from bpe.data.formats import SHARD_FORMATS
from bpe.text import normalizers

PACKAGE = Path(bpe.__file__).parent
OPTIONAL = (
    "tokenizers",
    "tiktoken",
    "pyarrow",
    "fsspec",
    "isal",
    "msgspec",
    "backports",
    "ftfy",
    "torch",
    "transformers",
    "pyspark",
    "ray",
    "datasets",
    "torchdata",
    "grain",
    "rustbpe",
    "pandas",
    "matplotlib",
    "playwright",
    "hypothesis",
    "pytest",
    "Cython",
    "setuptools",
)
REQUIRED = {"numpy", "regex", "tqdm"}
#: What takes long to import, and what loading and encoding do not need. NumPy imports none of it.
SLOW = {"regex", "tqdm", "dataclasses", "inspect", "logging", "queue", "numpy.typing", "mmap", "unicodedata"}


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_no_optional_package() -> None:
    loaded = run("import sys, bpe; print(*sorted({name.split('.')[0] for name in sys.modules}))").split()
    assert not set(OPTIONAL) & set(loaded)
    outside = {
        name
        for name in loaded
        if name not in sys.stdlib_module_names and not name.startswith(("_", "cython", "sphinx"))
    }
    packages = {name for name in outside if name not in {"bpe", *REQUIRED}}
    assert not {
        name
        for name in packages
        if not name.startswith(("sitecustomize", "distutils", "usercustomize", "pkg_resources", "apport"))
    }


def modules_after(program: str) -> set[str]:
    return set(run(f"import sys\n{program}\nprint(*sys.modules)").split("\n")[-2].split())


def test_import_loads_no_module_before_it_is_used() -> None:
    """The number of modules stands for the time, and is the same on every machine."""
    loaded = modules_after("import bpe") - modules_after("import numpy")
    rooms = {name.split(".")[1] for name in loaded if name.startswith("bpe.") and not name.startswith("bpe._")}
    assert rooms == {
        "base", "batch", "decode", "encode", "errors", "merge", "pretokenize", "text", "tokenizer", "vocab",
    }  # fmt: skip
    assert not loaded & {*SLOW, "csv", "hashlib", "json", "pathlib", "bpe.text.normalizers"}
    assert len({name for name in loaded if name.startswith("bpe")}) <= 84


def test_base_classes_have_parameters_in_the_oldest_python() -> None:
    """Python 3.10 refuses those of `logging.StreamHandler[…]`, for one, when a class is made."""
    parameterized = {"Generic", "Iterator", "Mapping", "Protocol", "Sequence", "dict", "list", "tuple"}
    bases = {
        ast.unparse(base.value)
        for path in PACKAGE.rglob("*.py")
        for node in walk_statements(parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Subscript)
    }
    assert bases <= parameterized


def test_the_command_line_loads_no_kernel_before_it_is_used() -> None:
    for argv in (["--version"], ["help"], ["train", "--help"]):
        program = f"sys.argv = ['bpe']\nfrom bpe.cli import main\ntry: main({argv})\nexcept SystemExit: pass"
        loaded = modules_after(program)
        assert not loaded & {*REQUIRED, "bpe.tokenizer", "bpe.base._utf8"}, argv


def test_loading_and_encoding_load_what_they_use(tmp_path: Path) -> None:
    bpe.train(texts=["low lower lowest"], vocab_size=260).save(tmp_path / "tokenizer.json")
    path = str(tmp_path / "tokenizer.json")
    loaded = modules_after(f"import bpe; bpe.Tokenizer.load({path!r}).encode('low')") - modules_after("import numpy")
    rooms = {name.split(".")[1] for name in loaded if name.startswith("bpe.") and not name.startswith("bpe._")}
    assert rooms == {
        "base", "batch", "decode", "encode", "errors", "formats", "merge", "pretokenize", "text", "tokenizer", "vocab",
    }  # fmt: skip
    assert not loaded & {*SLOW, "bpe.text.normalizers", "bpe.text.oniguruma", "bpe.formats.gguf"}
    assert len({name for name in loaded if name.startswith("bpe")}) <= 108


@pytest.mark.parametrize("kind", ['"Prepend", "prepend": "_"', '"Nmt"', '"bpe.DummyPrefix", "space": "_"'])
def test_a_normalizer_of_a_file_is_found_in_a_new_process(kind: str) -> None:
    file = f'{{"model": {{"vocab": {{"a": 0}}, "merges": []}}, "normalizer": {{"type": {kind}}}}}'
    assert run(f"from bpe.formats import huggingface; print(huggingface.read({file!r}.encode()).model)") == "char\n"


def test_names_of_options_are_those_of_what_they_name() -> None:
    assert tuple(normalizers.NAMES) == _names.NORMALIZERS
    assert tuple(SHARD_FORMATS) == _names.SHARD_FORMATS
    for name in _names.SOURCE_FORMATS:
        bpe.Sources([], format=name)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers that send signals")
def test_an_import_that_ctrl_c_ends_is_made_again() -> None:
    for moment in (0.005, 0.03, 0.12):
        program = f"""
import signal
import numpy  # whose own import cannot be made again
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, {moment})
while True:
    try:
        import bpe
        tok = bpe.train(texts=["low lower"], vocab_size=258)
        assert tok.decode(tok.encode("lower")) == "lower"
        signal.setitimer(signal.ITIMER_REAL, 0)
        break
    except KeyboardInterrupt:
        pass
    except RuntimeError as error:  # of a __set_name__ that was interrupted, before Python 3.12
        assert isinstance(error.__cause__, KeyboardInterrupt)
print("done")
"""
        assert run(program) == "done\n", moment


def test_import_has_no_side_effects() -> None:
    """It starts no thread, adds no log handler, prints nothing and gives no warning."""
    assert (
        run("import threading, logging, bpe; assert threading.active_count() == 1 and not logging.getLogger().handlers")
        == ""
    )


def test_use_without_optional_packages() -> None:
    """Training, encoding, saving and loading work if no optional package can be imported."""
    run(f"""
import sys, tempfile, pathlib
for name in {OPTIONAL!r}:
    sys.modules[name] = None
import bpe
tok = bpe.train(texts=["low lower lowest"], num_merges=5, special_tokens=["<s>"])
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "tokenizer.json"
    tok.save(path)
    assert bpe.Tokenizer.load(path) == tok
assert tok.decode(tok.encode("lower")) == "lower"
""")


# A folder without compiled kernels ------------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with the package's source code, not compiled."""
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "*.c", "__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "source" / "bpe", ignore=ignored)
    (tmp_path / "source" / "setup.py").touch()
    return tmp_path / "source"


def import_error_in(folder: Path, *path: Path) -> str:
    """The last line that `python -c "import bpe"` prints in a folder, with further folders on the path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    argv = [sys.executable, "-c", "import bpe"]
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "During handling" not in done.stderr
    return done.stderr.splitlines()[-1]


def test_importing_uncompiled_source_says_to_compile_it(source: Path, tmp_path: Path) -> None:
    said = import_error_in(source)
    assert said.startswith(f"ImportError: {source / 'bpe'} is source code that is not compiled")
    assert said.endswith(f"run `pip install -e .` in {source}")
    installed = tmp_path / "site-packages"
    (installed / "bpe" / "encode").mkdir(parents=True)
    (installed / "bpe" / "__init__.py").touch()
    (installed / "bpe" / "encode" / "_encoder.so").touch()
    said = import_error_in(source, installed)
    assert f"and it hides the installed copy in {installed / 'bpe'}; leave the folder {source}, or run `pip" in said


def test_importing_kernels_of_another_python_says_so(source: Path) -> None:
    (source / "bpe" / "encode" / "_encoder.cpython-39-x86_64-linux-gnu.so").touch()
    said = import_error_in(source)
    assert "are compiled for another Python (_encoder.cpython-39-x86_64-linux-gnu.so), not for this Python 3." in said
    assert said.endswith(f"run `pip install -e .` in {source} with this Python")


def test_importing_damaged_kernels_says_so(source: Path) -> None:
    (source / "bpe" / "encode" / f"_encoder{EXTENSION_SUFFIXES[0]}").write_bytes(b"not what it was")
    said = import_error_in(source)
    assert "do not match its source, NumPy or processor" in said
    assert said.endswith(f"run `pip install -e .` in {source}")


def test_public_names() -> None:
    assert bpe.__all__ == sorted(bpe.__all__)
    for name in bpe.__all__:
        assert getattr(bpe, name) is not None
    assert {
        "train",
        "count_words",
        "Tokenizer",
        "TokenBatch",
        "WordCounts",
        "Pretokenizer",
        "FormatError",
        "normalizers",
        "pretokenizers",
    } <= set(bpe.__all__)
    assert len(dir(bpe)) <= 29
    assert len([name for name in dir(bpe.Tokenizer) if not name.startswith("_")]) <= 49


ROOMS = {
    "base": {"Progress"},
    "decode": {"IncrementalDecoder"},
    "encode": {"Chunk"},
    "evaluation": {"Evaluation", "sanity_check"},
    "named": {"list_encoding_names"},
    "plots": {"plot_compression", "plot_frequencies", "plot_lengths", "show_merges"},
    "research": {"stochastok"},
    "vocab": {"TokenizerSpec", "Training"},
}


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_have_public_names(room: str) -> None:
    module = getattr(bpe, room)
    assert set(dir(module)) >= ROOMS[room]
    for name in ROOMS[room]:
        assert callable(getattr(module, name))


def test_marked_as_typed() -> None:
    assert (PACKAGE / "py.typed").exists()
    compiled = [path for end in ("so", "pyd") for path in PACKAGE.rglob(f"*.{end}")]
    kernels = {path.with_name(path.name.split(".")[0]) for path in compiled} - {PACKAGE / "base" / "_cyutility"}
    sources = {path.with_suffix("") for path in PACKAGE.rglob("*.pyx")}
    if sources:
        kernels &= sources  # a build in place keeps the kernels of renamed modules
    assert kernels <= {path.with_suffix("") for path in PACKAGE.rglob("*.pyi")}
