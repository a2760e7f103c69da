#!/usr/bin/env bash
# Fills .gpu/ with what a GPU machine needs and nothing else: stripped libraries, the program, the benchmark library,
# the tests labelled gpu, and run.sh, which runs them from wherever the folder lies. EXTRA='differential_(tma_aux_loads|atomic).*' takes further
# tests along: .gpu/run.sh differential_ '--gtest_filter=*cuda*'.
#
# gpu_pack.sh --libraries FOLDER fills FOLDER/lib with what bench/compare.py compares, and nothing else: the stripped libraries, at most
# 32 MB, so that two of them reach a GPU machine that takes 64 MiB.
set -euo pipefail
cd "$(dirname "$0")/../.."
limit=$((56 * 1000 * 1000))
preset=${PRESET:-release}  # PRESET=ci: for tests alone, with assertions
tree=build/$preset

# Sizes of a folder's files and their sum, which must not exceed a limit.
check_size() {
  local folder=$1 limit=$2 size
  size=$(find "$folder" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
  find "$folder" -type f -printf '%10s %p\n' | sort -k2
  printf '%10d in all, at most %d\n' "$size" "$limit"
  [ "$size" -le "$limit" ] || { echo "gpu-pack: too large" >&2; exit 1; }
}

if [ "${1:-}" = --libraries ]; then
  folder=${2:?gpu_pack.sh --libraries FOLDER}
  tools/dev/build.sh "$preset" tegula tegula_bench
  grep -q 'TEGULA_LLVM:BOOL=ON' $tree/CMakeCache.txt && tools/dev/build.sh "$preset" tegula_llvm
  rm -rf "${folder:?}/lib"
  mkdir -p "$folder/lib"
  cp -P $tree/lib/libtegula*.so* "$folder/lib/"
  find "$folder/lib" -type f -exec strip --strip-unneeded {} +
  check_size "$folder" $((32 * 1000 * 1000))
  exit
fi

# The programs of tests; shards of one program (NAME_llvm_3, NAME_nvrtc_Sorts) are one.
tests_of() { ctest --test-dir $tree "$@" -N | sed -n 's/.*Test *#[0-9]*: //p' | sed -E 's/_(llvm|nvrtc)_[A-Za-z0-9]+$//' | sort -u; }
has() { compgen -G "$1" >/dev/null; }
targets=(tegula tegula_worker gpu_tests tegula_test_exports) # the last one for tests/python/gpu_torch.py
has 'tools/*.cpp' && targets+=(tegula_program)
has 'bench/*.cpp' && targets+=(tegula_bench)
tools/dev/build.sh "$preset" "${targets[@]}"
grep -q 'TEGULA_LLVM:BOOL=ON' $tree/CMakeCache.txt && tools/dev/build.sh "$preset" tegula_llvm
tests=$(tests_of -L gpu)
if [ -n "${EXTRA:-}" ]; then
  extra=$(tests_of -R "^($EXTRA)$")
  # shellcheck disable=SC2086  # words
  tools/dev/build.sh "$preset" $extra
  tests+=" $extra"
fi

rm -rf .gpu
mkdir -p .gpu/lib .gpu/tools .gpu/tests
cp -P $tree/lib/*.so* .gpu/lib/
cp -r $tree/lib/tegula .gpu/lib/
has 'tools/*.cpp' && cp $tree/tools/tegula .gpu/tools/
for test in $tests; do
  cp "$tree/tests/$test" .gpu/tests/
done
find .gpu -type f -exec strip --strip-unneeded {} +
cp -r --parents tests/filetests .gpu/  # programs that GPU tests run

cat > .gpu/run.sh <<'EOF'
#!/usr/bin/env bash
# run.sh [FILTER [GTEST ARGS...]]: runs the GPU tests whose name holds FILTER, as many at once as there are cores, those that time the
# host one by one behind them, each by both back ends; run.sh tegula ARGS... runs the program. BACKENDS=llvm takes one, LIMIT=60 stops each program after a minute.
cd "$(dirname "$0")" || exit 1
if [ "${1:-}" = tegula ]; then
  shift
  exec tools/tegula "$@"
fi
filter=${1:-}
[ $# -gt 0 ] && shift
args=("$@")
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# One program by one back end: a line when it ends, and what it said where it failed.
run_one() {
  local logs=$1 backend=$2 test=$3 begin=$SECONDS code=0
  shift 3
  local log=$logs/${test##*/}.$backend
  TEGULA_BACKEND=$backend timeout "${LIMIT:-600}" "$test" --gtest_brief=1 "$@" >"$log" 2>&1 || code=$?
  [ $code -eq 0 ] || { cat "$log"; touch "$log.failed"; }
  echo "$test by $backend: exit $code, $((SECONDS - begin)) s, $(tail -n 1 "$log")"
  touch "$log.done"
}
export -f run_one

# run_all TIMES_HOST AT_ONCE: those that time the host, or the others.
run_all() {
  for backend in ${BACKENDS:-llvm nvrtc}; do
    for test in tests/*"$filter"*; do
      local times_host=0
      [[ $test = *runtime_launch* || $test = *queued_calls* ]] && times_host=1
      [ -f "$test" ] && [ -x "$test" ] && [ $times_host = "$1" ] && printf '%s\0%s\0' "$backend" "$test"
    done
  done | xargs -0 -r -n 2 -P "$2" bash -c 'logs=$1 backend=${*: -2:1} test=${*: -1}; run_one "$logs" "$backend" "$test" "${@:2:$#-3}"' _ "$logs" "${args[@]}"
}

run_all 0 "$(nproc)"
run_all 1 1
failed=$(find "$logs" -name '*.failed' | wc -l)
echo "$(($(find "$logs" -name '*.done' | wc -l) - failed)) programs passed, $failed failed"
[ "$failed" -eq 0 ]
EOF
chmod +x .gpu/run.sh

check_size .gpu $limit
