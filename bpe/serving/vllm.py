"""The plugin of vLLM, an entry point of the group `vllm.general_plugins`."""

from __future__ import annotations

from bpe.serving import accelerate_if_named


def register() -> None:
    """Accelerate tokenizers if VLLM_PLUGINS names `bpe`. vLLM calls this at the start of each process."""
    accelerate_if_named("VLLM_PLUGINS")
