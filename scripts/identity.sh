#!/usr/bin/env bash
# Do the coders make the same bytes everywhere? Builds tests/identity with other compilers and optimisations than usual,
# and runs it with every instruction set. Exit code 1 if a fingerprint differs.
# Usage: scripts/identity.sh           installs Clang, and OpenMP, which zfp asks for
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-dependencies.sh clang libomp-14-dev
version() { command -v "$1-$2" || command -v "$1"; }
fingerprints=tests/identity/fingerprints.txt
failed=0

# check NAME CC CXX FLAGS
check() {
  local name=$1 build=build/identity/$1
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_C_COMPILER="$2" -DCMAKE_CXX_COMPILER="$3" \
        -DCMAKE_CXX_FLAGS="$4" -DQUARRY_BUILD_WRITER=OFF -DQUARRY_BUILD_SERVER=OFF -DQUARRY_BUILD_CLIENTS=OFF \
        -DQUARRY_BUILD_EXAMPLES=OFF -DQUARRY_BUILD_BENCHMARKS=OFF >/dev/null
  cmake --build "$build" --target identity_fingerprints >/dev/null
  for isa in scalar avx2 avx512; do
    # A processor without it takes its best one.
    echo -n "$name, $isa: "
    QUARRY_ISA=$isa "$build/bin/identity_fingerprints" $fingerprints || failed=1
  done
}

check gcc-O1 gcc g++ "-O1"
# Instructions that fuse a multiplication with an addition are there, and must not be used.
check gcc-O3-native gcc g++ "-O3 -march=native"
check clang-O2 "$(version clang 14)" "$(version clang++ 14)" "-O2"
check clang-O3-native "$(version clang 14)" "$(version clang++ 14)" "-O3 -march=native"
exit $failed
