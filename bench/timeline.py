#!/usr/bin/env python3
"""Prints a timeline of the warpgroups of one CTA in an attention case, from clock probes that `probing_ptxas.py` adds to its PTX.

    LD_LIBRARY_PATH=.gpu/lib TEGULA_CACHE=off python3 bench/timeline.py window 4 16 4096 128 --number 1024

Prints, for each warpgroup, the cycles from each point to the next, some tiles into the launch: "issued" after a commit of MMAs, "turn", "scores" and "sums"
with < before a wait and > after it, "store" after a store. The probes cost a few cycles each.
"""
import argparse
import os
import pathlib
import tempfile

import probing_ptxas
import torch


def points(buffer, names, group):
    """Returns (description, cycles since the preceding point) of a warpgroup, in order."""
    written = [(int(line), int(clock) & 0xFFFFFFFF) for line, clock in buffer[group].tolist() if line or clock]
    return [(names.get(line, "?"), (clock - before) & 0xFFFFFFFF) for (_, before), (line, clock) in zip(written, written[1:])]


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("case", help="name in bench/attention_cases.cpp, without attention_")
    for extent in ("batch", "heads", "length", "head_dim"):
        args.add_argument(extent, type=int)
    args.add_argument("--number", type=float, default=0.0, help="the case's number, such as the length of a window")
    args.add_argument("--lib", default=".gpu/lib/libtegula_bench.so")
    args.add_argument("--show", type=int, default=90, help="points to print per warpgroup")
    options = args.parse_args()

    buffer = torch.zeros(probing_ptxas.GROUPS, probing_ptxas.ENTRIES, 2, dtype=torch.int32, device="cuda")
    lines = pathlib.Path(tempfile.mkdtemp()) / "lines"
    os.environ.update(PROBE_BASE=hex(buffer.data_ptr()), PROBE_LINES=str(lines), PROBE_KERNEL="attention", TEGULA_PTXAS=probing_ptxas.__file__, TEGULA_CACHE="off")
    import peers  # opens the library, which reads its environment once

    t = peers.Tegula(options.lib)
    shape = options.batch, options.heads, options.length, options.head_dim
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    run = t.caller("attention_" + options.case, [q, k, v, torch.empty_like(q), torch.empty(shape[:3], device="cuda")], options.number)
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    buffer.zero_()
    peers.flush_l2()
    run()
    torch.cuda.synchronize()
    names = dict((int(number), name) for number, name in (line.split(" ", 1) for line in lines.read_text().splitlines()))
    found = buffer.cpu()
    for group in range(probing_ptxas.GROUPS):
        all_points = points(found, names, group)
        begin = len(all_points) // 4
        if all_points:
            print(f"warpgroup {group}:", " ".join(f"{name} +{cycles}" for name, cycles in all_points[begin : begin + options.show]))


if __name__ == "__main__":
    main()
