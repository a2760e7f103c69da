#!/usr/bin/env python3
"""lines_by_folder.py [OLD [NEW]]: lines of code by folder at two commits, and how they changed.

Lines of code are those of .h, .cpp and .def files that contain more than blanks and comments. OLD defaults to HEAD,
NEW to the working tree. Folders that git does not track at a commit have no lines there.
"""
import argparse
import collections
import pathlib
import re
import subprocess

FOLDERS = ["support", "ir", "codegen", "runtime", "dsl", "autotune", "kernels", "tools", "examples", "bench", "tests"]
SPLIT = ["ir/analysis", "ir/eval", "ir/layout", "ir/passes", "codegen/check", "codegen/lower", "kernels/attention",
         "kernels/matmul"]
SUMS = [("ir + dsl + kernels", ("ir", "dsl", "kernels"))]
LITERAL = re.compile(r'R"(?P<d>[^()\s\\]{0,16})\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/',
                     re.S)


def code_lines(text):
    """Returns the number of lines with code; comment marks inside literals do not count."""
    without = LITERAL.sub(lambda m: "\n" * m[0].count("\n") if m[0].startswith(("//", "/*")) else m[0], text)
    return sum(1 for line in without.splitlines() if line.strip())


def files_at(root, commit):
    """Returns pairs of path and text of the sources at `commit`, or of the working tree if it is None."""
    suffixes = ("*.h", "*.cpp", "*.def")
    if commit is None:
        names = subprocess.run(["git", "ls-files", *suffixes], cwd=root, check=True, capture_output=True, text=True)
        for name in names.stdout.split():
            if (root / name).exists():
                yield name, (root / name).read_text()
        return
    listing = subprocess.run(["git", "ls-tree", "-r", "--name-only", commit], cwd=root, check=True, capture_output=True,
                             text=True).stdout.split()
    names = [n for n in listing if n.endswith((".h", ".cpp", ".def"))]
    asked = "".join(f"{commit}:{n}\n" for n in names).encode()
    data = subprocess.run(["git", "cat-file", "--batch"], cwd=root, check=True, capture_output=True, input=asked).stdout
    at = 0
    for name in names:
        end = data.index(b"\n", at)
        size = int(data[at:end].split()[2])
        yield name, data[end + 1:end + 1 + size].decode()
        at = end + 1 + size + 1


def lines_by_folder(root, commit):
    lines = collections.Counter()
    for name, text in files_at(root, commit):
        count = code_lines(text)
        for folder in FOLDERS + SPLIT:
            if name.startswith(folder + "/"):
                lines[folder] += count
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", nargs="?", default="HEAD")
    parser.add_argument("new", nargs="?", help="a commit; the working tree if left out")
    args = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    old, new = lines_by_folder(root, args.old), lines_by_folder(root, args.new)
    rows = [(name, old[name], new[name]) for name in FOLDERS + SPLIT]
    rows += [(name, sum(old[f] for f in parts), sum(new[f] for f in parts)) for name, parts in SUMS]
    print(f"{'folder':20} {'old':>8} {'new':>8} {'change':>8}")
    for name, before, after in rows:
        print(f"{name:20} {before:8} {after:8} {after - before:+8}")


if __name__ == "__main__":
    main()
