#pragma once
// The emitter's three steps, kept apart so that LLVM's heavy headers stay in one file each.
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <memory>
#include <string>
#include <string_view>

#include "codegen/emit.h"

namespace tegula::codegen::llvm_backend {

/// LLVM IR of a kernel in simt form. Throws InternalError for an op that cannot be emitted.
std::unique_ptr<llvm::Module> build_module(const ir::Kernel& kernel, llvm::LLVMContext& context,
                                           bool lineinfo);
/// Optimizes a module in place and writes PTX; adds its times (and the IR, if kept) to `out`.
void write_ptx(llvm::Module& module, std::string_view target, const EmitOptions& options,
               Emitted& out);
/// Comparisons and what combines them, right before what needs them first.
void place_conditions_late(llvm::Function& function);
/// LLVM's PTX with each negation of an integer as ptx::int_neg writes it. LLVM negates where
/// nothing in its IR does (a product by -4 is a shift and a minus), so that only its text shows
/// them all.
std::string with_safe_negations(std::string_view ptx);

}  // namespace tegula::codegen::llvm_backend
