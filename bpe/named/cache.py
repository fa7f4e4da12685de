"""The cache of downloaded files, and downloading.

A file is cached under the SHA-1 of its address, in hex, as tiktoken does it, in the folder that TIKTOKEN_CACHE_DIR
names, else DATA_GYM_CACHE_DIR, else `bpe` in the user's cache, which is this user's alone. An empty variable turns the
cache off. Where neither variable is set, tiktoken's own two folders are read too: `tiktoken` in the user's cache, and
`data-gym-cache` in the folder for temporary files. Other users may have made the latter, so only regular files of this
user or of root are read there, and nothing is written or removed. A file that a person put into a folder under its own
name, such as `cl100k_base.tiktoken`, is found if it has the published SHA-256. So are, before all folders, the files of
the package bytepair-vocabularies, which `vocabularies/build.py` of the repository builds.
`bpe/formats/openai_encodings.py` lists the files.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from bpe.base.atomic_files import atomic_write
from bpe.errors import FormatError, get_log, ignore_system_errors, pluralize, raise_if_of_signal_handler
from bpe.formats.openai_encodings import PublishedFile

#: The variables that name the folder; the first one that is set decides.
FOLDER_VARIABLES = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
#: The package of published files, which may be installed beside this one. It is not imported.
VOCABULARIES = "bytepair_vocabularies"
#: The most seconds that a server may take for an answer or for the next part of a file.
TIMEOUT_SECONDS = 60.0
#: The most bytes that are downloaded; the largest published file has 4 MB.
MAX_BYTES = 1 << 26

log = get_log()


def list_folders() -> list[Path]:
    """List the folders in which files are looked up, the one to write to first; none if the cache is off.

    Raises:
        FileExistsError: if the variable names a file.

    """
    for variable in FOLDER_VARIABLES:
        value = os.environ.get(variable)
        if value is None:
            continue
        if os.path.exists(value) and not os.path.isdir(value):
            raise FileExistsError(
                f"{variable} is {value!r}, a file; it must name a folder, which need not exist yet, or be empty to "
                "turn the cache off"
            )
        return [Path(value)] if value else []
    return [_find_user_cache() / "bpe", _find_user_cache() / "tiktoken", _find_shared_folder()]


def _find_shared_folder() -> Path:
    """Find the folder of tiktoken to which all users of the machine may write."""
    import tempfile  # it takes 3 ms to import

    return Path(tempfile.gettempdir()) / "data-gym-cache"


def _is_folder_chosen() -> bool:
    """Whether the user has chosen the folder."""
    return any(variable in os.environ for variable in FOLDER_VARIABLES)


def _find_user_cache() -> Path:
    """Find the folder for the caches of this user's programs."""
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"])
    home = Path(os.path.expanduser("~"))
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    return home / ".cache"


def make_cached_name(address: str) -> str:
    """Make the name of a file in the cache.

    >>> make_cached_name("https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken")
    '9b5ad71b2ce5302211f9c61530b329a4922fc6a4'
    """
    return hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()


def fetch_published(file: PublishedFile, *other_files: PublishedFile) -> bytes:
    """Read a published file from the cache, or download and cache it; a file without a SHA-256 may have any content.

    A failed download names this file and those of `other_files` that are not cached either. A cached file with another
    content is removed. If the default folder cannot be written to, the content is returned without being cached; a
    folder that a variable names must be writable.

    Raises:
        OSError: for a file that is not cached and cannot be downloaded, and for a folder that a variable names and
            that is a file or cannot be written to.
        FormatError: for downloaded content with another SHA-256.

    """
    folders = list_folders()
    data = _read_first_cached(file, folders)
    if data is not None:
        return data
    data = _download_new(file, other_files, folders)
    if folders:
        _write_cached(folders[0] / make_cached_name(file.address), data)
    return data


def _read_first_cached(file: PublishedFile, folders: list[Path]) -> bytes | None:
    """Read a file from the package of published files, else from the first folder that has it; None if none has."""
    published_name = file.address.rpartition("/")[2] if file.sha256 else ""  # such as cl100k_base.tiktoken
    spec = PathFinder.find_spec(VOCABULARIES) if published_name else None  # whatever sys.modules has under that name
    for installed_folder in (spec and spec.submodule_search_locations) or ():
        data = _read_cached(Path(installed_folder, published_name), file.sha256, None, remove=False)
        if data is not None:
            return data
    owners = {0, os.getuid()} if hasattr(os, "getuid") and not _is_folder_chosen() else None
    for folder in folders:
        data = _read_cached(folder / make_cached_name(file.address), file.sha256, owners)
        if data is None and published_name:
            data = _read_cached(folder / published_name, file.sha256, owners, remove=False)
        if data is not None:
            return data
    return None


def is_cached(file: PublishedFile) -> bool:
    """Whether a published file is installed or in the cache."""
    return _read_first_cached(file, list_folders()) is not None


