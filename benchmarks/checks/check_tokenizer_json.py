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
from comparing import call_peer, count_results, get_reason, make_files_parser, make_generators, run_check

import bpe
from bpe.compat.huggingface import DecodeStream, Tokenizer
from bpe.errors import FormatError
from bpe.formats import huggingface

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
generated = import_module("generated")


def check() -> Counter[str]:
    """Compare all files."""
    parser = make_files_parser(__doc__)
    parser.add_argument("--texts", metavar="N", type=int, default=6, help="texts for each file (default 6)")
    options = parser.parse_args()
    return count_results(options, list_results(list(make_generators(options)), options.texts))


def list_results(chances: list[random.Random], n_texts: int) -> Iterator[str]:
    """The result for each file, from another process, because some decoders make `tokenizers` end the process."""
    chances.reverse()
    while chances:
        with ProcessPoolExecutor(1) as pool, suppress(BrokenProcessPool):
            while chances:
                yield pool.submit(compare, chances.pop(), n_texts).result()
            return
        yield "tokenizers ends the process"


def compare(rng: random.Random, n_texts: int) -> str:
    """The result for one file: "same", "refused: " with a reason, or "different: " with details on more lines."""
    file = generated.draw_tokenizer(rng)
    data = json.dumps(file, ensure_ascii=False)
    peer, problem = call_peer(lambda: tokenizers.Tokenizer.from_str(data))
    try:
        tok = bpe.Tokenizer(huggingface.read(data.encode()))
    except FormatError as error:
        return f"refused{' by both' if problem else ''}: {get_reason(error)}"
    if peer is None:
        return "refused by tokenizers alone"
    if generated.is_undecided(file, peer):
        return "tokenizers gives other ids each time"
    names = [*(token["content"] for token in file["added_tokens"]), *list(file["model"]["vocab"])[-30:]]
    texts = [generated.draw_text(rng, names) for _ in range(n_texts)]
    checks = results(rng, peer, tok, Tokenizer.from_str(data), texts)
    try:
        for kind, result, expected in checks:
            if result != expected:
                return f"different: {kind}\n  bpe        {result!r}\n  tokenizers {expected!r}\n  {texts!r}\n  {data}"
    except Exception as error:  # noqa: BLE001  # this package raises where `tokenizers` does not
        return f"different: {type(error).__name__} {get_reason(error)}\n  {texts!r}\n  {data}"
    return "same"


def results(
    rng: random.Random, peer: Any, tok: bpe.Tokenizer, compat: Tokenizer, texts: list[str]
) -> Iterator[tuple[str, Any, Any]]:
    """(what, the result of this package, the result of `tokenizers`)."""
    rows = []
    for text in texts:
        peer_encoding, error = call_peer(partial(peer.encode, text, add_special_tokens=False))
        if error:
            continue
        rows.append((text, peer_encoding.ids))
        yield "ids", tok.encode(text, allowed_special="all").tolist(), peer_encoding.ids
        yield "template", tok.encode(text, allowed_special="all", template=True).tolist(), peer.encode(text).ids
        ids, spans, words = tok._offset_encoder.encode_with_word_numbers(
            text, frozenset(tok.special_tokens), "char", "tokenizers"
        )
        yield "spans", (ids.tolist(), [*map(tuple, spans.tolist())], words.tolist()), (
            peer_encoding.ids, peer_encoding.offsets, peer_encoding.word_ids,
        )  # fmt: skip
        encoding = compat.encode(text, add_special_tokens=False)
        columns = ("ids", "tokens", "offsets", "word_ids", "special_tokens_mask")
        yield (
            "compat",
            [getattr(encoding, name) for name in columns],
            [getattr(peer_encoding, name) for name in columns],
        )
        stream = [
            token_id for part in tok.encode_stream(list(text), allowed_special="all") for token_id in part.tolist()
        ]
        yield "stream", stream, peer_encoding.ids
        yield "dropout of 0", tok.encode(text, allowed_special="all", dropout=0.0).tolist(), peer_encoding.ids
        yield "count", tok.count_tokens(text, allowed_special="all"), len(peer_encoding.ids)
        peer.encode_special_tokens = compat.encode_special_tokens = True
        as_text = peer.encode(text, add_special_tokens=False)
        encoding = compat.encode(text, add_special_tokens=False)
        peer.encode_special_tokens = compat.encode_special_tokens = False
        yield "special tokens as text", (encoding.ids, encoding.tokens), (as_text.ids, as_text.tokens)
    batch = tok.encode_batch([text for text, _ in rows], allowed_special="all")
    yield "batch", batch.to_list(), [ids for _, ids in rows]
    yield from decoding_results(rng, peer, tok, compat, [ids for _, ids in rows])
    yield from writing_results(tok, rows)


def decoding_results(
    rng: random.Random, peer: Any, ours: bpe.Tokenizer, compat: Tokenizer, rows: list[list[int]]
) -> Iterator[tuple[str, Any, Any]]:
    """Decoded ids, those of texts and random ones."""
    known_ids = [token_id for token_id, _ in ours.spec.vocabulary.items()]
    rows = [*rows, *([rng.choice(known_ids) for _ in range(rng.randint(0, 8))] for _ in range(3))]
    has_decoder = peer.decoder is not None
    # One wrong byte makes a whole run of byte tokens U+FFFD, but a stream gives the characters before it at once.
    has_byte_runs = "ByteFallback" in str(peer.decoder)
    for ids in rows:
        for skip in (False, True):
            expected, error = call_peer(partial(peer.decode, ids, skip_special_tokens=skip))
            if error:
                continue
            yield f"compat decode, {skip=}", compat.decode(ids, skip_special_tokens=skip), expected
            if has_decoder:
                yield f"decode, {skip=}", ours.decode(ids, skip_special=skip), expected
                yield f"decode_batch, {skip=}", ours.decode_batch([ids], skip_special=skip), [expected]
        peer_text = ours.decode(ids)
        if "\ufffd" not in peer_text or not has_byte_runs:
            decoder = ours.decoder()
            yield "decoder()", "".join([*map(decoder.push, ids), decoder.flush()]), peer_text
        streams = DecodeStream(skip_special_tokens=False), tokenizers.decoders.DecodeStream(skip_special_tokens=False)
        pairs = zip(streams, (compat, peer), strict=True)
        ran = [call_peer(partial(stream_texts, stream, tok, ids)) for stream, tok in pairs]
        if not ran[1][1]:
            yield "DecodeStream", ran[0], ran[1]


def stream_texts(stream: Any, tok: Any, ids: list[int]) -> list[str | None]:
    """The texts that a stream gives for ids one by one."""
    return [stream.step(tok, token_id) for token_id in ids]


def writing_results(tok: bpe.Tokenizer, rows: list[tuple[str, list[int]]]) -> Iterator[tuple[str, Any, Any]]:
    """The file that this package writes, read by both libraries."""
    written = huggingface.write(tok.spec)
    yield "written and read", bpe.Tokenizer(huggingface.read(written)) == tok, True
    if huggingface.explain_refusal(tok.spec) is None and not (tok.spec.model == "char" and tok.spec.unk_token is None):
        again = tokenizers.Tokenizer.from_str(written.decode())
        for text, ids in rows:
            yield "ids of tokenizers for the file written", again.encode(text, add_special_tokens=False).ids, ids


if __name__ == "__main__":
    run_check(check)
