"""The doors of the library: each public function, class, method, reader and command, with valid arguments.

`make_doors` gives each door by the name that docs/api.md has; `list_documented_names` lists those that it must have,
and tests/test_doors.py holds the two together. The harnesses of `benchmarks/checks` that attack "every door" take this
list, so a new public name is attacked from the day it is documented.
"""

from __future__ import annotations

import base64
import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bpe
from bpe.cli import main
from bpe.compat import huggingface, subword_nmt
from bpe.compat import tiktoken as compat_tiktoken
from bpe.data import (
    Blocks,
    Manifest,
    Mixture,
    Packed,
    RowSampler,
    StreamingEncoder,
    TokenShards,
    collate,
    convert_shards,
    encode_shards,
    map_function,
    merge_manifests,
    torch_batches,
    torch_collate,
    verify,
    write_shards,
)  # fmt: skip
from bpe.evaluation import sanity_check
from bpe.named import list_encoding_names
from bpe.plots import plot_compression, plot_frequencies, plot_lengths, show_merges
from bpe.report import Playground, page_html, write_page
from bpe.research import (
    Seeds,
    adapt,
    count_runs,
    stochastok,
    train_boundless,
    train_parity,
    train_picky,
    train_seeded,
)  # fmt: skip

API_PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
TEXTS = ["low lower lowest newest, widest", "naïve café 12 두 번째<|end|>low", "", "The quick brown fox. It jumped! "]
TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
MESSAGES = [{"role": "user", "content": "low<|end|>"}, {"role": "bot", "content": "lower newest"}]
SPECIAL_TOKENS = ["<|end|>", "<|user|>", "<|bot|>"]
WORDS = {"low": 5, " lower": 2, " newest": 6, " widest": 3, " naïve": 2}
#: A map of characters of sentencepiece that maps none.
PRECOMPILED = base64.b64encode(b"\4\0\0\0\0\0\0\0\0").decode()

#: Arguments of a call: positional, and options.
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Door:
    """Something public that is called.

    Attributes:
        call: the callable.
        make_arguments: makes valid arguments, anew for each call: iterators that nobody has read, names of new files.
        changes: whether a call changes its object, so that the next one may give another result.

    """

    call: Callable[..., Any]
    make_arguments: Callable[[], Arguments]
    changes: bool = False

    def use(self) -> object:
        """Call the door with valid arguments; what it gives, iterators read to their end."""
        arguments, options = self.make_arguments()
        return finish(self.call(*arguments, **options))


def finish(result: object) -> object:
    """Read an iterator to its end, at most a thousand items: some never end; other results stay as they are."""
    if isinstance(result, Iterator):
        return [item for item, _ in zip(result, range(1000))]  # noqa: B905
    return result


def give(*arguments: Any, **options: Any) -> Arguments:
    """Collect the arguments of a call."""
    return arguments, options


def look_up(word: str, limit: int = 3) -> None:
    """Look up a word."""


look_up.__doc__ = "Look up a word.\n\nArgs:\n    word: the word.\n    limit: the most meanings."  # kept with -OO


