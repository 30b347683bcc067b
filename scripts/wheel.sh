#!/usr/bin/env bash
# Builds the wheels of the Python packages into build/wheel: quarry-data, with every library in it that a bare Linux lacks,
# for CPython 3.11 and for the stable interface of 3.12, which later versions install too; and quarry-outofcore.
# Usage: scripts/wheel.sh [PYTHON...]     interpreters to build with; default: Debian's 3.11, and the first of python3.12,
#                                         python3.13 and python3.14 that is on the PATH or below ~/.pyenv/versions
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
source scripts/progress.sh

# The first interpreter that has the stable interface; nothing if there is none.
stable_python() {
  local version found
  for version in 3.12 3.13 3.14; do
    for found in "$(command -v "python$version" || true)" "$HOME"/.pyenv/versions/"$version".*/bin/python3; do
      if [ -n "$found" ] && "$found" -c 'import pip' 2>/dev/null; then
        echo "$found"
        return
      fi
    done
  done
}

scripts/install-dependencies.sh
scripts/python-environment.sh
scripts/build.sh web
environment=$PWD/build/python-environment/bin
pythons=("$@")
if [ ${#pythons[@]} -eq 0 ]; then
  pythons=("$environment/python")
  later=$(stable_python)
  if [ -n "$later" ]; then pythons+=("$later"); else echo "no Python from 3.12 on is here: only the wheel for 3.11 is built"; fi
fi

launcher=()
command -v ccache >/dev/null && launcher=(--config-settings=cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache)
rm -rf build/wheel
mkdir -p build/wheel/raw

for python in "${pythons[@]}"; do
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  log=build/wheel/build-$version.log
  echo "building the wheel with Python $version"
  "$python" -m pip wheel --verbose --disable-pip-version-check --no-deps --wheel-dir build/wheel/raw "${launcher[@]}" \
    --config-settings=build-dir="$PWD/build/wheel/tree-$version" ./clients/python 2>&1 | tee "$log" |
    show_progress "with Python $version" '\[([0-9]+)/([0-9]+)\]' || { tail -20 "$log"; exit 1; }
done
echo "adding libraries"
for wheel in build/wheel/raw/*.whl; do
  PATH="$environment:$PATH" "$environment/auditwheel" repair --plat manylinux_2_35_x86_64 --wheel-dir build/wheel "$wheel" \
    >build/wheel/log 2>&1 || { tail -20 build/wheel/log; exit 1; }
done
"$environment/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheel ./clients/outofcore
ls -l build/wheel/*.whl
