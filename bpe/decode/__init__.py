"""Token ids to bytes and text.

In come ids, as an array, a list or one at a time; out come bytes, or a str. The files, in the order in which ids meet
them:

- `decoder.py` checks ids, decodes whole arrays and batches, and has `IncrementalDecoder`, which gives text as soon as
  a character is whole;
- `_decoder.pyx` copies the bytes of tokens one after the other, 16 at a time.

Invariants: decoding what `encode` gave is the text again, where no normalizer and no unknown token changed it; an id
that is no token is an error; pushed in any portions, ids give the text of the whole. Cost: linear in the ids and in
the bytes of their tokens; memory is the result and one table of the vocabulary.

Sources: the end-of-word mark and its removal as in subword-nmt and Hugging Face's `tokenizers`; U+FFFD for bytes that
are not UTF-8 as `bytes.decode` has it.
"""
