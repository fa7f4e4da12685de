"""Plant faults, one at a time, in a copy of the tree, and see whether the harness that is for their kind finds them.

    python benchmarks/reliability/planted_faults.py [FAULT …] [--list] [--seed S]

A harness that finds nothing proves something only if it can find something. Each fault of FAULTS removes a check, or
breaks one line; a changed kernel is compiled in the copy. The harness runs there with the arguments that are given
beside it, first without the fault: its exit status must be 0 then, and another one, or no end, with the fault. What it
prints says how many tries it took. Needs the compiled tree, and for kernels what compiling needs. One kernel takes
about a minute.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
#: The most seconds that a harness may take.
PATIENCE = 1200


class Fault(NamedTuple):
    """A fault, and the harness that must find it.

    Attributes:
        harness: the arguments of Python, in `benchmarks/checks`; a seed is added to those that end with "--seed".
        file: the file that is changed.
        old: text that occurs once in it.
        new: what takes its place.

    """

    harness: str
    file: str
    old: str
    new: str


FAULTS: dict[str, Fault] = {
    # Hostile arguments
    "ids beyond the vocabulary are decoded": Fault(
        "check_arguments.py bpe.Tokenizer --seconds 60 --seed",
        "bpe/decode/_decoder.pyx",
        "if token >= limit or destination > last_cell:",
        "if destination > last_cell:",
    ),
    "what is no tokenizer is not refused": Fault(
        "check_arguments.py bpe --seconds 60 --seed",
        "bpe/prompts.py",
        "        check_tokenizer(tokenizer)\n",
        "",
    ),
    "names that a call was given are kept": Fault(
        "check_arguments.py bpe.Tokenizer --seconds 60 --seed",
        "bpe/vocab/special_tokens.py",
        "        requested_names = frozenset(name_list)\n",
        "        requested_names = frozenset(name_list)\n"
        "        self.always_names |= requested_names & self._all_names\n",
    ),
    "a window without a split is tried for ever": Fault(
        "check_arguments.py bpe.PromptCache --seconds 60 --seed",
        "bpe/prompts.py",
        "            else:\n                size *= 2\n",
        "",
    ),
    # Settings
    "the order of special tokens is that of a set": Fault(
        'check_arguments.py --settings "hash seed 1"',
        "bpe/vocab/special_tokens.py",
        "    name_tuple = tuple(names)\n",
        "    name_tuple = tuple(set(names))\n",
    ),
    "a file is read with the encoding of the locale": Fault(
        'check_arguments.py --settings "locale C"',
        "bpe/cli/demo.py",
        'read_text(encoding="utf-8")',
        "read_text()",
    ),
    "the output stream is taken for granted": Fault(
        'check_arguments.py --settings "closed streams"',
        "bpe/show/terminal.py",
        "stream is not None and stream.isatty()",
        "stream.isatty()",
    ),
    "an assertion does work": Fault(
        'check_arguments.py --settings "without assertions"',
        "bpe/batch.py",
        "        rows[is_filled] = self.ids[starts + offset_in_row]\n",
        "        assert rows.__setitem__(is_filled, self.ids[starts + offset_in_row]) is None\n",
    ),
    "memory is not set before it is read": Fault(
        'check_arguments.py --settings "memory that is not zero"',
        "bpe/batch.py",
        "        rows = np.full((len(self), width), pad_id, dtype=self.ids.dtype)\n",
        "        rows = np.empty((len(self), width), dtype=self.ids.dtype)\n",
    ),
    # Threads
    "blocks of prompts are added without the lock": Fault(
        "check_threads.py prompt_cache --seconds 20 --seed",
        "bpe/prompts.py",
        "        with self._lock:\n            n_kept =",
        "        if True:\n            n_kept =",
    ),
    "tokens are added without the lock": Fault(
        "check_threads.py added_tokens --seconds 20 --seed",
        "bpe/compat/huggingface.py",
        "        with _lock:\n            core = self._snapshot().core\n            fields",
        "        if True:\n            core = self._snapshot().core\n            fields",
    ),
    "two results share one block of memory": Fault(
        "check_threads.py byte --seconds 20 --seed",
        "bpe/base/_result_pool.pyx",
        "                block, self.block = self.block, block\n                self.block.size = 0\n",
        "                block = self.block\n",
    ),
    # Interrupts
    "workers do not stop after an exception": Fault(
        "check_interrupts.py encode_dropout --interrupts 30 --seed",
        "bpe/base/_team.pyx",
        "        if self.stop is not None:\n            call_until_done(self.stop, errors)\n",
        "        if self.stop is not None and outer is None:\n            call_until_done(self.stop, errors)\n",
    ),
    # Damaged files
    "the checksum of a compiled tokenizer is not compared": Fault(
        "check_damaged.py compiled --count 2000 --seed",
        "bpe/formats/compiled.py",
        "    if crc32(memoryview(data)[_CHECKED_START:]) != checksum:\n",
        "    if crc32(memoryview(data)[_CHECKED_START:]) is None:\n",
    ),
    "a field of protobuf may be truncated": Fault(
        "check_damaged.py sentencepiece --count 2000 --seed",
        "bpe/formats/sentencepiece/protobuf.py",
        "        if size > len(data) - offset:\n",
        "        if size > len(data) - offset + 8:\n",
    ),
    "strings of GGUF are one byte short": Fault(
        "check_damaged.py gguf --count 2000 --seed",
        "bpe/formats/gguf/header.py",
        "                if len(text) < size:\n                    break\n",
        "",
    ),
    "an id of tokenizer.json may be given twice": Fault(
        "check_damaged.py huggingface --count 20000 --seed",
        "bpe/formats/huggingface/lists.py",
        "        if np.any(ids[1:] == ids[:-1]):\n            raise NeedsParserError\n",
        "",
    ),
    "compressed text may end early": Fault(
        "check_damaged.py txt.gz --count 2000 --seed",
        "bpe/corpus/streams.py",
        "            bytes_read += len(data)\n            if not data:\n",
        "            bytes_read += len(data)\n            if not data:\n                return\n",
    ),
    "rows may have more columns than their header": Fault(
        "check_damaged.py csv --count 2000 --seed",
        "bpe/corpus/_csv_rows.pyx",
        "return size if end_row(rows) and column == n_columns else -1",
        "return size if end_row(rows) and column >= n_columns else -1",
    ),
    "a token of a rank file may be given twice": Fault(
        "check_mutations.py ranks --count 20000 --seed",
        "bpe/formats/tiktoken.py",
        " or table is None or not table.distinct:",
        " or table is None:",
    ),
    "a merge of CLIP may have three parts": Fault(
        "check_mutations.py clip --count 20000 --seed",
        "bpe/formats/clip.py",
        "        if len(parts) != 2:\n",
        "        if len(parts) < 2:\n",
    ),
    "offsets of a .npy file may fall": Fault(
        "check_mutations.py npy --count 20000 --seed",
        "bpe/formats/id_files.py",
        " and not np.any(offsets[1:] < offsets[:-1])",
        "",
    ),
    # Saved states
    "merges of a compiled tokenizer may be of any id": Fault(
        "check_states.py compiled --count 2000 --seed",
        "bpe/formats/compiled.py",
        "    if max_id >= max(counts.ids, 1):\n",
        "    if max_id >= 1 << 31:\n",
    ),
    "special tokens of a compiled tokenizer may have other bytes": Fault(
        "check_states.py compiled --count 2000 --seed",
        "bpe/formats/compiled.py",
        "    _check_texts(spec, special_ids)\n",
        "",
    ),
    "a word may be counted twice": Fault(
        "check_states.py counts --count 4000 --seed",
        "bpe/count/word_counts.py",
        "        if len(loaded) != len(arrays[2]):\n",
        "        if len(loaded) > len(arrays[2]):\n",
    ),
    "a checkpoint goes on with other counts": Fault(
        "check_states.py checkpoints --count 2000 --seed",
        "bpe/training/checkpoint.py",
        "        self._has_counts = compute_fingerprint(counts) == expected\n",
        "        self._has_counts = True\n",
    ),
    "a pickled batch may have any offsets": Fault(
        "check_states.py pickles --count 2000 --seed",
        "bpe/base/_id_lists.pyx",
        "        if not 0 <= start <= end <= size:\n",
        "        if start < -size:\n",
    ),
    "a manifest may name files outside of its folder": Fault(
        "check_states.py manifests --count 2000 --seed",
        "bpe/data/manifest.py",
        "_NAME_RULE: FieldRule = is_inner_path,",
        '_NAME_RULE: FieldRule = lambda value: isinstance(value, str) and value != "",',
    ),
    # Calls of the system that fail
    "a file is renamed before all of it is written": Fault(
        "check_failures.py save --most 20 --seed",
        "bpe/base/atomic_files.py",
        "        for atomic_file in atomic_files:\n            atomic_file.sync()\n",
        "",
    ),
    # Budgets
    "a compressed record batch may have any size": Fault(
        '../reliability/check_budgets.py "Arrow, compressed"',
        "bpe/corpus/batch_headers.py",
        "        if n_bytes > page_headers.max_decoded_bytes:\n",
        "        if n_bytes > 1 << 60:\n",
    ),
    # Soak
    "the table of merges is not freed": Fault(
        "../reliability/check_soak.py --minutes 2 --processes 1 --seed",
        "bpe/merge/_merge_table.pyx",
        "        release(self.block, self.block_size)\n",
        "        pass\n",
    ),
}


def copy_tree(tree: Path) -> None:
    """Copy the tree with its compiled kernels."""
    ignored = shutil.ignore_patterns(".git", ".*_cache", "__pycache__", ".hypothesis")
    shutil.copytree(ROOT, tree, symlinks=True, ignore=ignored)


def change(fault: Fault, tree: Path) -> None:
    """Plant a fault in a copy of the tree, and compile it."""
    path = tree / fault.file
    text = path.read_text(encoding="utf-8")
    assert text.count(fault.old) == 1, fault
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
    if path.suffix != ".py":
        command = [sys.executable, "setup.py", "build_ext", "--inplace"]
        subprocess.run(command, cwd=tree, env=make_environment(tree), check=True, capture_output=True)


def make_environment(tree: Path) -> dict[str, str]:
    """Make the environment in which a copy of the tree is imported."""
    return {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}


def run_harness(harness: str, tree: Path, seed: int) -> tuple[bool, str]:
    """Run a harness in a copy of the tree: (whether it ends with status 0, what it prints)."""
    arguments = shlex.split(harness)
    if arguments[-1] == "--seed":
        arguments.append(str(seed))
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tree / "benchmarks" / "checks", env=make_environment(tree), capture_output=True, text=True,
            errors="replace", timeout=PATIENCE,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, f"no end within {PATIENCE} s"
    return done.returncode == 0, done.stdout + done.stderr


def try_fault(fault: Fault, seed: int, checked: dict[str, bool]) -> tuple[str, str]:
    """Say whether the harness finds a fault, and what it prints; `checked` has those that ran without a fault."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        copy_tree(tree)
        output = ""
        if fault.harness not in checked:
            checked[fault.harness], output = run_harness(fault.harness, tree, seed)
        if not checked[fault.harness]:
            return "UNKNOWN: the harness fails without it, too", output
        change(fault, tree)
        is_right, output = run_harness(fault.harness, tree, seed)
        return "NOT FOUND" if is_right else "found", output


def main() -> int:
    """Plant the faults; the exit status is 1 if one is not found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="parts of names of faults; default all")
    parser.add_argument("--list", action="store_true", help="print the faults")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    missed, checked = 0, dict[str, bool]()
    for name, fault in FAULTS.items():
        if options.faults and not any(part in name for part in options.faults):
            continue
        if options.list:
            print(f"{name}: {fault.file}; {fault.harness}")
            continue
        start = time.monotonic()
        status, output = try_fault(fault, options.seed, checked)
        lines = [line for line in output.splitlines() if line.strip()]
        shown = "\n    ".join(line[:200] for line in lines[-4:])
        print(f"{name}: {status}, {time.monotonic() - start:.0f} s\n    {shown}", flush=True)
        missed += status != "found"
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
