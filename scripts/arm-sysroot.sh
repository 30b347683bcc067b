#!/usr/bin/env bash
# Puts what the coders need on 64-bit ARM into build/arm-sysroot: Debian's libraries for arm64, unpacked, not installed, since
# some of them cannot be installed beside those of this machine. Also installs the cross compiler and the emulator.
# Usage: scripts/arm-sysroot.sh     then: scripts/build.sh arm identity_fingerprints
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

scripts/install-dependencies.sh g++-aarch64-linux-gnu qemu-user
root=$PWD/build/arm-sysroot
[ ! -f "$root/complete" ] || exit 0
packages=(libfmt-dev libfmt9 libprotobuf-dev libprotobuf32 zlib1g zlib1g-dev libxxhash-dev libxxhash0 libzfp-dev libzfp1 libgomp1
          libzstd-dev libzstd1 libgtest-dev libgmock-dev libcli11-dev nlohmann-json3-dev)
rm -rf "$root"
mkdir -p "$root"/apt/lists/partial "$root"/apt/cache/archives/partial "$root"/apt/debs
# apt's files of another machine, apart from those of this one.
apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State::lists="$root/apt/lists"
     -o Dir::Cache="$root/apt/cache" -o Dir::State::status=/dev/null -o Acquire::Languages=none -o APT::Sandbox::User=root)
"${apt[@]}" update
(cd "$root/apt/debs" && "${apt[@]}" download "${packages[@]}" >/dev/null)
for package in "$root"/apt/debs/*.deb; do dpkg -x "$package" "$root"; done
rm -rf "$root/apt"
touch "$root/complete"
