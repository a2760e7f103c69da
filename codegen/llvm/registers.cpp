// Special registers, rearrangement of registers, and exchange between lanes.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "codegen/llvm/emitter.h"

namespace tegula::codegen::llvm_backend {
namespace {

namespace Intrinsic = llvm::Intrinsic;

std::vector<ElementRef> concatenated(Emitter& e, OpId id) {
  std::vector<ElementRef> all;
  for (ir::Value v : e.op(id).operands) {
    const auto refs = e.refs(v);
    all.insert(all.end(), refs.begin(), refs.end());
  }
  return all;
}

/// Returns the number of bits of a word; 64 for a pointer, for which LLVM returns 0.
unsigned bits_of(llvm::Type* word) {
  constexpr unsigned kPointer = 64;
  return word->isPointerTy()
             ? kPointer
             : static_cast<unsigned>(word->getPrimitiveSizeInBits().getFixedValue());
}

/// Regroups the bits of `words` into words of `bits` bits each, lowest first.
Words regrouped(Emitter& e, const Words& words, unsigned bits) {
  Words out;
  const unsigned have = bits_of(words[0]->getType());
  if (have == bits) return words;
  auto* wide = e.b.getIntNTy(std::max(have, bits));
  auto* parts = llvm::FixedVectorType::get(e.b.getIntNTy(std::min(have, bits)),
                                           std::max(have, bits) / std::min(have, bits));
  if (have > bits) {
    for (Value* w : words)
      for (unsigned i = 0; i < have / bits; ++i)
        out.push_back(e.b.CreateExtractElement(e.b.CreateBitCast(e.bits_as(w, wide), parts),
                                               std::uint64_t{i}));
    return out;
  }
  for (std::size_t first = 0; first < words.size(); first += bits / have) {
    Value* joined = llvm::PoisonValue::get(parts);
    for (unsigned i = 0; i < bits / have; ++i)
      joined = e.b.CreateInsertElement(joined, e.bits_as(words[first + i], parts->getElementType()),
                                       std::uint64_t{i});
    out.push_back(e.b.CreateBitCast(joined, wide));
  }
  return out;
}

}  // namespace

void llvm_Tid(Emitter& e, OpId id) { e.set_words(e.result(id), {e.thread_index()}); }
void llvm_LaneId(Emitter& e, OpId id) {
  e.set_words(e.result(id), {e.b.CreateAnd(e.thread_index(), 31)});
}
void llvm_WarpId(Emitter& e, OpId id) { e.set_words(e.result(id), {e.warp_index()}); }
void llvm_CtaId(Emitter& e, OpId id) {
  e.set_words(e.result(id), {e.grid_register(false, e.attrs(id).i(AttrName::axis))});
}
void llvm_NumCtas(Emitter& e, OpId id) {
  e.set_words(e.result(id), {e.grid_register(true, e.attrs(id).i(AttrName::axis))});
}
void llvm_SmemBase(Emitter& e, OpId id) {
  e.set_words(e.result(id), {e.b.CreatePtrToInt(e.shared_memory(), e.b.getInt32Ty())});
}

void llvm_Concat(Emitter& e, OpId id) { e.set_refs(e.result(id), concatenated(e, id)); }

void llvm_Regs(Emitter& e, OpId id) {
  const std::vector<ElementRef> all = concatenated(e, id);
  std::vector<ElementRef> chosen;
  for (std::int64_t i : e.attrs(id).ints(AttrName::indices))
    chosen.push_back(all[static_cast<std::size_t>(i)]);
  e.set_refs(e.result(id), chosen);
}

void llvm_Repack(Emitter& e, OpId id) {
  const Holding h = e.holding(e.kernel.type(e.result(id)));
  Words out = regrouped(e, e.words(e.operand(id, 0)), bits_of(h.word));
  for (Value*& w : out) w = e.bits_as(w, h.word);
  e.set_words(e.result(id), std::move(out));
}

void llvm_Shfl(Emitter& e, OpId id) {
  struct Mode {
    std::string_view name;
    Intrinsic::ID integer, floating;
    int clamp;
  };
  static constexpr Mode kModes[] = {
      {"idx", Intrinsic::nvvm_shfl_sync_idx_i32, Intrinsic::nvvm_shfl_sync_idx_f32, 31},
      {"xor", Intrinsic::nvvm_shfl_sync_bfly_i32, Intrinsic::nvvm_shfl_sync_bfly_f32, 31},
      {"up", Intrinsic::nvvm_shfl_sync_up_i32, Intrinsic::nvvm_shfl_sync_up_f32, 0},
      {"down", Intrinsic::nvvm_shfl_sync_down_i32, Intrinsic::nvvm_shfl_sync_down_f32, 31},
  };
  for (const Mode& m : kModes) {
    if (m.name != e.attrs(id).s(AttrName::mode)) continue;
    Words out;
    for (Value* w : e.words(e.operand(id, 0)))
      out.push_back(
          e.b.CreateIntrinsic(w->getType()->isFloatTy() ? m.floating : m.integer, {},
                              {e.i32(-1), w, e.scalar(e.operand(id, 1)), e.i32(m.clamp)}));
    return e.set_words(e.result(id), std::move(out));
  }
  e.refuse(id, "unknown mode");
}

void llvm_Vote(Emitter& e, OpId id) {
  e.set_words(e.result(id), {e.inline_ptx_value(ptx::vote(e.attrs(id).s(AttrName::kind)),
                                                {e.scalar(e.operand(id, 0))})});
}

}  // namespace tegula::codegen::llvm_backend
