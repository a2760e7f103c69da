#!/usr/bin/env python3
"""Writes the table of docs/masks.md: what attention computes under masks, as `tegula mask --work` counts it.

mask_table.py [--check] PROGRAM: with --check, and without TEGULA_BLESS=1, compares only."""
import os
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/masks.md"
BEGIN, END = "<!-- work:begin -->\n", "<!-- work:end -->"


def main():
    program = sys.argv[-1]
    table = subprocess.run([program, "mask", "--work"], check=True, capture_output=True, text=True).stdout
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    wanted = before + BEGIN + table + END + rest.split(END)[1]
    if "--check" not in sys.argv or os.environ.get("TEGULA_BLESS") == "1":
        PAGE.write_text(wanted)
    elif wanted != page:
        sys.exit(f"docs/masks.md is not what `tegula mask --work` counts; tools/dev/mask_table.py {program} rewrites it")


if __name__ == "__main__":
    main()
