#!/usr/bin/env bash
# Fills .gpu/ with the files that a GPU machine needs: stripped libraries, the program, the benchmark library,
# the GPU tests, and run.sh, which runs them from any folder. EXTRA='differential_tests property_tests' adds test programs:
# .gpu/run.sh differential/ '--gtest_filter=*cuda*'.
#
# gpu_pack.sh --libraries FOLDER fills FOLDER/lib with the files that bench/compare.py compares: the stripped libraries, at most
# 48 MB: compressed, two such folders fit the 64 MiB that a GPU machine accepts.
set -euo pipefail
cd "$(dirname "$0")/../.."
limit=$((50 * 1000 * 1000))
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
  check_size "$folder" $((48 * 1000 * 1000))
  exit
fi

has() { compgen -G "$1" >/dev/null; }
targets=(tegula tegula_worker gpu_tests tegula_test_exports tegula_python_kernels) # the last two for tests/python
has 'tools/*.cpp' && targets+=(tegula_program)
has 'bench/*.cpp' && targets+=(tegula_bench)
tools/dev/build.sh "$preset" "${targets[@]}"
grep -q 'TEGULA_LLVM:BOOL=ON' $tree/CMakeCache.txt && tools/dev/build.sh "$preset" tegula_llvm
tests="gpu_tests ${EXTRA:-}"
# shellcheck disable=SC2086  # words
tools/dev/build.sh "$preset" $tests

rm -rf .gpu
mkdir -p .gpu/lib .gpu/tools .gpu/programs
cp -P $tree/lib/*.so* .gpu/lib/
cp -r $tree/lib/tegula .gpu/lib/
has 'tools/*.cpp' && cp $tree/tools/tegula .gpu/tools/
for test in $tests; do
  cp "$tree/tests/$test" .gpu/programs/
done
find .gpu -type f -exec strip --strip-unneeded {} +
cp -r --parents tests/filetests .gpu/  # programs that GPU tests run

cat > .gpu/run.sh <<'EOF'
#!/usr/bin/env bash
# run.sh [FILTER [GTEST ARGS...]]: runs the test files whose path contains FILTER, one per core at a time, then
# those that time the host one by one, each with both back ends; run.sh tegula ARGS... runs the program. BACKENDS=llvm selects
# one back end, LIMIT=60 stops each file after a minute. Tests whose name ends in a back end run by that one alone, unless
# a --gtest_filter is given.
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

# Runs one file by one back end; prints a line when it ends, and its output if it failed.
run_one() {
  local logs=$1 backend=$2 program=$3 file=$4 shards=$5 shard=$6 begin=$SECONDS code=0
  shift 6
  local other=nvrtc
  [ "$backend" = llvm ] || other=llvm
  local log=$logs/${file//\//_}.$backend.$shard
  GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard TEGULA_BACKEND=$backend timeout "${LIMIT:-600}" "$program" --file="$file" --gtest_brief=1 --gtest_filter="-*$other" "$@" >"$log" 2>&1 || code=$?
  [ $code -eq 77 ] && return  # the filter matches no test of the file
  [ $code -eq 0 ] || { cat "$log"; touch "$log.failed"; }
  echo "$file $shard/$shards by $backend: exit $code, $((SECONDS - begin)) s, $(tail -n 1 "$log")"
  touch "$log.done"
}
export -f run_one

# run_all TIMES_HOST AT_ONCE: runs the files that time the host, or the others.
run_all() {
  for backend in ${BACKENDS:-llvm nvrtc}; do
    for program in programs/*; do
      files=$("$program" --files) || { touch "$logs/${program##*/}.failed"; echo "$program: does not start"; continue; }
      for file in $files; do
        local times_host=0
        [[ $file = *runtime_launch* || $file = *queued_calls* ]] && times_host=1
        local shards=1  # files of many kernels are compiled by several processes
        [[ $file = *random_moe* || $file = *device_kernels* || $file = *attention_backward* || $file = *paged_attention* ]] && shards=8
        [[ $file = *"$filter"* ]] && [ $times_host = "$1" ] || continue
        for ((shard = 0; shard < shards; shard++)); do
          printf '%s\0%s\0%s\0%s\0%s\0' "$backend" "$program" "$file" $shards $shard
        done
      done
    done
  done | xargs -0 -r -n 5 -P "$2" bash -c 'run_one "$1" "${@: -5}" "${@:2:$#-6}"' _ "$logs" "${args[@]}"
}

run_all 0 "$(nproc)"
run_all 1 1
failed=$(find "$logs" -name '*.failed' | wc -l)
echo "$(($(find "$logs" -name '*.done' | wc -l) - failed)) passed, $failed failed"
[ "$failed" -eq 0 ] && compgen -G "$logs/*.done" >/dev/null
EOF
chmod +x .gpu/run.sh

check_size .gpu $limit
