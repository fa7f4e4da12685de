"""Compare `Tokenizer.chat` with transformers on published chat templates and random conversations.

    python benchmarks/peers/check_chats.py [FOLDER...] [--conversations 200] [--seed S]

Templates are the files *.jinja of the folders; without any, those in the packages trl and axolotl, if they are
installed. Each is used with a byte-level tokenizer that has its control tokens and one of characters, by random
conversations: system prompts, tools, tool calls, reasoning, empty turns, and special tokens, whole or in parts, in what
users write. With `allowed_special="all"`, texts, ids and masks must be those of `apply_chat_template`, and what it
refuses must be refused. By default, ids must be those of a rendering in which no user's token can be taken for one.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

import transformers

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "chats"))
from conversations import compare_conversation, draw_conversation, make_tokenizers


def find_templates(folders: list[Path]) -> dict[str, str]:
    """Find the templates in folders: name → template."""
    if not folders:
        for package, folder in (("trl", "chat_templates"), ("axolotl", "utils/chat_templates/templates")):
            spec = importlib.util.find_spec(package)
            if spec is not None and spec.submodule_search_locations:
                folders.append(Path(spec.submodule_search_locations[0]) / folder)
    paths = [path for folder in folders for path in folder.glob("*.jinja")]
    return {f"{path.parent.parent.name}/{path.stem}": path.read_text() for path in paths}


def main() -> None:
    """Compare conversations of all templates, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    templates, n_wrong = find_templates(args.folders), 0
    for name, template in sorted(templates.items()):
        counts: Counter[str] = Counter()
        with tempfile.TemporaryDirectory() as folder:
            pairs = make_tokenizers(template, Path(folder))
            for index in range(args.conversations):
                names = list(pairs[0][0].special_tokens)
                conversation = draw_conversation(random.Random(f"{args.seed} {name} {index}"), names)
                for tokenizer, peer in pairs:
                    difference = compare_conversation(tokenizer, peer, conversation, counts)
                    if difference:
                        n_wrong += 1
                        print(f"{name}, conversation {index}, {tokenizer.model} model: {difference}")
        print(f"{name}: {args.conversations} conversations, {dict(counts)}", flush=True)
    print(f"{len(templates)} templates, {n_wrong} differences")
    sys.exit(bool(n_wrong) or not templates)


if __name__ == "__main__":
    main()
