// mma.sync and wgmma. A wgmma op is one piece of PTX with all its k steps. Its accumulators are
// tied from input to output, so that LLVM and ptxas see one register chain per accumulator and
// insert no moves.
#include "codegen/llvm/emitter.h"

namespace tegula::codegen::llvm_backend {
namespace {

bool is_poison(const Words& words) {
  return std::all_of(words.begin(), words.end(),
                     [](Value* w) { return llvm::isa<llvm::PoisonValue>(w); });
}

ptx::Reg class_of(Value* v) {
  llvm::Type* t = v->getType();
  if (t->isFloatTy()) return ptx::Reg::f32;
  if (t->isDoubleTy()) return ptx::Reg::f64;
  if (t->isIntegerTy(1)) return ptx::Reg::pred;
  if (t->isIntegerTy(32)) return ptx::Reg::b32;
  return t->isPointerTy() || t->isIntegerTy(64) ? ptx::Reg::b64 : ptx::Reg::b16;
}

std::vector<ptx::Reg> classes_of(const Words& words) {
  std::vector<ptx::Reg> out;
  for (Value* w : words) out.push_back(class_of(w));
  return out;
}

/// Joins two 32-bit halves to a descriptor: a step changes only the low half, and 32-bit arithmetic
/// halves the work.
Value* descriptor_halves(Emitter& e, Value* low, Value* high) {
  Value* both = llvm::PoisonValue::get(llvm::FixedVectorType::get(e.b.getInt32Ty(), 2));
  both = e.b.CreateInsertElement(both, low, std::uint64_t{0});
  return e.b.CreateBitCast(e.b.CreateInsertElement(both, high, std::uint64_t{1}), e.b.getInt64Ty());
}

Value* advanced(Emitter& e, Value* descriptor, std::int64_t bytes) {
  if (bytes == 0) return descriptor;
  Value* halves = e.b.CreateBitCast(descriptor, llvm::FixedVectorType::get(e.b.getInt32Ty(), 2));
  Value* low = e.b.CreateAdd(e.b.CreateExtractElement(halves, std::uint64_t{0}),
                             e.i32(ptx::smem_desc_step(bytes)));
  return descriptor_halves(e, low, e.b.CreateExtractElement(halves, std::uint64_t{1}));
}

DType accumulator_type(ir::Type t) {
  const DType d = (t.is(ir::TypeKind::Pending) ? t.inner() : t).dtype();
  return d == DType::f32 || d == DType::f16 ? d : DType::i32;
}

ptx::WgmmaForm form_of(Emitter& e, OpId id) {
  ptx::WgmmaForm form;
  const Words& acc = e.words(e.operand(id, 0));
  form.accumulators = static_cast<int>(acc.size());
  form.accumulator = accumulator_type(e.kernel.type(e.operand(id, 0)));
  form.a_in_registers = e.kernel.type(e.operand(id, 1)).is_vec();
  form.steps = static_cast<int>(e.attrs(id).ints(AttrName::step_b).size());
  form.row_tiles = std::max(1, static_cast<int>(e.attrs(id).ints(AttrName::rows_a).size()));
  form.fresh = is_poison(acc);
  if (const auto* c = llvm::dyn_cast<llvm::ConstantInt>(e.scalar(e.operand(id, 3))))
    form.scale_d = c->isOne();
  return form;
}

}  // namespace

void llvm_Mma(Emitter& e, OpId id) {
  const auto tiles = e.attrs(id).ints(AttrName::tiles);
  const auto to_index = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const ptx::MmaRegisters n = ptx::mma_registers(e.attrs(id));
  const ptx::Asm text = ptx::mma(e.attrs(id), accumulator_type(e.kernel.type(e.result(id))));
  const Words &a = e.words(e.operand(id, 0)), &b = e.words(e.operand(id, 1));
  Words c = e.words(e.operand(id, 2));
  for (std::int64_t k = 0; k < tiles[2]; ++k)
    for (std::int64_t m = 0; m < tiles[0]; ++m)
      for (std::int64_t col = 0; col < tiles[1]; ++col) {
        const std::size_t a0 = to_index((m * tiles[2] + k) * n.a),
                          b0 = to_index((col * tiles[2] + k) * n.b),
                          c0 = to_index((m * tiles[1] + col) * n.c);
        llvm::SmallVector<Value*, 12> args(a.begin() + a0, a.begin() + a0 + to_index(n.a));
        args.append(b.begin() + b0, b.begin() + b0 + to_index(n.b));
        args.append(c.begin() + c0, c.begin() + c0 + to_index(n.c));
        const Words d = e.inline_ptx(text, args);
        std::copy(d.begin(), d.end(), c.begin() + c0);
      }
  e.set_words(e.result(id), std::move(c));
}

void llvm_SmemDesc(Emitter& e, OpId id) {
  const std::uint64_t bits = ptx::smem_desc_bits(e.attrs(id));
  Value* address = e.b.CreateLShr(e.scalar(e.operand(id, 0)), 4);
  Value* low = e.b.CreateOr(address, e.i32(static_cast<std::int32_t>(bits)));
  e.set_words(e.result(id),
              {descriptor_halves(e, low, e.i32(static_cast<std::int32_t>(bits >> 32)))});
}

void llvm_WgmmaFence(Emitter& e, OpId id) {
  Words through;
  const auto& operands = e.op(id).operands;
  const llvm::ArrayRef<ir::Value> values(operands.data(), operands.size());
  // A poison accumulator has no value that the fence must order.
  for (Value* w : e.words_of(values))
    if (!llvm::isa<llvm::PoisonValue>(w)) through.push_back(w);
  const Words out = e.inline_ptx(ptx::wgmma_fence(classes_of(through)), through);
  std::size_t next = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Words words = e.words(operands[i]);
    for (Value*& w : words)
      if (!llvm::isa<llvm::PoisonValue>(w)) w = out[next++];
    e.set_words(e.result(id, i), std::move(words));
  }
}

void llvm_Wgmma(Emitter& e, OpId id) {
  const ptx::WgmmaForm form = form_of(e, id);
  const auto steps_b = e.attrs(id).ints(AttrName::step_b);
  Words args;
  if (!form.fresh) args = e.words(e.operand(id, 0));
  if (form.a_in_registers)
    args.append(e.words(e.operand(id, 1)));
  else
    for (std::int64_t bytes : ptx::steps_of_rows(e.attrs(id)))
      args.push_back(advanced(e, e.scalar(e.operand(id, 1)), bytes));
  for (std::int64_t bytes : steps_b) args.push_back(advanced(e, e.scalar(e.operand(id, 2)), bytes));
  if (!form.fresh && !form.scale_d) args.push_back(e.scalar(e.operand(id, 3)));
  e.set_words(e.result(id), e.inline_ptx(ptx::wgmma(e.attrs(id), form), args));
}

void llvm_WgmmaWait(Emitter& e, OpId id) {
  const auto& op = e.op(id);
  const llvm::ArrayRef<ir::Value> operands(op.operands.data(), op.operands.size());
  const Words through = e.words_of(operands.take_front(op.results.size()));
  const Words kept = e.words_of(operands.drop_front(op.results.size()));
  Words args = through;
  args.append(kept);
  const Words out = e.inline_ptx(
      ptx::wgmma_wait(e.attrs(id).i(AttrName::count), classes_of(through), classes_of(kept)), args);
  e.distribute(llvm::ArrayRef<ir::Value>(op.results.data(), op.results.size()), out);
}

}  // namespace tegula::codegen::llvm_backend
