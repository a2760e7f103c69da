#!/usr/bin/env bash
# clean_clone.sh CASE [COMMAND...]: clones HEAD into a bare chroot and runs the commands there as a newcomer would, by
# default those of the README: `make demo` and `make test`. Prints the seconds of each. Needs root and a Debian mirror.
#   gcc12    Debian 12
#   clang19  Debian 12, clang-19 as the compiler
#   gcc14    Debian 13
#   bare     Debian 12 without ptxas and NVRTC; the others get this machine's CUDA toolkit, if there is one
# The chroot is created in a new folder of $TEGULA_CHROOTS, by default of /tmp, which must not be mounted nodev, and takes
# about 6 GB.
set -euo pipefail
# shellcheck source=tools/dev/bare_root.sh
. "$(dirname "$0")/bare_root.sh"
cd "$(dirname "$0")/../.."

case=${1:?clean_clone.sh gcc12|clang19|gcc14|bare [COMMAND...]}
shift
commands=("$@")
[ $# -gt 0 ] || commands=("make demo" "make test")
suite=bookworm
packages=(make git)
cuda=$(readlink -f /usr/local/cuda)
root_env+=(CCACHE_DISABLE=1)
case $case in
  gcc12) ;;
  clang19) packages+=(clang-19) root_env+=(CC=clang-19 CXX=clang++-19) ;;
  gcc14) suite=trixie ;;
  bare) cuda= ;;
  *) echo "clean_clone: unknown case $case" >&2; exit 2 ;;
esac

begin=$SECONDS
make_root "$suite" "${packages[@]}"
if [ -d "$cuda" ]; then
  mkdir -p "$root/usr/local/cuda"
  mount --bind "$cuda" "$root/usr/local/cuda"
  mount -o remount,bind,ro "$root/usr/local/cuda"
fi
git clone --quiet --no-local . "$root/home/tegula"  # where other users can run programs, which a test does
echo "clean_clone: $case, $(git rev-parse --short HEAD): the root took $((SECONDS - begin)) s"

for command in "${commands[@]}"; do
  begin=$SECONDS status=0
  in_root /home/tegula "$command" || status=$?
  echo "clean_clone: $case: $command: exit $status, $((SECONDS - begin)) s"
  [ $status -eq 0 ] || exit 1
done
