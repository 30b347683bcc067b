#!/usr/bin/env bash
# Installs what is missing and builds a preset (default: release) into build/PRESET; programs land in build/PRESET/bin.
# Usage: scripts/build.sh [PRESET [TARGET]]     TARGET: part of it, for example sanitized_tests
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}

scripts/install-dependencies.sh
launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
cmake --preset "$preset" "${launcher[@]}" >/dev/null
cmake --build --preset "$preset" ${2:+--target "$2"}
