#!/usr/bin/env python3
"""Writes the tables of docs/masks.md: the pairs that attention computes under masks (`tegula mask --work`), and their load balance (`--order`).

mask_table.py [--check] PROGRAM: with --check, and without TEGULA_BLESS=1, compares only."""
import os
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/masks.md"
TABLES = ("work", "order")


def main():
    program = sys.argv[-1]
    page = wanted = PAGE.read_text()
    for table in TABLES:
        begin, end = f"<!-- {table}:begin -->\n", f"<!-- {table}:end -->"
        text = subprocess.run([program, "mask", "--" + table], check=True, capture_output=True, text=True).stdout
        before, rest = wanted.split(begin)
        wanted = before + begin + text + end + rest.split(end)[1]
    if "--check" not in sys.argv or os.environ.get("TEGULA_BLESS") == "1":
        PAGE.write_text(wanted)
    elif wanted != page:
        sys.exit(f"docs/masks.md differs from the counts of `tegula mask`; tools/dev/mask_table.py {program} rewrites it")


if __name__ == "__main__":
    main()
