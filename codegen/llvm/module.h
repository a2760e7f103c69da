#pragma once
// The steps of the emitter, separate so that each of LLVM's large headers is included in one file
// only.
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <memory>
#include <string>
#include <string_view>

#include "codegen/emit.h"

namespace tegula::codegen::llvm_backend {

/// Returns the LLVM IR of a kernel in simt form. Throws InternalError for an op that cannot be
/// emitted.
std::unique_ptr<llvm::Module> build_module(const ir::Kernel& kernel, llvm::LLVMContext& context,
                                           bool lineinfo);
/// Optimizes a module in place and writes PTX; adds its times (and the IR, if kept) to `out`.
void write_ptx(llvm::Module& module, std::string_view target, const EmitOptions& options,
               Emitted& out);
/// Moves comparisons and the ops that combine them directly before their first use.
void place_conditions_late(llvm::Function& function);
/// Replaces each integer negation in LLVM's PTX by that of ptx::int_neg. LLVM also negates where
/// its IR does not (a product by -4 is a shift and a negation), so only the text shows all
/// negations.
std::string with_safe_negations(std::string_view ptx);

}  // namespace tegula::codegen::llvm_backend
