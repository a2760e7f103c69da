#!/usr/bin/env python3
"""Writes the README's results from bench/results/*.jsonl: the newest row of each suite, case and back end. --check compares only."""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"


def rows():
    newest = {}
    for path in sorted((ROOT / "bench/results").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if "ms" in row and row["suite"] not in ("floor", "ladder"):
                newest[(row["suite"], row["case"], row.get("backend"))] = row
    return [newest[key] for key in sorted(newest)]


def table():
    found = rows()
    if not found:
        return "No results are recorded yet.\n"
    device = found[0]["device"]
    out = [f"{device}, random inputs, cold L2, medians of interleaved runs after warm-up; ratio = peer time / our time, above 1 is faster than the peer.",
           "Command: `make gpu-pack && python3 bench/peers.py --out bench/results/FILE.jsonl`; this table: `tools/dev/results_table.py`.", "",
           "| kernel | case | back end | ms | rate | ratio to peers | clock, power |", "|---|---|---|---|---|---|---|"]
    for r in found:
        rate = f"{r['tflops']} TFLOPS" if "tflops" in r else f"{r['gbs']} GB/s"
        ratios = ", ".join(f"{k[6:]} {v:.2f}" for k, v in r.items() if k.startswith("ratio_")) or "-"
        out.append(f"| {r['suite']} | {r['case']} | {r['backend']} | {r['ms']:.3f} | {rate} | {ratios} | {r['clock_mhz']:.0f} MHz, {r['power_w']:.0f} W |")
    return "\n".join(out) + "\n"


def main():
    readme = ROOT / "README.md"
    text = readme.read_text()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    wanted = head + BEGIN + "\n" + table() + END + tail
    if "--check" in sys.argv:
        sys.exit(0 if wanted == text else "README.md: results are not those of bench/results; run tools/dev/results_table.py")
    readme.write_text(wanted)


if __name__ == "__main__":
    main()
