#!/usr/bin/env python3
"""Checks that matrix products and attention's gradients stay short. Lines that are not blank count, comments included.

- The library's GEMM, with gated ones and the plans of its calls, has at most 580: every file of kernels/matmul, and
  of kernels/include/tegula/kernels the headers matmul.h (what callers see), matmul_kernels.h (the kernels) and
  fused_matmul.h (epilogues). Files that other kernels use, too, do not count: the language (dsl), the
  choice of a configuration (autotune/matmul), copies of operands (kernels/copy).
- Log-space GEMMs, which use one of its kernels, have at most 160: log_matmul.h and kernels/log_matmul.
- Attention's backward pass has at most 1,440: the files of kernels/attention that only it uses. Derivatives of recorded
  ops, which also other kernels take, have at most 900: ir/differentiate.* and ir/vjp*.
- The kernel that a user writes, that of examples/03_matmul.cpp, has at most 10: from `kernel(` to `});`.

check_kernel_lines.py [--report]: with --report prints the counts as well.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = ROOT / "kernels/include/tegula/kernels"


def lines(path):
    return [line for line in path.read_text().splitlines() if line.strip()]


def lambda_lines(path, beginning):
    """Returns the number of lines from the one with `beginning` to the end of that statement."""
    all_lines = lines(path)
    first = next(i for i, line in enumerate(all_lines) if beginning in line)
    indent = all_lines[first][:len(all_lines[first]) - len(all_lines[first].lstrip())]
    return all_lines.index(indent + "});", first) - first + 1


def main(arguments):
    product = sorted((ROOT / "kernels/matmul").rglob("*.*"))
    product += [HEADERS / name for name in ("matmul.h", "matmul_kernels.h", "fused_matmul.h")]
    log_space = [HEADERS / "log_matmul.h", *(ROOT / "kernels/log_matmul").glob("*.cpp")]
    backward = [path for name in ("backward", "captured_gradients", "gradient_rows", "group_lists")
                for path in sorted((ROOT / "kernels/attention").glob(f"{name}*"))]
    derivatives = sorted([*(ROOT / "ir").glob("differentiate.*"), *(ROOT / "ir").glob("vjp*")])
    known = {*product, *log_space}
    # Each new header of products must be counted.
    faults = [f"{path.relative_to(ROOT)} is counted nowhere" for path in HEADERS.glob("*matmul*") if path not in known]
    limits = [("the library's product", sum(len(lines(path)) for path in product), 580),
              ("log-space products", sum(len(lines(path)) for path in log_space), 160),
              ("attention's backward pass", sum(len(lines(path)) for path in backward), 1440),
              ("derivatives", sum(len(lines(path)) for path in derivatives), 900),
              ("the user's kernel", lambda_lines(ROOT / "examples/03_matmul.cpp", "kernel("), 10)]
    if "--report" in arguments:
        for path in [*product, *backward, *derivatives]:
            print(f"{len(lines(path)):5}  {path.relative_to(ROOT)}")
        for what, count, limit in limits:
            print(f"{count:5}  {what}, at most {limit}")
    faults += [f"{what}: {count} lines, at most {limit}" for what, count, limit in limits if count > limit]
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
