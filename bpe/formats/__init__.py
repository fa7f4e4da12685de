"""File formats: one module for each, with the kernels that read it. None knows the tokenizer.

In comes a file's content, which nobody vouches for; out comes a `TokenizerSpec`, or the other way round. The files:

- `loading.py` chooses the format by the content;
- `huggingface.py` and `huggingface_write.py` tokenizer.json, the native format; `json_fields.py` validation of
  untrusted JSON, `oniguruma.py` patterns that two regex engines read alike, `_json_tokens.pyx` the two long lists;
- `tiktoken.py` over `_ranks.pyx` rank files, with the merges recovered from the ranks;
- `clip.py` CLIP's merge list; `packed.py` files that may be compressed;
- `id_files.py` token ids on disk: lines, .npy.

Invariants: what could change an id and is not known is refused with a `FormatError` that says where, and nothing is
guessed; a file that was written gives an equal tokenizer when it is read; what `tokenizers` cannot express is written
so that it refuses the file. Cost: linear in the file; recovering merges costs one merge of each token's bytes.

Sources: Hugging Face's `tokenizers`, OpenAI's tiktoken and CLIP for their formats, and NumPy's for .npy.
"""
