# quarry_add_library(NAME SOURCES ... [PUBLIC ...] [PRIVATE ...]): one room of the tree, alias quarry::NAME.
function(quarry_add_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(quarry_${name} STATIC ${arg_SOURCES})
  add_library(quarry::${name} ALIAS quarry_${name})
  target_include_directories(quarry_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(quarry_${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE} quarry_project_options)
endfunction()

# quarry_add_executable(NAME SOURCES ... LINK ...): a program that users call; hyphens as in its name.
function(quarry_add_executable name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LINK} quarry_project_options)
  install(TARGETS ${name} RUNTIME)
endfunction()
