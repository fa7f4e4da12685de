"""Simplifies a list of steps to one named or regex pretokenizer, where one gives the same pretokens.

Equal tokenizers so have equal pretokenizers, however a file or a user spells them, and kernels run where they apply.
"""

from __future__ import annotations

from functools import cache

from bpe.pretokenize.patterns import DEEPSEEK_STEPS, DEEPSEEK_STEPS_ESCAPED, find_published_name
from bpe.pretokenize.pretokenizer import Gaps, PipelinePretokenizer, Pretokenizer
from bpe.pretokenize.steps import ByteLevel, Digits, Split, Step, Whitespace, WhitespaceSplit

#: The patterns of the three Splits that are DeepSeek's pretokenizer, as published and with CR and LF as escapes.
DEEPSEEK_SPLITS = (list(DEEPSEEK_STEPS), list(DEEPSEEK_STEPS_ESCAPED))
#: The step that ends the steps of a byte model, and does nothing else.
BYTES_STEP = ByteLevel(use_regex=False)


@cache
def make_whitespace_pretokenizer() -> Pretokenizer:
    """Make the pretokenizer of Hugging Face's `Whitespace`."""
    return Pretokenizer.from_regex(r"\w+|[^\w\s]+")


@cache
def make_prefix_pretokenizer() -> Pretokenizer:
    """Make ByteLevel(use_regex=false, add_prefix_space=true): the text after a space is one pretoken."""
    return Pretokenizer.from_regex("(?s:.+)", add_prefix_space=True)


def simplify(steps: PipelinePretokenizer, is_byte_model: bool) -> Pretokenizer | None:
    """Simplify steps to the pretokenizer that they are; None if the whole text is one word.

    Args:
        steps: the steps.
        is_byte_model: whether they are of a byte model, whose steps end with a ByteLevel unless the text is in letters.

    Raises:
        ValueError: for steps with a ByteLevel that are not of a byte model.

    >>> simplify(PipelinePretokenizer(Digits(individual_digits=True), ByteLevel()), is_byte_model=True)
    Pretokenizer('starcoder')

    """
    if steps.byte_level and not is_byte_model:
        raise ValueError("a character model's pretokenizer has a ByteLevel; only a byte model can have one")
    if steps.letters:
        return steps
    step_list = list(steps.steps)
    if is_byte_model and not steps.byte_level:
        step_list.append(BYTES_STEP)
    byte_level = step_list.pop() if is_byte_model and isinstance(step_list[-1], ByteLevel) else None
    if is_byte_model and byte_level is None:
        return steps
    if isinstance(byte_level, ByteLevel) and byte_level != BYTES_STEP:
        if not step_list and byte_level.use_regex:
            return Pretokenizer("gpt2", add_prefix_space=byte_level.add_prefix_space)
        if not step_list:
            return make_prefix_pretokenizer()
        if step_list == [Digits(individual_digits=True)] and byte_level == ByteLevel():
            return Pretokenizer("starcoder")
        return PipelinePretokenizer(*step_list, byte_level)
    if not step_list:
        return None
    patterns = [_find_isolated_pattern(step) for step in step_list]
    pretokenizer = Pretokenizer("deepseek_v3") if patterns in DEEPSEEK_SPLITS else None
    if len(step_list) == 1:
        pretokenizer = _simplify_step(step_list[0])
    if pretokenizer is not None:
        return pretokenizer
    return PipelinePretokenizer(*step_list, BYTES_STEP) if is_byte_model else PipelinePretokenizer(*step_list)


def _find_isolated_pattern(step: Step) -> str | None:
    """Return the pattern of a Split that keeps unmatched text; None for any other step."""
    return step.pattern if isinstance(step, Split) and step.behavior == "Isolated" and not step.literal else None


def _simplify_step(step: Step) -> Pretokenizer | None:
    """Find the pretokenizer that equals one step; None if only `PipelinePretokenizer` does."""
    if isinstance(step, WhitespaceSplit):
        return Pretokenizer("whitespace")
    if isinstance(step, Whitespace):
        return make_whitespace_pretokenizer()
    if not isinstance(step, Split):
        return None
    pattern = step.pattern
    if step.literal:
        from bpe.text.oniguruma import escape_literal

        pattern = escape_literal(pattern)
    if step.behavior == "Removed" and not step.invert and pattern in (r"\s+", r"\s"):
        return Pretokenizer("whitespace")
    if step.behavior != "Isolated" and not (step.behavior == "Removed" and step.invert):
        return None
    gaps: Gaps = "keep" if step.behavior == "Isolated" else "drop"
    if (name := find_published_name(pattern, gaps)) is not None:
        return Pretokenizer(name)
    from bpe.text.oniguruma import is_shared_pattern

    return Pretokenizer.from_regex(pattern, gaps=gaps) if is_shared_pattern(pattern) else None
