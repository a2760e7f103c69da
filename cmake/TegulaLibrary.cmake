# libtegula.so: every layer but LLVM, exported as tegula::tegula.
add_library(tegula SHARED)
add_library(tegula::tegula ALIAS tegula)
foreach(layer IN LISTS TEGULA_LAYERS)
  target_sources(tegula PRIVATE "$<TARGET_OBJECTS:${layer}>")  # the whole layer, used or not
endforeach()
set_target_properties(tegula PROPERTIES LINKER_LANGUAGE CXX)
target_link_libraries(tegula PRIVATE tegula_flags ${TEGULA_LAYER_DEPS})
target_compile_features(tegula PUBLIC cxx_std_20)
target_link_options(tegula PRIVATE "-Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/tegula.map" -Wl,-z,defs)
if(NOT TEGULA_SANITIZE)
  # libgcc stays shared: it unwinds, and an exception that leaves one copy's frames for another's aborts.
  target_link_options(tegula PRIVATE -static-libstdc++)
endif()
set_target_properties(tegula PROPERTIES
  LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/tegula.map"
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})

file(GLOB public_includes CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/*/include")
foreach(dir IN LISTS public_includes)
  target_include_directories(tegula PUBLIC "$<BUILD_INTERFACE:${dir}>")
  install(DIRECTORY "${dir}/" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library FILES_MATCHING PATTERN "*.h")
endforeach()
target_include_directories(tegula INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

# Python finds it by PYTHONPATH, or pip installs the folder.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/python/" DESTINATION ${CMAKE_INSTALL_DATADIR}/tegula/python COMPONENT library
  FILES_MATCHING PATTERN "*.py" PATTERN "pyproject.toml" PATTERN "__pycache__" EXCLUDE)

# Winners are read from the folder `tegula/winners` next to the library.
file(MAKE_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/tegula")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/autotune/winners" "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/tegula/winners" SYMBOLIC)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/autotune/winners" DESTINATION ${CMAKE_INSTALL_LIBDIR}/tegula
  COMPONENT library FILES_MATCHING PATTERN "*.jsonl")

install(TARGETS tegula EXPORT tegula
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT library)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tegula)
install(EXPORT tegula FILE tegula-config.cmake NAMESPACE tegula:: DESTINATION ${package_dir} COMPONENT library)
include(CMakePackageConfigHelpers)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tegula-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tegula-config-version.cmake" DESTINATION ${package_dir} COMPONENT library)

# For our own programs and tests: the shared library as shipped, private headers, and the header-only parts.
add_library(tegula_internal INTERFACE)
target_include_directories(tegula_internal INTERFACE "${PROJECT_SOURCE_DIR}")
target_link_libraries(tegula_internal INTERFACE tegula tegula_flags dep::fmt dep::json dep::xxhash)
if(NOT TEGULA_SANITIZE)
  target_link_options(tegula_internal INTERFACE -static-libstdc++)
endif()
