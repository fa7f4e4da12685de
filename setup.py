"""The Cython extensions of `bpe`: which there are, and how they are compiled.

Everything else about the package (metadata, requirements, tools) is in pyproject.toml.

Switches, each an environment variable set to 1, or to what is named; a changed switch recompiles everything:

    BPE_DEBUG      bounds checks and wrap-around in the kernels, no optimization
    BPE_TRACE      line tracing, for coverage of the kernels (Cython.Coverage plugin)
    BPE_SANITIZE   AddressSanitizer and UndefinedBehaviorSanitizer; "thread": ThreadSanitizer
    BPE_ANNOTATE   write an HTML page beside each kernel that scores its lines
"""

import gc
import gzip
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

#: What compiling needs. pip installs it from pyproject.toml, where it stands too, unless --no-build-isolation is given.
BUILD_REQUIREMENTS = ("setuptools>=77", "cython>=3.2", "numpy>=2.0")


def check_build_requirements() -> None:
    """Exit with what to install if a package that compiling needs is missing or too old."""

    def numbers(text: str) -> list[int]:
        return [int(digits) for digits in re.findall(r"\d+", text)[:2]]

    problems = []
    for requirement in BUILD_REQUIREMENTS:
        name, oldest = requirement.split(">=")
        try:
            installed = version(name)
        except PackageNotFoundError:
            problems.append(f"{name} is not installed")
            continue
        if numbers(installed) < numbers(oldest):
            problems.append(f"{name} is {installed}")
    if problems:
        command = " ".join(f"'{requirement}'" for requirement in BUILD_REQUIREMENTS)
        sys.exit(
            f"The kernels of bpe need {', '.join(BUILD_REQUIREMENTS)} to be compiled, but {', '.join(problems)}. Leave "
            f"out --no-build-isolation, so that pip installs them for the build, or run: pip install {command}"
        )


check_build_requirements()  # first: the names imported below are not in older versions

import Cython
import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.errors import CompileError, LinkError
from setuptools.modified import newer_group

