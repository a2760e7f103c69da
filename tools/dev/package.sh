#!/usr/bin/env bash
# Builds the release and packs it in build/package/: a relocatable archive of libraries, headers and program, and a
# Python wheel. docs/packages.md describes both; tools/dev/package_test.sh tests them.
set -euo pipefail
cd "$(dirname "$0")/../.."
tree=build/release
out=build/package
targets=(tegula tegula_worker tegula_program tegula_bench tegula_python_kernels)
tools/dev/build.sh release "${targets[@]}"
if ! grep -q '^TEGULA_LLVM:BOOL=ON' $tree/CMakeCache.txt; then
  echo "package: the packages need the LLVM back end; $tree was configured without it" >&2
  exit 1
fi
tools/dev/build.sh release tegula_llvm
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' $tree/CMakeCache.txt)

rm -rf $out
mkdir -p $out
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# install_stripped PREFIX COMPONENT...
install_stripped() {
  local prefix=$1 component
  shift
  for component in "$@"; do
    cmake --install $tree --prefix "$prefix" --component "$component" >/dev/null
  done
  find "$prefix" -type f \( -name '*.so' -o -name '*.so.*' -o -perm -u=x \) -exec strip --strip-unneeded {} +
}

# copy_licenses FOLDER: those of the libraries that are linked statically, as Debian's packages state them.
copy_licenses() {
  local package
  mkdir -p "$1"
  for package in llvm-19-dev libfmt-dev libzstd-dev zlib1g-dev libpng-dev libxxhash-dev libsqlite3-dev \
      nlohmann-json3-dev libcli11-dev gcc-12-base gcc-14-base; do
    if [ -e "/usr/share/doc/$package/copyright" ]; then
      cp -L "/usr/share/doc/$package/copyright" "$1/$package"
    fi
  done
}

name=tegula-$version-linux-$(uname -m)
install_stripped "$stage/$name" library program
copy_licenses "$stage/$name/licenses"
cp LICENSE README.md "$stage/$name/"
cp -r docs "$stage/$name/docs"
tar --directory "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" \
  --create "$name" | gzip -9n >"$out/$name.tar.gz"

install_stripped "$stage/wheel" library python
copy_licenses "$stage/wheel/licenses"
python3 tools/dev/make_wheel.py "$stage/wheel" $out

for file in "$out"/*; do
  printf '%10d %s\n' "$(stat -c %s "$file")" "$file"
done
