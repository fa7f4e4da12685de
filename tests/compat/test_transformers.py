"""Acceleration of transformers' tokenizers: the same results, for every way of calling them."""

import copy
import importlib.util
import inspect
import json
import os
import pickle
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bpe
from bpe import compat
from bpe.compat import transformers as transformers_module
from bpe.compat.huggingface import Tokenizer
from bpe.compat.transformers import acceleration_of
from bpe.compat.transformers_calls import AccelerationState

transformers = pytest.importorskip("transformers", reason="needs transformers 5")
tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers")
sys.path.insert(0, str(Path(__file__).parent))
from shapes import HOSTILE, SHAPES, TEXTS, shape  # noqa: E402

NAMES = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
TEMPLATE = "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}"
READ_ONLY = (
    "chat_template", "all_special_ids", "all_special_tokens", "vocab_size", "max_token_id", "truncation_side",
    "is_fast", "eos_token_id", "bos_token_id", "pad_token_id", "special_tokens_map",
)  # fmt: skip

#: Calls that raise the errors of transformers.
SAME_ERRORS = [
    ((None,), {}),
    ((3,), {}),
    (([],), {}),
    ((["a", 3],), {}),
    ((["a", "b b b"],), {"return_tensors": "np"}),
    (("a",), {"truncation": "only_second", "max_length": 2}),
    (("a",), {"padding": "longest", "pad_to_multiple_of": 3, "truncation": True, "max_length": 2}),
    (("a b c d e f g",), {"truncation": "only_second", "max_length": 3}),
    (("the low",), {"max_length": 2**64}),
    (("the low",), {"max_length": 2**64, "truncation": True}),
    ((["the low"],), {"max_length": 2**64 - 1, "truncation": True}),
    ((["the low"],), {"max_length": True, "truncation": True}),
    (("the low",), {"add_special_tokens": None}),
    ((["the low"],), {"add_special_tokens": 1}),
    ((["the low"],), {"add_special_tokens": "yes", "return_offsets_mapping": True}),
    *(((["the", "low"],), {"is_split_into_words": value}) for value in (None, 0, 1, "yes")),
]


def load_plain(name: str) -> Any:
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(shape(name)), **({} if name == "words" else NAMES)
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


@pytest.fixture(scope="module", params=SHAPES)
def tokenizer_pair(request: Any) -> tuple[Any, Any]:
    """A tokenizer and its accelerated copy."""
    tokenizer = load_plain(request.param)
    return tokenizer, bpe.accelerate(tokenizer)


@pytest.fixture
def patched() -> Iterator[None]:
    compat.patch_transformers()
    yield
    compat.unpatch_transformers()


def assert_same(expected: Any, result: Any) -> None:
    assert list(expected) == list(result)
    for name in expected:
        assert type(expected[name]) is type(result[name])
        if isinstance(expected[name], list):
            assert expected[name] == result[name]
        else:
            assert expected[name].dtype == result[name].dtype
            assert expected[name].shape == result[name].shape
            assert bool((expected[name] == result[name]).all())
    for expected_row, row in zip(expected.encodings, result.encodings, strict=True):
        for column in ("ids", "tokens", "offsets", "word_ids", "sequence_ids", "attention_mask", "type_ids"):
            assert getattr(expected_row, column) == getattr(row, column)


def find_outcome(function: Any, *arguments: Any, **options: Any) -> Any:
    """Return the result of a call, or its error, as a type and a text."""
    try:
        result = function(*arguments, **options)
    except Exception as error:  # noqa: BLE001  # tokenizers raises Exception itself
        return type(error), str(error)
    return dict(result) if isinstance(result, transformers.BatchEncoding) else result


def forbid_encode_plus(fast: Any, patch: pytest.MonkeyPatch) -> None:
    """Make calls fail that need transformers' own code."""

    def fail(*arguments: Any, **options: Any) -> None:
        raise AssertionError("transformers encodes")

    fail._bpe_original = type(fast)._encode_plus._bpe_original  # type: ignore[attr-defined]
    patch.setattr(type(fast), "_encode_plus", fail)


def test_all_shapes_are_accelerated(tokenizer_pair: tuple[Any, Any]) -> None:
    original, fast = tokenizer_pair
    state = acceleration_of(fast)
    assert state is not None
    assert (state.encoding, state.decoding, state.reasons) == (True, True, [])
    assert acceleration_of(original) is None
    assert isinstance(fast, type(original))
    assert type(fast).__name__ == type(original).__name__


def test_encoding_and_decoding(tokenizer_pair: tuple[Any, Any]) -> None:
    original, fast = tokenizer_pair
    for text in HOSTILE:
        assert_same(original(text), fast(text))
        assert_same(original(text, add_special_tokens=False), fast(text, add_special_tokens=False))
        ids = original.encode(text)
        for options in ({"truncation": True, "max_length": 4}, {"max_length": 5}, {"truncation": True}):
            assert_same(original(text, **options), fast(text, **options))
        assert fast.encode(text) == ids
        assert fast.encode(text, add_special_tokens=False) == original.encode(text, add_special_tokens=False)
        assert fast.tokenize(text) == original.tokenize(text)
        for skip in (False, True):
            expected = original.decode(ids, skip_special_tokens=skip)
            assert fast.decode(ids, skip_special_tokens=skip) == expected
            assert fast.decode(np.array(ids, dtype=np.int64), skip_special_tokens=skip) == expected
            assert fast.batch_decode([ids, ids[:2]], skip_special_tokens=skip) == original.batch_decode(
                [ids, ids[:2]], skip_special_tokens=skip
            )
    assert fast.decode(5) == original.decode(5)
    assert fast.decode([]) == original.decode([])
    for batch in ([3, 4], [], [[]], 3, None, [[3], 4], np.array([[3, 4]])):
        expected, result = (find_outcome(tokenizer.batch_decode, batch) for tokenizer in (original, fast))
        assert result == expected
    assert fast.decode([3, 4], clean_up_tokenization_spaces=True) == original.decode(
        [3, 4], clean_up_tokenization_spaces=True
    )
    assert fast.convert_tokens_to_ids(["the", "<s>"]) == original.convert_tokens_to_ids(["the", "<s>"])
    assert fast.convert_ids_to_tokens([0, 3]) == original.convert_ids_to_tokens([0, 3])


#: Calls that need none of transformers' own code, and whether they are those of a tokenizer that pads.
DIRECT: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"truncation": True, "max_length": 4}, False),
    ({"truncation": False, "max_length": 4}, False),
    ({"padding": True}, True),
    ({"padding": "longest", "truncation": "longest_first", "max_length": 5}, True),
    ({"padding": "max_length", "max_length": 12}, True),
    ({"padding": "max_length", "max_length": 9, "truncation": True, "add_special_tokens": False}, True),
]