PACKAGE = Path("bpe")
SHARED = "bpe.base._cyutility"
#: What tests reach inside the kernels for, compiled for development only: (its name, its source).
HOOKS = ("bpe._kernel_hooks", Path("tests/_kernel_hooks.pyx"))
SWITCHES = {name: os.environ.get(f"BPE_{name}") == "1" for name in ("DEBUG", "TRACE", "ANNOTATE")}
#: Cython's settings for all kernels. Without auto_pickle, its objects can be pickled only where their class says how;
#: with it, a tenth of the C code would be for pickling what nobody pickles, thread pools and locks among it.
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": SWITCHES["DEBUG"],
    "wraparound": SWITCHES["DEBUG"],
    "initializedcheck": False,
    "cdivision": True,
    "freethreading_compatible": True,
    "auto_pickle": False,
    "linetrace": SWITCHES["TRACE"],
}
#: Kernels without a loop over text or ids: -O1 compiles them in half the time of -O3. SHARED is part of each call.
LIGHT = {
    HOOKS[0],
    *(f"bpe.base._{name}" for name in ("cpu", "interrupts", "result_pool", "team", "visitor")),
    *(f"bpe.corpus._{name}" for name in ("listing", "parquet_headers")),
    "bpe.data.formats._mapping",
    "bpe.evaluation._file_tally",
}
#: The sanitizers, as the compiler's option names them, or "".
SANITIZERS = {"1": "address,undefined", "thread": "thread"}.get(os.environ.get("BPE_SANITIZE", ""), "")
#: What the kernels in this folder were compiled with is noted here.
SETTINGS_FILE = Path("build") / f"settings-{sysconfig.get_config_var('SOABI')}.txt"
#: The time of all files in an sdist or a wheel, in seconds since 1970: 2 February 2020, as other builders have it too.
DATE = int(os.environ.setdefault("SOURCE_DATE_EPOCH", "1580601600"))
#: A program with what the kernels ask of a compiler: Python's headers, vectors, intrinsics of the highest vector level.
PROBE = """
#include <Python.h>
#include "bpe/base/_vectors.h"
#ifdef BPE_X86
BPE_TARGET_AVX512 __m512i bpe_probe(__m512i bytes) { return _mm512_maskz_compress_epi8(7, bytes); }
#endif
"""
#: What every kernel includes, or most do, compiled once for all: parsing it took a seventh of the C compiler's time.
COMMON_HEADERS = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
"""
#: How to install a compiler, for the message of `check_compiler`.
INSTALL_COMPILER = """
    Debian, Ubuntu    apt-get install gcc python3-dev
    Fedora, RHEL      dnf install gcc python3-devel
    Alpine            apk add gcc musl-dev python3-dev
    macOS             xcode-select --install
    conda             conda install -c conda-forge c-compiler"""


def compile_args(module: str = "") -> list[str]:
    """Flags for the C compiler, GCC or Clang.

    Without debug information (-g0) unless CFLAGS asks for it: it takes a twentieth of the time, most of the size, and
    contains paths, so that builds in two folders differ. clang-cl, on Windows, has other names for some flags.
    """
    if sys.platform == "win32":
        return ["/Od"] if SWITCHES["DEBUG"] else ["/clang:-O3", "-Wno-unused-function"]
    if SANITIZERS:
        return ["-O1", "-g1", "-fno-omit-frame-pointer", f"-fsanitize={SANITIZERS}"]
    if SWITCHES["DEBUG"]:
        return ["-O0", "-g"]
    debug = [] if "-g" in os.environ.get("CFLAGS", "").split() else ["-g0"]
    return ["-O1" if module in LIGHT else "-O3", *debug, "-Wall", "-Wextra", "-Wno-unused-function"]


def settings() -> str:
    """What decides the C files (first line) and the compiled code: when it changes, everything is compiled again.

    A build for sanitizers uses the C files that exist.
    """
    flags = f"{compile_args()} {sorted(LIGHT)} CFLAGS={os.environ.get('CFLAGS', '')}"
    return f"Cython {Cython.__version__} {DIRECTIVES}\n{flags}\n"


def kernels() -> list[Path]:
    """All kernels, in whatever package; the largest first, so that no processor is idle at the end."""
    return sorted([*PACKAGE.rglob("*.pyx"), HOOKS[1]], key=lambda path: (-path.stat().st_size, path))


def module_of(path: Path) -> str:
    """The dotted name of the module that a source file becomes."""
    return HOOKS[0] if path == HOOKS[1] else ".".join(path.with_suffix("").parts)


def headers_of(path: Path, seen: set[Path] | None = None) -> set[Path]:
    """The C headers that a kernel or a header uses, through declarations (.pxd) and other headers too."""
    seen = set() if seen is None else seen
    if path not in seen and path.exists():
        seen.add(path)
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r'(?:extern from|#\s*include) "(bpe/[^"]+\.h)"', text):
            headers_of(Path(name), seen)
        for module in re.findall(r"^\s*(?:from|cimport) (bpe\.[\w.]+)", text, re.MULTILINE):
            headers_of(Path(module.replace(".", "/") + ".pxd"), seen)
        headers_of(path.with_suffix(".pxd"), seen)
    return {source for source in seen if source.suffix == ".h"}


def extensions() -> list[Extension]:
    """One extension per kernel, named after its file and the packages that the file lies in."""
    macros = [("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")]
    if SWITCHES["TRACE"]:
        macros += [("CYTHON_TRACE", "1"), ("CYTHON_TRACE_NOGIL", "1")]
    shared = Extension(
        SHARED,
        [SHARED.replace(".", "/") + ".c"],
        extra_compile_args=compile_args(SHARED),
        depends=[SETTINGS_FILE.as_posix()],
    )
    return [
        shared,  # what Cython's own code shares between the kernels; generated by cythonize
        *(
            Extension(
                module_of(path),
                [path.as_posix()],
                include_dirs=[numpy.get_include(), "."],  # headers are included as "bpe/room/_name.h"
                define_macros=macros,
                extra_compile_args=compile_args(module_of(path)),
                extra_link_args=[f"-fsanitize={SANITIZERS}"] if SANITIZERS else [],
                depends=[source.as_posix() for source in (SETTINGS_FILE, *sorted(headers_of(path)))],
            )
            for path in kernels()
        ),
    ]


def compiled() -> bool:
    """Whether all kernels are compiled in this folder, for this Python, from the sources as they are.

    Cython also compares with the files of NumPy and of its own, which pip installs anew for each build.
    """
    if not SETTINGS_FILE.exists() or SETTINGS_FILE.read_text() != settings():
        return False
    sources = [path for path in PACKAGE.rglob("*") if path.suffix in (".pyx", ".pxd", ".h")]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    shared = Path(SHARED.replace(".", "/") + ".pyx")
    built = [Path(module_of(path).replace(".", "/") + suffix) for path in (shared, *kernels())]
    newest = max(path.stat().st_mtime for path in [*sources, SETTINGS_FILE])
    return all(path.exists() and path.stat().st_mtime >= newest for path in built)


class PackSources(sdist):
    """Packs an sdist that has the same bytes whenever and wherever it is built from the same files."""

    def make_archive(self, base_name: str, kind: str, *_args: object, base_dir: str = ".", **_options: object) -> str:
        """Pack a folder as NAME.tar.gz, without the times, owners and permissions that it has here."""
        if kind != "gztar":
            sys.exit(f"the sdist's format is {kind!r}; it must be gztar, the only one that PyPI takes")

        def normalize(item: tarfile.TarInfo) -> tarfile.TarInfo:
            item.mtime, item.uid, item.gid, item.uname, item.gname = DATE, 0, 0, "", ""
            item.mode = 0o755 if item.isdir() or item.mode & 0o100 else 0o644
            return item

        path = f"{base_name}.tar.gz"
        self.mkpath(os.path.dirname(path))
        with gzip.GzipFile(path, "wb", mtime=DATE) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(base_dir, filter=normalize)
        return path


def use_clang(compiler: Any) -> None:
    """Have setuptools call clang-cl on Windows: Microsoft's own compiler lacks vectors and 128-bit integers."""
    command = shutil.which("clang-cl")
    if command is None:
        sys.exit(
            "bpe needs clang-cl on Windows: install LLVM (winget install LLVM.LLVM) beside the build tools of Visual "
            "Studio, and have LLVM's folder bin on the PATH"
        )
    if not compiler.initialized:
        compiler.initialize()
    compiler.cc = command
    compiler.compile_options = [option for option in compiler.compile_options if option != "/GL"]  # Clang has none


