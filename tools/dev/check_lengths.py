#!/usr/bin/env python3
"""Checks that no file of ours is longer than 600 lines and no function longer than 80 (a lambda counts as part of its function).

check_lengths.py [--report] [FILE...]: with --report prints median, p90 and the ten longest of each instead.
"""
import pathlib
import re
import subprocess
import sys

MAX_FILE, MAX_FUNCTION = 600, 80
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
CONTROL = re.compile(r"\b(?:if|for|while|switch|catch|do|else|try)\b[^;{}]*$")
SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum)\b[^;()]*$|\bextern\s*\"?[^;()]*$|\bconcept\b")


def blanked(text):
    """Returns the text with comments, literals and preprocessor lines blanked, and the line structure kept."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])
    # A digit separator (1'000) does not start a character literal.
    text = re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", " ", text)
    text = NOISE.sub(blank, text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M)


def functions(text):
    """Returns (first line, length, header) of each outermost function body."""
    code = blanked(text)
    stack, start = [], 0  # start: position after the last ; { }
    inside = 0            # depth of the current function, 0 outside
    found = []
    for i, c in enumerate(code):
        if c == "{":
            header = code[start:i]
            if not inside and ")" in header and not SCOPE.search(header) and not CONTROL.search(header):
                inside = len(stack) + 1
                first = start + len(header) - len(header.lstrip())
                found.append([code.count("\n", 0, first) + 1, 0, " ".join(header.split())])
            stack.append(i)
            start = i + 1
        elif c == "}":
            if stack:
                stack.pop()
            if inside and len(stack) < inside:
                inside = 0
                found[-1][1] = code.count("\n", 0, i) + 2 - found[-1][0]
            start = i + 1
        elif c == ";":
            start = i + 1
    return [tuple(f) for f in found]


def report(name, rows):
    sizes = sorted(r[0] for r in rows)
    if sizes:
        print(f"{name}: {len(sizes)}, median {sizes[len(sizes) // 2]}, p90 {sizes[len(sizes) * 9 // 10]}")
        for size, where in sorted(rows, reverse=True)[:10]:
            print(f"  {size:5}  {where}")


def main(arguments):
    root = pathlib.Path(__file__).resolve().parents[2]
    wants_report = "--report" in arguments
    named = [a for a in arguments if not a.startswith("--")]
    files = named or subprocess.run(["git", "ls-files", "*.h", "*.cpp", "*.def", "*.py"], cwd=root, check=True,
                                    capture_output=True, text=True).stdout.split()
    file_rows, function_rows = [], []
    for file in files:
        if not (root / file).exists():
            continue
        text = (root / file).read_text()
        file_rows.append((text.count("\n"), file))
        if file.endswith((".h", ".cpp")):
            function_rows += [(length, f"{file}:{line}: {header[-70:]}") for line, length, header in functions(text)]
    if wants_report:
        report("files", file_rows)
        report("functions", function_rows)
        return 0
    faults = [f"{where}: {n} lines, at most {MAX_FILE}" for n, where in file_rows if n > MAX_FILE]
    faults += [f"{where}: {n} lines, at most {MAX_FUNCTION}" for n, where in function_rows if n > MAX_FUNCTION]
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
