#!/usr/bin/env python3
"""train_moe.py [--only PART].. [--long] [--lib FILE] [--steps N] [--seconds S] [--rows FILE]: trains a small transformer of attentions
and DeepSeekMoE layers by Tegula, through torch.library, and the same one by PyTorch; compares losses, tokens/s and peak memory.

    part            attention            experts   blocks are compiled
    eager, noise    SDPA                 PyTorch   no
    compile         SDPA                 PyTorch   yes
    flex            FlexAttention        PyTorch   yes
    attention       Tegula               PyTorch   yes
    experts         SDPA                 Tegula    no
    tegula          Tegula               Tegula    no
    tegula_compile  Tegula               Tegula    yes

8 layers of width 512 and texts of 256 words, or, with --long, 2 layers of width 1024 and texts of 4096 words, where attention takes more
of the time; 64 experts of width 128, 6 a token, and 2 shared ones. Text is drawn from a fixed Markov chain over 512 words. All parts
start from the same weights and use the same text; `noise` repeats eager with weights that differ by 0.1 %. Each part runs in a
separate process, which has its own memory and ends S seconds after it began, after any number of steps. It prints its progress and,
at the end, a JSON row, which is also appended to FILE. Parts of Tegula first compare the values and gradients of one layer with PyTorch's. Without
--only all parts run. `--only summary` compares the rows of FILE, as a run of all parts does at its end: the exit code is 0 if the losses
of all of Tegula's parts are within noise of eager's, 1 if not, 2 if a part failed, 77 without PyTorch or a GPU.

`--device cpu --tiny` runs every part but `flex`, whose gradients need a GPU, on a few small layers by the interpreter.
"""
import argparse
import dataclasses
import faulthandler
import json
import pathlib
import subprocess
import sys
import time

BEGIN = time.perf_counter()
ROOT = pathlib.Path(__file__).resolve().parents[1]
EXPERTS, SHARED, CHOICES = 64, 2, 6  # bench/training_exports.cpp has the same
# (attention, experts, whether blocks are compiled)
PARTS = {"eager": ("sdpa", "torch", False), "noise": ("sdpa", "torch", False), "compile": ("sdpa", "torch", True), "flex": ("flex", "torch", True),
         "attention": ("tegula", "torch", True), "experts": ("sdpa", "tegula", False), "tegula": ("tegula", "tegula", False),
         "tegula_compile": ("tegula", "tegula", True)}
OURS = [name for name, (attention, experts, _) in PARTS.items() if "tegula" in (attention, experts)]
WARM_UP = 20  # steps that are not timed: compiling, choosing
GRACE = 8  # seconds after the limit until a part that hangs prints its stack and exits


def say(part, text):
    print(f"[{time.perf_counter() - BEGIN:6.1f} s] {part}: {text}", flush=True)


try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


@dataclasses.dataclass
class Sizes:
    layers: int = 8
    width: int = 512
    heads: int = 8
    inner: int = 128
    words: int = 512
    length: int = 256
    batch: int = 16


LONG = Sizes(layers=2, width=1024, length=4096, batch=4)
TINY = Sizes(layers=2, width=32, heads=2, inner=16, words=32, length=8, batch=2)


def grouped_rows(rows, weights, ends):
    """Multiplies the rows of expert e by weights[e]^T."""
    return torch._grouped_mm(rows, weights.transpose(1, 2), offs=ends)


def looped_rows(rows, weights, ends):
    """Multiplies as grouped_mm does, for versions of PyTorch without a differentiable grouped GEMM."""
    parts, first = [], 0
    for e, last in enumerate(ends.tolist()):
        parts.append(rows[first:last] @ weights[e].T)
        first = last
    return torch.cat(parts)


def best_rows(device):
    try:
        x = torch.randn(16, 64, device=device, dtype=torch.bfloat16, requires_grad=True)
        w = torch.randn(2, 64, 64, device=device, dtype=torch.bfloat16, requires_grad=True)
        y = grouped_rows(x, w, torch.tensor([8, 16], device=device, dtype=torch.int32))
        y.backward(torch.ones_like(y))  # a dense tensor: the strides of an expanded scalar are rejected
        return grouped_rows
    except (AttributeError, RuntimeError):
        return looped_rows


