#!/usr/bin/env bash
# Checks that the coders make the same bytes everywhere: builds tests/identity with other compilers and optimisations than
# usual, and for ARM, and runs it with every instruction set. Exit code 1 if a fingerprint differs.
# Usage: scripts/identity.sh [--quick]     installs Clang, OpenMP, which zfp requires, and what ARM needs
#   --quick skips builds close to those that the tests of the release (GCC, -O3) and of the sanitizers (GCC, -O1) cover
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

scripts/install-dependencies.sh clang libomp-14-dev
version() { command -v "$1-$2" || command -v "$1"; }
fingerprints=tests/identity/fingerprints.txt
failed=0

launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

# run NAME ISA COMMAND...
run() {
  echo -n "$1, $2: "
  QUARRY_ISA=$2 "${@:3}" $fingerprints || failed=1
}

# check NAME CC CXX FLAGS
check() {
  local name=$1 build=build/identity/$1
  cmake -S . -B "$build" -G Ninja "${launcher[@]}" -DCMAKE_BUILD_TYPE=None -DCMAKE_C_COMPILER="$2" -DCMAKE_CXX_COMPILER="$3" \
        -DCMAKE_CXX_FLAGS="$4" -DQUARRY_BUILD_WRITER=OFF -DQUARRY_BUILD_SERVER=OFF -DQUARRY_BUILD_CLIENTS=OFF \
        -DQUARRY_BUILD_EXAMPLES=OFF -DQUARRY_BUILD_BENCHMARKS=OFF >/dev/null
  cmake --build "$build" --target identity_fingerprints >/dev/null
  for isa in scalar avx2 avx512; do
    # A processor without it uses its best one.
    run "$name" $isa "$build/bin/identity_fingerprints"
  done
}

quick=${1:-}
[ "$quick" = --quick ] || check gcc-O1 gcc g++ "-O1"
# The processor has fused multiply-add, which must not be used.
check gcc-O3-native gcc g++ "-O3 -march=native"
check clang-O2 "$(version clang 14)" "$(version clang++ 14)" "-O2"
[ "$quick" = --quick ] || check clang-O3-native "$(version clang 14)" "$(version clang++ 14)" "-O3 -march=native"
scripts/build.sh arm identity_fingerprints unit_interpolate >/dev/null
for isa in scalar neon; do
  run arm $isa qemu-aarch64 -L /usr/aarch64-linux-gnu build/arm/bin/identity_fingerprints
done
# Damaged symbols too, and every width.
qemu-aarch64 -L /usr/aarch64-linux-gnu build/arm/bin/unit_interpolate --gtest_brief=1 || failed=1
exit $failed
