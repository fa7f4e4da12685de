"""Compare tokenizers of transformers with their accelerated copies, in random calls.

    python benchmarks/checks/check_accelerate.py [--calls N] [--seconds S] [--seed S] [--threads 4] [--tokenizer FILE]

The tokenizers have the shapes of published ones (`tests/compat/shapes.py`), or are those of a tokenizer.json. A call
has random texts, pairs, lists and options; between calls, the tokenizers' settings and added tokens change. Results
must be the same: columns, their order, types and shapes, and texts; of errors, the message up to a colon. Each
series of 50 calls is then made again by threads that share the accelerated tokenizer, in orders of their own.
"""

from __future__ import annotations

import logging
import random
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import transformers
from comparing import make_parser
from inputs import at_least

import bpe

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "compat"))
from shapes import HOSTILE, SHAPES, TEXTS, shape

#: Calls with the same tokenizers, settings and added tokens.
SERIES = 50
#: Is added to the limit of tokens of long pairs: transformers combines all parts of both texts, which takes seconds.
MIN_LENGTH_OF_PAIRS = 60
NAMES = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
TEMPLATES = (
    "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] | trim }}</s>{% endfor %}",
    "{{ bos_token }}{{ tools | tojson }}{% for m in messages %}{{ m.content }}|{% endfor %}{{ add_generation_prompt }}",
)
#: Option → its values; most calls have few of them.
OPTIONS: dict[str, tuple[Any, ...]] = {
    "add_special_tokens": (False, True, None, 1),
    "padding": (True, False, "longest", "max_length", "do_not_pad"),
    "truncation": (True, False, "longest_first", "only_first", "only_second"),
    "max_length": (0, 1, 3, 7, 16, 300, None),
    "padding_side": ("left", "right", None),
    "pad_to_multiple_of": (8, None),
    "return_tensors": ("np", "pt", None),
    "return_token_type_ids": (True, False, None),
    "return_attention_mask": (True, False, None),
    "return_special_tokens_mask": (True, False),
    "return_offsets_mapping": (True, False),
    "return_overflowing_tokens": (True, False),
    "return_length": (True, False),
    "stride": (0, 1, 2),
    "split_special_tokens": (True, False),
    "verbose": (True, False),
    "sanitize_control_tokens": (False,),
}


def draw_text(order: random.Random) -> str:
    """Draw a text: hostile ones, parts of others, special tokens, lengths from 0 to some 9,000 characters."""
    parts = [order.choice((*HOSTILE, *TEXTS, "<s>", "</s>", "<new>", " ")) for _ in range(order.choice((1, 1, 2, 5)))]
    text = "".join(parts)
    text = text[order.randrange(len(text) + 1) :] if order.random() < 0.3 else text
    return text * order.choice((1, 1, 1, 1, 3, 40)) if len(text) < 300 else text


def draw_options(order: random.Random) -> dict[str, Any]:
    """Draw the options of a call."""
    n_options = order.choice((0, 0, 1, 2, 3, 5))
    options = {name: order.choice(OPTIONS[name]) for name in order.sample(list(OPTIONS), n_options)}
    if order.random() < 0.3:
        options |= {"padding": True, "truncation": True, "max_length": order.choice((4, 9, 20))}
    return options


def draw_call(order: random.Random, n_ids: int) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """Draw a call: the method, its arguments and options."""
    method = order.choice(
        ("__call__", "__call__", "__call__", "encode", "tokenize", "decode", "batch_decode", "ids", "chat")
    )
    if method in ("__call__", "encode", "tokenize"):
        text: Any = draw_text(order)
        pair: Any = draw_text(order)
        if method == "__call__" and order.random() < 0.5:
            n_texts = order.choice((0, 1, 2, 9))
            text, pair = [draw_text(order) for _ in range(n_texts)], [draw_text(order) for _ in range(n_texts)]
        if method == "__call__" and type(text) is str and order.random() < 0.2:
            words = [order.choice((str, np.str_))(word) for word in text.split(" ")]
            return method, (words,), {"is_split_into_words": True, **draw_options(order)}
        arguments = (text, pair) if order.random() < 0.25 else (text,)
        call_options = {} if method == "tokenize" else draw_options(order)
        texts = [text, pair] if type(text) is str else [*text, *pair]
        if len(arguments) == 2 and call_options.get("max_length") and max(map(len, texts), default=0) > 200:
            call_options["max_length"] += MIN_LENGTH_OF_PAIRS
        return method, arguments, call_options
    ids: Any = [order.randrange(n_ids) for _ in range(order.choice((0, 1, 5, 80)))]
    skip = {"skip_special_tokens": order.random() < 0.5} if order.random() < 0.7 else {}
    if method == "chat":
        messages = [{"role": "user", "content": draw_text(order)} for _ in range(order.randrange(1, 5))]
        if order.random() < 0.3:
            additions: list[dict[str, Any]] = [{"name": None}, {"thinking": "hm"}, {"parts": [1, {"a": None}]}]
            messages[-1].update(order.choice(additions))
        chat: Any = [messages, messages[:1]] if order.random() < 0.2 else messages
        options: dict[str, Any] = {"tokenize": order.random() < 0.6, "add_generation_prompt": order.random() < 0.5}
        if order.random() < 0.3:
            options |= order.choice(
                ({"return_dict": False}, {"return_tensors": "np"}, {"tools": [{"name": "<s>"}]}, {"tools": []},
                 {"bos_token": "x"},
                 {"chat_template": TEMPLATES[0]}, {"continue_final_message": True}, {"sanitize_control_tokens": True})
            )  # fmt: skip
        return "apply_chat_template", (chat,), options
    if order.random() < 0.1:
        ids = order.choice(([-1], [1 << 33], [n_ids + 3], [3.0], [True], np.array(ids, dtype=np.int64), 3))
    if method == "batch_decode":
        return method, ([ids, [3, 2]],), skip
    return ("convert_ids_to_tokens" if method == "ids" else method), (ids,), skip


