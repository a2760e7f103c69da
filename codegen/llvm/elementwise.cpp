// Elementwise ops on registers: broadcasting, and widening of bf16, f16 and fp8 to f32 (their
// arithmetic is computed in f32 and rounded once), pairwise if one instruction converts two
// elements.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace tegula::codegen::llvm_backend {
namespace {

bool is_narrow_float(ir::Elem e) {
  return !e.pointer && is_float(e.dtype) && size_bits(e.dtype) < 32;
}
constexpr ir::Elem kF32{DType::f32, false};

/// Returns true for ops that use the bits of narrow floats, not their value in f32. This includes a
/// cast to the same type: fp8 would lose its infinities in a round trip.
bool works_on_bits(const ir::Kernel& k, const ir::OpData& op) {
  static constexpr Opcode kOps[] = {Opcode::Neg, Opcode::Abs, Opcode::Select, Opcode::Bitcast};
  if (op.opcode == Opcode::Cast)
    return k.type(op.operands[0]).elem() == k.type(op.results[0]).elem();
  return std::find(std::begin(kOps), std::end(kOps), op.opcode) != std::end(kOps);
}

/// Returns true if packed words may be processed whole: the op is bitwise or moves elements
/// unchanged, and all its vectors are packed.
bool processes_words(Emitter& e, ir::OpId id) {
  static constexpr Opcode kBitwise[] = {Opcode::And, Opcode::Or, Opcode::Xor, Opcode::Not,
                                        Opcode::Select};
  const ir::OpData& op = e.op(id);
  const Holding result = e.holding(e.kernel.type(e.result(id)));
  const bool is_sign =
      is_narrow_float(e.kernel.type(e.result(id)).elem()) && op.is(Opcode::Neg, Opcode::Abs);
  if (result.per_word == 1) return false;
  if (!is_sign &&
      std::find(std::begin(kBitwise), std::end(kBitwise), op.opcode) == std::end(kBitwise))
    return false;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const ir::Type type = e.kernel.type(op.operands[i]);
    const bool is_condition = op.opcode == Opcode::Select && i == 0;
    if (is_condition ? !type.is_scalar() : e.holding(type).per_word != result.per_word)
      return false;
  }
  return true;
}

/// Returns true for arithmetic that the hardware performs directly on 16-bit floats, two per word.
bool is_half_arithmetic(const ir::Kernel& k, const ir::OpData& op) {
  const ir::Elem elem = k.type(op.results[0]).elem();
  return !elem.pointer && !ptx::half_arithmetic(ir::info(op.opcode).mnemonic, elem.dtype).empty();
}

/// Emits 16-bit float arithmetic on packed words. Scalar operands are duplicated to both halves.
void emit_half_arithmetic(Emitter& e, ir::OpId id) {
  const ir::OpData& op = e.op(id);
  const ir::Value result = e.result(id);
  const Holding h = e.holding(e.kernel.type(result));
  const bool pair = h.per_word == 2;
  const auto word_of = [&](ir::Value v, std::size_t i) -> Value* {
    const Words& words = e.words(v);
    Value* word = words[words.size() == 1 ? 0 : i];
    if (!pair || e.kernel.type(v).is_vec()) return word;
    word = e.b.CreateZExt(word, e.b.getInt32Ty());
    return e.b.CreateMul(word, e.i32(0x10001));
  };
  const ptx::Asm text = ptx::half_op(ir::info(op.opcode).mnemonic, e.kernel.type(result).dtype(),
                                     pair, op.attrs.s(AttrName::nan, "ignore") == "propagate");
  Words results;
  for (std::size_t i = 0; i < static_cast<std::size_t>(h.words); ++i) {
    Words x;
    for (ir::Value v : op.operands) x.push_back(word_of(v, i));
    results.push_back(e.bits_as(e.inline_ptx_value(text, x), h.word));
  }
  e.set_words(result, std::move(results));
}

/// Returns true if the result is computed in f32 and rounded to nearest even, so that two elements
/// may share one instruction.
bool rounds_from_f32(const ir::Kernel& k, const ir::OpData& op, llvm::ArrayRef<ir::Elem> in) {
  const ir::Elem out = k.type(op.results[0]).elem();
  if (works_on_bits(k, op) || !is_narrow_float(out)) return false;
  if (op.opcode == Opcode::Cast) {
    const ir::CastMode mode = ir::cast_mode(op.attrs, k.type(op.operands[0]).dtype(), out.dtype);
    if (mode.to_zero || mode.saturate) return false;
  }
  return std::all_of(in.begin(), in.end(), [](ir::Elem e) { return e == kF32; });
}

Value* bf16_to_f32(Emitter& e, ElementRef r) {
  Value* word = r.word;
  if (word->getType()->isIntegerTy(16)) word = e.b.CreateZExt(word, e.b.getInt32Ty());
  Value* bits = r.part == 0 ? e.b.CreateShl(word, 16) : e.b.CreateAnd(word, 0xffff0000u);
  return e.b.CreateBitCast(bits, e.b.getFloatTy());
}

Value* f16_to_f32(Emitter& e, Value* half) {
  return e.b.CreateFPExt(e.b.CreateBitCast(half, e.b.getHalfTy()), e.b.getFloatTy());
}

