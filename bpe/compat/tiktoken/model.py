"""`tiktoken.model`: the encodings of models. The dicts are those that `encoding_for_model` looks models up in."""

from __future__ import annotations

from typing import cast

from bpe.compat.tiktoken.core import Encoding, encoding_for_model, encoding_name_for_model, get_encoding
from bpe.formats.openai_encodings import MODEL_PREFIXES, MODELS

#: The beginning of a model's name → the name of its encoding; the first beginning that fits decides.
MODEL_PREFIX_TO_ENCODING = cast("dict[str, str]", MODEL_PREFIXES)
#: The name of a model → the name of its encoding.
MODEL_TO_ENCODING = cast("dict[str, str]", MODELS)

__all__ = [
    "MODEL_PREFIX_TO_ENCODING",
    "MODEL_TO_ENCODING",
    "Encoding",
    "encoding_for_model",
    "encoding_name_for_model",
    "get_encoding",
]
