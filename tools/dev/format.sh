#!/usr/bin/env bash
# format.sh [--check] [FILE...]: formats our C++ with clang-format 19 (the output depends on the version).
set -euo pipefail
cd "$(dirname "$0")/../.."
mode=(-i)
if [ "${1:-}" = --check ]; then
  mode=(--dry-run -Werror)
  shift
fi
command -v clang-format-19 >/dev/null || tools/dev/deps.sh --format
if [ $# -eq 0 ]; then
  mapfile -t files < <(git ls-files -co --exclude-standard '*.h' '*.cpp')
  set -- "${files[@]}"
fi
for file in "$@"; do
  [[ $file = *.h || $file = *.cpp ]] || { echo "format.sh: $file is not a C++ file" >&2; exit 1; }
done
printf '%s\0' "$@" | xargs -0 -r -n 16 -P "$(nproc)" clang-format-19 --style=file "${mode[@]}"
