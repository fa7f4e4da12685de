"""Tokens as people read them."""
