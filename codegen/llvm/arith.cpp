// The elementwise ops, one element each. Float ops must not be contracted: without fast-math flags
// NVPTX emits add.rn and mul.rn, which ptxas does not fuse.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "codegen/llvm/emitter.h"
#include "ir/op.h"

namespace tegula::codegen::llvm_backend {
namespace {

using llvm::Intrinsic::ID;
namespace Intrinsic = llvm::Intrinsic;

unsigned width(Value* v) { return v->getType()->getIntegerBitWidth(); }

Value* extended(Emitter& e, Value* v, bool is_signed, unsigned bits) {
  return is_signed ? e.b.CreateSExt(v, e.b.getIntNTy(bits))
                   : e.b.CreateZExt(v, e.b.getIntNTy(bits));
}

/// Applies `f` to both operands, extended to 32 bits if they are narrower: the hardware supports
/// the op only for 32 and 64 bits.
template <class F>
Value* in_wide_integer(Emitter& e, const ElementArgs& a, const F& f) {
  llvm::Type* type = a.x[0]->getType();
  if (width(a.x[0]) >= 32) return f(a.x[0], a.x[1], a.in[0].dtype);
  Value* r = f(extended(e, a.x[0], a.is_signed(), 32), extended(e, a.x[1], a.is_signed(), 32),
               a.is_signed() ? DType::i32 : DType::u32);
  return e.b.CreateTrunc(r, type);
}

/// A sum as a varying part and a constant.
struct ConstantOffset {
  Value* varying;
  llvm::APInt constant;
};
ConstantOffset split_constant(Value* v) {
  const llvm::APInt zero(width(v), 0);
  if (const auto* c = llvm::dyn_cast<llvm::ConstantInt>(v)) return {nullptr, c->getValue()};
  const auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(v);
  if (sum == nullptr || sum->getOpcode() != llvm::Instruction::Add) return {v, zero};
  const auto* c = llvm::dyn_cast<llvm::ConstantInt>(sum->getOperand(1));
  return c == nullptr ? ConstantOffset{v, zero} : ConstantOffset{sum->getOperand(0), c->getValue()};
}

/// Returns x + y or x - y with the constants of both combined. The elements of an index tile differ
/// only by constants, so LLVM computes the varying part once for all of them.
Value* integer_sum(Emitter& e, Value* x, Value* y, bool subtract) {
  const ConstantOffset a = split_constant(x), b = split_constant(y);
  llvm::Type* type = x->getType();
  Value* constant =
      llvm::ConstantInt::get(type, subtract ? a.constant - b.constant : a.constant + b.constant);
  if (b.varying == nullptr && a.varying == nullptr) return constant;
  if (b.varying == nullptr) return e.b.CreateAdd(a.varying, constant);
  Value* first = a.varying == nullptr ? llvm::ConstantInt::get(type, 0) : a.varying;
  Value* varying = subtract               ? e.b.CreateSub(first, b.varying)
                   : a.varying == nullptr ? b.varying
                                          : e.b.CreateAdd(first, b.varying);
  return e.b.CreateAdd(varying, constant);
}

/// Emits a quotient or a remainder. Uses PTX unless the divisor is a constant other than 0 and -1,
/// because a division by 0 or an overflow is undefined behavior in LLVM.
Value* divide(Emitter& e, const ElementArgs& a, bool remainder) {
  return in_wide_integer(e, a, [&](Value* n, Value* d, DType type) -> Value* {
    const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(d);
    if (constant == nullptr || constant->isZero() || constant->isMinusOne())
      return e.inline_ptx_value(ptx::int_div(type, remainder), {n, d});
    if (remainder) return a.is_signed() ? e.b.CreateSRem(n, d) : e.b.CreateURem(n, d);
    return a.is_signed() ? e.b.CreateSDiv(n, d) : e.b.CreateUDiv(n, d);
  });
}

/// Emits a shift. Uses PTX unless the amount is constant: PTX clamps large amounts, for which the
/// result is poison in LLVM.
Value* shift(Emitter& e, const ElementArgs& a, bool left) {
  Value *v = a.x[0], *amount = a.x[1];
  const unsigned bits = width(v);
  const bool arithmetic = !left && a.is_signed();
  if (const auto* c = llvm::dyn_cast<llvm::ConstantInt>(amount)) {
    const bool all = c->getValue().uge(bits);
    if (all && !arithmetic) return llvm::ConstantInt::get(v->getType(), 0);
    const std::uint64_t by = all ? bits - 1 : c->getZExtValue();
    return left ? e.b.CreateShl(v, by) : arithmetic ? e.b.CreateAShr(v, by) : e.b.CreateLShr(v, by);
  }
  if (bits == 64) {
    amount = e.b.CreateTrunc(e.b.CreateBinaryIntrinsic(Intrinsic::umin, amount, e.i64(64)),
                             e.b.getInt32Ty());
    return e.inline_ptx_value(ptx::shift(left, arithmetic, 64), {v, amount});
  }
  Value* r =
      e.inline_ptx_value(ptx::shift(left, arithmetic, 32),
                         {extended(e, v, a.is_signed(), 32), extended(e, amount, false, 32)});
  return e.b.CreateTrunc(r, v->getType());
}

Value* extreme(Emitter& e, const ElementArgs& a, bool max) {
  const bool propagate = a.attrs.s(AttrName::nan, "ignore") == "propagate";
  if (propagate && a.in[0].dtype == DType::f64)
    return e.inline_ptx_value(ptx::float_minmax(DType::f64, max, true), {a.x[0], a.x[1]});
  struct Pair {
    ID min, max;
  };
  // min.f32, min.NaN.f32 and similar instructions.
  const Pair id = !a.is_float() ? a.is_signed() ? Pair{Intrinsic::smin, Intrinsic::smax}
                                                : Pair{Intrinsic::umin, Intrinsic::umax}
                  : propagate ? Pair{Intrinsic::minimum, Intrinsic::maximum}
                                : Pair{Intrinsic::minnum, Intrinsic::maxnum};
  return e.b.CreateBinaryIntrinsic(max ? id.max : id.min, a.x[0], a.x[1]);
}

Value* unary(Emitter& e, const ElementArgs& a) {
  const std::string_view mnemonic = ir::info(e.op(a.id).opcode).mnemonic;
  const ptx::Asm text = ptx::unary(mnemonic, a.in[0].dtype, a.attrs.i(AttrName::approx) != 0);
  if (text.text.empty()) e.refuse(a.id, "the hardware has no such instruction for this type");
  return e.inline_ptx_value(text, {a.x[0]});
}

llvm::CmpInst::Predicate predicate(const ElementArgs& a) {
  using P = llvm::CmpInst;
  struct CompareRow {
    std::string_view name;
    P::Predicate floating, signed_int, unsigned_int;
  };
  static constexpr CompareRow kRows[] = {
      {"eq", P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {"ne", P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {"lt", P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {"le", P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {"gt", P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {"ge", P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE},
  };
  for (const CompareRow& r : kRows)
    if (r.name == a.attrs.s(AttrName::pred))
      return a.is_float() ? r.floating : a.is_signed() ? r.signed_int : r.unsigned_int;
  return P::BAD_ICMP_PREDICATE;
}

/// Returns the mask of the sign bits of all floats in an integer register.
llvm::APInt sign_bits(const ElementArgs& a) {
  return llvm::APInt::getSplat(
      width(a.x[0]), llvm::APInt::getSignMask(static_cast<unsigned>(size_bits(a.in[0].dtype))));
}

/// Emits a conversion between integers (i1 is 0 or 1), or to i1.
Value* cast_integer(Emitter& e, const ElementArgs& a) {
  llvm::Type* to = e.element_type(a.out);
  if (is_bool(a.out.dtype)) return e.b.CreateIsNotNull(a.x[0]);
  return a.is_signed() ? e.b.CreateSExtOrTrunc(a.x[0], to) : e.b.CreateZExtOrTrunc(a.x[0], to);
}

/// Emits a conversion as an LLVM instruction; returns null if it needs inline PTX.
Value* cast_natively(Emitter& e, const ElementArgs& a) {
  const DType from = a.in[0].dtype, to = a.out.dtype;
  llvm::Type* type = e.element_type(a.out);
  if (is_float(from) && is_bool(to))
    return e.b.CreateFCmpUNE(a.x[0], llvm::ConstantFP::get(a.x[0]->getType(), 0));
  if (is_bool(from) && is_float(to)) return e.b.CreateUIToFP(a.x[0], type);
  if (!is_float(from) && !is_float(to)) return cast_integer(e, a);
  const bool wide = to == DType::f32 || to == DType::f64;
  if (!is_float(from) && wide)
    return a.is_signed() ? e.b.CreateSIToFP(a.x[0], type) : e.b.CreateUIToFP(a.x[0], type);
  if (from == DType::f32 && to == DType::f64) return e.b.CreateFPExt(a.x[0], type);
  if (from == DType::f64 && to == DType::f32) return e.b.CreateFPTrunc(a.x[0], type);
  return nullptr;
}

}  // namespace

Value* llvm_Add(Emitter& e, const ElementArgs& a) {
  return a.is_float() ? e.b.CreateFAdd(a.x[0], a.x[1]) : integer_sum(e, a.x[0], a.x[1], false);
}
Value* llvm_Sub(Emitter& e, const ElementArgs& a) {
  return a.is_float() ? e.b.CreateFSub(a.x[0], a.x[1]) : integer_sum(e, a.x[0], a.x[1], true);
}
Value* llvm_Mul(Emitter& e, const ElementArgs& a) {
  return a.is_float() ? e.b.CreateFMul(a.x[0], a.x[1]) : e.b.CreateMul(a.x[0], a.x[1]);
}
Value* llvm_Div(Emitter& e, const ElementArgs& a) {
  if (!a.is_float()) return divide(e, a, false);
  return e.inline_ptx_value(ptx::float_div(a.in[0].dtype, a.attrs.i(AttrName::approx) != 0),
                            {a.x[0], a.x[1]});
}
Value* llvm_Rem(Emitter& e, const ElementArgs& a) { return divide(e, a, true); }

Value* llvm_MulHi(Emitter& e, const ElementArgs& a) {
  const unsigned bits = width(a.x[0]);
  Value* product = e.b.CreateMul(extended(e, a.x[0], a.is_signed(), 2 * bits),
                                 extended(e, a.x[1], a.is_signed(), 2 * bits));
  return e.b.CreateTrunc(e.b.CreateLShr(product, bits), a.x[0]->getType());
}

Value* llvm_Fma(Emitter& e, const ElementArgs& a) {
  if (!a.is_float()) return e.b.CreateAdd(e.b.CreateMul(a.x[0], a.x[1]), a.x[2]);
  return e.b.CreateIntrinsic(Intrinsic::fma, {a.x[0]->getType()}, {a.x[0], a.x[1], a.x[2]});
}

Value* llvm_Min(Emitter& e, const ElementArgs& a) { return extreme(e, a, false); }
Value* llvm_Max(Emitter& e, const ElementArgs& a) { return extreme(e, a, true); }

Value* llvm_Neg(Emitter& e, const ElementArgs& a) {
  if (!a.is_float()) return e.b.CreateNeg(a.x[0]);
  if (!a.x[0]->getType()->isIntegerTy()) return e.b.CreateFNeg(a.x[0]);
  return e.b.CreateXor(a.x[0], e.b.getInt(sign_bits(a)));
}

Value* llvm_Abs(Emitter& e, const ElementArgs& a) {
  if (!a.is_float())
    return a.is_signed() ? e.b.CreateBinaryIntrinsic(Intrinsic::abs, a.x[0], e.b.getFalse())
                         : a.x[0];
  if (!a.x[0]->getType()->isIntegerTy()) return e.b.CreateUnaryIntrinsic(Intrinsic::fabs, a.x[0]);
  return e.b.CreateAnd(a.x[0], e.b.getInt(~sign_bits(a)));
}

Value* llvm_And(Emitter& e, const ElementArgs& a) { return e.b.CreateAnd(a.x[0], a.x[1]); }
Value* llvm_Or(Emitter& e, const ElementArgs& a) { return e.b.CreateOr(a.x[0], a.x[1]); }
Value* llvm_Xor(Emitter& e, const ElementArgs& a) { return e.b.CreateXor(a.x[0], a.x[1]); }
Value* llvm_Not(Emitter& e, const ElementArgs& a) { return e.b.CreateNot(a.x[0]); }
Value* llvm_Shl(Emitter& e, const ElementArgs& a) { return shift(e, a, true); }
Value* llvm_Shr(Emitter& e, const ElementArgs& a) { return shift(e, a, false); }
Value* llvm_Popc(Emitter& e, const ElementArgs& a) {
  return e.b.CreateUnaryIntrinsic(Intrinsic::ctpop, a.x[0]);
}
Value* llvm_Clz(Emitter& e, const ElementArgs& a) {
  return e.b.CreateBinaryIntrinsic(Intrinsic::ctlz, a.x[0], e.b.getFalse());
}
Value* llvm_Cmp(Emitter& e, const ElementArgs& a) {
  return e.b.CreateCmp(predicate(a), a.x[0], a.x[1]);
}
Value* llvm_Select(Emitter& e, const ElementArgs& a) {
  return e.b.CreateSelect(a.x[0], a.x[1], a.x[2]);
}

Value* llvm_Cast(Emitter& e, const ElementArgs& a) {
  const DType from = a.in[0].dtype, to = a.out.dtype;
  if (from == to) return a.x[0];
  // Reads the source type from the op: `a.in` may be f32 for a narrow float.
  const ir::CastMode mode = ir::cast_mode(a.attrs, e.kernel.type(e.operand(a.id, 0)).dtype(), to);
  const bool ends_in_bool = is_bool(from) || is_bool(to);
  const bool rounds_up = !(mode.to_zero && is_float(to));
  const bool narrow_from_bool = is_bool(from) && is_float(to) && size_bits(to) < 32;
  if (!narrow_from_bool && (ends_in_bool || (rounds_up && !mode.saturate)))
    if (Value* v = cast_natively(e, a)) return v;
  // i1 is converted to narrow floats as an integer; 8-bit integers are extended for the
  // instruction.
  Value* x = is_bool(from) || (!is_float(from) && size_bits(from) == 8)
                 ? extended(e, a.x[0], a.is_signed() && !is_bool(from), 16)
                 : a.x[0];
  const ptx::Asm text =
      ptx::cast(is_bool(from) ? DType::u16 : from, to, *e.kernel.info.target, mode);
  if (text.text.empty()) e.refuse(a.id, "the target has no such conversion");
  return e.bits_as(e.inline_ptx_value(text, {x}), e.element_type(a.out));
}

Value* llvm_Bitcast(Emitter& e, const ElementArgs& a) {
  return e.bits_as(a.x[0], e.element_type(a.out));
}

Value* llvm_AddPtr(Emitter& e, const ElementArgs& a) {
  Value* index = tegula::is_signed(a.in[1].dtype) ? e.b.CreateSExtOrTrunc(a.x[1], e.b.getInt64Ty())
                                                  : e.b.CreateZExtOrTrunc(a.x[1], e.b.getInt64Ty());
  return e.b.CreatePtrAdd(a.x[0], e.b.CreateMul(index, e.i64(size_bytes(a.out.dtype))));
}

Value* llvm_Exp2(Emitter& e, const ElementArgs& a) {
  // Uses an intrinsic, not inline PTX: attention executes this instruction more than any other.
  if (a.in[0].dtype == DType::f32)
    return e.b.CreateIntrinsic(Intrinsic::nvvm_ex2_approx_ftz_f, {}, {a.x[0]});
  return unary(e, a);
}
Value* llvm_Log2(Emitter& e, const ElementArgs& a) { return unary(e, a); }
Value* llvm_Sqrt(Emitter& e, const ElementArgs& a) { return unary(e, a); }
Value* llvm_Rsqrt(Emitter& e, const ElementArgs& a) { return unary(e, a); }
Value* llvm_Rcp(Emitter& e, const ElementArgs& a) { return unary(e, a); }
Value* llvm_TanhApprox(Emitter& e, const ElementArgs& a) { return unary(e, a); }
Value* llvm_SinApprox(Emitter& e, const ElementArgs& a) { return unary(e, a); }
Value* llvm_CosApprox(Emitter& e, const ElementArgs& a) { return unary(e, a); }
Value* llvm_Floor(Emitter& e, const ElementArgs& a) { return unary(e, a); }
Value* llvm_Ceil(Emitter& e, const ElementArgs& a) { return unary(e, a); }
Value* llvm_Round(Emitter& e, const ElementArgs& a) { return unary(e, a); }
Value* llvm_Trunc(Emitter& e, const ElementArgs& a) { return unary(e, a); }

}  // namespace tegula::codegen::llvm_backend
