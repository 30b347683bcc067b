#!/usr/bin/env bash
# Installs what is missing and builds a preset (default: release) into build/PRESET; programs land in build/PRESET/bin.
# Usage: scripts/build.sh [PRESET [TARGET...]]     TARGET: part of it, for example quarry-write
#        scripts/build.sh web                       the viewer's page, into build/viewer
# QUARRY_WARNINGS_AS_ERRORS=ON: a warning ends the build, as it does with the preset dev
# QUARRY_BUILD_UNIT_TESTS=OFF: without the tests that the preset asan runs too
# On a terminal one line shows the progress; in a log, one line for each tenth.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
source scripts/progress.sh
[ "${1:-}" != web ] || exec scripts/web.sh
preset=${1:-release}
[ $# -gt 0 ] && shift
targets=()
[ $# -gt 0 ] && targets=(--target "$@")

scripts/install-dependencies.sh
case "$preset" in
  arm) scripts/arm-sysroot.sh ;;
  python | all) scripts/python-environment.sh ;;
esac
settings=()
if command -v ccache >/dev/null; then
  settings+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  # The same source gives the same object in every build folder.
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1
fi
for setting in QUARRY_WARNINGS_AS_ERRORS QUARRY_BUILD_UNIT_TESTS; do
  [ -z "${!setting:-}" ] || settings+=("-D$setting=${!setting}")
done
if [ "$preset" = asan ]; then
  # libFuzzer comes with Clang; zfp asks for OpenMP.
  scripts/install-dependencies.sh clang libclang-rt-14-dev libomp-14-dev
  version() { command -v "$1-14" || command -v "$1"; }
  settings+=("-DCMAKE_C_COMPILER=$(version clang)" "-DCMAKE_CXX_COMPILER=$(version clang++)")
fi
echo "configuring preset $preset"
cmake --preset "$preset" "${settings[@]}" >/dev/null

build() { cmake --build --preset "$preset" "${targets[@]}"; }
if [ -t 1 ]; then
  NINJA_STATUS="[%p, step %f of %t, %e s] " build
  exit
fi
# Every line that is not the progress of a step is a warning or an error, and is shown.
NINJA_STATUS="@%f/%t@ " build | show_progress "$preset" '^@([0-9]+)/([0-9]+)@' others
