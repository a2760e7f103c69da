#!/usr/bin/env python3
"""train_moe.py [--lib FILE] [--steps N] [--out FILE]: trains a small transformer whose layers are a DeepSeekMoE by Tegula, through
torch.library, and the same one by PyTorch, eager and compiled; compares losses, tokens/s and peak memory.

8 layers of width 512: attention by PyTorch, then 64 experts of width 128, 6 a token, and 2 shared ones. Text is drawn from a fixed
Markov chain over 512 words. All variants start from the same weights and see the same text; `noise` is eager's again with weights that
differ by 0.1 %. Each variant runs in a process of its own, so that memory is its own. The last line says whether Tegula's loss is
within noise of eager's, which the exit code tells, too; 77 without a GPU.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAYERS, WIDTH, HEADS, INNER, EXPERTS, SHARED, CHOICES = 8, 512, 8, 128, 64, 2, 6
WORDS, LENGTH, BATCH = 512, 512, 16
VARIANTS = ("eager", "noise", "compiled", "tegula")
WARM_UP = 20  # steps that are not timed: compiling, choosing


def grouped_rows(rows, weights, ends):
    """rows of expert e times weights[e]^T."""
    return torch._grouped_mm(rows, weights.transpose(1, 2), offs=ends)


def looped_rows(rows, weights, ends):
    """The same where PyTorch has no differentiable grouped product."""
    parts, first = [], 0
    for e, last in enumerate(ends.tolist()):
        parts.append(rows[first:last] @ weights[e].T)
        first = last
    return torch.cat(parts)


def best_rows(device):
    try:
        x = torch.randn(16, 64, device=device, dtype=torch.bfloat16, requires_grad=True)
        w = torch.randn(2, 64, 64, device=device, dtype=torch.bfloat16, requires_grad=True)
        grouped_rows(x, w, torch.tensor([8, 16], device=device, dtype=torch.int32)).sum().backward()
        return grouped_rows
    except (AttributeError, RuntimeError):
        return looped_rows


def torch_experts(x, logits, up, down, product):
    """The routed experts by PyTorch, and the shared ones."""
    p, ids = torch.topk(torch.softmax(logits, -1), CHOICES, -1)
    flat = ids.reshape(-1)
    order = torch.argsort(flat, stable=True)
    ends = torch.cumsum(torch.bincount(flat, minlength=EXPERTS), 0).to(torch.int32)
    gate, value = product(x[order // CHOICES], up[:EXPERTS], ends).chunk(2, -1)
    rows = product(F.silu(gate) * value, down[:EXPERTS], ends)
    back = torch.empty_like(rows).index_copy(0, order, rows)
    y = (back.reshape(len(x), CHOICES, -1) * p[..., None].to(x.dtype)).sum(1)
    for e in range(EXPERTS, EXPERTS + SHARED):
        gate, value = (x @ up[e].T).chunk(2, -1)
        y = y + (F.silu(gate) * value) @ down[e].T
    return y


class Block(torch.nn.Module):
    def __init__(self, experts):
        super().__init__()
        self.experts = experts
        self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(WIDTH) for _ in range(2))
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.router = torch.nn.Parameter(torch.randn(EXPERTS, WIDTH) * WIDTH ** -0.5)
        self.up = torch.nn.Parameter(torch.randn(EXPERTS + SHARED, 2 * INNER, WIDTH) * WIDTH ** -0.5)
        self.down = torch.nn.Parameter(torch.randn(EXPERTS + SHARED, WIDTH, INNER) * INNER ** -0.5)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.norms[0](x)).reshape(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, -1))
        h = self.norms[1](x).reshape(b * n, WIDTH)
        with torch.autocast("cuda", enabled=False):
            logits = h.float() @ self.router.T
        y = self.experts(h.to(torch.bfloat16), logits, self.up.to(torch.bfloat16), self.down.to(torch.bfloat16))
        p = torch.softmax(logits, -1)  # Switch Transformer's loss of balance
        chosen = torch.zeros_like(p).scatter(1, torch.topk(p, CHOICES, -1).indices, 1.0)
        balance = EXPERTS * (chosen.mean(0) * p.mean(0)).sum() / CHOICES
        return x + y.to(x.dtype).reshape(b, n, WIDTH), balance


class Transformer(torch.nn.Module):
    def __init__(self, experts):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        self.places = torch.nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        self.blocks = torch.nn.ModuleList(Block(experts) for _ in range(LAYERS))
        self.norm = torch.nn.RMSNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words, wanted):
        x, balance = self.words(words) + self.places, 0.0
        for block in self.blocks:
            x, more = block(x)
            balance = balance + more
        loss = F.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), wanted.flatten())
        return loss, loss + 0.01 * balance / LAYERS


class Text:
    """A chain in which each word is followed by one of 4, whose odds are 8 : 4 : 2 : 1."""

    def __init__(self, device):
        self.random = torch.Generator(device).manual_seed(7)
        self.device = device
        self.next = torch.randint(WORDS, (WORDS, 4), generator=self.random, device=device)
        self.odds = torch.tensor([8.0, 4.0, 2.0, 1.0], device=device)

    def batch(self):
        word = torch.randint(WORDS, (BATCH,), generator=self.random, device=self.device)
        which = torch.multinomial(self.odds, BATCH * LENGTH, replacement=True, generator=self.random).reshape(LENGTH, BATCH)
        words = [word]
        for t in range(LENGTH):
            words.append(self.next[words[-1], which[t]])
        words = torch.stack(words, 1)
        return words[:, :-1], words[:, 1:]


def experts_of(variant, library, device):
    if variant == "tegula":
        sys.path.insert(0, str(ROOT / "python"))
        import tegula
        kept.append(tegula.load(library, namespace="bench"))
        return lambda x, logits, up, down: torch.ops.bench.deepseek_moe(x, logits, up, down)[0]
    product = best_rows(device)
    return lambda x, logits, up, down: torch_experts(x, logits, up, down, product)


kept = []  # libraries stay loaded


def train(variant, library, steps):
    device = torch.device("cuda:0")
    free_before = torch.cuda.mem_get_info()[0]
    torch.manual_seed(0)
    model = Transformer(experts_of(variant, library, device)).to(device)
    if variant == "noise":
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1 + 1e-3 * torch.randn_like(p))
    run = torch.compile(model) if variant == "compiled" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
    text, losses, begin = Text(device), [], 0.0
    batches = [text.batch() for _ in range(steps)]
    for step, (words, wanted) in enumerate(batches):
        if step == WARM_UP:
            torch.cuda.synchronize()
            begin = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss, total = run(words, wanted)
        optimizer.zero_grad(set_to_none=True)
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    losses = torch.stack(losses).tolist()
    return {"variant": variant, "losses": [round(x, 5) for x in losses], "last": sum(losses[-20:]) / len(losses[-20:]),
            "tokens_per_s": BATCH * LENGTH * (steps - WARM_UP) / seconds, "peak_allocated_mib": torch.cuda.max_memory_allocated() / 2 ** 20,
            "used_mib": (free_before - torch.cuda.mem_get_info()[0]) / 2 ** 20, "device": torch.cuda.get_device_name(), "torch": torch.__version__}


def compare(rows):
    """Distances of the curves, each the mean of |difference| over the second half."""
    eager = rows["eager"]["losses"]

    def distance(name):
        half = len(eager) // 2
        return sum(abs(a - b) for a, b in zip(eager[half:], rows[name]["losses"][half:])) / (len(eager) - half)

    ours, noise = distance("tegula"), distance("noise")
    return {"distance": ours, "noise": noise, "is_within_noise": ours <= 2 * noise + 0.005,
            "speed_over_eager": rows["tegula"]["tokens_per_s"] / rows["eager"]["tokens_per_s"],
            "speed_over_compiled": rows["tegula"]["tokens_per_s"] / rows["compiled"]["tokens_per_s"] if "compiled" in rows else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lib", default=str(ROOT / ".gpu/lib/libtegula_bench.so"))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", help="file that the rows are appended to")
    parser.add_argument("--variant", choices=VARIANTS, help="runs one of them in this process")
    args = parser.parse_args()
    if args.steps <= WARM_UP:
        parser.error(f"more than {WARM_UP} steps are needed: those are not timed")
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return 77
    if args.variant:
        print(json.dumps(train(args.variant, args.lib, args.steps)))
        return 0
    rows = {}
    for variant in VARIANTS:
        command = [sys.executable, __file__, "--lib", args.lib, "--steps", str(args.steps), "--variant", variant]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            print(f"{variant}: exit code {done.returncode}")
            if variant in ("eager", "noise", "tegula"):
                return 2
            continue
        rows[variant] = row = json.loads(done.stdout.splitlines()[-1])
        print(f"{variant:9} loss {row['losses'][0]:.3f} -> {row['last']:.4f}  {row['tokens_per_s']:10.0f} tokens/s  "
              f"{row['peak_allocated_mib']:8.0f} MiB by torch, {row['used_mib']:8.0f} MiB in all", flush=True)
    summary = compare(rows)
    print(json.dumps(summary))
    if args.out:
        with open(args.out, "a", encoding="utf-8") as out:
            for row in (*rows.values(), {"variant": "summary", **summary}):
                out.write(json.dumps({"suite": "train_moe", **row}) + "\n")
    return 0 if summary["is_within_noise"] else 1


if __name__ == "__main__":
    sys.exit(main())
