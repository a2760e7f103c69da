// Constants, structured control flow and roles.
#include <llvm/IR/Constants.h>

#include "codegen/llvm/emitter.h"
#include "tegula/error.h"

namespace tegula::codegen::llvm_backend {
namespace {

using ir::RegionId;
using llvm::BasicBlock;

/// Returns a constant element; floats below 32 bits as their bits, in an integer type.
llvm::Constant* constant_element(Emitter& e, ir::Elem elem, const ir::AttrList& attrs) {
  llvm::Type* type = e.element_type(elem);
  if (elem.pointer)
    return llvm::ConstantExpr::getIntToPtr(
        llvm::cast<llvm::Constant>(e.i64(attrs.i(AttrName::value))), type);
  if (!is_float(elem.dtype)) {
    const auto bits = static_cast<unsigned>(size_bits(elem.dtype));
    return llvm::ConstantInt::get(
        e.context,
        llvm::APInt(64, static_cast<std::uint64_t>(attrs.i(AttrName::value))).trunc(bits));
  }
  const double value = attrs.f(AttrName::value);
  return visit_dtype(elem.dtype, [&](auto tag) -> llvm::Constant* {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, float>)
      return llvm::ConstantFP::get(e.context, llvm::APFloat(static_cast<float>(value)));
    else if constexpr (std::is_same_v<T, double>)
      return llvm::ConstantFP::get(e.context, llvm::APFloat(value));
    else if constexpr (requires(T t) { t.bits; })
      return llvm::ConstantInt::get(type, T(value).bits);
    else
      return nullptr;
  });
}

/// Creates a phi for each word, with the word as its value on the edge from `from`.
Words make_phis(Emitter& e, llvm::ArrayRef<Value*> words, BasicBlock* from) {
  Words phis;
  for (Value* w : words) {
    llvm::PHINode* phi = e.b.CreatePHI(w->getType(), 2);
    phi->addIncoming(w, from);
    phis.push_back(phi);
  }
  return phis;
}

void add_edge(llvm::ArrayRef<Value*> phis, llvm::ArrayRef<Value*> words, BasicBlock* from) {
  for (std::size_t i = 0; i < phis.size(); ++i)
    llvm::cast<llvm::PHINode>(phis[i])->addIncoming(words[i], from);
}

llvm::ArrayRef<ir::Value> span_of(const std::pmr::vector<ir::Value>& v, std::size_t from = 0) {
  return llvm::ArrayRef<ir::Value>(v.data(), v.size()).drop_front(from);
}

Value* is_less(Emitter& e, Value* a, Value* c, ir::Type type) {
  return is_signed(type.dtype()) ? e.b.CreateICmpSLT(a, c) : e.b.CreateICmpULT(a, c);
}

/// Unrolls a loop whose begin, end and step are constants; returns false for any other loop.
bool emit_unrolled(Emitter& e, OpId id) {
  const auto lo = e.constant(e.operand(id, 0)), hi = e.constant(e.operand(id, 1)),
             step = e.constant(e.operand(id, 2));
  if (!lo || !hi || !step || *step <= 0) return false;
  const RegionId body = e.op(id).regions[0];
  const auto& args = e.kernel[body].args;
  Words carried = e.words_of(span_of(e.op(id).operands, 3));
  for (std::int64_t i = *lo; i < *hi; i += *step) {
    e.set_words(args[0], {llvm::ConstantInt::get(e.element_type(e.kernel.type(args[0]).elem()),
                                                 static_cast<std::uint64_t>(i))});
    e.distribute(span_of(args, 1), carried);
    e.emit_region(body);
    carried = e.yielded(body);
  }
  e.distribute(span_of(e.op(id).results), carried);
  return true;
}

}  // namespace

void llvm_Const(Emitter& e, OpId id) {
  const ir::Value v = e.result(id);
  const ir::Type type = e.kernel.type(v);
  const Words all(static_cast<std::size_t>(type.count()),
                  constant_element(e, type.elem(), e.attrs(id)));
  e.set_elements(v, all);
}

void llvm_Poison(Emitter& e, OpId id) {
  const Holding h = e.holding(e.kernel.type(e.result(id)));
  e.set_words(e.result(id),
              Words(static_cast<std::size_t>(h.words), llvm::PoisonValue::get(h.word)));
}

