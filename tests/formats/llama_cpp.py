"""llama.cpp's own ids and text for a GGUF file, of its vocabulary only: the oracle of `check_gguf.py`.

The package `xllamacpp` has llama.cpp in its extension module, whose functions are called by `ctypes`. llama.cpp ends
its process for some files and texts, so that it runs in a process of its own, which is started again.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from importlib import import_module
from typing import Any

#: The size of `llama_model_params`, with room to spare, and the offset of its field `vocab_only`.
_PARAMS_SIZE, _VOCAB_ONLY = 256, 0x48
_MOST = 1 << 16


class _Params(ctypes.Structure):
    _fields_ = [("data", ctypes.c_ubyte * _PARAMS_SIZE)]


class CrashedError(Exception):
    """llama.cpp ended its process."""


class LlamaCpp:
    """llama.cpp in a process of its own.

    >>> LlamaCpp().ask("model.gguf", ["a text"])  # doctest: +SKIP
    {'plain': [[64, 2420]], 'special': [[64, 2420]], 'template': [[64, 2420]], 'pieces': ['!', …]}
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, path: str, texts: list[str]) -> dict[str, Any]:
        """The ids of each text without and with special tokens and with the template, and the text of each token.

        {"error": …} for a file that is refused.

        Raises:
            CrashedError: if llama.cpp aborts.

        """
        if self._process is None:
            command = [sys.executable, __file__]
            environment = {**os.environ, "GGML_NO_BACKTRACE": "1"}
            quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
            self._process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=quiet)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([path, texts]).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = b""
        if not line.startswith(b"{"):
            self.close()
            raise CrashedError
        values: dict[str, Any] = json.loads(line)
        return values

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None


def _library() -> Any:
    """The extension module as a library of C functions, with their types."""
    library: Any = ctypes.CDLL(import_module("xllamacpp.xllamacpp").__file__)
    library.llama_model_default_params.restype = _Params
    library.llama_model_load_from_file.argtypes = [ctypes.c_char_p, _Params]
    for name in ("llama_model_load_from_file", "llama_model_get_vocab"):
        getattr(library, name).restype = ctypes.c_void_p
    library.llama_model_get_vocab.argtypes = library.llama_model_free.argtypes = [ctypes.c_void_p]
    library.llama_vocab_n_tokens.argtypes = [ctypes.c_void_p]
    library.llama_tokenize.argtypes = [
        ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool, ctypes.c_bool,
    ]  # fmt: skip
    library.llama_token_to_piece.argtypes = [
        ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_bool,
    ]  # fmt: skip
    return library


def _answer(library: Any, path: str, texts: list[str], log: list[str]) -> dict[str, Any]:
    params = library.llama_model_default_params()
    params.data[_VOCAB_ONLY] = 1
    log.clear()
    model = library.llama_model_load_from_file(path.encode(), params)
    if not model:
        return {"error": next((line for line in log if "error loading" in line), "".join(log))}
    vocab = library.llama_model_get_vocab(model)
    tokens, piece = (ctypes.c_int32 * _MOST)(), ctypes.create_string_buffer(_MOST)

    def ids(text: str, special: bool, template: bool = False) -> list[int]:
        data = text.encode()
        return list(tokens[: library.llama_tokenize(vocab, data, len(data), tokens, _MOST, template, special)])

    def text_of(token_id: int) -> str:
        size = library.llama_token_to_piece(vocab, token_id, piece, _MOST, 0, True)
        return piece.raw[:size].decode("latin-1")

    answer = {
        "plain": [ids(text, False) for text in texts],
        "special": [ids(text, True) for text in texts],
        "template": [ids(text, True, True) for text in texts],
        "pieces": [text_of(token_id) for token_id in range(library.llama_vocab_n_tokens(vocab))],
    }
    library.llama_model_free(model)
    return answer


def main() -> None:
    """Answer each line of the standard input by a line."""
    library, log = _library(), list[str]()
    form = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
    keep = form(lambda _level, text, _data: log.append(text.decode("utf-8", "replace")))
    library.llama_log_set(keep, None)
    for line in sys.stdin:
        path, texts = json.loads(line)
        print(json.dumps(_answer(library, path, texts, log)), flush=True)  # noqa: T201  # to the process that asked


if __name__ == "__main__":
    main()
