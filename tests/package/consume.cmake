# Builds and runs the consumer. WAY=installed: find_package against an installation of the components built here.
# WAY=subdirectory: configures our tree inside the consumer's and compiles its files, but does not build ours again.
set(build "${WORK}/${WAY}")
file(REMOVE_RECURSE "${build}" "${WORK}/prefix-${WAY}")

function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${output}")
  endif()
endfunction()

set(flags "")
if(SANITIZE)  # an executable must carry the run-time library its shared library was built for
  set(flags "-fsanitize=${SANITIZE}")
endif()
set(configure ${CMAKE_COMMAND} -S "${CONSUMER}" -B "${build}" -G "${GENERATOR}"
  -DCMAKE_CXX_COMPILER=${COMPILER} "-DCMAKE_CXX_FLAGS=${flags}")
if(WAY STREQUAL "installed")
  set(prefix "${WORK}/prefix-${WAY}")
  step(${CMAKE_COMMAND} --install "${TEGULA_BUILD}" --prefix "${prefix}" --component library)
  if(LLVM AND NOT EXISTS "${prefix}/${LIBDIR}/libtegula_llvm.so")
    message(FATAL_ERROR "the LLVM back end is not installed beside the library")
  endif()
  step(${configure} "-DCMAKE_PREFIX_PATH=${prefix}")
  step(${CMAKE_COMMAND} --build "${build}")
  # Without a GPU's driver and with the back end of the package alone: nothing of the build tree is looked for.
  set(backend "")
  if(LLVM)
    set(backend llvm)
  endif()
  step(${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH --unset=TEGULA_LLVM TEGULA_CACHE=off "${build}/consumer" ${backend})
  step(${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH TEGULA_CACHE=off "${build}/client")
  if(PYTHON)
    step(${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH "PYTHONPATH=${prefix}/${DATADIR}/tegula/python" ${PYTHON} -B -c
      "import sys, tegula; assert tegula.load(sys.argv[1]).names == ('doubled',)" "${build}/libexported.so")
  endif()
  if(PROGRAM)  # it starts from where it is installed, with the libraries that lie there
    step(${CMAKE_COMMAND} --install "${TEGULA_BUILD}" --prefix "${prefix}" --component program)
    step("${prefix}/${BINDIR}/tegula" --help)
    step(${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH --unset=TEGULA_LLVM "${prefix}/${BINDIR}/tegula" doctor)
    if(LLVM)  # a kernel's text to PTX
      execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH --unset=TEGULA_LLVM "${prefix}/${BINDIR}/tegula"
          opt --emit=ptx "${TEGULA_SOURCE}/tests/unit/dsl/golden/vector_add.tir"
        RESULT_VARIABLE status OUTPUT_VARIABLE ptx ERROR_VARIABLE ptx_error)
      if(NOT status EQUAL 0 OR NOT ptx MATCHES "\\.entry add")
        message(FATAL_ERROR "tegula opt --emit=ptx: ${status}\n${ptx_error}\n${ptx}")
      endif()
    endif()
    if(EXISTS "${TEGULA_BUILD}/lib/libtegula_bench.so" AND NOT EXISTS "${prefix}/${LIBDIR}/libtegula_bench.so")
      message(FATAL_ERROR "libtegula_bench.so is not installed beside the program's other libraries")
    endif()
  endif()
else()
  step(${configure} -DTEGULA_TREE=${TEGULA_SOURCE})
  step(${CMAKE_COMMAND} --build "${build}" --target consumer_files)
endif()
