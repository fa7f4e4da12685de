"""Random edits of texts: the ids of a `PromptCache` are those of a fresh call, for tokenizers of every shape.

    python benchmarks/checks/check_prompts.py [--edits N] [--seconds S] [--seed S] [--limits | --chunks]

Tokenizers are, alternated, generated files of tokenizer.json, with random models, flags of added tokens, normalizers
and pre_tokenizers, and trained ones: of every published pattern with several normalizers, with merges across words, and
with deletions. Each has a cache of random size, with windows of random size, and 50 texts made of earlier ones by
random edits. The numbers of ids kept are compared with earlier ids, and the memory with its limit. Prints how many
tokenizers and edits were the same. Exit status 1 if anything differs.

With --limits, for the same tokenizers and superwords, random texts take the place of edits: no chunk, no overlap and no
truncated text has more tokens than it may, each encoded by itself; the chunks joined are the text; a text that arrives
in parts has the same chunks; and counts with a limit are those without one.

With --chunks, for trained tokenizers only, of bytes with published patterns, with byte fallback and with superwords: no
chunk of a random text has more tokens than it may, for every kind of boundaries, and the chunks joined are the text.
"""

from __future__ import annotations

import json
import logging
import random
import sys
import time
from functools import cache
from typing import Any

from comparing import make_parser
from generated import LETTERS, draw_tokenizer
from limits import find_difference as find_broken_limit
from limits import find_wrong_chunks
from pipelines import PIECES
from prompts import find_difference

import bpe
from bpe import normalizers
from bpe.errors import FormatError
from bpe.formats import huggingface
from bpe.pretokenize.patterns import NAMES

EDITS_PER_TOKENIZER = 50
TEXT = "the low lower newest, 영화를 영화관에서 吾輩は猫である。\n名前は無い。\n é 😊\n\n  it's 123 x\r\n\tif a:\n  b\0"
SPECIAL_TOKENS = ["<|end|>", "<|endless|>", "<|", "b c", "low lower"]
TRAINED_PIECES = [
    *(*TEXT, *TEXT.split(), *5 * SPECIAL_TOKENS),
    *("<|en", "d|>", " ", "\n", "猫", "a b c d", "\u0301", "\ud83d"),
]
#: What else than a published pattern a trained tokenizer has, beside none.
BOUNDLESS, PICKY, REGEX, _, SUPERWORDS, BYTE_FALLBACK = range(len(NAMES), len(NAMES) + 6)
NORMALIZERS = [
    *(None, None, normalizers.NFC(), normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(" ", "▁")),
    normalizers.Sequence(normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(final_sigma=True)),
    normalizers.Sequence(normalizers.Replace(" ", ""), normalizers.NFC()),
    *(normalizers.Prepend("x"), normalizers.Replace("w [a-n]", "_"), normalizers.Replace("^|$", "ow ")),
    normalizers.Sequence(normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")),
    normalizers.Sequence(normalizers.Strip(), normalizers.CollapseWhitespace()),
]


def main() -> int:
    """Check edits until there are enough, or for so many seconds."""
    logging.disable()
    parser = make_parser(__doc__)
    parser.add_argument("--edits", metavar="N", type=int, default=1_000_000, help="how many edits (default 1,000,000)")
    parser.add_argument("--seconds", metavar="S", type=float, default=float("inf"), help="no more than S seconds")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="another choice (default 0)")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--limits", action="store_true", help="check chunks, truncation and counts instead of prompts")
    kind.add_argument("--chunks", action="store_true", help="check chunks of trained tokenizers, with all boundaries")
    options = parser.parse_args()
    find = find_broken_limit if options.limits else find_wrong_chunks if options.chunks else find_difference
    end, n_tokenizers, n_refused, n_different = time.monotonic() + options.seconds, 0, 0, 0
    while n_tokenizers * EDITS_PER_TOKENIZER < options.edits and time.monotonic() < end:
        rng = random.Random(f"{options.seed} {n_tokenizers} {n_refused}")
        try:
            if options.chunks:
                tok, pieces = draw_common(rng, n_tokenizers)
            else:
                tok, pieces = draw_trained(rng) if n_tokenizers % 2 else draw_generated(rng)
        except FormatError:
            n_refused += 1
            continue
        difference = find(rng, tok, pieces, EDITS_PER_TOKENIZER)
        if difference is not None:
            n_different += 1
            print(f"tokenizer {n_tokenizers}: {tok!r}\n  {difference}", flush=True)
        n_tokenizers += 1
    print(f"{n_tokenizers} tokenizers, {n_tokenizers * EDITS_PER_TOKENIZER} edits, {n_different} tokenizers different")
    return 1 if n_different or not n_tokenizers else 0


