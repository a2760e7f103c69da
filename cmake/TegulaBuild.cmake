# Compiler, linker and output folders. Tools that only speed up our own builds are used if present.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(GNUInstallDirs)

# libtegula_llvm.so is opened by plain name and found through the RUNPATH of the caller: next to libtegula.so, or in ../lib
# of a program. The RUNPATH is relative, so that a copied build tree also runs (`make gpu-pack`).
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_INSTALL_RPATH "$ORIGIN:$ORIGIN/../lib")
if(NOT CMAKE_INSTALL_LIBDIR STREQUAL "lib")
  list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endif()
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)  # a new libtegula.so does not relink every test

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
  endif()
  find_program(TEGULA_CCACHE ccache)
  if(TEGULA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # Paths are relative to the build folder, so that a clone elsewhere finds what another one has compiled. Precompiled
    # headers are as new as the files that include them, and are distinguished by their contents.
    set(sloppiness pch_defines,time_macros,include_file_ctime,include_file_mtime)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
                                    CCACHE_SLOPPINESS=${sloppiness} "${TEGULA_CCACHE}")
  endif()
  find_program(TEGULA_LLD ld.lld)
  if(TEGULA_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
endif()

# The headers of TEGULA_PCH, which only test programs precompile (TegulaTests.cmake). The library does not, so that the
# presets `no-gpu` and `dev` find a missing include.
set(TEGULA_PCH_HEADERS "")
if(TEGULA_PCH)
  set(TEGULA_PCH_HEADERS <algorithm> <array> <cstdint> <functional> <map> <memory> <optional> <ranges> <set> <span>
      <string> <string_view> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)
endif()

# Flags of all our targets; not exported.
add_library(tegula_flags INTERFACE)
target_compile_options(tegula_flags INTERFACE -Wall -Wextra -ffunction-sections -fdata-sections)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # The stable_sort of libstdc++ 12 calls a function that it declares deprecated, and Clang blames the caller.
  target_compile_options(tegula_flags INTERFACE -Wno-deprecated-declarations)
endif()
target_link_options(tegula_flags INTERFACE -Wl,--gc-sections)
if(TEGULA_WERROR)
  target_compile_options(tegula_flags INTERFACE -Werror)
endif()
if(TEGULA_SANITIZE)
  set(sanitize -fsanitize=${TEGULA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_compile_options(tegula_flags INTERFACE ${sanitize})
  target_link_options(tegula_flags INTERFACE -fsanitize=${TEGULA_SANITIZE})
endif()
