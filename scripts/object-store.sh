#!/usr/bin/env bash
# Builds versitygw, an S3 server over a folder, and reads a dataset from it: the conformance test of object stores. Needs
# Go 1.24 or later and three minutes of a processor, the first time.
# Usage: scripts/object-store.sh
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

version=v1.8.0
folder=$PWD/build/object-store
command -v go >/dev/null || { echo "object-store.sh: there is no go; install Go 1.24 or later" >&2; exit 1; }
if [ ! -x "$folder/$version/versitygw" ]; then
  begin=$SECONDS
  GOBIN=$folder/$version go install "github.com/versity/versitygw/cmd/versitygw@$version"
  echo "built versitygw $version in $((SECONDS - begin)) s"
fi
QUARRY_S3_SERVER=$folder/$version/versitygw /usr/bin/python3 tests/integration/versitygw.py
