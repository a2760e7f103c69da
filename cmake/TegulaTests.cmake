# tegula_test(SOURCE NAME LABEL LIBS...): one GoogleTest program, run as one ctest test (a process a case would cost
# more than the cases themselves).
find_package(GTest REQUIRED CONFIG)

# Aggregates to build one kind alone: unit_tests, gpu_tests.
add_custom_target(unit_tests)
add_custom_target(gpu_tests)

function(tegula_test source name label)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE tegula_flags ${ARGN} GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${name} PRIVATE TEGULA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 300 SKIP_RETURN_CODE 77)
  # Tests of the cache choose a folder of their own; no other test may find an earlier run's kernels.
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT TEGULA_CACHE=off)
  if(TARGET ${label}_tests)
    add_dependencies(${label}_tests ${name})
  endif()
  if(TARGET tegula_llvm AND (NOT label STREQUAL unit OR name MATCHES "llvm"))
    add_dependencies(${name} tegula_llvm)
  endif()
endfunction()
