"""Cutting text into pretokens."""
