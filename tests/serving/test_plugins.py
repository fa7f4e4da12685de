"""The plugins of servers: active only where the user names them, and then for every tokenizer of the process."""

from __future__ import annotations

import copy
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bpe.compat import unpatch_transformers

#: The variable of each server that lists the plugins to load, and the group of its entry points.
SERVERS = {
    "vllm": ("VLLM_PLUGINS", "vllm.general_plugins"),
    "sglang": ("SGLANG_PLUGINS", "sglang.srt.plugins"),
}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param
    if "transformers" in sys.modules:
        unpatch_transformers()


def get_register(server: str) -> Any:
    return importlib.import_module(f"bpe.serving.{server}").register


def is_patched() -> bool:
    backend = pytest.importorskip("transformers.tokenization_utils_tokenizers").TokenizersBackend
    return hasattr(backend.__dict__.get("encode"), "_bpe_original")


@pytest.mark.parametrize("value", [None, "", "lora", "bpe2,other", "b pe", "BPE"])
def test_does_nothing_without_its_name(server: str, value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, _ in SERVERS.values():  # the other server's variable is no consent
        monkeypatch.setenv(name, "bpe")
    variable = SERVERS[server][0]
    monkeypatch.delenv(variable) if value is None else monkeypatch.setenv(variable, value)
    get_register(server)()
    assert not is_patched()


@pytest.mark.parametrize("value", ["bpe", "lora,bpe", "lora, bpe ,other"])
def test_accelerates_if_it_is_named(server: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_patched()
    monkeypatch.setenv(SERVERS[server][0], value)
    register = get_register(server)
    register()
    encode = sys.modules["transformers"].TokenizersBackend.encode
    register()  # servers call it in each process, and forked processes have been patched before
    assert is_patched()
    assert sys.modules["transformers"].TokenizersBackend.encode is encode
    unpatch_transformers()
    assert not is_patched()


def test_fails_in_words_without_transformers(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVERS[server][0], "bpe")
    monkeypatch.setitem(sys.modules, "transformers.tokenization_utils_tokenizers", None)
    with pytest.raises(ModuleNotFoundError, match="needs Hugging Face's transformers 5"):
        get_register(server)()


def test_imports_nothing_of_the_servers(server: str) -> None:
    program = f"import sys; from bpe.serving.{server} import register; register(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert not {"transformers", "tokenizers", "torch", "vllm", "sglang"} & set(done.stdout.split())


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the standard library reads TOML since Python 3.11")
def test_entry_points_name_functions(server: str) -> None:
    import tomllib

    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert groups[SERVERS[server][1]] == {"bpe": f"bpe.serving.{server}:register"}
    assert callable(get_register(server))


def test_pools_of_copies_are_accelerated(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM derives a class, keeps the original, and calls deep copies; it reads the backend for each request."""
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    from bpe.compat.transformers import acceleration_of

    bpe_model = tokenizers.models.BPE({"a": 0, "b": 1, "ab": 2, "<e>": 3}, [("a", "b")])
    original = transformers.TokenizersBackend(tokenizer_object=tokenizers.Tokenizer(bpe_model), eos_token="<e>")
    texts = ("abba<e>", "ab" * 400, "")
    expected = [original.encode(text) for text in texts]
    expected_texts = [original.decode(ids, skip_special_tokens=True) for ids in expected]
    monkeypatch.setenv("VLLM_PLUGINS", "bpe")
    get_register("vllm")()
    try:
        cached = copy.copy(original)
        cached.__class__ = type("Cached", (type(original),), {"__len__": lambda self: 4})
        pool = [copy.deepcopy(cached) for _ in range(2)]
        for tokenizer in (cached, *pool):
            assert [tokenizer.encode(text) for text in texts] == expected
            assert tokenizer(list(texts))["input_ids"] == expected
            stream = tokenizers.decoders.DecodeStream(ids=expected[0], skip_special_tokens=True)
            assert stream.step(tokenizer._tokenizer, 2) == " ab"
            assert tokenizer.batch_decode(expected, skip_special_tokens=True) == expected_texts
            assert acceleration_of(tokenizer).encoding
    finally:
        unpatch_transformers()
