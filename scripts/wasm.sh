#!/usr/bin/env bash
# Builds the web page's decoder into build/wasm: quarry_decoder.wasm (SIMD) and quarry_decoder_scalar.wasm. Copies both to
# clients/web/build/wasm, where the page takes them from.
# Usage: scripts/wasm.sh [--check]     --check: fails where a compressed module exceeds 185 kB
# The first run installs Debian's emscripten and fetches the sources of zstd and zfp, from crates.io's packages of them;
# later ones need no network. QUARRY_JOBS=NUMBER compiles that many files at a time.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
build=$PWD/build/wasm
sources=$build/sources
page=$PWD/clients/web/build/wasm
most=185000   # bytes of a module, as gzip -9 leaves them

# fetch CRATE VERSION SHA256 FILE: the sources of a C library, as a Rust package carries them, below $sources/CRATE-VERSION.
# FILE is the one that is looked for.
fetch() {
  local crate=$1 version=$2 checksum=$3 file=$4
  [ -e "$sources/$crate-$version/$file" ] && return
  local new=$sources/.new archive=$sources/.new/archive found
  rm -rf "$new"
  mkdir -p "$new"
  echo "fetching $crate $version"
  curl --fail --silent --show-error --location --retry 3 --output "$archive" \
    "https://static.crates.io/crates/$crate/$crate-$version.crate"
  found=$(sha256sum "$archive" | cut -d' ' -f1)
  if [ "$found" != "$checksum" ]; then
    rm -rf "$new"
    echo "wasm: $crate-$version.crate has the SHA-256 $found instead of $checksum; something between here and crates.io" \
      "changes it: try another network" >&2
    exit 1
  fi
  tar --extract --gzip --file "$archive" --directory "$new"
  rm -rf "$sources/$crate-$version"
  mv "$new/$crate-$version" "$sources/"
  rm -rf "$new"
}

scripts/install-dependencies.sh curl emscripten
fetch zstd-sys 2.0.16+zstd.1.5.7 91e19ebc2adc8f83e43039e79776e3fda8ca919132d68a1fed6a5faca2683748 zstd/lib/zstd.h
fetch zfp-sys 0.1.15 cf69043aebc6069a823b130b451a2999dfc4f6a2141de59e18e29b50305655c6 zfp/src/zfp.c
# One header of the system, apart from those that would hide emscripten's.
mkdir -p "$build/headers"
cp --archive --update /usr/include/xxhash.h "$build/headers/"

launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
emcmake cmake -S clients/web/wasm -B "$build" -G Ninja "${launcher[@]}" \
  -DQUARRY_ZSTD="$sources/zstd-sys-2.0.16+zstd.1.5.7/zstd/lib" -DQUARRY_ZFP="$sources/zfp-sys-0.1.15/zfp" \
  -DQUARRY_HEADERS="$build/headers" >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2; exit 1; }
echo "building the decoder"
# Every line that is not the progress of a step is a warning or an error, and is shown.
NINJA_STATUS="@" cmake --build "$build" ${QUARRY_JOBS:+--parallel "$QUARRY_JOBS"} | { grep -v "^@\|^ninja: no work" || true; }

mkdir -p "$page"
status=0
for name in quarry_decoder quarry_decoder_scalar; do
  cmp --quiet "$build/$name.wasm" "$page/$name.wasm" || cp "$build/$name.wasm" "$page/$name.wasm"
  size=$(stat -c %s "$build/$name.wasm")
  compressed=$(gzip -9 --no-name --stdout "$build/$name.wasm" | wc -c)
  echo "$name.wasm: $size bytes, $compressed compressed"
  if [ "${1:-}" = --check ] && [ "$compressed" -gt "$most" ]; then
    echo "wasm: $name.wasm has $compressed bytes compressed, $most are allowed" >&2
    status=1
  fi
done
exit $status
