#!/usr/bin/env bash
# The whole way of a dump: simulates a flow, converts it with 4 ranks, indexes it, serves it, reads it coarse to fine over
# the network, compares it with the dump, and makes pictures of the wake at three levels. Installs and builds what is missing.
# Usage: scripts/demo.sh [--view] [OUTPUT_DIRECTORY]     default: demo-output
#   --view   builds the viewer as well, leaves the server running, and prints the link to the wake
set -euo pipefail
source "$(dirname "$0")/help.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
view=
case "${1:-}" in
  --view) view=1; shift ;;
  -*) echo "demo: \"$1\" is not known; see scripts/demo.sh --help" >&2; exit 2 ;;
esac
output=$(realpath -m "${1:-$root/demo-output}")
cd "$root"
source scripts/environment.sh
[ $# -le 1 ] || { echo "demo: usage: scripts/demo.sh [--view] [OUTPUT_DIRECTORY]" >&2; exit 2; }
dims=128x64x64
step=1800
dump="$output/dump/step00$step"
dataset="$output/wake.quarry"

begin=$SECONDS
number=0
say() {
  number=$((number + 1))
  printf '\n== step %d of 9, %d:%02d: %s\n' $number $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60)) "$*"
}

say "build the five programs of the demo"
scripts/build.sh release lbm quarry-write quarry-index quarry-server quarry
[ -z "$view" ] || scripts/build.sh web
bin=$PWD/build/release/bin
mkdir -p "$output"
# Removes only what an earlier demo left: the directory may hold other things.
rm -rf "$output"/dump "$output"/wake.quarry "$output"/wake-level?.png "$output"/vorticity.raw "$output"/report.json "$output"/server.log

say "simulate: flow past a cylinder, $dims cells, 4 ranks"
mpirun -n 4 "$bin/lbm" --dims "$dims" --steps "$step" --dump-every "$step" --output "$output/dump"

say "convert: vorticity and velocity of the dump, 4 ranks"
mpirun -n 4 "$bin/quarry-write" "$dump"/lbm-vorticity-*.raw "$dump"/lbm-velocity_x-*.raw --output "$dataset" --step "$step" \
  --relative 1e-3 --patch 32 --files 2 --order level --report "$output/report.json"

say "index"
"$bin/quarry-index" "$dataset"

say "serve"
page=()
[ -z "$view" ] || page=(--http 127.0.0.1:0)
"$bin/quarry-server" "$output" --listen 127.0.0.1:0 "${page[@]}" --quiet >"$output/server.log" &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
until address=$(sed -n 's/^listening on //p' "$output/server.log") && [ -n "$address" ]; do
  kill -0 $server || { echo "the server did not start" >&2; exit 1; }
  sleep 0.05
done
target="grpc://$address/wake"
"$bin/quarry" ls "grpc://$address"
"$bin/quarry" info "$target"

say "read coarse to fine over the network"
"$bin/quarry" get "$target" --field vorticity --progressive --output "$output/vorticity.raw"

say "compare with the dump"
"$bin/quarry" verify "$target" --field vorticity --against "$dump"/lbm-vorticity-*.raw
"$bin/quarry" verify "$dataset"

say "pictures of the wake, mid plane, three levels"
for level in 2 1 0; do
  "$bin/quarry" get "$target" --field vorticity --box :,:,32:33 --level $level --zoom $((6 << level)) --colormap magma --range 0:0.05 \
    --output "$output/wake-level$level.png"
done

if [ -n "$view" ]; then
  say "view"
  trap - EXIT
  disown $server
  printf 'open    http://%s/#d=wake&f=vorticity&map=magma&range=locked&low=0&high=0.05&vol=0.3,0.75,ray\nend it  kill %s\n' "$(sed -n 's/^http on //p' "$output/server.log")" $server
  exit
fi
say "stop"
kill -TERM $server
trap - EXIT
wait $server
printf 'server ended with 0 after %d:%02d; look at %s\n' $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60)) \
  "$output/wake-level0.png"
