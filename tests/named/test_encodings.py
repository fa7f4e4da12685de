"""Encodings by name: tiktoken's cache folder and checksums, downloading from a server on loopback, plugins, presets."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from loopback import SilentHandler, serve

import bpe
from bpe.formats.openai_encodings import ENCODINGS, FILES, MODEL_PREFIXES, MODELS, PublishedFile
from bpe.named import cache, registry
from bpe.text.letters import spell_token_in_letters

TEXTS = ["low lower lowest", "new newer newest", "naïve café 낮"] * 5


def small_ranks() -> dict[bytes, int]:
    """A small vocabulary in the form of tiktoken's."""
    return bpe.train(texts=TEXTS, vocab_size=280, pretokenizer="gpt2").vocab()


def make_rank_file(ranks: dict[bytes, int]) -> bytes:
    return b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items())


@dataclass
class Server:
    """What a server on loopback has, by path, and the paths that were asked for."""

    address: str
    contents: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    cut: bool = False  # end each answer before the length that its header gives


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")

    class Answers(SilentHandler, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            data = found.contents.get(self.path)
            self.send_response(404 if data is None else 200)
            self.send_header("Content-Length", str(len(data or b"") + found.cut))
            self.end_headers()
            self.wfile.write(data or b"")

    with serve(Answers) as address:
        found = Server(address)
        yield found


@pytest.fixture
def reset_registry(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """An empty registry; a function that empties it again."""
    monkeypatch.setattr(registry, "_encodings", {})
    return registry._encodings.clear


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that TIKTOKEN_CACHE_DIR names; it does not exist yet."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def published(server: Server, reset_registry: object, monkeypatch: pytest.MonkeyPatch) -> PublishedFile:
    """The rank file of cl100k_base, a small one, on the server."""
    data = make_rank_file(small_ranks())
    server.contents["/cl100k_base.tiktoken"] = data
    file = PublishedFile(f"{server.address}/cl100k_base.tiktoken", hashlib.sha256(data).hexdigest())
    monkeypatch.setitem(FILES, "cl100k_base.tiktoken", file)
    return file


def write_cached(folder: Path, file: PublishedFile) -> Path:
    return folder / hashlib.sha1(file.address.encode()).hexdigest()


# The cache folder -----------------------------------------------------------------------------------------------------


def test_a_file_is_downloaded_once_and_named_by_the_hash_of_its_address(
    server, reset_registry, folder, published
) -> None:
    tok = bpe.get_encoding("cl100k_base")
    assert tok is bpe.get_encoding("cl100k_base") is bpe.encoding_for_model("gpt-4")
    assert [path.name for path in folder.iterdir()] == [hashlib.sha1(published.address.encode()).hexdigest()]
    reset_registry()
    assert bpe.get_encoding("cl100k_base") == tok
    assert server.asked == ["/cl100k_base.tiktoken"]
    assert tok.special_tokens == ENCODINGS["cl100k_base"].special_tokens
    assert tok.encode("lower<|endofprompt|>", allowed_special="all")[-1] == 100276


def test_two_threads_download_a_file_once(server, folder, published) -> None:
    found: list[bpe.Tokenizer] = []
    threads = [threading.Thread(target=lambda: found.append(bpe.get_encoding("cl100k_base"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
    assert len(server.asked) == 1


def test_the_first_variable_that_is_set_names_the_folder(tmp_path, monkeypatch, published, reset_registry) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(tmp_path / "gym"))
    assert cache.list_folders() == [tmp_path / "gym"]
    bpe.get_encoding("cl100k_base")
    assert write_cached(tmp_path / "gym", published).exists()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "tik"))
    reset_registry()
    bpe.get_encoding("cl100k_base")
    assert write_cached(tmp_path / "tik", published).exists()


@pytest.mark.parametrize("variable", cache.FOLDER_VARIABLES)
def test_an_empty_variable_turns_the_cache_off(
    server, tmp_path, monkeypatch, published, reset_registry, variable
) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(tmp_path / "gym"))
    monkeypatch.setenv(variable, "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    for _ in range(2):
        bpe.get_encoding("cl100k_base")
        reset_registry()
    assert len(server.asked) == 2
    assert list(tmp_path.iterdir()) == []
    server.contents.clear()
    with pytest.raises(
        OSError, match=rf"cannot be downloaded \(HTTPError.*, and {variable} is empty, which turns the "
    ):
        bpe.get_encoding("cl100k_base")


@pytest.fixture
def unset(tmp_path, monkeypatch) -> None:
    """No variable names the cache folder; the user's cache and the folder for temporary files are below `tmp_path`."""
    for variable in cache.FOLDER_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))


@pytest.mark.parametrize("elsewhere", [Path("user", "tiktoken"), Path("tmp", "data-gym-cache")])
def test_without_variables_both_folders_of_tiktoken_are_read(
    server, tmp_path, unset, published, reset_registry, elsewhere
) -> None:
    first = bpe.get_encoding("cl100k_base")
    assert (tmp_path / "user" / "bpe").stat().st_mode & 0o777 == 0o700
    (tmp_path / elsewhere).mkdir(parents=True)
    write_cached(tmp_path / "user" / "bpe", published).rename(write_cached(tmp_path / elsewhere, published))
    reset_registry()
    assert bpe.get_encoding("cl100k_base") == first
    assert len(server.asked) == 1


#: What another user may put into the shared folder.
TRAPS = {
    "link": lambda path, victim: path.symlink_to(victim),
    "fifo": lambda path, _: os.mkfifo(path),
    "device": lambda path, _: path.symlink_to("/dev/zero"),
    "wrong content": lambda path, _: path.write_bytes(b"wrong"),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_what_another_user_put_into_the_shared_folder_is_neither_used_nor_changed(
    server, tmp_path, unset, published, reset_registry, trap
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    shared = tmp_path / "tmp" / "data-gym-cache"
    shared.mkdir(parents=True)
    TRAPS[trap](write_cached(shared, published), victim)
    before = write_cached(shared, published).lstat()
    first = bpe.get_encoding("cl100k_base")
    reset_registry()
    assert bpe.get_encoding("cl100k_base") == first
    assert len(server.asked) == 1
    assert victim.read_bytes() == b"precious"
    assert os.path.samestat(write_cached(shared, published).lstat(), before)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_files_of_other_users_in_the_shared_folder_are_not_read(
    server, tmp_path, unset, published, reset_registry
) -> None:
    bpe.get_encoding("cl100k_base")
    shared = tmp_path / "tmp" / "data-gym-cache"
    shared.mkdir(parents=True)
    write_cached(tmp_path / "user" / "bpe", published).rename(write_cached(shared, published))
    reset_registry()
    os.chown(write_cached(shared, published), 12345, -1)
    bpe.get_encoding("cl100k_base")
    assert len(server.asked) == 2


def test_a_cache_to_which_others_may_write_is_not_written(
    server, tmp_path, unset, published, reset_registry, caplog
) -> None:
    (tmp_path / "user" / "bpe").mkdir(parents=True)
    (tmp_path / "user" / "bpe").chmod(0o777)
    bpe.get_encoding("cl100k_base")
    assert list((tmp_path / "user" / "bpe").iterdir()) == []
    assert "nobody else may write to it" in caplog.text


@pytest.mark.parametrize("chosen", [True, False])
def test_a_link_in_the_cache_is_replaced_not_followed(
    server, tmp_path, unset, published, reset_registry, chosen, monkeypatch
) -> None:
    folder = tmp_path / "user" / "bpe"
    folder.mkdir(parents=True, mode=0o700)
    if chosen:
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    write_cached(folder, published).symlink_to(victim)
    bpe.get_encoding("cl100k_base")
    assert victim.read_bytes() == b"precious"
    assert not write_cached(folder, published).is_symlink()


def test_a_file_with_another_content_is_removed_and_downloaded_again(server, folder, published, caplog) -> None:
    folder.mkdir()
    write_cached(folder, published).write_bytes(make_rank_file(small_ranks())[:-9])
    bpe.get_encoding("cl100k_base")
    assert "is removed and downloaded again" in caplog.text
    assert hashlib.sha256(write_cached(folder, published).read_bytes()).hexdigest() == published.sha256
    assert len(server.asked) == 1


def test_a_folder_that_cannot_be_written_is_an_error_only_if_a_variable_names_it(
    tmp_path, monkeypatch, published, reset_registry, caplog
) -> None:
    (tmp_path / "data-gym-cache").write_bytes(b"a file where the folder should be")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "data-gym-cache"))
    with pytest.raises(OSError, match="data-gym-cache"):
        bpe.get_encoding("cl100k_base")
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "data-gym-cache"))
    assert bpe.get_encoding("cl100k_base").n_vocab == 100277
    assert "will be downloaded again next time" in caplog.text


