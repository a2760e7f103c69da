#!/usr/bin/env python3
"""Measures alternatives: one kernel in several forms, in random order with peers.py's timer. Prints one JSON line per case.

    python3 bench/sweep.py tuned|attention|rescaling|epilogues|choices|few_rows|splits|groups|groups_fp8 --out FILE.jsonl [--lib PATH] [--commit HASH]

attention: usual, wide and tall tiles (case attention_blocks: queries * 1000000 + keys * 100 + causal), with cuDNN;
rescaling: exact and lazy, with cuDNN; epilogues: GEMMs, plain and fused, in ping-pong tiles (numbers of
matmul_config, bench/matmul_cases.cpp), with the estimate's choice as "chosen"; choices: forms of one computation (bench/choices.h);
tuned: the eight-line matmul, measured at its first call; few_rows: GEMMs of few rows, in mma.sync tiles; splits: one query per head, with the keys divided over a number of programs;
groups: large GEMMs with different numbers of tile rows rasterized together; groups_fp8: the same in fp8.
"""
import argparse
import functools
import itertools
import json

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import peers

LENGTHS = ((16, 1024), (4, 4096), (1, 16384))  # batch, length: 16k positions
TILES = {64: (128128, 192096, 192112, 192128), 80: (192112,), 96: (192096,)}  # queries * 1000 + keys
FEW_ROWS_OF = ((1, 4096, 4096), (8, 2048, 2048), (16, 2048, 8192), (16, 5120, 3584), (16, 4096, 4096), (16, 14336, 4096), (16, 4096, 14336), (16, 28672, 8192), (16, 8192, 28672), (32, 4096, 4096), (32, 14336, 4096), (64, 4096, 4096), (64, 14336, 4096))
FEW_ROWS = [(columns, step, splits, stages) for columns in (32, 64, 128) for step in (64, 128, 256) for splits in (1, 2, 4, 8) for stages in (3, 4) if columns * step <= 8192]
PINGPONG, WITH_MULTICAST = 2e15, 6e15
PRODUCTS = ((4096, 4096, 4096), (8192, 8192, 1024), (8192, 8192, 8192))


def random_of(*shape):
    return torch.randn(shape, device=peers.DEVICE).bfloat16()


def attention_inputs(b, h, s, d):
    q, k, v = (random_of(b, h, s, d) for _ in range(3))
    return q, k, v, torch.empty_like(q), torch.empty(b, h, s, device=peers.DEVICE)


def cudnn(q, k, v, causal):
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def row_of(case, runs, rounds, facts):
    """Prints the medians of all forms; forms that fail are reported and omitted."""
    works, failed = {}, []
    for name, run in runs.items():
        try:
            run()
            torch.cuda.synchronize()
            works[name] = run
        except RuntimeError as problem:
            failed.append([name, str(problem)[:300]])
    first = next(iter(works))
    ms, others, (clock, watts) = peers.compare(works.pop(first), works, rounds)
    us = {name: round(1000 * value, 1) for name, value in {first: ms, **others}.items()}
    return {"case": case, "us": us, "failed": failed, "clock_mhz": clock, "power_w": watts, **facts}


def attention(t, shapes, forms):
    """forms(d, causal) gives (name, case, number) of each."""
    for d, h, lengths in shapes:
        for b, s in lengths:
            for causal in (False, True):
                tensors = attention_inputs(b, h, s, d)
                runs = {name: t.caller(case, tensors, number) for name, case, number in forms(d, causal)}
                runs["cudnn"] = functools.partial(cudnn, *tensors[:3], causal)
                yield f"attention_{'causal' if causal else 'full'} b{b} h{h} s{s} d{d} bf16", runs


def chosen(causal):
    return "attention_causal" if causal else "attention_full"


def tiles(t):
    def forms(d, causal):
        yield "chosen", chosen(causal), 0.0
        for code in TILES[d]:
            yield f"{code // 1000}x{code % 1000}", "attention_blocks", code // 1000 * 1e6 + code % 1000 * 100.0 + causal

    return attention(t, [(d, 16, LENGTHS) for d in TILES], forms)


def rescaling(t):
    def forms(_, causal):
        yield "exact", chosen(causal), 0.0
        yield "lazy", chosen(causal) + "_lazy", 0.0

    return attention(t, [(d, 8 if d == 256 else 16, LENGTHS) for d in (64, 128, 256)], forms)


def epilogues(t):
    for m, n, k in PRODUCTS:
        a, b, c, bias, residual = random_of(m, k), random_of(k, n), random_of(m, n), random_of(n), random_of(m, n)
        numbers = {"chosen": 0.0, "alternate": PINGPONG + 128128064, "alternate multicast": WITH_MULTICAST + 128128064}
        plain = {name: t.caller("matmul_config" if number else "matmul", [a, b, c], number) for name, number in numbers.items()}
        yield f"matmul {m}x{n}x{k}", plain
        fused = {name: t.caller("matmul_bias_gelu_residual", [a, b, c, bias, residual], number) for name, number in numbers.items()}
        yield f"matmul_bias_gelu_residual {m}x{n}x{k}", {"plain": plain["chosen"], **fused}