class BuildKernels(build_ext):
    """Checks the compiler first, translates the kernels to C, and compiles those that are older than their sources.

    `pip install -e .` compiles into a new temporary folder each time; the kernels compiled in this folder are copied,
    so that a second virtual environment does not compile everything again.
    """

    def run(self) -> None:
        """Compile all kernels; without the hooks of tests unless they stay in this folder."""
        if not (self.inplace or self.editable_mode):
            self.extensions = [ext for ext in self.extensions if ext.name != HOOKS[0]]
        super().run()

    def build_extensions(self) -> None:
        """Compile, once setuptools has chosen the compiler."""
        if self.compiler.compiler_type == "msvc":
            use_clang(self.compiler)
        if not compiled():
            if self.compiler.compiler_type != "msvc":
                self.check_compiler()
            translate(self.extensions)
        with TemporaryDirectory() as folder:
            if sys.platform == "linux" and sum(not self.is_current(ext) for ext in self.extensions) > 8:
                self.precompile_headers(folder)
            super().build_extensions()

    def check_compiler(self) -> None:
        """Compile a program of a few lines; exit with what to install if that fails.

        Otherwise a missing compiler would be noticed after the minute that Cython takes.
        """
        command = self.compiler.compiler_so[0]
        headers = sysconfig.get_path("include")
        problem = ""
        if shutil.which(command) is None:
            problem = f"there is no C compiler: {command!r} is not found"
        elif not Path(headers, "Python.h").exists():
            problem = f"{headers} lacks Python.h: the headers of this Python are not installed"
        else:
            with TemporaryDirectory() as folder:
                source = Path(folder, "probe.c")
                source.write_text(PROBE)
                try:
                    objects = self.compiler.compile([str(source)], folder, include_dirs=[headers, "."])
                    self.compiler.link_shared_object(objects, str(Path(folder, "probe.so")))
                except (CompileError, LinkError) as error:
                    problem = f"{command!r} cannot compile them ({error}); they need GCC or Clang, not too old"
        if problem:
            sys.exit(f"The kernels of bpe are compiled, but {problem}. Install, then try again:{INSTALL_COMPILER}\n")

    def precompile_headers(self, folder: str) -> None:
        """Compile the common headers with GCC, once for each level of optimization, for all kernels to include.

        Where the result does not fit, GCC reads the header itself, to the same effect. Clang would stop there.
        """
        command = self.compiler.compiler_so
        list_macros = [*command, "-dM", "-E", "-x", "c", os.devnull]
        macros = subprocess.run(list_macros, capture_output=True, text=True, check=False).stdout
        if "__GNUC__" not in macros or "__clang__" in macros:
            return
        headers: dict[str, str] = {}
        for ext in self.extensions:
            flags = ext.extra_compile_args
            if flags[0] not in headers:
                header = headers[flags[0]] = os.path.join(folder, f"common{flags[0]}.h")
                Path(header).write_text(COMMON_HEADERS)
                compile_header = [*command, f"-I{sysconfig.get_path('include')}", *flags, "-x", "c-header", header]
                subprocess.run([*compile_header, "-o", f"{header}.gch"], capture_output=True, check=False)
            ext.extra_compile_args = [*flags, "-include", headers[flags[0]]]

    def is_current(self, ext: Extension) -> bool:
        """Whether the kernel compiled in this folder is newer than all that it is made of."""
        return not (self.force or newer_group([*ext.sources, *ext.depends], self.get_ext_filename(ext.name)))

    def build_extension(self, ext: Extension) -> None:
        """Compile a kernel, or copy the one compiled before."""
        there = self.get_ext_filename(ext.name)
        if not self.is_current(ext):
            super().build_extension(ext)
        elif os.path.abspath(there) != os.path.abspath(target := self.get_ext_fullpath(ext.name)):
            self.mkpath(os.path.dirname(target))
            self.copy_file(there, target)


