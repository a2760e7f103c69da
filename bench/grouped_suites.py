"""Grouped bf16 GEMMs over 64 ragged segments for bench/peers.py, with torch._grouped_mm as peer; for even segments also the dense GEMM of the same
number of rows with one matrix, and the same rows in other tiles (bench/grouped_cases.cpp).

Weights are [segment, n, k], as torch.nn.Linear stores them. Errors compare a few rows with f32 results.
"""
import functools

import torch

DEVICE = torch.device("cuda:0")
SEGMENTS, ROWS, N, K = 64, 32768, 4096, 2048


def spread(shares):
    """Returns integer sizes in these proportions whose sum is ROWS."""
    shares = torch.as_tensor(shares, dtype=torch.float64)
    ends = torch.round(torch.cumsum(shares / shares.sum(), 0) * ROWS).long()
    return torch.diff(ends, prepend=torch.zeros(1, dtype=torch.long)).tolist()


def random_shares(seed, make):
    return make(torch.Generator().manual_seed(seed))


NUMBERS = torch.arange(SEGMENTS)
SIZES = {
    "uniform": spread(random_shares(1, lambda g: torch.rand(SEGMENTS, generator=g))),
    "normal": spread(random_shares(2, lambda g: (1 + 0.3 * torch.randn(SEGMENTS, generator=g)).clamp(min=0))),
    "lognormal": spread(random_shares(3, lambda g: torch.randn(SEGMENTS, generator=g).exp())),
    "zipf": spread(1 / (1.0 + NUMBERS) ** 1.2),
    "ascending": spread(1.0 + NUMBERS),
    "half in one": spread([63.0] + [1.0] * 63),
    "every other empty": spread(NUMBERS % 2),
    "eight hold all": spread(NUMBERS % 8 == 0),
    "one row and 1023": [1 if s % 2 else 1023 for s in range(SEGMENTS)],
    "around a tile": [(511, 513, 385, 639)[s % 4] for s in range(SEGMENTS)],
}
EVEN = (512, 1024)


@functools.cache
def weights():
    return torch.empty(SEGMENTS, N, K, device=DEVICE, dtype=torch.bfloat16).normal_(std=K ** -0.5)


def grouped(t, sizes, is_even, has_forms=False):
    """Compares with torch, or with other tiles of the library."""
    ends = torch.cumsum(torch.tensor(sizes), 0).to(DEVICE, torch.int32)
    offsets = torch.cat((torch.zeros_like(ends[:1]), ends))
    rows, w = int(ends[-1]), weights()
    x = torch.randn(rows, K, device=DEVICE, dtype=torch.bfloat16)
    y = torch.empty(rows, N, device=DEVICE, dtype=torch.bfloat16)
    run = t.caller("grouped_matmul", [x, w, offsets, y], 0)
    peers = {"grouped_mm": lambda: torch._grouped_mm(x, w.transpose(1, 2), offs=ends)}
    if is_even and not has_forms:
        peers["dense"] = lambda: torch.matmul(x, w[0].T)
    z, first_tiles = torch.empty_like(y), torch.empty_like(offsets)
    for number in range(1, 6) if has_forms else ():
        peers[f"tiles {number}"] = t.caller("grouped_matmul", [x, w, offsets, z], number)
        peers[f"pairs {number}"] = t.caller("grouped_matmul_pairs", [x, w, offsets, first_tiles, z], number)
    run()
    some = torch.linspace(0, rows - 1, 64, device=DEVICE).long()
    segment = torch.searchsorted(ends, some, right=True)
    want = torch.stack([w[s].float() @ x[r].float() for r, s in zip(some.tolist(), segment.tolist())])
    error = ((y[some].float() - want).norm() / want.norm()).item()
    return run, peers, error, {"flops": 2 * rows * N * K}


def products(t):
    for name, sizes in SIZES.items():
        yield "grouped_matmul", f"64 x {ROWS // SEGMENTS} {name}, {N} x {K} bf16", functools.partial(grouped, t, sizes, False)
    for rows in EVEN:
        yield "grouped_matmul", f"64 x {rows} even, {N} x {K} bf16", functools.partial(grouped, t, [rows] * SEGMENTS, True)


def forms(t):
    for name, sizes in SIZES.items():
        yield "grouped_forms", f"64 x {ROWS // SEGMENTS} {name}, {N} x {K} bf16", functools.partial(grouped, t, sizes, False, has_forms=True)


SUITES = [products, forms]
