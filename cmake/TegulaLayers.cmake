# tegula_layer(NAME [BELOW target] [DEPS targets...] [EXCLUDE regex]): the static library tegula_NAME from every .cpp
# under this folder. Sources are globbed, so adding a file needs no edit here.
set(TEGULA_LAYERS "" CACHE INTERNAL "")
set(TEGULA_LAYER_DEPS "" CACHE INTERNAL "")

function(tegula_layer name)
  cmake_parse_arguments(arg "" "BELOW;EXCLUDE" "DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  if(arg_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${arg_EXCLUDE}")
  endif()
  if(NOT sources)  # an archive needs a member
    set(sources "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp")
    file(CONFIGURE OUTPUT "${sources}" CONTENT "")
  endif()

  add_library(tegula_${name} STATIC ${sources})
  target_include_directories(tegula_${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  if(IS_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/include")
    target_include_directories(tegula_${name} PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}/include")
  endif()
  target_link_libraries(tegula_${name} PUBLIC ${arg_BELOW} ${arg_DEPS} PRIVATE tegula_flags)
  tegula_unity(tegula_${name} 12)
  set(TEGULA_LAYERS ${TEGULA_LAYERS} tegula_${name} CACHE INTERNAL "")
  set(TEGULA_LAYER_DEPS ${TEGULA_LAYER_DEPS} ${arg_DEPS} CACHE INTERNAL "")
endfunction()
