"""File formats: one module each, which turns bytes into a `TokenizerSpec` and back and never imports the tokenizer."""
