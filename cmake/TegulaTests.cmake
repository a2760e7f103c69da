# tegula_test(SOURCE NAME LABEL LIBS...): one GoogleTest program, run as one ctest test (a process a case would cost
# more than the cases themselves).
find_package(GTest REQUIRED CONFIG)

# Aggregates to build one kind alone: unit_tests, core_tests (those of the layers up to the runtime), gpu_tests.
add_custom_target(unit_tests)
add_custom_target(core_tests)
add_custom_target(gpu_tests)

# A test runs once for each time that it is compiled. Those of these labels compute what they expect, for minutes; the own
# code of others takes little of their run, so that optimizing it costs more than it gains.
set(optimized_labels differential gpu property)

# What every test includes is precompiled once: they reuse the headers of one of these programs.
if(TEGULA_PCH)
  file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/test_headers.cpp" CONTENT "int main() {}\n")
  foreach(headers tegula_test_headers tegula_optimized_test_headers)
    add_executable(${headers} "${CMAKE_CURRENT_BINARY_DIR}/test_headers.cpp")
    target_link_libraries(${headers} PRIVATE tegula_flags dep::fmt GTest::gmock)
    target_precompile_headers(${headers} PRIVATE <gmock/gmock.h> ${TEGULA_PCH_HEADERS})
  endforeach()
  target_compile_options(tegula_test_headers PRIVATE $<$<CONFIG:Debug>:-O0>)
endif()

function(tegula_test source name label)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE tegula_flags ${ARGN} GTest::gmock GTest::gtest_main)
  set(headers tegula_optimized_test_headers)
  if(NOT label IN_LIST optimized_labels)
    set(headers tegula_test_headers)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Debug>:-O0>)
  endif()
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${name} PRIVATE TEGULA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(TEGULA_PCH)
    target_precompile_headers(${name} REUSE_FROM ${headers})
  endif()
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 300 SKIP_RETURN_CODE 77)
  # Tests of the cache choose a folder of their own; no other test may find an earlier run's kernels.
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT TEGULA_CACHE=off)
  if(TARGET ${label}_tests)
    add_dependencies(${label}_tests ${name})
  endif()
  if(name MATCHES "^unit_(support|ir|codegen|runtime)_")
    add_dependencies(core_tests ${name})
  endif()
  if(TARGET tegula_llvm AND (NOT label STREQUAL unit OR name MATCHES "llvm"))
    add_dependencies(${name} tegula_llvm)
  endif()
endfunction()
