#!/usr/bin/env python3
"""Checks that ops and passes are rows of tables. check_ops.py [ROOT]

- No code switches over ops: the treatment of an op is a duty or a trait of its row in ir/ops.def, or an entry of a
  table by op (ir/op_table.h), so that a new op cannot be forgotten in a `default:`.
- Each op occurs in a file test (tests/filetests/**/*.tir).
- A pass is a row of ir/passes/passes.def and the file of its name in ir/passes; other files there are in subfolders.
"""
import pathlib
import re
import sys

SOURCES = ["support", "ir", "codegen", "runtime", "dsl", "autotune", "kernels", "tools", "bench"]
ROW = re.compile(r'^(?:STRUCTURE|ELEMENTWISE|MATH|TILE_OP|MACHINE_OP|SIMT_OP)\((\w+), "(\w+)"', re.M)
PASS = re.compile(r"^PASS\((\w+),", re.M)
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.S)
SWITCH = re.compile(r"\bswitch\s*\(")
CASE = re.compile(r"\bcase\s+((?:\w+::)*)(\w+)\s*:")


def closing(text, at):
    """Returns the position after the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    return len(text)


def op_switches(text, ops):
    """Returns the lines of switches whose subject or cases are ops."""
    def blank(match):
        return '""' if match[0].startswith('"') else "\n" * match[0].count("\n")
    text = COMMENT.sub(blank, text)
    for switch in SWITCH.finditer(text):
        end = closing(text, switch.end() - 1)
        subject, body = text[switch.end():end - 1], text[end:closing(text, text.find("{", end))]
        over_ops = re.search(r"\bopcode\b|\bOpcode\b", subject) is not None
        for scope, label in CASE.findall(body):
            over_ops |= scope.endswith("Opcode::") or (not scope and label in ops)
        if over_ops:
            yield text.count("\n", 0, switch.start()) + 1


def faults(root):
    rows = ROW.findall((root / "ir/ops.def").read_text())
    ops = {name for name, _ in rows}
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*.*")):
            if path.suffix in (".cpp", ".h", ".def"):
                for line in op_switches(path.read_text(), ops):
                    yield (f"{path.relative_to(root)}:{line}: a switch over ops: make it a table by op or a column of "
                           "ir/ops.def")
    tests = root / "tests/filetests"
    if tests.exists():
        lines = [line for p in tests.rglob("*.tir") for line in p.read_text().splitlines() if not line.startswith("; ")]
        words = set(re.findall(r"\w+", "\n".join(lines)))
        for name, mnemonic in rows:
            if mnemonic not in words:
                yield f"ir/ops.def: {mnemonic} is in no file test"
    passes = set(PASS.findall((root / "ir/passes/passes.def").read_text()))
    files = {path.stem for path in (root / "ir/passes").glob("*.cpp")}
    for name in sorted(files - passes):
        yield f"ir/passes/{name}.cpp is not a pass of passes.def: move it to a subfolder"
    for name in sorted(passes - files):
        yield f"ir/passes/passes.def: {name} has no file ir/passes/{name}.cpp"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2])
    found = list(faults(root))
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
