#!/usr/bin/env bash
# Compiles each file of codegen/llvm by itself, without output: preset `no-gpu`, which does so for all other files, lacks LLVM.
set -euo pipefail
cd "$(dirname "$0")/../.."
config=$(command -v llvm-config-19 || echo /usr/lib/llvm-19/bin/llvm-config)
includes=(-I.)
for folder in */include; do includes+=("-I$folder"); done
printf '%s\0' codegen/llvm/*.cpp |
  xargs -0 -n 1 -P "$(nproc)" "${CXX:-g++}" -std=c++20 -fsyntax-only "${includes[@]}" -isystem "$("$config" --includedir)"
