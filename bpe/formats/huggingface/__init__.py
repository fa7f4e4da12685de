"""Reads Hugging Face's tokenizer.json, the native format of this package, and the package's extensions of it.

A tokenizer that `tokenizers` (0.20 and newer) can express is saved in its schema, and gives the same ids there. Other
tokenizers are saved in the same schema with types that `tokenizers` rejects:

- model `bpe.BPE`: an end-of-word mark that is a symbol of its own, merges that share ranks, CLIP's start and end token,
  or a special token spelled like an ordinary one. Its vocab holds only the ordinary tokens; the ids of special tokens
  are in added_tokens, that of the unknown token in unk_id.
- model `bpe.BoundlessBPE`: the same; the merges after the first `word_merges` join pretokens of one token each;
- model `bpe.PickyBPE`: the same without `merges`; `events` lists merges and deletions of tokens in order;
- normalizers `bpe.UnescapeHTML`, `bpe.FixText`, `bpe.Lowercase` (final sigma), `bpe.Replace`, and those that only
  sentencepiece's models have, `bpe.CharacterMap`, `bpe.CharacterMapBeside` and `bpe.DummyPrefix`;
- pre_tokenizer `bpe.Regex`: a pattern of the `regex` package that may mean something else to Oniguruma, the engine of
  `tokenizers` (see `bpe/text/oniguruma.py`), or one with a prefix space. `bpe.Replace` holds such a pattern, too.

For an unknown type, `tokenizers` guesses it from the fields: `bpe.Strip` with Strip's fields would load as Strip.
The reader rejects anything unknown that could change ids, and ignores fields that affect only offsets (trim_offsets).

A named pretokenizer is saved with `unicode_version` in the outermost object of pre_tokenizer; `tokenizers` ignores it
there. A file with another version than this release's is rejected; one without it, by other programs, is accepted.
`fingerprint_with_cl100k` in the model says that Llama 3's pattern stands for cl100k, unless the file was changed since.

The files: `tokenizer_json.py` reads and writes all parts; `added_tokens.py`; `steps.py` (normalizer, pre_tokenizer and
decoder, as tables of types of steps); `post_processing.py` (post_processor, truncation, padding); `model.py` with
`lists.py` (vocab and merges); `spelling.py` how tokens are spelled; `expressible.py` what `tokenizers` can express.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpe._lazy import import_on_use

if TYPE_CHECKING:
    from bpe.formats.huggingface.expressible import explain_refusal
    from bpe.formats.huggingface.tokenizer_json import read, read_with_lists, write

__all__ = ["explain_refusal", "read", "read_with_lists", "write"]

__getattr__, __dir__ = import_on_use(
    __name__, {**dict.fromkeys(__all__, "tokenizer_json"), "explain_refusal": "expressible"}, __all__
)