def describe_result(result: Any) -> Any:
    """Describe a result so that equal descriptions mean the same result."""
    if isinstance(result, transformers.BatchEncoding):
        columns = {name: describe_result(value) for name, value in result.items()}
        rows = [
            (row.ids, row.tokens, row.offsets, row.attention_mask, row.type_ids, row.special_tokens_mask, row.word_ids)
            for first in result.encodings or ()
            for row in (first, *first.overflowing)
        ]
        return list(columns), columns, rows, result._n_sequences
    if isinstance(result, np.ndarray) and result.dtype == object:  # rows of different lengths
        return [describe_result(row) for row in result]
    if hasattr(result, "dtype"):
        return type(result).__name__, str(result.dtype), tuple(result.shape), result.tolist()
    if isinstance(result, list) and result and hasattr(result[0], "dtype"):
        return [describe_result(item) for item in result]
    return type(result).__name__, result


def make_call(tokenizer: Any, call: tuple[str, tuple[Any, ...], dict[str, Any]]) -> Any:
    """Make a call: its result or its error, described."""
    method, arguments, options = call
    try:
        return describe_result(getattr(tokenizer, method)(*arguments, **options))
    except BaseException as error:  # noqa: BLE001  # `tokenizers` raises Exception itself, and panics
        message = str(error).split(":")[0]
        return "error", "a stride that is too large" if message.startswith(("`stride`", "stride")) else message


def make_tokenizers(order: random.Random, json: str) -> tuple[Any, Any]:
    """Make a tokenizer and an accelerated one, whose backend is its own or shared with another."""
    names = NAMES if "<pad>" in json else {}
    plain, other = (
        transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer.from_str(json), **names)
        for _ in range(2)
    )
    for tokenizer in (plain, other):
        tokenizer.chat_template = TEMPLATES[0]
    fast = bpe.accelerate(other)
    if order.random() < 0.3:
        fast.__dict__["kept"] = other
    return plain, fast


def change_settings(order: random.Random, pair: tuple[Any, Any]) -> None:
    """Change the same settings of both tokenizers, or none."""
    kind, side = order.randrange(10), order.choice(("left", "right"))
    for tokenizer in pair:
        if kind == 0:
            tokenizer.add_tokens(["<new>", "low"])
        elif kind == 1:
            tokenizer.padding_side = tokenizer.truncation_side = side
        elif kind == 2:
            tokenizer.model_max_length = 5
        elif kind == 3:
            tokenizer.split_special_tokens = not tokenizer.split_special_tokens
        elif kind == 4:
            tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
        elif kind == 5:
            tokenizer.backend_tokenizer.normalizer = tokenizers.normalizers.Lowercase()
        elif kind == 6:
            tokenizer.chat_template = TEMPLATES[1]
        elif kind == 7 and tokenizer.eos_token is not None:  # transformers changes the backend; decoding comes first
            tokenizer.add_eos_token = not tokenizer.add_eos_token
            tokenizer.decode([3])


def main() -> None:
    """Compare."""
    parser = make_parser(__doc__)
    parser.add_argument("--calls", type=at_least(1), default=100_000, metavar="N")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="S", help="no more than S seconds")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--threads", type=at_least(1), default=4)
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json")
    options = parser.parse_args()
    logging.disable()
    warnings.simplefilter("ignore")
    sys.setswitchinterval(1e-5)
    files = [shape(name) for name in SHAPES] if options.tokenizer is None else [options.tokenizer.read_text("utf-8")]
    end, n_calls, n_threaded, n_different = time.monotonic() + options.seconds, 0, 0, 0
    with ThreadPoolExecutor(options.threads) as pool:
        while n_calls < options.calls and time.monotonic() < end:
            order = random.Random(f"{options.seed} {n_calls}")
            if n_calls % (4 * SERIES) == 0:
                pair = make_tokenizers(order, files[n_calls // (4 * SERIES) % len(files)])
            else:
                change_settings(order, pair)
            plain, fast = pair
            calls = [draw_call(order, len(plain)) for _ in range(SERIES)]
            expected = [make_call(plain, call) for call in calls]
            jobs = list(range(SERIES)) + order.choices(range(SERIES), k=2 * SERIES)
            results = [make_call(fast, calls[index]) for index in jobs[:SERIES]]
            results += pool.map(lambda index, calls=calls, fast=fast: make_call(fast, calls[index]), jobs[SERIES:])
            for index, result in zip(jobs, results, strict=True):
                if result != expected[index]:
                    n_different += 1
                    if n_different <= 5:
                        print(f"different: {calls[index]!r:.600}\n  {expected[index]!r:.600}\n  {result!r:.600}")
                        sys.stdout.flush()
            n_calls, n_threaded = n_calls + SERIES, n_threaded + 2 * SERIES
    print(f"{n_calls} calls and {n_threaded} by {options.threads} threads: {n_different} different")
    if n_different:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