# Cython makes millions of objects that stay; with Python's own threshold, collecting garbage is a quarter of its time.
gc.set_threshold(1_000_000)


def translate(modules: list[Extension]) -> None:
    """Translate the extensions' sources to C with Cython, on all processors, where the C files are older."""
    before = SETTINGS_FILE.read_text() if SETTINGS_FILE.exists() else None
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    translated = cythonize(
        modules,
        nthreads=min(processors, 8) if processors > 1 else 0,
        force=any(SWITCHES.values()) if before is None else not before.startswith(settings().split("\n")[0]),
        annotate=SWITCHES["ANNOTATE"],
        show_all_warnings=False,
        compiler_directives=DIRECTIVES,
        shared_utility_qualified_name=SHARED,
    )
    sources = {module.name: module.sources for module in translated}
    for module in modules:
        module.sources = sources[module.name]
    if before != settings():
        SETTINGS_FILE.parent.mkdir(exist_ok=True)
        SETTINGS_FILE.write_text(settings())
        if before is None and not any(SWITCHES.values()) and not SANITIZERS:  # a new folder: nothing has changed
            os.utime(SETTINGS_FILE, (0, 0))


if __name__ == "__main__":  # cythonize starts processes, which on some systems import this file
    setup(
        ext_modules=extensions(),
        cmdclass={"build_ext": BuildKernels, "sdist": PackSources},
        options={"build_ext": {"parallel": True}},  # as many C files at once as there are processors
    )
