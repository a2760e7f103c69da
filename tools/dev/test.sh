#!/usr/bin/env bash
# test.sh PRESET [CTEST ARGS...]: runs ctest in build/PRESET; the last line counts, the exit status is ctest's.
set -uo pipefail
cd "$(dirname "$0")/../.."
preset=$1
shift
log=$(mktemp)
cases=$(mktemp -d)
trap 'rm -rf "$log" "$cases"' EXIT

# GoogleTest programs also leave their cases here (a folder: one file a program).
GTEST_OUTPUT="json:$cases/" ctest --preset "$preset" --parallel "$(nproc)" "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
python3 tools/dev/count_tests.py "$log" "$cases"
exit "$status"
