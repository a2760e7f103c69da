#!/usr/bin/env python3
"""Times attention under the Schedules of other libraries, as far as Tegula supports them (docs/schedule.md): microseconds, and ratios to the library's own Schedule.

    python3 bench/attention_schedules.py [--lib PATH] [--tool PATH] [--rounds N] [--filter RE] [--schedules A,B] [--out FILE.jsonl]

Each round runs one process per schedule, because a process reads the plan once. cuDNN's order has one process per case: it is the library's Schedule of the case with edits, printed by
`tegula schedule show` (--tool) for the kernel's trace. Cases are full and causal, head dims 64 and 128, 16,384 and 4,096 tokens.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

# Fields of the plan, and tiles (queries, keys) by head dim where they differ from the library's.
SELF_LOADING = "producer_warps=0 consumer_registers=0 warp_scheduler_barrier=0 persistent=0 overlap_epilogue=0 stages=2 late_stages=2 once_stages=1 epilogue_tile_n=0"
SCHEDULES = {
    # FlashAttention-3: a token around the issue of both MMAs, and P V skewed by one iteration; plus the library's second slot of Q and overlapped epilogue.
    "library": ("", {}),
    "flash_attention_3": ("once_stages=1 overlap_epilogue=0", {}),
    # TLX: the same order with two slots of K and V.
    "tlx": ("stages=2 late_stages=2 once_stages=1 overlap_epilogue=0", {}),
    "no_token": ("warp_scheduler_barrier=0", {}),
    # One warpgroup per CTA that issues its own loads, with several CTAs per SM; and two warpgroups.
    "self_loading": ("num_warps=4 warps_m=4 " + SELF_LOADING, {64: (64, 128), 128: (64, 64)}),
    "self_loading_wide": (SELF_LOADING, {64: (128, 128), 128: (128, 80)}),
}
# cuDNN: P V is not skewed, and the token is around the exponentials, so that those of one warpgroup overlap the MMAs of the other. A Schedule's text
# is for one kernel, so these two rescale conditionally and have no fallback kernel for rows whose speculation failed.
CUDNN, LIBRARY_LAZY = "cudnn", "library_lazy"
SCHEDULES |= {CUDNN: ("", {}), LIBRARY_LAZY: ("", {})}
CUDNN_EDITS = "dot#0 in_flight 0; dot#1 consumer 0.99; dot#1 in_flight 0; token mma consumer { ew#2 }"
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
        torch.manual_seed(0)  # equal inputs for every schedule, so that the results must agree
        tensors = [*(variants.random_of(b, 16, s, d) for _ in range(4)), torch.empty(b, 16, s, device=variants.DEVICE)]
        tiles = SCHEDULES[schedule][1].get(d)
        case, number = ("attention_blocks", tiles[0] * 1_000_000 + tiles[1] * 100 + causal) if tiles else ("attention_causal" if causal else "attention_full", 0.0)
        if schedule in (CUDNN, LIBRARY_LAZY):
            case += "_lazy"
        try:
            us = variants.steady_us(t.caller(case, tensors, float(number)))
        except RuntimeError as error:
            print(json.dumps({"case": name, "refused": str(error)}), flush=True)
            continue
        print(json.dumps({"case": name, "us": us, "sum": float(tensors[3].float().abs().sum())}), flush=True)


def cudnn_schedule(options, name):
    """Returns cuDNN's order for a case as text: one slot of Q, and tiles whose ends do not overlap."""
    def shown(trace, *edits):
        return subprocess.run([options.tool, "schedule", "show", trace, *edits], stdout=subprocess.PIPE, text=True, check=True).stdout

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--lib", options.lib, "--filter", f"^{re.escape(name)}$", "--worker", LIBRARY_LAZY]
        subprocess.run(command, env={**os.environ, "TEGULA_DUMP": f"trace:{folder}", "TEGULA_CACHE_DIR": folder + "/cache"}, capture_output=True, check=True)
        trace, = (str(p) for p in pathlib.Path(folder).glob("attention*/01-trace.tir"))
        own = shown(trace)
        once = re.search(r"channel +(\w+) tma.* load#0\b", own)[1]
        tiles = re.search(r"tiles +(.*?)(?: overlap)?$", own, re.M)[1]
        text = shown(trace, "--schedule", f"{CUDNN_EDITS}; tiles {tiles}; channel {once} slots 1")
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--lib", default=".gpu/lib/libtegula_bench.so")
    args.add_argument("--tool", default=".gpu/tools/tegula")
    args.add_argument("--schedules", default=",".join(SCHEDULES))
    args.add_argument("--rounds", type=int, default=2)
    args.add_argument("--filter", default="")
    args.add_argument("--out")
    args.add_argument("--worker", choices=SCHEDULES, help=argparse.SUPPRESS)
    options = args.parse_args()
    if options.worker:
        return worker(options.lib, options.worker, options.filter)
    found = {}
    names = [name for name in (case_name(*case) for case in CASES) if re.search(options.filter, name)]
    orders = {name: cudnn_schedule(options, name) for name in names} if CUDNN in options.schedules.split(",") else {}
    for schedule in options.schedules.split(",") * options.rounds:
        plans = {f"^{re.escape(name)}$": text for name, text in orders.items()} if schedule == CUDNN else {options.filter: SCHEDULES[schedule][0]}
        for pattern, plan in plans.items():
            command = [sys.executable, __file__, "--lib", options.lib, "--filter", pattern, "--worker", schedule]
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
