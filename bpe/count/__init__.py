"""Counting the words of a corpus."""
