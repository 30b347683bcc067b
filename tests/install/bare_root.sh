#!/usr/bin/env bash
# Installs the packages of a build into a bare Debian 12 root, converts a real volume there, serves it, reads it, compares
# it with the source, uninstalls, and checks that nothing is left. Needs root (chroot) and mmdebstrap; the first run
# downloads the bare root and what the packages depend on, later ones take both from the cache.
# Usage: tests/install/bare_root.sh BUILD_DIRECTORY     one of the preset "package"
#   QUARRY_CACHE   where downloads are kept; default: ~/.cache/quarry
#   QUARRY_DATA    folder with wmag91.f32; default: ../shared/data beside the repository
source "$(dirname "$0")/bare_root_lib.sh"
build=$(realpath "$1")
data=${QUARRY_DATA:-$here/../../../shared/data}
volume=wmag91.f32
[ -s "$data/$volume" ] || fail "there is no $data/$volume; QUARRY_DATA names its folder"

echo "== packages"
rm -f "$build"/*.deb
(cd "$build" && cpack --config CPackConfig.cmake >"$work/log" 2>&1) || { cat "$work/log"; fail "cpack"; }
(cd "$build" && ls -1 ./*.deb)
package=$(ls "$build"/quarry_*.deb)

echo "== bare root"
make_root
mkdir -p "$root/packages" "$root/data"
cp "$build"/*.deb "$root/packages/"
cp "$data/$volume" "$root/data/"

# Files that a package may leave behind: everything but apt's own records, logs and caches.
contents() {
  (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./data -o -path ./packages \
    -o -path ./var/cache -o -path ./var/log -o -path ./var/lib/apt -o -path ./var/lib/dpkg \) -prune -o -print | sort)
}
contents >"$work/before"

echo "== install"
install_packages "/packages/$(basename "$package")"
! inside dpkg -l 'libopenmpi*' 2>/dev/null | grep -q ^ii || fail "the package \"quarry\" brings MPI"
for program in quarry quarry-index quarry-plan quarry-server quarry-write; do
  inside "$program" --version
done
[ -s "$root/usr/share/quarry/viewer/index.html" ] || fail "the package \"quarry\" has no viewer"

echo "== convert, index, serve, read, compare"
inside quarry-write /data/$volume --dims 91x91x91 --type float32 --lossless --output /data/exact.quarry | tail -3
inside quarry-write /data/$volume --dims 91x91x91 --type float32 --relative 1e-3 --output /data/lossy.quarry | tail -3
for dataset in exact lossy; do inside quarry-index /data/$dataset.quarry; done
start_server quarry-server /data
inside quarry ls "grpc://$address"
inside quarry get "grpc://$address/exact" --output /data/exact.raw
cmp "$data/$volume" "$root/data/exact.raw" || fail "other samples come back than went in"
inside quarry get /data/exact.quarry --level 2 --output /data/coarse.npy
inside quarry verify "grpc://$address/lossy" --against /data/$volume --dims 91x91x91 --type float32
stop_server

echo "== uninstall"
inside apt-get purge -y --autoremove quarry >"$work/log" 2>&1 || { tail -20 "$work/log"; fail "apt-get purge"; }
contents >"$work/after"
diff "$work/before" "$work/after" >"$work/left" || { cat "$work/left"; fail "the packages leave something behind"; }
! inside dpkg -l 'quarry*' 'libquarry*' 2>/dev/null | grep -q '^[a-z][a-z]' || fail "dpkg still knows the packages"
echo "nothing is left"

echo "== all packages together"
install_packages openmpi-bin $(cd "$root" && ls packages/*.deb | sed 's|^|/|')  # with recommended packages: mpirun
for program in quarry-write-mpi quarry-iobench quarry-spectrum; do
  inside "$program" --version
done
inside quarry-write /data/$volume --dims 91x91x91 --type float32 --lossless --output /data/again.quarry | tail -1
inside dpkg -S /usr/include/quarry/client.h | grep -q ^libquarry-dev || fail "libquarry-dev has no client.h"
inside apt-get purge -y --autoremove 'quarry*' 'libquarry*' >"$work/log" 2>&1 || { tail -20 "$work/log"; fail "apt-get purge"; }
! inside dpkg -l 'quarry*' 'libquarry*' 2>/dev/null | grep -q '^[a-z][a-z]' || fail "dpkg still knows the packages"
! (cd "$root" && find . -xdev \( -path ./packages -o -path ./data -o -path ./proc -o -path ./var/cache \) -prune -o -iname '*quarry*' -print) |
  grep . || fail "the packages leave something behind"
echo "nothing is left of all of them"
