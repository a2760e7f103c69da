# tegula_test(SOURCE NAME LABEL LIBS...): one GoogleTest program, run as one ctest test (a process a case would cost
# more than the cases themselves).
find_package(GTest REQUIRED CONFIG)

# Aggregates to build one kind alone: unit_tests, core_tests (those of the layers up to the runtime), gpu_tests.
add_custom_target(unit_tests)
add_custom_target(core_tests)
add_custom_target(gpu_tests)

# A test runs once for each time that it is compiled, and its own code takes little of the run.
set(test_flags $<$<CONFIG:Debug>:-O0>)

# What every test includes is precompiled once: they reuse this program's headers.
if(TEGULA_PCH)
  file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/test_headers.cpp" CONTENT "int main() {}\n")
  add_executable(tegula_test_headers "${CMAKE_CURRENT_BINARY_DIR}/test_headers.cpp")
  target_link_libraries(tegula_test_headers PRIVATE tegula_flags dep::fmt GTest::gmock)
  target_compile_options(tegula_test_headers PRIVATE ${test_flags})
  target_precompile_headers(tegula_test_headers PRIVATE <gmock/gmock.h> ${TEGULA_PCH_HEADERS})
endif()

function(tegula_test source name label)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE tegula_flags ${ARGN} GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE ${test_flags})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${name} PRIVATE TEGULA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(TEGULA_PCH)
    target_precompile_headers(${name} REUSE_FROM tegula_test_headers)
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
