"""Which special tokens begin and end texts, which tokens decoding may skip, and which it spells in another way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpe.errors import check_int, short_repr
from bpe.pretokenize.pretokenizer import PipelinePretokenizer
from bpe.text.letters import read_letters_or_utf8
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import ORDINARY, SPECIAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Names that published models use for the token that begins a text; the first one that a tokenizer has counts.
BOS_NAMES = (
    "<s>", "<bos>", "<BOS>", "[BOS]", "<|begin_of_text|>", "<|startoftext|>", "<|bos|>", "<｜begin▁of▁sentence｜>",
    "<BOS_TOKEN>",
)  # fmt: skip
#: Those of the token that ends a text, or a document in shards.
EOS_NAMES = (
    "<|endoftext|>", "<|end_of_text|>", "</s>", "<|endofdocument|>", "<eos>", "<|eos|>", "<|eot|>", "<EOS>", "[EOS]",
    "<｜end▁of▁sentence｜>", "<|end|>", "<|END_OF_TURN_TOKEN|>",
)  # fmt: skip


def find_special_ids(spec: TokenizerSpec) -> NDArray[np.int64]:
    """Find the ids that decoding leaves out with `skip_special`: special tokens that are not matched in every text.

    As in `tokenizers`, a token counts as the special token that is spelled like what it is decoded as.
    """
    flags, decoded_texts = spec.token_flags, find_decoded_names(spec)
    names = {name for name in spec.special_tokens if "ordinary" not in flags.get(name, ())}
    skipped_ids = [
        token_id for name, token_id in spec.special_tokens.items() if decoded_texts.get(token_id, name) in names
    ]
    return np.array(skipped_ids, dtype=np.int64)


def find_decoded_names(spec: TokenizerSpec) -> dict[int, str]:
    """Find the special tokens that are decoded as another text than their name: id → that text.

    As in `tokenizers`, they are those with the flag "normalized" that the normalizer changes. The text is in GPT-2's
    letters if the normalizer spells these.
    """
    if spec.normalizer is None:
        return {}
    decoded_texts: dict[int, str] = {}
    for name, flags in spec.token_flags.items():
        if "normalized" in flags and name in spec.special_tokens and (text := spec.normalizer.spelling(name)) != name:
            decoded_texts[spec.special_tokens[name]] = text
    return decoded_texts


def find_decoded_bytes(spec: TokenizerSpec, *, byte_level: bool) -> dict[int, bytes]:
    """Find the special and unknown tokens that are decoded as other bytes than the vocabulary has for them, by id.

    Args:
        spec: the tokenizer.
        byte_level: whether a name of GPT-2's letters alone stands for their bytes, as in the decoder ByteLevel. If not,
            names are text, those of tokens that text can become, too.

    """
    names = find_decoded_names(spec)
    if byte_level:
        names = {token_id: token.decode() for token_id, token in spec.vocabulary.items(SPECIAL)} | names
    else:
        kinds, named_ids = spec.vocabulary.kinds, spec.special_tokens.items()
        text_names = {
            token_id: name
            for name, token_id in named_ids
            if kinds[token_id] == ORDINARY and read_letters_or_utf8(name) == spec.vocabulary[token_id]
        }
        names = text_names | names
    if not names:
        return {}
    in_letters = byte_level or (isinstance(spec.pretokenizer, PipelinePretokenizer) and spec.pretokenizer.letters)
    token_bytes = {
        token_id: read_letters_or_utf8(text) if in_letters else text.encode() for token_id, text in names.items()
    }
    return {token_id: token for token_id, token in token_bytes.items() if token != spec.vocabulary[token_id]}


def resolve_token(spec: TokenizerSpec, argument: str, token: object) -> int | None:
    """Resolve an argument such as `append` to an id, by number or as a special token; None for None.

    Raises:
        TypeError, ValueError: for what is no token of this tokenizer.

    """
    if token is None:
        return None
    if isinstance(token, str):
        if token not in spec.special_tokens:
            names = list(spec.special_tokens)
            known_names = f"its special tokens are {short_repr(names, 200)}" if names else "it has none"
            raise ValueError(
                f"{argument} is {short_repr(token)}, which is no special token of this tokenizer ({known_names}); give "
                "one of those, or the id of any token"
            )
        return spec.special_tokens[token]
    token_id = check_int(argument, token, 0)
    if token_id not in spec.vocabulary:
        raise ValueError(
            f"{argument} is {token_id}, which is no id of this tokenizer; give the id of a token, or the name of a "
            "special token"
        )
    return token_id


def find_bos_token(spec: TokenizerSpec) -> str | None:
    """Find the name of the token that begins a text: by its role, the template's first, or a common name."""
    return _find_role_token(spec, "bos_token", spec.template[0][:1] if spec.template else (), BOS_NAMES)


def find_eos_token(spec: TokenizerSpec) -> str | None:
    """Find the name of the token that ends a text: by its role, the template's last, or a common name."""
    return _find_role_token(spec, "eos_token", spec.template[1][-1:] if spec.template else (), EOS_NAMES)


def _find_role_token(spec: TokenizerSpec, role: str, ids: tuple[int, ...], names: tuple[str, ...]) -> str | None:
    if role in spec.roles:
        return spec.roles[role]
    if ids:
        return next((name for name, token_id in spec.special_tokens.items() if token_id == ids[0]), None)
    return next((name for name in names if name in spec.special_tokens), None)
