# Warnings and sanitizers travel on this target, so that a project which embeds Quarry keeps its own flags.
add_library(quarry_project_options INTERFACE)
target_compile_options(quarry_project_options INTERFACE -Wall -Wextra -Wpedantic $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
                                                        -Wno-missing-field-initializers
                                                        # GCC 12 is wrong about copies in its own std::string (GCC bug 105329).
                                                        $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(QUARRY_WARNINGS_AS_ERRORS)
  target_compile_options(quarry_project_options INTERFACE -Werror)
endif()

set(sanitizers "")
if(QUARRY_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "QUARRY_BUILD_FUZZERS needs Clang with libFuzzer (Debian: clang-14, libclang-rt-14-dev), this is ${CMAKE_CXX_COMPILER_ID}")
  endif()
  # Every library is instrumented for the fuzzer; only the targets link it.
  list(APPEND sanitizers fuzzer-no-link address undefined)
endif()
if(QUARRY_ENABLE_ASAN AND NOT QUARRY_BUILD_FUZZERS)
  list(APPEND sanitizers address)
endif()
if(QUARRY_ENABLE_UBSAN AND NOT QUARRY_BUILD_FUZZERS)
  list(APPEND sanitizers undefined)
endif()
if(QUARRY_ENABLE_TSAN)
  list(APPEND sanitizers thread)
endif()
if(sanitizers)
  list(JOIN sanitizers "," sanitizers)
  target_compile_options(quarry_project_options INTERFACE -fsanitize=${sanitizers} -fno-sanitize-recover=all
                                                         -fno-omit-frame-pointer)
  target_link_options(quarry_project_options INTERFACE -fsanitize=${sanitizers})
  # Each compiler has macros of its own for it.
  target_compile_definitions(quarry_project_options INTERFACE QUARRY_SANITIZED)
endif()
