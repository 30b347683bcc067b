#!/usr/bin/env bash
# Installs the wheels of the Python packages into a bare Debian 12 root that has Python and no compiler, and uses them
# there: the demo, the Python example of the README against a directory and against a server, modes out of core, and all
# programs. Needs root (chroot) and mmdebstrap.
# Usage: tests/install/bare_root_wheel.sh WHEEL...     those that scripts/wheel.sh made
#   QUARRY_CACHE   where downloads are kept; default: ~/.cache/quarry
source "$(dirname "$0")/bare_root_lib.sh"
[ $# -eq 2 ] || { echo "tests/install: give both wheels, of quarry-data and quarry-outofcore" >&2; exit 2; }
wheels=("$@")

echo "== bare root with Python"
make_root
install_packages python3-venv
! inside sh -c 'command -v cc gcc c++ clang cmake' || fail "there is a compiler in the root"
mkdir -p "$root/wheels"
cp "${wheels[@]}" "$root/wheels/"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.11 --dest "$root/wheels" \
  "$(grep '^numpy==' "$here/../../clients/python/requirements.txt")"

echo "== install"
inside python3 -m venv /env
inside /env/bin/pip install --quiet --no-index --find-links /wheels quarry-data quarry-outofcore
inside /env/bin/pip list --disable-pip-version-check
for program in quarry quarry-index quarry-server quarry-write; do inside "/env/bin/$program" --version; done
[ -s "$root"/env/lib/python3*/site-packages/quarry/share/quarry/viewer/index.html ] || fail "the wheel has no viewer"

echo "== demo"
inside /env/bin/quarry demo --output /demo

echo "== the README's example, from a directory and from a server"
sed -n '/^```python$/,/^```$/p' "$here/../../README.md" | sed '/^```/d' >"$root/example.py"
grep -q quarry.open "$root/example.py" || fail "the README has no example in Python"
mkdir "$root/data"
inside /env/bin/python -c '
import numpy, quarry
field = numpy.random.default_rng(1).random((70, 90, 170), dtype="f4")
quarry.write("/data/run42.quarry", numpy.stack([field, -field]), field="pressure", tolerance=1e-3)'
use_example() { inside sh -c "cd /data && /env/bin/python -W error /example.py" || fail "the example with $1"; }
use_example "a directory"
inside /env/bin/quarry-pod /data/run42.quarry --field pressure --modes 1 --json | grep -q '"converged": true' ||
  fail "quarry-pod finds no modes"
start_server /env/bin/quarry-server /data
sed -i "s|\"run42.quarry\"|\"grpc://$address/run42\"|" "$root/example.py"
grep -q "grpc://$address" "$root/example.py" || fail "the example has no target to replace"
use_example "a server"
stop_server
echo "the wheels work"
