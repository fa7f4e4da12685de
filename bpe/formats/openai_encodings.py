"""The encodings that OpenAI publishes: files, SHA-256, patterns, special tokens, and the models that use them.

Data only. Reading rank files: `tiktoken.py`; downloading: `bpe/named`.

Source: `tiktoken_ext/openai_public.py` and `tiktoken/model.py` of `tiktoken` 0.14.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

_BASE_URL = "https://openaipublic.blob.core.windows.net"
_END = "<|endoftext|>"
_PROMPT_END = "<|endofprompt|>"


class PublishedFile(NamedTuple):
    """A file that an encoding needs: its `address`, and the SHA-256 of its content, in hex."""

    address: str
    sha256: str


@dataclass(frozen=True)
class PublishedEncoding:
    """An encoding of OpenAI's.

    Attributes:
        pattern: the name of its pretokenizer.
        files: the names of its files in `FILES`: one rank file, or GPT-2's merges and vocabulary.
        special_tokens: name → id. In o200k_harmony, two names have the same id.
        n_vocab: the number of tokens, all ids below it in use; None where ids have gaps.
        equivalent_files: the names of other files that hold the same tokens, which are read if only they are cached.

    """

    pattern: str
    files: tuple[str, ...]
    special_tokens: Mapping[str, int]
    n_vocab: int | None = None
    equivalent_files: tuple[str, ...] = ()


_SHA256_BY_PATH = {
    "gpt-2/encodings/main/vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    "gpt-2/encodings/main/encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "encodings/r50k_base.tiktoken": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    "encodings/p50k_base.tiktoken": "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    "encodings/cl100k_base.tiktoken": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "encodings/o200k_base.tiktoken": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}
#: The name of a file → its address and SHA-256. The cache names a file by the SHA-1 of its address.
FILES: dict[str, PublishedFile] = {
    path.rpartition("/")[2]: PublishedFile(f"{_BASE_URL}/{path}", sha256) for path, sha256 in _SHA256_BY_PATH.items()
}

#: The files of gpt2 and of r50k_base, which have the same tokens, ids and merges.
_GPT2, _R50K = ("vocab.bpe", "encoder.json"), ("r50k_base.tiktoken",)
_FILL_IN_THE_MIDDLE = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
_O200K = {_END: 199999, _PROMPT_END: 200018}
_HARMONY = {
    **_O200K,
    "<|startoftext|>": 199998,
    "<|reserved_200000|>": 200000,
    "<|reserved_200001|>": 200001,
    "<|return|>": 200002,
    "<|constrain|>": 200003,
    "<|reserved_200004|>": 200004,
    "<|channel|>": 200005,
    "<|start|>": 200006,
    "<|end|>": 200007,
    "<|message|>": 200008,
    "<|reserved_200009|>": 200009,
    "<|reserved_200010|>": 200010,
    "<|reserved_200011|>": 200011,
    "<|call|>": 200012,
    **{f"<|reserved_{token_id}|>": token_id for token_id in range(200013, 201088)},
}

#: The name of an encoding → the encoding, in tiktoken's order.
ENCODINGS: Mapping[str, PublishedEncoding] = {
    "gpt2": PublishedEncoding("gpt2", _GPT2, {_END: 50256}, 50257, equivalent_files=_R50K),
    "r50k_base": PublishedEncoding("gpt2", _R50K, {_END: 50256}, 50257, equivalent_files=_GPT2),
    "p50k_base": PublishedEncoding("gpt2", ("p50k_base.tiktoken",), {_END: 50256}, 50281),
    "p50k_edit": PublishedEncoding(
        "gpt2",
        ("p50k_base.tiktoken",),
        {_END: 50256, **{name: 50281 + i for i, name in enumerate(_FILL_IN_THE_MIDDLE)}},
    ),
    "cl100k_base": PublishedEncoding(
        "cl100k",
        ("cl100k_base.tiktoken",),
        {_END: 100257, **{name: 100258 + i for i, name in enumerate(_FILL_IN_THE_MIDDLE)}, _PROMPT_END: 100276},
    ),
    "o200k_base": PublishedEncoding("o200k", ("o200k_base.tiktoken",), _O200K),
    "o200k_harmony": PublishedEncoding("o200k", ("o200k_base.tiktoken",), _HARMONY),
}

#: The name of an encoding → the models that use it.
_MODELS_BY_ENCODING: Mapping[str, tuple[str, ...]] = {
    "o200k_base": ("o1", "o3", "o4-mini", "gpt-5", "gpt-4.1", "gpt-4o"),
    "cl100k_base": (
        "gpt-4",
        "gpt-3.5-turbo",
        "gpt-3.5",
        "gpt-35-turbo",  # as Azure spells it
        "davinci-002",
        "babbage-002",
        "text-embedding-ada-002",
        "text-embedding-3-small",
        "text-embedding-3-large",
    ),
    "p50k_base": (
        "text-davinci-003",
        "text-davinci-002",
        "code-davinci-002",
        "code-davinci-001",
        "code-cushman-002",
        "code-cushman-001",
        "davinci-codex",
        "cushman-codex",
    ),
    "p50k_edit": ("text-davinci-edit-001", "code-davinci-edit-001"),
    "r50k_base": (
        *(f"text-{size}-001" for size in ("davinci", "curie", "babbage", "ada")),
        *("davinci", "curie", "babbage", "ada"),
        *(f"text-similarity-{size}-001" for size in ("davinci", "curie", "babbage", "ada")),
        *(f"text-search-{size}-doc-001" for size in ("davinci", "curie", "babbage", "ada")),
        *(f"code-search-{size}-code-001" for size in ("babbage", "ada")),
    ),
    "gpt2": ("gpt2", "gpt-2"),
}

#: The name of a model → the name of its encoding.
MODELS: Mapping[str, str] = {model: name for name, models in _MODELS_BY_ENCODING.items() for model in models}

#: The beginning of a model's name → the name of its encoding; the first one that fits decides.
MODEL_PREFIXES: Mapping[str, str] = {
    "o1-": "o200k_base",
    "o3-": "o200k_base",
    "o4-mini-": "o200k_base",
    "gpt-5": "o200k_base",
    "gpt-4.5-": "o200k_base",
    "gpt-4.1-": "o200k_base",
    "chatgpt-4o-": "o200k_base",
    "gpt-4o-": "o200k_base",
    "gpt-4-": "cl100k_base",
    "gpt-3.5-turbo-": "cl100k_base",
    "gpt-35-turbo-": "cl100k_base",
    "gpt-oss-": "o200k_harmony",
    "ft:gpt-4o": "o200k_base",
    "ft:gpt-4": "cl100k_base",
    "ft:gpt-3.5-turbo": "cl100k_base",
    "ft:davinci-002": "cl100k_base",
    "ft:babbage-002": "cl100k_base",
}
