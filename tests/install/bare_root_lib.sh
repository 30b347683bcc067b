# A bare Debian 12 root for the tests of packages, sourced by them. Needs root (chroot) and mmdebstrap; the first run
# downloads the root and what the packages depend on, later ones take both from the cache.
#   QUARRY_CACHE   where downloads are kept; default: ~/.cache/quarry
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${QUARRY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quarry}
work=$(mktemp -d)
root=$work/root
server=
trap leave EXIT
leave() {
  [ -z "$server" ] || kill "$server" || true
  ! mountpoint -q "$root/proc" || umount --lazy "$root/proc"
  rm -rf --one-file-system "$work"
}

fail() { echo "$(basename "$0" .sh): $*" >&2; exit 1; }
inside=(chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive)
inside() { "${inside[@]}" "$@"; }

[ "$(id -u)" -eq 0 ] || fail "needs root, for chroot"
command -v mmdebstrap >/dev/null || fail "needs mmdebstrap: apt-get install mmdebstrap"

make_root() {
  local base=$cache/bookworm.tar file sources=()
  mkdir -p "$cache/archives" "$root"
  if [ ! -s "$base" ]; then
    for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
      ! grep -qs bookworm "$file" || { sources=("$file"); break; }
    done
    # With its lists of packages: later runs need no network.
    mmdebstrap --mode=root --variant=minbase --skip=cleanup/apt/lists bookworm "$work/base.tar" "${sources[@]}" >"$work/log" 2>&1 ||
      { tail -20 "$work/log"; fail "mmdebstrap"; }
    mv "$work/base.tar" "$base"
  fi
  tar -C "$root" -xf "$base"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  rm -f "$root/etc/apt/apt.conf.d/docker-clean"
  echo 'Binary::apt::APT::Keep-Downloaded-Packages "true"; APT::Keep-Downloaded-Packages "true";' >"$root/etc/apt/apt.conf.d/keep"
  mount -t proc proc "$root/proc"  # by which programs find libraries beside them
  find "$cache/archives" -name '*.deb' -exec cp -t "$root/var/cache/apt/archives" {} +
}

# install_packages NAME...: Debian packages, or files of them
install_packages() {
  try_install "$@" || { inside apt-get update >"$work/log" 2>&1 && try_install "$@"; } || { tail -20 "$work/log"; fail "apt-get install"; }
  cp -n "$root"/var/cache/apt/archives/*.deb "$cache/archives/" 2>/dev/null || true
}
try_install() { inside apt-get install -y --no-install-recommends "$@" >"$work/log" 2>&1; }

# start_server PROGRAM DIRECTORY: sets `address`
start_server() {
  : >"$work/server.log"
  "${inside[@]}" "$1" "$2" --listen 127.0.0.1:0 --quiet >"$work/server.log" &
  server=$!
  until address=$(sed -n 's/^listening on //p' "$work/server.log") && [ -n "$address" ]; do
    kill -0 $server || fail "the server did not start"
    sleep 0.05
  done
}
stop_server() {
  kill -TERM $server
  wait $server || fail "the server ended with $?"
  server=
}
