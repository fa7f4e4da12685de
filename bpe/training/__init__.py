"""Learning merges from word counts."""