Words f8_to_f32(Emitter& e, const std::vector<ElementRef>& refs, DType from) {
  Words out;
  for (std::size_t i = 0; i < refs.size(); ++i) {
    // Adjacent elements in one 32-bit word are unpacked together.
    const bool pair = refs[i].word->getType()->isIntegerTy(32);
    Value* two = pair ? e.b.CreateTrunc(
                            e.b.CreateLShr(refs[i].word, 8u * static_cast<unsigned>(refs[i].part)),
                            e.b.getInt16Ty())
                      : e.b.CreateZExt(refs[i].word, e.b.getInt16Ty());
    Value* halves = e.inline_ptx_value(ptx::unpack_f8_pair(from), {two});
    auto* parts = llvm::FixedVectorType::get(e.b.getInt16Ty(), 2);
    Value* both = e.b.CreateBitCast(halves, parts);
    out.push_back(f16_to_f32(e, e.b.CreateExtractElement(both, std::uint64_t{0})));
    if (pair) out.push_back(f16_to_f32(e, e.b.CreateExtractElement(both, std::uint64_t{1})));
    i += pair;
  }
  return out;
}

/// Packs two f32 into one 32-bit word (bf16, f16) or one 16-bit value (fp8).
Value* pack_pair(Emitter& e, Value* low, Value* high, DType to) {
  if (to != DType::bf16) return e.inline_ptx_value(ptx::cast_pair(DType::f32, to), {high, low});
  Value* pair = e.b.CreateIntrinsic(llvm::Intrinsic::nvvm_ff2bf16x2_rn, {}, {high, low});
  return e.b.CreateBitCast(pair, e.b.getInt32Ty());
}

Value* join_halves(Emitter& e, Value* low, Value* high) {
  Value* both = llvm::PoisonValue::get(llvm::FixedVectorType::get(e.b.getInt16Ty(), 2));
  both = e.b.CreateInsertElement(both, low, std::uint64_t{0});
  return e.b.CreateBitCast(e.b.CreateInsertElement(both, high, std::uint64_t{1}), e.b.getInt32Ty());
}

}  // namespace

Words widen(Emitter& e, ir::Value v) {
  const ir::Elem elem = e.kernel.type(v).elem();
  if (!is_narrow_float(elem)) return e.elements(v);
  const std::vector<ElementRef> refs = e.refs(v);
  if (size_bits(elem.dtype) == 8) return f8_to_f32(e, refs, elem.dtype);
  Words out;
  for (ElementRef r : refs)
    out.push_back(elem.dtype == DType::bf16 ? bf16_to_f32(e, r)
                                            : f16_to_f32(e, e.element(r, elem)));
  return out;
}

void set_narrowed(Emitter& e, ir::Value v, llvm::ArrayRef<Value*> floats) {
  const DType to = e.kernel.type(v).dtype();
  const Holding h = e.holding(e.kernel.type(v));
  Words out;
  for (std::size_t i = 0; i < floats.size(); i += static_cast<std::size_t>(h.per_word)) {
    if (h.per_word == 1)
      out.push_back(e.bits_as(
          e.inline_ptx_value(ptx::cast(DType::f32, to, *e.kernel.info.target), {floats[i]}),
          h.word));
    else if (h.per_word == 2)
      out.push_back(pack_pair(e, floats[i], floats[i + 1], to));
    else
      out.push_back(join_halves(e, pack_pair(e, floats[i], floats[i + 1], to),
                                pack_pair(e, floats[i + 2], floats[i + 3], to)));
  }
  e.set_words(v, std::move(out));
}

void emit_elementwise(Emitter& e, ir::OpId id) {
  using ElementFn = Value* (*)(Emitter&, const ElementArgs&);
  static constexpr ElementFn kTable[] = {
#define ROW(...) nullptr,
#define ELEMENTWISE(Name, ...) llvm_##Name,
#include "ir/op_rows.h"
  };
  const ir::OpData& op = e.op(id);
  if (is_half_arithmetic(e.kernel, op)) return emit_half_arithmetic(e, id);
  const ir::Value result = e.result(id);
  const bool on_bits = works_on_bits(e.kernel, op);
  const bool by_words = processes_words(e, id);
  llvm::SmallVector<Words, 3> operands;
  llvm::SmallVector<ir::Elem, 3> in;
  for (ir::Value v : op.operands) {
    const ir::Elem elem = e.kernel.type(v).elem();
    operands.push_back(by_words ? e.words(v) : on_bits ? e.elements(v) : widen(e, v));
    in.push_back(!on_bits && is_narrow_float(elem) ? kF32 : elem);
  }
  const ir::Elem out = e.kernel.type(result).elem();
  const bool rounds = rounds_from_f32(e.kernel, op, in);
  const auto count = static_cast<std::size_t>(by_words ? e.holding(e.kernel.type(result)).words
                                                       : e.kernel.type(result).count());
  Words results;
  for (std::size_t i = 0; i < count; ++i) {
    llvm::SmallVector<Value*, 3> x;
    for (const Words& w : operands) x.push_back(w[w.size() == 1 ? 0 : i]);
    results.push_back(
        kTable[static_cast<std::size_t>(op.opcode)](e, {id, op.attrs, in, rounds ? kF32 : out, x}));
  }
  if (by_words) return e.set_words(result, std::move(results));
  if (rounds)
    set_narrowed(e, result, results);
  else
    e.set_elements(result, results);
}

}  // namespace tegula::codegen::llvm_backend
