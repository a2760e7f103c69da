#!/usr/bin/env python3
"""Times shapes before and after tuning, with cuBLAS and cuDNN as peers.

    python3 bench/tune_shapes.py [--lib PATH] [--filter RE] [--full] [--same-bits] [--seconds S] [--out FILE.jsonl]

Each shape is timed with the library's choice, tuned by tune(), and timed again: the same tensors, random order, cold L2, peers.py's timer. Winners
are stored in TEGULA_CACHE_DIR; with a new folder, the first times are those of choices without winners. Prints one line per shape: microseconds of the peer, before and after, ratios to the peer, and the result of each decision. It ends after --seconds
(480) and lists the shapes that it did not reach.
"""
import argparse
import functools
import json
import re
import sys
import time

import torch

import matmul_suites
import peers

# batch, m, n, k, layout
PRODUCTS = ((1, 3000, 3000, 3000, "NN"), (1, 4104, 4104, 4104, "NN"), (1, 5000, 3000, 2056, "NN"), (48, 512, 512, 512, "NN"), (1, 2048, 2048, 100000, "NT"), (1, 64, 65537, 64, "NN"), (1, 33, 8200, 2056, "NN"), (1, 1000, 2056, 1096, "NN"),
            (64, 512, 4096, 2048, "NT"), (32, 1024, 4096, 4096, "NT"))
HEAD_DIMS = tuple(range(40, 249, 16)) + (200, 248)
# case, batch, heads, kv heads, length, head dim
ATTENTIONS = (("attention_full", 16, 16, 16, 1024, 128), ("attention_causal", 4, 16, 16, 4096, 128), ("attention_full", 1, 16, 16, 16384, 64), ("attention_causal", 4, 16, 16, 4096, 64), ("attention_full", 4, 8, 8, 4096, 256), ("attention_causal", 1, 8, 8, 16384, 256), ("attention_causal", 4, 32, 8, 4096, 128), ("attention_full", 4, 16, 16, 4096, 96))


def product(t, batch, m, n, k, layout):
    run, others, _, _ = matmul_suites.laid_out(t, batch, m, n, k, layout)
    return "matmul", run, others["cublas"]


def tf32(t, m, n, k):
    run, others, _, _ = matmul_suites.tf32(t, m, n, k)
    return "matmul_tf32", run, others["cublas"]


def attention(t, name, b, h, kv_heads, s, d):
    run, others, _, _ = peers.attention(t, name, name == "attention_causal", b, h, s, d, kv_heads)
    return name, run, others["cudnn"]


def shapes(t):
    for batch, m, n, k, layout in PRODUCTS:
        yield f"matmul {f'{batch} x ' if batch > 1 else ''}{m}x{n}x{k} {layout} bf16", functools.partial(product, t, batch, m, n, k, layout)
    yield "matmul 2048x2048x100000 NT tf32", functools.partial(tf32, t, 2048, 2048, 100000)
    for d in sorted(set(HEAD_DIMS)):
        yield f"attention causal b4 h16 s4096 d{d}", functools.partial(attention, t, "attention_causal", 4, 16, 16, 4096, d)
    for name, b, h, kv_heads, s, d in ATTENTIONS:
        yield f"{name} b{b} h{h} kv{kv_heads} s{s} d{d}", functools.partial(attention, t, name, b, h, kv_heads, s, d)


def row_of(t, make, options):
    case, run, peer = make()
    before, others, _ = peers.compare(run, {"peer": peer}, options.rounds)
    begin = time.time()
    decisions = t.tune(case, run.capsules, 0.0, options.full, not options.same_bits)
    seconds = time.time() - begin
    after, others_after, (clock, watts) = peers.compare(run, {"peer": peer}, options.rounds)
    return {
        "peer_us": round(1000 * others_after["peer"], 2),
        "before_us": round(1000 * before, 2),
        "after_us": round(1000 * after, 2),
        "ratio_before": round(others["peer"] / before, 3),
        "ratio_after": round(others_after["peer"] / after, 3),
        "tuning_s": round(seconds, 1),
        "decisions": decisions,
        "clock_mhz": clock,
        "power_w": watts,
    }


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--lib", default=".gpu/lib/libtegula_bench.so")
    args.add_argument("--filter", default="")
    args.add_argument("--out")
    args.add_argument("--rounds", type=int, default=12)
    args.add_argument("--seconds", type=float, default=480)
    args.add_argument("--full", action="store_true", help="one minute per decision instead of three seconds")
    args.add_argument("--same-bits", action="store_true", help="accept only winners whose results equal the default's bit for bit, as calls in other processes require")
    args.add_argument("--commit", default="")
    options = args.parse_args()
    t = peers.Tegula(options.lib)
    facts = {"device": torch.cuda.get_device_name(), "backend": t.lib.tegula_bench_backend().decode(), "commit": options.commit}
    out = open(options.out, "a") if options.out else None
    begin = time.time()
    for name, make in shapes(t):
        if not re.search(options.filter, name):
            continue
        if time.time() - begin > options.seconds:
            print(f"not reached: {name}")
            continue
        try:
            row = row_of(t, make, options)
            print(f"{name}: peer {row['peer_us']} us, before {row['before_us']} ({row['ratio_before']}), after {row['after_us']} ({row['ratio_after']}), tuned in {row['tuning_s']} s", flush=True)
            for d in row["decisions"]:
                kept = "" if d["is_replaced"] else " (kept: low confidence)" if d["is_low_confidence"] else " (kept)"
                print(f"    {d['family']}: {d['default']} -> {d['config']}{kept}, {d['candidates']} timed, {d['rejected']} rejected", flush=True)
        except Exception as problem:  # one broken shape must not lose the rows of others
            row = {"error": str(problem)[:2000]}
            print(f"{name}: {row['error']}", file=sys.stderr, flush=True)
        if out:
            print(json.dumps({"case": name, **row, **facts}), file=out, flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
