"""Shared by the tests of tokenizer.json: specs made from symbols, texts, and files loaded by `tokenizers`."""

from __future__ import annotations

import unicodedata

import numpy as np
from hypothesis import strategies as st
from peers import Peer

from bpe.formats.huggingface import write
from bpe.formats.huggingface.spelling import find_word_ends
from bpe.text.letters import list_byte_alphabet
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import Vocabulary

tokenizers = Peer("tokenizers")
pre_tokenizers = Peer("tokenizers.pre_tokenizers")

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CLIP_FILE = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"

# Characters that have been in Unicode so long that the Unicode data of three packages, all of different age, agree.
OLD_PLANES = *range(0x30000), *range(0xE0000, 0xE0080)
OLD = [chr(c) for c in OLD_PLANES if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs", "Co")]
PIECES = [
    "'s", "'S", "'ſ", "'LL", "'ve", "'t", "''", "’s", "a", "B", "Wörter", "ſt", "K", "ß", "ﬁ", "ﬆ", "ǅ", "ʰ",
    "e\u0301", "\u0301",
    "한국어", "日本語", "ありがとう", "Ελλάδα", "Σ", "русский", "שלום", "مرحبا", "हिन्दी", "ไทย", "𐐀", "1", "234",
    "567890", "½", "²", "٣", "Ⅷ",
    " ", "  ", "\t", "\n", "\r\n", "\r", "\n\n", "\u00a0", "\u3000", "\x85", "\u2028", "\x1c", "\u200b", "!",
    "...", "/", "/\r\n", "_", "-",
    "😊", "👍🏽", "€", "<|endoftext|>", "<|StartOfText|>", "<|ﬆartoftext|>", "<s>", "</w>", "\x00", "\x7f",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES) | st.sampled_from(OLD), max_size=20).map("".join)


def make_spec(
    model="byte", symbols=None, merges=(), special=(), unk=None, mark=None, glued=False, first_id=0, gap=0, **options
) -> TokenizerSpec:
    """A spec from symbols and merges of symbols.

    Ids start at `first_id` and are in the order of training; `gap` ids are unused before the special tokens.
    """
    encode = (lambda token: token) if model == "byte" else str.encode
    if symbols is None:
        symbols = [bytes([byte]) for byte in list_byte_alphabet()]
    ids = {}
    for token in symbols:
        ids.setdefault(encode(token), first_id + len(ids))
    pairs, merge_results = [], []
    for left, right in merges:
        left, right = encode(left), encode(right)
        ids.setdefault(left + right, first_id + len(ids))
        pairs.append((ids[left], ids[right]))
        merge_results.append(ids[left + right])
    names = [*special, *([unk] if unk is not None and unk not in special else [])]
    special_ids = {name: first_id + len(ids) + gap + i for i, name in enumerate(names)}
    vocabulary = Vocabulary(
        ((token_id, token) for token, token_id in ids.items()), ((i, name.encode()) for name, i in special_ids.items())
    )
    return TokenizerSpec(
        model=model,
        vocabulary=vocabulary,
        merges=np.array(pairs, dtype=np.int32).reshape(-1, 2),
        merge_results=np.array(merge_results, dtype=np.int32),
        special_tokens={name: special_ids[name] for name in special},
        unk_token=unk,
        end_of_word=mark,
        end_of_word_glued=glued,
        ends_word=None if mark is None else find_word_ends(vocabulary, mark, glued),
        **options,
    )


def assert_same(spec: TokenizerSpec, expected: TokenizerSpec) -> None:
    for name in ("model", "pretokenizer", "normalizer", "unk_token", "fuse_unk", "end_of_word", "end_of_word_glued",
                 "ignore_merges", "clip"):  # fmt: skip
        assert getattr(spec, name) == getattr(expected, name), name
    assert dict(spec.special_tokens) == dict(expected.special_tokens)
    for name in ("merges", "merge_results", "merge_ranks", "ends_word"):
        left, right = getattr(spec, name), getattr(expected, name)
        assert (left is None) == (right is None), name
        if left is not None:
            assert left.dtype == right.dtype
            assert left.shape == right.shape
            assert (left == right).all(), name
    assert spec.vocabulary.blob == expected.vocabulary.blob
    assert spec.vocabulary.offsets.tolist() == expected.vocabulary.offsets.tolist()
    assert spec.vocabulary.kinds.tolist() == expected.vocabulary.kinds.tolist()


def load_by_tokenizers(spec_or_data) -> tokenizers.Tokenizer:
    """Load a file, or a spec written to one, with `tokenizers`."""
    data = write(spec_or_data) if isinstance(spec_or_data, TokenizerSpec) else spec_or_data
    return tokenizers.Tokenizer.from_str(data.decode())


def save_by_tokenizers(tokenizer: tokenizers.Tokenizer) -> bytes:
    return tokenizer.to_str().encode()


BYTE_MERGES = [
    (b"l", b"o"),
    (b"lo", b"w"),
    (b" ", b"low"),
    (b"e", b"r"),
    (b"low", b"er"),
    (b"\xea", b"\xb0"),
    (b"1", b"2"),
]
MARKED = ["a", "b", "c", "a</w>", "b</w>", "c</w>"]
MARKED_MERGES = [("a", "b"), ("ab", "c</w>"), ("b", "b</w>"), ("c", "ab")]


def replace_fields(spec: TokenizerSpec, **changes) -> TokenizerSpec:
    return TokenizerSpec(**{**{name: getattr(spec, name) for name in spec.__dataclass_fields__}, **changes})


def make_split_and_bytes(pattern, behavior="isolated", invert=False):
    split = pre_tokenizers.Split(tokenizers.Regex(pattern), behavior, invert=invert)
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def make_byte_level():
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


def make_split(pattern, behavior):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}
