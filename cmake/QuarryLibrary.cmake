# Build time, spent where it pays: see docs/decisions/build-and-ci.md.
option(QUARRY_UNITY "compile the sources of a target as one, which takes half the time; a missing include is not noticed then" OFF)

# Sources that are compiled as one must not use a name twice in anonymous namespaces: a target that does is SEPARATE.
function(_quarry_set_unity target separate)
  if(QUARRY_UNITY AND NOT separate)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    # A type whose members are in an anonymous namespace is fine in a .cc, which is a header of the unit here.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# quarry_compile_fast(TARGET...): for code that spends its time in libraries or runs once, and does not need the
# compiler's full effort in a release. Under sanitizers it is not optimised at all: the compiler then needs 40 % less.
function(quarry_compile_fast)
  set(level -O1)
  if(QUARRY_ENABLE_ASAN OR QUARRY_ENABLE_TSAN)
    set(level -O0)
  endif()
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release,RelWithDebInfo>,$<COMPILE_LANGUAGE:C,CXX>>:${level}>)
  endforeach()
endfunction()

# quarry_add_library(NAME SOURCES ... [PUBLIC ...] [PRIVATE ...] [SEPARATE]): one room of the tree, alias quarry::NAME.
# SEPARATE: each source is compiled on its own, even with QUARRY_UNITY.
function(quarry_add_library name)
  cmake_parse_arguments(arg "SEPARATE" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(quarry_${name} STATIC ${arg_SOURCES})
  set_property(GLOBAL APPEND PROPERTY QUARRY_ROOMS ${name})
  add_library(quarry::${name} ALIAS quarry_${name})
  target_include_directories(quarry_${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(quarry_${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE} quarry_project_options)
  # Threads that nobody waits for, as those that look at a storage that hangs, may use static objects while the program
  # ends, so that no room destroys any.
  target_compile_options(quarry_${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Werror=exit-time-destructors>)
  _quarry_set_unity(quarry_${name} ${arg_SEPARATE})
endfunction()

# quarry_add_executable(NAME SOURCES ... LINK ... [SEPARATE] [NOT_INSTALLED]): a program that users call; hyphens as in
# its name. NOT_INSTALLED: in the build folder alone, without a man page.
function(quarry_add_executable name)
  cmake_parse_arguments(arg "SEPARATE;NOT_INSTALLED" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PRIVATE ${arg_LINK} quarry_project_options)
  _quarry_set_unity(${name} ${arg_SEPARATE})
  if(NOT arg_NOT_INSTALLED)
    set_property(GLOBAL APPEND PROPERTY QUARRY_PROGRAMS ${name})
  endif()
endfunction()