def draw_generated(rng: random.Random) -> tuple[bpe.Tokenizer, list[str]]:
    """(the tokenizer of a random tokenizer.json, pieces of texts)."""
    file = draw_tokenizer(rng)
    tok = bpe.Tokenizer(huggingface.read(json.dumps(file).encode()))
    names = [token["content"] for token in file["added_tokens"]]
    vocab = [*file["model"]["vocab"]][-30:]
    return tok, [*LETTERS, *(2 * names or LETTERS), *vocab, *rng.sample(PIECES, 20)]


def draw_trained(rng: random.Random) -> tuple[bpe.Tokenizer, list[str]]:
    """(a trained tokenizer, pieces of texts)."""
    pattern, normalizer = rng.randrange(len(NAMES) + 6), rng.randrange(len(NORMALIZERS))
    return train(pattern, normalizer, rng.random() < 0.2, rng.random() < 0.3), TRAINED_PIECES


def draw_common(rng: random.Random, index: int) -> tuple[bpe.Tokenizer, list[str]]:
    """(a tokenizer of bytes, with byte fallback or with superwords, in turn; pieces of texts)."""
    pattern = (rng.randrange(len(NAMES)), BYTE_FALLBACK, SUPERWORDS)[index % 3]
    return train(pattern, 0, False, False), TRAINED_PIECES


@cache
def train(pattern: int, normalizer: int, add_prefix_space: bool, is_char_model: bool) -> bpe.Tokenizer:
    """Train a tokenizer with a published pattern, one of the `regex` package, or none, or one of a special model."""
    texts: dict[str, Any] = {"texts": [TEXT, "猫猫猫 画画画 low low"], "special_tokens": SPECIAL_TOKENS}
    if pattern == BOUNDLESS:
        return bpe.research.train_boundless(**texts, vocab_size=300)
    if pattern == PICKY:
        picky_tokenizer: bpe.Tokenizer = bpe.research.train_picky(**texts, vocab_size=300)
        return picky_tokenizer
    if pattern == SUPERWORDS:
        superwords: bpe.Tokenizer = bpe.train(**texts, vocab_size=300, superwords=bpe.SuperWords(transition=280))
        return superwords
    if pattern == BYTE_FALLBACK:
        alphabet = bpe.Alphabet(byte_fallback=True)
        fallback: bpe.Tokenizer = bpe.train(**texts, vocab_size=340, pretokenizer="metaspace", alphabet=alphabet)
        return fallback
    pretokenizer: bpe.Pretokenizer | None = None
    if pattern < len(NAMES):
        pretokenizer = bpe.Pretokenizer(list(NAMES)[pattern], add_prefix_space=add_prefix_space)
    elif pattern == REGEX:
        pretokenizer = bpe.Pretokenizer.from_regex(r"\w+|\W")
    if is_char_model:
        texts |= {"model": "char", "unk_token": "<unk>"}
    tokenizer: bpe.Tokenizer = bpe.train(
        **texts, num_merges=60, pretokenizer=pretokenizer, normalizer=NORMALIZERS[normalizer]
    )
    return tokenizer


if __name__ == "__main__":
    sys.exit(main())
