#!/usr/bin/env bash
# test.sh PRESET [CTEST ARGS...]: runs ctest in build/PRESET, prints the counts in the last line, and exits with ctest's status.
set -uo pipefail
cd "$(dirname "$0")/../.."
preset=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Tests compile thousands of kernels and allocate many tensors. Longer lists of free blocks in each thread save a tenth to a
# quarter of their time; huge pages, and memory that stays with the process, some per cent more.
tunables=tcache_count=2000:mmap_threshold=33554432:trim_threshold=1073741824:hugetlb=1
export GLIBC_TUNABLES=${GLIBC_TUNABLES:-glibc.malloc.${tunables//:/:glibc.malloc.}}
rm -rf "build/$preset/cases"  # reports of GoogleTest's cases, one file per test
ctest --preset "$preset" --parallel "$(nproc)" "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
python3 tools/dev/count_tests.py "$log" "build/$preset/cases"
exit "$status"
