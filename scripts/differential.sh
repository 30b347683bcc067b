#!/usr/bin/env bash
# Compares what the programs of build/release/bin make of files with what netCDF4-python, h5py, tifffile and numpy say of
# them: the files of iris-sample-data and of those libraries' and xarray's packages, of the generators in ../shared/cases,
# and of tests/differential/generate.py. Fetches the packages, at the versions that tests/differential pins, into
# build/differential.
# Usage: scripts/differential.sh [--fetch-only] [OPTION...]     options of tests/differential/run.py
#        scripts/differential.sh --only '*/ostia*'
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

here=tests/differential
work=build/differential
environment=$work/environment

if ! cmp -s "$here/requirements.txt" "$environment/requirements.txt"; then
  scripts/install-dependencies.sh python3-venv
  rm -rf "$environment"
  /usr/bin/python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --require-hashes \
    --requirement "$here/requirements.txt"
  cp "$here/requirements.txt" "$environment/requirements.txt"
fi
if ! cmp -s "$here/sources.txt" "$work/sources/sources.txt"; then
  rm -rf "$work/sources"
  mkdir -p "$work/sources"
  "$environment/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary netCDF4 --require-hashes \
    --requirement "$here/sources.txt" --dest "$work/sources"
  for archive in "$work"/sources/*.tar.gz; do tar -xzf "$archive" -C "$work/sources"; done
  cp "$here/sources.txt" "$work/sources/sources.txt"
fi
if [ "${1:-}" = --fetch-only ]; then exit; fi
exec "$environment/bin/python" "$here/run.py" "$@"