# The package of published files ---------------------------------------------------------------------------------------


@pytest.fixture
def installed(published, tmp_path, monkeypatch) -> Path:
    """The rank file of cl100k_base in the package bytepair-vocabularies, which is on the path."""
    path = tmp_path / "site" / cache.VOCABULARIES / "cl100k_base.tiktoken"
    path.parent.mkdir(parents=True)
    (path.parent / "__init__.py").write_text("raise AssertionError('the package is not imported')")
    path.write_bytes(make_rank_file(small_ranks()))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return path


@pytest.mark.parametrize("chosen", ["a folder", "", None])
def test_an_installed_file_is_used_before_the_cache_and_the_network(
    server, unset, folder, installed, monkeypatch, chosen
) -> None:
    if chosen == "":
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    elif chosen is None:
        monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    if os.getuid() == 0:
        os.chown(installed, 12345, -1)  # whoever installed it
    assert bpe.get_encoding("cl100k_base").encode("low").tolist() == [small_ranks()[b"low"]]
    assert server.asked == []
    assert not folder.exists()


def test_an_installed_file_with_another_content_is_neither_used_nor_removed(server, folder, installed, caplog) -> None:
    installed.write_bytes(make_rank_file(small_ranks())[:-9])
    assert bpe.get_encoding("cl100k_base").n_vocab == 100277
    assert "cl100k_base.tiktoken does not have the SHA-256" in caplog.text
    assert installed.exists()
    assert len(server.asked) == 1