/// Emits the loop with its test at the end, and a guard before it unless the first iteration always
/// runs.
void llvm_For(Emitter& e, OpId id) {
  if (e.attrs(id).i(AttrName::unroll) != 0 && emit_unrolled(e, id)) return;
  const RegionId region = e.op(id).regions[0];
  const auto& args = e.kernel[region].args;
  Value *lo = e.scalar(e.operand(id, 0)), *hi = e.scalar(e.operand(id, 1)),
        *step = e.scalar(e.operand(id, 2));
  const ir::Type type = e.kernel.type(args[0]);
  const Words init = e.words_of(span_of(e.op(id).operands, 3));
  BasicBlock *before = e.b.GetInsertBlock(), *body = e.block("for"), *exit = e.block("endfor");
  const bool is_certain = e.attrs(id).i(AttrName::has_trip) == 1;
  Value* guard = is_certain ? e.b.getTrue() : is_less(e, lo, hi, type);
  e.b.CreateCondBr(guard, body, exit);

  e.b.SetInsertPoint(body);
  llvm::PHINode* iv = e.b.CreatePHI(lo->getType(), 2);
  iv->addIncoming(lo, before);
  const Words phis = make_phis(e, init, before);
  e.set_words(args[0], {iv});
  e.distribute(span_of(args, 1), phis);
  e.emit_region(region);
  const Words next = e.yielded(region);
  Value* iv_next = e.b.CreateAdd(iv, step);
  BasicBlock* end = e.b.GetInsertBlock();
  e.b.CreateCondBr(is_less(e, iv_next, hi, type), body, exit);
  iv->addIncoming(iv_next, end);
  add_edge(phis, next, end);

  e.b.SetInsertPoint(exit);
  const Words last = make_phis(e, init, before);
  add_edge(last, next, end);
  e.distribute(span_of(e.op(id).results), last);
}

void llvm_While(Emitter& e, OpId id) {
  const RegionId test = e.op(id).regions[0], region = e.op(id).regions[1];
  const Words init = e.words_of(span_of(e.op(id).operands));
  BasicBlock *before = e.b.GetInsertBlock(), *head = e.block("while"), *body = e.block("do"),
             *exit = e.block("endwhile");
  e.b.CreateBr(head);
  e.b.SetInsertPoint(head);
  const Words phis = make_phis(e, init, before);
  e.distribute(span_of(e.kernel[test].args), phis);
  e.emit_region(test);
  e.b.CreateCondBr(e.yielded(test).front(), body, exit);

  e.b.SetInsertPoint(body);
  e.distribute(span_of(e.kernel[region].args), phis);
  e.emit_region(region);
  const Words next = e.yielded(region);
  add_edge(phis, next, e.b.GetInsertBlock());
  e.b.CreateBr(head);

  e.b.SetInsertPoint(exit);
  e.distribute(span_of(e.op(id).results), phis);
}

void llvm_If(Emitter& e, OpId id) {
  BasicBlock *then = e.block("then"), *otherwise = e.block("else"), *join = e.block("endif");
  e.b.CreateCondBr(e.scalar(e.operand(id, 0)), then, otherwise);
  Words yielded[2];
  BasicBlock* ends[2];
  for (int side = 0; side < 2; ++side) {
    const RegionId region = e.op(id).regions[static_cast<std::size_t>(side)];
    e.b.SetInsertPoint(side == 0 ? then : otherwise);
    e.emit_region(region);
    yielded[side] = e.yielded(region);
    ends[side] = e.b.GetInsertBlock();
    e.b.CreateBr(join);
  }
  e.b.SetInsertPoint(join);
  const Words phis = make_phis(e, yielded[0], ends[0]);
  add_edge(phis, yielded[1], ends[1]);
  e.distribute(span_of(e.op(id).results), phis);
}

void llvm_Roles(Emitter& e, OpId id) {
  const auto warps = e.attrs(id).ints(AttrName::warps);
  BasicBlock* join = e.block("endroles");
  std::int64_t end = 0;
  for (std::size_t role = 0; role < e.op(id).regions.size(); ++role) {
    end += warps[role];
    // The last role needs no test if it consists of all remaining warps.
    BasicBlock *mine = e.block("role"), *others = join;
    if (end * 32 == e.kernel.info.threads) {
      e.b.CreateBr(mine);
    } else {
      others = role + 1 == e.op(id).regions.size() ? join : e.block("nextrole");
      e.b.CreateCondBr(e.b.CreateICmpSLT(e.warp_index(), e.i32(end)), mine, others);
    }
    e.b.SetInsertPoint(mine);
    e.emit_region(e.op(id).regions[role]);
    e.b.CreateBr(join);
    e.b.SetInsertPoint(others);
  }
  e.b.SetInsertPoint(join);
}

void llvm_Yield(Emitter&, OpId) {}  // read by the owner

void llvm_Pin(Emitter& e, OpId) { e.inline_ptx(ptx::pin(), {e.never()}); }

}  // namespace tegula::codegen::llvm_backend
