// Named barriers, mbarriers, fences, TMA, and the user's inline PTX.
#include <fmt/format.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/Support/Error.h>

#include "codegen/llvm/emitter.h"

namespace tegula::codegen::llvm_backend {
namespace {

using NamedBarrier = ptx::Asm (*)(std::optional<std::int64_t>, std::int64_t);

void emit_named_barrier(Emitter& e, OpId id, NamedBarrier spell) {
  const auto constant = e.constant(e.operand(id, 0));
  llvm::SmallVector<Value*, 1> args;
  if (!constant) args.push_back(e.scalar(e.operand(id, 0)));
  e.inline_ptx(spell(constant, e.attrs(id).i(AttrName::count)), args);
}

/// Returns the words of all operands from number `first` on.
Words operand_words(Emitter& e, OpId id, std::size_t first = 0) {
  const auto& operands = e.op(id).operands;
  return e.words_of(llvm::ArrayRef<ir::Value>(operands.data(), operands.size()).drop_front(first));
}

}  // namespace

#define STATEMENT(Name, text) \
  void llvm_##Name(Emitter& e, OpId id) { e.inline_ptx(ptx::statement(e.op(id))); }
#include "codegen/ptx/statements.def"

void llvm_BarSync(Emitter& e, OpId id) { emit_named_barrier(e, id, ptx::bar_sync); }
void llvm_BarArrive(Emitter& e, OpId id) { emit_named_barrier(e, id, ptx::bar_arrive); }
void llvm_CtaRank(Emitter& e, OpId id) {
  e.set_words(e.result(id), {e.inline_ptx_value(ptx::cta_rank())});
}
void llvm_MapShared(Emitter& e, OpId id) {
  e.set_words(e.result(id), {e.inline_ptx_value(ptx::map_shared(), operand_words(e, id))});
}
void llvm_SpecialReg(Emitter& e, OpId id) {
  e.set_words(e.result(id),
              {e.inline_ptx_value(ptx::special_register(e.attrs(id).s(AttrName::kind)))});
}

void llvm_MbarInit(Emitter& e, OpId id) {
  e.inline_ptx(ptx::mbar_init(e.attrs(id).i(AttrName::count, 1)), operand_words(e, id));
}
void llvm_MbarArrive(Emitter& e, OpId id) {
  e.inline_ptx(
      ptx::mbar_arrive(e.operand_count(id) > 1, e.attrs(id).s(AttrName::scope) == "cluster"),
      operand_words(e, id));
}
void llvm_MbarExpectTx(Emitter& e, OpId id) {
  e.inline_ptx(ptx::mbar_expect_tx(e.attrs(id).i(AttrName::bytes), e.operand_count(id) > 1),
               operand_words(e, id));
}
void llvm_MbarWait(Emitter& e, OpId id) { e.inline_ptx(ptx::mbar_wait(), operand_words(e, id)); }

void llvm_TmaLoad(Emitter& e, OpId id) {
  // Operands: map, destination, barrier, coordinates; PTX expects destination, map, coordinates,
  // barrier.
  const Words coordinates = operand_words(e, id, 3);
  Words args{e.scalar(e.operand(id, 1)), e.scalar(e.operand(id, 0))};
  args.append(coordinates);
  args.push_back(e.scalar(e.operand(id, 2)));
  e.inline_ptx(ptx::tma_load(static_cast<int>(coordinates.size()), e.attrs(id).s(AttrName::evict),
                             e.attrs(id).i(AttrName::cluster_ctas, 1)),
               args);
}

namespace {

/// Operands: map, source, coordinates; PTX expects the source last.
void emit_to_global(Emitter& e, OpId id, const ptx::Asm& text) {
  Words args{e.scalar(e.operand(id, 0))};
  args.append(operand_words(e, id, 2));
  args.push_back(e.scalar(e.operand(id, 1)));
  e.inline_ptx(text, args);
}

int stored_rank(Emitter& e, OpId id) { return static_cast<int>(e.operand_count(id)) - 2; }

}  // namespace

void llvm_TmaStore(Emitter& e, OpId id) {
  emit_to_global(e, id, ptx::tma_store(stored_rank(e, id), e.attrs(id).s(AttrName::evict)));
}
void llvm_TmaReduce(Emitter& e, OpId id) {
  emit_to_global(e, id,
                 ptx::tma_reduce(e.attrs(id).s(AttrName::kind), stored_rank(e, id),
                                 e.attrs(id).s(AttrName::evict)));
}

void llvm_PrefetchTensorMap(Emitter& e, OpId id) {
  e.inline_ptx(ptx::prefetch_tensormap(), operand_words(e, id));
}

void llvm_Asm(Emitter& e, OpId id) {
  const auto& operands = e.op(id).operands;
  const auto taken = static_cast<std::size_t>(
      e.attrs(id).i(AttrName::count, static_cast<std::int64_t>(operands.size())));
  const Words args = e.words_of(llvm::ArrayRef<ir::Value>(operands.data(), taken));
  llvm::SmallVector<llvm::Type*, 4> arg_types, result_types;
  for (Value* v : args) arg_types.push_back(v->getType());
  for (ir::Value r : e.op(id).results) {
    const Holding h = e.holding(e.kernel.type(r));
    result_types.append(static_cast<std::size_t>(h.words), h.word);
  }
  llvm::Type* type = result_types.empty()       ? e.b.getVoidTy()
                     : result_types.size() == 1 ? result_types[0]
                                                : llvm::StructType::get(e.context, result_types);
  const bool effects = e.attrs(id).i(AttrName::effects) != 0;
  std::string constraints(e.attrs(id).s(AttrName::constraints));
  if (effects) constraints += constraints.empty() ? "~{memory}" : ",~{memory}";
  auto* function = llvm::FunctionType::get(type, arg_types, false);
  if (llvm::Error error = llvm::InlineAsm::verify(function, constraints))
    e.refuse(id, llvm::toString(std::move(error)));
  llvm::CallInst* call = e.b.CreateCall(
      llvm::InlineAsm::get(function, e.attrs(id).s(AttrName::text), constraints, effects), args);
  call->setDoesNotThrow();
  call->setConvergent();
  if (!effects) call->setDoesNotAccessMemory();
  Words out;
  if (result_types.size() == 1) out.push_back(call);
  for (unsigned i = 0; result_types.size() > 1 && i < result_types.size(); ++i)
    out.push_back(e.b.CreateExtractValue(call, i));
  const auto& results = e.op(id).results;
  e.distribute(llvm::ArrayRef<ir::Value>(results.data(), results.size()), out);
}

}  // namespace tegula::codegen::llvm_backend
