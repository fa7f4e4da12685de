"""Merging one pretoken."""
