"""The training scripts in examples/: from raw text to falling loss; killed, they go on to the same losses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TEXT = "the low lower lowest new newer newest wide wider widest\n" * 40
STEPS = 23


def started(script: str, corpus: Path, out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / script), str(corpus), str(out), str(STEPS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def finished(script: str, corpus: Path, out: Path) -> list[str]:
    """The lines that a script printed."""
    process = started(script, corpus, out)
    printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return printed.splitlines()


@pytest.mark.parametrize("script", ["train_numpy.py", "train_gpt.py"])
def test_a_killed_run_goes_on_to_the_same_losses(script: str, tmp_path: Path) -> None:
    if script == "train_gpt.py":
        pytest.importorskip("torch", reason="needs torch")
    if not EXAMPLES.exists():
        pytest.skip("examples/ is not beside the tests")
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("<|endoftext|>".join(TEXT[i * 7 :] for i in range(20)))
    uninterrupted = finished(script, corpus, tmp_path / "whole")
    steps, losses = zip(*((int(step), float(loss)) for step, loss in map(str.split, uninterrupted)), strict=True)
    assert steps == tuple(range(1, STEPS + 1))
    assert losses[-1] < losses[0] - 0.5
    process = started(script, corpus, tmp_path / "killed")
    assert process.stdout is not None
    before = [process.stdout.readline().rstrip("\n") for _ in range(14)]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert before == uninterrupted[:14]
    after = finished(script, corpus, tmp_path / "killed")
    assert after == uninterrupted[-len(after) :]
    assert int(after[0].split()[0]) in (11, 21)  # after the last checkpoint
