"""Train a small GPT on raw text with PyTorch: python train_gpt.py CORPUS OUT [STEPS]

Tokenizer, shards and checkpoints go to OUT. Killed at any moment, the same command goes on to the same losses.
"""

import os
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import bpe
from bpe.data import Blocks, RowSampler, TokenShards, encode_shards, torch_collate

LENGTH, WIDTH, HEADS, LAYERS, BATCH, END = 64, 128, 4, 2, 16, "<|endoftext|>"


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        widen, narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), widen, nn.GELU(), narrow)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, 2))
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(x)


corpus, out, steps = bpe.Sources(sys.argv[1], separator=END), Path(sys.argv[2]), int([*sys.argv, 200][3])
if not (out / "tokenizer.json").exists():
    out.mkdir(exist_ok=True)
    bpe.train(files=corpus, vocab_size=2048, special_tokens=[END]).save(out / "tokenizer.json")
tokenizer = bpe.Tokenizer.load(out / "tokenizer.json")
encode_shards(corpus, tokenizer, out / "shards", append=END)  # returns at once if they are finished
rows = Blocks(TokenShards(out / "shards"), LENGTH)
torch.manual_seed(0)
layers = [Layer() for _ in range(LAYERS)]  # without positions: causal attention learns them
ends = nn.Embedding(tokenizer.n_vocab, WIDTH), nn.Linear(WIDTH, tokenizer.n_vocab)
model = nn.Sequential(ends[0], *layers, nn.LayerNorm(WIDTH), ends[1])
sampler, optimizer = RowSampler(rows, BATCH, epochs=None), torch.optim.AdamW(model.parameters(), 1e-3)
run = {"model": model, "optimizer": optimizer, "rows": sampler}
if (out / "checkpoint.pt").exists():
    for name, state in torch.load(out / "checkpoint.pt").items():
        run[name].load_state_dict(state)
start = rows.row_of_state(sampler.state_dict()) // BATCH
loader = torch.utils.data.DataLoader(rows, batch_sampler=sampler, collate_fn=torch_collate)
for step, batch in zip(range(start + 1, steps + 1), loader, strict=False):
    loss = functional.cross_entropy(model(batch["input_ids"]).flatten(0, 1), batch["labels"].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.4f}", flush=True)
    if step % 10 == 0:
        states = {"rows": sampler.state_dict(consumed=step - start), "optimizer": optimizer.state_dict()}
        torch.save({**states, "model": model.state_dict()}, out / "checkpoint.tmp")
        os.replace(out / "checkpoint.tmp", out / "checkpoint.pt")