def test_a_module_with_the_name_of_the_package_has_no_files(server, folder, installed) -> None:
    for path in installed.parent.iterdir():
        path.unlink()
    installed.parent.rmdir()
    installed.parent.with_suffix(".py").write_text("raise AssertionError('it is not imported')")
    bpe.get_encoding("cl100k_base")
    assert len(server.asked) == 1


# Downloads that fail --------------------------------------------------------------------------------------------------


def test_offline_the_error_says_which_file_to_put_where(server, folder, published, monkeypatch) -> None:
    server.contents.clear()
    with pytest.raises(OSError, match="HTTP Error 404") as caught:
        bpe.get_encoding("cl100k_base")
    text = str(caught.value)
    assert published.address in text
    assert f"put it here as {write_cached(folder, published)} (SHA-256 {published.sha256})" in text
    closed = published._replace(address="http://127.0.0.1:9/cl100k_base.tiktoken")
    monkeypatch.setitem(FILES, "cl100k_base.tiktoken", closed)
    with pytest.raises(OSError, match="Connection refused") as caught:
        bpe.get_encoding("cl100k_base")
    assert str(write_cached(folder, closed)) in str(caught.value)
    folder.mkdir()
    write_cached(folder, closed).write_bytes(make_rank_file(small_ranks()))  # the advice helps
    assert bpe.get_encoding("cl100k_base").n_vocab == 100277


def test_offline_the_error_names_both_files_of_gpt2(server, folder, reset_registry, monkeypatch) -> None:
    files = []
    for name in ("vocab.bpe", "encoder.json"):
        file = PublishedFile(f"{server.address}/{name}", hashlib.sha256(name.encode()).hexdigest())
        monkeypatch.setitem(FILES, name, file)
        files.append(file)
    with pytest.raises(OSError, match="HTTP Error 404") as caught:
        bpe.get_encoding("gpt2")
    first, second = (f"{write_cached(folder, file)} (SHA-256 {file.sha256})" for file in files)
    end = f"and put it here as {first}, and {files[1].address} as {second}, or set TIKTOKEN_CACHE_DIR to a folder that "
    assert str(caught.value).endswith(f"{end}has them under those names, or as vocab.bpe and encoder.json")
    folder.mkdir()
    write_cached(folder, files[1]).write_bytes(b"encoder.json")
    with pytest.raises(OSError, match=r"vocab\.bpe cannot be downloaded") as caught:
        bpe.get_encoding("gpt2")
    assert str(caught.value).endswith(
        f"and put it here as {first}, or set TIKTOKEN_CACHE_DIR to a folder that has it under that name, or as "
        "vocab.bpe"
    )
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    with pytest.raises(
        OSError, match=r"is empty, which turns the cache off; .* as [0-9a-f]{40} .*, and http.* as [0-9a-f]{40}"
    ):
        bpe.get_encoding("gpt2")


