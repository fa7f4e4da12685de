"""Training with trainers of `tokenizers` gives the same tokenizer.json, whichever package trains."""

from pathlib import Path
from typing import Any

import pytest

import bpe.compat.training
from bpe.compat.huggingface import Tokenizer

hf_tokenizers = pytest.importorskip("tokenizers", reason="compares with the tokenizers package")
models, normalizers, steps, trainers = (
    getattr(hf_tokenizers, name) for name in ("models", "normalizers", "pre_tokenizers", "trainers")
)
TEXTS = [
    "low lower lowest  newer 2024\n",
    "naïve café <s> don't\n\n",
    "한국어 日本語 low low\n",
    "the then there <s>",
] * 5
LETTERS = steps.ByteLevel.alphabet()
LEVEL = steps.ByteLevel(add_prefix_space=False)
MARK = hf_tokenizers.AddedToken("<m>", lstrip=True)
#: Whether this package trains, the pretokenizer, the normalizer and the trainer's settings.
CASES: list[tuple[bool, Any, Any, dict[str, Any]]] = [
    (True, LEVEL, None, {"vocab_size": 300, "special_tokens": ["<s>", MARK]}),
    (True, steps.ByteLevel(), normalizers.NFC(), {"vocab_size": 320, "min_frequency": 6}),
    (True, steps.Sequence([steps.Digits(True), LEVEL]), normalizers.Lowercase(), {"vocab_size": 290}),
    (False, LEVEL, None, {"vocab_size": 290, "special_tokens": ["low"]}),
    (False, LEVEL, None, {"vocab_size": 100}),
    (False, LEVEL, None, {"vocab_size": 290, "initial_alphabet": []}),
    (False, LEVEL, None, {"vocab_size": 290, "max_token_length": 3}),
    (False, steps.Whitespace(), None, {"vocab_size": 60, "initial_alphabet": []}),
]


@pytest.mark.parametrize(("own", "step", "normalizer", "settings"), CASES)
def test_training_gives_the_file_of_tokenizers(
    own: bool, step: Any, normalizer: Any, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[bool] = []

    def trained(*args: Any, **options: Any) -> Any:
        result = plain(*args, **options)
        calls.append(result is not None)
        return result

    plain = bpe.compat.training.train_natively
    monkeypatch.setattr(bpe.compat.training, "train_natively", trained)
    path = tmp_path / "corpus.txt"
    path.write_text("".join(TEXTS))
    results: list[list[str]] = [[], []]
    for kind, result in zip((hf_tokenizers.Tokenizer, Tokenizer), results, strict=True):
        for corpus in (iter(TEXTS), [TEXTS[:7], TEXTS[7:]], None):
            tokenizer = kind(models.BPE())
            tokenizer.pre_tokenizer = step
            if normalizer is not None:
                tokenizer.normalizer = normalizer
            trainer = trainers.BpeTrainer(**{"initial_alphabet": LETTERS, "show_progress": False, **settings})
            if corpus is None:
                tokenizer.train([str(path)], trainer)
            else:
                tokenizer.train_from_iterator(corpus, trainer)
            result.append(tokenizer.to_str())
    assert results[1] == results[0]
    assert calls == [own] * 3