def _read_cached(path: Path, sha256: str, owners: set[int] | None, *, remove: bool = True) -> bytes | None:
    """Read a cached file; None if it does not exist, cannot be read or has another content.

    With `owners`, a file of another user is not read. With `remove`, a file with another content is removed, if it is
    in no folder of other users.
    """
    try:
        data = _read_regular(path, owners)
    except OSError as error:
        raise_if_of_signal_handler(error)
        if not isinstance(error, FileNotFoundError):
            log.warning("%s is not used: %s", path, error)
        return None
    if not sha256 or hashlib.sha256(data).hexdigest() == sha256:
        return data
    if not remove or (path.parent == _find_shared_folder() and not _is_folder_chosen()):
        log.warning("%s does not have the SHA-256 %s; it is not used", path, sha256)
        return None
    log.warning("%s does not have the SHA-256 %s; it is removed and downloaded again", path, sha256)
    with ignore_system_errors():
        path.unlink()
    return None


def _read_regular(path: Path, owners: set[int] | None) -> bytes:
    """Read a regular file of at most MAX_BYTES bytes; with `owners`, no symbolic link and no file of another user."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a FIFO must not block
    if owners is not None:
        flags |= os.O_NOFOLLOW
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is not a regular file")
        if owners is not None and status.st_uid not in owners:
            raise OSError(f"it belongs to the user {status.st_uid}, neither to this user nor to root")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(f"it has more than {MAX_BYTES} bytes")
    return data


def _download_new(file: PublishedFile, other_files: tuple[PublishedFile, ...], folders: list[Path]) -> bytes:
    """Download a file that is not cached."""
    from http.client import HTTPException

    try:
        data = download(file.address)
    except (OSError, HTTPException) as error:
        missing = [file, *(other for other in other_files if _read_first_cached(other, folders) is None)]
        raise OSError(_explain_absence(missing, folders, error)) from None  # the message has the error in words
    sha256 = hashlib.sha256(data).hexdigest()
    if file.sha256 and sha256 != file.sha256:
        raise FormatError(
            f"{file.address} gave {pluralize(len(data), 'byte')} with the SHA-256 {sha256}; it must be {file.sha256}: "
            "try again, or look at what changes downloads on the way, such as a proxy"
        )
    return data


def download(address: str) -> bytes:
    """Download the content of an address.

    Raises:
        OSError, http.client.HTTPException: for an address that cannot be read.
        FormatError: for more than `MAX_BYTES` bytes.

    """
    from urllib.error import HTTPError
    from urllib.request import urlopen  # importing it takes as long as the rest of `import bpe`

    try:
        with urlopen(address, timeout=TIMEOUT_SECONDS) as response:
            data: bytes = response.read(MAX_BYTES + 1)
    except HTTPError as error:
        error.close()  # it is the response
        raise
    if len(data) > MAX_BYTES:
        raise FormatError(f"{address} gave more than {MAX_BYTES} bytes; download it with another program")
    return data


def _explain_absence(files: list[PublishedFile], folders: list[Path], error: Exception) -> str:
    """Explain what to do where files are not cached, and the first one cannot be downloaded."""
    first, *other_files = files
    reason = f"{first.address} cannot be downloaded ({type(error).__name__}: {error})"

    def list_names(start: str) -> str:
        names = [
            start + make_cached_name(file.address) + (f" (SHA-256 {file.sha256})" if file.sha256 else "")
            for file in files
        ]
        return "".join(
            [names[0], *(f", and {file.address} as {name}" for file, name in zip(other_files, names[1:], strict=True))]
        )

    if not folders:
        variable = next(variable for variable in FOLDER_VARIABLES if variable in os.environ)
        return (
            f"{reason}, and {variable} is empty, which turns the cache off; where there is no network, set "
            f"TIKTOKEN_CACHE_DIR to a folder that has this file as {list_names('')}"
        )
    searched = " and not in ".join(str(folder) for folder in folders)
    pronouns = ("them", "those names") if other_files else ("it", "that name")
    return (
        f"{reason}, and the file is not in {searched}; where there is a network, download it, and put it here as "
        f"{list_names(f'{folders[0]}{os.sep}')}, or set TIKTOKEN_CACHE_DIR to a folder that has {pronouns[0]} "
        f"under {pronouns[1]}, or as {' and '.join(file.address.rpartition('/')[2] for file in files)}"
    )


def _write_cached(path: Path, data: bytes) -> None:
    """Write a file to the cache."""
    is_folder_chosen = _is_folder_chosen()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o777 if is_folder_chosen else 0o700)
        if not is_folder_chosen:
            _check_owner(path.parent)
        with atomic_write(path, follow=False) as file:
            file.write(data)
    except OSError as error:
        raise_if_of_signal_handler(error)
        if is_folder_chosen:
            raise
        log.warning("%s cannot be written, so the file will be downloaded again next time: %s", path, error)


def _check_owner(folder: Path) -> None:
    """Refuse a folder to which another user could write."""
    status = folder.stat()
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        raise PermissionError(f"{folder} must belong to this user, and nobody else may write to it")
