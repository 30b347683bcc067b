#!/usr/bin/env bash
# Builds the web page's modules into build/wasm: its decoder, quarry_decoder.wasm (SIMD) and quarry_decoder_scalar.wasm, and
# what reads datasets of web servers, quarry_bucket.wasm. Copies them to clients/web/build/wasm, where the page takes them
# from.
# Usage: scripts/wasm.sh [--check]     --check: fails where a compressed module exceeds its limit, below
# The first run installs Debian's emscripten and fetches the sources of zstd, zfp and Protocol Buffers, from crates.io's
# packages of them; later ones need no network. QUARRY_JOBS=NUMBER compiles that many files at a time.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
build=$PWD/build/wasm
sources=$build/sources
page=$PWD/clients/web/build/wasm
# Bytes of a module, as gzip -9 leaves them.
declare -A most=([quarry_decoder]=185000 [quarry_decoder_scalar]=185000 [quarry_bucket]=665000)

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

scripts/install-dependencies.sh curl emscripten libfmt-dev nlohmann-json3-dev protobuf-compiler
fetch zstd-sys 2.0.16+zstd.1.5.7 91e19ebc2adc8f83e43039e79776e3fda8ca919132d68a1fed6a5faca2683748 zstd/lib/zstd.h
fetch zfp-sys 0.1.15 cf69043aebc6069a823b130b451a2999dfc4f6a2141de59e18e29b50305655c6 zfp/src/zfp.c
fetch protobuf-src 1.1.0+21.5 c7ac8852baeb3cc6fb83b93646fb93c0ffe5d14bf138c945ceb4b9948ee0e3c1 protobuf/src/google/protobuf/message.cc
# Headers of the system, apart from those that would hide emscripten's own. The decoder has its own fmt.
mkdir -p "$build/headers" "$build/library-headers"
cp --archive --update /usr/include/xxhash.h "$build/headers/"
cp --archive --update /usr/include/fmt /usr/include/nlohmann "$build/library-headers/"

launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
emcmake cmake -S clients/web/wasm -B "$build" -G Ninja "${launcher[@]}" \
  -DQUARRY_ZSTD="$sources/zstd-sys-2.0.16+zstd.1.5.7/zstd/lib" -DQUARRY_ZFP="$sources/zfp-sys-0.1.15/zfp" \
  -DQUARRY_HEADERS="$build/headers" -DQUARRY_LIBRARY_HEADERS="$build/library-headers" \
  -DQUARRY_PROTOBUF="$sources/protobuf-src-1.1.0+21.5/protobuf/src" >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2; exit 1; }
echo "building the modules"
# Every line that is not the progress of a step is a warning or an error, and is shown.
NINJA_STATUS="@" cmake --build "$build" ${QUARRY_JOBS:+--parallel "$QUARRY_JOBS"} | { grep -v "^@\|^ninja: no work" || true; }

mkdir -p "$page"
status=0
for name in quarry_decoder quarry_decoder_scalar quarry_bucket; do
  cmp --quiet "$build/$name.wasm" "$page/$name.wasm" || cp "$build/$name.wasm" "$page/$name.wasm"
  size=$(stat -c %s "$build/$name.wasm")
  compressed=$(gzip -9 --no-name --stdout "$build/$name.wasm" | wc -c)
  echo "$name.wasm: $size bytes, $compressed compressed"
  if [ "${1:-}" = --check ] && [ "$compressed" -gt "${most[$name]}" ]; then
    echo "wasm: $name.wasm has $compressed bytes compressed, ${most[$name]} are allowed" >&2
    status=1
  fi
done
exit $status
