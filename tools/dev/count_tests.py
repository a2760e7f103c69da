#!/usr/bin/env python3
"""count_tests.py CTEST_LOG CASES_DIR: prints the slowest tests of a run and its closing line `N passed, N failed`.

A test of a GoogleTest program counts by its cases (CASES_DIR/TEST.json), any other test as one. A program that died
counts as one failure.
"""
import json
import pathlib
import re
import sys


def count_cases(report):
    """Returns (passed, failed, skipped) of a GoogleTest report, or None if a crash cut it short."""
    try:
        suites = json.loads(report.read_text())["testsuites"]
    except (OSError, ValueError):
        return None
    cases = [case for suite in suites for case in suite["testsuite"]]
    skipped = sum(case["result"] == "SKIPPED" for case in cases)
    failed = sum(bool(case.get("failures")) for case in cases)
    return len(cases) - failed - skipped, failed, skipped


def main(log_path, cases_dir):
    log = pathlib.Path(log_path).read_text()
    tests = re.findall(r"Test +#\d+: (\S+) \.*(.*?)\s+([\d.]+) sec", log)
    passed = failed = skipped = 0
    for name, verdict, _ in tests:
        cases = count_cases(pathlib.Path(cases_dir) / f"{name}.json")
        if cases is None:
            is_skipped = "Skipped" in verdict or "Not Run (Disabled)" in verdict
            cases = (0, 0, 1) if is_skipped else (1, 0, 0) if "Passed" in verdict else (0, 1, 0)
        elif "Passed" not in verdict and "Skipped" not in verdict and cases[1] == 0:
            cases = (cases[0], 1, cases[2])  # it failed after its cases, as under a sanitizer
        passed, failed, skipped = passed + cases[0], failed + cases[1], skipped + cases[2]

    seconds = sorted(((float(s), name) for name, _, s in tests), reverse=True)
    print(f"{sum(s for s, _ in seconds):.0f} s of processes, the slowest:")
    for line in range(0, min(30, len(seconds)), 3):
        print("".join(f"{s:7.1f} {name:<44}" for s, name in seconds[line:line + 3]).rstrip())
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))


main(*sys.argv[1:])
