"""Build a wheel of OpenAI's rank files, with which `bpe.get_encoding` works without a network.

    python vocabularies/build.py [FOLDER] [-o OUT]

Takes the rank files that FOLDER has, as published or gzipped; without FOLDER, all of them from the cache of
`bpe.get_encoding` or from OpenAI. Each must have its published SHA-256. The wheel of the package bytepair-vocabularies
is written into OUT, by default `dist` in the current folder. The files are not part of this repository. OpenAI's
licence of tiktoken (MIT, in LICENSE) applies to them too, as https://github.com/openai/tiktoken/issues/92 says; the
wheel contains it.

It needs setuptools, and downloads nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bpe.errors import FormatError, with_path
from bpe.formats.openai_encodings import FILES, PublishedFile
from bpe.formats.packed import unpack
from bpe.named.cache import VOCABULARIES, fetch_published

HERE = Path(__file__).resolve().parent
RANK_FILES = {name: file for name, file in FILES.items() if name.endswith(".tiktoken")}


def read_published(folder: Path, name: str, file: PublishedFile) -> bytes | None:
    """Read a rank file of a folder; None if the folder does not have it."""
    path = next((path for path in (folder / name, folder / f"{name}.gz") if path.exists()), None)
    if path is None:
        return None
    with with_path(path):
        data = unpack(path.read_bytes())
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256 != file.sha256:
        raise FormatError(f"{path} has the SHA-256 {sha256}; that of the published file is {file.sha256}")
    return data


def build_wheel(contents: dict[str, bytes], out: Path) -> None:
    """Write the wheel of rank files by name into a folder."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        shutil.copytree(HERE, source, ignore=shutil.ignore_patterns("build.py", "__pycache__"))
        for name, data in contents.items():
            (source / VOCABULARIES / name).write_bytes(data)
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out)]
        subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(source)], check=True)


def main() -> None:
    """Parse the command line, read and check the files, build the wheel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="where the rank files are")
    parser.add_argument("-o", "--out", type=Path, default=Path("dist"), help="where the wheel is written; default dist")
    options = parser.parse_args()
    contents: dict[str, bytes] = {}
    for name, file in RANK_FILES.items():
        data = fetch_published(file) if options.folder is None else read_published(options.folder, name, file)
        if data is None:
            print(f"{options.folder} has no {name}: it is left out")
        else:
            contents[name] = data
    if not contents:
        raise FormatError(f"{options.folder} has none of {', '.join(RANK_FILES)}")
    build_wheel(contents, options.out)
    print(f"{options.out}: a wheel with {', '.join(contents)}")


if __name__ == "__main__":
    try:
        main()
    except (FormatError, OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(str(error)) from None
