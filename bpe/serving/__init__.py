"""Plugins that accelerate the tokenizers of vLLM and SGLang, without a change of the servers' code.

There is a module for each server, `vllm.py` and `sglang.py`, whose `register` the server calls in each of its
processes, as pyproject.toml declares. It does nothing unless the user has named the plugin `bpe` in the server's
variable of plugins: servers load every plugin that is installed, and installing a library must not change a server.

All tokenizers of the process are accelerated, by `patch_transformers`: servers derive classes from a tokenizer's,
copy it for each of their threads, and load others for adapters and images. `docs/serving.md` is for users.

Invariants: ids and texts are those of the server without the plugin (`benchmarks/peers/check_servers.py` runs the
servers' own modules); calling `register` again changes nothing; no package of a server is imported.
"""

from __future__ import annotations

import os

#: The name of the entry points, by which users choose the plugin.
PLUGIN_NAME = "bpe"


def accelerate_if_named(variable: str) -> None:
    """Accelerate all fast tokenizers of transformers if an environment variable names this plugin.

    Args:
        variable: the variable that lists the plugins to load, with commas between them.

    Raises:
        ModuleNotFoundError: if it names this plugin, and transformers 5 is not installed.

    """
    if PLUGIN_NAME in (name.strip() for name in os.environ.get(variable, "").split(",")):
        from bpe.compat import patch_transformers

        patch_transformers()
