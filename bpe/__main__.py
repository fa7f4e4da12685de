"""`python -m bpe`: the same as the command `bpe`."""

import sys

from bpe.cli import main

if __name__ == "__main__":
    sys.exit(main())
