# Contents of "cmake --install" (docs/decisions/build-and-ci.md). Nothing here names a room that another room uses: the
# shared libraries and the libraries that they need follow from the rooms' own dependencies.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Until 1.0 a minor version may change the binary interface.
set(QUARRY_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(QUARRY_INSTALL_CMAKE ${CMAKE_INSTALL_LIBDIR}/cmake/quarry)
set(QUARRY_INSTALL_FORTRAN ${CMAKE_INSTALL_LIBDIR}/quarry/fortran)

# Direct links of a target, under the real names behind aliases.
function(_quarry_direct_links target out)
  set(links "")
  foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
    get_target_property(value ${target} ${property})
    if(value)
      list(APPEND links ${value})
    endif()
  endforeach()
  set(names "")
  foreach(link ${links})
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" link "${link}")
    if(TARGET ${link})
      get_target_property(real ${link} ALIASED_TARGET)
      if(real)
        set(link ${real})
      endif()
    endif()
    list(APPEND names ${link})
  endforeach()
  list(REMOVE_DUPLICATES names)
  list(REMOVE_ITEM names quarry_project_options)
  set(${out} ${names} PARENT_SCOPE)
endfunction()

# The rooms among `targets` and below them, and the foreign libraries that they link.
function(_quarry_closure out_rooms out_foreign)
  set(open ${ARGN})
  set(rooms "")
  set(foreign "")
  while(open)
    list(POP_FRONT open next)
    if(next IN_LIST rooms)
      continue()
    endif()
    if(TARGET ${next} AND next MATCHES "^quarry_")
      list(APPEND rooms ${next})
      _quarry_direct_links(${next} links)
      list(APPEND open ${links})
    else()
      list(APPEND foreign ${next})
    endif()
  endwhile()
  list(REMOVE_DUPLICATES foreign)
  set(${out_rooms} ${rooms} PARENT_SCOPE)
  set(${out_foreign} ${foreign} PARENT_SCOPE)
endfunction()

# quarry_add_shared_library(COMPONENT NAME ROOMS ... [PACKAGE ...] [NEEDS ...]): the shared library NAME of these rooms
# and of all below them that no library before has. A room is in one of them only: two copies of the protobuf messages
# in a process end it. Installed programs find it as quarry::COMPONENT; NEEDS are what they need to compile against it.
function(quarry_add_shared_library component name)
  cmake_parse_arguments(arg "" "PACKAGE" "ROOMS;NEEDS" ${ARGN})
  list(TRANSFORM arg_ROOMS PREPEND quarry_)
  set(roots "")
  foreach(room ${arg_ROOMS})
    if(TARGET ${room})
      list(APPEND roots ${room})
    endif()
  endforeach()
  if(NOT roots)
    return()
  endif()
  _quarry_closure(rooms unused ${roots})
  set(own "")
  set(libraries "")
  foreach(room ${rooms})
    get_property(library GLOBAL PROPERTY QUARRY_LIBRARY_OF_${room})
    if(library)
      list(APPEND libraries ${library})
    else()
      list(APPEND own ${room})
      set_property(GLOBAL PROPERTY QUARRY_LIBRARY_OF_${room} quarry_shared_${component})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES libraries)
  set(objects "")
  set(foreign "")
  foreach(room ${own})
    list(APPEND objects $<TARGET_OBJECTS:${room}>)
    _quarry_direct_links(${room} links)
    list(FILTER links EXCLUDE REGEX "^quarry_")
    list(APPEND foreign ${links})
  endforeach()
  list(REMOVE_DUPLICATES foreign)

  set(target quarry_shared_${component})
  add_library(${target} SHARED ${objects})
  target_link_libraries(${target} PUBLIC ${libraries} PRIVATE ${foreign} quarry_project_options)
  target_link_options(${target} PRIVATE -Wl,--as-needed
                      -Wl,--version-script=${PROJECT_SOURCE_DIR}/packaging/exported_symbols.map)
  foreach(need ${arg_NEEDS})
    target_link_libraries(${target} INTERFACE $<INSTALL_INTERFACE:${need}>)
  endforeach()
  target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name} EXPORT_NAME ${component} VERSION ${PROJECT_VERSION} SOVERSION ${QUARRY_SOVERSION}
    LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/packaging/exported_symbols.map)
  if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set_target_properties(${target} PROPERTIES INSTALL_RPATH $ORIGIN)
  endif()
  install(TARGETS ${target} EXPORT quarry-${component}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${arg_PACKAGE} NAMELINK_COMPONENT libquarry-dev)
  _quarry_export(${component})
  set_property(GLOBAL APPEND PROPERTY QUARRY_SHARED_LIBRARIES ${target})
