"""Small calls: for each library, a function that makes its calls with a published vocabulary, by name.

    count, list, array   the number of a text's ids; the ids in a list; in an array
    offsets              ids, and the start and end of each token
    special              ids of a text in which names of special tokens become their ids, in the library's own form
    truncate             (text, number) → the beginning of the text that has so many tokens
    lists                the ids of many texts in lists, by one thread
    empty                a call of the same kind without any work: the least that Python takes

In ASCII texts, offsets in bytes and in characters are the same; in others, libraries differ in the unit. Each function
is the library's own, or adds to it what the name of the call asks for.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from peers.common import SEPARATOR, Vocab
from peers.published import TOKENIZERS

#: The calls of a library by name.
Calls = dict[str, Callable[..., Any]]
#: The id of the only special token that the libraries know.
SEPARATOR_IDS = {"r50k": 50256, "cl100k": 100257, "llama": 100257, "o200k": 199999}


def make_bpe_calls(vocab: Vocab) -> Calls:
    """This package; lists come from its interface of tiktoken."""
    import bpe
    from bpe.compat import tiktoken
    from bpe.pretokenize.patterns import PATTERNS

    specials = {SEPARATOR: SEPARATOR_IDS[vocab.name]}
    tok = bpe.Tokenizer.from_tiktoken(vocab.ranks, vocab.pattern, specials, force=vocab.name == "llama")
    expression = PATTERNS[vocab.pattern].expression
    encoding = tiktoken.Encoding("x", pat_str=expression, mergeable_ranks=vocab.table(), special_tokens=specials)
    return {
        "count": tok.count_tokens,
        "list": encoding.encode_ordinary,
        "array": tok.encode,
        "offsets": tok.encode_with_offsets,
        "special": lambda text: tok.encode(text, allowed_special="all"),
        "truncate": tok.truncate,
        "lists": lambda texts: tok.encode_batch(texts, threads=1).to_list(),
    }


def make_toktok_calls(vocab: Vocab) -> Calls:
    """The library toktok."""
    tok = TOKENIZERS["toktok"]().load(vocab, 1)
    return {
        "count": tok.count,
        "list": tok.encode_ordinary,
        "array": tok.encode_to_numpy,
        "offsets": tok.encode_with_offsets,
        "special": tok.encode_with_special,
        "truncate": lambda text, n: tok.truncate(text, n)[0],
    }


def make_tuetoken_calls(vocab: Vocab) -> Calls:
    """tuetoken; arrays come from a buffer."""
    tok = TOKENIZERS["tuetoken"]().load(vocab, 1)
    return {
        "count": tok.count_tokens,
        "list": tok.encode_ordinary,
        "array": lambda text: np.frombuffer(tok.encode_to_bytes(text), dtype=np.uint32),
        "offsets": tok.encode_with_offsets,
        "lists": lambda texts: tok.encode_ordinary_batch(texts, 1),
    }


def make_splintr_calls(vocab: Vocab) -> Calls:
    """splintr; arrays come from a buffer."""
    tok = TOKENIZERS["splintr"]().load(vocab, 1)
    return {
        "list": tok.encode_ordinary,
        "array": lambda text: np.frombuffer(tok.encode_flat(text), dtype=np.uint32),
        "special": tok.encode_with_special,
        "lists": tok.encode_batch,
    }


def make_gigatoken_calls(vocab: Vocab) -> Calls:
    """gigatoken, whose `encode` finds special tokens; lists come from its interface of tiktoken."""
    import gigatoken

    specials = {SEPARATOR: SEPARATOR_IDS[vocab.name]}
    tok = gigatoken.Tokenizer.from_tiktoken(vocab.ranks, vocab.pattern, specials)
    encoding = tok.as_tiktoken()
    return {
        "list": encoding.encode_ordinary,
        "array": tok.encode,
        "special": tok.encode,
        "lists": lambda texts: encoding.encode_ordinary_batch(texts, num_threads=1),
    }


def make_fastokens_calls(vocab: Vocab) -> Calls:
    """fastokens; it does not track offsets."""
    tok = TOKENIZERS["fastokens"]().load(vocab, 1)
    return {
        "list": lambda text: tok.encode_ordinary(text).ids,
        "special": lambda text: tok.encode(text).ids,
        "lists": lambda texts: [encoding.ids for encoding in tok.encode_batch(texts)],
    }


def make_quicktok_calls(vocab: Vocab) -> Calls:
    """The library quicktok."""
    tok = TOKENIZERS["quicktok"]().load(vocab, 1)
    return {
        "count": tok.count,
        "list": tok.encode_ordinary,
        "special": tok.encode_with_special,
    }


def make_rs_bpe_calls(vocab: Vocab) -> Calls:
    """rs_bpe."""
    tok = TOKENIZERS["rs_bpe"]().load(vocab, 1)
    return {"count": tok.count, "list": tok.encode, "lists": lambda texts: tok.encode_batch(texts)[0]}


def make_tiktoken_calls(vocab: Vocab) -> Calls:
    """openai/tiktoken."""
    import tiktoken

    from bpe.pretokenize.patterns import PATTERNS

    tok = tiktoken.Encoding(
        vocab.name,
        pat_str=PATTERNS[vocab.pattern].expression,
        mergeable_ranks=vocab.table(),
        special_tokens={SEPARATOR: SEPARATOR_IDS[vocab.name]},
    )
    return {
        "list": tok.encode_ordinary,
        "array": lambda text: tok.encode_to_numpy(text, disallowed_special=()),
        "special": lambda text: tok.encode(text, allowed_special="all"),
        "lists": lambda texts: tok.encode_ordinary_batch(texts, num_threads=1),
    }


def make_empty_calls(vocab: Vocab) -> Calls:
    """Functions of Python and NumPy that take and return the same types."""
    del vocab
    ids = [1, 2, 3, 4, 5]
    array = np.array(ids, dtype=np.uint32)
    spans = np.zeros((5, 2), dtype=np.int64)
    return {
        "count": len,
        "list": lambda _text, copy=ids.copy: copy(),
        "array": lambda _text, copy=array.copy: copy(),
        "offsets": lambda _text, copy=array.copy, copy_spans=spans.copy: (copy(), copy_spans()),
        "special": lambda _text, copy=array.copy: copy(),
        "truncate": lambda text, n: text[:n],
    }


#: The libraries by the name of the module that they are imported as.
CALLERS: dict[str, Callable[[Vocab], Calls]] = {
    "bpe": make_bpe_calls,
    "toktok": make_toktok_calls,
    "tuetoken": make_tuetoken_calls,
    "splintr": make_splintr_calls,
    "gigatoken": make_gigatoken_calls,
    "fastokens": make_fastokens_calls,
    "quicktok": make_quicktok_calls,
    "rs_bpe": make_rs_bpe_calls,
    "tiktoken": make_tiktoken_calls,
    "empty": make_empty_calls,
}


def load_callers(vocab: Vocab, names: list[str]) -> tuple[dict[str, Calls], dict[str, str]]:
    """Make the calls of those libraries that are installed and have the vocabulary; the others with the reason."""
    callers: dict[str, Calls] = {}
    missing: dict[str, str] = {}
    for name in names:
        if name != "empty" and importlib.util.find_spec(name) is None:
            missing[name] = "not installed"
            continue
        try:
            callers[name] = CALLERS[name](vocab)
        except Exception as error:  # noqa: BLE001  # whatever a library raises for a vocabulary that it lacks
            missing[name] = f"{vocab.name}: {error!r:.80}"
    return callers, missing


def read_beginning(path: Path, size: int, only_ascii: bool) -> str:
    """Read the characters, or only those of ASCII, of the beginning of a file."""
    return path.read_bytes()[:size].decode("ascii" if only_ascii else "utf-8", "ignore").replace(SEPARATOR, "")
