"""Lists of words with their counts as text: "word TAB count" of sentencepiece, "word SPACE count" of subword-nmt.

`WordCounts.from_text` reads them. A line's word is a text of its own, which the pretokenizer splits as it splits any
text; so a list of sentences with counts, as sentencepiece takes it, works too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bpe.base.utf8 import read_file
from bpe.errors import COUNT_LIMIT, FormatError, get_log, short_repr
from bpe.pretokenize.patterns import NAMES

if TYPE_CHECKING:
    from bpe.corpus.blocks import PathLike

#: The published patterns that drop white space; words of the others have the space before them.
_NAMES_WITHOUT_SPACES = ("clip", "whitespace")


def read_word_list(path: PathLike) -> list[tuple[str, int]]:
    """Read a list: the words and their counts; empty lines, and words with the count 0, are left out.

    Raises:
        FormatError: with the line, for one that is no word with a count, and for text that is not UTF-8.
        OSError: for a file that cannot be read.

    """
    try:
        text = read_file(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"the list is not UTF-8 ({error.reason}); convert it", path=path) from None
    parsed = []
    for number, line in enumerate(text.split("\n"), 1):
        content = line.removesuffix("\r")
        if not content:
            continue
        word, _, digits = content.rpartition("\t" if "\t" in content else " ")
        count = _parse_count(digits)
        if not word or count is None:
            reason = f"{short_repr(content)} is no word with a count; a line is a word, a tab (or a space) and a count"
            raise FormatError(reason, path=path, where=f"line {number}")
        if count:
            parsed.append((word, count))
    return parsed


def _parse_count(digits: str) -> int | None:
    """Read a count; None for what is no number from 0 to `COUNT_LIMIT`."""
    if not (digits.isascii() and digits.isdecimal()):
        return None
    digits = digits.lstrip("0") or "0"
    if len(digits) > len(str(COUNT_LIMIT)):  # `int` refuses to read thousands of digits
        return None
    count = int(digits)
    return count if count <= COUNT_LIMIT else None


def warn_of_missing_spaces(name: str | None, words: Sequence[str], path: PathLike) -> None:
    """Warn if no word has a space before it, although words have one with the pretokenizer of that name."""
    has_spaces = name in NAMES and name not in _NAMES_WITHOUT_SPACES
    if has_spaces and len(words) > 1 and not any(" " in word for word in words):
        get_log("bpe.wordcounts").warning(
            "%s: no word has a space before it, and words within a text have one with the pretokenizer %s; write "
            "' low' for those, or take the pretokenizer metaspace, or whitespace with an end-of-word mark",
            path,
            name,
        )
