# Third-party libraries that every build needs. They are linked statically, so that a machine needs only a copy of
# libtegula.so; archives are found by file name, because the distributions' CMake targets name the shared libraries.
find_package(Threads REQUIRED)

# tegula_archive(NAME HEADER ARCHIVE [FALLBACK]) makes the target dep::NAME from a header and an archive; if only
# the shared library exists (other distributions), it is used.
function(tegula_archive name header archive shared)
  find_path(TEGULA_${name}_INCLUDE ${header} REQUIRED)
  find_library(TEGULA_${name}_LIBRARY NAMES ${archive} ${shared} REQUIRED)
  add_library(dep_${name} INTERFACE)
  add_library(dep::${name} ALIAS dep_${name})
  target_include_directories(dep_${name} SYSTEM INTERFACE ${TEGULA_${name}_INCLUDE})
  target_link_libraries(dep_${name} INTERFACE ${TEGULA_${name}_LIBRARY})
endfunction()

# {fmt}: the archive if there is one, else compiled here (9.x and 10.x) or header-only (later versions without an archive).
find_package(fmt 9 QUIET CONFIG)
find_path(TEGULA_fmt_INCLUDE fmt/core.h REQUIRED)
find_library(TEGULA_fmt_ARCHIVE NAMES libfmt.a)
if(TEGULA_fmt_ARCHIVE)
  add_library(dep_fmt INTERFACE)
  target_link_libraries(dep_fmt INTERFACE ${TEGULA_fmt_ARCHIVE})
elseif(fmt_VERSION VERSION_LESS 11)
  add_library(dep_fmt STATIC "${CMAKE_CURRENT_LIST_DIR}/fmt.cpp")
else()
  add_library(dep_fmt INTERFACE)
  target_compile_definitions(dep_fmt INTERFACE FMT_HEADER_ONLY)
endif()
add_library(dep::fmt ALIAS dep_fmt)
target_include_directories(dep_fmt SYSTEM INTERFACE ${TEGULA_fmt_INCLUDE})

tegula_archive(zstd zstd.h libzstd.a zstd)
tegula_archive(sqlite3 sqlite3.h libsqlite3.a sqlite3)
target_link_libraries(dep_sqlite3 INTERFACE m ${CMAKE_DL_LIBS} Threads::Threads)

# Header only: xxHash is inlined, the others have no library.
find_path(TEGULA_xxhash_INCLUDE xxhash.h REQUIRED)
add_library(dep_xxhash INTERFACE)
add_library(dep::xxhash ALIAS dep_xxhash)
target_include_directories(dep_xxhash SYSTEM INTERFACE ${TEGULA_xxhash_INCLUDE})
find_path(TEGULA_json_INCLUDE nlohmann/json.hpp REQUIRED)
add_library(dep_json INTERFACE)
add_library(dep::json ALIAS dep_json)
target_include_directories(dep_json SYSTEM INTERFACE ${TEGULA_json_INCLUDE})
