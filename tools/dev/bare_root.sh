# shellcheck shell=bash
# Functions to run commands in a bare Debian, for scripts that source this file before anything else. mmdebstrap creates
# the root from the mirror that this machine's apt uses. The script restarts itself in a separate mount namespace,
# so that no mount outlives it.
[ "$(id -u)" -eq 0 ] || { echo "${0##*/}: a chroot needs root" >&2; exit 1; }
if [ -z "${TEGULA_MOUNT_NAMESPACE:-}" ]; then
  TEGULA_MOUNT_NAMESPACE=1 exec unshare --mount --propagation private "$(realpath "$0")" "$@"
fi

root=       # the current root; empty: there is none
root_env=() # further variables of the commands in it
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
  [ -n "${!name:-}" ] && root_env+=("$name=${!name}")
done

# debian_sources SUITE: lines of sources.list for the suite, from the Debian archives in this machine's configuration.
debian_sources() {
  local here
  here=$(. /etc/os-release && echo "$VERSION_CODENAME")
  # shellcheck disable=SC2016  # apt-get substitutes these
  apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
    sed -n "s|^Debian \([^ ]*\) $here\(-[a-z]*\)\{0,1\} \(.*\)|deb \1 $1\2 \3|p" | sort -u
}

# make_root SUITE PACKAGE...: creates $root with the packages and mounts /proc and /dev/shm. The device nodes are those
# that mmdebstrap creates: this machine's /dev may be broken, and a root must not be able to break it.
make_root() {
  local suite=$1 sources log certificates=/usr/local/share/ca-certificates
  shift
  command -v mmdebstrap >/dev/null || { apt-get update && apt-get install -y --no-install-recommends mmdebstrap; } >&2
  sources=$(debian_sources "$suite")
  [ -n "$sources" ] || { apt-get update >&2 && sources=$(debian_sources "$suite"); }
  [ -n "$sources" ] || { echo "${0##*/}: this machine's apt has no archive of Debian" >&2; exit 1; }

  root=$(mktemp -d "${TEGULA_CHROOTS:-${TMPDIR:-/tmp}}/tegula-$suite.XXXXXX")
  trap remove_root EXIT
  trap 'exit 130' INT TERM HUP
  log=$(mktemp)
  apt-config dump | grep -E '^Acquire::.*(Proxy|Check-Valid-Until|Check-Date)[^ ]* "[^"]' >"$log.apt" || true
  if ! mmdebstrap --mode=root --variant=apt --aptopt="$log.apt" --include="$(IFS=,; echo "ca-certificates $*" | tr ' ' ,)" \
      "$suite" "$root" - <<<"$sources" >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
  fi
  rm -f "$log" "$log.apt"
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  if compgen -G "$certificates/*.crt" >/dev/null; then
    cp "$certificates"/*.crt "$root$certificates/"
    chroot "$root" update-ca-certificates >/dev/null 2>&1
  fi
  mount -t proc proc "$root/proc"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
}

# remove_root: unmounts what is mounted in $root and removes it.
remove_root() {
  [ -n "$root" ] || return 0
  local place
  while read -r place; do
    umount "$place" || umount --lazy "$place"
  done < <(awk -v root="$root/" 'index($2, root) == 1 { print $2 }' /proc/self/mounts | tac)
  if grep -qF " $root/" /proc/self/mounts; then
    echo "${0##*/}: $root has mounts and is not removed" >&2
  else
    rm -rf --one-file-system "${root:?}"
  fi
  root=
}

# in_root FOLDER COMMAND: runs a shell command there as a new login would, with $root_env.
in_root() {
  # shellcheck disable=SC2016  # the inner shell expands these
  env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    "${root_env[@]}" chroot "$root" /bin/bash -c 'cd "$1" && eval "$2"' bash "$1" "$2"
}
