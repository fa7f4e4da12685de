"""The declarations of pyproject.toml, and the files that it names."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import bpe

ROOT = Path(__file__).resolve().parents[2]


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


def test_the_conda_recipe_agrees_with_pyproject(settings: dict[str, Any]) -> None:
    lines = [line.strip(" -") for line in (ROOT / "packaging/conda/recipe.yaml").read_text().splitlines()]
    needed = [*settings["build-system"]["requires"], *settings["project"]["dependencies"]]
    needed = [item for item in needed if "sys_platform" not in item]  # the recipe leaves out Windows
    assert [item for item in needed if item.replace(">=", " >=") not in lines] == []
    assert f'version: "{bpe.__version__}"' in lines
    assert f'summary: "{settings["project"]["description"]}"' in lines
    assert f"bpe = {settings['project']['scripts']['bpe']}" in lines


def test_actions_of_workflows_are_pinned() -> None:
    """A tag of somebody else's action can be moved; a commit cannot."""
    used = {}
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        used |= {line: path.name for line in re.findall(r"uses: (.*)", path.read_text()) if not line.startswith("./")}
    assert used
    assert [
        (line, name) for line, name in used.items() if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", line)
    ] == []


def test_a_warning_is_an_error_in_tests_and_none_in_plugins(tmp_path: Path) -> None:
    """pytest-benchmark and pytest-asyncio warn when pytest starts, pytest-benchmark of the workers."""
    (tmp_path / "pytest_loud.py").write_text("import warnings\ndef pytest_configure(): warnings.warn('of a plugin')\n")
    test = "import warnings\ndef test_silent(): pass\ndef test_loud(): warnings.warn('of a test')\n"
    (tmp_path / "test_two.py").write_text(test)
    options = ["-c", str(ROOT / "pyproject.toml"), "-n", "0", "-p", "no:cacheprovider", "-p", "pytest_loud"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path / "test_two.py")],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]), "COLUMNS": "300"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(r"FAILED .*::test_loud - UserWarning: of a test\n.* 1 failed, 1 passed", ran.stdout), ran.stdout


def test_no_source_of_a_kernel_begins_with_an_encoding() -> None:
    """Cython takes "decoding: text", in a docstring too, for the declaration of an encoding that does not exist."""
    sources = [path for folder in ("bpe", "tests") for path in (ROOT / folder).rglob("*.p[yx][xd]")]
    assert sources
    wrong = {}
    for path in sources:
        first_lines = b"\n".join(path.read_bytes().split(b"\n")[:2])
        if found := re.search(rb"coding[:=]\s*([-\w.]+)", first_lines):
            wrong[path.name] = found[1]
    assert wrong == {}


