"""Generated files of tokenizer.json beside `tokenizers`: the same ids, spans and texts, or a refusal with a reason.

    python benchmarks/checks/check_tokenizer_json.py [--files N] [--seed S] [--first I] [--show N] [--texts N]

Each file has a random model (options, vocabulary and merges), added tokens with random flags, of which many are tokens
of the model or of its merges, and a random normalizer, pre_tokenizer, post_processor and decoder. Both libraries read
it, encode random texts with it and decode their ids, and random ids; `bpe` also encodes them as a batch, as a stream
and by `bpe.compat.huggingface`, decodes them one by one, and writes the file again. Prints how many files were the
same, refused by which reason, and different. Exit status 1 if anything differs.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import tokenizers
from comparing import call_peer, count_results, files_parser, generators, reason_of, run_check

import bpe
from bpe.compat.huggingface import DecodeStream, Tokenizer
from bpe.errors import FormatError
from bpe.formats import huggingface

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
generated = import_module("generated")


def check() -> Counter[str]:
    """Compare all files."""
    parser = files_parser(__doc__)
    parser.add_argument("--texts", metavar="N", type=int, default=6, help="texts for each file (default 6)")
    options = parser.parse_args()
    return count_results(options, results_of(list(generators(options)), options.texts))


def results_of(chances: list[random.Random], n_texts: int) -> Iterator[str]:
    """The result for each file, from another process, because some decoders make `tokenizers` end the process."""
    chances.reverse()
    while chances:
        with ProcessPoolExecutor(1) as pool, suppress(BrokenProcessPool):
            while chances:
                yield pool.submit(compare, chances.pop(), n_texts).result()
            return
        yield "tokenizers ends the process"


def compare(chance: random.Random, n_texts: int) -> str:
    """The result for one file: "same", "refused: " with a reason, or "different: " with details on more lines."""
    file = generated.tokenizer(chance)
    data = json.dumps(file, ensure_ascii=False)
    theirs, fault = call_peer(lambda: tokenizers.Tokenizer.from_str(data))
    try:
        ours = bpe.Tokenizer(huggingface.read(data.encode()))
    except FormatError as error:
        return f"refused{' by both' if fault else ''}: {reason_of(error)}"
    if theirs is None:
        return "refused by tokenizers alone"
    if generated.is_undecided(file, theirs):
        return "tokenizers gives other ids each time"
    names = [*(each["content"] for each in file["added_tokens"]), *list(file["model"]["vocab"])[-30:]]
    texts = [generated.text(chance, names) for _ in range(n_texts)]
    checks = results(chance, theirs, ours, Tokenizer.from_str(data), texts)
    try:
        for kind, found, wanted in checks:
            if found != wanted:
                return f"different: {kind}\n  bpe        {found!r}\n  tokenizers {wanted!r}\n  {texts!r}\n  {data}"
    except Exception as error:  # noqa: BLE001  # this package raises where `tokenizers` does not
        return f"different: {type(error).__name__} {reason_of(error)}\n  {texts!r}\n  {data}"
    return "same"


def results(
    chance: random.Random, theirs: Any, ours: bpe.Tokenizer, compat: Tokenizer, texts: list[str]
) -> Iterator[tuple[str, Any, Any]]:
    """(what, the result of this package, the result of `tokenizers`)."""
    rows = []
    for text in texts:
        each, fault = call_peer(partial(theirs.encode, text, add_special_tokens=False))
        if fault:
            continue
        rows.append((text, each.ids))
        yield "ids", ours.encode(text, allowed_special="all").tolist(), each.ids
        yield "template", ours.encode(text, allowed_special="all", template=True).tolist(), theirs.encode(text).ids
        ids, spans, words = ours._offset_encoder.encode_with_word_numbers(
            text, frozenset(ours.special_tokens), "char", "tokenizers"
        )
        yield "spans", (ids.tolist(), [*map(tuple, spans.tolist())], words.tolist()), (
            each.ids, each.offsets, each.word_ids,
        )  # fmt: skip
        own = compat.encode(text, add_special_tokens=False)
        columns = ("ids", "tokens", "offsets", "word_ids", "special_tokens_mask")
        yield "compat", [getattr(own, name) for name in columns], [getattr(each, name) for name in columns]
        stream = [number for part in ours.encode_stream(list(text), allowed_special="all") for number in part.tolist()]
        yield "stream", stream, each.ids
        yield "dropout of 0", ours.encode(text, allowed_special="all", dropout=0.0).tolist(), each.ids
        yield "count", ours.count_tokens(text, allowed_special="all"), len(each.ids)
        theirs.encode_special_tokens = compat.encode_special_tokens = True
        as_text = theirs.encode(text, add_special_tokens=False)
        own = compat.encode(text, add_special_tokens=False)
        theirs.encode_special_tokens = compat.encode_special_tokens = False
        yield "special tokens as text", (own.ids, own.tokens), (as_text.ids, as_text.tokens)
    batch = ours.encode_batch([text for text, _ in rows], allowed_special="all")
    yield "batch", batch.to_list(), [ids for _, ids in rows]
    yield from decoding_results(chance, theirs, ours, compat, [ids for _, ids in rows])
    yield from writing_results(ours, rows)


def decoding_results(
    chance: random.Random, theirs: Any, ours: bpe.Tokenizer, compat: Tokenizer, rows: list[list[int]]
) -> Iterator[tuple[str, Any, Any]]:
    """Decoded ids, those of texts and random ones."""
    known = [number for number, _ in ours.spec.vocabulary.items()]
    rows = [*rows, *([chance.choice(known) for _ in range(chance.randint(0, 8))] for _ in range(3))]
    has_decoder = theirs.decoder is not None
    # One wrong byte makes a whole run of byte tokens U+FFFD, but a stream gives the characters before it at once.
    has_byte_runs = "ByteFallback" in str(theirs.decoder)
    for ids in rows:
        for skip in (False, True):
            wanted, fault = call_peer(partial(theirs.decode, ids, skip_special_tokens=skip))
            if fault:
                continue
            yield f"compat decode, {skip=}", compat.decode(ids, skip_special_tokens=skip), wanted
            if has_decoder:
                yield f"decode, {skip=}", ours.decode(ids, skip_special=skip), wanted
                yield f"decode_batch, {skip=}", ours.decode_batch([ids], skip_special=skip), [wanted]
        whole = ours.decode(ids)
        if "\ufffd" not in whole or not has_byte_runs:
            decoder = ours.decoder()
            yield "decoder()", "".join([*map(decoder.push, ids), decoder.flush()]), whole
        streams = DecodeStream(skip_special_tokens=False), tokenizers.decoders.DecodeStream(skip_special_tokens=False)
        pairs = zip(streams, (compat, theirs), strict=True)
        ran = [call_peer(partial(stream_texts, stream, tok, ids)) for stream, tok in pairs]
        if not ran[1][1]:
            yield "DecodeStream", ran[0], ran[1]


def stream_texts(stream: Any, tok: Any, ids: list[int]) -> list[str | None]:
    """The texts that a stream gives for ids one by one."""
    return [stream.step(tok, number) for number in ids]


def writing_results(ours: bpe.Tokenizer, rows: list[tuple[str, list[int]]]) -> Iterator[tuple[str, Any, Any]]:
    """The file that this package writes, read by both libraries."""
    saved = huggingface.write(ours.spec)
    yield "written and read", bpe.Tokenizer(huggingface.read(saved)) == ours, True
    if huggingface.explain_refusal(ours.spec) is None and not (
        ours.spec.model == "char" and ours.spec.unk_token is None
    ):
        again = tokenizers.Tokenizer.from_str(saved.decode())
        for text, ids in rows:
            yield "ids of tokenizers for the file written", again.encode(text, add_special_tokens=False).ids, ids


if __name__ == "__main__":
    run_check(check)