@pytest.mark.parametrize("variable", cache.FOLDER_VARIABLES)
def test_a_variable_that_names_a_file_is_an_error(server, tmp_path, monkeypatch, published, variable) -> None:
    for each in cache.FOLDER_VARIABLES:
        monkeypatch.delenv(each, raising=False)
    (tmp_path / "file").write_bytes(b"x")
    monkeypatch.setenv(variable, str(tmp_path / "file"))
    with pytest.raises(
        FileExistsError, match=rf"^{variable} is '.*file', a file; it must name a folder, which need not"
    ):
        bpe.get_encoding("cl100k_base")
    assert server.asked == []  # tiktoken downloads the file first, and then raises FileExistsError


def test_a_download_with_another_content_is_neither_used_nor_cached(server, folder, published) -> None:
    server.contents["/cl100k_base.tiktoken"] += b"IQ== 9\n"
    with pytest.raises(bpe.FormatError, match=f"it must be {published.sha256}: try again"):
        bpe.get_encoding("cl100k_base")
    server.contents["/cl100k_base.tiktoken"], server.cut = b"IQ== 0\n", True
    with pytest.raises(bpe.FormatError, match="gave 7 bytes with the SHA-256"):
        bpe.get_encoding("cl100k_base")
    assert not folder.exists()


def test_no_more_than_the_limit_is_downloaded(server, folder, published, monkeypatch) -> None:
    monkeypatch.setattr(cache, "MAX_BYTES", 100)
    with pytest.raises(ValueError, match="gave more than 100 bytes"):
        bpe.get_encoding("cl100k_base")


# Names and models -----------------------------------------------------------------------------------------------------


def test_the_data_is_that_of_tiktoken(monkeypatch) -> None:
    pytest.importorskip("tiktoken", minversion="0.14")
    public = pytest.importorskip("tiktoken_ext.openai_public", reason="tiktoken is not installed")
    model = pytest.importorskip("tiktoken.model")
    asked: list[tuple[str, str]] = []

    def load(address: str, expected_hash: str) -> dict[bytes, int]:
        asked.append((address, expected_hash))
        return {}

    def load_both(**files: str) -> dict[bytes, int]:
        asked.extend((files[f"{kind}_file"], files[f"{kind}_hash"]) for kind in ("vocab_bpe", "encoder_json"))
        return {}

    monkeypatch.setattr(public, "load_tiktoken_bpe", load)
    monkeypatch.setattr(public, "data_gym_to_mergeable_bpe_ranks", load_both)
    assert list(ENCODINGS) == list(public.ENCODING_CONSTRUCTORS)
    for name, constructor in public.ENCODING_CONSTRUCTORS.items():
        asked.clear()
        theirs, ours = constructor(), ENCODINGS[name]
        assert [FILES[file] for file in ours.files] == asked
        assert bpe.Pretokenizer(ours.pattern).pattern == theirs["pat_str"]
        assert list(ours.special_tokens.items()) == list(theirs["special_tokens"].items())
        assert ours.n_vocab == theirs.get("explicit_n_vocab")
    assert model.MODEL_TO_ENCODING == MODELS
    assert list(model.MODEL_PREFIX_TO_ENCODING.items()) == list(MODEL_PREFIXES.items())


def test_models() -> None:
    assert registry.encoding_name_for_model(model_name="gpt2") == "gpt2"
    assert registry.encoding_name_for_model("text-davinci-edit-001") == "p50k_edit"
    assert registry.encoding_name_for_model("gpt-3.5-turbo-0301") == "cl100k_base"
    assert registry.encoding_name_for_model("gpt-oss-120b") == "o200k_harmony"
    with pytest.raises(KeyError, match=r"'llama', whose encoding is not known; use get_encoding"):
        bpe.encoding_for_model("llama")
    with pytest.raises(TypeError, match="model_name is 3, an int"):
        bpe.encoding_for_model(3)  # type: ignore[arg-type]


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match=r"'cl100k' is not known; did you mean cl100k_base\?; OpenAI's are 'gpt2', "):
        bpe.get_encoding("cl100k")
    with pytest.raises(TypeError, match="name is None"):
        bpe.get_encoding(None)  # type: ignore[arg-type]


