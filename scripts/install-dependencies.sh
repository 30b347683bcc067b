#!/usr/bin/env bash
# Installs the Debian packages that building, testing and the demo need; does nothing if they are installed.
# Usage: scripts/install-dependencies.sh [PACKAGE...]     further packages to install
set -euo pipefail
source "$(dirname "$0")/help.sh"

packages=(
  build-essential ca-certificates ccache cmake gfortran ninja-build pkg-config
  libbenchmark-dev libboost-dev libcli11-dev libcurl4-openssl-dev libfftw3-dev libfmt-dev libgrpc++-dev libgtest-dev libhdf5-dev liblmdb-dev libnetcdf-dev libopenmpi-dev libpng-dev
  libprotobuf-dev libpugixml-dev libspdlog-dev libssl-dev libtiff-dev libxxhash-dev libzfp-dev libzstd-dev
  nlohmann-json3-dev openmpi-bin openssl prometheus-cpp-dev protobuf-compiler protobuf-compiler-grpc zlib1g-dev
  lmdb-utils netcdf-bin python3 python3-h5py python3-netcdf4 python3-numpy python3-tifffile python3-vtk9 strace
  "$@"
)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "install-dependencies: this script knows Debian and its relatives only; docs/install.md has the names on Fedora; install: ${missing[*]}" >&2
  exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install-dependencies: run as root or install sudo, to get: ${missing[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
