#!/usr/bin/env python3
"""bench/compare.py against workers without a GPU: the protocol, the rows, what is measured again, and what becomes of a side that fails.

compare.py REPOSITORY"""
import json
import pathlib
import subprocess
import sys
import tempfile

# A worker whose library's path says which side it is. It serves the real protocol with times that are computed, not taken.
WORKER = """
import os, random, sys, time
sys.path.insert(0, {bench!r})
import compare_worker

class Bench:
    def __init__(self, side):
        self.side, self.made, self.dice, self.warmed = side, {{}}, random.Random(side), 0
        self.lost = False

    def list(self):
        cases = ["equal", "faster", "slow_once", "slower", "breaks", "dies", "hangs", "copy", "left_out"]
        return {{"cases": [["group", "suite_" + case[0], case] for case in cases], "facts": {{"cache": os.environ["TEGULA_CACHE"], "plan": os.environ.get("TEGULA_PLAN", "")}}}}

    def is_lost(self):
        return self.lost

    def make(self, suite, case):
        assert suite == "suite_" + case[0]
        self.case = case
        self.made[case] = self.made.get(case, 0) + 1
        if self.side == "new" and case == "breaks":
            self.lost = True
            raise RuntimeError("an illegal address")
        if self.side == "new" and case == "dies":
            sys.exit(3)
        if case == "copy":
            return {{"absent": True}}
        return {{"bits": [1, 2 if self.side == "new" and case == "faster" else 1]}}

    def ms(self):
        factor = {{"faster": 0.5, "slower": 1.25}}.get(self.case, 1.0)
        if self.case == "slow_once" and self.made[self.case] == 1:
            factor = 1.5
        return 2.0 * (factor if self.side == "new" else 1.0) * self.dice.uniform(0.995, 1.005)

    def warm(self, seconds):
        self.warmed += 1
        return {{"ms": self.ms() * (1 + 1 / self.warmed ** 3)}}

    def time(self, samples):
        if self.side == "new" and self.case == "hangs":
            time.sleep(60)
        return {{"ms": [self.ms() for _ in range(samples)]}}

    def figures(self, suite):
        assert suite == "compile" and sys.argv[2] == "--host"
        self.warmed += 1
        slow = 4.0 if self.warmed == 1 else 1.3 if self.side == "new" else 1.0
        line = {{"suite": "compile", "backend": "llvm", "trace_ms": 0.5, "passes_ms": 1.0, "emit_ms": 2.0, "registers": 3}}
        return {{"lines": [{{**line, "case": "matmul", "assemble_ms": 6.5 * slow}}, {{**line, "case": "softmax", "assemble_ms": 6.5}}]}}

    def clock(self):
        return {{"mhz": 1980.0, "watts": 100.0}}

compare_worker.serve(Bench(sys.argv[1].split("/")[-3]), sys.stdin, sys.stdout)
"""


def run(program, *arguments):
    return subprocess.run([sys.executable, program, *map(str, arguments)], capture_output=True, text=True)


def packs_in(folder):
    for name in ("old", "new"):
        library = folder / name / "lib/libtegula_bench.so"
        library.parent.mkdir(parents=True)
        library.touch()
    return folder / "old", folder / "new"


def check_rows(rows):
    by_case = {row["case"]: row for row in rows if "case" in row}
    assert list(by_case) == ["equal", "faster", "slow_once", "slower", "breaks", "dies", "hangs"], list(by_case)
    for case, ratio in (("equal", 1.0), ("faster", 2.0), ("slow_once", 1.0), ("slower", 0.8)):
        row = by_case[case]
        assert abs(row["ratio"] / ratio - 1) < 0.01 and row["is_steady"] and 0 <= row["spread"] < 0.01, row
        assert row["same_bits"] == (case != "faster") and row["old_cache"] == "off" and row["new_plan"] == "stages=3" and row["old_plan"] == "", row
        assert row["old_mhz"] == 1980.0 and row["old"] == "abc"
    for case in ("slow_once", "slower"):
        assert len(by_case[case]["ratios"]) == 3 and by_case[case]["first_ratio"] < 0.98, by_case[case]
        assert by_case[case]["ratio"] == sorted(by_case[case]["ratios"])[1]
    assert "ratios" not in by_case["equal"]
    assert by_case["breaks"]["errors"] == {"new": "an illegal address"}
    assert by_case["dies"]["errors"] == {"new": "its process ended with 3"}
    assert by_case["hangs"]["errors"] == {"new": "no answer in 2.0 s"}


def check_summary(rows):
    means = {row["summary"]: row for row in rows if "summary" in row}
    assert list(means) == ["suite_e", "suite_f", "suite_s", "all"], means
    assert means["all"]["cases"] == 4 and abs(means["all"]["geometric_mean"] / (2 * 0.8) ** 0.25 - 1) < 0.01, means
    assert means["suite_s"]["cases"] == 2 and means["suite_s"]["least_case"] == "suite_s slower"


def check_host_suite(shown, out):
    assert shown.returncode == 0, shown.stdout + shown.stderr
    rows = {row["case"]: row for row in map(json.loads, out.read_text().splitlines()) if "case" in row}
    assert list(rows) == ["matmul llvm", "softmax llvm"], rows
    slower, equal = rows.values()
    assert slower["old_ms"] == 10.0 and slower["new_ms"] == 11.95 and len(slower["ratios"]) == 3, slower
    assert slower["new_assemble_ms"] == 8.45 and slower["new_trace_ms"] == 0.5, slower
    assert equal["ratio"] == 1.0 and "ratios" not in equal, equal


def main():
    program = pathlib.Path(sys.argv[1]) / "bench/compare.py"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        old, new = packs_in(folder)
        worker, out = folder / "worker.py", folder / "rows.jsonl"
        worker.write_text(WORKER.format(bench=str(program.parent)))
        options = ["--worker", worker, "--timeout", 2, "--rounds", 5, "--samples", 3, "--old-name", "abc", "--new-env", "TEGULA_PLAN=stages=3"]
        shown = run(program, old, new, *options, "--filter", "(?<!left_out)$", "--out", out)
        assert shown.returncode == 1, (shown.returncode, shown.stdout, shown.stderr)
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        check_rows(rows)
        check_summary(rows)
        again = run(program, "--summary", out)
        assert again.returncode == 1 and shown.stdout.endswith(again.stdout), again.stdout
        alone = run(program, old, new, *options, "--suites", "suite_f,suite_e")
        assert alone.returncode == 0 and "faster" in alone.stdout and "slower" not in alone.stdout, alone.stdout + alone.stderr
        check_host_suite(run(program, old, new, *options, "--suites", "compile", "--out", folder / "host.jsonl"), folder / "host.jsonl")
        missing = run(program, folder, new, *options)
        assert missing.returncode != 0 and "contains neither libtegula_bench.so" in missing.stderr


if __name__ == "__main__":
    main()
