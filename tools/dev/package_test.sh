#!/usr/bin/env bash
# package_test.sh [archive|wheel|all] [SUITE...]: tests what tools/dev/package.sh put in build/package/ in bare chroots, by
# default both in Debian 12 and 13. Needs root and a Debian mirror.
#   archive  with g++ and cmake: unpacks it in another place, builds projects by find_package, runs them on sim and cpu
#   wheel    with Python and NumPy and without a compiler: installs it by pip, compares its kernels with NumPy's results
set -euo pipefail
# shellcheck source=tools/dev/bare_root.sh
. "$(dirname "$0")/bare_root.sh"
cd "$(dirname "$0")/../.."

what=${1:-all}
[ $# -gt 0 ] && shift
suites=("$@")
[ $# -gt 0 ] || suites=(bookworm trixie)
case $what in archive | wheel | all) ;; *) echo "package_test: unknown package $what" >&2; exit 2 ;; esac

# one_file PATTERN: the only file in build/package/ that matches.
one_file() {
  local found
  mapfile -t found < <(compgen -G "build/package/$1")
  [ ${#found[@]} -eq 1 ] || { echo "package_test: ${#found[@]} files match build/package/$1: run make package" >&2; exit 2; }
  echo "${found[0]}"
}

# step COMMAND: runs it in the root; what it prints is shown if it fails.
step() {
  local log
  log=$(mktemp)
  if ! in_root /root "$1" >"$log" 2>&1; then
    cat "$log"
    rm -f "$log"
    echo "FAILED $1"
    exit 1
  fi
  rm -f "$log"
  echo "ok     $1"
}

test_archive() {
  make_root "$1" g++ cmake make
  cp "$archive" "$root/root/"
  cp -r tests/package/consumer tests/package/library_calls tests/unit/dsl/golden/vector_add.tir "$root/root/"
  step 'mkdir /opt/t && tar -C /opt/t --strip-components=1 -xf tegula-*.tar.gz'
  step '/opt/t/bin/tegula doctor'
  step '/opt/t/bin/tegula opt --emit=ptx vector_add.tir | grep -F ".entry add"'
  for project in consumer library_calls; do
    step "cmake -S $project -B build/$project -DCMAKE_PREFIX_PATH=/opt/t && cmake --build build/$project"
  done
  step 'build/consumer/consumer llvm'
  step 'build/consumer/client'
  step 'build/library_calls/library_calls sim'
  step 'build/library_calls/library_calls cpu'
  remove_root
}

test_wheel() {
  make_root "$1" python3 python3-venv python3-numpy
  cp "$wheel" tests/python/test_kernels.py "$root/root/"
  step '! command -v cc c++ gcc g++ clang'
  step 'python3 -m venv --system-site-packages venv && venv/bin/pip install --no-index tegula-*.whl'
  step 'TEGULA_DEVICE=sim venv/bin/python test_kernels.py'
  step 'TEGULA_DEVICE=cpu venv/bin/python test_kernels.py'
  step 'venv/bin/pip uninstall --yes tegula && ! venv/bin/python -c "import tegula"'
  remove_root
}

[ "$what" = wheel ] || archive=$(one_file 'tegula-*.tar.gz')
[ "$what" = archive ] || wheel=$(one_file 'tegula-*.whl')
root_env+=(TEGULA_CACHE=off)
for suite in "${suites[@]}"; do
  for package in archive wheel; do
    [ "$what" = all ] || [ "$what" = $package ] || continue
    echo "package_test: $package, $suite"
    test_$package "$suite"
  done
done
