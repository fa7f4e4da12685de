"""OpenAI's rank files as published, which `bpe.get_encoding` reads; it checks the SHA-256 of each."""
