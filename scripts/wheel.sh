#!/usr/bin/env bash
# Builds the wheel of the Python package, with every library in it that a bare Linux lacks, into build/wheel.
# Usage: scripts/wheel.sh
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
scripts/install-dependencies.sh
scripts/python-environment.sh
scripts/build.sh web
python=build/python-environment/bin
rm -rf build/wheel
mkdir -p build/wheel/raw
launcher=()
command -v ccache >/dev/null && launcher=(--config-settings=cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache)
echo "building the wheel"
"$python/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheel/raw "${launcher[@]}" \
  --config-settings=build-dir="$PWD/build/wheel/tree" ./clients/python
echo "adding libraries"
PATH="$PWD/$python:$PATH" "$python/auditwheel" repair --plat manylinux_2_35_x86_64 --wheel-dir build/wheel build/wheel/raw/*.whl >build/wheel/log 2>&1 ||
  { tail -20 build/wheel/log; exit 1; }
ls -l build/wheel/*.whl