endfunction()

function(_quarry_export component)
  install(EXPORT quarry-${component} NAMESPACE quarry:: FILE quarry-${component}.cmake
          DESTINATION ${QUARRY_INSTALL_CMAKE} COMPONENT libquarry-dev)
endfunction()

# quarry_add_component(COMPONENT LIBRARY): another name for an installed library, that of a room that it has.
function(quarry_add_component component library)
  if(TARGET quarry_${component} AND TARGET quarry_shared_${library})
    add_library(quarry_shared_${component} INTERFACE)
    target_link_libraries(quarry_shared_${component} INTERFACE quarry_shared_${library})
    set_target_properties(quarry_shared_${component} PROPERTIES EXPORT_NAME ${component})
    install(TARGETS quarry_shared_${component} EXPORT quarry-${component})
    _quarry_export(${component})
  endif()
endfunction()

# quarry_install_pkg_config(COMPONENT DESCRIPTION LIBS [REQUIRES])
function(quarry_install_pkg_config component description libs requires)
  if(NOT TARGET quarry_shared_${component})
    return()
  endif()
  string(REPLACE "_" "-" name quarry-${component})
  set(modules "")
  if(component MATCHES "fortran")
    set(modules " -I\${fortrandir}")
  endif()
  file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  file(WRITE ${PROJECT_BINARY_DIR}/pkgconfig/${name}.pc
"prefix=\${pcfiledir}/${up}
libdir=\${prefix}/${CMAKE_INSTALL_LIBDIR}
includedir=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}
fortrandir=\${prefix}/${QUARRY_INSTALL_FORTRAN}

Name: ${name}
Description: ${description}
Version: ${PROJECT_VERSION}
Requires: ${requires}
Cflags: -I\${includedir}${modules}
Libs: -L\${libdir} ${libs}
")
  install(FILES ${PROJECT_BINARY_DIR}/pkgconfig/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
          COMPONENT libquarry-dev)
endfunction()

# Programs that need MPI have a package of their own, and those with FFTW, whose licence is the GPL, another.
function(_quarry_package_of program out)
  _quarry_direct_links(${program} links)
  _quarry_closure(rooms foreign ${links})
  set(package quarry)
  if(foreign MATCHES "MPI::")
    set(package quarry-mpi)
  endif()
  if(foreign MATCHES "FFTW")
    set(package quarry-analysis)
  endif()
  set(${out} ${package} PARENT_SCOPE)
endfunction()

