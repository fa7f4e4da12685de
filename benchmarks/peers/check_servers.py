"""Compare what vLLM and SGLang make of texts and ids with this package's plugin and without it.

    python benchmarks/peers/check_servers.py vllm=FOLDER sglang=FOLDER [--tokenizer FOLDER]… [--texts FILE]…

A FOLDER has the package as published, unpacked: `pip download --no-deps vllm`, `unzip`. Only its modules for tokenizers
are imported, which need no GPU, and few of its requirements; `--empty torchvision` replaces a package by empty modules.
Each server runs twice, in processes of their own, with and without the plugin, which it finds and loads itself by an
entry point. It loads each tokenizer (by default those of tests/compat/shapes.py) with its own function, and encodes and
decodes as it does for requests: by threads, by copies of the tokenizer, and one id after the other. Results must be the
same, and the tokenizers accelerated.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import importlib.abc
import importlib.machinery
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "compat"))
from shapes import HOSTILE, SHAPES, TEXTS, shape  # noqa: E402

VARIABLES = {"vllm": "VLLM_PLUGINS", "sglang": "SGLANG_PLUGINS"}
#: Written before the results of a process; servers may print, too.
MARKER = b"\0results\0"
ENTRY_POINTS = """[vllm.general_plugins]
bpe = bpe.serving.vllm:register
[sglang.srt.plugins]
bpe = bpe.serving.sglang:register
"""
TEMPLATE = "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}"
CONFIG = {
    "tokenizer_class": "TokenizersBackend", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>",
    "unk_token": "<unk>", "model_max_length": 4096, "chat_template": TEMPLATE,
}  # fmt: skip


def main() -> None:
    """Run each server with and without the plugin, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", nargs="+", metavar="vllm=FOLDER|sglang=FOLDER")
    parser.add_argument("--tokenizer", action="append", metavar="FOLDER", help="as transformers saves it")
    parser.add_argument("--texts", action="append", type=Path, metavar="FILE", help="of which each line is a text")
    parser.add_argument(
        "--empty", action="append", default=[], metavar="PACKAGE", help="put empty modules in its place"
    )
    parser.add_argument("--child", action="store_true", help="for this script itself")
    options = parser.parse_args()
    names_and_folders = [server.partition("=")[::2] for server in options.servers]
    if options.child:
        (name, server_folder), *_ = names_and_folders
        run_server(name, server_folder, options)
        return
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        tokenizers = options.tokenizer or list(write_tokenizers(Path(folder)))
        for name, server_folder in names_and_folders:
            arguments = [f"{name}={server_folder}", *(f"--tokenizer={path}" for path in tokenizers)]
            arguments += [f"--texts={path.resolve()}" for path in options.texts or ()]
            arguments += [f"--empty={package}" for package in options.empty]
            plain, fast = (run_child(name, arguments, folder, plugins) for plugins in ("none", "bpe"))
            failures += compare(name, plain, fast)
    raise SystemExit(failures and f"{failures} tokenizers give other results")


def write_tokenizers(folder: Path) -> Iterator[str]:
    """Write the tokenizers of the tests as folders that transformers reads; yield their paths."""
    for name in SHAPES:
        path = folder / name
        path.mkdir()
        (path / "tokenizer.json").write_text(shape(name))
        (path / "tokenizer_config.json").write_text(json.dumps(CONFIG))
        (path / "config.json").write_text('{"model_type": "gpt2"}')
        yield str(path)


def read_texts(paths: Sequence[Path] | None) -> list[str]:
    """Read the lines of files; without any, the texts of the tests."""
    if not paths:
        return [*TEXTS, *HOSTILE, "".join(TEXTS) * 20]
    return [line for path in paths for line in path.read_text("utf-8").splitlines()]


