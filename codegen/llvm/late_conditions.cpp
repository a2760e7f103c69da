// Truth values are computed where they are first needed.
//
// A tile's comparisons come all before what selects by them, and a thread has seven predicates:
// ptxas packed the others into the bits of registers and tested them out again, three instructions
// for each element of a mask.
#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

#include "codegen/llvm/module.h"

namespace tegula::codegen::llvm_backend {
namespace {

bool is_condition(const llvm::Instruction& i) {
  return i.getType()->isIntegerTy(1) &&
         (llvm::isa<llvm::CmpInst>(i) || llvm::isa<llvm::BinaryOperator>(i));
}

/// The first user, if all are in the instruction's block; phis count as the ends of theirs.
llvm::Instruction* first_user(llvm::Instruction& i) {
  llvm::Instruction* first = nullptr;
  for (llvm::User* u : i.users()) {
    auto* user = llvm::cast<llvm::Instruction>(u);
    if (user->getParent() != i.getParent() || llvm::isa<llvm::PHINode>(user)) return nullptr;
    if (!first || user->comesBefore(first)) first = user;
  }
  return first;
}

}  // namespace

void place_conditions_late(llvm::Function& function) {
  for (llvm::BasicBlock& block : function)
    for (llvm::Instruction& i : llvm::make_early_inc_range(llvm::reverse(block)))
      if (is_condition(i))
        if (llvm::Instruction* user = first_user(i)) i.moveBefore(user);
}

}  // namespace tegula::codegen::llvm_backend
