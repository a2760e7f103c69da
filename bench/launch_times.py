#!/usr/bin/env python3
"""Times the launches of cases of bench/peers.py with torch.profiler: one JSON line per case, with microseconds per kernel.

    python3 bench/launch_times.py --lib LIB --filter '^(moe|moe_backward|router) (qwen3_30b|mixtral) T4096 bf16$'

The filter is that of peers.py: suite and case. L2 is overwritten before each call. A kernel that starts before the previous one ends waits during
its own time, so the sum of the kernels exceeds the time of the call.
"""
import argparse
import collections
import json
import re
import statistics

import peers
import torch

CALLS = 20


def kernel_times(run):
    """Returns medians in us by kernel name, and the number of its launches per call."""
    for _ in range(5):
        run()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(CALLS):
            peers.flush_l2()
            run()
        torch.cuda.synchronize()
    times = collections.defaultdict(list)
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA and not re.search("reduce_kernel|Memset|Memcpy", event.name):
            times[event.name].append(event.time_range.elapsed_us())
    return {name: {"us": round(statistics.median(all), 2), "launches": round(len(all) / CALLS, 2)} for name, all in times.items()}


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--lib", default="build/release/lib/libtegula_bench.so")
    args.add_argument("--filter", default="^moe ")
    args.add_argument("--out")
    options = args.parse_args()
    t = peers.Tegula(options.lib)
    for suite in peers.SUITES:
        for name, case, make in suite(t):
            if not re.search(options.filter, f"{name} {case}"):
                continue
            line = json.dumps({"suite": name, "case": case, "kernels": kernel_times(make()[0]), "device": torch.cuda.get_device_name()})
            print(line, flush=True)
            if options.out:
                with open(options.out, "a") as out:
                    out.write(line + "\n")


if __name__ == "__main__":
    main()
