#!/usr/bin/env bash
# Reads datasets from servers of others, and copies some there: nginx, and the S3 servers versitygw and s3s-fs over a
# folder. Builds or unpacks each, the first time, without installing it, and says how long that took.
# Usage: scripts/object-store.sh [nginx] [versitygw] [s3s-fs]     default: all
#   nginx      Debian's package
#   versitygw  needs Go 1.24 or later and three minutes of a processor
#   s3s-fs     needs Rust 1.86 or later and five minutes of a processor
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

versitygw=v1.8.0
s3s_fs=0.14.1
folder=$PWD/build/object-store

# need PROGRAM WHAT
need() { command -v "$1" >/dev/null || { echo "object-store.sh: there is no $1; install $2" >&2; exit 1; }; }

# The path of a server; makes it first.
make_nginx() {
  program=$folder/nginx/usr/sbin/nginx
  [ -x "$program" ] && return
  scripts/install-dependencies.sh libpcre2-8-0 libssl3
  mkdir -p "$folder/packages"
  cd "$folder/packages"
  apt-get download -qq nginx || { apt-get update -qq && apt-get download -qq nginx; }
  dpkg -x nginx_*.deb "$folder/nginx"
  cd - >/dev/null
}

make_versitygw() {
  program=$folder/versitygw-$versitygw/versitygw
  [ -x "$program" ] && return
  need go "Go 1.24 or later"
  GOBIN=$(dirname "$program") go install "github.com/versity/versitygw/cmd/versitygw@$versitygw"
}

make_s3s-fs() {
  program=$folder/s3s-fs-$s3s_fs/bin/s3s-fs
  [ -x "$program" ] && return
  need cargo "Rust 1.86 or later"
  cargo install --quiet --locked s3s-fs --version "$s3s_fs" --features binary --root "$folder/s3s-fs-$s3s_fs"
}

servers=("$@")
[ $# -gt 0 ] || servers=(nginx versitygw s3s-fs)
for server in "${servers[@]}"; do
  declare -F "make_$server" >/dev/null || { echo "object-store.sh: \"$server\" is not known; --help lists the servers" >&2; exit 2; }
  begin=$SECONDS
  "make_$server"
  echo "$server: made in $((SECONDS - begin)) s"
  case $server in
    nginx) QUARRY_NGINX=$program /usr/bin/python3 tests/integration/nginx.py ;;
    *) QUARRY_S3_SERVER=$program /usr/bin/python3 tests/integration/s3_servers.py ;;
  esac
  echo "$server: made and read in $((SECONDS - begin)) s"
done