def documents(s, count):
    """Returns the document of each position, with random lengths that are equal in every run."""
    ends = torch.randperm(s, generator=torch.Generator().manual_seed(1))[: count - 1].sort().values.to(peers.DEVICE)
    return torch.bucketize(torch.arange(s, device=peers.DEVICE), ends, right=True).int()


def choices(t):
    def row(choice, forms, what, tensors):
        return f"{choice} {what}", {form: t.caller(f"{choice}/{form}", tensors, 0.0) for form in forms}

    for b, s, d in ((4, 4096, 64), (4, 4096, 128), (1, 8192, 128)):
        q, k, v, o, lse = attention_inputs(b, 16, s, d)
        yield row("bias", ("elements", "tma", "tma_narrow"), f"b{b} h16 s{s} d{d}", [q, k, v, o, lse, random_of(b, 16, s, s)])
    for b, s, count in ((1, 4096, 12), (4, 4096, 12), (1, 16384, 24)):
        tensors = [*attention_inputs(b, 16, s, 128), documents(s, count)]
        yield row("order", ("as_they_come", "longest_first"), f"b{b} h16 s{s} d128, {count} documents", tensors)
    for b, s in ((16, 4096), (4, 32768)):
        q, o = random_of(b, 32, 1, 128), random_of(b, 32, 1, 128)
        k, v = random_of(b, 8, s, 128), random_of(b, 8, s, 128)
        lse = torch.empty(b, 32, 1, device=peers.DEVICE)
        yield row("decode", ("lists", "all_keys"), f"b{b} h32 kv8 s{s} d128, one query", [q, k, v, o, lse, documents(s, 12)])
    for d in (64, 128):
        yield row("weights", ("softmax", "sigmoid", "sigmoid_narrow", "sticks"), f"b4 h16 s4096 d{d} causal", attention_inputs(4, 16, 4096, d))
    for n, k in ((4096, 4096), (4096, 14336), (28672, 8192)):
        yield row("few_rows", ("mma", "swapped", "library"), f"16x{n}x{k}", [random_of(16, k), random_of(k, n), random_of(16, n)])
    for m, n, k in ((512, 512, 8192), (1024, 1024, 8192), (256, 4096, 4096)):
        yield row("long_k", ("whole", "splits2", "splits4", "splits8", "library"), f"{m}x{n}x{k}", [random_of(m, k), random_of(k, n), random_of(m, n)])
    for m, n, k in ((512, 512, 8192), (1024, 1024, 8192), (4096, 4096, 4096)):
        c = torch.zeros(m, n, device=peers.DEVICE)
        yield row("sums_in_memory", ("elements", "tma"), f"{m}x{n}x{k}", [random_of(m, k), random_of(k, n), c])


def few_rows(t):
    """mma.sync tiles in clusters that share the k-iterations, compared with the library's choice; names are columns, block_k, splits, stages."""
    for (m, n, k), turned in itertools.product(FEW_ROWS_OF, (False, True)):
        a, b, c = random_of(m, k), random_of(n, k).t() if turned else random_of(k, n), random_of(m, n)
        runs = {"cublas": functools.partial(torch.matmul, a, b, out=c), "library": t.caller("matmul", [a, b, c], 0.0)}
        rows = (m + 15) // 16 * 16
        for columns, step, splits, stages in FEW_ROWS:
            programs = n // columns * splits
            if 132 <= programs <= 2400:
                runs[f"{columns} {step} {splits} {stages}"] = t.caller("matmul_plan", [a, b, c], rows * 1e9 + columns * 1e6 + step * 1e3 + splits * 10 + stages)
        yield f"few_rows {m}x{n}x{k} {'NT' if turned else 'NN'}", runs