def test_gpt2_comes_from_its_two_files(server, folder, reset_registry, monkeypatch) -> None:
    tok = bpe.train(texts=TEXTS, vocab_size=280, pretokenizer="gpt2")
    pairs = [[spell_token_in_letters(tok.token_bytes(number)) for number in pair] for pair in tok.merges.tolist()]
    merges = "\n".join(["#version: 0.2", *(" ".join(pair) for pair in pairs), ""]).encode()
    ids: dict[str, Any] = {spell_token_in_letters(token): number for token, number in tok.vocab().items()}
    encoder = json.dumps({**ids, "<|endoftext|>": 280}).encode()
    for name, data in (("vocab.bpe", merges), ("encoder.json", encoder)):
        server.contents[f"/{name}"] = data
        file = PublishedFile(f"{server.address}/{name}", hashlib.sha256(data).hexdigest())
        monkeypatch.setitem(FILES, name, file)
    monkeypatch.setitem(
        ENCODINGS, "gpt2", replace(ENCODINGS["gpt2"], special_tokens={"<|endoftext|>": 280}, n_vocab=281)
    )  # type: ignore[arg-type]
    found = bpe.get_encoding("gpt2")
    assert server.asked == ["/vocab.bpe", "/encoder.json"]
    for text in TEXTS:
        assert found.encode(text).tolist() == tok.encode(text).tolist()
    reset_registry()
    other = json.dumps({**ids, "zz": 281}).encode()
    path = write_cached(folder, FILES["encoder.json"])
    monkeypatch.setitem(FILES, "encoder.json", FILES["encoder.json"]._replace(sha256=hashlib.sha256(other).hexdigest()))
    path.write_bytes(other)
    with pytest.raises(bpe.FormatError, match="the files must belong together"):
        bpe.get_encoding("gpt2")


def test_the_number_of_tokens_is_checked(server, folder, reset_registry, monkeypatch) -> None:
    data = make_rank_file(small_ranks())
    server.contents["/p50k"] = data
    file = PublishedFile(f"{server.address}/p50k", hashlib.sha256(data).hexdigest())
    monkeypatch.setitem(FILES, "p50k_base.tiktoken", file)
    with pytest.raises(ValueError, match="explicit_n_vocab of 'p50k_base' is 50281, but there are 281 tokens"):
        bpe.get_encoding("p50k_base")
    edit = bpe.get_encoding("p50k_edit")
    assert edit.special_tokens["<|fim_suffix|>"] == 50283
    assert len(server.asked) == 1


@pytest.mark.parametrize("name", ["gpt2", "r50k_base", "cl100k_base", "o200k_base", "o200k_harmony"])
def test_published_encodings(name, openai_files, monkeypatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(openai_files(name)))
    tok = bpe.get_encoding(name)
    assert tok.special_tokens == ENCODINGS[name].special_tokens
    assert tok.pretokenizer == bpe.Pretokenizer(ENCODINGS[name].pattern)
    assert tok.decode(tok.encode("Hello, <|endoftext|>", allowed_special="all")) == "Hello, <|endoftext|>"


def test_two_special_tokens_may_share_an_id(openai_files, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(openai_files("o200k_harmony")))
    tok = bpe.get_encoding("o200k_harmony")
    assert tok.encode("<|reserved_200018|><|endofprompt|>", allowed_special="all").tolist() == [200018, 200018]
    assert tok.decode([200018]) == "<|endofprompt|>"
    with pytest.raises(ValueError, match=r"have the same id, 200018; in a tokenizer\.json, each has its own"):
        tok.save(tmp_path / "tokenizer.json")


# Plugins --------------------------------------------------------------------------------------------------------------

