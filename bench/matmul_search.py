#!/usr/bin/env python3
"""Times every sensible configuration of `matmul` and cuBLAS for many shapes, to check the cost model in
autotune/cost. Prints one JSON line per shape: medians in us, round robin, cold L2.

    python3 bench/matmul_search.py --lib .gpu/lib/libtegula_bench.so --out FILE.jsonl [--seconds 240]
"""
import argparse
import json
import re
import statistics
import time

import torch

import matmul_suites
import peers

TILES = ((192, 192), (128, 256), (128, 192), (128, 128), (128, 64), (64, 256), (64, 192), (64, 128), (64, 64), (64, 32))
# Rows and columns of the result's tile with swapped operands: columns are the rows of the instruction.
SWAP_AB = ((8, 64), (8, 128), (8, 256), (16, 64), (16, 128), (16, 256), (32, 64), (32, 128), (32, 256), (64, 64), (64, 128), (64, 256))
# Shapes for tall matrices: heights between those of TILES.
TALL = ((72, 192), (88, 192), (104, 192), (120, 192), (72, 128), (80, 128), (88, 128), (96, 128), (104, 128), (112, 128), (120, 128), (48, 128), (56, 128), (64, 128), (192, 128), (256, 128), (56, 256))
BETWEEN = ((256, 4096, 4096), (512, 4096, 4096), (1024, 4096, 4096), (2048, 4096, 1024), (4096, 1024, 4096), (1536, 1536, 1536), (3072, 3072, 3072), (64, 2048, 2048), (128, 1024, 8192), (256, 256, 16384))
SPLITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
SMS = 132
RING_BYTES = 225 * 1024
LEADERS = 12  # number of configurations that are timed again, with three times as many rounds
WARM_SECONDS = 0.3


def ceil_div(a, b):
    return (a + b - 1) // b


