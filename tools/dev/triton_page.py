#!/usr/bin/env python3
"""Writes docs/triton.md from examples/triton/*.h, bench/triton_kernels.py and the newest rows of bench/results (sweeps included). --check
compares only."""
import ast
import json
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/triton.md"
# Number, name, our file, the kernels and calls of bench/triton_kernels.py, the suites of bench/triton_suites.py.
TUTORIALS = [
    ("01", "vector addition", "vector_add", ["_vector_add", "vector_add"], ["01_vector_add"]),
    ("02", "fused softmax", "softmax", ["_softmax", "softmax"], ["02_softmax"]),
    ("03", "matrix multiplication", "matmul", ["_matmul", "matmul"], ["03_matmul"]),
    ("04", "low-memory dropout", "dropout", ["_dropout", "dropout"], ["04_dropout"]),
    ("05", "layer norm, forward and backward", "layer_norm",
     ["_layer_norm", "layer_norm", "_layer_norm_backward", "_layer_norm_weights", "layer_norm_backward"],
     ["05_layer_norm", "05_layer_norm_backward"]),
    ("06", "fused attention, forward", "attention", ["_attention", "attention"], ["06_attention"]),
    ("07", "functions of a library", "extern_function", ["_extern_function", "extern_function"], ["07_extern_function"]),
    ("08", "grouped products over pointers", "grouped_gemm", ["_grouped_gemm", "grouped_gemm"], ["08_grouped_gemm"]),
    ("09", "persistent matrix multiplication", "persistent_matmul", ["_persistent_matmul", "persistent_matmul"], ["09_persistent_matmul"]),
    ("10", "block-scaled matrix multiplication", "block_scaled_matmul", ["_block_scaled_matmul", "block_scaled_matmul"],
     ["10_block_scaled_matmul"]),
]
HEAD = """# Triton's tutorials

Kernels of Triton's tutorials in this language, from `examples/triton`, which the tests run on every device, and in
Triton (`bench/triton_kernels.py`). [From Triton](language/triton.md) has a line for each construct.

- **Lines** are those of code: here all of a file within its namespace; of Triton the kernels, their configurations and
  the calls that choose a grid, which here are part of the kernel.
- **Ratio** is Triton's time over ours, above 1 is faster than Triton, as a geometric mean over the cases of
  `bench/triton_suites.py` and the back ends measured, and in brackets the lowest: `python3 bench/peers.py --lib LIB
  --filter '^triton_' --out bench/results/sweeps/DATE-CARD-triton.jsonl`, then `tools/dev/triton_page.py`. The newest
  row of a case counts; each section names its GPU and file. A dash: not measured yet.
- 08 takes m, n / 8 and k / 8, so that 16-byte chunks are whole; Triton's assumes whole tiles.
- 10 multiplies scales of 128 elements along k in the kernel: Triton's own tutorial has the scaled products of
  Blackwell, which a Hopper GPU lacks.

"""


def ours(name):
    """Returns the lines of a file within its namespace."""
    lines = (ROOT / f"examples/triton/{name}.h").read_text().splitlines()
    begin, end = lines.index("namespace tegula::tutorials {"), lines.index("}  // namespace tegula::tutorials")
    return "\n".join(lines[begin + 1:end]).strip("\n")


def theirs(functions):
    text = (ROOT / "bench/triton_kernels.py").read_text()
    lines, found = text.splitlines(), {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            begin = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found[node.name] = "\n".join(lines[begin - 1:node.end_lineno])
    return "\n\n\n".join(found[name] for name in functions)


def count(code, comment):
    return sum(1 for line in code.splitlines() if line.strip() and not line.strip().startswith(comment))


def newest_rows():
    """Returns the newest row per suite, case and back end; files, those of sweeps included, are ordered by their names, which begin with the date."""
    found, results = {}, ROOT / "bench/results"
    for path in sorted(results.rglob("*.jsonl"), key=lambda path: path.stem):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if row.get("suite", "").startswith("triton_") and ("ratio_triton" in row or "error" in row):
                found[row["suite"], row["case"], row.get("backend")] = row | {"file": path.relative_to(ROOT)}
    return found


def rows_of(suites, found):
    """Returns no figure for a case whose newest row is an error."""
    return [row for (suite, _, _), row in found.items() if suite[len("triton_"):] in suites and "ratio_triton" in row]


def ratio(suites, found):
    some = [row["ratio_triton"] for row in rows_of(suites, found)]
    return f"{math.exp(sum(map(math.log, some)) / len(some)):.2f} ({min(some):.2f})" if some else "-"


def figures(suites, found):
    """Returns a table of the cases, and the location of their rows."""
    rows = rows_of(suites, found)
    if not rows:
        return ""
    out = "| case | back end | card | us | Triton's us | ratio |\n|---|---|---|---|---|---|\n"
    for row in rows:
        kind = " backward" if row["suite"].endswith("_backward") else ""
        out += f"| {row['case']}{kind} | {row['backend']} | {row['device']} | {1000 * row['ms']:.1f} | {1000 * row['triton_ms']:.1f} | {row['ratio_triton']:.2f} |\n"
    return out + "\nRows: " + ", ".join(f"`{file}`" for file in sorted({str(row["file"]) for row in rows})) + ".\n\n"


def page():
    found, rows, all_lines = newest_rows(), [], [0, 0]
    for number, title, name, functions, suites in TUTORIALS:
        lines = count(ours(name), "//"), count(theirs(functions), "#")
        all_lines = [a + b for a, b in zip(all_lines, lines)]
        rows.append(f"| [{number}](#{re.sub(r'[^a-z0-9 -]', '', f'{number} {title}').replace(' ', '-')}) | {title} | {lines[0]} | {lines[1]} | {ratio(suites, found)} |")
    every = [suite for *_, suites in TUTORIALS for suite in suites]
    rows.append(f"| | all | {all_lines[0]} | {all_lines[1]} | {ratio(every, found)} |")
    out = HEAD + "| | tutorial | lines | Triton's | ratio (lowest) |\n|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    for number, title, name, functions, suites in TUTORIALS:
        out += f"\n## {number} {title}\n\n{figures(suites, found)}```cpp\n{ours(name)}\n```\n\n```python\n{theirs(functions)}\n```\n"
    return out


def main():
    text = page()
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        sys.exit("docs/triton.md is not what tools/dev/triton_page.py writes")


if __name__ == "__main__":
    main()
