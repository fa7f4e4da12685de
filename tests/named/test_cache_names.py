"""Files in the cache under their own names, and encodings that are built of another one's files."""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from bpe.formats.openai_encodings import FILES, PublishedFile
from bpe.named import cache, registry
from bpe.text.letters import spell_token_in_letters

VOCABULARIES = Path(__file__).resolve().parents[3] / "shared" / "data" / "vocab"
CONTENT = b"IQ== 0\n"
OWN = PublishedFile("https://example.org/folder/own.tiktoken", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))

    def refuse(address: str) -> bytes:
        raise OSError("there is no network")

    monkeypatch.setattr(cache, "download", refuse)
    return tmp_path


def test_a_file_is_found_under_its_own_name(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = folder / "own.tiktoken"
    assert not cache.is_cached(OWN)
    with pytest.raises(OSError, match=r"under that name, or as own\.tiktoken"):
        cache.fetch_published(OWN)
    path.write_bytes(CONTENT)
    assert cache.is_cached(OWN)
    assert cache.fetch_published(OWN) == CONTENT
    path.write_bytes(b"other")
    assert not cache.is_cached(OWN)
    assert path.read_bytes() == b"other"  # only files under the name of the cache are removed
    assert "does not have the SHA-256" in caplog.text
    (folder / cache.make_cached_name(OWN.address)).write_bytes(CONTENT)
    assert cache.fetch_published(OWN) == CONTENT


def test_a_file_of_unknown_content_is_not_found_by_its_name(folder: Path) -> None:
    (folder / "own.tiktoken").write_bytes(CONTENT)
    assert not cache.is_cached(OWN._replace(sha256=""))


def test_gpt2_is_built_of_the_file_of_r50k(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = VOCABULARIES / "r50k_base.tiktoken.gz"
    if not ranks.is_file():
        pytest.skip("the shared vocabularies are absent")
    monkeypatch.setattr(registry, "_encodings", {})
    (folder / cache.make_cached_name(FILES["r50k_base.tiktoken"].address)).write_bytes(
        gzip.decompress(ranks.read_bytes())
    )
    tok = registry.get_encoding("gpt2")
    assert tok == registry.get_encoding("r50k_base")
    assert tok.encode("hello world<|endoftext|>", allowed_special="all").tolist() == [31373, 995, 50256]
    wanted = json.loads(gzip.decompress((VOCABULARIES / "gpt2_vocab.json.gz").read_bytes()))
    assert {spell_token_in_letters(token): number for number, token in tok.spec.vocabulary.items(1)} == {
        token: number for token, number in wanted.items() if token != "<|endoftext|>"
    }


@pytest.mark.parametrize("module", [None, ModuleType(cache.VOCABULARIES)])
def test_installed_files_are_found_whatever_module_has_the_name_of_their_package(
    module: ModuleType | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = folder / cache.VOCABULARIES
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('it is imported')")
    (package / "own.tiktoken").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setitem(sys.modules, cache.VOCABULARIES, module)
    assert cache.fetch_published(OWN) == CONTENT
