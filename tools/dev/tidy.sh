#!/usr/bin/env bash
# tidy.sh [FILE...]: clang-tidy 19 with .clang-tidy's list, over the compile commands of build/dev.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v clang-tidy-19 >/dev/null || tools/dev/deps.sh --tidy
[ -f build/dev/compile_commands.json ] || cmake --preset dev >/dev/null
if [ $# -eq 0 ]; then
  mapfile -t files < <(git ls-files '*.cpp' ':!tests/package')
  set -- "${files[@]}"
fi
printf '%s\0' "$@" | xargs -0 -n 4 -P "$(nproc)" clang-tidy-19 -p build/dev --quiet --warnings-as-errors='*'
