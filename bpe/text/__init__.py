"""Normalization of text."""
