#!/usr/bin/env python3
"""count_tests.py CTEST_LOG CASES_DIR: prints the closing line `N passed, N failed` of a test run.

A GoogleTest program counts by its cases, any other test as one. A program that died counts as one failure.
"""
import json
import pathlib
import re
import sys


def main(log_path, cases_dir):
    passed = failed = skipped = 0
    counted = set()
    for path in pathlib.Path(cases_dir).glob("*.json"):
        try:
            report = json.loads(path.read_text())
        except ValueError:
            continue  # cut short by a crash: ctest's verdict stands
        counted.add(re.sub(r"(_\d+)?$", "", path.stem))
        for suite in report["testsuites"]:
            for case in suite["testsuite"]:
                if case["result"] == "SKIPPED":
                    skipped += 1
                elif case.get("failures"):
                    failed += 1
                else:
                    passed += 1

    for name, verdict in re.findall(r"Test +#\d+: (\S+) \.*(.*?)\s+[\d.]+ sec", pathlib.Path(log_path).read_text()):
        if name in counted:
            continue
        if "Passed" in verdict:
            passed += 1
        elif "Skipped" in verdict or "Not Run (Disabled)" in verdict:
            skipped += 1
        else:
            failed += 1
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))


main(*sys.argv[1:])
