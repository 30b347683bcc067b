#!/usr/bin/env bash
# Installs the packages of a build into a bare Debian 12 root, converts a real volume there, serves it, reads it, compares
# it with the source, uninstalls, and checks that nothing is left. Needs root (chroot) and mmdebstrap; the first run
# downloads the bare root and what the packages depend on, later ones take both from the cache.
# Usage: tests/install/bare_root.sh BUILD_DIRECTORY     one of the preset "package"
#   QUARRY_CACHE   where downloads are kept; default: ~/.cache/quarry
#   QUARRY_DATA    folder with wmag91.f32; default: ../shared/data beside the repository
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "$1")
cache=${QUARRY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quarry}
data=${QUARRY_DATA:-$here/../../../shared/data}
volume=wmag91.f32
work=$(mktemp -d)
root=$work/root
server=
trap '[ -z "$server" ] || kill "$server" || true; rm -rf "$work"' EXIT

fail() { echo "bare_root: $*" >&2; exit 1; }
inside=(chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive)
inside() { "${inside[@]}" "$@"; }

[ "$(id -u)" -eq 0 ] || fail "needs root, for chroot"
[ -s "$data/$volume" ] || fail "there is no $data/$volume; QUARRY_DATA names its folder"
command -v mmdebstrap >/dev/null || fail "needs mmdebstrap: apt-get install mmdebstrap"

echo "== packages"
rm -f "$build"/*.deb
(cd "$build" && cpack --config CPackConfig.cmake >"$work/log" 2>&1) || { cat "$work/log"; fail "cpack"; }
(cd "$build" && ls -1 ./*.deb)
package=$(ls "$build"/quarry_*.deb)

echo "== bare root"
base=$cache/bookworm.tar
mkdir -p "$cache/archives" "$root"
if [ ! -s "$base" ]; then
  sources=()
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
mkdir -p "$root/packages" "$root/data"
cp "$build"/*.deb "$root/packages/"
cp "$data/$volume" "$root/data/"
find "$cache/archives" -name '*.deb' -exec cp -t "$root/var/cache/apt/archives" {} +

# What a package may leave behind: everything but apt's own records, logs and caches.
contents() {
  (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./data -o -path ./packages \
    -o -path ./var/cache -o -path ./var/log -o -path ./var/lib/apt -o -path ./var/lib/dpkg \) -prune -o -print | sort)
}
contents >"$work/before"

echo "== install"
install_packages() { inside apt-get install -y --no-install-recommends "$@" >"$work/log" 2>&1; }
install_packages "/packages/$(basename "$package")" ||
  { inside apt-get update >"$work/log" 2>&1 && install_packages "/packages/$(basename "$package")"; } ||
  { tail -20 "$work/log"; fail "apt-get install"; }
cp -n "$root"/var/cache/apt/archives/*.deb "$cache/archives/" 2>/dev/null || true
inside apt-get install --simulate $(cd "$root" && ls packages/*.deb | sed 's|^|/|') >"$work/log" 2>&1 ||
  { tail -20 "$work/log"; fail "not all packages can be installed together"; }
! inside dpkg -l 'libopenmpi*' 2>/dev/null | grep -q ^ii || fail "the package \"quarry\" brings MPI"
for program in quarry quarry-index quarry-plan quarry-server quarry-write; do
  inside "$program" --version
done

echo "== convert, index, serve, read, compare"
inside quarry-write /data/$volume --dims 91x91x91 --type float32 --lossless --output /data/exact.quarry | tail -3
inside quarry-write /data/$volume --dims 91x91x91 --type float32 --relative 1e-3 --output /data/lossy.quarry | tail -3
for dataset in exact lossy; do inside quarry-index /data/$dataset.quarry; done
: >"$work/server.log"
"${inside[@]}" quarry-server /data --listen 127.0.0.1:0 --quiet >"$work/server.log" &
server=$!
until address=$(sed -n 's/^listening on //p' "$work/server.log") && [ -n "$address" ]; do
  kill -0 $server || fail "the server did not start"
  sleep 0.05
done
inside quarry ls "grpc://$address"
inside quarry get "grpc://$address/exact" --output /data/exact.raw
cmp "$data/$volume" "$root/data/exact.raw" || fail "other samples come back than went in"
inside quarry get /data/exact.quarry --level 2 --output /data/coarse.npy
inside quarry verify "grpc://$address/lossy" --against /data/$volume --dims 91x91x91 --type float32
kill -TERM $server
wait $server || fail "the server ended with $?"
server=

echo "== uninstall"
inside apt-get purge -y --autoremove quarry >"$work/log" 2>&1 || { tail -20 "$work/log"; fail "apt-get purge"; }
contents >"$work/after"
diff "$work/before" "$work/after" >"$work/left" || { cat "$work/left"; fail "the packages leave something behind"; }
! inside dpkg -l 'quarry*' 'libquarry*' 2>/dev/null | grep -q '^[a-z][a-z]' || fail "dpkg still knows the packages"
echo "nothing is left"
