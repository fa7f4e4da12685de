"""What `import bpe` brings along, and which module may import which."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import bpe

PACKAGE = Path(bpe.__file__).parent
OPTIONAL = (
    "tokenizers",
    "tiktoken",
    "pyarrow",
    "ftfy",
    "torch",
    "transformers",
    "pyspark",
    "ray",
    "rustbpe",
    "pandas",
    "hypothesis",
    "pytest",
    "Cython",
    "setuptools",
)
REQUIRED = {"numpy", "regex", "tqdm"}

#: Modules by layer, lowest first; one imports only from its own layer and lower ones.
LAYERS = [
    {"_core", "_version", "_uncompiled"},
    # `visualize` is here for how a token is spelled for people; it knows of no tokenizer.
    {
        "errors",
        "atomic",
        "text",
        "unicode",
        "unicode_data",
        "alignment",
        "normalizers",
        "pretokenize",
        "vocabulary",
        "special",
        "spec",
        "batch",
        "threads",
        "progress",
        "corpus",
        "reading",
        "memory",
        "matching",
    }
    | {"visualize"},
    {"wordcounts", "spilling", "counting", "alphabet", "checkpoint", "learning", "pruning", "fingerprint"}
    | {
        "encoding",
        "decoding",
        "explaining",
        "documents",
        "streams",
        "normalizing",
        "offsets",
        "dropout",
        "textencoder",
        "truncation",
        "cliprows",
    },
    {"formats"},
    {"tokenizer", "adding", "training", "extending"},
    {
        "idfiles",
        "arguments",
        "manual",
        "completion",
        "cli",
        "demo",
        "__main__",
        "__init__",
        "samples",
        "data",
        "distributed",
        "compat",
    },
]


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_brings_no_optional_package() -> None:
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


def test_import_leaves_the_process_alone() -> None:
    """No thread, no handler on the root logger, nothing printed, no warning."""
    assert (
        run("import threading, logging, bpe; assert threading.active_count() == 1 and not logging.getLogger().handlers")
        == ""
    )


def test_use_without_optional_packages() -> None:
    """Training, encoding, saving and loading work where no optional package can be imported."""
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


def modules() -> dict[str, Path]:
    return {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(path: Path) -> set[str]:
    """The modules of this package that a file imports, dotted; imports for the type checker alone left out."""
    found: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    ]
    skipped = {id(inner) for node in typing_only for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively; write the whole name"
            assert node.module is not None
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in found if name == "bpe" or name.startswith("bpe.")}


def layer_of(name: str) -> int | None:
    parts = name.split(".")
    if len(parts) == 1:
        return None
    return next((number for number, layer in enumerate(LAYERS) if parts[1] in layer), None)


@pytest.mark.parametrize("name", modules())
def test_layers(name: str) -> None:
    """Lower layers never import higher ones."""
    parts = name.removesuffix(".py").split("/")
    own = next((number for number, layer in enumerate(LAYERS) if parts[0] in layer), None)
    assert own is not None, f"{name} stands in no layer; add it to LAYERS"
    for imported in imports_of(modules()[name]):
        layer = layer_of(imported)
        if layer is not None:
            assert layer <= own, f"{name} imports {imported}, of a higher layer"
        if parts[0] == "formats":
            assert not imported.startswith("bpe.tokenizer"), (
                f"{name} imports the tokenizer; a format reads and writes a spec"
            )


def test_kernels_import_each_other_only() -> None:
    for path in sorted((PACKAGE / "_core").glob("*.py*")):
        if path.suffix not in (".pyx", ".pxd"):
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            words = line.split()
            if line.startswith(("from ", "import ", "cimport ")) and len(words) > 1:
                root = words[1].split(".")
                assert root[0] in {"numpy", "libc", "cython", "cpython", "threading"} or root[:2] == ["bpe", "_core"], (
                    f"{path.name}: {line}"
                )


# A folder without compiled kernels ------------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with the source code of the package, not compiled."""
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "*.c", "__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "source" / "bpe", ignore=ignored)
    (tmp_path / "source" / "setup.py").touch()
    return tmp_path / "source"


def import_error_in(folder: Path, *path: Path) -> str:
    """The last line of what `python -c "import bpe"` prints in a folder; more folders to import from may be given."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    argv = [sys.executable, "-c", "import bpe"]
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "During handling" not in done.stderr
    return done.stderr.splitlines()[-1]


def test_a_source_folder_that_is_not_compiled(source: Path, tmp_path: Path) -> None:
    said = import_error_in(source)
    assert said.startswith(f"ImportError: {source / 'bpe'} is source code that is not compiled")
    assert said.endswith(f"run `pip install -e .` in {source}")
    installed = tmp_path / "site-packages"
    (installed / "bpe" / "_core").mkdir(parents=True)
    (installed / "bpe" / "__init__.py").touch()
    (installed / "bpe" / "_core" / "encoder.so").touch()
    said = import_error_in(source, installed)
    assert f"and it hides the installed copy in {installed / 'bpe'}; leave the folder {source}, or run `pip" in said


def test_kernels_for_another_python(source: Path) -> None:
    (source / "bpe" / "_core" / "encoder.cpython-39-x86_64-linux-gnu.so").touch()
    said = import_error_in(source)
    assert "are compiled for another Python (encoder.cpython-39-x86_64-linux-gnu.so), not for this Python 3." in said
    assert said.endswith(f"run `pip install -e .` in {source} with this Python")


def test_kernels_that_cannot_be_loaded(source: Path) -> None:
    (source / "bpe" / "_core" / f"encoder{EXTENSION_SUFFIXES[0]}").write_bytes(b"not what it was")
    said = import_error_in(source)
    assert "do not match its source or this NumPy" in said
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
    } <= set(bpe.__all__)
    assert len(bpe.__all__) <= 16


def test_marked_as_typed() -> None:
    assert (PACKAGE / "py.typed").exists()
    kernels = {path.name.split(".")[0] for path in (PACKAGE / "_core").glob("*.so")} | {
        path.name.split(".")[0] for path in (PACKAGE / "_core").glob("*.pyd")
    }
    sources = {path.stem for path in (PACKAGE / "_core").glob("*.pyx")}
    if sources:
        kernels &= sources  # a build in place keeps those of modules that were renamed
    stubs = {path.stem for path in (PACKAGE / "_core").glob("*.pyi")}
    assert {name for name in kernels if not name.startswith("_")} <= stubs
