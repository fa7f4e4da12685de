"""Train a bigram model on raw text with NumPy alone: python train_numpy.py CORPUS OUT [STEPS]

The logits of the next token are a row of a matrix, chosen by the token before. Tokenizer, shards and checkpoints go to
OUT. Killed at any moment, the same command goes on to the same losses.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

import bpe
from bpe.data import Blocks, TokenShards, encode_shards

END, RATE = "<|endoftext|>", 200.0

corpus, out, steps = bpe.Sources(sys.argv[1], separator=END), Path(sys.argv[2]), int([*sys.argv, 200][3])
if not (out / "tokenizer.json").exists():
    out.mkdir(exist_ok=True)
    bpe.train(files=corpus, vocab_size=512, special_tokens=[END]).save(out / "tokenizer.json")
tokenizer = bpe.Tokenizer.load(out / "tokenizer.json")
encode_shards(corpus, tokenizer, out / "shards", append=END)  # returns at once if they are finished
rows = Blocks(TokenShards(out / "shards"), length=128)

logits, state = np.zeros((tokenizer.n_vocab, tokenizer.n_vocab)), None
if (out / "checkpoint.npz").exists():
    saved = np.load(out / "checkpoint.npz")
    logits, state = saved["logits"], json.loads(str(saved["state"]))
batches = rows.batches(32, epochs=None, state=state)
start = rows.row_of_state(state) // 32
for step in range(start + 1, steps + 1):
    batch = next(batches)
    before, after = batch["input_ids"].ravel(), batch["labels"].ravel()
    scores = np.exp(logits[before])
    scores /= scores.sum(axis=1, keepdims=True)
    loss = -np.log(scores[np.arange(len(after)), after]).mean()
    scores[np.arange(len(after)), after] -= 1  # the gradient of the loss by the logits
    np.add.at(logits, before, scores * (-RATE / len(after)))
    print(step, f"{loss:.4f}", flush=True)
    if step % 10 == 0:
        np.savez(out / "checkpoint.tmp.npz", logits=logits, state=json.dumps(batches.state_dict()))
        os.replace(out / "checkpoint.tmp.npz", out / "checkpoint.npz")
