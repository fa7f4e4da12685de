"""Tokenizers of the Hugging Face Hub: finds and downloads the files of a repository through `huggingface_hub`.

Files are taken one by one, the first set of `FILE_SETS` that the repository has: tokenizer.json, tekken.json,
vocab.json with merges.txt, tiktoken.model or qwen.tiktoken, tokenizer.model; and, where there are any, the files that
say which tokens are added and which roles they have, and those of chat templates. Weights are never downloaded. The
cache, the endpoint, the token and offline mode are those of `huggingface_hub`: HF_HOME, HF_HUB_CACHE, HF_ENDPOINT,
HF_TOKEN, HF_HUB_OFFLINE.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from bpe.errors import describe, short_repr
from bpe.formats.signatures import (
    CHAT_TEMPLATE_FILE,
    CHAT_TEMPLATE_FOLDER,
    CONFIG_JSON,
    CONFIGURATION_FILES,
    MERGES_TXT,
    QWEN_TIKTOKEN,
    SENTENCEPIECE_MODEL,
    TEKKEN_JSON,
    TIKTOKEN_MODEL,
    TOKENIZER_JSON,
    VOCAB_JSON,
)


class FileSet(NamedTuple):
    """The files of a tokenizer in a repository.

    Attributes:
        format: the name of their format.
        required: the files without which there is no tokenizer.
        optional: the files that say more of the tokenizer; chat_template.jinja stands for all files of chat templates.

    """

    format: str
    required: tuple[str, ...]
    optional: tuple[str, ...]


#: The files beside a tokenizer's own that say more of it.
_MORE_FILES = (*CONFIGURATION_FILES, CHAT_TEMPLATE_FILE)
#: The files to look for, in the order of `loading.detect_folder_format`.
FILE_SETS = (
    FileSet("huggingface", (TOKENIZER_JSON,), _MORE_FILES),
    FileSet("tekken", (TEKKEN_JSON,), (CONFIG_JSON, CHAT_TEMPLATE_FILE)),
    FileSet("vocab-merges", (VOCAB_JSON, MERGES_TXT), _MORE_FILES),
    FileSet("tiktoken-folder", (TIKTOKEN_MODEL, CONFIG_JSON), (CHAT_TEMPLATE_FILE,)),
    FileSet("tiktoken-folder", (QWEN_TIKTOKEN, CONFIG_JSON), (CHAT_TEMPLATE_FILE,)),
    FileSet("sentencepiece", (SENTENCEPIECE_MODEL,), _MORE_FILES),
)
#: A pattern of the names of all these files, and of those of chat templates; `hf download` takes only one.
_DOWNLOAD_PATTERN = "*.[jmt]*"


class _NotCachedError(Exception):
    """Raised for a file that is not cached and cannot be downloaded now."""


def fetch(
    name: str, revision: str | None = None, *, token: str | bool | None = None, from_cache: bool = False
) -> tuple[Path, str]:
    """Find the tokenizer of a repository, downloaded if it is not cached; returns its path and its format.

    All files are of one commit.

    Args:
        name: the repository, "org/name".
        revision: a branch, a tag or a commit; None for the main branch.
        token: as for `huggingface_hub`: a token, True for the saved one, None for the saved one if it is needed.
        from_cache: download nothing, as the command line without --download.

    Raises:
        TypeError: if the name or the revision is not a str.
        ModuleNotFoundError: where huggingface_hub is not installed.
        OSError: for a repository that does not exist, has no tokenizer, or is neither cached nor can be downloaded.

    """
    for argument, value in (("name", name), ("revision", revision)):
        if not isinstance(value, str) and (argument == "name" or value is not None):
            raise TypeError(f"{argument} is {describe(value)}; it must be a str, such as 'openai-community/gpt2'")
    try:
        import huggingface_hub
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"from_pretrained needs {error.name}: pip install 'bytepair[hub]'", name=error.name
        ) from None
    repository = _Repository(huggingface_hub, name, token, revision, is_reachable=not from_cache)
    missing: _NotCachedError | None = None
    for file_set in FILE_SETS:
        try:
            path = repository.fetch_set(file_set)
        except _NotCachedError as error:
            missing = missing or error
            continue
        except HFValidationError as error:
            raise OSError(f"name is {short_repr(name)}, which is neither a folder nor a repository: {error}") from None
        except HfHubHTTPError as error:
            reason = " ".join(str(error).split())
            raise OSError(f"{name} cannot be loaded from the Hub ({type(error).__name__}: {reason})") from error
        if path is not None:
            return path, file_set.format
    file_sets = ", ".join(" and ".join(file_set.required) for file_set in FILE_SETS)
    if missing is None:
        at_revision = "" if revision is None else f" at revision {revision}"
        raise FileNotFoundError(f"{name}{at_revision} has no tokenizer that is known; it must have {file_sets}")
    if from_cache:
        raise FileNotFoundError(
            f"{name} is no file or folder here, and as a repository of the Hub it is not in the cache "
            f"{huggingface_hub.constants.HF_HUB_CACHE}; give --download to get its tokenizer from there"
        )
    raise OSError(_explain_absence(huggingface_hub, name, revision, missing))


def is_cached(name: str) -> bool:
    """Whether the cache has something of a repository; False where huggingface_hub is not installed."""
    try:
        from huggingface_hub import constants
    except ModuleNotFoundError:
        return False
    return _get_cache_folder(constants, name).is_dir()


def _get_cache_folder(constants: Any, name: str) -> Path:
    """Return the folder of a repository in the cache."""
    return Path(constants.HF_HUB_CACHE, f"models--{name.replace('/', '--')}")


@dataclass
class _Repository:
    """A repository, whose files are downloaded until the Hub cannot be reached, and then come from the cache only.

    huggingface_hub tries for 23 seconds to download a file that is not cached: so it must not try for each file.

    Attributes:
        hub: the module `huggingface_hub`.
        name, token: as for `fetch`.
        revision: as for `fetch`; from the first file on, the commit of that file.
        is_reachable: whether the Hub has answered all requests.

    """

    hub: Any
    name: str
    token: str | bool | None
    revision: str | None
    is_reachable: bool = True

    def fetch_set(self, file_set: FileSet) -> Path | None:
        """Fetch the files of a set: returns their folder; None if a required one does not exist.

        Raises:
            _NotCachedError: for a required file, as `fetch_file`.

        """
        folder: Path | None = None
        for file in file_set.required:
            path = self.fetch_file(file)
            if path is None:
                return None
            folder = path.parent
        for file in file_set.optional:
            self._fetch_optional(file)
        if folder is not None and (folder / CHAT_TEMPLATE_FILE).exists():
            for file in self._list_named_templates():
                self._fetch_optional(file)
        return folder

    def fetch_file(self, file: str) -> Path | None:
        """Find a file in the cache, downloaded if necessary; None if the repository does not have it.

        Raises:
            _NotCachedError: for a file that is not cached, if it cannot be downloaded or an earlier one could not.

        """
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        if self._is_known_absent(file):
            return None
        try:
            path = Path(
                self.hub.hf_hub_download(
                    self.name, file, revision=self.revision, token=self.token, local_files_only=not self.is_reachable
                )
            )
        except LocalEntryNotFoundError as error:
            self.is_reachable = False
            raise _NotCachedError(" ".join(str(error.__cause__ or error).split())) from None
        except EntryNotFoundError:
            return None
        self.revision = path.parent.name
        return path

    def _fetch_optional(self, file: str) -> None:
        """Download a file that the tokenizer can do without, if the repository has it and the Hub answers at once."""
        is_cached = self.hub.try_to_load_from_cache(self.name, file, revision=self.revision) is not None
        if not is_cached and self.is_reachable and self._exists(file) is False:
            return
        with suppress(_NotCachedError):
            self.fetch_file(file)

    def _list_named_templates(self) -> list[str]:
        """List the files of the chat templates with names; none if the Hub does not answer."""
        from huggingface_hub.errors import EntryNotFoundError

        if not self.is_reachable:
            return []
        try:
            entries = self.hub.list_repo_tree(self.name, CHAT_TEMPLATE_FOLDER, revision=self.revision, token=self.token)
            names = [PurePosixPath(entry.path).name for entry in entries]  # whatever folder the answer names
            return [f"{CHAT_TEMPLATE_FOLDER}/{name}" for name in names if name.endswith(".jinja")]
        except EntryNotFoundError:
            return []
        except Exception:  # noqa: BLE001  # those of the HTTP package that the installed huggingface_hub uses
            self.is_reachable = False
            return []

    def _is_known_absent(self, file: str) -> bool:
        """Whether an earlier call found that the repository does not have a file, and this is so still."""
        cached_path = self.hub.try_to_load_from_cache(self.name, file, revision=self.revision)
        if cached_path is None or isinstance(cached_path, str):
            return False
        if self.is_reachable and re.fullmatch("[0-9a-f]{40}", self.revision or "") is None:  # a branch gets new commits
            return not self._exists(file)
        return True

    def _exists(self, file: str) -> bool | None:
        """Whether the repository has a file now; None if the Hub does not answer; it is not asked again."""
        try:
            exists: bool = self.hub.file_exists(self.name, file, revision=self.revision, token=self.token)
        except Exception:  # noqa: BLE001  # those of the HTTP package that the installed huggingface_hub uses
            self.is_reachable = False
            return None
        return exists


def _explain_absence(hub: Any, name: str, revision: str | None, reason: Exception) -> str:
    """Explain what to do where nothing is cached and nothing can be downloaded."""
    folder = _get_cache_folder(hub.constants, name)
    option = "" if revision is None else f" --revision {revision}"
    reason_offline = f"{hub.constants.ENDPOINT} cannot be reached ({reason}; with HF_HUB_OFFLINE=1, it is not tried)"
    if hub.constants.HF_HUB_OFFLINE:
        reason_offline = "HF_HUB_OFFLINE is set"
    return (
        f"{name} is not in the cache {folder.parent}, and {reason_offline}; where there is a network, run "
        f"`hf download {name} --include '{_DOWNLOAD_PATTERN}'{option}`, and copy the folder {folder.name} of that "
        f"cache to {os.fspath(folder)} here; or put these files into any folder, and load it with "
        "Tokenizer.load(folder)"
    )
