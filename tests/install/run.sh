#!/usr/bin/env bash
# Installs a build into an empty folder and uses it as others do: programs in C, C++ and Fortran are built against it
# with CMake and with pkg-config, write datasets with MPI, and read them from the directory and from a server.
# Usage: tests/install/run.sh BUILD_DIRECTORY
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "$1")
source "$here/../../scripts/environment.sh"
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" || true; rm -rf "$work"' EXIT
prefix=$work/installed

fail() { echo "tests/install: $*" >&2; exit 1; }

echo "== install"
cmake --build "$build" --target installable >/dev/null
cmake --install "$build" --prefix "$prefix" >/dev/null
libdir=$(dirname "$(find "$prefix" -name pkgconfig)")
for program in quarry quarry-index quarry-plan quarry-server quarry-write quarry-write-mpi quarry-iobench quarry-spectrum; do
  "$prefix/bin/$program" --version >/dev/null || fail "$program does not run"
done
[ ! -e "$prefix/bin/quarry-reproduce" ] || fail "quarry-reproduce, which serves the papers' tables alone, is installed"
for helper in quarry-subset quarry-verify; do
  "$prefix/libexec/quarry/$helper" --version >/dev/null || fail "$helper does not run"
done
version=$("$prefix/bin/quarry" --version | cut -d ' ' -f 2)
for file in share/man/man1/quarry.1 share/bash-completion/completions/quarry lib/systemd/system/quarry-server.service \
            etc/quarry/server.toml share/doc/quarry/LICENSE share/doc/quarry/operations.md \
            share/quarry/viewer/index.html; do
  [ -s "$prefix/$file" ] || fail "$file is not installed"
done
grep -q "ExecStart=$prefix/bin/quarry-server --config $prefix/etc/quarry/server.toml" \
  "$prefix/lib/systemd/system/quarry-server.service" || fail "the service file names other places"