# Installs a program under another name.
function(_quarry_install_as name program package)
  install(PROGRAMS $<TARGET_FILE:${program}> DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME ${name} COMPONENT ${package})
  install(CODE "if(CMAKE_INSTALL_DO_STRIP)
                  execute_process(COMMAND [[${CMAKE_STRIP}]]
                    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/${name}\")
                endif()" COMPONENT ${package})
endfunction()

# The converter without MPI has the plain name when installed, and hands over to the one with MPI if several processes are
# started.
function(_quarry_install_programs)
  get_property(programs GLOBAL PROPERTY QUARRY_PROGRAMS)
  foreach(program ${programs})
    _quarry_package_of(${program} package)
    if(program STREQUAL "quarry-write-single")
      _quarry_install_as(quarry-write ${program} ${package})
    elseif(program STREQUAL "quarry-write" AND TARGET quarry-write-single)
      _quarry_install_as(quarry-write-mpi ${program} ${package})
    else()
      install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${package})
    endif()
  endforeach()
  foreach(helper quarry-subset quarry-verify)
    if(TARGET ${helper})
      install(TARGETS ${helper} RUNTIME DESTINATION libexec/quarry COMPONENT quarry)
    endif()
  endforeach()
endfunction()

# Man pages and completion from each program's --help-json: the target "man", a part of "all".
function(_quarry_install_help)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(NOT Python3_FOUND)
    message(STATUS "Neither man pages nor shell completion: they need python3")
    return()
  endif()
  get_property(programs GLOBAL PROPERTY QUARRY_PROGRAMS)
  # With and without MPI the help is the same, under one name.
  if("quarry-write" IN_LIST programs)
    list(REMOVE_ITEM programs quarry-write-single)
  endif()
  set(files "")
  foreach(program ${programs})
    list(APPEND files $<TARGET_FILE:${program}>)
  endforeach()
  set(output ${PROJECT_BINARY_DIR}/help)
  set(script ${PROJECT_SOURCE_DIR}/packaging/make_help.py)
  add_custom_command(
    OUTPUT ${output}/stamp
    COMMAND ${Python3_EXECUTABLE} ${script} --output ${output} --version ${PROJECT_VERSION} ${files}
    COMMAND ${CMAKE_COMMAND} -E touch ${output}/stamp
    DEPENDS ${programs} ${script}
    COMMENT "Making man pages and shell completion"
    VERBATIM)
  add_custom_target(man ALL DEPENDS ${output}/stamp)
  foreach(program ${programs})
    _quarry_package_of(${program} package)
    if(program MATCHES "^quarry-write")
      set(package quarry)
    endif()
    string(REPLACE "quarry-write-single" "quarry-write" program ${program})
    install(FILES ${output}/man1/${program}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${package})
    install(FILES ${output}/bash/${program} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
            COMPONENT ${package})
    install(FILES ${output}/zsh/_${program} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
            COMPONENT ${package})
    install(FILES ${output}/fish/${program}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
            COMPONENT ${package})
  endforeach()
endfunction()

function(_quarry_install_documents)
  set(destination ${CMAKE_INSTALL_DATADIR}/doc/quarry)
  install(FILES LICENSE THIRD-PARTY.md CHANGELOG.md README.md DESTINATION ${destination} COMPONENT quarry)
  install(DIRECTORY docs/ DESTINATION ${destination} COMPONENT quarry FILES_MATCHING PATTERN "*.md"
          PATTERN decisions EXCLUDE PATTERN images EXCLUDE)
endfunction()

# The service file names the server and its configuration by their installed paths, which are known at installation. An
# existing configuration stays.
function(_quarry_install_service)
  if(NOT TARGET quarry-server)
    return()
  endif()
  install(CODE "
    set(QUARRY_SERVER \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/quarry-server\")
    set(QUARRY_DOCUMENTS \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/doc/quarry\")
    set(folder \"\${CMAKE_INSTALL_PREFIX}/etc/quarry\")
    if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
      set(folder /etc/quarry)
    endif()
    set(QUARRY_CONFIG \${folder}/server.toml)
    configure_file([[${PROJECT_SOURCE_DIR}/packaging/quarry-server.service.in]]
                   [[${PROJECT_BINARY_DIR}/quarry-server.service]] @ONLY)
    file(INSTALL [[${PROJECT_BINARY_DIR}/quarry-server.service]]
         DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/systemd/system\")
    if(NOT EXISTS \"\$ENV{DESTDIR}\${QUARRY_CONFIG}\")
      file(INSTALL [[${PROJECT_SOURCE_DIR}/packaging/server.toml]] DESTINATION \"\${folder}\")
    endif()"
    COMPONENT quarry)
endfunction()

function(quarry_install)
  # In the order of their dependencies. quarry::redistribute works without protobuf, zfp and all the rest.
  quarry_add_shared_library(base quarry_base ROOMS geometry PACKAGE libquarry NEEDS quarry::cxx)
  quarry_add_shared_library(core quarry ROOMS format client PACKAGE libquarry)
  quarry_add_shared_library(client_grpc quarry_grpc ROOMS client_grpc PACKAGE libquarry-grpc)
  quarry_add_shared_library(redistribute quarry_redistribute ROOMS redistribute PACKAGE libquarry-mpi NEEDS quarry::mpi)
  quarry_add_shared_library(insitu quarry_insitu ROOMS insitu intransit PACKAGE libquarry-mpi)
  quarry_add_shared_library(insitu_fortran quarry_insitu_fortran ROOMS insitu_fortran PACKAGE libquarry-mpi)
  quarry_add_component(client core)
  quarry_add_component(intransit insitu)
  if(TARGET quarry_shared_insitu_fortran)
    set_target_properties(quarry_shared_insitu_fortran PROPERTIES LINKER_LANGUAGE Fortran)
    target_include_directories(quarry_shared_insitu_fortran INTERFACE $<INSTALL_INTERFACE:${QUARRY_INSTALL_FORTRAN}>)
    # The module as this compiler reads it, and its source for other compilers.
    get_target_property(modules quarry_insitu_fortran Fortran_MODULE_DIRECTORY)
    install(FILES ${modules}/quarry_insitu.mod ${PROJECT_SOURCE_DIR}/writer/insitu/quarry_insitu.f90
            DESTINATION ${QUARRY_INSTALL_FORTRAN} COMPONENT libquarry-dev)
  endif()

  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/quarry DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT libquarry-dev
          FILES_MATCHING PATTERN "*.h")
  install(FILES ${PROJECT_BINARY_DIR}/generated/quarry/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/quarry
          COMPONENT libquarry-dev)

  configure_package_config_file(${PROJECT_SOURCE_DIR}/packaging/quarry-config.cmake.in
                                ${PROJECT_BINARY_DIR}/quarry-config.cmake INSTALL_DESTINATION ${QUARRY_INSTALL_CMAKE})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/quarry-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/quarry-config.cmake ${PROJECT_BINARY_DIR}/quarry-config-version.cmake
          DESTINATION ${QUARRY_INSTALL_CMAKE} COMPONENT libquarry-dev)
  quarry_install_pkg_config(client "Reads datasets in directories" "-lquarry -lquarry_base" "")
  quarry_install_pkg_config(client_grpc "Reads datasets in directories and from servers" "-lquarry_grpc" "quarry-client")
  quarry_install_pkg_config(redistribute "Moves arrays between the ranks of MPI (compile with mpicc or mpicxx)"
                            "-lquarry_redistribute -lquarry_base" "")
  quarry_install_pkg_config(insitu "A simulation writes its steps (compile with mpicc or mpicxx)"
                            "-lquarry_insitu -lquarry_redistribute -lquarry -lquarry_base" "")
  quarry_install_pkg_config(insitu_fortran "A simulation in Fortran writes its steps (compile with mpif90)"
                            "-lquarry_insitu_fortran -lquarry_insitu" "")

  _quarry_install_programs()
  _quarry_install_help()
  _quarry_install_documents()
  _quarry_install_service()

  # Builds everything that an installation needs, and nothing else.
  add_custom_target(installable)
  get_property(programs GLOBAL PROPERTY QUARRY_PROGRAMS)
  get_property(libraries GLOBAL PROPERTY QUARRY_SHARED_LIBRARIES)
  add_dependencies(installable ${programs} ${libraries})
  if(TARGET man)
    add_dependencies(installable man)
  endif()
endfunction()
