"""Normalizers of sentencepiece's and BERT's vocabularies give the texts and spans that `tokenizers` gives."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import numpy as np
import pipelines
import pytest

from bpe import normalizers as n
from bpe.pretokenizers import Split
from bpe.text.character_sets import list_codes, mask_new_characters
from bpe.text.oniguruma import translate

tokenizers = pytest.importorskip("tokenizers")


def make_charsmap(entries: dict[str, str]) -> str:
    """A character map with a trie of these entries, as sentencepiece stores it (a double array, not compact)."""
    blob = b"".join(text.encode() + b"\0" for text in entries.values())
    positions: dict[bytes, int] = {}
    offset = 0
    for key, text in entries.items():
        positions[key.encode()] = offset
        offset += len(text.encode()) + 1
    nodes = sorted({key[:i] for key in positions for i in range(len(key) + 1)}, key=len)
    blocks = {node: 256 * (i + 1) for i, node in enumerate(nodes)}  # each node's children have a block of their own
    array = np.zeros(256 * (len(nodes) + 1), dtype="<u4")

    def unit(here: int, node: bytes, label: int) -> int:
        offset = here ^ blocks[node]
        return label | (1 << 8 if node in positions else 0) | offset << 10

    array[0] = unit(0, b"", 0)
    for node in nodes[1:]:
        here = blocks[node[:-1]] ^ node[-1]
        array[here] = unit(here, node, node[-1])
    for node, position in positions.items():
        array[blocks[node]] = position | 1 << 31
    data = array.tobytes()
    return base64.b64encode(len(data).to_bytes(4, "little") + data + blob).decode()


ENTRIES = {"ﬁ": "fi", "①": "1", "\u3000": " ", "K": "K", "e\u0301": "é", "…": "...", "\u00ad": "", "\t": " "}


def normalize_by_peer(normalizer: Any, text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text and the spans of its characters in `tokenizers`."""
    result = normalizer.normalize_str(text)
    vocab = {char: index for index, char in enumerate(sorted(set(result)))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=[]))
    tokenizer.normalizer = normalizer
    return result, tokenizer.encode(text).offsets


@pytest.mark.parametrize("seed", range(6))
def test_texts_and_spans(seed: int) -> None:
    from bpe.formats.huggingface.steps import read_normalizer

    rng = random.Random(seed)
    charmap = {"type": "Precompiled", "precompiled_charsmap": make_charsmap(ENTRIES)}
    for _ in range(50):
        steps = [pipelines.draw_normalizer(rng) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.3:
            steps = [charmap]
        value = {"type": "Sequence", "normalizers": steps}
        normalizer = read_normalizer(value, "normalizer")
        shell = json.loads(tokenizers.Tokenizer(tokenizers.models.BPE()).to_str())
        peer = tokenizers.Tokenizer.from_str(json.dumps({**shell, "normalizer": value})).normalizer
        text = pipelines.draw_text(rng)
        expected, spans = normalize_by_peer(peer, text)
        assert normalizer(text) == expected, (steps, text)
        alignment = normalizer.align(text, "tokenizers")
        assert alignment.text == normalizer.align(text).text == expected
        assert [*zip(alignment.starts.tolist(), alignment.ends.tolist(), strict=True)] == spans, (steps, text)


def test_bad_character_maps_are_refused() -> None:
    for bad in ("x", "AAAA", base64.b64encode(b"\xff\0\0\0ab").decode()):
        with pytest.raises(ValueError, match="precompiled_charsmap"):
            n.Precompiled(bad)
    damaged = bytearray(base64.b64decode(make_charsmap(ENTRIES)))
    rng = random.Random(1)
    for _ in range(100):
        damaged[rng.randrange(4, len(damaged) - 40)] = rng.randrange(256)
        n.Precompiled(base64.b64encode(bytes(damaged)).decode())("ﬁ①…e\u0301 K")


@pytest.mark.parametrize(
    "pattern",
    [r"\w", r"[\w]", r"\W", r"[^\w\s]", r"\d", r"\s", r"\p{L}", r"\p{N}", r"\p{P}", r"\p{S}", r"\p{M}", r"\p{Han}"],
)
def test_classes_of_all_characters(pattern: str) -> None:
    """Oniguruma's classes of Unicode 16, whatever the version of `regex`; some blocks only."""
    import regex

    every = "".join(
        map(chr, [*range(0x3400), *range(0xA640, 0xAC00), *range(0x10EC0, 0x10F40), *range(0x1FA60, 0x1FB00)])
    )
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "removed", invert=True)
    expected = {char for piece, _ in split.pre_tokenize_str(every) for char in piece}
    matched = {
        every[match.start()] for match in regex.finditer(translate(pattern).expression, mask_new_characters(every))
    }
    differing = sorted(expected ^ matched)[:5]
    assert differing == []


def test_most_code_points_are_unassigned() -> None:
    assert sum(1 for _ in list_codes("UNASSIGNED")) > 800_000


@pytest.mark.parametrize(
    "pattern", ["[\u0558]", "[\u0500-\u05ff]", r"[\u0080-\uffff]+", "a\u0558", "[^\u0500-\u05ff]", "[ࠀ-一]"]
)
def test_characters_after_unicode_16_that_a_pattern_names(pattern: str) -> None:
    text = "a\u0558b\u1acfc\u0558"
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    assert Split(pattern).pieces(text) == [piece for piece, _ in split.pre_tokenize_str(text)]
    replace = tokenizers.normalizers.Replace(tokenizers.Regex(pattern), "x")
    assert n.Replace(pattern, "x")(text) == replace.normalize_str(text)
