#!/usr/bin/env bash
# build.sh PRESET [TARGET...]: configures build/PRESET and builds the targets (all without any).
set -euo pipefail
cd "$(dirname "$0")/../.."
preset=$1
shift
mkdir -p build
if ! cmake --preset "$preset" >"build/$preset.configure.log" 2>&1; then
  cat "build/$preset.configure.log" >&2
  exit 1
fi
cmake --build --preset "$preset" ${*:+--target "$@"}
