# Builds for 64-bit ARM on another machine, with the compiler and emulator of Debian; `scripts/build.sh arm` uses it.
# QUARRY_SYSROOT: the folder with the libraries for ARM.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QUARRY_SYSROOT)
set(CMAKE_FIND_ROOT_PATH ${QUARRY_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# Indirect dependencies of the libraries above.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${QUARRY_SYSROOT}/usr/lib/aarch64-linux-gnu -Wl,-rpath,${QUARRY_SYSROOT}/usr/lib/aarch64-linux-gnu")
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${QUARRY_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${QUARRY_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${QUARRY_SYSROOT}/usr/share/pkgconfig)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
