# GoogleTest programs. A program holds the tests of many files, since linking and starting a program per file costs more
# than most tests; ctest runs each file in a separate process (tests/main/main.cpp), under a name derived from its path:
# unit/ir/plan_test.cpp is the test unit_ir_plan_test, wherever it is linked.
find_package(GTest REQUIRED CONFIG)

# Aggregates: unit_tests builds every unit test, core_tests those of the layers up to the runtime, package_tests all that
# uses the library as a user does: file tests, lessons, C programs and the program `tegula`.
add_custom_target(unit_tests)
add_custom_target(core_tests)
add_custom_target(package_tests)

# Tests with these labels spend minutes in their own code, which is therefore optimized. Others are compiled at -O0: they
# run once per compilation, and optimizing them costs more than it gains.
set(optimized_labels differential gpu property)

add_library(tegula_test_main OBJECT "${PROJECT_SOURCE_DIR}/tests/main/main.cpp")
target_link_libraries(tegula_test_main PRIVATE tegula_flags GTest::gmock)

# The headers that every test includes are precompiled once per optimization level.
if(TEGULA_PCH)
  file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/test_headers.cpp" CONTENT "int main() {}\n")
  foreach(headers tegula_test_headers tegula_optimized_test_headers)
    add_executable(${headers} EXCLUDE_FROM_ALL "${CMAKE_CURRENT_BINARY_DIR}/test_headers.cpp")
    target_link_libraries(${headers} PRIVATE tegula_flags dep::fmt GTest::gmock)
    target_precompile_headers(${headers} PRIVATE <gmock/gmock.h> ${TEGULA_PCH_HEADERS})
  endforeach()
  target_compile_options(tegula_test_headers PRIVATE $<$<CONFIG:Debug>:-O0>)
endif()

# tegula_test_program(NAME LABEL SOURCES files... LIBS targets...): the program NAME and a test for each file `x_test.cpp`.
# Paths are relative to tests/.
function(tegula_test_program name label)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE tegula_flags tegula_test_main ${arg_LIBS} GTest::gmock)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${name} PRIVATE TEGULA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  tegula_unity(${name} 6)
  set(headers tegula_optimized_test_headers)
  if(NOT label IN_LIST optimized_labels)
    set(headers tegula_test_headers)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Debug>:-O0>)
  endif()
  if(TEGULA_PCH)
    target_precompile_headers(${name} REUSE_FROM ${headers})
  endif()
  if(label STREQUAL unit)
    add_dependencies(unit_tests ${name})
    if(name MATCHES "^unit_(support|ir|codegen|runtime)_")
      add_dependencies(core_tests ${name})
    endif()
  endif()
  if(TARGET tegula_llvm AND (NOT label STREQUAL unit OR name MATCHES "llvm"))
    add_dependencies(${name} tegula_llvm)
  endif()
  foreach(source IN LISTS arg_SOURCES)
    if(source MATCHES "_test\\.cpp$" AND NOT label STREQUAL filetest)
      string(REGEX REPLACE "\\.cpp$" "" test "${source}")
      string(REPLACE "/" "_" test "${test}")
      tegula_test(${test} ${label} ${name} ${source})
    endif()
  endforeach()
endfunction()

# tegula_test(TEST LABEL PROGRAM FILE [ARGUMENTS...]): runs the tests of one file of a program. The report of its cases is
# cases/TEST.json in the build folder (tools/dev/count_tests.py).
function(tegula_test test label program file)
  add_test(NAME ${test} COMMAND ${program} --file=${file} --gtest_brief=1 ${ARGN})
  # Tests of the cache choose their own folder; no other test may find kernels of an earlier run.
  set_tests_properties(${test} PROPERTIES LABELS ${label} TIMEOUT 300 SKIP_RETURN_CODE 77
    ENVIRONMENT "TEGULA_CACHE=off;GTEST_OUTPUT=json:${PROJECT_BINARY_DIR}/cases/${test}.json")
endfunction()
