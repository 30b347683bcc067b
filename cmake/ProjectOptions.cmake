# Warnings and sanitizers travel on this target, so that a project which embeds Quarry keeps its own flags.
add_library(quarry_project_options INTERFACE)
target_compile_options(quarry_project_options INTERFACE -Wall -Wextra -Wpedantic -Wnon-virtual-dtor
                                                        -Wno-missing-field-initializers)
if(QUARRY_WARNINGS_AS_ERRORS)
  target_compile_options(quarry_project_options INTERFACE -Werror)
endif()

set(sanitizers "")
if(QUARRY_ENABLE_ASAN)
  list(APPEND sanitizers address)
endif()
if(QUARRY_ENABLE_UBSAN)
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
endif()

find_program(MOLD_LINKER mold)
if(MOLD_LINKER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1)
  target_link_options(quarry_project_options INTERFACE -fuse-ld=mold)
endif()
