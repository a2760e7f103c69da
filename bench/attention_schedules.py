#!/usr/bin/env python3
"""Attention under the Schedules of other libraries, as far as a Plan carries them out (docs/schedule.md): microseconds, and ratios to the library's own.

    python3 bench/attention_schedules.py [--lib PATH] [--rounds N] [--filter RE] [--out FILE.jsonl]

A process for each schedule and round, in turn: plans are read once a process. Cases are full and causal, head dims 64 and 128, 16,384 and 4,096 tokens.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

# Fields of the plan, and queries and keys of a tile by head dim where they are not the library's.
SELF_LOADING = "producer_warps=0 consumer_registers=0 warp_scheduler_barrier=0 persistent=0 overlap_epilogue=0 stages=2 late_stages=2 once_stages=1 epilogue_tile_n=0"
SCHEDULES = {
    # FlashAttention-3: a token round the issue of both MMAs, P V one step late; with the second slot of Q and the overlapped end of tiles that the library adds.
    "library": ("", {}),
    "flash_attention_3": ("once_stages=1 overlap_epilogue=0", {}),
    # TLX: the same order over two slots of K and V.
    "tlx": ("stages=2 late_stages=2 once_stages=1 overlap_epilogue=0", {}),
    "no_token": ("warp_scheduler_barrier=0", {}),
    # A warpgroup a CTA that loads for itself, several CTAs an SM; and two warpgroups.
    "self_loading": ("num_warps=4 warps_m=4 " + SELF_LOADING, {64: (64, 128), 128: (64, 64)}),
    "self_loading_wide": (SELF_LOADING, {64: (128, 128), 128: (128, 80)}),
}
CASES = [(causal, b, s, d) for d in (64, 128) for causal in (False, True) for b, s in ((4, 4096), (1, 16384))]


def case_name(causal, b, s, d):
    return f"{'causal' if causal else 'full'} b{b} h16 s{s} d{d}"


def worker(lib, schedule, pattern):
    """Prints microseconds of each case as a line of JSON."""
    import torch

    import peers
    import variants

    t = peers.Tegula(lib)
    for causal, b, s, d in CASES:
        name = case_name(causal, b, s, d)
        if not re.search(pattern, name):
            continue
        torch.manual_seed(0)  # the same numbers for every schedule: their sums are to agree
        tensors = [*(variants.random_of(b, 16, s, d) for _ in range(4)), torch.empty(b, 16, s, device=variants.DEVICE)]
        tiles = SCHEDULES[schedule][1].get(d)
        case, number = ("attention_blocks", tiles[0] * 1_000_000 + tiles[1] * 100 + causal) if tiles else ("attention_causal" if causal else "attention_full", 0.0)
        try:
            us = variants.steady_us(t.caller(case, tensors, float(number)))
        except RuntimeError as error:
            print(json.dumps({"case": name, "refused": str(error)}), flush=True)
            continue
        print(json.dumps({"case": name, "us": us, "sum": float(tensors[3].float().abs().sum())}), flush=True)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--lib", default=".gpu/lib/libtegula_bench.so")
    args.add_argument("--rounds", type=int, default=2)
    args.add_argument("--filter", default="")
    args.add_argument("--out")
    args.add_argument("--worker", choices=SCHEDULES, help=argparse.SUPPRESS)
    options = args.parse_args()
    if options.worker:
        return worker(options.lib, options.worker, options.filter)
    found = {}
    for _ in range(options.rounds):
        for schedule, (plan, _) in SCHEDULES.items():
            command = [sys.executable, __file__, "--lib", options.lib, "--filter", options.filter, "--worker", schedule]
            done = subprocess.run(command, env={**os.environ, "TEGULA_PLAN": plan}, capture_output=True, text=True)
            if done.returncode != 0:
                print(f"{schedule}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
            for line in done.stdout.splitlines():
                row = json.loads(line)
                found.setdefault(row["case"], {}).setdefault(schedule, []).append(row)
    out = open(options.out, "w") if options.out else None
    for case, by in found.items():
        us = {name: statistics.median(row["us"] for row in rows) for name, rows in by.items() if all("us" in row for row in rows)}
        sums = {name: rows[0]["sum"] for name, rows in by.items() if "sum" in rows[0]}
        own = us.get("library")
        row = {"case": case, "us": {n: round(x, 2) for n, x in us.items()}, "over_library": {n: round(own / x, 3) for n, x in us.items()} if own else {}, "sums": sums}
        row["refused"] = {name: rows[0]["refused"] for name, rows in by.items() if "refused" in rows[0]}
        print(json.dumps(row), flush=True)
        if out:
            out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
