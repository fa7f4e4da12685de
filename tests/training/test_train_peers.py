"""Merges equal those of the trainers with the same tie rules: subword-nmt (`greatest`) and minbpe (`first`).

The corpora are the beginnings of the shared corpora, which are not part of the project, and a short text.
`test_shared_corpora.py` compares with Hugging Face's (`id`). Run as a program, this module compares a whole file:

    python tests/test_train_peers.py (tokenizers | subword-nmt | minbpe) FILE SIZE NUMBER
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
import reference
from conftest import CORPORA, SEPARATOR

import bpe

END = SEPARATOR.decode()
TEXT = (
    "the low lower newest widest aaaa abab aaab ababab 영화를 영화관에서 보지 못한 것을 후회할 吾輩は猫である。 "
    "名前はまだ無い。 naïve café 😊😊 x=x+1 == ====== 1234567 1212 \n"
) * 3
each_text = pytest.mark.parametrize("language", ["own", *CORPORA])

Corpus = Callable[[str, int], bytes]


def text_of(corpus: Corpus, language: str, size: int) -> str:
    return TEXT if language == "own" else corpus(language, size).decode()


def subword_nmt_merges(counts: bpe.WordCounts, number: int) -> list[tuple[str, str]]:
    """The merges that its `learn_bpe` learns from a dictionary of words, in the format of its version 0.2."""
    learn_bpe = pytest.importorskip("subword_nmt.learn_bpe")
    words = io.StringIO("".join(f"{word.decode()} {count}\n" for word, count in counts.items()))
    codes = io.StringIO()
    with redirect_stderr(io.StringIO()):
        learn_bpe.learn_bpe(words, codes, number, is_dict=True)
    lines = codes.getvalue().split("\n")
    assert lines[0] == "#version: 0.2"
    return [tuple(line.split(" ")) for line in lines[1:] if line]  # type: ignore[misc]


def like_subword_nmt(text: str, number: int) -> tuple[list[Any], list[Any]]:
    """Merges by this package and by subword-nmt."""
    counts = bpe.count_words(texts=text.split(END), pretokenizer="whitespace")
    tok = bpe.train(
        counts=counts,
        num_merges=number,
        model="char",
        end_of_word="</w>",
        end_of_word_glued=True,
        min_frequency=2,
        rules=bpe.MergeRules(tie_break="greatest"),
    )
    ours = [tuple(tok.token_bytes(token).decode() for token in pair) for pair in tok.merges.tolist()]
    return ours, subword_nmt_merges(counts, number)


def like_minbpe(text: str, number: int) -> tuple[list[Any], list[Any]]:
    """Merges by this package and by the naive twin of minbpe."""
    pretokenizer = bpe.Pretokenizer("gpt2")
    documents = text.split(END)
    chunks = [chunk for document in documents for chunk in pretokenizer.split_bytes(document)]
    tok = bpe.train(texts=documents, num_merges=number, rules=bpe.MergeRules(tie_break="first"))
    ours = [tuple(map(tok.token_bytes, pair)) for pair in tok.merges.tolist()]
    return ours, reference.minbpe_merges(chunks, number)


def like_hugging_face(text: str, number: int) -> tuple[list[Any], list[Any]]:
    """Merges by this package and by `tokenizers`, for `number` tokens."""
    tokenizers = pytest.importorskip("tokenizers")
    from bpe.text.letters import spell_token_in_letters

    documents = text.split(END)
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    peer = tokenizers.Tokenizer(tokenizers.models.BPE())
    peer.pre_tokenizer = byte_level(add_prefix_space=False, use_regex=True)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=number, initial_alphabet=byte_level.alphabet(), show_progress=False
    )
    peer.train_from_iterator(documents, trainer)
    import json

    merges = [tuple(merge) for merge in json.loads(peer.to_str())["model"]["merges"]]
    tok = bpe.train(texts=documents, vocab_size=number, rules=bpe.MergeRules(tie_break="id"))
    return [
        tuple(spell_token_in_letters(tok.token_bytes(token)) for token in pair) for pair in tok.merges.tolist()
    ], merges


@each_text
def test_greatest_equals_subword_nmt(corpus: Corpus, language: str) -> None:
    ours, theirs = like_subword_nmt(text_of(corpus, language, 15_000), 150)
    assert ours == theirs
    assert len(ours) > 20


@each_text
def test_first_equals_minbpe(corpus: Corpus, language: str) -> None:
    ours, theirs = like_minbpe(text_of(corpus, language, 5_000), 60)
    assert ours == theirs
    assert len(ours) == 60


def main() -> None:
    """Compare on a file, and print where the merges differ."""
    rule, path, size, number = sys.argv[1:]
    compare = {"tokenizers": like_hugging_face, "subword-nmt": like_subword_nmt, "minbpe": like_minbpe}[rule]
    with open(path, "rb") as file:
        text = file.read(int(float(size))).decode(errors="ignore")
    ours, theirs = compare(text, int(number))
    same = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    about = f"{rule} {Path(path).name} {len(text.encode())} bytes: {len(ours)} and {len(theirs)} merges"
    sys.stdout.write(f"{about}, the first {same} equal\n")
    if not same == len(ours) == len(theirs):
        raise SystemExit(f"the next merges are {ours[same : same + 3]} and {theirs[same : same + 3]}")


if __name__ == "__main__":
    main()
