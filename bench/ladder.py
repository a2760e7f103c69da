#!/usr/bin/env python3
"""The ladder of the Hopper matmul: each field of the plan switched on in turn, measured on our own compiler.

ladder.py run --out FILE [--lib LIB] [--commit HASH]   measures every rung with peers.py (needs the GPU and torch)
ladder.py page                                         writes docs/hopper-matmul.md and its plot from bench/results/*ladder*.jsonl
ladder.py page --check                                 compares only
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE, PLOT = ROOT / "docs/hopper-matmul.md", ROOT / "docs/hopper-matmul.svg"
# One CTA of 128x256 outputs; what a rung does not name is as in the one before.
RUNGS = (
    ("mma.sync, cp.async ring of 3", "wgmma=0 warps_m=2 warps_n=4 stages=3 copy_warps=0 registers=0 persistent=0 stage_stores=1"),
    ("wgmma, TMA ring of 2", "stages=2 copy_warps=0 registers=0 persistent=0 stage_stores=1"),
    ("ring of 4", "stages=4 copy_warps=0 registers=0 persistent=0 stage_stores=1"),
    ("a warpgroup that copies, setmaxnreg", "stages=4 copy_warps=4 registers=232 persistent=0 stage_stores=1"),
    ("persistent, stores widened by shuffles", "stages=4 copy_warps=4 registers=232 persistent=1 stage_stores=0"),
)
CASES = ("8192x8192x8192 bf16 NN", "4096x4096x4096 bf16 NN", "4096x14336x4096 bf16 NN")


def run(options):
    for name, plan in RUNGS:
        scratch = pathlib.Path(options.out + ".part")
        scratch.unlink(missing_ok=True)
        command = [sys.executable, str(ROOT / "bench/peers.py"), "--lib", options.lib, "--out", str(scratch), "--commit", options.commit,
                   "--rounds", "14", "--filter", "^matmul (" + "|".join(CASES) + ")$"]
        subprocess.run(command, env=os.environ | {"TEGULA_PLAN": plan}, check=True, stdout=subprocess.DEVNULL)
        with open(options.out, "a") as out:
            for line in scratch.read_text().splitlines():
                row = json.loads(line)
                if row.get("case") in CASES and row["suite"] == "matmul":
                    print(json.dumps({"suite": "ladder", "rung": name, "plan": plan} | {k: v for k, v in row.items() if k != "suite"}), file=out)
        scratch.unlink()


def rows():
    found = {}
    for path in sorted((ROOT / "bench/results").glob("*ladder*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            found[row["rung"], row["case"]] = row
    return found


def plot(found):
    """A bar a rung, a group a case, TFLOPS; the line over a bar is cuBLAS in the same run."""
    width, height, bar, left, scale = 760, 320, 34, 50, 0.32
    colours = ("#9aa5b1", "#7fb3d5", "#5499c7", "#2e86c1", "#1b4f72")
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height + 110}" font-family="sans-serif" font-size="11">']
    for level in range(0, 801, 200):
        y = height - level * scale
        out.append(f'<line x1="{left}" x2="{width - 10}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/><text x="8" y="{y + 4:.0f}">{level}</text>')
    for c, case in enumerate(CASES):
        x = left + 20 + c * (len(RUNGS) * bar + 50)
        out.append(f'<text x="{x}" y="{height + 16}">{case}</text>')
        for i, (name, _) in enumerate(RUNGS):
            row = found[name, case]
            top, peer = height - row["tflops"] * scale, height - row["tflops"] * row["ms"] / row["cublas_ms"] * scale
            out.append(f'<rect x="{x + i * bar}" y="{top:.0f}" width="{bar - 4}" height="{height - top:.0f}" fill="{colours[i]}"/>'
                       f'<text x="{x + i * bar + 4}" y="{top + 24:.0f}" fill="white">{row["tflops"]:.0f}</text>'
                       f'<line x1="{x + i * bar}" x2="{x + (i + 1) * bar - 4}" y1="{peer:.0f}" y2="{peer:.0f}" stroke="#c0392b" stroke-width="2"/>')
    for i, (name, _) in enumerate(RUNGS):
        x, y = left + 20 + (i % 2) * 340, height + 40 + (i // 2) * 18
        out.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colours[i]}"/><text x="{x + 16}" y="{y}">{name}</text>')
    out.append(f'<text x="{left + 20}" y="{height + 100}">TFLOPS; red line: cuBLAS in the same run</text></svg>')
    return "\n".join(out) + "\n"


def page(found):
    device = next(iter(found.values()))
    out = ["# The ladder of the Hopper matmul", "",
           "The eight-line kernel, 128x256 outputs a CTA, with each field of its plan switched on in turn (`TEGULA_PLAN`; [hopper.md](hopper.md) says what",
           f"each does). {device['device']}, back end {device['backend']}, commit {device['commit']}; random inputs, cold L2, medians of interleaved runs after",
           "warm-up; the ratio is cuBLAS' time by ours in the same run. Generated: `python3 bench/ladder.py run --out bench/results/FILE-ladder.jsonl`, then",
           "`python3 bench/ladder.py page`.", "", "![TFLOPS of each rung](hopper-matmul.svg)", "",
           "| rung | case | TFLOPS | ratio to cuBLAS | clock, power |", "|---|---|---|---|---|"]
    for name, _ in RUNGS:
        for case in CASES:
            r = found[name, case]
            out.append(f"| {name} | {case} | {r['tflops']:.0f} | {r['ratio_cublas']:.2f} | {r['clock_mhz']:.0f} MHz, {r['power_w']:.0f} W |")
    out += ["", "| rung | `TEGULA_PLAN` |", "|---|---|"] + [f"| {name} | `{plan}` |" for name, plan in RUNGS]
    return "\n".join(out) + "\n"


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("verb", choices=("run", "page"))
    args.add_argument("--out")
    args.add_argument("--lib", default=".gpu/lib/libtegula_bench.so")
    args.add_argument("--commit", default="")
    args.add_argument("--check", action="store_true")
    options = args.parse_args()
    if options.verb == "run":
        return run(options)
    found = rows()
    for path, text in ((PAGE, page(found)), (PLOT, plot(found))):
        if options.check and path.read_text() != text:
            sys.exit(f"{path.name} is not what bench/results says; run bench/ladder.py page")
        if not options.check:
            path.write_text(text)


if __name__ == "__main__":
    main()
