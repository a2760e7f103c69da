// Truth values are computed where they are first needed.
//
// A tile's comparisons come all before what selects by them, and a thread has seven predicates:
// ptxas packed the others into the bits of registers and tested them out again, three instructions
// for each element of a mask.
#include <llvm/ADT/DenseMap.h>
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

/// Places of a block's instructions, which stay in order while single ones move.
using Places = llvm::DenseMap<const llvm::Instruction*, unsigned>;

Places places_of(const llvm::BasicBlock& block) {
  Places places;
  for (const llvm::Instruction& i : block) places.try_emplace(&i, places.size());
  return places;
}

/// The first user, if all are in the instruction's block; phis count as the ends of theirs.
llvm::Instruction* first_user(llvm::Instruction& i, const Places& places) {
  llvm::Instruction* first = nullptr;
  for (llvm::User* u : i.users()) {
    auto* user = llvm::cast<llvm::Instruction>(u);
    if (user->getParent() != i.getParent() || llvm::isa<llvm::PHINode>(user)) return nullptr;
    if (!first || places.lookup(user) < places.lookup(first)) first = user;
  }
  return first;
}

}  // namespace

void place_conditions_late(llvm::Function& function) {
  for (llvm::BasicBlock& block : function) {
    Places places = places_of(block);
    for (llvm::Instruction& i : llvm::make_early_inc_range(llvm::reverse(block))) {
      llvm::Instruction* user = is_condition(i) ? first_user(i, places) : nullptr;
      if (!user) continue;
      i.moveBefore(user);
      places[&i] = places.lookup(user);  // beside its user; what needs both comes behind
    }
  }
}

}  // namespace tegula::codegen::llvm_backend