@pytest.mark.parametrize("name", ["__call__", "encode", "decode", "batch_decode"])
def test_methods_have_the_signatures_of_transformers(tokenizer_pair: tuple[Any, Any], name: str) -> None:
    """Libraries ask for them: semchunk passes `add_special_tokens=False` only where there is such an argument."""
    original, fast = (getattr(tokenizer, name) for tokenizer in tokenizer_pair)
    assert type(tokenizer_pair[0]) is not type(tokenizer_pair[1])
    assert inspect.signature(fast) == inspect.signature(original)
    assert (fast.__name__, fast.__qualname__, fast.__doc__) == (
        original.__name__,
        original.__qualname__,
        original.__doc__,
    )


@pytest.mark.parametrize("tensors", [None, "np", "pt"])
@pytest.mark.parametrize(("options", "pads"), DIRECT)
def test_usual_calls_do_without_the_code_of_transformers(
    tokenizer_pair: tuple[Any, Any],
    options: dict[str, Any],
    pads: bool,
    tensors: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if tensors == "pt":
        pytest.importorskip("torch")
    original, fast = tokenizer_pair
    if pads and original.pad_token is None:
        pytest.skip("has no padding token")
    if tensors and not original.encode("the low"):
        pytest.skip("gives no ids: transformers decides what an empty array is")
    inputs = ["the lowest price", ["the low"], ["low", "the lowest price é"]][: 3 if pads or tensors is None else 2]
    for side in ("right", "left"):
        monkeypatch.setattr(original, "padding_side", side)
        monkeypatch.setattr(fast, "padding_side", side)
        expected = [original(value, return_tensors=tensors, **options) for value in inputs]
        with monkeypatch.context() as patch:
            forbid_encode_plus(fast, patch)
            results = [fast(value, return_tensors=tensors, **options) for value in inputs]
        for expected_result, result in zip(expected, results, strict=True):
            assert_same(expected_result, result)


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
@pytest.mark.parametrize("text", ["low", "the lowest price " * 100, ["low", "the"]])
def test_tensors_without_torch_are_refused_as_transformers_does(tokenizer_pair: tuple[Any, Any], text: Any) -> None:
    for options in ({}, {"padding": True, "max_length": 3, "truncation": True}):
        errors = []
        for tokenizer in tokenizer_pair:
            with pytest.raises((ImportError, ValueError)) as error:
                tokenizer(text, return_tensors="pt", **options)
            errors.append((type(error.value), str(error.value)))
        assert errors[0] == errors[1]


def test_short_calls_of_transformers_code_use_a_twin_of_the_backend(
    tokenizer_pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    original, fast = tokenizer_pair
    twins: list[Any] = []
    take = AccelerationState.take_twin
    monkeypatch.setattr(AccelerationState, "take_twin", lambda *arguments: twins.append(arguments) or take(*arguments))
    special = {"return_special_tokens_mask": True}
    overflowing = {"return_overflowing_tokens": True, "max_length": 8, "truncation": True}
    for length, pair, options, is_short in (
        (20, None, {"return_offsets_mapping": True}, False),
        (20, None, overflowing, True),
        (200, None, overflowing, False),
        (100, None, {**overflowing, "stride": 2}, True),
        (400, None, {**overflowing, "stride": 1, "return_offsets_mapping": True}, True),
    ):
        twins.clear()
        text = ("the lowest price é " * 200)[:length]
        assert_same(original(text, pair, **options), fast(text, pair, **options))
        assert bool(twins) is is_short
    twins.clear()
    fast(["low"], ["the low"], **special)
    assert not twins


@pytest.mark.parametrize(
    ("stride", "more"),
    [
        *((stride, {}) for stride in (0, 1, 4, -1)),
        (1, {"padding": True}),
        (4, {"padding": "max_length"}),
        (0, {"truncation": "only_first"}),
        (4, {"truncation": "only_first"}),
    ],
)
def test_parts_of_long_texts(tokenizer_pair: tuple[Any, Any], stride: int, more: dict[str, Any]) -> None:
    original, fast = tokenizer_pair
    if "padding" in more and original.pad_token is None:
        pytest.skip("has no padding token")
    options = {"return_overflowing_tokens": True, "truncation": True, "max_length": 8, "stride": stride, **more}
    long = "the lowest price é " * 30

    def outcome(tokenizer: Any, text: Any) -> Any:
        try:
            return tokenizer(text, **options)
        except Exception:  # noqa: BLE001  # tokenizers raises Exception itself
            return None

    for text in ("", "low", "the lowest price é <s>", long, [], ["low", long, ""]):
        expected, found = outcome(original, text), outcome(fast, text)
        assert (expected is None) is (found is None)
        if expected is not None:
            assert_same(expected, found)


PAIRS: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"add_special_tokens": False}, False),
    ({"padding": True}, True),
    ({"padding": "max_length", "max_length": 40, "truncation": True}, True),
    ({"truncation": True, "max_length": 40}, False),
]


