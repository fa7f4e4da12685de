"""Simplifies a list of steps to one named or regex pretokenizer, where one gives the same pretokens.

Equal tokenizers so have equal pretokenizers, however a file or a user spells them, and kernels run where they apply.
"""

from __future__ import annotations

from functools import cache

from bpe.pretokenize.patterns import DEEPSEEK_STEPS, DEEPSEEK_STEPS_ESCAPED, published
from bpe.pretokenize.pretokenizer import Gaps, PipelinePretokenizer, Pretokenizer
from bpe.pretokenize.steps import ByteLevel, Digits, Split, Step, Whitespace, WhitespaceSplit

#: The patterns of the three Splits that are DeepSeek's pretokenizer, as published and with CR and LF as escapes.
DEEPSEEK_SPLITS = (list(DEEPSEEK_STEPS), list(DEEPSEEK_STEPS_ESCAPED))
#: The step that ends the steps of a byte model, and does nothing else.
BYTES = ByteLevel(use_regex=False)


@cache
def words() -> Pretokenizer:
    """Hugging Face's `Whitespace`."""
    return Pretokenizer.from_regex(r"\w+|[^\w\s]+")


@cache
def prefixed() -> Pretokenizer:
    """ByteLevel(use_regex=false, add_prefix_space=true): the whole text is one pretoken, after the space."""
    return Pretokenizer.from_regex("(?s:.+)", add_prefix_space=True)


def simplify(steps: PipelinePretokenizer, byte: bool) -> Pretokenizer | None:
    """The pretokenizer that these steps are; None if the whole text is one word.

    Args:
        steps: the steps.
        byte: whether they are of a byte model, whose steps end with a ByteLevel unless the text is in letters.

    Raises:
        ValueError: for steps with a ByteLevel that are not of a byte model.

    >>> simplify(PipelinePretokenizer(Digits(individual_digits=True), ByteLevel()), byte=True)
    Pretokenizer('starcoder')

    """
    if steps.byte_level and not byte:
        raise ValueError("a character model's pretokenizer has a ByteLevel; only a byte model can have one")
    if steps.letters:
        return steps
    listed = list(steps.steps)
    if byte and not steps.byte_level:
        listed.append(BYTES)
    level = listed.pop() if byte and isinstance(listed[-1], ByteLevel) else None
    if byte and level is None:
        return steps
    if isinstance(level, ByteLevel) and level != BYTES:
        if not listed and level.use_regex:
            return Pretokenizer("gpt2", add_prefix_space=level.add_prefix_space)
        if not listed:
            return prefixed()
        if listed == [Digits(individual_digits=True)] and level == ByteLevel():
            return Pretokenizer("starcoder")
        return PipelinePretokenizer(*listed, level)
    if not listed:
        return None
    patterns = [_isolated(step) for step in listed]
    found = Pretokenizer("deepseek_v3") if patterns in DEEPSEEK_SPLITS else None
    if len(listed) == 1:
        found = _single(listed[0])
    if found is not None:
        return found
    return PipelinePretokenizer(*listed, BYTES) if byte else PipelinePretokenizer(*listed)


def _isolated(step: Step) -> str | None:
    """The pattern of a Split that keeps unmatched text; None for any other step."""
    return step.pattern if isinstance(step, Split) and step.behavior == "Isolated" and not step.literal else None


def _single(step: Step) -> Pretokenizer | None:
    """The pretokenizer that gives the same pretokens as one step; None if only `PipelinePretokenizer` does."""
    from bpe.text.oniguruma import escaped, means_the_same

    if isinstance(step, WhitespaceSplit):
        return Pretokenizer("whitespace")
    if isinstance(step, Whitespace):
        return words()
    if not isinstance(step, Split):
        return None
    pattern = escaped(step.pattern) if step.literal else step.pattern
    if step.behavior == "Removed" and not step.invert and pattern in (r"\s+", r"\s"):
        return Pretokenizer("whitespace")
    if step.behavior != "Isolated" and not (step.behavior == "Removed" and step.invert):
        return None
    gaps: Gaps = "keep" if step.behavior == "Isolated" else "drop"
    if (name := published(pattern, gaps)) is not None:
        return Pretokenizer(name)
    return Pretokenizer.from_regex(pattern, gaps=gaps) if means_the_same(pattern) else None