def max_stages(bm, bn):
    return min(8, RING_BYTES // ((bm + bn) * 128))


def rings(bm, bn, ctas, every):
    """Returns stage counts: the largest that fits in shared memory, and 4 if CTAs may share an SM; or all of them."""
    deepest = max_stages(bm, bn)
    if every:
        return range(deepest, 2, -1)
    return [deepest] if deepest <= 4 or ctas <= SMS else [deepest, 4]


def variants(splits, stages, bm, bn, rows):
    """Yields (summand of the number, text) of uses of a cluster: it reduces the slices of k, or vertically adjacent tiles, each of which fills an SM, share columns of B."""
    yield 0, ""
    if splits in (2, 4, 8):
        yield 1e12, " cluster"
    if splits == 1 and rows > 1 and 2 * stages * (bm + bn) * 128 > RING_BYTES:
        yield 4e15, " multicast"


def configurations(m, n, k):
    """Yields (number, text) of configurations that could win: no tile twice as high or wide as the result, and no more waves through splitting."""
    tiles = [(bm, bn, False) for bm, bn in TILES if (bm < 2 * m or bm == 64) and bn < 2 * n and m > 32]
    tiles += [(bm, bn, True) for bm, bn in SWAP_AB if (bm < 2 * m or bm == 8) and m <= min(64, 2 * bm)]
    tiles += [(bm, bn, True) for bm, bn in TALL if m > 256 and bn < 2 * n]
    for bm, bn, swapped in tiles:
        rows = ceil_div(m, bm)
        ctas = rows * ceil_div(n, bn)
        is_small = ctas > 4 * SMS and bm * bn < 128 * 128
        if (swapped and m <= 64) or not is_small:
            yield from streamed(bm, bn, swapped, ctas * ceil_div(k, 64))
        if is_small:
            continue
        for splits in SPLITS:
            if splits > 1 and (k < 512 * splits or ctas * splits > 3 * SMS or (bm == 192 and not swapped)):
                break
            for stages in rings(bm, bn, ctas * splits, m <= 64 and swapped and splits <= 2):
                for flags, text in variants(splits, stages, bm, bn, rows):
                    number = flags + stages * 1e13 + splits * 1e9 + bm * 1e6 + bn * 1e3 + 64
                    text = f"{bm}x{bn}/{splits} stages {stages}{text}{' swapped' if swapped else ''}"
                    yield -number if swapped else number, text


def streamed(bm, bn, swapped, steps):
    """Yields stream-K configurations: k-iterations divided evenly over one program per SM, or two if they fit."""
    deepest = max_stages(bm, bn)
    for on_sm, stages in ((1, deepest), (2, deepest // 2)):
        if stages >= 3 and steps >= 2 * on_sm * SMS:
            number = 8e15 + stages * 1e13 + on_sm * 1e9 + bm * 1e6 + bn * 1e3 + 64
            yield -number if swapped else number, f"{bm}x{bn} streamed {on_sm} stages {stages}{' swapped' if swapped else ''}"


def alternating(m, n):
    """Yields configurations with several tiles per CTA."""
    for bm, bn in ((128, 128), (64, 256)):
        if ceil_div(m, bm) * ceil_div(n, bn) > SMS:
            for flags, text in ((2, ""), (6, " multicast")):
                yield flags * 1e15 + bm * 1e6 + bn * 1e3 + 64, f"{bm}x{bn} alternate{text}"


def medians(runs, rounds):
    """Measures after a warm-up, because the clock drops while kernels are compiled."""
    begin = time.time()
    while time.time() - begin < WARM_SECONDS:
        for run in runs.values():
            run()
        torch.cuda.synchronize()
    samples = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            samples[name].append(peers.time_once(run, peers.LEAD_US))
    return {name: round(1000 * statistics.median(s), 2) for name, s in samples.items()}


def row_of(tegula, shape, only):
    m, n, k = shape
    a, b = (torch.randn(extents, device=peers.DEVICE).bfloat16() for extents in ((m, k), (k, n)))
    c, out = torch.empty(m, n, device=peers.DEVICE, dtype=torch.bfloat16), torch.empty(m, n, device=peers.DEVICE, dtype=torch.bfloat16)
    runs = {"cublas": lambda: torch.matmul(a, b, out=out)}
    torch.matmul(a, b, out=out)
    failed = []
    candidates = [(tegula.caller("matmul", [a, b, c]), "chosen")]
    candidates += [(tegula.caller("matmul_config", [a, b, c], number), name) for number, name in [*configurations(m, n, k), *alternating(m, n)] if re.search(only, name)]
    for run, name in candidates:
        try:
            c.fill_(float("nan"))
            run()
            error = peers.error_of(c, out) if m * n <= 1 << 22 else 0.0
            if not error <= 0.01:
                failed.append([name, error])
                continue
        except RuntimeError as problem:
            failed.append([name, str(problem)[:300]])
            continue
        runs[name] = run
    rounds = 5 if m * n * k > 1 << 37 else 9
    us = medians(runs, rounds)
    best = {"cublas", "chosen", *sorted(us, key=us.get)[:LEADERS]}
    us |= medians({name: run for name, run in runs.items() if name in best}, 3 * rounds)
    return {"shape": shape, "us": dict(sorted(us.items(), key=lambda item: item[1])), "failed": failed}


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--lib", default=".gpu/lib/libtegula_bench.so")
    args.add_argument("--out", required=True)
    args.add_argument("--seconds", type=float, default=1e9)
    args.add_argument("--most", type=float, default=1e99, help="skip shapes with more multiplications")
    args.add_argument("--shapes", default="", help="measure only these: MxNxK,..")
    args.add_argument("--only", default="", help="measure only configurations whose text contains this")
    options = args.parse_args()
    tegula = peers.Tegula(options.lib)
    few = [(m, n, k) for n, k in matmul_suites.MODELS for m in (1, 16, 64)]
    shapes = [*matmul_suites.LISTED[::-1][1:], *few, *BETWEEN, *matmul_suites.drawn()]
    if options.shapes:
        shapes = [tuple(map(int, text.split("x"))) for text in options.shapes.split(",")]
    begin = time.time()
    with open(options.out, "w") as out:
        for shape in (s for s in shapes if s[0] * s[1] * s[2] <= options.most):
            if time.time() - begin > options.seconds:
                break
            print(json.dumps(row_of(tegula, shape, options.only)), file=out, flush=True)


if __name__ == "__main__":
    main()
