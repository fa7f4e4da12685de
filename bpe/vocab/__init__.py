"""What a tokenizer is, as data."""
