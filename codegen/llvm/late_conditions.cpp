// Moves conditions to their first use.
//
// All comparisons of a tile precede the selects that use them, but a thread has only seven
// predicates: ptxas packs the others into bits of registers and extracts them again, which takes
// three instructions per element of a mask. This pass walks each block forward. It defers a
// condition whose users are all in its block, and places it directly before the first instruction
// that needs it and is not itself deferred. The operands of a deferred condition precede it.
#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

#include "codegen/llvm/module.h"

namespace tegula::codegen::llvm_backend {
namespace {

using Deferred = llvm::SmallPtrSet<llvm::Instruction*, 32>;

/// Returns true for a condition that may be deferred. A phi uses its operand at the end of the
/// predecessor block, so a condition that a phi needs is not deferred.
bool may_defer(const llvm::Instruction& i) {
  const bool is_condition = i.getType()->isIntegerTy(1) &&
                            (llvm::isa<llvm::CmpInst>(i) || llvm::isa<llvm::BinaryOperator>(i));
  return is_condition && llvm::all_of(i.users(), [&](const llvm::User* u) {
           const auto* user = llvm::cast<llvm::Instruction>(u);
           return user->getParent() == i.getParent() && !llvm::isa<llvm::PHINode>(user);
         });
}

/// Returns the last operand that is deferred, or null. Each operand is placed directly before the
/// user, so placing the last one first keeps the operands in order.
llvm::Instruction* last_deferred_operand(const llvm::Instruction& i, const Deferred& deferred) {
  for (const llvm::Use& use : llvm::reverse(i.operands()))
    if (auto* operand = llvm::dyn_cast<llvm::Instruction>(use.get()); deferred.contains(operand))
      return operand;
  return nullptr;
}

/// Places all deferred conditions that `user` needs, directly or indirectly, before it: operands
/// before users.
void place_needed(llvm::Instruction& user, Deferred& deferred) {
  llvm::SmallVector<llvm::Instruction*, 16> needed{&user};
  while (!needed.empty()) {
    llvm::Instruction* last = needed.back();
    if (llvm::Instruction* operand = last_deferred_operand(*last, deferred)) {
      needed.push_back(operand);
      continue;
    }
    needed.pop_back();
    if (deferred.erase(last)) last->moveBefore(&user);
  }
}

}  // namespace

void place_conditions_late(llvm::Function& function) {
  for (llvm::BasicBlock& block : function) {
    Deferred deferred;
    for (llvm::Instruction& i : block)
      if (may_defer(i)) deferred.insert(&i);
    for (llvm::Instruction& i : llvm::make_early_inc_range(block))
      if (!deferred.contains(&i)) place_needed(i, deferred);
  }
}

}  // namespace tegula::codegen::llvm_backend