PLUGIN = """
def made():
    return {
        "name": "own",
        "pat_str": r"\\w+|\\W",
        "mergeable_ranks": {b"a": 0, b"b": 1, b"ab": 2},
        "special_tokens": {"<e>": 3},
    }
ENCODING_CONSTRUCTORS = {"own": made}
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch, reset_registry) -> Iterator[Callable[[str, str], None]]:
    """A function that writes a module of the namespace `tiktoken_ext`."""
    (tmp_path / "tiktoken_ext").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def write(name: str, code: str) -> None:
        (tmp_path / "tiktoken_ext" / f"{name}.py").write_text(code)

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("tiktoken_ext"):
            del sys.modules[name]


def test_a_plugin_defines_an_encoding(plugin) -> None:
    plugin("bpe_plugin_a", PLUGIN)
    assert bpe.named.list_encoding_names() == [*ENCODINGS, "own"]
    tok = bpe.get_encoding("own")
    assert tok.encode("abb<e>", allowed_special="all").tolist() == [2, 1, 3]


def test_faulty_plugins_are_refused_and_harm_no_other_name(plugin, openai_files, monkeypatch) -> None:
    plugin("bpe_plugin_b", "x = 1")
    with pytest.raises(ValueError, match=r"plugin tiktoken_ext\.bpe_plugin_b does not define ENCODING_CONSTRUCTORS"):
        bpe.get_encoding("own")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(openai_files("r50k_base")))
    assert bpe.get_encoding("r50k_base").vocab_size == 50257
    plugin("bpe_plugin_b", PLUGIN.replace('{"own": made}', '{"cl100k_base": made}'))
    sys.modules.pop("tiktoken_ext.bpe_plugin_b")
    with pytest.raises(ValueError, match="defines the encoding 'cl100k_base', which exists already"):
        bpe.named.list_encoding_names()


# Imports --------------------------------------------------------------------------------------------------------------


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_neither_import_loads_tiktoken_or_what_downloads() -> None:
    run("""
import sys, bpe
assert not {"urllib.request", "tempfile", "pkgutil", "bpe.compat.tiktoken", "tiktoken", "requests"} & set(sys.modules)
import bpe.compat.tiktoken as tiktoken
assert tiktoken.encoding_name_for_model("gpt-4o") == "o200k_base"
assert not {"urllib.request", "tiktoken", "tiktoken_ext", "requests"} & set(sys.modules)
try:
    tiktoken.get_encoding("no such encoding")
except ValueError:
    pass
assert "urllib.request" not in sys.modules or "tiktoken" in sys.modules
""")


# Presets of from_tiktoken ---------------------------------------------------------------------------------------------


def test_the_name_of_an_encoding_gives_its_special_tokens(tmp_path) -> None:
    path = tmp_path / "ranks.tiktoken"
    path.write_bytes(make_rank_file(small_ranks()))
    for name in ("r50k_base", "p50k_base", "p50k_edit", "cl100k_base", "o200k_base", "o200k_harmony"):
        tok = bpe.Tokenizer.from_tiktoken(path, name)
        assert tok.special_tokens == ENCODINGS[name].special_tokens
        assert tok.pretokenizer == bpe.Pretokenizer(ENCODINGS[name].pattern)
    for name in ("gpt2", "r50k", "cl100k", "o200k"):  # the names of patterns
        assert bpe.Tokenizer.from_tiktoken(path, name).special_tokens == {}
    assert bpe.Tokenizer.from_tiktoken(path, "cl100k_base", {"<s>": 300}).special_tokens == {"<s>": 300}
    assert bpe.Tokenizer.from_tiktoken(path, "cl100k_base", {}).special_tokens == {}
    with pytest.raises(ValueError, match="pretokenizer is 'cl100k_bass'; it must be one of"):
        bpe.Tokenizer.from_tiktoken(path, "cl100k_bass")


def test_a_preset_does_not_accept_another_encodings_file(shared_vocab) -> None:
    with pytest.raises(ValueError, match="whose pattern is 'gpt2'"):
        bpe.Tokenizer.from_tiktoken(shared_vocab("r50k_base.tiktoken"), "cl100k_base")
    tok = bpe.Tokenizer.from_tiktoken(shared_vocab("cl100k_base.tiktoken"), "cl100k_base")
    assert tok == bpe.Tokenizer.load(shared_vocab("cl100k_base.tiktoken"))
