#!/usr/bin/env bash
# Fills .gpu/ with what a GPU machine needs and nothing else: stripped libraries, the program, the benchmark library,
# the tests labelled gpu, and run.sh, which runs them from wherever the folder lies.
set -euo pipefail
cd "$(dirname "$0")/../.."
limit=$((56 * 1000 * 1000))
tree=build/release

has() { compgen -G "$1" >/dev/null; }
targets=(tegula gpu_tests)
has 'tools/*.cpp' && targets+=(tegula_program)
has 'bench/*.cpp' && targets+=(tegula_bench)
tools/dev/build.sh release "${targets[@]}"
grep -q 'TEGULA_LLVM:BOOL=ON' $tree/CMakeCache.txt && tools/dev/build.sh release tegula_llvm

rm -rf .gpu
mkdir -p .gpu/lib .gpu/tools .gpu/tests
cp -P $tree/lib/*.so* .gpu/lib/
has 'tools/*.cpp' && cp $tree/tools/tegula .gpu/tools/
for test in $(ctest --test-dir $tree -L gpu -N | sed -n 's/.*Test *#[0-9]*: //p'); do
  cp "$tree/tests/$test" .gpu/tests/
done
find .gpu -type f -exec strip --strip-unneeded {} +
cp -r --parents tests/filetests .gpu/  # programs that GPU tests run

cat > .gpu/run.sh <<'EOF'
#!/usr/bin/env bash
# run.sh [FILTER [GTEST ARGS...]]: runs the GPU tests whose name holds FILTER; run.sh tegula ARGS... runs the program.
cd "$(dirname "$0")" || exit 1
if [ "${1:-}" = tegula ]; then
  shift
  exec tools/tegula "$@"
fi
filter=${1:-}
[ $# -gt 0 ] && shift
passed=0
failed=()
for test in tests/*"$filter"*; do
  [ -f "$test" ] && [ -x "$test" ] || continue
  if "$test" --gtest_brief=1 "$@"; then passed=$((passed + 1)); else failed+=("$test"); fi
done
[ ${#failed[@]} -eq 0 ] || printf 'FAILED %s\n' "${failed[@]}"
echo "$passed programs passed, ${#failed[@]} failed"
[ ${#failed[@]} -eq 0 ]
EOF
chmod +x .gpu/run.sh

size=$(find .gpu -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
find .gpu -type f -printf '%10s %p\n' | sort -k2
printf '%10d in all, at most %d\n' "$size" "$limit"
[ "$size" -le "$limit" ] || { echo "gpu-pack: too large" >&2; exit 1; }
