"""What a tokenizer is, as data: no tables, no kernels but one check.

In come tokens, merges and settings, from a training or from a file; out comes a `TokenizerSpec`, checked. The files,
in the order in which a tokenizer meets them:

- `vocabulary.py` ids and bytes of all tokens in one buffer; `byte_letters.py` GPT-2's letters for bytes;
- `spec.py` over `_spec.pyx`: the spec, and the check that its parts fit together;
- `special_tokens.py` finding special and added tokens in text, and which of them are allowed;
- `symbols.py` the tokens that single bytes or characters are; `training_record.py` facts about a training;
- `fingerprint.py` a hash of all that decides ids;
- `added_tokens.py`, `pruning.py`, `reachability.py` specs made of specs: more tokens, fewer, and those never produced.

Invariants: a spec is immutable; all ids lie below `ID_LIMIT`; a merge of ordinary tokens makes the token spelled as
its two parts. Reachability needs an encoder, which is above: the caller passes it in. Cost: linear in the vocabulary;
finding special tokens is linear in the text.

Sources: tiktoken for the meaning of `allowed_special`; Hugging Face's `tokenizers` for added tokens and their flags.
"""
