# Compiler, linker and output folders. Whatever only speeds up our own builds is used where present.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(GNUInstallDirs)

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
  endif()
  # The loader finds libtegula_llvm.so by plain name through the RUNPATH of whoever asks: programs of the build
  # tree look in lib/, installed ones beside themselves and in ../lib.
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
  set(CMAKE_BUILD_RPATH "${CMAKE_BINARY_DIR}/lib")
  set(CMAKE_INSTALL_RPATH "$ORIGIN:$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

  find_program(TEGULA_CCACHE ccache)
  if(TEGULA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${TEGULA_CCACHE}")
  endif()
  find_program(TEGULA_LLD ld.lld)
  if(TEGULA_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
endif()

# Flags of every target of ours; never exported.
add_library(tegula_flags INTERFACE)
target_compile_options(tegula_flags INTERFACE -Wall -Wextra -ffunction-sections -fdata-sections)
target_link_options(tegula_flags INTERFACE -Wl,--gc-sections)
if(TEGULA_WERROR)
  target_compile_options(tegula_flags INTERFACE -Werror)
endif()
if(TEGULA_SANITIZE)
  set(sanitize -fsanitize=${TEGULA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_compile_options(tegula_flags INTERFACE ${sanitize})
  target_link_options(tegula_flags INTERFACE -fsanitize=${TEGULA_SANITIZE})
endif()