def run_child(name: str, arguments: list[str], folder: str, plugins: str) -> dict[str, Any]:
    """Run a server in a process of its own that loads the plugins named; return its results."""
    distribution = Path(folder) / "bpe_plugins-1.dist-info"  # the package may be installed without its entry points
    distribution.mkdir(exist_ok=True)
    (distribution / "entry_points.txt").write_text(ENTRY_POINTS)
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: bpe-plugins\nVersion: 1\n")
    paths = os.pathsep.join([str(ROOT), folder, os.environ.get("PYTHONPATH", "")])
    environment = {
        **os.environ, "PYTHONPATH": paths, VARIABLES[name]: plugins, "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "0",
    }  # fmt: skip
    command = [sys.executable, __file__, "--child", *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    results: dict[str, Any] = pickle.loads(done.stdout.partition(MARKER)[2])
    return results


def compare(server: str, plain: dict[str, Any], fast: dict[str, Any]) -> int:
    """Print how the results of a server's two processes compare; return how many tokenizers differ."""
    n_differing = 0
    for name, (plain_results, _) in plain.items():
        fast_results, acceleration = fast[name]
        differing = [key for key in plain_results if plain_results[key] != fast_results[key]]
        n_differing += bool(differing)
        verdict = f"DIFFERS in {', '.join(differing)}" if differing else "same"
        print(f"{server} {Path(name).name}: {verdict}; {acceleration}", flush=True)
    return n_differing


# In the process of a server -------------------------------------------------------------------------------------------


class EmptyModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes modules of packages that are missing, of mock objects."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def find_spec(self, name: str, *_: Any) -> Any:
        """Make a spec for a module of the packages named."""
        if name.partition(".")[0] not in self.names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        """Make the module."""
        return type(spec.name, (ModuleType,), {"__getattr__": lambda *_: MagicMock()})(spec.name)

    def exec_module(self, module: Any) -> None:
        """Do nothing: the module has every attribute."""


def run_server(name: str, folder: str, options: argparse.Namespace) -> None:
    """Load each tokenizer as a server does, call it, and write the results to stdout."""
    import transformers

    _ = transformers.AutoTokenizer  # before modules can be replaced
    sys.path.insert(0, folder)
    sys.meta_path.append(EmptyModules(options.empty))
    load, call = {"vllm": (load_by_vllm, call_vllm), "sglang": (load_by_sglang, call_sglang)}[name]
    from bpe.compat.transformers import acceleration_of

    results, texts = {}, read_texts(options.texts)
    for path in options.tokenizer:
        tokenizer, one_copy = load(path)
        outputs = {**call_tokenizer(tokenizer, texts), **call(tokenizer, texts)}
        results[path] = outputs, acceleration_of(one_copy)
    sys.stdout.buffer.write(MARKER + pickle.dumps(results))


def call_tokenizer(tokenizer: Any, texts: list[str]) -> dict[str, Any]:
    """Call a tokenizer as both servers do."""
    rows = tokenizer(texts)["input_ids"]
    chats = [[{"role": "user", "content": text}, {"role": "assistant", "content": "ok"}] for text in texts]
    with ThreadPoolExecutor(4) as pool:
        by_threads = list(pool.map(tokenizer.encode, texts * 3))
        chats_by_threads = list(pool.map(lambda chat: tokenizer.apply_chat_template(chat, tokenize=True), chats))
    return {
        "ids": rows,
        "ids by threads": by_threads,
        "one text": [dict(tokenizer(text, truncation=True, max_length=9)) for text in texts],
        "offsets": [tokenizer(text, return_offsets_mapping=True)["offset_mapping"] for text in texts],
        "without special tokens": [tokenizer.encode(text, add_special_tokens=False) for text in texts],
        "chats": [tokenizer.apply_chat_template(chat, tokenize=False) for chat in chats],
        "ids of chats": [dict(chat) for chat in chats_by_threads],
        "texts": [tokenizer.batch_decode(rows, skip_special_tokens=skip) for skip in (False, True)],
        "texts one by one": [tokenizer.decode(ids, skip_special_tokens=True) for ids in rows],
        "tokens": [tokenizer.convert_ids_to_tokens(ids, skip_special_tokens=skip) for ids in rows for skip in (0, 1)],
        "sizes": (len(tokenizer), tokenizer.vocab_size, tokenizer.all_special_ids, tokenizer.get_added_vocab()),
        "vocab": tokenizer.get_vocab(),
        "pickled": pickle.loads(pickle.dumps(tokenizer))(texts)["input_ids"],
    }


def load_by_vllm(path: str) -> tuple[Any, Any]:
    """Load a tokenizer as vLLM does, with its pool of copies for threads; return it, and one of the copies."""
    from vllm.plugins import load_general_plugins
    from vllm.tokenizers import get_tokenizer, maybe_make_thread_pool

    load_general_plugins()
    single = get_tokenizer(path)
    single.encode("")
    return maybe_make_thread_pool(copy.copy(single), 2), single


def call_vllm(tokenizer: Any, texts: list[str]) -> dict[str, Any]:
    """Return texts as vLLM's detokenizers make them: one id after the other, with and without special tokens."""
    from vllm.tokenizers.detokenizer_utils import convert_ids_list_to_tokens
    from vllm.v1.engine.detokenizer import FastIncrementalDetokenizer, SlowIncrementalDetokenizer

    results: dict[str, Any] = {"single tokens": [], "streams": []}
    for text in texts:
        ids = tokenizer(text)["input_ids"][:300]
        results["single tokens"].append(convert_ids_list_to_tokens(tokenizer, ids))
        for skips in (False, True):
            sampling = SimpleNamespace(
                stop=["low"], min_tokens=3, include_stop_str_in_output=False, skip_special_tokens=skips,
                spaces_between_special_tokens=not skips,
            )  # fmt: skip
            request: Any = SimpleNamespace(
                sampling_params=sampling, request_id="1", prompt_token_ids=ids, prompt_embeds=None
            )
            for detokenizer_class in (FastIncrementalDetokenizer, SlowIncrementalDetokenizer):
                detokenizer = detokenizer_class(tokenizer, request)
                stops = [detokenizer.update([token_id], False) for token_id in ids]
                results["streams"].append((stops, detokenizer.get_next_output_text(True, False)))
    return results


def load_by_sglang(path: str) -> tuple[Any, Any]:
    """Load a tokenizer as SGLang does."""
    from sglang.srt.plugins import load_plugins
    from sglang.srt.utils.hf_transformers.tokenizer import get_tokenizer

    load_plugins()
    tokenizer = get_tokenizer(path)
    return tokenizer, tokenizer


def call_sglang(tokenizer: Any, texts: list[str]) -> dict[str, Any]:
    """Return ids of SGLang's tokenizer for concurrent requests, and texts as its detokenizer makes them."""
    from sglang.srt.managers.async_dynamic_batch_tokenizer import AsyncDynamicbatchTokenizer

    async def encode_together() -> list[Any]:
        batcher = AsyncDynamicbatchTokenizer(tokenizer)
        return [dict(encoding) for encoding in await asyncio.gather(*(batcher.encode(text) for text in texts))]

    rows = tokenizer(texts)["input_ids"]
    options = {"skip_special_tokens": True, "spaces_between_special_tokens": True}
    prefixes = [ids[:end] for ids in rows for end in range(min(len(ids), 60))]
    return {
        "together": asyncio.run(encode_together()),
        "growing": tokenizer.batch_decode(prefixes, **options),
        "read": tokenizer.batch_decode([ids[-7:] for ids in prefixes], **options),
    }


if __name__ == "__main__":
    main()