bash -c "source $prefix/share/bash-completion/completions/quarry
         COMP_WORDS=(quarry get --fie) COMP_CWORD=2; _quarry; [[ \" \${COMPREPLY[*]} \" == *' --field '* ]]" ||
  fail "the completion of \"quarry get --fie\" has no --field"
grep -q '\\-\\-field' "$prefix/share/man/man1/quarry.1" || fail "quarry.1 says nothing of --field"
# An installation can be moved, except that the service file names it.
mv "$prefix" "$work/prefix"
libdir=${libdir/#$prefix/$work/prefix}
prefix=$work/prefix

echo "== linked to nothing else"
# lacks FILE LIBRARY...: FILE loads none of these, and all that it needs is found.
lacks() {
  local file=$1 loaded
  loaded=$(ldd "$file") || fail "ldd $file"
  ! grep -q "not found" <<<"$loaded" || fail "$file: $(grep 'not found' <<<"$loaded")"
  shift
  for library in "$@"; do
    ! grep -q "$library" <<<"$loaded" || fail "$file loads $library"
  done
}
lacks "$prefix/bin/quarry" libmpi libgrpc libabsl libprotobuf libhdf5 libnetcdf libtiff
lacks "$prefix/bin/quarry-write" libmpi libgrpc
lacks "$prefix/bin/quarry-server" libmpi libhdf5 libnetcdf libtiff
lacks "$libdir/libquarry_base.so" libprotobuf libgrpc libmpi
lacks "$libdir/libquarry.so" libgrpc libmpi liblmdb libhdf5
lacks "$libdir/libquarry_redistribute.so" libprotobuf libgrpc libzfp
lacks "$libdir/libquarry_insitu.so" libgrpc liblmdb libhdf5 libnetcdf
# Two copies of the messages in one process end it.
[ "$(nm -DC --defined-only "$libdir"/libquarry*.so | grep -c ' T quarry::v1::DatasetManifest::Clear()')" -le 1 ] ||
  fail "the protobuf messages are in two libraries"

echo "== headers"
# They are those of include/quarry and the version, and no others. Each compiles alone, and includes the standard library,
# MPI and other public headers.
(cd "$here/../../include/quarry" && { ls ./*.h && echo ./version.h; } | sort) >"$work/public"
(cd "$prefix/include" && find . -type f | sed 's|^\./quarry/|./|' | sort) >"$work/headers"
diff "$work/public" "$work/headers" || fail "the installed headers are not those of include/quarry"
while read -r header; do
  header=${header#./}
  case $header in
    quarry_*) compiler="mpicc -std=c11 -x c" ;;
    *) compiler="mpicxx -std=c++20 -x c++ -DOMPI_SKIP_MPICXX" ;;
  esac
  ! grep -E '^ *# *include' "$prefix/include/quarry/$header" | grep -vE '<([a-z_]+|mpi\.h|std(def|int)\.h)>$|"quarry/[a-z_]+\.h"$' ||
    fail "$header includes what is neither public nor of the standard library nor MPI"
  echo "#include <quarry/$header>" >"$work/alone"
  $compiler -Wall -Wextra -Werror -I"$prefix/include" -fsyntax-only "$work/alone" || fail "$header does not compile alone"
  $compiler -I"$prefix/include" -E "$work/alone" >"$work/text"
  ! grep -E '(class|struct) (DatasetWriter|LittleEndianReader|PatchCoder|PatchGrid|RankSchedule|Staging|SubfileHeader|CurvilinearGrid)\b' \
    "$work/text" || fail "$header shows an internal struct"
  case $header in
    client*|places.h|*question.h)
      ! grep -E '^# [0-9]+ "[^"]*/mpi\.h"' "$work/text" || fail "$header includes MPI"
  esac
done <"$work/headers"
echo "$(wc -l <"$work/headers") headers"

echo "== CMake: C, C++, Fortran"
for language in c cpp fortran; do
  cmake -S "$here/$language" -B "$work/$language" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 || { cat "$work/log"; fail "$language: configure"; }
  cmake --build "$work/$language" >"$work/log" 2>&1 || { cat "$work/log"; fail "$language: build"; }
done
lacks "$work/cpp/read_local" libgrpc libmpi liblmdb
lacks "$work/cpp/read_remote" libmpi liblmdb
! cmake -S "$here/cpp" -B "$work/none" -DCMAKE_PREFIX_PATH="$work/none" >/dev/null 2>&1 || fail "a consumer is configured without an installation"

echo "== pkg-config: C, C++, Fortran"
export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=
[ "$(pkg-config --modversion quarry-client)" = "$version" ] || fail "quarry-client.pc has another version than the programs"
mkdir "$work/pkgconfig"
flags() { pkg-config --cflags --libs "$1"; echo "-Wl,-rpath,$libdir"; }
g++ -std=c++20 "$here/cpp/read_local.cc" -o "$work/pkgconfig/read_local" $(flags quarry-client)
g++ -std=c++20 "$here/cpp/read_remote.cc" -o "$work/pkgconfig/read_remote" $(flags quarry-client-grpc)
mpicxx -std=c++20 -DOMPI_SKIP_MPICXX "$here/cpp/insitu.cc" -o "$work/pkgconfig/insitu_cpp" $(flags quarry-insitu)
mpicc "$here/c/insitu.c" -o "$work/pkgconfig/insitu_c" $(flags quarry-insitu)
mpicc "$here/c/redistribute.c" -o "$work/pkgconfig/redistribute" $(flags quarry-redistribute)
mpif90 "$here/fortran/insitu.f90" -o "$work/pkgconfig/insitu_fortran" $(flags quarry-insitu-fortran)

echo "== write with MPI, read"
mkdir "$work/data"
mpirun -n 4 "$work/c/redistribute"
mpirun -n 4 "$work/pkgconfig/redistribute"
for program in c/insitu cpp/insitu fortran/insitu pkgconfig/insitu_c pkgconfig/insitu_cpp pkgconfig/insitu_fortran; do
  name=${program//\//_}
  mpirun -n 2 "$work/$program" "$work/data/$name.quarry" || fail "$program"
  for reader in cpp/read_local pkgconfig/read_local; do
    [ "$("$work/$reader" "$work/data/$name.quarry")" = "165 samples" ] || fail "$reader reads something else of $program"
  done
done

echo "== read from a server"
: >"$work/server.log"
"$prefix/bin/quarry-server" "$work/data" --listen 127.0.0.1:0 --quiet >"$work/server.log" &
server=$!
until address=$(sed -n 's/^listening on //p' "$work/server.log") && [ -n "$address" ]; do
  kill -0 $server || fail "the server did not start"
  sleep 0.05
done
for reader in cpp/read_remote pkgconfig/read_remote; do
  [ "$("$work/$reader" "grpc://$address/c_insitu")" = "165 samples" ] || fail "$reader reads something else"
done

echo "== quarry-write under mpirun"
head -c 4096 /dev/zero >"$work/zero.raw"
mpirun -n 2 "$prefix/bin/quarry-write" "$work/zero.raw" --dims 16x16x4 --type float32 --lossless --output "$work/two.quarry" >/dev/null
mv "$prefix/bin/quarry-write-mpi" "$work"
! mpirun -n 2 "$prefix/bin/quarry-write" "$work/zero.raw" --dims 16x16x4 --type float32 --lossless --output "$work/three.quarry" \
  >/dev/null 2>"$work/log" || fail "two processes without MPI are not refused"
grep -q "install the package quarry-mpi" "$work/log" || fail "the refusal does not say what to do"
[ ! -e "$work/three.quarry" ] || fail "a refused run leaves a dataset"
echo "ok"
