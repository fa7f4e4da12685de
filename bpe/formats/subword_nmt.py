"""subword-nmt's codes: a merge on each line, in the versions 0.1 and 0.2.

In version 0.1 (no header), the end-of-word mark `</w>` is a symbol of its own; in version 0.2 (`#version: 0.2`) it is
part of a word's last character. Codes have no ids: a token's id is its index in the list of characters, as they first
occur in the codes, then merge results, then `<unk>`, which stands for any other character. The separator `@@`,
glossaries and the vocabulary threshold change text, not ids: `bpe/compat/subword_nmt.py`.
"""

from __future__ import annotations

import re

import numpy as np

from bpe.errors import FormatError, short_repr
from bpe.formats.packed import decode_text, unpack
from bpe.formats.signatures import END_OF_WORD
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import ORDINARY, Vocabulary

UNK_TOKEN = "<unk>"
#: Words are what spaces and line ends separate; other white space is text.
WORD_PATTERN = r"[^ \r\n]+"

Version = tuple[int, int]
#: The text of a token, without the mark, and whether it ends words.
Token = tuple[str, bool]


def parse(data: bytes, merges: int = -1) -> tuple[Version, list[tuple[str, str]]]:
    """Parse a file of codes: returns the version, and the pairs in order without repeated ones.

    Args:
        data: the content, gzipped or not.
        merges: how many lines to use; -1 for all.

    Raises:
        FormatError: for another version, and for a line that is not two symbols; it names the line.

    """
    lines = decode_text(unpack(data), "codes are UTF-8 text").rstrip("\n").split("\n")
    version, offset = (0, 1), 1
    if lines[0].startswith("#version:"):
        version, offset = _read_version(lines.pop(0)), 2
    pairs: dict[tuple[str, str], None] = {}
    for line_number, line in enumerate(lines[: None if merges == -1 else merges], offset):
        parts = line.strip("\r\n ").split(" ")
        if len(parts) != 2 or not all(parts):
            rule = "it must be two symbols separated by a space"
            raise FormatError(f"{short_repr(line)} is not a merge; {rule}", where=f"line {line_number}")
        pairs.setdefault((parts[0], parts[1]))
    return version, list(pairs)


def _read_version(header: str) -> Version:
    match = re.fullmatch(r"#version: *(0\.[12])(\.0+)* *\r?", header)
    if match is None:
        raise FormatError(f"{short_repr(header)} is not a version that is known; known are 0.1 and 0.2", where="line 1")
    return (0, int(match[1][-1]))


def read(data: bytes, merges: int = -1) -> TokenizerSpec:
    """Read codes as a character model; `merges` as for `parse`.

    Raises:
        FormatError: for a file that is not a file of codes; it names the line.

    """
    version, pairs = parse(data, merges)
    is_glued = version == (0, 2)
    ids: dict[Token, int] = {}
    results: set[Token] = set()
    applied_pairs: list[tuple[Token, Token]] = []
    for left, right in pairs:
        if (left + right).endswith(END_OF_WORD) and not right.endswith(END_OF_WORD):
            raise FormatError(f"the merge {short_repr((left, right))} makes the text {END_OF_WORD}; no token may be it")
        pair = _parse_token(left), _parse_token(right)
        symbols = [_divide(token, is_glued) for token in pair]
        is_possible = all(
            len(part_symbols) == 1 or key in results for key, part_symbols in zip(pair, symbols, strict=True)
        )
        if pair[0][1] or not is_possible:
            continue  # a part that no merge produces, or that ends words, on the left: the merge is never applied
        applied_pairs.append(pair)
        results.add((pair[0][0] + pair[1][0], pair[1][1]))
        for symbol in (*symbols[0], *symbols[1]):
            ids.setdefault(symbol, len(ids))
    if not is_glued:
        ids.setdefault(("", True), len(ids))
    all_ids = dict(ids)
    rows: list[tuple[int, int, int]] = []
    for left_token, right_token in applied_pairs:
        result_token = left_token[0] + right_token[0], right_token[1]
        rows.append((all_ids[left_token], all_ids[right_token], all_ids.setdefault(result_token, len(all_ids))))
    n = len(all_ids)
    tokens = [(token_id, (text + END_OF_WORD * ends_word).encode()) for (text, ends_word), token_id in all_ids.items()]
    table = np.array(rows, dtype=np.int32).reshape(-1, 3)
    try:
        vocabulary = Vocabulary(tokens, [(n, UNK_TOKEN.encode())])
    except ValueError as error:
        raise FormatError(f"{error}; the text {END_OF_WORD} cannot be a part of a word in codes") from None
    return TokenizerSpec(
        model="char",
        vocabulary=vocabulary,
        merges=np.ascontiguousarray(table[:, :2]),
        merge_results=np.ascontiguousarray(table[:, 2]),
        pretokenizer=Pretokenizer.from_regex(WORD_PATTERN),
        unk_token=UNK_TOKEN,
        end_of_word=END_OF_WORD,
        end_of_word_glued=is_glued,
        ends_word=np.array([*(ends_word for _, ends_word in all_ids), False], dtype=np.bool_),
    )


def _divide(token: Token, is_glued: bool) -> list[Token]:
    """Return the symbols of a token, before any merge."""
    text, ends_word = token
    if is_glued:
        return [(char, ends_word and i == len(text) - 1) for i, char in enumerate(text)]
    return [(char, False) for char in text] + [("", True)] * ends_word


def _parse_token(part: str) -> Token:
    ends_word = part.endswith(END_OF_WORD)
    return part.removesuffix(END_OF_WORD) if ends_word else part, ends_word


def write(spec: TokenizerSpec) -> bytes:
    """Write codes of version 0.2, or of 0.1 where the mark is a symbol of its own.

    What the codes do not keep is not checked here (`saving.py` reads them again).

    Raises:
        ValueError: for a tokenizer that is not a character model with the mark `</w>`.

    """
    if spec.model != "char" or spec.end_of_word != END_OF_WORD:
        raise ValueError(
            "format subword-nmt cannot hold this tokenizer: it holds character models with the mark "
            f"{END_OF_WORD} at the end of a word; save it as huggingface"
        )
    texts = {token_id: token.decode() for token_id, token in spec.vocabulary.items(ORDINARY)}
    header = "#version: 0.2\n" if spec.end_of_word_glued else ""
    unwritable_texts = [text for text in texts.values() if re.search(r"[ \r\n]", text)]
    if unwritable_texts:
        raise ValueError(
            f"format subword-nmt cannot hold the token {short_repr(unwritable_texts[0])}: spaces and line ends "
            "separate "
            "symbols; save it as huggingface"
        )
    return (header + "".join(f"{texts[left]} {texts[right]}\n" for left, right in spec.merges.tolist())).encode()
