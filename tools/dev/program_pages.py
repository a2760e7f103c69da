#!/usr/bin/env python3
"""Writes the files of docs/ that the program `tegula` generates entirely.

program_pages.py [--check] PROGRAM NAME: NAME is one of FILES; with --check, and without TEGULA_BLESS=1, compares only.
Arguments after NAME are passed to the program: a program that lacks what they need (exit code 77) runs again without them."""
import os
import pathlib
import subprocess
import sys
import tempfile

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
FILES = {
    "support-matrix.md": ["support", "-o"],
    "schedule-matmul.svg": ["explain", "matmul", "--svg"],
    "schedule-attention.svg": ["explain", "attention", "--svg"],
}


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    program, name, more = arguments[0], arguments[1], arguments[2:]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / name
        command = [program, *FILES[name], str(out)]
        code = subprocess.run([*command, *more], stdout=subprocess.DEVNULL).returncode
        if code == 77 and more:
            code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
        if code:
            sys.exit(code)
        wanted = out.read_text()
    page = DOCS / name
    if "--check" not in sys.argv or os.environ.get("TEGULA_BLESS") == "1":
        page.write_text(wanted)
    elif not page.exists() or page.read_text() != wanted:
        sys.exit(f"docs/{name} is not what the program makes; tools/dev/program_pages.py {program} {name} rewrites it")


if __name__ == "__main__":
    main()