def splits(t):
    for tiles, heads in ((1, 32), (2, 4), (8, 4), (20, 4), (32, 4), (64, 4), (32, 1)):
        for s in sorted({1024, 2048, 4096, 8192, 32768, 131072 // max(tiles // 8, 1)}):
            q, o, k, v = random_of(1, tiles * heads, 1, 128), random_of(1, tiles * heads, 1, 128), random_of(1, tiles, s, 128), random_of(1, tiles, s, 128)
            tensors = [q, k, v, o, torch.empty(1, tiles * heads, 1, device=peers.DEVICE)]
            runs = {"chosen": t.caller("attention_full", tensors, 0.0)}
            yield f"h{tiles * heads} kv{tiles} keys {s}", runs | {str(n): t.caller("attention_splits", tensors, float(n)) for n in (1, 2, 4, 6, 8, 16, 32, 64, 112) if tiles * n <= 140}


GROUPED = ((12608, 8960, 13248), (11584, 7552, 14208), (10368, 12416, 12032), (12096, 1472, 10368), (12096, 512, 7936), (14592, 12672, 9664), (16256, 1792, 13824), (7040, 4608, 13696), (5120, 10816, 9280), (4096, 4096, 16384), (2048, 8192, 28672), (3072, 3072, 12288), (8192, 8192, 8192), (14336, 4096, 4096))
GROUPED_FP8 = ((4096, 4096, 4096), (8192, 8192, 8192), (16384, 4096, 4096), (4096, 14336, 4096), (2048, 2048, 2048), (6144, 4096, 8192), (8192, 2048, 4096), (4096, 4096, 28672))
WIDE, TALL, BY_TMA = 4e13 + 1e9 + 128256e3, 4e13 + 1e9 + 128192e3, 32


def grouped(t, case, tensors, step):
    """Numbers of matmul_config: names are the tile and the tile rows rasterized together, 8 if not named."""
    alternate, shared = PINGPONG + 128128e3 + step, WITH_MULTICAST + 128128e3 + step
    numbers = {"128x256": WIDE + step, "128x256 12": WIDE + step + 12, "128x192": TALL + step, "alternate": alternate, "alternate 12": alternate + 12, "alternate tma_store": alternate + BY_TMA}
    numbers |= {"alternate multicast": shared, "alternate multicast 12": shared + 12, "alternate multicast tma_store": shared + BY_TMA}
    return {name: t.caller(case, tensors, number) for name, number in numbers.items()}


def groups(t):
    for m, n, k in GROUPED:
        tensors = [random_of(m, k), random_of(k, n), random_of(m, n)]
        runs = {"chosen": t.caller("matmul", tensors, 0.0), "cublas": functools.partial(torch.matmul, *tensors[:2], out=tensors[2])}
        yield f"matmul {m}x{n}x{k}", runs | grouped(t, "matmul_config", tensors, 64)


def groups_fp8(t):
    one = torch.ones((), device=peers.DEVICE)
    for m, n, k in GROUPED_FP8:
        a, w = (random_of(*shape).to(torch.float8_e4m3fn) for shape in ((m, k), (n, k)))
        rows, columns = torch.rand(m, 1, device=peers.DEVICE) + 0.5, torch.rand(1, n, device=peers.DEVICE) + 0.5
        tensors = [a.view(torch.uint8), w.view(torch.uint8).t(), random_of(m, n)]
        scaled = functools.partial(torch._scaled_mm, a, w.t(), out_dtype=torch.bfloat16, use_fast_accum=True)
        runs = {"chosen": t.caller("matmul_fp8", tensors, 1.0), "cublaslt": functools.partial(scaled, scale_a=one, scale_b=one)}
        runs["torch_rowwise"] = functools.partial(scaled, scale_a=rows, scale_b=columns)
        yield f"matmul_fp8 {m}x{n}x{k}", runs | grouped(t, "matmul_fp8_config", tensors, 128)


def tuned(t):
    """The eight-line matmul: first values, untuned and tuned, compared with the library's matmul and cuBLAS; also three odd shapes."""
    for m, n, k in ((2048,) * 3, (4096,) * 3, (8192,) * 3, (3000,) * 3, (4104,) * 3, (5000, 3000, 2056)):
        tensors = [random_of(m, k), random_of(k, n), random_of(m, n)]
        runs = {"cublas": functools.partial(torch.matmul, *tensors[:2], out=tensors[2]), "library": t.caller("matmul", tensors, 0.0)}
        yield f"eight_lines {m}x{n}x{k}", runs | {"defaults": t.caller("eight_lines", tensors, 0.0), "untuned": t.caller("eight_lines", tensors, 3.0), "tuned": t.caller("eight_lines", tensors, 1.0)}


SWEEPS = {"tuned": tuned, "groups": groups, "groups_fp8": groups_fp8, "splits": splits, "few_rows": few_rows, "attention": tiles, "rescaling": rescaling, "epilogues": epilogues, "choices": choices}


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("sweep", choices=tuple(SWEEPS))
    args.add_argument("--lib", default=".gpu/lib/libtegula_bench.so")
    args.add_argument("--out", required=True)
    args.add_argument("--rounds", type=int, default=8)
    args.add_argument("--commit", default="")
    options = args.parse_args()
    t = peers.Tegula(options.lib)
    facts = {"device": torch.cuda.get_device_name(), "backend": t.lib.tegula_bench_backend().decode(), "commit": options.commit}
    with open(options.out, "w") as out:
        for case, runs in SWEEPS[options.sweep](t):
            print(json.dumps(row_of(case, runs, options.rounds, facts)), file=out, flush=True)


if __name__ == "__main__":
    main()