class Inputs:
    """Small objects and files that the calls take, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._n_new = 0
        tok = bpe.train(texts=TEXTS * 3, vocab_size=300, special_tokens=SPECIAL_TOKENS)
        self.tok = bpe.Tokenizer(replace(tok.spec, chat_templates={"default": TEMPLATE}))
        self.other = bpe.train(texts=["hello yellow cellar"] * 3, vocab_size=268)
        self.batch = self.tok.encode_batch(TEXTS)
        self.ids = self.tok.encode(TEXTS[0])
        self.counts = bpe.count_words(texts=TEXTS * 3)
        self.counts.save(folder / "words.counts")
        self.tok.save(folder / "tokenizer.json")
        (folder / "text.txt").write_text("\n".join(TEXTS), encoding="utf-8")
        (folder / "words.txt").write_text("low\t5\n lower\t2\n", encoding="utf-8")
        (folder / "chats.jsonl").write_text((json.dumps({"messages": MESSAGES}) + "\n") * 5, encoding="utf-8")
        (folder / "clip.txt").write_text(
            '"x#version: 0.2\nl o\nlo w</w>\ne r</w>\nlo w\nlow er</w>\n', encoding="utf-8"
        )
        (folder / "codes").write_text("#version: 0.2\nl o\nlo w</w>\ne r</w>\nlo w\nlow er</w>\n", encoding="utf-8")
        self.ranked = bpe.train(texts=TEXTS * 3, vocab_size=270, pretokenizer="cl100k")
        self.ranked.save(folder / "small.tiktoken", format="tiktoken", lossy=True)
        rows = [([*range(n % 7, n % 7 + 20 + n)], [n % 2] * (20 + n)) for n in range(12)]
        write_shards(rows, folder / "shards", shard_size=100, masks=True)
        self.shards = TokenShards(folder / "shards")
        for part in range(2):
            encode_shards(folder / "text.txt", self.tok, folder / "parts" / str(part), rank=part, world=2)

    def new(self, suffix: str = "") -> Path:
        """Return the name of a file or folder that is not there."""
        self._n_new += 1
        return self.folder / f"new{self._n_new}{suffix}"

    def path(self, name: str) -> Path:
        """Return the path of an input."""
        return self.folder / name


def get_room(name: str) -> str:
    """Return the class or module of a door, or "commands"."""
    return "commands" if name.startswith("bpe ") else name.split(" ")[0].rpartition(".")[0]


def make_doors(folder: Path) -> dict[str, Door]:
    """Make all doors, by name."""
    inputs = Inputs(folder)
    rooms = (
        _make_training_doors, _make_tokenizer_doors, _make_part_doors, _make_data_doors, _make_view_doors,
        _make_compat_doors, _make_command_doors,
    )  # fmt: skip
    doors: dict[str, Door] = {}
    for make in rooms:
        made = make(inputs)
        assert not made.keys() & doors.keys()
        doors |= made
    return doors


def _make_training_doors(inputs: Inputs) -> dict[str, Door]:
    tok, counts, text = inputs.tok, inputs.counts, inputs.path("text.txt")
    table = bpe.WordCounts()
    seeds: Any = {"merges": [("l", "o")]}
    boundless: Any = train_boundless(262, texts=TEXTS * 3, vocab_size=262)
    dev = {"en": counts, "ko": bpe.count_words(texts=TEXTS[1:2])}
    return {
        "bpe.train": Door(
            bpe.train,
            # Several special tokens, so that their order can be seen.
            lambda: give(
                texts=iter(TEXTS), vocab_size=280, special_tokens=["<s>", "<a>", "<b>", "<c>", "<d>"], threads=2
            ),
        ),
        "bpe.train of files": Door(
            bpe.train, lambda: give(files=[text], num_merges=9, max_memory="99G", progress=False)
        ),
        "bpe.train of counts": Door(
            bpe.train,
            lambda: give(counts=WORDS, vocab_size=[258, 262], min_frequency=1, on_merge=lambda *_: None, alphabet=None),
        ),
        "bpe.extend": Door(bpe.extend, lambda: give(tok, WORDS, 310, min_frequency=1, progress=False)),
        "bpe.prune": Door(bpe.prune, lambda: give(tok, 290, texts=iter(TEXTS), threads=1)),
        "bpe.combine": Door(bpe.combine, lambda: give(tok, inputs.other, vocab_size=302)),
        "bpe.count_words": Door(
            bpe.count_words, lambda: give(texts=iter(TEXTS), pretokenizer="gpt2", special_tokens=["<|end|>"], threads=2)
        ),
        "bpe.Alphabet": Door(bpe.Alphabet, lambda: give(initial=["a", "b"], limit=90, coverage=0.99, first_id=3)),
        "bpe.MergeRules": Door(bpe.MergeRules, lambda: give(max_token_length=9, forbidden=("x",), tie_break="first")),
        "bpe.SuperWords": Door(bpe.SuperWords, lambda: give(270, max_words=3)),
        "bpe.SuperWords.paper": Door(bpe.SuperWords.paper, lambda: give(270)),
        "bpe.SuperWords.v2": Door(bpe.SuperWords.v2, lambda: give(270)),
        "bpe.SuperWords.count_words": Door(
            bpe.SuperWords(270).count_words, lambda: give(1, texts=iter(TEXTS), special_tokens=["<s>"], threads=1)
        ),
        "bpe.Sources": Door(
            bpe.Sources, lambda: give([inputs.path("chats.jsonl")], format="jsonl", field="messages", on_error="skip")
        ),
        "bpe.Sources.documents": Door(bpe.Sources(text, per_line=True).documents, give),
        "bpe.Sources.part": Door(bpe.Sources(text, per_line=True).part, lambda: give(1, 2)),
        "bpe.Sources.units": Door(bpe.Sources(text).units, give),
        "bpe.Sources.plan": Door(bpe.Sources(text).plan, give),
        "bpe.Sources.blocks": Door(bpe.Sources(text).blocks, lambda: give(None, 1)),
        "bpe.WordCounts": Door(bpe.WordCounts, lambda: give("gpt2", special_tokens=["<|end|>"])),
        "bpe.WordCounts.add": Door(table.add, lambda: give("low lower"), changes=True),
        "bpe.WordCounts.update": Door(table.update, lambda: give(WORDS), changes=True),
        "bpe.WordCounts.merge": Door(table.merge, lambda: give(counts, 2), changes=True),
        "bpe.WordCounts.clear": Door(bpe.WordCounts().clear, give),
        "bpe.WordCounts.arrays": Door(counts.arrays, give),
        "bpe.WordCounts.keys": Door(lambda: iter(sorted(counts.keys())), give),
        "bpe.WordCounts.values": Door(lambda: iter(sorted(counts.values())), give),
        "bpe.WordCounts.items": Door(lambda: iter(sorted(counts.items())), give),
        "bpe.WordCounts.most_common": Door(counts.most_common, lambda: give(3)),
        "bpe.WordCounts.save": Door(counts.save, lambda: give(inputs.new(".counts"))),
        "bpe.WordCounts.load": Door(bpe.WordCounts.load, lambda: give(inputs.path("words.counts"))),
        "bpe.WordCounts.from_text": Door(
            bpe.WordCounts.from_text, lambda: give(inputs.path("words.txt"), "whitespace", special_tokens=["<s>"])
        ),
        "bpe.WordCounts.to_arrow": Door(counts.to_arrow, give),
        "bpe.WordCounts.from_arrow": Door(bpe.WordCounts.from_arrow, lambda: give(counts.to_arrow(), "gpt2")),
        "bpe.research.train_parity": Door(
            train_parity, lambda: give(dev=dev, counts=dev, vocab_size=270, window_size=4, alpha=2.0)
        ),
        "bpe.research.train_boundless": Door(train_boundless, lambda: give(260, texts=TEXTS, vocab_size=270)),
        "bpe.research.train_picky": Door(train_picky, lambda: give(0.8, counts=WORDS, vocab_size=262)),
        "bpe.research.train_seeded": Door(train_seeded, lambda: give(Seeds(**seeds), counts=WORDS, vocab_size=262)),
        "bpe.research.Seeds": Door(Seeds, lambda: give(**seeds)),
        "bpe.research.count_runs": Door(count_runs, lambda: give(boundless, texts=iter(TEXTS), threads=1)),
        "bpe.research.stochastok": Door(stochastok, lambda: give(tok, inputs.ids, 0.5, seed=1)),
        "bpe.research.adapt": Door(adapt, lambda: give(tok, 290, counts=WORDS, passes=2)),
        "bpe.evaluate": Door(
            bpe.evaluate, lambda: give({"a": tok}, texts={"en": TEXTS}, words="spaces", resamples=10, threads=1)
        ),
        "bpe.evaluation.sanity_check": Door(sanity_check, lambda: give(tok, TEXTS)),
    }


def _make_tokenizer_doors(inputs: Inputs) -> dict[str, Door]:
    tok, ids, batch = inputs.tok, inputs.ids, inputs.batch
    vocabulary, merges = {"a": 0, "b": 1, "ab": 2}, ["a b"]
    calls: dict[str, Callable[[], Arguments]] = {
        "chat": lambda: give(MESSAGES, add_generation_prompt=False, tools=None, allowed_special=()),
        "chat that continues": lambda: give(MESSAGES, continue_final_message=True),
        "chat with tools": lambda: give(MESSAGES, tools=[look_up, {"name": "x"}], documents=[{"text": "low"}]),
        "chunk": lambda: give(TEXTS[3] * 3, 9, overlap=2, boundaries="sentence"),
        "chunk of parts": lambda: give(iter(TEXTS), 9, boundaries="word"),
        "clip_rows": lambda: give(TEXTS[:1], 40, True),
        "count_chat": lambda: give(MESSAGES, model="gpt-4o"),
        "count_tokens": lambda: give(TEXTS[0], limit=5),
        "count_tokens of texts": lambda: give(TEXTS, threads=2, allowed_special="all"),
        "decode": lambda: give(ids, "replace", skip_special=True),
        "decode_batch": lambda: give(batch, skip_invalid=True),
        "decode_batch of lists": lambda: give([[1, 2], ids]),
        "decode_bytes": lambda: give(ids.tolist()),
        "decoder": lambda: give(skip_special=True, prompt=ids),
        "encode": lambda: give(TEXTS[1], allowed_special={"<|end|>"}, disallowed_special=()),
        "encode with dropout": lambda: give(TEXTS[0], dropout=0.1, seed=3, template=True),
        "encode_batch": lambda: give(iter(TEXTS), threads=2, prepend=0, append="<|end|>", allowed_special="all"),
        "encode_batch into an array": lambda: give(TEXTS, out=np.empty(500, dtype=np.uint32)),
        "encode_files": lambda: give([inputs.path("text.txt")], per_line=True, threads=2, append=0),
        "encode_spans": lambda: give([("low", True), (TEXTS[1], False)], allowed_special="all"),
        "encode_stream": lambda: give(iter(TEXTS), cut_after="<|end|>"),
        "encode_with_offsets": lambda: give(TEXTS[1], "char", allowed_special="all", convention="whole"),
        "explain": lambda: give(TEXTS[0]),
        "save": lambda: give(inputs.new(".json"), format="huggingface", lossy=False),
        "save_pretrained": lambda: give(
            inputs.new(), chat_template={"default": TEMPLATE}, roles={"eos_token": "<|end|>"}, model_max_length=99
        ),
        "show": lambda: give(TEXTS[1], allowed_special="all", max_tokens=9),
        "token_bytes": lambda: give(70),
        "token_id": lambda: give("a"),
        "tokens": lambda: give(TEXTS[1], as_text=True, allowed_special="all"),
        "truncate": lambda: give(TEXTS[1], 4, side="middle", allowed_special="all"),
        "truncate_vocab": lambda: give(280, renumber=True),
        "unreachable": give,
        "vocab": give,
        "with_tokens": lambda: give(special=["<pad>"], added=["<new>"], roles={"pad_token": "<pad>"}),
        "without_tokens": lambda: give(["<|bot|>", 290], renumber=True),
    }
    doors = {f"bpe.Tokenizer.{name}": Door(getattr(tok, name.split(" ")[0]), call) for name, call in calls.items()}
    cache = bpe.PromptCache(tok)
    prompt = " ".join(TEXTS) * 30
    doors["bpe.Tokenizer.clip_rows"] = Door(
        bpe.Tokenizer.from_clip(inputs.path("clip.txt"), ftfy=False).clip_rows, calls["clip_rows"]
    )
    return doors | {
        "bpe.Tokenizer": Door(bpe.Tokenizer, lambda: give(tok.spec, cache_memory="1M", timeout=9.0)),
        "bpe.Tokenizer.from_spec": Door(bpe.Tokenizer.from_spec, lambda: give(tok.spec, cache_memory=1 << 20)),
        "bpe.Tokenizer.from_clip": Door(
            bpe.Tokenizer.from_clip, lambda: give(inputs.path("clip.txt"), ftfy=False, force=False)
        ),
        "bpe.Tokenizer.from_pretrained": Door(bpe.Tokenizer.from_pretrained, lambda: give("no-org/no-name", "main")),
        "bpe.Tokenizer.from_tiktoken": Door(
            bpe.Tokenizer.from_tiktoken, lambda: give(inputs.path("small.tiktoken"), "cl100k", {"<s>": 280})
        ),
        "bpe.Tokenizer.from_vocab_merges": Door(
            bpe.Tokenizer.from_vocab_merges, lambda: give(vocabulary, merges, "gpt2", {"<s>": 3}, normalizer="nfc")
        ),
        "bpe.Tokenizer.load": Door(
            bpe.Tokenizer.load, lambda: give(inputs.path("tokenizer.json"), cache_memory="1M", timeout=9.0)
        ),
        "bpe.PromptCache": Door(bpe.PromptCache, lambda: give(tok, max_bytes="1M", allowed_special="all")),
        "bpe.PromptCache.encode": Door(cache.encode, lambda: give(prompt), changes=True),
        "bpe.accelerate": Door(bpe.accelerate, lambda: give(_make_fast_tokenizer(tok), prompt_cache="1M")),
        "bpe.convert": Door(
            bpe.convert, lambda: give(inputs.path("tokenizer.json"), inputs.new(".json"), to_format="huggingface")
        ),
        "bpe.diff": Door(bpe.diff, lambda: give(tok, inputs.other, iter(TEXTS))),
        "bpe.get_encoding": Door(bpe.get_encoding, lambda: give("no_encoding")),
        "bpe.encoding_for_model": Door(bpe.encoding_for_model, lambda: give("no-model")),
        "bpe.named.list_encoding_names": Door(list_encoding_names, give),
        "bpe.TokenBatch": Door(bpe.TokenBatch, lambda: give(batch.ids, batch.offsets)),
        "bpe.TokenBatch.from_lists": Door(bpe.TokenBatch.from_lists, lambda: give([[1, 2], ids])),
        "bpe.TokenBatch.padded": Door(batch.padded, lambda: give(9, 0, "left", truncate=True)),
        "bpe.TokenBatch.to_arrow": Door(batch.to_arrow, give),
        "bpe.TokenBatch.to_list": Door(batch.to_list, give),
        "bpe.TokenBatch.__getitem__": Door(batch.__getitem__, lambda: give(1)),
        "bpe.TokenBatch.__len__": Door(batch.__len__, give),
        "bpe.decode.IncrementalDecoder": Door(tok.decoder, lambda: give(prompt=ids)),
        "bpe.decode.IncrementalDecoder.push": Door(tok.decoder().push, lambda: give(ids), changes=True),
        "bpe.decode.IncrementalDecoder.flush": Door(tok.decoder().flush, give),
        "bpe.decode.IncrementalDecoder.steps": Door(tok.decoder().steps, lambda: give(ids), changes=True),
        "bpe.decode.IncrementalDecoder.push_batch": Door(
            bpe.decode.IncrementalDecoder.push_batch, lambda: give([tok.decoder(), tok.decoder()], ids[:2])
        ),
    }


def _make_fast_tokenizer(tok: bpe.Tokenizer) -> Any:
    """Make a tokenizer of transformers; ModuleNotFoundError without transformers."""
    import tokenizers
    import transformers

    backend = tokenizers.Tokenizer.from_str(huggingface.Tokenizer(tok).to_str())
    make: Any = transformers.PreTrainedTokenizerFast
    return make(tokenizer_object=backend, eos_token="<|end|>")


def _make_part_doors(inputs: Inputs) -> dict[str, Door]:
    pretokenizer = bpe.Pretokenizer("gpt2")
    doors = {
        "bpe.Pretokenizer": Door(bpe.Pretokenizer, lambda: give("gpt2", add_prefix_space=True)),
        "bpe.Pretokenizer.from_regex": Door(
            bpe.Pretokenizer.from_regex, lambda: give(r"\w+", gaps="keep", timeout=9.0)
        ),
        "bpe.Pretokenizer.with_timeout": Door(pretokenizer.with_timeout, lambda: give(2.0)),
        "bpe.Pretokenizer.split": Door(pretokenizer.split, lambda: give(TEXTS[1])),
        "bpe.Pretokenizer.split_bytes": Door(pretokenizer.split_bytes, lambda: give(TEXTS[1].encode())),
        "bpe.FormatError": Door(bpe.FormatError, lambda: give("wrong", path="x", where="line 3")),
    }
    arguments: dict[str, Arguments] = {
        "CharDelimiterSplit": give(" "),
        "FixedLength": give(3),
        "Metaspace": give(),
        "Split": give(r"\d", "Isolated"),
        "Step": give(),
        "Normalizer": give(),
        "Precompiled": give(PRECOMPILED),
        "Prepend": give("x"),
        "Remove": give("x"),
        "Replace": give("x", "y"),
        "Sequence": give(bpe.normalizers.NFC(), bpe.normalizers.Lowercase()),
    }
    for module in (bpe.pretokenizers, bpe.normalizers):
        for name in module.__all__:
            valid = arguments.get(name, give())
            doors[f"{module.__name__}.{name}"] = Door(getattr(module, name), partial(_return, valid))
    return doors


def _return(valid: Arguments) -> Arguments:
    return valid


def _make_data_doors(inputs: Inputs) -> dict[str, Door]:
    tok, shards, folder = inputs.tok, inputs.shards, inputs.path("shards")
    manifest = Manifest.read(folder)
    blocks = Blocks(shards, length=8)
    packed = Packed(shards, length=16)
    mixture = Mixture([blocks, blocks], [1, 2])
    encoder = StreamingEncoder(TEXTS, tok, length=8, threads=1)
    sampler, changed_sampler = RowSampler(blocks, 2), RowSampler(blocks, 2)
    numbers = np.arange(3)
    rows = [blocks[0], blocks[1]]
    doors = {
        "encode_shards": Door(
            encode_shards, lambda: give(inputs.path("text.txt"), tok, inputs.new(), shard_size=100, append="<|end|>")
        ),
        "encode_shards of chats": Door(
            encode_shards, lambda: give([inputs.path("chats.jsonl")], tok, inputs.new(), messages="messages")
        ),
        "encode_shards of more files": Door(
            encode_shards, lambda: give(inputs.path("text.txt"), tok, inputs.new(), extend=True)
        ),
        "verify": Door(verify, lambda: give(folder, samples=3)),
        "merge_manifests": Door(
            merge_manifests, lambda: give([inputs.path("parts/0"), inputs.path("parts/1")], inputs.path("parts"))
        ),
        "write_shards": Door(write_shards, lambda: give([[1, 2], [3]], inputs.new(), largest_id=300, shard_size=50)),
        "convert_shards": Door(convert_shards, lambda: give(folder, inputs.new(), "megatron", drop_masks=True)),
        "map_function": Door(map_function, lambda: give(tok, "text", output="ids", length="n", append=0)),
        "mapping.MapFunction": Door(map_function, lambda: give(tok, "text")),
        "mapping.MapFunction.__call__": Door(map_function(tok, "text"), lambda: give({"text": TEXTS})),
        "mapping.MapFunction.encode_table": Door(
            map_function(tok, "text").encode_table, lambda: give(_make_table(), threads=1)
        ),
        "TokenShards": Door(TokenShards, lambda: give(folder, end_of_text=0, validate=True)),
        "Manifest": Door(Manifest, lambda: give("native", "uint16", manifest.shards, tokenizer={}, skipped=0)),
        "Manifest.read": Door(Manifest.read, lambda: give(folder)),
        "Manifest.write": Door(manifest.write, lambda: give(folder)),
        "Blocks": Door(Blocks, lambda: give(shards, 8, 3, fields=("input_ids", "labels"), tail="pad", pad_id=0)),
        "Blocks.batches": Door(blocks.batches, lambda: give(2, rank=0, world=1, epochs=1, drop_last=True)),
        "Packed": Door(Packed, lambda: give(shards, 16, strategy="best-fit", window=9)),
        "Mixture": Door(Mixture, lambda: give([blocks, blocks], {0: [1, 1], 9: [2, 1]}, 4)),
        "Mixture.sources": Door(mixture.sources, lambda: give(numbers)),
        "StreamingEncoder": Door(StreamingEncoder, lambda: give(TEXTS, tok, 8, append=0, threads=1)),
        "StreamingEncoder.batches": Door(encoder.batches, lambda: give(2, rank=0, world=1)),
        "RowSampler": Door(RowSampler, lambda: give(blocks, 2, rank=0, world=1)),
        "RowSampler.state_dict": Door(sampler.state_dict, lambda: give(0)),
        "RowSampler.load_state_dict": Door(changed_sampler.load_state_dict, lambda: give(sampler.state_dict(0))),
        "RowSampler.set_epoch": Door(changed_sampler.set_epoch, lambda: give(0)),
        "torch_batches": Door(torch_batches, lambda: give(blocks, 2)),
        "torch_collate": Door(torch_collate, lambda: give(rows)),
        "collate": Door(collate, lambda: give(rows)),
    }
    for name, loader in (("Blocks", blocks), ("Packed", packed), ("Mixture", mixture)):
        doors[f"{name}.read"] = Door(loader.read, lambda: give(numbers))
        doors[f"{name}.batches from a state"] = Door(
            loader.batches,
            lambda loader=loader: give(2, state=loader.state_at(1)),  # type: ignore[misc]
        )
    calls: dict[str, Arguments] = {
        "document": give(1),
        "document_at": give(30),
        "document_bounds": give(0, 3),
        "document_starts": give(numbers),
        "documents_at": give(numbers),
        "masks": give(3, 90),
        "tokens": give(3, 190),
    }
    for name, valid in calls.items():
        doors[f"TokenShards.{name}"] = Door(getattr(shards, name), partial(_return, valid))
    for name in ("check_origin", "to_header"):
        doors[f"Manifest.{name}"] = Door(getattr(manifest, name), give)
    return {f"bpe.data.{name}": door for name, door in doors.items()}


def _make_table() -> Any:
    """Make a table of texts; ModuleNotFoundError without pyarrow."""
    import pyarrow as pa

    return pa.table({"text": TEXTS})


def _make_view_doors(inputs: Inputs) -> dict[str, Door]:
    tok = inputs.tok
    evaluation = bpe.evaluate({"a": tok}, texts={"en": TEXTS}, resamples=0)
    view, steps = tok.show(TEXTS[0]), show_merges(tok, "lower")

    def start_playground(*arguments: Any, **options: Any) -> str:
        with Playground(*arguments, **options) as playground:
            return playground.host

    return {
        "bpe.evaluation.Evaluation.to_dict": Door(evaluation.to_dict, give),
        "bpe.evaluation.Evaluation.to_pandas": Door(evaluation.to_pandas, give),
        "bpe.evaluation.Evaluation.to_arrow": Door(evaluation.to_arrow, give),
        "bpe.evaluation.Evaluation.plot": Door(evaluation.plot, give),
        "bpe.plots.plot_lengths": Door(plot_lengths, lambda: give(tok)),
        "bpe.plots.plot_frequencies": Door(plot_frequencies, lambda: give(tok, iter(TEXTS))),
        "bpe.plots.plot_compression": Door(plot_compression, lambda: give(tok, TEXTS[0])),
        "bpe.plots.show_merges": Door(show_merges, lambda: give(tok, "lower")),
        "bpe.report.write_page": Door(write_page, lambda: give(inputs.new(".html"), tok, None, {"x": TEXTS[0]})),
        "bpe.report.page_html": Door(page_html, lambda: give({"a": tok}, None, TEXTS[:1])),
        "bpe.report.Playground": Door(start_playground, lambda: give(tok, "127.0.0.1", 0)),
        "bpe.show.views.TokenView.text": Door(view.text, lambda: give(colour=True)),
        "bpe.show.views.TokenView.html": Door(view.html, give),
        "bpe.show.views.MergeSteps.html": Door(steps.html, give, changes=True),  # class names differ
    }


def _make_compat_doors(inputs: Inputs) -> dict[str, Door]:
    tok = inputs.ranked
    ranks = {tok.token_bytes(number): number for number in range(tok.vocab_size)}
    settings: dict[str, Any] = {"pat_str": r"\w+|\W", "mergeable_ranks": ranks, "special_tokens": {"<|end|>": 290}}
    enc = compat_tiktoken.Encoding("x", **settings)
    ids = enc.encode_ordinary(TEXTS[0])
    calls: dict[str, Arguments] = {
        "decode": give(ids, "replace"),
        "decode_batch": give([ids, ids[:1]], num_threads=2),
        "decode_bytes": give(ids),
        "decode_bytes_batch": give([ids, ids[:1]], num_threads=2),
        "decode_single_token_bytes": give(70),
        "decode_tokens_bytes": give(ids),
        "decode_with_offsets": give(ids),
        "encode": give(TEXTS[1], allowed_special={"<|end|>"}, disallowed_special=()),
        "encode_batch": give(TEXTS, num_threads=2, allowed_special="all"),
        "encode_ordinary": give(TEXTS[1]),
        "encode_ordinary_batch": give(TEXTS, num_threads=2),
        "encode_single_token": give(b"a"),
        "encode_to_numpy": give(TEXTS[0]),
        "encode_with_unstable": give(TEXTS[0]),
        "is_special_token": give(290),
        "token_byte_values": give(),
    }
    doors = {
        "bpe.compat.tiktoken.Encoding": Door(
            compat_tiktoken.Encoding, lambda: give("x", **settings, explicit_n_vocab=None)
        ),
        "bpe.compat.tiktoken.get_encoding": Door(compat_tiktoken.get_encoding, lambda: give("no_encoding")),
        "bpe.compat.tiktoken.encoding_for_model": Door(compat_tiktoken.encoding_for_model, lambda: give("no-model")),
        "bpe.compat.tiktoken.encoding_name_for_model": Door(
            compat_tiktoken.encoding_name_for_model, lambda: give("gpt-4o")
        ),
        "bpe.compat.tiktoken.list_encoding_names": Door(compat_tiktoken.list_encoding_names, give),
        "bpe.compat.subword_nmt.BPE": Door(
            subword_nmt.BPE, lambda: give(inputs.path("codes"), -1, "@@", vocab=None, glossaries=["USA"])
        ),
        "bpe.compat.subword_nmt.read_vocabulary": Door(
            subword_nmt.read_vocabulary, lambda: give(iter(["low 5\n", "er@@ 3\n"]), 1)
        ),
    }
    segmenter = subword_nmt.BPE(inputs.path("codes"))
    for name, valid in (
        ("process_line", give("low lower\n")), ("segment", give("low lower")), ("segment_tokens", give(["low", "x"])),
    ):  # fmt: skip
        # It keeps words that were divided with dropout, as subword-nmt does.
        doors[f"bpe.compat.subword_nmt.BPE.{name}"] = Door(getattr(segmenter, name), partial(_return, valid), True)
    for name, valid in calls.items():
        doors[f"bpe.compat.tiktoken.Encoding.{name}"] = Door(getattr(enc, name), partial(_return, valid))
    return doors | _make_huggingface_doors(inputs)


def _make_huggingface_doors(inputs: Inputs) -> dict[str, Door]:
    tok = huggingface.Tokenizer(inputs.tok)
    changing = huggingface.Tokenizer(inputs.tok)
    ids = inputs.ids.tolist()
    encoding = tok.encode(TEXTS[0], TEXTS[1])
    calls: dict[str, Arguments] = {
        "decode": give(ids, skip_special_tokens=True),
        "decode_batch": give([ids, ids[:1]]),
        "encode": give(TEXTS[1], TEXTS[0], add_special_tokens=True),
        "encode of words": give(["low", "lower"], is_pretokenized=True),
        "encode_batch": give([TEXTS[0], (TEXTS[1], TEXTS[2])]),
        "encode_batch_fast": give(TEXTS),
        "get_added_tokens_decoder": give(),
        "get_vocab": give(True),
        "get_vocab_size": give(True),
        "id_to_token": give(70),
        "num_special_tokens_to_add": give(False),
        "post_process": give(tok.encode("low"), tok.encode("lower")),
        "to_str": give(pretty=False),
        "token_to_id": give("a"),
    }
    doors = {f"Tokenizer.{n}": Door(getattr(tok, n.split(" ")[0]), partial(_return, calls[n])) for n in calls}
    changes: dict[str, Arguments] = {
        "add_special_tokens": give(["<s>"]),
        "add_tokens": give(["<new>"]),
        "enable_padding": give("left", 1, 0, "<|user|>", length=9),
        "enable_truncation": give(9, stride=1, strategy="longest_first", direction="left"),
        "no_padding": give(),
        "no_truncation": give(),
    }
    for name, valid in changes.items():
        doors[f"Tokenizer.{name}"] = Door(getattr(changing, name), partial(_return, valid), changes=True)
    reads: dict[str, Arguments] = {
        "char_to_token": give(2, 0),
        "char_to_word": give(2, 0),
        "token_to_chars": give(1),
        "token_to_sequence": give(1),
        "token_to_word": give(1),
        "word_to_chars": give(0, 0),
        "word_to_tokens": give(0, 0),
    }
    for name, valid in reads.items():
        doors[f"Encoding.{name}"] = Door(getattr(encoding, name), partial(_return, valid))
    mutable = tok.encode(TEXTS[0])
    for name, valid in (
        ("pad", give(40, direction="left", pad_id=1, pad_type_id=0, pad_token="x")), ("set_sequence_id", give(0)),
        ("truncate", give(30, stride=1, direction="right")),
    ):  # fmt: skip
        doors[f"Encoding.{name}"] = Door(getattr(mutable, name), partial(_return, valid), changes=True)
    text = tok.to_str()
    return {f"bpe.compat.huggingface.{name}": door for name, door in doors.items()} | {
        "bpe.compat.huggingface.Tokenizer": Door(huggingface.Tokenizer, lambda: give(inputs.tok)),
        "bpe.compat.huggingface.Tokenizer.from_str": Door(huggingface.Tokenizer.from_str, lambda: give(text)),
        "bpe.compat.huggingface.Tokenizer.from_buffer": Door(
            huggingface.Tokenizer.from_buffer, lambda: give(text.encode())
        ),
        "bpe.compat.huggingface.Tokenizer.from_file": Door(
            huggingface.Tokenizer.from_file, lambda: give(str(inputs.path("tokenizer.json")))
        ),
        "bpe.compat.huggingface.Tokenizer.save": Door(tok.save, lambda: give(str(inputs.new(".json")), pretty=True)),
        "bpe.compat.huggingface.DecodeStream": Door(
            huggingface.DecodeStream, lambda: give(ids, skip_special_tokens=True)
        ),
        "bpe.compat.huggingface.DecodeStream.step": Door(
            huggingface.DecodeStream().step, lambda: give(tok, ids), changes=True
        ),
        "bpe.compat.huggingface.Encoding.merge": Door(
            huggingface.Encoding.merge, lambda: give([encoding, encoding], growing_offsets=True)
        ),
    }


def spell_argument(argument: object) -> str:
    """Spell a value as an argument on a command line, which is text without null characters."""
    try:
        return str(argument).replace("\0", "")
    except RecursionError:
        return "deep"


def _make_command_doors(inputs: Inputs) -> dict[str, Door]:
    path = inputs.path
    text, json_file, counts = str(path("text.txt")), str(path("tokenizer.json")), str(path("words.counts"))

    def command(*arguments: Any) -> Door:
        return Door(
            lambda *given: main([spell_argument(argument) for argument in given]),
            lambda: give(*[argument() if callable(argument) else argument for argument in arguments]),
        )

    def new(suffix: str) -> Callable[[], str]:
        return lambda: str(inputs.new(suffix))

    tok = ("-t", json_file)
    return {
        "bpe train": command("train", text, "-o", new(".json"), "--vocab-size", "270", "--threads", "1"),
        "bpe count-words": command("count-words", text, "-o", new(".counts")),
        "bpe merge-counts": command("merge-counts", counts, counts, "-o", new(".counts")),
        "bpe encode": command("encode", text, *tok, "-o", new(".npy"), "--per-line"),
        "bpe decode": command("decode", "70", "71", *tok),
        "bpe count": command("count", text, *tok, "--json"),
        "bpe verify": command("verify", str(path("shards"))),
        "bpe convert-shards": command(
            "convert-shards", str(path("shards")), "-o", new(""), "--format", "megatron", "--drop-masks"
        ),
        "bpe merge-manifests": command(
            "merge-manifests", str(path("parts/0")), str(path("parts/1")), "-o", str(path("parts"))
        ),
        "bpe info": command("info", json_file, "--json"),
        "bpe show": command("show", "low lower", *tok, "--ids"),
        "bpe edit": command("edit", json_file, "-o", new(".json"), "--add-special", "<pad>"),
        "bpe extend": command("extend", text, *tok, "-o", new(".json"), "--vocab-size", "310"),
        "bpe truncate": command("truncate", json_file, "-o", new(".json"), "--vocab-size", "280"),
        "bpe prune": command("prune", text, *tok, "-o", new(".json"), "--vocab-size", "290"),
        "bpe convert": command("convert", json_file, new(".json")),
        "bpe diff": command("diff", json_file, json_file, text),
        "bpe evaluate": command("evaluate", text, *tok, "--words", "spaces"),
        "bpe sanity-check": command("sanity-check", json_file),
        "bpe report": command("report", json_file, text, "-o", new(".html")),
        "bpe play": command("play", *tok, "--port", "99999"),  # it has no -t: else it would serve a page for ever
        "bpe demo": command("demo", "--json"),
        "bpe completion": command("completion", "bash"),
        "bpe help": command("help", "train"),
    }


# Names that must have a door -----------------------------------------------------------------------------------------

#: What the library gives and nobody calls: records of results.
RECORDS = (
    "bpe.training.combine.Combination", "bpe.training.combine.LostToken", "bpe.vocab.Training", "bpe.base.Progress",
    "bpe.evaluation.Evaluation", "bpe.chats.Chat", "bpe.encode.Chunk", "bpe.show.views.TokenView",
    "bpe.show.views.MergeSteps", "bpe.vocab.TokenizerSpec",
)  # fmt: skip
_DIRECTIVE = re.compile(r"^\.\. (currentmodule|auto\w+):: (\S+)\n((?:   :.*\n)*)", re.MULTILINE)


def list_documented_names() -> list[str]:
    """List the functions, classes and methods of docs/api.md, those that the classes of `compat` have, and commands."""
    names: list[str] = []
    module = ""
    for kind, name, options in _DIRECTIVE.findall(API_PAGE.read_text(encoding="utf-8")):
        if kind == "currentmodule":
            module = name
        elif kind in ("autofunction", "autoclass", "autoexception"):
            full = name if name.startswith("bpe.") else f"{module}.{name}"
            if full not in RECORDS:
                names += [full, *_list_members(full, options)]
    return names


def _list_members(full: str, options: str) -> Iterator[str]:
    """List the methods of a class that a directive of autodoc shows."""
    module, _, name = full.rpartition(".")
    shown = getattr(importlib.import_module(module), name)
    fields = dict(re.findall(r":(\S+):(.*)", options))
    if "members" not in fields or not inspect.isclass(shown) or issubclass(shown, Exception):
        return
    named = [member.strip() for member in fields["members"].split(",") if member.strip()]
    for member in named or [member for member in vars(shown) if not member.startswith("_")]:
        if callable(getattr(shown, member)):
            yield f"{full}.{member}"
