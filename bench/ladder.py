#!/usr/bin/env python3
"""The ladder of the Hopper matmul: fields of the plan enabled one after another, measured with our own compiler.

ladder.py rungs                                        prints the rungs of bench/ladder.def; unit_bench_ladder_test compiles and runs each on the simulator
ladder.py run --out FILE [--lib LIB] [--commit HASH]   measures every rung with peers.py (needs the GPU and torch)
ladder.py page                                         writes docs/hopper-matmul.md and its plot from the newest bench/results/*ladder*.jsonl
ladder.py page --check                                 compares only
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE, PLOT = ROOT / "docs/hopper-matmul.md", ROOT / "docs/hopper-matmul.svg"
CASES = ("8192x8192x8192 bf16 NN", "4096x4096x4096 bf16 NN", "4096x14336x4096 bf16 NN")


def rungs():
    """Returns name, rows, columns, group and plan of each rung, in order."""
    row = re.compile(r'^LADDER_RUNG\("([^"]*)", (\d+), (\d+), (\d+), "([^"]*)"\)$', re.M)
    return [(name, int(m), int(n), int(group), plan) for name, m, n, group, plan in row.findall((ROOT / "bench/ladder.def").read_text())]


def run(options):
    scratch = pathlib.Path(options.out + ".part")
    scratch.unlink(missing_ok=True)
    subprocess.run([sys.executable, str(ROOT / "bench/peers.py"), "--lib", options.lib, "--out", str(scratch), "--commit", options.commit, "--rounds", "14", "--ladder"], check=True, stdout=subprocess.DEVNULL)
    with open(options.out, "a") as out:
        for line in scratch.read_text().splitlines():
            row = json.loads(line)
            if row["suite"] != "ladder":
                continue
            number, case = row.pop("case").split(": ", 1)
            name, m, n, group, plan = rungs()[int(number)]
            print(json.dumps({"suite": "ladder", "rung": name, "tile": f"{m}x{n}", "group": group, "plan": plan, "case": case} | row), file=out)
    scratch.unlink()


def rows():
    """Returns the newest measurements, whose rungs may differ from those of bench/ladder.def."""
    newest = max((ROOT / "bench/results").glob("*ladder*.jsonl"))
    found = {}
    for line in newest.read_text().splitlines():
        row = json.loads(line)
        if "error" in row:
            sys.exit(f"{newest.name}: {row['rung']}: {row['error']}")
        found[row["rung"], row["case"]] = row
    return found


def names_of(found):
    return list(dict.fromkeys(name for name, _ in found))


def colours_of(count):
    """Returns colours from grey through light blue to dark blue."""
    if count <= 5:
        return ("#9aa5b1", "#7fb3d5", "#5499c7", "#2e86c1", "#1b4f72")
    light, dark = (0x7F, 0xB3, 0xD5), (0x1B, 0x4F, 0x72)
    mixed = ([round(l + (d - l) * i / (count - 2)) for l, d in zip(light, dark)] for i in range(count - 1))
    return ("#9aa5b1", *("#%02x%02x%02x" % tuple(rgb) for rgb in mixed))


def plot(found):
    """Draws one bar per rung, one group per case, in TFLOPS; the line above a bar is cuBLAS in the same run."""
    names = names_of(found)
    width, height, left, scale = 760, 320, 50, 0.32
    bar, colours, lines = min(34, 170 // len(names)), colours_of(len(names)), (len(names) + 1) // 2
    below = max(110, 56 + 18 * lines)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height + below}" font-family="sans-serif" font-size="11">']
    for level in range(0, 801, 200):
        y = height - level * scale
        out.append(f'<line x1="{left}" x2="{width - 10}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/><text x="8" y="{y + 4:.0f}">{level}</text>')
    for c, case in enumerate(CASES):
        x = left + 20 + c * (len(names) * bar + 50)
        out.append(f'<text x="{x}" y="{height + 16}">{case}</text>')
        for i, name in enumerate(names):
            row = found[name, case]
            top, peer = height - row["tflops"] * scale, height - row["tflops"] * row["ms"] / row["cublas_ms"] * scale
            # Narrow bars have no space for a number; the table has all numbers.
            number = f'<text x="{x + i * bar + 4}" y="{top + 24:.0f}" fill="white">{row["tflops"]:.0f}</text>' if bar >= 30 else ""
            out.append(f'<rect x="{x + i * bar}" y="{top:.0f}" width="{bar - 4}" height="{height - top:.0f}" fill="{colours[i]}"/>{number}'
                       f'<line x1="{x + i * bar}" x2="{x + (i + 1) * bar - 4}" y1="{peer:.0f}" y2="{peer:.0f}" stroke="#c0392b" stroke-width="2"/>')
    for i, name in enumerate(names):
        x, y = left + 20 + (i % 2) * 340, height + 40 + (i // 2) * 18
        out.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colours[i]}"/><text x="{x + 16}" y="{y}">{name}</text>')
    out.append(f'<text x="{left + 20}" y="{height + below - 10}">TFLOPS; red line: cuBLAS in the same run</text></svg>')
    return "\n".join(out) + "\n"


def page(found):
    device = next(iter(found.values()))
    has_tiles = "tile" in device  # else one CTA has 128x256 outputs in every rung, and the plan is that of the environment
    what = ("with its tile and the fields of its plan changed one after another (`with_plan`;" if has_tiles else
            "128x256 outputs per CTA, with the fields of its plan enabled one after another (`TEGULA_PLAN`;")
    out = ["# Hopper matmul, step by step", "", textwrap.fill(
        f"The eight-line GEMM, {what} [wgmma-pipeline.md](wgmma-pipeline.md) describes each field). {device['device']}, back end "
        f"{device['backend']}, commit {device['commit']}; random inputs, cold L2, medians of interleaved runs after warm-up; the "
        "ratio is cuBLAS' time / our time in the same run.", 120), "",
           "Plans use the names of that commit: `warps` is now `num_warps`, `copy_warps` `producer_warps`, `registers`",
           "`consumer_registers`, `store_columns` `epilogue_tile_n`, `alternate` `pingpong`. In the names of the rungs, warps that",
           "copy are producer warps, warpgroups that compute are consumer warpgroups, and warpgroups that take tiles in turn are",
           "ping-pong warpgroups.", "",
           "Generated: `python3 bench/ladder.py run --out bench/results/FILE-ladder.jsonl`, then `python3 bench/ladder.py page`.",
           "", "![TFLOPS of each rung](hopper-matmul.svg)", "",
           "| rung | case | TFLOPS | ratio to cuBLAS | clock, power |", "|---|---|---|---|---|"]
    for name in names_of(found):
        for case in CASES:
            r = found[name, case]
            out.append(f"| {name} | {case} | {r['tflops']:.0f} | {r['ratio_cublas']:.2f} | {r['clock_mhz']:.0f} MHz, {r['power_w']:.0f} W |")
    rest = ", with its tile and the number of tile rows rasterized together" if has_tiles else ""
    out += ["", "## Plans", "", f"The plan of each rung{rest}:", ""]
    for name in names_of(found):
        r = found[name, CASES[0]]
        tile = f", {r['tile']}, {r['group'] or 'all'}" if has_tiles else ""
        out += [f"- {name}{tile}"] + textwrap.wrap(f"`{r['plan']}`", 120, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(out) + "\n"


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("verb", choices=("rungs", "run", "page"))
    args.add_argument("--out")
    args.add_argument("--lib", default=".gpu/lib/libtegula_bench.so")
    args.add_argument("--commit", default="")
    args.add_argument("--check", action="store_true")
    options = args.parse_args()
    if options.verb == "rungs":
        for number, (name, m, n, group, plan) in enumerate(rungs()):
            print(f"{number}: {name}: {m}x{n}, group {group}, {plan}")
        return
    if options.verb == "run":
        return run(options)
    found = rows()
    for path, text in ((PAGE, page(found)), (PLOT, plot(found))):
        if options.check and path.read_text() != text:
            sys.exit(f"{path.name} differs from bench/results; run bench/ladder.py page")
        if not options.check:
            path.write_text(text)


if __name__ == "__main__":
    main()
