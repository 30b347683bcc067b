#!/usr/bin/env bash
# Builds the viewer, the page that quarry-server serves, from clients/web into build/viewer. Installs what is missing; the
# packages come from npm's registry as clients/web/package-lock.json pins them.
# Usage: scripts/web.sh
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

command -v node >/dev/null || scripts/install-dependencies.sh nodejs npm
scripts/install-dependencies.sh protobuf-compiler
major=$(node --version | sed 's/^v\([0-9]*\).*/\1/')
[ "$major" -ge 18 ] || { echo "web: the viewer is built with Node.js 18 or newer, and this is $(node --version)" >&2; exit 1; }
scripts/wasm.sh

cd clients/web
if ! cmp -s package-lock.json node_modules/.installed-lock.json; then
  echo "installing the viewer's packages"
  npm ci --no-audit --no-fund --loglevel=error
  cp package-lock.json node_modules/.installed-lock.json
fi
npm run --silent generate
echo "building the viewer"
npm run --silent build -- --outDir ../../build/viewer --emptyOutDir --logLevel warn
# Served as they are to browsers that take them.
find ../../build/viewer -type f \( -name '*.js' -o -name '*.css' -o -name '*.html' -o -name '*.wasm' -o -name '*.svg' \) -exec gzip --best --keep --force {} +
