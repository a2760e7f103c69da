#!/usr/bin/env bash
# Installs the packages that the build needs. Does nothing if all are installed; needs root only to install.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache lld git python3 ca-certificates
  llvm-19-dev libzstd-dev zlib1g-dev   # llvm-19-dev needs both, without depending on them
  libfmt-dev libxxhash-dev libcli11-dev nlohmann-json3-dev
  libsqlite3-dev  # its archive becomes a part of libtegula.so
  libpng-dev  # the pictures of `tegula mask`
  libgtest-dev libgmock-dev libbenchmark-dev
  python3-numpy  # tests compare the kernels of the Python wheel with it
)
[ "${1:-}" = --format ] && packages+=(clang-format-19)
[ "${1:-}" = --tidy ] && packages+=(clang-tidy-19)

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "deps: no apt here; the build needs what Debian calls: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "deps: run as root: apt-get install ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "deps: installing ${missing[*]}"
log=$(mktemp)
if ! { "${as_root[@]}" apt-get update &&
       "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
         apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
rm -f "$log"
