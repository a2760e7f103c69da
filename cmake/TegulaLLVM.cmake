# dep::llvm: LLVM 19.1's static archives and their headers as SYSTEM. The component names are exact: lower-case
# `nvptx` would silently become -lLLVMnvptx and fail at link.
set(ZLIB_USE_STATIC_LIBS ON)
find_package(LLVM 19.1 REQUIRED CONFIG)  # LLVM's version file rejects "19"

llvm_map_components_to_libnames(llvm_libs
  NVPTXCodeGen NVPTXDesc NVPTXInfo X86CodeGen X86AsmParser X86Desc X86Info OrcJIT Passes)

# LLVMSupport names the shared zstd and z3; no object needs z3, and zstd is linked statically.
get_target_property(support_libs LLVMSupport INTERFACE_LINK_LIBRARIES)
list(FILTER support_libs EXCLUDE REGEX "z3|zstd")
set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES
  "${support_libs};${TEGULA_zstd_LIBRARY}")

add_library(dep_llvm INTERFACE)
add_library(dep::llvm ALIAS dep_llvm)
separate_arguments(llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_definitions(dep_llvm INTERFACE ${llvm_definitions})
target_include_directories(dep_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_link_libraries(dep_llvm INTERFACE ${llvm_libs})
