# Debian packages: "cpack --config build/package/CPackConfig.cmake" (docs/decisions/build-and-ci.md). The preset
# "package" builds for them, with Debian's folders.
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME quarry)
set(CPACK_PACKAGE_VENDOR "The Quarry developers")
set(CPACK_PACKAGE_CONTACT "The Quarry developers <quarry@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# Dependencies on the packages of linked libraries; our own libraries depend on each other by name.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)

set(CPACK_COMPONENTS_ALL "")
# quarry_package(COMPONENT NAME DESCRIPTION [DEPENDS ...] [RECOMMENDS ...] [SUGGESTS ...] [CONTROL file...])
function(quarry_package component name description)
  cmake_parse_arguments(arg "" "" "DEPENDS;RECOMMENDS;SUGGESTS;CONTROL" ${ARGN})
  string(TOUPPER ${component} upper)
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${component} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${description}" PARENT_SCOPE)
  foreach(relation DEPENDS RECOMMENDS SUGGESTS)
    list(JOIN arg_${relation} ", " packages)
    set(CPACK_DEBIAN_${upper}_PACKAGE_${relation} "${packages}" PARENT_SCOPE)
  endforeach()
  list(TRANSFORM arg_CONTROL PREPEND ${PROJECT_SOURCE_DIR}/packaging/debian/)
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA "${arg_CONTROL}" PARENT_SCOPE)
  # Debian wants a copyright file in each package; an installation without packages has one LICENSE.
  install(CODE "if(CMAKE_INSTALL_COMPONENT)
                  file(INSTALL [[${PROJECT_SOURCE_DIR}/LICENSE]] RENAME copyright
                       DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/doc/${name}\")
                endif()" COMPONENT ${component})
endfunction()

set(same "(= ${PROJECT_VERSION})")
quarry_package(quarry quarry "converts, indexes, serves and reads simulation data
The programs quarry-write (for one process), quarry-index, quarry-server, quarry
and quarry-plan, their manuals, and a service for systemd."
  RECOMMENDS "ca-certificates, libcurl4" SUGGESTS quarry-mpi CONTROL conffiles postinst prerm)
quarry_package(libquarry libquarry${QUARRY_SOVERSION} "libraries that read Quarry datasets in directories"
  RECOMMENDS "ca-certificates, libcurl4" CONTROL triggers)
set(development libquarry${QUARRY_SOVERSION})
if(TARGET quarry_shared_client_grpc)
  quarry_package(libquarry-grpc libquarry-grpc${QUARRY_SOVERSION} "library that reads Quarry datasets from servers"
    DEPENDS "libquarry${QUARRY_SOVERSION} ${same}" CONTROL triggers)
  list(APPEND development libquarry-grpc${QUARRY_SOVERSION})
endif()
if(QUARRY_BUILD_WRITER)
  quarry_package(quarry-mpi quarry-mpi "converts simulation data with MPI
The converter for any number of ranks, which \"mpirun quarry-write\" runs, and
quarry-iobench."
    DEPENDS "quarry ${same}" RECOMMENDS openmpi-bin)
  quarry_package(libquarry-mpi libquarry-mpi${QUARRY_SOVERSION} "libraries for simulations that write Quarry datasets
In-situ and in-transit writing in C++, C and Fortran, and redistribution of
arrays."
    DEPENDS "libquarry${QUARRY_SOVERSION} ${same}" CONTROL triggers)
  list(APPEND development libquarry-mpi${QUARRY_SOVERSION})
endif()
if(TARGET quarry-spectrum)
  quarry_package(quarry-analysis quarry-analysis "energy spectra of simulation data
The program quarry-spectrum, which runs with MPI. It is linked to FFTW: as a
whole it is under the GNU General Public License, version 2 or later."
    DEPENDS "quarry ${same}" RECOMMENDS openmpi-bin)
endif()
list(TRANSFORM development APPEND " ${same}")
quarry_package(libquarry-dev libquarry-dev "headers of the Quarry libraries, for CMake and pkg-config"
  DEPENDS ${development} RECOMMENDS libopenmpi-dev)

include(CPack)
