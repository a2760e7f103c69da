// Conditions are computed where they are first needed.
//
// A tile's comparisons all come before what selects by them, and a thread has seven predicates:
// ptxas packs the others into the bits of registers and tests them out again, three instructions
// for each element of a mask. This pass walks each block forwards: a condition whose users all lie
// in its block waits, and the first instruction that does not wait itself and needs it has it
// placed directly in front, behind what the condition needs in turn. No positions are compared, so
// none can tie.
#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

#include "codegen/llvm/module.h"

namespace tegula::codegen::llvm_backend {
namespace {

using Waiting = llvm::SmallPtrSet<llvm::Instruction*, 32>;

/// A phi uses its operand at the end of the block it comes from, so a condition that a phi needs
/// stays.
bool may_wait(const llvm::Instruction& i) {
  const bool is_condition = i.getType()->isIntegerTy(1) &&
                            (llvm::isa<llvm::CmpInst>(i) || llvm::isa<llvm::BinaryOperator>(i));
  return is_condition && llvm::all_of(i.users(), [&](const llvm::User* u) {
           const auto* user = llvm::cast<llvm::Instruction>(u);
           return user->getParent() == i.getParent() && !llvm::isa<llvm::PHINode>(user);
         });
}

/// The last operand comes first: what a condition combines then lies in the order that ptxas has
/// always got.
llvm::Instruction* waiting_operand(const llvm::Instruction& i, const Waiting& waiting) {
  for (const llvm::Use& use : llvm::reverse(i.operands()))
    if (auto* operand = llvm::dyn_cast<llvm::Instruction>(use.get()); waiting.contains(operand))
      return operand;
  return nullptr;
}

/// Places all waiting conditions that `user` needs, however indirectly, in front of it: operands
/// before users.
void place_needed(llvm::Instruction& user, Waiting& waiting) {
  llvm::SmallVector<llvm::Instruction*, 16> needed{&user};
  while (!needed.empty()) {
    llvm::Instruction* last = needed.back();
    if (llvm::Instruction* operand = waiting_operand(*last, waiting)) {
      needed.push_back(operand);
      continue;
    }
    needed.pop_back();
    if (waiting.erase(last)) last->moveBefore(&user);
  }
}

}  // namespace

void place_conditions_late(llvm::Function& function) {
  for (llvm::BasicBlock& block : function) {
    Waiting waiting;
    for (llvm::Instruction& i : block)
      if (may_wait(i)) waiting.insert(&i);
    for (llvm::Instruction& i : llvm::make_early_inc_range(block))
      if (!waiting.contains(&i)) place_needed(i, waiting);
  }
}

}  // namespace tegula::codegen::llvm_backend
