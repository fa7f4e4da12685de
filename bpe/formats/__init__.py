"""File formats: one module for each, with the kernels that read it. None of them imports the tokenizer.

A loader takes the untrusted content of a file and returns a `TokenizerSpec`; a saver does the reverse. The files:

- `loading.py` the table of formats, whose modules are imported when they are needed; it detects the format of a file or
  a folder by `signatures.py`, what files are called and how they begin; `saving.py` writes any format, and finds what
  a format does not keep by reading the written content again;
- `schema.py` reads untrusted JSON by tables of fields, and adds positions to errors; `packed.py` gzip;
- `huggingface/` tokenizer.json, the native format, over `_json_tokens.pyx` (its two long lists, `vocab` and `merges`);
- `vocab_merges.py` vocab.json with merges.txt; `tiktoken.py` over `_ranks.pyx` rank files, with the merges recovered
  from the ranks, `tiktoken_folder.py` and `tekken.py` formats around them; `openai_encodings.py` OpenAI's;
- `configuration.py` what transformers writes beside these files: more added tokens, and the roles of special tokens;
  `pretrained.py` writes a folder for transformers;
- `clip.py` CLIP's merge list, `subword_nmt.py` codes; `sentencepiece/` models of type BPE; `gguf/` GGUF files;
- `compiled.py` tokenizers as arrays, which load fastest;
- `id_files.py` token ids on disk: lines, and .npy with its headers.

Invariants: an unknown field or value that could change an id is rejected with a `FormatError` that names its position,
and nothing is guessed; reading a saved file gives an equal tokenizer; a tokenizer that `tokenizers` cannot express is
saved in a form that `tokenizers` rejects. Cost: linear in the file; recovering merges encodes the bytes of each token
once.

Sources: Hugging Face's `tokenizers` and `transformers`, OpenAI's tiktoken and CLIP, mistral-common, sentencepiece,
subword-nmt and ggml for their formats, and NumPy's for .npy.
"""