# setup.py -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """setup.py as a module."""
    pytest.importorskip("setuptools", "77")
    pytest.importorskip("Cython")
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1580601600")  # setup.py would set it, for good
    specification = importlib.util.spec_from_file_location("bpe_setup", ROOT / "setup.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of distutils, if another test had imported Python's own
        specification.loader.exec_module(module)
    return module


def make_command(build: ModuleType, compiler: object) -> Any:
    """The command that compiles the kernels, with a compiler."""
    from setuptools import Distribution

    command = build.BuildKernels(Distribution())
    command.compiler = compiler
    return command


def test_what_compiling_needs_is_what_pip_installs(build: ModuleType, settings: dict[str, Any]) -> None:
    assert list(build.BUILD_REQUIREMENTS) == settings["build-system"]["requires"]


def test_what_is_compiled_with_less_optimization_exists(build: ModuleType) -> None:
    assert {build.module_of(path) for path in build.kernels()} | {build.SHARED} >= build.LIGHT


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_gcc_compiles_the_common_headers_once_per_level(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Kernels take them from the compiled header; with other compilers they include nothing more."""
    monkeypatch.setattr(build, "COMMON_HEADERS", "static int common;\n")
    for compiler, used in ("gcc", ["-include"]), (sys.executable, []):
        command = make_command(build, SimpleNamespace(compiler_so=[compiler]))
        flags = (["-O1", "-g0"], ["-O3", "-g0"], ["-O1", "-g0"])
        command.extensions = [SimpleNamespace(extra_compile_args=each) for each in flags]
        command.precompile_headers(str(tmp_path))
        assert [ext.extra_compile_args[2:3] for ext in command.extensions] == [used] * 3
    assert sorted(path.name for path in tmp_path.glob("*.gch")) == ["common-O1.h.gch", "common-O3.h.gch"]
    (tmp_path / "kernel.c").write_text("int get(void) { return common; }\n")
    compile_kernel = ["gcc", "-O1", "-g0", "-include", "common-O1.h", "-Winvalid-pch", "-Werror", "-c", "kernel.c"]
    subprocess.run(compile_kernel, cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    ("installed", "problem"),
    [
        ({"cython": "3.1.8"}, "cython is 3.1.8"),
        ({"numpy": "1.26.4", "setuptools": "65.5.0"}, "setuptools is 65.5.0, numpy is 1.26.4"),
        ({"cython": None}, "cython is not installed"),
        ({"cython": "3.2.0a1", "numpy": "2.0rc1", "setuptools": "77"}, None),
        ({"cython": "4.0", "numpy": "10.0", "setuptools": "100.1.2"}, None),
    ],
    ids=["cython", "two", "none", "oldest", "later"],
)
def test_versions_that_cannot_compile_are_named(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, installed: dict[str, str | None], problem: str | None
) -> None:
    def find_version(name: str) -> str:
        found = installed.get(name, "99.9")
        if found is None:
            raise build.PackageNotFoundError
        return found

    monkeypatch.setattr(build, "version", find_version)
    if problem is None:
        build.check_build_requirements()
        return
    with pytest.raises(SystemExit, match=rf", but {problem}\. Leave out --no-build-isolation.* 'cython>=3\.2'"):
        build.check_build_requirements()


def test_a_missing_compiler_is_noticed_first(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Cython translates anything, which takes a minute; the message says what to install."""
    monkeypatch.setattr(build, "compiled", lambda: False)
    monkeypatch.setattr(build, "translate", lambda _: pytest.fail("translated first"))
    command = make_command(build, SimpleNamespace(compiler_type="unix", compiler_so=["/nowhere/cc"]))
    said = r"there is no C compiler: '/nowhere/cc' is not found\.(.|\n)* apt-get install gcc python3-dev\n"
    with pytest.raises(SystemExit, match=said):
        command.build_extensions()


def test_missing_headers_of_python_are_noticed_first(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build.sysconfig, "get_path", lambda _: str(tmp_path))
    command = make_command(build, SimpleNamespace(compiler_type="unix", compiler_so=[sys.executable]))
    with pytest.raises(SystemExit, match=r"lacks Python\.h: the headers of this Python are not installed") as error:
        command.check_compiler()
    assert str(tmp_path) in str(error.value)


def test_an_unsuitable_compiler_is_noticed_first(build: ModuleType) -> None:
    def compile_(*_args: object, **_options: object) -> None:
        raise build.CompileError("command failed")

    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("needs the headers of this Python")
    command = make_command(build, SimpleNamespace(compiler_type="unix", compiler_so=[sys.executable], compile=compile_))
    with pytest.raises(SystemExit, match=r"cannot compile them \(command failed\); they need GCC or Clang"):
        command.check_compiler()


def test_kernels_that_are_compiled_need_no_compiler(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "compiled", lambda: True)
    command = make_command(build, SimpleNamespace(compiler_type="unix", compiler_so=["/nowhere/cc"]))
    command.extensions = []
    command.build_extensions()


def test_an_sdist_has_the_same_bytes_whenever_it_is_built(build: ModuleType, tmp_path: Path) -> None:
    """From files with other times and permissions, packed at another time."""
    (tmp_path / "bpe").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/_kernel_hooks.pyx").touch()
    (tmp_path / "setup.py").write_bytes((ROOT / "setup.py").read_bytes())
    packed = []
    for time, mode in ((10**9, 0o600), (10**9 + 1, 0o664)):
        (tmp_path / "setup.py").chmod(mode)
        os.utime(tmp_path / "setup.py", (time, time))
        subprocess.run([sys.executable, "setup.py", "-q", "sdist"], cwd=tmp_path, check=True, capture_output=True)
        (path,) = (tmp_path / "dist").iterdir()
        packed.append(path.read_bytes())
        path.unlink()
    assert packed[0] == packed[1]
    assert packed[0][4:8] == (1580601600).to_bytes(4, "little")  # the time in the header of gzip
