"""The plugin of SGLang, an entry point of the group `sglang.srt.plugins`."""

from __future__ import annotations

from bpe.serving import accelerate_if_named


def register() -> None:
    """Accelerate tokenizers if SGLANG_PLUGINS names `bpe`. SGLang calls this at the start of each process."""
    accelerate_if_named("SGLANG_PLUGINS")