@pytest.mark.parametrize("tensors", [None, "np"])
@pytest.mark.parametrize(("options", "pads"), PAIRS)
def test_pairs_that_fit_do_without_the_code_of_transformers(
    tokenizer_pair: tuple[Any, Any],
    options: dict[str, Any],
    pads: bool,
    tensors: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, fast = tokenizer_pair
    if pads and original.pad_token is None:
        pytest.skip("has no padding token")
    if tensors and not original.encode("the low"):
        pytest.skip("gives no ids: transformers decides what an empty array is")
    state = fast.__dict__[transformers_module.STATE_ATTRIBUTE]
    if state.compat.get_plan(True).pair_template_ids is None:
        pytest.skip("its template changes the order of a pair")
    calls: list[tuple[Any, Any]] = [("the lowest price", "low é"), (["the low"], ["the lowest"])]
    if pads or tensors is None:
        calls.append((["low", "the lowest price é <s>"], ["", "x"]))
    expected = [original(*arguments, return_tensors=tensors, **options) for arguments in calls]
    with monkeypatch.context() as patch:
        forbid_encode_plus(fast, patch)
        results = [fast(*arguments, return_tensors=tensors, **options) for arguments in calls]
        results.append(fast(calls[0][0], text_pair=calls[0][1], return_tensors=tensors, **options))
    for expected_result, result in zip([*expected, expected[0]], results, strict=True):
        assert_same(expected_result, result)


@pytest.mark.parametrize("options", [{"truncation": True, "max_length": 3}, {"truncation": "only_first"}])
@pytest.mark.parametrize("pair", ["", "the lowest price", "low"])
def test_other_pairs_are_left_to_transformers(
    tokenizer_pair: tuple[Any, Any], pair: str, options: dict[str, Any]
) -> None:
    def outcome(tokenizer: Any) -> Any:
        try:
            return tokenizer("the lowest price of the low", pair, **{"max_length": 6, **options})
        except Exception as error:  # noqa: BLE001  # tokenizers raises Exception itself
            return str(error)

    expected, result = map(outcome, tokenizer_pair)
    if isinstance(expected, str):
        assert result == expected
    else:
        assert_same(expected, result)


@pytest.mark.parametrize(("char", "size"), [("é ", 0), ("吾", 100), ("a ", 4096), ("a ", 4097), ("😀", 4097)])
def test_special_tokens_in_texts_of_any_size(tokenizer_pair: tuple[Any, Any], size: int, char: str) -> None:
    """Short texts are encoded in a kernel, which is chosen by the most bytes that they may have."""
    tokenizer, fast = tokenizer_pair
    filling = (char * size)[: size // len(char.encode())]
    for text in (f"<s>{filling}", f"{filling}<s></s>{filling[:9]}<unk> low", f"{filling}<mask> x"):
        for options in ({}, {"return_offsets_mapping": True}):
            assert_same(tokenizer(text, **options), fast(text, **options))
        assert tokenizer.encode("low", text_pair=text) == fast.encode("low", text_pair=text)
        expected, encoding = (tok.backend_tokenizer.encode(text) for tok in (tokenizer, fast))
        assert encoding.ids == expected.ids


def test_tokens_that_are_found_in_every_text_are_left_to_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, fast = load_plain("llama3"), bpe.accelerate(load_plain("llama3"))
    for tok in (tokenizer, fast):
        tok.add_tokens(["<think>", "low"])
    fast = bpe.accelerate(fast)  # which compares at once
    forbid_encode_plus(fast, monkeypatch)
    monkeypatch.setattr(transformers_module.Tokenizer, "encode", None)
    for text in ("the <think>lowest</s>", "", "lowlow", "e"):
        assert tokenizer.encode(text) == fast.encode(text)


@pytest.mark.parametrize("normalizers", [["NFC"], ["NFD", "NFKC"], ["NFC", "Lowercase"], ["Lowercase"]])
def test_ascii_that_no_normalizer_changes_is_left_to_the_kernel(
    normalizers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = json.loads(shape("llama3"))
    file["normalizer"] = {"type": "Sequence", "normalizers": [{"type": name} for name in normalizers]}
    backends = [tokenizers.Tokenizer.from_str(json.dumps(file)) for _ in range(2)]
    tokenizer, fast = (transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **NAMES) for backend in backends)
    del backends
    fast = bpe.accelerate(fast)
    for text in [*HOSTILE, *TEXTS, "THE Lowest<s>Å", "e\u0301<s>", "Low<S>", "THE lowest " * 500]:
        assert_same(tokenizer(text), fast(text))
        assert tokenizer.encode("THE low", text_pair=text) == fast.encode("THE low", text_pair=text)
        assert tokenizer.backend_tokenizer.encode(text).ids == fast.backend_tokenizer.encode(text).ids
    if "Lowercase" not in normalizers:
        fast = bpe.accelerate(fast)
        expected = tokenizer.encode("<s>THE lowest")
        assert fast.encode("") == tokenizer.encode("")
        monkeypatch.setattr(bpe.encode.engine.Engine, "encode", None)
        assert fast.encode("<s>THE lowest") == expected


def test_few_ids(tokenizer_pair: tuple[Any, Any]) -> None:
    original, fast = tokenizer_pair
    for ids in (3, [3], [3, 4, 5], []):
        assert fast.decode(ids) == original.decode(ids)
        assert fast.decode(ids, skip_special_tokens=True) == original.decode(ids, skip_special_tokens=True)


def test_a_call_that_warns_still_does(tokenizer_pair: tuple[Any, Any]) -> None:
    original, fast = tokenizer_pair
    if original.pad_token is not None:
        with pytest.warns(UserWarning, match="max_length"):
            fast("low", padding=True, max_length=3)


@pytest.mark.parametrize("tensors", [None, "np", "pt"])
def test_batches(tokenizer_pair: tuple[Any, Any], tensors: str | None) -> None:
    original, fast = tokenizer_pair
    if tensors == "pt":
        pytest.importorskip("torch")
    if original.pad_token is None:
        pytest.skip("has no padding token")
    rows, others = HOSTILE, HOSTILE[::-1]
    options = {"padding": True, "truncation": True, "return_tensors": tensors}
    assert_same(original(rows, max_length=7, **options), fast(rows, max_length=7, **options))
    assert_same(original(rows, others, max_length=9, **options), fast(rows, others, max_length=9, **options))
    assert_same(original("the low", return_tensors=tensors), fast("the low", return_tensors=tensors))
    padded = {"padding": "max_length", "max_length": 300, "padding_side": "left", "pad_to_multiple_of": 8}
    assert_same(original(rows, return_tensors=tensors, **padded), fast(rows, return_tensors=tensors, **padded))
    every = {
        "return_overflowing_tokens": True, "return_special_tokens_mask": True, "return_offsets_mapping": True,
        "return_length": True, "return_token_type_ids": True, "stride": 1, "max_length": 8, "truncation": True,
    }  # fmt: skip
    assert_same(original(rows, **every), fast(rows, **every))
    words = [text.split() for text in rows if text.split()]
    assert_same(
        original(words, is_split_into_words=True, max_length=6, **options),
        fast(words, is_split_into_words=True, max_length=6, **options),
    )


@pytest.mark.parametrize("tensors", [None, "np"])
@pytest.mark.parametrize("seed", range(2))
def test_texts_are_truncated_as_if_all_of_each_were_encoded(
    tokenizer_pair: tuple[Any, Any], seed: int, tensors: str | None
) -> None:
    """Also texts that are long together, of which a job encodes what is kept, and the columns of rows read later."""
    original, fast = tokenizer_pair
    choose = random.Random(seed)
    parts = [*HOSTILE, *TEXTS, " the low", "lowest price ", "\n\t", "가나다 "]
    for n_texts, n_parts in ((1, 9), (2, 3), (9, 12), (3, 400), (1, 1600)):
        texts: Any = ["".join(choose.choices(parts, k=choose.randint(n_parts // 2, n_parts))) for _ in range(n_texts)]
        texts = texts[0] if n_parts == 1600 else texts
        options = {
            "truncation": choose.choice((True, "longest_first")), "max_length": choose.choice((3, 17, 70, 300)),
            "add_special_tokens": choose.random() < 0.7, "return_offsets_mapping": n_parts < 9, "verbose": True,
            "padding": choose.choice((False, True, "max_length")) if original.pad_token is not None else False,
        }  # fmt: skip
        if tensors and options["padding"] == "max_length":
            options["return_tensors"] = tensors
        for side in ("right", "left"):
            original.truncation_side = fast.truncation_side = side
            expected, result = original(texts, **options), fast(texts, **options)
            assert list(expected) == list(result)
            for name in expected:
                is_array = hasattr(expected[name], "shape")
                assert np.array_equal(expected[name], result[name]) if is_array else expected[name] == result[name]
            if n_parts < 12:
                assert_same(expected, result)
    original.truncation_side = fast.truncation_side = "right"


@pytest.mark.parametrize(
    ("arguments", "options"),
    SAME_ERRORS,
)
def test_errors_are_the_same(arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    original = load_plain("gpt2")

    def outcome(tokenizer: Any) -> str:
        try:
            return str(dict(tokenizer(*arguments, **options)))
        except Exception as error:  # noqa: BLE001
            return str(error).split(":")[0]

    assert outcome(original) == outcome(bpe.accelerate(original))


def test_chat_templates(tokenizer_pair: tuple[Any, Any]) -> None:
    pytest.importorskip("jinja2")
    original, fast = tokenizer_pair
    messages = [{"role": "user", "content": "the lowest price?"}, {"role": "assistant", "content": "low é"}]
    assert fast.apply_chat_template(messages, tokenize=False) == original.apply_chat_template(messages, tokenize=False)
    assert_same(
        original.apply_chat_template(messages, return_dict=True), fast.apply_chat_template(messages, return_dict=True)
    )


def test_chats_with_control_tokens_as_text(tokenizer_pair: tuple[Any, Any]) -> None:
    pytest.importorskip("jinja2")
    original, fast = tokenizer_pair
    chats = [[{"role": "user", "content": "the </s> lowest <s>price " * n}] for n in (1, 20)]
    for conversation in (*chats, chats):
        options = {"sanitize_control_tokens": True, "return_dict": True}
        assert dict(fast.apply_chat_template(conversation, **options)) == dict(
            original.apply_chat_template(conversation, **options)
        )


def test_rendered_chats_are_those_of_transformers(tokenizer_pair: tuple[Any, Any]) -> None:
    pytest.importorskip("jinja2")
    original, fast = tokenizer_pair
    template = "{{ bos_token }}{{ messages }}{{ tools }}{{ add_generation_prompt }}{{ x }}{% set n = namespace(a=1) %}"
    plain = {"role": "user", "content": "low", "name": None}
    parts = {"role": "tool", "content": [{"type": "text", "text": "é", "a": None}, 2.5, True]}
    for conversation in (
        [plain], [plain, parts], (plain,), [[plain], [parts]], [], [plain, 3], [{"role": "user", "thinking": "hm"}],
        [{"role": np.str_("user")}], [{3: "user"}], [{"n": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}], {"role": "user"},
    ):  # fmt: skip
        for options in (
            {}, {"x": "y", "add_generation_prompt": True}, {"bos_token": "b"}, {"messages": [plain]},
            {"chat_template": "{{ 1 // 0 }}"}, {"chat_template": "{{ messages[0].role }}"}, {"tools": [{"name": "a"}]},
            {"tools": []}, {"documents": []},
            {"continue_final_message": True}, {"x": object}, {"return_assistant_tokens_mask": True},
        ):  # fmt: skip
            options = {"chat_template": template, **options}
            expected, result = (
                find_outcome(tokenizer.apply_chat_template, conversation, tokenize=False, **options)
                for tokenizer in (original, fast)
            )
            assert result == expected


def test_changes_are_noticed_whoever_makes_them() -> None:
    """A backend that nothing else refers to is not compared at each call; one that was read is."""
    for read_first in (False, True):
        original, fast = load_plain("llama3"), bpe.accelerate(load_plain("llama3"))
        kept = fast.backend_tokenizer.pre_tokenizer[1] if read_first else None
        for _ in range(3):
            assert_same(original("The Low"), fast("The Low"))
        state = fast.__dict__[transformers_module.STATE_ATTRIBUTE]
        assert state.is_shared is read_first
        assert state.is_certain(fast) is not read_first
        if kept is not None:
            kept.add_prefix_space = True
            original.backend_tokenizer.pre_tokenizer[1].add_prefix_space = True
        else:
            other = copy.copy(fast)  # refers to the same backend
            for tokenizer in (original, other):
                tokenizer.backend_tokenizer.normalizer = tokenizers.normalizers.Lowercase()
        assert_same(original("The Low"), fast("The Low"))
        assert fast.encode("The Low") == original.encode("The Low")
        assert fast.tokenize("The Low") == original.tokenize("The Low")


@pytest.mark.parametrize("method", ["decode", "convert_ids_to_tokens"])
def test_calls_of_transformers_that_change_the_backend_are_noticed_after_decoding(method: str) -> None:
    """Decoding compares less of a backend than encoding; the rest is compared by the call after it."""
    original, fast = load_plain("gpt2"), bpe.accelerate(load_plain("gpt2"))
    for number in range(2):
        for tokenizer in (original, fast):
            tokenizer.add_eos_token = number == 0
            getattr(tokenizer, method)([5, 6])
        assert_same(original("the low"), fast("the low"))
        assert fast.encode("the low") == original.encode("the low")


@pytest.mark.parametrize("patches", [False, True])
def test_methods_of_a_backend_that_are_its_own(patches: bool) -> None:
    """As transformers gives the backend of CLIP's tokenizers another `decode`; here also after the first call."""
    original, fast = load_plain("gpt2"), bpe.accelerate(load_plain("gpt2"))
    ids = original("the low")["input_ids"]
    for tokenizer in (original, fast):
        if patches:
            tokenizer.decode(ids)
        decode = tokenizer.backend_tokenizer.decode
        tokenizer.backend_tokenizer.decode = lambda *args, decode=decode, **options: decode(*args, **options).upper()
    if not patches:
        fast = bpe.accelerate(fast)
    assert original.decode(ids) == "THE LOW"
    assert fast.decode(ids) == "THE LOW"
    assert fast.batch_decode([ids, ids]) == original.batch_decode([ids, ids])
    assert_same(original("the low"), fast("the low"))


def test_clip_decodes_with_spaces() -> None:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400, end_of_word_suffix="</w>", special_tokens=["<s>", "</s>"], show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator(["the lowest price"] * 3, trainer)
    model, names = json.loads(tokenizer.to_str())["model"], dict.fromkeys(("unk_token", "pad_token"), "</s>")
    merges = [tuple(pair) for pair in model["merges"]]
    original = transformers.CLIPTokenizer(
        vocab=model["vocab"], merges=merges, bos_token="<s>", eos_token="</s>", **names
    )
    fast = bpe.accelerate(original)
    ids = original("the low, lowest price")["input_ids"]
    assert " " in original.decode(ids)
    assert fast.decode(ids) == original.decode(ids)
    assert fast.batch_decode(np.array([ids])) == original.batch_decode(np.array([ids]))


class OwnMethods(transformers.PreTrainedTokenizerFast):  # type: ignore[misc, name-defined]
    """A class with methods of its own, of which some have other parameters."""

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, loud: bool = False, **options: Any) -> Any:
        text = super().decode(token_ids, skip_special_tokens, **options)
        return [row.upper() for row in text] if isinstance(text, list) else text.upper() if loud else text + "!"

    def tokenize(self, text: str, backwards: bool = False, **options: Any) -> list[str]:
        tokens: list[str] = super().tokenize(text, **options)
        return tokens[::-1] if backwards else [*tokens, "end"]

    def convert_ids_to_tokens(self, ids: Any, *, skip_special_tokens: bool = False) -> Any:
        return ["<", *super().convert_ids_to_tokens(ids, skip_special_tokens), ">"]

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        return super().apply_chat_template([{"role": "system", "content": "x"}, *conversation], **options)

    def encode(self, text: Any, *, loud: bool = False, **options: Any) -> list[int]:
        return super().encode(text.upper() if loud else text, **options)  # type: ignore[no-any-return]

    def __call__(self, text: Any, **options: Any) -> Any:
        return super().__call__(f"{text} low", **options)


@pytest.mark.parametrize("patches", [False, True])
def test_methods_of_a_class_that_are_its_own(patches: bool, request: pytest.FixtureRequest) -> None:
    def load() -> Any:
        tokenizer = OwnMethods(tokenizer_object=tokenizers.Tokenizer.from_str(shape("gpt2")), **NAMES)
        tokenizer.chat_template = TEMPLATE
        return tokenizer

    original, messages = load(), [{"role": "user", "content": "the low"}]
    ids = original.encode("the low")
    calls = [
        lambda tok: tok.decode(ids), lambda tok: tok.decode(ids, False, True), lambda tok: tok.batch_decode([ids, ids]),
        lambda tok: tok.tokenize("the low"), lambda tok: tok.tokenize("the low", True),
        lambda tok: tok.convert_ids_to_tokens(ids), lambda tok: tok.apply_chat_template(messages, tokenize=False),
        lambda tok: tok.apply_chat_template(messages)["input_ids"], lambda tok: tok.encode("the low", loud=True),
        lambda tok: tok("the")["input_ids"],
    ]  # fmt: skip
    expected = [call(original) for call in calls]
    if patches:
        request.getfixturevalue("patched")
    fast = load() if patches else bpe.accelerate(original)
    assert [call(fast) for call in calls] == expected


def test_tokenize_of_a_class_with_other_parameters() -> None:
    names = ["<unk>", "<s>", "</s>", "▁", "l", "o", "w", "x", "▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>"]
    original = transformers.CodeLlamaTokenizer(vocab={name: i for i, name in enumerate(names)}, merges=[])
    fast = bpe.accelerate(transformers.CodeLlamaTokenizer(vocab={name: i for i, name in enumerate(names)}, merges=[]))
    for options in ({"add_special_tokens": True}, {"suffix": "x"}, {}):
        assert fast.tokenize("low", **options) == original.tokenize("low", **options)
        assert fast.encode("low") == original.encode("low")


@pytest.mark.parametrize("texts", ["xyzxyzxyz", ["xyzxyz"], ["xyzxyzxyzxyz", "x", "", "xyzx"]])
@pytest.mark.parametrize("padding", [True, "longest", "max_length", False])
def test_rows_that_overflow_are_padded_too(texts: Any, padding: Any) -> None:
    original, fast = load_plain("gpt2"), bpe.accelerate(load_plain("gpt2"))
    results = [tok(texts, truncation=True, max_length=4, padding=padding) for tok in (original, fast)]
    expected, rows = ([row.overflowing for row in result.encodings] for result in results)
    for name in ("ids", "attention_mask", "special_tokens_mask", "type_ids", "offsets", "tokens"):
        assert [[getattr(row, name) for row in group] for group in rows] == [
            [getattr(row, name) for row in group] for group in expected
        ]


def test_a_normalizer_spells_added_tokens_from_the_next_call() -> None:
    tokenizer, fast = load_plain("llama3"), load_plain("llama3")
    for tok in (tokenizer, fast):
        tok.add_tokens(["C++"])
    fast = bpe.accelerate(fast)  # which compares at once
    ids = fast.encode("C++ low")
    assert fast.convert_ids_to_tokens(ids) == tokenizer.convert_ids_to_tokens(ids)
    for tok in (tokenizer, fast):
        tok.backend_tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    assert fast.convert_ids_to_tokens(ids) == tokenizer.convert_ids_to_tokens(ids)
    assert fast.decode(ids) == tokenizer.decode(ids)


@pytest.mark.parametrize("is_compared", [False, True])
@pytest.mark.parametrize("model", ["BPE", "WordLevel"])
def test_changes_of_added_tokens_after_a_first_change(
    model: str, is_compared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A twin that answers before results are compared, or where nothing is accelerated, is of the backend as it is."""
    file = json.loads(shape("llama3"))
    if model == "WordLevel":
        vocabulary = file["model"]["vocab"]
        file["model"] = {"type": "WordLevel", "vocab": vocabulary, "unk_token": next(iter(vocabulary))}
    backends = [tokenizers.Tokenizer.from_str(json.dumps(file)) for _ in range(2)]
    original, fast = (transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **NAMES) for backend in backends)
    del backends
    fast = bpe.accelerate(fast)
    text = "the <new> low"
    if is_compared:
        monkeypatch.setattr(transformers_module, "_CHARS_BEFORE_VERIFYING", 0)
    for is_wide in (False, True, False):
        for tokenizer in (original, fast):
            token = tokenizers.AddedToken("<new>", lstrip=is_wide, rstrip=is_wide, normalized=False)
            tokenizer.backend_tokenizer.add_tokens([token])
        assert_same(original(text), fast(text))
        assert fast.encode(text) == original.encode(text)
        for options in ({"sanitize_control_tokens": True}, {"return_offsets_mapping": True}):
            assert find_outcome(fast, text, **options) == find_outcome(original, text, **options)
        assert fast.tokenize(text) == original.tokenize(text)


def test_settings_that_change_between_calls() -> None:
    original, fast = load_plain("llama3"), bpe.accelerate(load_plain("llama3"))
    options = {"padding": "max_length", "max_length": 6, "truncation": True}
    for name, value in (
        ("padding_side", "left"), ("truncation_side", "left"), ("pad_token", "</s>"), ("_pad_token_type_id", 3),
        ("model_input_names", ["input_ids", "token_type_ids"]), ("split_special_tokens", True), ("pad_token", None),
    ):  # fmt: skip
        outcomes = []
        for tokenizer in (original, fast):
            setattr(tokenizer, name, value)
            for text in ("the <s>low", "the lowest price of the low tower <s>"):
                outcomes += [dict(tokenizer(text)), find_outcome(tokenizer, text, **options)]
        assert outcomes[:4] == outcomes[4:]
    fast.model_input_names.append("attention_mask")  # the list itself
    original.model_input_names = [*original.model_input_names[:2], "attention_mask"]
    assert_same(original("low"), fast("low"))


@pytest.mark.parametrize("options", [{"max_length": n, "truncation": True} for n in (2**63 - 1, 2**63, 2**64, -1)])
def test_lengths_of_any_size(tokenizer_pair: tuple[Any, Any], options: dict[str, Any]) -> None:
    expected, result = (find_outcome(tokenizer, "the low", **options) for tokenizer in tokenizer_pair)
    assert result == expected


def test_names_of_ids(tokenizer_pair: tuple[Any, Any]) -> None:
    original, fast = tokenizer_pair
    ids = original(TEXTS[0] + "<s></s>")["input_ids"]
    for values in (
        ids,
        ids * 9,
        [],
        3,
        [len(original)],
        [3.0],
        [True],
        np.array(ids, dtype=np.int64),
        tuple(ids),
        ["3"],
        [[3]],
    ):
        for skip in (False, True):
            expected, result = (
                find_outcome(tokenizer.convert_ids_to_tokens, values, skip_special_tokens=skip)
                for tokenizer in (original, fast)
            )
            assert result == expected


def test_prompts_that_grow(tokenizer_pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpe.compat.core._MIN_CACHED_CHARS", 10)
    monkeypatch.setattr("bpe.prompts.MIN_WINDOW_BYTES", 16)
    n_kept: list[int] = []
    encode = bpe.PromptCache.encode
    monkeypatch.setattr(
        bpe.PromptCache, "encode", lambda self, text: n_kept.append((result := encode(self, text))[1]) or result
    )
    plain, _ = tokenizer_pair
    fast = bpe.accelerate(plain, prompt_cache="1M")
    messages = []
    for copied in (fast, pickle.loads(pickle.dumps(fast)), copy.deepcopy(fast)):
        for text in TEXTS[:8]:
            messages.append({"role": "user", "content": f"the low tower {text}"})
            expected = plain.apply_chat_template(messages, tokenize=True)
            assert_same(expected, copied.apply_chat_template(messages, tokenize=True))
            prompt = plain.apply_chat_template(messages, tokenize=False)
            assert copied.encode(prompt) == plain.encode(prompt)
            assert_same(plain(prompt), copied(prompt))
    assert acceleration_of(fast) == acceleration_of(bpe.accelerate(plain))
    assert not acceleration_of(fast).encoding or max(n_kept) > 0
    with pytest.raises(ValueError, match="prompt_cache"):
        bpe.accelerate(plain, prompt_cache=-1)


def test_changes_of_the_backend_are_noticed() -> None:
    fast = bpe.accelerate(load_plain("llama3"))
    original = load_plain("llama3")

    def compare() -> None:
        for text in ("the <new> low prices", "<s>the <other>"):
            assert_same(original(text), fast(text))
            assert fast.encode(text) == original.encode(text)
            assert fast.decode(original.encode(text), skip_special_tokens=True) == original.decode(
                original.encode(text), skip_special_tokens=True
            )

    compare()
    for change in (
        lambda tokenizer: tokenizer.add_tokens(["<new>"]),
        lambda tokenizer: tokenizer.add_special_tokens({"additional_special_tokens": ["<other>"]}),
        lambda tokenizer: tokenizer.add_tokens(["low"]),
        lambda tokenizer: tokenizer.backend_tokenizer.add_special_tokens(["the"]),
        lambda tokenizer: setattr(tokenizer.backend_tokenizer, "normalizer", tokenizers.normalizers.Lowercase()),
        lambda tokenizer: setattr(tokenizer.backend_tokenizer, "decoder", tokenizers.decoders.Fuse()),
        lambda tokenizer: setattr(tokenizer.backend_tokenizer.pre_tokenizer[1], "add_prefix_space", True),
        lambda tokenizer: setattr(tokenizer, "add_eos_token", True),
        lambda tokenizer: setattr(tokenizer, "split_special_tokens", True),
    ):
        for tokenizer in (original, fast):
            change(tokenizer)
        compare()


def test_pickles_copies_and_saved_files(tokenizer_pair: tuple[Any, Any], tmp_path: Path) -> None:
    original, fast = tokenizer_pair
    fast.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    original.save_pretrained(tmp_path / "own")
    assert config == json.loads((tmp_path / "own" / "tokenizer_config.json").read_text())
    loaded = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    for tokenizer in (pickle.loads(pickle.dumps(fast)), copy.copy(fast), copy.deepcopy(fast), bpe.accelerate(loaded)):
        for text in TEXTS:
            assert_same(original(text), tokenizer(text))
        assert acceleration_of(tokenizer).encoding


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_processes_encode() -> None:
    fast = bpe.accelerate(load_plain("gpt2"))
    expected = fast(TEXTS)["input_ids"]
    child = os.fork()
    if not child:
        os._exit(0 if fast(TEXTS)["input_ids"] == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.usefixtures("patched")
def test_patched_classes_accelerate_every_instance() -> None:
    compat.patch_transformers()  # again: nothing happens
    original = load_plain("roberta")
    assert acceleration_of(original) is None
    assert original("the low").encodings[0].__class__.__module__ == "bpe.compat.encoding"
    assert acceleration_of(original).encoding
    assert original.decode(original.encode("the low"), skip_special_tokens=True) == " the low"
    again = pickle.loads(pickle.dumps(original))
    assert again("the low")["input_ids"] == original("the low")["input_ids"]
    fast = bpe.accelerate(load_plain("roberta"))
    assert acceleration_of(fast).encoding
    assert fast("the low")["input_ids"] == original("the low")["input_ids"]
    unigram = tokenizers.Tokenizer(tokenizers.models.WordLevel({"the": 0, "<unk>": 1}, unk_token="<unk>"))
    unigram.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    other = transformers.PreTrainedTokenizerFast(tokenizer_object=unigram)
    assert other("the low")["input_ids"] == [0, 1]
    assert not acceleration_of(other).encoding
    assert "must be BPE" in acceleration_of(other).reasons[0]


def test_unpatching_restores_the_class() -> None:
    kind = transformers.PreTrainedTokenizerFast
    methods = {name: getattr(kind, name) for name in ("__call__", "encode", "decode", "batch_decode", "_encode_plus")}
    compat.unpatch_transformers()
    compat.patch_transformers()
    assert kind.__call__ is not methods["__call__"]
    compat.unpatch_transformers()
    compat.unpatch_transformers()
    assert {name: getattr(kind, name) for name in methods} == methods


def test_only_fast_tokenizers_are_accelerated() -> None:
    with pytest.raises(TypeError, match="tokenizer is 3, an int; it must be a fast tokenizer"):
        bpe.accelerate(3)


def test_tokens_added_after_a_gap_in_the_ids() -> None:
    value = json.loads(Tokenizer(bpe.train(texts=["low lower"] * 3, vocab_size=260, special_tokens=["<e>"])).to_str())
    value["model"]["vocab"]["<e>"] = value["added_tokens"][0]["id"] = 300
    original = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer.from_str(json.dumps(value)))
    names = [f"<{number}>" for number in range(70)]
    original.add_tokens(names)
    fast = bpe.accelerate(original)
    state = acceleration_of(fast)
    assert state is not None
    assert (state.encoding, state.decoding) == (True, True)
    text = "low".join([*names, "<e>"])
    assert fast(text)["input_ids"] == original(text)["input_ids"]
    assert fast.encode("<69>") == original.encode("<69>") == [370]
    assert fast.decode(list(range(295, 371))) == original.decode(list(range(295, 371)))
    fast.add_tokens(["<more>"])
    assert fast.encode("low<more>") == original.encode("low<more>")


def test_what_differs_is_not_accelerated(monkeypatch: pytest.MonkeyPatch) -> None:
    original = load_plain("gpt2")
    other_tokenizer = bpe.train(texts=["other"], vocab_size=256)
    monkeypatch.setattr(Tokenizer, "from_str", classmethod(lambda cls, text: cls(other_tokenizer)))
    monkeypatch.setattr(Tokenizer, "with_added_ids", lambda self, tokens: self)
    fast = bpe.accelerate(original)
    assert not acceleration_of(fast).encoding
    assert "encoding differs" in acceleration_of(fast).reasons[0]
    assert_same(original("the low"), fast("the low"))
    assert fast.decode([80, 81]) == original.decode([80, 81])


@pytest.fixture(scope="module", params=SHAPES)
def objects(request: Any) -> tuple[Any, Any]:
    """A tokenizer, and one whose `tokenizer_object` is a compat `Tokenizer`."""
    names = {} if request.param == "words" else NAMES
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(shape(request.param)), **names)
    return load_plain(request.param), tokenizer


def test_tokenizer_objects(objects: tuple[Any, Any]) -> None:
    original, compat_based = objects
    for text in HOSTILE:
        assert_same(original(text), compat_based(text))
        assert compat_based.decode(original.encode(text)) == original.decode(original.encode(text))
    if original.pad_token is not None:
        options = {"padding": True, "truncation": True, "max_length": 8, "return_tensors": "np"}
        assert_same(original(HOSTILE, HOSTILE, **options), compat_based(HOSTILE, HOSTILE, **options))
    assert len(compat_based) == len(original)
    assert compat_based.get_vocab() == original.get_vocab()
    assert compat_based.added_tokens_decoder == original.added_tokens_decoder
    assert compat_based.convert_tokens_to_string(["the", "low"]) == original.convert_tokens_to_string(["the", "low"])


def test_tokenizer_objects_in_files_pickles_and_training(objects: tuple[Any, Any], tmp_path: Path) -> None:
    original, compat_based = objects
    compat_based.save_pretrained(tmp_path)
    loaded = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    for tokenizer in (loaded, pickle.loads(pickle.dumps(compat_based)), copy.deepcopy(compat_based)):
        assert tokenizer(TEXTS)["input_ids"] == original(TEXTS)["input_ids"]
    if (
        original.pad_token is not None and "e</w>" not in original.get_vocab()
    ):  # with a suffix, their order of symbols is random
        again = [
            tokenizer.train_new_from_iterator([TEXTS], 300, show_progress=False)
            for tokenizer in (original, compat_based)
        ]
        assert again[0].get_vocab() == again[1].get_vocab()
        assert again[0](TEXTS)["input_ids"] == again[1](TEXTS)["input_ids"]


#: What vLLM calls on a tokenizer: the members of its `TokenizerBase` (but `encode_one` and `max_token_id`, which
#: its own classes add) and those that its detokenizer calls; and what batches, templates and saving need beside them.
VLLM = (
    "sep_token", "pad_token",
    "all_special_tokens", "all_special_ids", "bos_token_id", "eos_token_id", "pad_token_id", "is_fast", "vocab_size",
    "max_len_single_sentence", "truncation_side", "padding_side", "chat_template", "added_tokens_decoder",
    "name_or_path", "special_tokens_map", "model_max_length", "__call__", "__len__", "get_vocab", "get_added_vocab",
    "encode", "decode", "batch_decode", "apply_chat_template", "convert_tokens_to_string", "convert_ids_to_tokens",
    "convert_tokens_to_ids", "num_special_tokens_to_add", "add_special_tokens", "save_pretrained", "backend_tokenizer",
)  # fmt: skip


#: What SGLang uses of a tokenizer, of which it has no protocol: what its detokenizer manager and `get_tokenizer` call,
#: and the members for text, ids and chats that its tokenizer manager and chat handler need.
SGLANG = (
    "__call__", "encode", "decode", "batch_decode", "apply_chat_template", "chat_template", "get_added_vocab",
    "bos_token_id", "eos_token_id", "all_special_ids",
)  # fmt: skip


def test_members_that_servers_use(tokenizer_pair: tuple[Any, Any]) -> None:
    original, fast = tokenizer_pair
    for name in (*VLLM, *SGLANG):
        assert hasattr(fast, name) == hasattr(original, name), name
    for name in READ_ONLY:
        if hasattr(original, name):
            assert getattr(fast, name) == getattr(original, name)


def test_cached_tokenizer_of_vllm() -> None:
    """A subclass of the accelerated class, made and assigned as vLLM's `get_cached_tokenizer` does."""
    fast = bpe.accelerate(load_plain("llama3"))
    cached = copy.copy(fast)
    ids = fast.all_special_ids

    class CachedTokenizer(type(fast)):  # type: ignore[misc]
        @property
        def all_special_ids(self) -> list[int]:
            found: list[int] = ids
            return found

    cached.__class__ = CachedTokenizer
    assert cached.encode("the low") == fast.encode("the low")
    assert cached.decode(fast.encode("the low")) == fast.decode(fast.encode("the low"))


def test_calls_of_sglang(tokenizer_pair: tuple[Any, Any]) -> None:
    """What its managers do: they check the class, keep ids of their own on the tokenizer, and decode rows of ids."""
    original, fast = tokenizer_pair[0], copy.copy(tokenizer_pair[1])
    assert isinstance(fast, transformers.PreTrainedTokenizerFast)
    fast.additional_stop_token_ids = set(fast.get_added_vocab().values())
    assert fast.additional_stop_token_ids == set(original.get_added_vocab().values())
    assert fast.encode("") == original.encode("")
    rows = original(TEXTS)["input_ids"]
    assert fast(TEXTS)["input_ids"] == rows
    for skip in (False, True):
        options = {"skip_special_tokens": skip, "spaces_between_special_tokens": True}
        assert fast.batch_decode([*rows, []], **options) == original.batch_decode([*rows, []], **options)


def draw_options(order: random.Random) -> dict[str, Any]:
    """Options of a call, of those that transformers sets in the backend, and columns."""
    options: dict[str, Any] = {}
    if order.random() < 0.6:
        options |= {"truncation": order.choice([True, "only_first"]), "max_length": order.choice([4, 7, 16])}
    if order.random() < 0.6:
        options |= {"padding": order.choice([True, "max_length"]), "max_length": 12, "truncation": True}
    for name in ("return_offsets_mapping", "return_special_tokens_mask", "return_length", "return_token_type_ids"):
        if order.random() < 0.4:
            options[name] = order.random() < 0.8
    if order.random() < 0.2:
        options |= {"return_overflowing_tokens": True, "truncation": True, "max_length": 9, "stride": 1}
    if order.random() < 0.2:
        options["padding_side"] = "left"
    if order.random() < 0.2:
        options["add_special_tokens"] = False
    if order.random() < 0.2:
        options["split_special_tokens"] = True
    return options


@pytest.mark.parametrize("changed", [False, True])
def test_threads_get_the_results_of_their_own_calls(changed: bool) -> None:
    """Each call sets truncation and padding in a backend; none may set them in that of another thread."""
    order = random.Random(34)
    original, fast = load_plain("llama3"), bpe.accelerate(load_plain("llama3"))
    if changed:  # results are compared again after many calls
        for tokenizer in (original, fast):
            tokenizer.add_tokens(["<new>"])
    texts = ["the <new> lowest price </s>é " * n for n in (1, 3, 8, 40)] + [[f"the <s> low {n}" for n in range(3)]]
    calls = [(order.choice(texts), draw_options(order)) for _ in range(30)]
    expected = [dict(original(text, **options)) for text, options in calls]
    unexpected: list[Any] = []

    def run(seed: int) -> None:
        for index in random.Random(seed).sample(range(len(calls)), len(calls)):
            text, options = calls[index]
            if dict(fast(text, **options)) != expected[index]:
                unexpected.append(calls[index])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(run, range(8)))
    finally:
        sys.setswitchinterval(interval)
    assert unexpected == []


def test_backends_of_other_tokenizers_are_left_as_they_are() -> None:
    """The original shares the backend of its accelerated copy, and may be in use in another thread."""
    original = load_plain("gpt2")
    fast = bpe.accelerate(original)
    old_json = original.backend_tokenizer.to_str()
    for name in ("return_offsets_mapping", "return_overflowing_tokens", "return_length"):
        fast("the low", truncation=True, max_length=3, padding="max_length", **{name: True})
    fast.add_tokens(["<new>"])
    fast("the low", truncation=True, max_length=3, padding="max_length", split_special_tokens=True)
    assert acceleration_of(fast).encoding  # compares again
    assert original.backend_tokenizer.truncation is original.backend_tokenizer.padding is None
    assert not original.backend_tokenizer.encode_special_tokens
    assert original("the low")["input_ids"] == load_plain("gpt2")("the low")["input_ids"]
    assert old_json != original.backend_tokenizer.to_str()  # for the new token


def test_adding_tokens_one_by_one_compares_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformers_module, "_CHARS_BEFORE_VERIFYING", 1 << 14)
    original, fast = load_plain("llama3"), bpe.accelerate(load_plain("llama3"))
    verified: list[Any] = []
    verify = transformers_module._verify
    monkeypatch.setattr(
        transformers_module, "_verify", lambda *arguments: verified.append(arguments) or verify(*arguments)
    )
    for index in range(12):
        for tokenizer in (original, fast):
            tokenizer.add_tokens(
                [tokenizers.AddedToken(f"<{index}>", lstrip=bool(index % 2))], special_tokens=index % 3 == 0
            )
        text = f"the <{index}> low <{index // 2}>"
        assert_same(original(text), fast(text))
        ids = original.encode(text)
        assert fast.encode(text) == ids
        assert fast.decode(ids, skip_special_tokens=True) == original.decode(ids, skip_special_tokens=True)
        assert_same(original(text, return_offsets_mapping=True), fast(text, return_offsets_mapping=True))
    assert not verified
    long = ["the low <3> price " * 250] * 4
    assert_same(original(long), fast(long))
    assert len(verified) == 1
    assert fast.__dict__[transformers_module.STATE_ATTRIBUTE].result.encoding
    again = load_plain("llama3")
    for tokenizer in (again, (slow := bpe.accelerate(load_plain("llama3")))):
        tokenizer.add_tokens(["<new>"])
    expected = again.encode("<new>")
    for _ in range(1 << 14 >> 6):
        assert slow.encode("<new>") == expected
    assert len(verified) == 3  # a new copy, and after enough calls


class Kept(transformers.PreTrainedTokenizerFast):  # type: ignore[misc, name-defined]
    """A class with a way of its own to copy and pickle."""

    def __reduce__(self) -> Any:
        return _keep_note, (self.backend_tokenizer.to_str(), self.__dict__.get("note"))


def _keep_note(text: str, note: Any) -> Any:
    tokenizer = Kept(tokenizer_object=tokenizers.Tokenizer.from_str(text))
    tokenizer.__dict__["note"] = note
    return tokenizer


def test_copies_keep_their_class(tokenizer_pair: tuple[Any, Any]) -> None:
    _, fast = tokenizer_pair
    for again in (copy.copy(fast), copy.deepcopy(fast), pickle.loads(pickle.dumps(fast)), bpe.accelerate(fast)):
        assert type(again) is type(fast)

    class Cached(type(fast)):  # type: ignore[misc]  # as vLLM makes one, but for its `__reduce__`
        @property
        def max_token_id(self) -> int:
            return 7

    cached = copy.copy(fast)
    cached.__class__ = Cached
    cached("the low")
    for again in (copy.copy(cached), copy.deepcopy(cached), bpe.accelerate(cached), copy.copy(copy.deepcopy(cached))):
        assert type(again) is Cached
        assert again.max_token_id == 7
        assert again("the low")["input_ids"] == fast("the low")["input_ids"]
        assert acceleration_of(again).encoding
    with pytest.raises((pickle.PicklingError, AttributeError)):  # as every class that is made in a function
        pickle.dumps(cached)


def _get_cached(tokenizer: Any) -> Any:
    """What vLLM's `get_cached_tokenizer` does."""
    cached = copy.copy(tokenizer)

    class CachedTokenizer(cached.__class__):  # type: ignore[misc]
        @property
        def max_token_id(self) -> int:
            return 7

        def __reduce__(self) -> Any:
            return _get_cached, (tokenizer,)

    CachedTokenizer.__name__ = f"Cached{cached.__class__.__name__}"
    cached.__class__ = CachedTokenizer
    return cached


@pytest.mark.parametrize("first", [False, True])
def test_copies_of_vllm_keep_their_class(first: bool) -> None:
    """Accelerated first, or cached first."""
    original = load_plain("llama3")
    cached = _get_cached(bpe.accelerate(original)) if first else bpe.accelerate(_get_cached(original))
    for again in (pickle.loads(pickle.dumps(cached)), copy.copy(cached), copy.deepcopy(cached)):
        assert type(again).__name__ == type(cached).__name__
        assert again.max_token_id == 7
        assert again("the low")["input_ids"] == original("the low")["input_ids"]
        assert acceleration_of(again).encoding


def test_copies_are_made_as_the_class_says() -> None:
    tokenizer = Kept(tokenizer_object=tokenizers.Tokenizer.from_str(shape("gpt2")))
    fast = bpe.accelerate(tokenizer)
    fast.__dict__["note"] = 3
    for again in (pickle.loads(pickle.dumps(fast)), copy.copy(fast), copy.deepcopy(fast)):
        assert type(again) is type(fast)
        assert again.__dict__["note"] == 3
        assert acceleration_of(again).encoding