def torch_experts(x, logits, up, down, product):
    """Runs the routed experts with PyTorch, and the shared ones."""
    p, ids = torch.topk(torch.softmax(logits, -1), CHOICES, -1)
    flat = ids.reshape(-1)
    order = torch.argsort(flat, stable=True)
    counts = torch.zeros(EXPERTS, dtype=torch.int64, device=x.device).scatter_add(0, flat, torch.ones_like(flat))  # bincount waits for the device
    ends = torch.cumsum(counts, 0).to(torch.int32)
    gate, value = product(x[order // CHOICES], up[:EXPERTS], ends).chunk(2, -1)
    rows = product(F.silu(gate) * value, down[:EXPERTS], ends)
    back = torch.empty_like(rows).index_copy(0, order, rows)
    y = (back.reshape(len(x), CHOICES, -1) * p[..., None].to(x.dtype)).sum(1)
    for e in range(EXPERTS, EXPERTS + SHARED):
        gate, value = (x @ up[e].T).chunk(2, -1)
        y = y + (F.silu(gate) * value) @ down[e].T
    return y


def sdpa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def flex(length, device):
    """Runs FlexAttention; must be called in a compiled block."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    mask = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, length, length, device=device)
    return lambda q, k, v: flex_attention(q, k, v, block_mask=mask)


class Block(torch.nn.Module):
    def __init__(self, sizes, attention, experts):
        super().__init__()
        width, inner = sizes.width, sizes.inner
        self.attention, self.experts, self.heads = attention, experts, sizes.heads
        self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(width) for _ in range(2))
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)
        self.router = torch.nn.Parameter(torch.randn(EXPERTS, width) * width ** -0.5)
        self.up = torch.nn.Parameter(torch.randn(EXPERTS + SHARED, 2 * inner, width) * width ** -0.5)
        self.down = torch.nn.Parameter(torch.randn(EXPERTS + SHARED, width, inner) * inner ** -0.5)

    def forward(self, x):
        b, n, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attention(q, k, v).transpose(1, 2).reshape(b, n, -1))
        h = self.norms[1](x).reshape(b * n, width)
        with torch.autocast(x.device.type, enabled=False):
            logits = h.float() @ self.router.T
        y = self.experts(h.to(torch.bfloat16), logits, self.up.to(torch.bfloat16), self.down.to(torch.bfloat16))
        p = torch.softmax(logits, -1)  # Switch Transformer's loss of balance
        chosen = torch.zeros_like(p).scatter(1, torch.topk(p, CHOICES, -1).indices, 1.0)
        balance = EXPERTS * (chosen.mean(0) * p.mean(0)).sum() / CHOICES
        return x + y.to(x.dtype).reshape(b, n, width), balance


class Transformer(torch.nn.Module):
    def __init__(self, sizes, attention, experts):
        super().__init__()
        self.words = torch.nn.Embedding(sizes.words, sizes.width)
        self.places = torch.nn.Parameter(torch.randn(sizes.length, sizes.width) * 0.02)
        self.blocks = torch.nn.ModuleList(Block(sizes, attention, experts) for _ in range(sizes.layers))
        self.norm = torch.nn.RMSNorm(sizes.width)
        self.head = torch.nn.Linear(sizes.width, sizes.words, bias=False)

    def forward(self, words, wanted):
        x, balance = self.words(words) + self.places, 0.0
        for block in self.blocks:
            x, more = block(x)
            balance = balance + more
        loss = F.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), wanted.flatten())
        return loss, loss + 0.01 * balance / len(self.blocks)


def text_of(sizes, steps, device):
    """Returns batches (words, next words) of a chain in which each word is followed by one of 4, whose odds are 8 : 4 : 2 : 1."""
    random = torch.Generator(device).manual_seed(7)
    follows = torch.randint(sizes.words, (sizes.words, 4), generator=random, device=device)
    odds = torch.tensor([8.0, 4.0, 2.0, 1.0], device=device)
    rows = steps * sizes.batch
    words = [torch.randint(sizes.words, (rows,), generator=random, device=device)]
    which = torch.multinomial(odds, rows * sizes.length, replacement=True, generator=random).reshape(sizes.length, rows)
    for t in range(sizes.length):
        words.append(follows[words[-1], which[t]])
    words = torch.stack(words, 1).reshape(steps, sizes.batch, sizes.length + 1)
    return [(batch[:, :-1].contiguous(), batch[:, 1:].contiguous()) for batch in words]


kept = []  # keeps libraries loaded


def tegula_operators(library):
    """Loads the exported layers as operators with gradients."""
    if not pathlib.Path(library).exists():
        sys.exit(f"there is no {library}: build the target tegula_bench and name it by --lib")
    sys.path.insert(0, str(ROOT / "python"))
    import tegula
    kept.append(tegula.load(library, namespace="bench"))
    for layer in ("deepseek_moe", "training_attention"):
        for name in (layer, layer + "_backward"):
            if not hasattr(torch.ops.bench, name):
                sys.exit(f"{library} has no operator {name}; it exports {', '.join(kept[-1].names)}")
    return torch.ops.bench


def check_layer(part, ours, reference, inputs):
    """Compares one layer's values and gradients with PyTorch's in f32, so that a fault shows here, not only in a curve."""
    def results(layer, leaves):
        leaves = {name: t.requires_grad_() for name, t in leaves.items()}
        y = layer(*leaves.values())
        torch.manual_seed(4)
        gradients = torch.autograd.grad(y, list(leaves.values()), torch.randn(y.shape, device=y.device).to(torch.bfloat16).to(y.dtype))
        return {"y": y, **{"d" + name: g for name, g in zip(leaves, gradients)}}

    got = results(ours, {name: t.detach() for name, t in inputs.items()})
    want = results(reference, {name: t.detach().float() for name, t in inputs.items()})
    for name, a in got.items():
        error = ((a.float() - want[name]).norm() / want[name].norm()).item()
        say(part, f"layer: {name} of {tuple(a.shape)} differs by {error:.1e} of its norm")
        if not error < 0.03:
            sys.exit(f"{name} of one layer is wrong: {error}")


def drawn(*shape, device, scale=1.0):
    return (torch.randn(*shape, device=device) * scale).to(torch.bfloat16)


def experts_of(part, library, sizes, device):
    if PARTS[part][1] == "tegula":
        ops = tegula_operators(library)

        def experts(x, logits, up, down):
            return ops.deepseek_moe(x, logits, up, down)[0]

        torch.manual_seed(3)
        tokens, width, inner = sizes.batch * sizes.length, sizes.width, sizes.inner  # so that training takes the same kernels
        check_layer(part, experts, lambda *t: torch_experts(*t, looped_rows),
                    {"x": drawn(tokens, width, device=device), "logits": torch.randn(tokens, EXPERTS, device=device),
                     "up": drawn(EXPERTS + SHARED, 2 * inner, width, device=device, scale=width ** -0.5),
                     "down": drawn(EXPERTS + SHARED, width, inner, device=device, scale=inner ** -0.5)})
        return experts
    product = best_rows(device)
    say(part, f"experts by {product.__name__}")
    return lambda x, logits, up, down: torch_experts(x, logits, up, down, product)


def attention_of(part, library, sizes, device):
    name = PARTS[part][0]
    if name != "tegula":
        return sdpa if name == "sdpa" else flex(sizes.length, device)
    ops = tegula_operators(library)

    def attention(q, k, v):
        return ops.training_attention(q, k, v)[0]

    torch.manual_seed(3)
    shape = (sizes.batch, sizes.heads, sizes.length, sizes.width // sizes.heads)
    check_layer(part, attention, sdpa, {name: drawn(*shape, device=device) for name in "qkv"})
    return attention


def used_mib(device):
    free, total = torch.cuda.mem_get_info() if device.type == "cuda" else (0, 0)
    return (total - free) / 2 ** 20


def train(part, args, sizes):
    device = torch.device(args.device)
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    used_before = used_mib(device)
    attention, experts = attention_of(part, args.lib, sizes, device), experts_of(part, args.lib, sizes, device)
    torch.manual_seed(0)
    model = Transformer(sizes, attention, experts).to(device)
    if part == "noise":
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1 + 1e-3 * torch.randn_like(p))
    if PARTS[part][2]:
        for block in model.blocks:  # whose code is compiled once for all of them
            block.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
    batches, losses = text_of(sizes, args.steps, device), []
    wait()
    say(part, f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters, {len(batches)} batches of {sizes.batch * sizes.length} words")
    warm_up, timed_from = min(WARM_UP, args.steps // 2), None
    for step, (words, wanted) in enumerate(batches):
        if step == warm_up:
            wait()
            timed_from = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16):
            loss, total = model(words, wanted)
        optimizer.zero_grad(set_to_none=True)
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
        if step in (0, 1, warm_up) or step % 20 == 0:
            say(part, f"step {step} loss {loss.item():.4f}")
        if time.perf_counter() - BEGIN > args.seconds:
            say(part, f"stopped after step {step} by the limit of {args.seconds} s")
            break
    wait()
    end, timed = time.perf_counter(), len(losses) - warm_up
    losses = torch.stack(losses).tolist()
    is_cuda = device.type == "cuda"
    return {"suite": "train_moe", "part": part, "steps": len(losses), "losses": [round(x, 5) for x in losses],
            "last": sum(losses[-20:]) / len(losses[-20:]), "sizes": dataclasses.asdict(sizes),
            "tokens_per_s": sizes.batch * sizes.length * timed / (end - timed_from) if timed_from and timed > 0 else None,
            "peak_allocated_mib": torch.cuda.max_memory_allocated() / 2 ** 20 if is_cuda else None,
            "used_mib": used_mib(device) - used_before, "device": torch.cuda.get_device_name() if is_cuda else "cpu",
            "torch": torch.__version__, "seconds": round(end - BEGIN, 1)}


def compare(rows):
    """Returns the distances of the curves: the means of |difference| over the second half of the common steps."""
    ours = [part for part in OURS if part in rows]
    missing = [part for part in ("eager", "noise") if part not in rows] + ([] if ours else [" or ".join(OURS)])
    if missing:
        sys.exit(f"no row of {', '.join(missing)}")
    steps = min(len(row["losses"]) for row in rows.values())
    eager = rows["eager"]["losses"]

    def distance(name):
        half = steps // 2
        return sum(abs(a - b) for a, b in zip(eager[half:steps], rows[name]["losses"][half:steps])) / (steps - half)

    speeds = {part: row["tokens_per_s"] for part, row in rows.items() if row["tokens_per_s"]}
    distances = {part: distance(part) for part in rows if part != "eager"}
    return {"suite": "train_moe", "part": "summary", "steps": steps, "distance": distances, "tokens_per_s": speeds,
            "is_within_noise": max(distances[part] for part in ours) <= 2 * distances["noise"] + 0.005,
            "speed_over": {part: {other: speeds[part] / s for other, s in speeds.items() if other not in OURS} for part in ours if part in speeds},
            "peak_allocated_mib": {part: row["peak_allocated_mib"] for part, row in rows.items()},
            "used_mib": {part: row["used_mib"] for part, row in rows.items()}}


def rows_of(path):
    """Returns the last row of each part."""
    rows = {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("suite") == "train_moe" and row["part"] in PARTS:
            rows[row["part"]] = row
    return rows


def emit(row, path):
    print(json.dumps(row), flush=True)
    if path:
        with open(path, "a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
    return row


def run_part(part, args):
    """Runs a part in this process."""
    faulthandler.dump_traceback_later(max(1, args.seconds + GRACE - (time.perf_counter() - BEGIN)), exit=True)
    say(part, f"torch {torch.__version__}")
    emit(train(part, args, TINY if args.tiny else LONG if args.long else Sizes()), args.rows)


def run_apart(part, args):
    """Runs a part in a separate process and prints its lines; returns its row, or None."""
    command = [sys.executable, "-u", __file__, "--only", part, "--lib", args.lib, "--steps", str(args.steps), "--seconds", str(args.seconds),
               "--device", args.device, *(["--tiny"] if args.tiny else []), *(["--long"] if args.long else []),
               *(["--rows", args.rows] if args.rows else [])]
    row = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            if line.startswith("{"):
                row = json.loads(line)
    if process.returncode != 0:
        say(part, f"exit code {process.returncode}")
        return None
    return row


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=(*PARTS, "summary"))
    parser.add_argument("--lib", default=str(ROOT / ".gpu/lib/libtegula_bench.so"))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=50, help="limit of each part, including imports and compilation")
    parser.add_argument("--rows", help="file to which rows are appended")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--long", action="store_true")
    return parser.parse_args()


def main():
    args = arguments()
    if args.only == ["summary"]:
        return 0 if emit(compare(rows_of(args.rows)), args.rows)["is_within_noise"] else 1
    if args.device != "cpu" and not torch.cuda.is_available():
        print("skipped: no GPU")
        return 77
    parts = args.only or [part for part in PARTS if part != "flex" or args.device != "cpu"]
    if len(parts) == 1:
        run_part(parts[0], args)
        return 0
    rows = {part: row for part in parts if part != "summary" and (row := run_apart(part, args))}
    if len(rows) < sum(part != "summary" for part in parts):
        return 2
    if args.only and "summary" not in parts:
        return 0
    return 0 if emit(compare(rows), args.rows)["is_within_noise"] else 1


if __name__ == "__main__":
    sys.exit(main())
