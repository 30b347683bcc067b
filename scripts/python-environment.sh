#!/usr/bin/env bash
# Makes the virtual environment that the Python package is built and tested in, build/python-environment, from Debian's
# Python and what clients/python/requirements.txt pins from PyPI; does nothing if it is there.
# Usage: scripts/python-environment.sh
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

requirements=clients/python/requirements.txt
environment=build/python-environment
cmp -s "$requirements" "$environment/requirements.txt" && exit 0
scripts/install-dependencies.sh python3-dev python3-venv
rm -rf "$environment"
/usr/bin/python3 -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"
cp "$requirements" "$environment/requirements.txt"
