"""CLIP's merge list: a header line, then a pair of symbols on each line.

Symbols are spelled in GPT-2's letters, with `</w>` at the end of a word. Source: `SimpleTokenizer` of openai/CLIP,
simple_tokenizer.py.
"""

from __future__ import annotations

import hashlib
import importlib.util

import numpy as np

from bpe.errors import FormatError, check_bool, get_log, short_repr
from bpe.formats.openai_encodings import FILES
from bpe.formats.packed import decode_text, unpack
from bpe.formats.signatures import CLIP_HEADER, END_OF_WORD
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.text.letters import list_byte_alphabet, spell_token_in_letters
from bpe.text.normalizers import CollapseWhitespace, FixText, Lowercase, Normalizer, Sequence, Strip, UnescapeHTML
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import ORDINARY, Vocabulary

START_TOKEN, END_TOKEN = "<|startoftext|>", "<|endoftext|>"
#: How many merges of the list CLIP uses, as its code computes the number.
MAX_MERGES = 49152 - 256 - 2

log = get_log()


def read_list(data: bytes, normalizer: Normalizer | None, *, force: bool = False) -> TokenizerSpec:
    """Read a CLIP merge list, gzipped or not. Only its first 48,894 merges are used, as in CLIP.

    Raises:
        FormatError: for a file that is not a merge list; it names the line.

    """
    symbols = [bytes([byte]) for byte in list_byte_alphabet()]
    tokens = symbols + [symbol + END_OF_WORD.encode() for symbol in symbols]
    ids = {_spell(token, token_id >= 256): token_id for token_id, token in enumerate(tokens)}
    ends_word = [False] * 256 + [True] * 256
    pairs: list[tuple[int, int]] = []
    for line_number, line in enumerate(_read_merge_lines(data, force=force), 2):
        parts = line.split()
        error = None
        if len(parts) != 2:
            error = f"{short_repr(line)} is not a merge; it must be two symbols separated by a space"
        elif unknown_symbols := [part for part in parts if part not in ids]:
            error = f"symbol {unknown_symbols[0]!r} is not the result of an earlier merge; it must be"
        elif ends_word[ids[parts[0]]]:
            error = f"{parts[0]!r} ends a word, so it cannot be a left part"
        elif "".join(parts) in ids:
            error = f"{''.join(parts)!r} is the result of two merges"
        if error is not None:
            raise FormatError(error, where=f"line {line_number}")
        left, right = ids[parts[0]], ids[parts[1]]
        ids["".join(parts)] = len(tokens)
        tokens.append(tokens[left] + tokens[right])
        ends_word.append(ends_word[right])
        pairs.append((left, right))
    n = len(tokens)
    return TokenizerSpec(
        model="byte",
        vocabulary=Vocabulary(enumerate(tokens), [(n, START_TOKEN.encode()), (n + 1, END_TOKEN.encode())]),
        merges=np.array(pairs, dtype=np.int32).reshape(-1, 2),
        merge_results=np.arange(512, n, dtype=np.int32),
        pretokenizer=Pretokenizer("clip"),
        normalizer=normalizer,
        special_tokens={START_TOKEN: n, END_TOKEN: n + 1},
        end_of_word=END_OF_WORD,
        end_of_word_glued=True,
        ends_word=np.array([*ends_word, False, False], dtype=np.bool_),
        clip=(n, n + 1),
    )


def read(data: bytes) -> TokenizerSpec:
    """Read a CLIP merge list with the normalizer of OpenAI's CLIP."""
    return read_list(data, build_normalizer(True, True, True, None))


def read_written(data: bytes, spec: TokenizerSpec) -> TokenizerSpec:
    """Read the list that was written of a spec.

    The list has no normalizer: it gets the spec's if `from_clip` could have made that, else CLIP's without ftfy.
    """
    normalizers = [build_normalizer(True, True, True, ftfy) for ftfy in (True, False)]
    return read_list(data, spec.normalizer if spec.normalizer in normalizers else normalizers[1])


def write(spec: TokenizerSpec) -> bytes:
    """Write a merge list, uncompressed. What it does not keep is not checked here (`saving.py` reads it again).

    Raises:
        ValueError: for a tokenizer that is not CLIP's kind: bytes, with the mark `</w>` glued to the last one.

    """
    ends_word = spec.ends_word
    if spec.model != "byte" or spec.end_of_word != END_OF_WORD or not spec.end_of_word_glued or ends_word is None:
        raise ValueError(
            f"format clip cannot hold this tokenizer: it holds byte-level models with the mark {END_OF_WORD} at the "
            "end of each word, part of the last symbol; save it as huggingface"
        )
    names = {token_id: _spell(token, bool(ends_word[token_id])) for token_id, token in spec.vocabulary.items(ORDINARY)}
    lines = (f"{names[left]} {names[right]}\n" for left, right in spec.merges.tolist())
    return f"{CLIP_HEADER}\n{''.join(lines)}".encode()


def _read_merge_lines(data: bytes, *, force: bool) -> list[str]:
    """Read the lines of a merge list after the header, at most MAX_MERGES of them.

    Raises:
        FormatError: for a file that is not UTF-8 or has no merges, and for GPT-2's merges unless `force` is given.

    """
    text = unpack(data)
    if not check_bool("force", force) and hashlib.sha256(text).hexdigest() == FILES["vocab.bpe"].sha256:
        raise FormatError(
            "these are GPT-2's merges, which have no end-of-word mark </w>, so from_clip would give ids that belong to "
            "no model; load GPT-2's tokenizer.json with Tokenizer.load, or pass force=True"
        )
    lines = decode_text(text, "a merge list is UTF-8 text").split("\n")[1 : 1 + MAX_MERGES]
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise FormatError("it holds no merges; it must have a header line, then a merge on each line")
    return lines


def _spell(token: bytes, ends_word: bool) -> str:
    return (
        spell_token_in_letters(token[: len(token) - len(END_OF_WORD)]) + END_OF_WORD
        if ends_word
        else spell_token_in_letters(token)
    )


def build_normalizer(
    lowercase: bool, clean_whitespace: bool, unescape_html: bool, ftfy: bool | None
) -> Normalizer | None:
    """Build CLIP's normalizer: repair the text, unescape HTML twice, collapse white space, convert to lower case.

    `ftfy=None` repairs text only if ftfy is installed, as the original does.
    """
    if ftfy is None:
        ftfy = importlib.util.find_spec("ftfy") is not None
        if not ftfy:
            log.warning(
                "ftfy is not installed, so text is not repaired as in OpenAI's CLIP; pip install 'bytepair[clip]'"
            )
    optional_steps = (
        (ftfy, FixText()),
        (unescape_html, UnescapeHTML(times=2)),
        (clean_whitespace, CollapseWhitespace()),
        (clean_whitespace, Strip()),
        (lowercase, Lowercase(final_sigma=True)),
    )
    steps = [step for is_chosen, step in optional_steps if is_chosen]
    return Sequence(*steps) if steps else None
