# Rooms that use MPI are built twice from the same sources: quarry_ROOM with MPI, and quarry_ROOM_single with the MPI
# for one process in writer/single, for programs that need no MPI. A program links one kind only
# (docs/decisions/build-and-ci.md).

if(QUARRY_BUILD_SINGLE_WRITER)
  quarry_add_library(single SOURCES single/init.cc)
  target_include_directories(quarry_single BEFORE PUBLIC ${PROJECT_SOURCE_DIR}/writer/single)
  target_compile_definitions(quarry_single PUBLIC QUARRY_ONE_RANK)
endif()

# quarry_add_mpi_library(NAME SOURCES ... [MPI_SOURCES ...] [PUBLIC ...] [PRIVATE ...] [SEPARATE]): one room, linked to MPI, and
# the same without MPI_SOURCES for one process. Among PUBLIC and PRIVATE, rooms that have a single kind stand for it.
function(quarry_add_mpi_library name)
  cmake_parse_arguments(arg "SEPARATE" "" "SOURCES;MPI_SOURCES;PUBLIC;PRIVATE" ${ARGN})
  set(separate "")
  if(arg_SEPARATE)
    set(separate SEPARATE)
  endif()
  if(QUARRY_BUILD_WRITER)
    quarry_add_library(${name} SOURCES ${arg_SOURCES} ${arg_MPI_SOURCES} PUBLIC ${arg_PUBLIC} MPI::MPI_CXX
                       PRIVATE ${arg_PRIVATE} ${separate})
  endif()
  if(QUARRY_BUILD_SINGLE_WRITER)
    set_property(GLOBAL APPEND PROPERTY QUARRY_SINGLE_ROOMS ${name})
    get_property(rooms GLOBAL PROPERTY QUARRY_SINGLE_ROOMS)
    list(JOIN rooms "|" rooms)
    list(TRANSFORM arg_PUBLIC APPEND _single REGEX "^quarry::(${rooms})$")
    list(TRANSFORM arg_PRIVATE APPEND _single REGEX "^quarry::(${rooms})$")
    quarry_add_library(${name}_single SOURCES ${arg_SOURCES} PUBLIC ${arg_PUBLIC} quarry::single PRIVATE ${arg_PRIVATE} ${separate})
  endif()
endfunction()
