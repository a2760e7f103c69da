// Representation of IR values as LLVM values, and inline PTX.
#include "codegen/llvm/emitter.h"

#include <fmt/format.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "ir/text.h"
#include "tegula/error.h"

namespace tegula::codegen::llvm_backend {
namespace {

using llvm::ArrayRef;

unsigned bit_width(llvm::Type* t) {
  return static_cast<unsigned>(t->getPrimitiveSizeInBits().getFixedValue());
}

ir::Type registers_of(ir::Type t) { return t.is(ir::TypeKind::Pending) ? t.inner() : t; }

}  // namespace

Emitter::Emitter(const ir::Kernel& k, llvm::Module& m, llvm::Function& f)
    : kernel(k),
      module(m),
      context(m.getContext()),
      function(f),
      b(context),
      words_(k.value_count()),
      used_(k.value_count()) {
  entry_ = block("entry");
  llvm::BasicBlock* body = block("body");
  b.SetInsertPoint(entry_);
  b.CreateBr(body);
  b.SetInsertPoint(body);
  mark_used(k.body());
}

void Emitter::mark_used(ir::RegionId region) {
  ir::walk(kernel, region, [&](ir::OpId id) {
    for (ir::Value v : kernel[id].operands) used_[v.index] = true;
  });
}

std::optional<std::int64_t> Emitter::constant(ir::Value v) const {
  const ir::OpId def = kernel[v].def;
  if (!def || kernel[def].opcode != ir::Opcode::Const) return std::nullopt;
  const ir::AttrValue* value = kernel[def].attrs.find(ir::AttrName::value);
  const auto* i = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return i == nullptr ? std::nullopt : std::optional(*i);
}

// ---- registers

llvm::Type* Emitter::element_type(ir::Elem e) {
  if (e.pointer) return b.getPtrTy(1);
  if (e.dtype == DType::f32) return b.getFloatTy();
  if (e.dtype == DType::f64) return b.getDoubleTy();
  return b.getIntNTy(static_cast<unsigned>(size_bits(e.dtype)));
}

Holding Emitter::holding(ir::Type type) {
  if (type.is(ir::TypeKind::TensorMap)) return {b.getPtrTy(0), 1, 1};
  type = registers_of(type);
  const ir::Elem e = type.elem();
  const auto count = static_cast<int>(type.count());
  const int bits = e.pointer ? 64 : size_bits(e.dtype);
  if (type.is_vec() && (bits == 8 || bits == 16) && count * bits % 32 == 0)
    return {b.getInt32Ty(), count * bits / 32, 32 / bits};
  return {element_type(e), count, 1};
}

const Words& Emitter::words(ir::Value v) const { return words_[v.index]; }

void Emitter::set_words(ir::Value v, Words words) {
  if (static_cast<int>(words.size()) != holding(kernel.type(v)).words)
    throw InternalError(
        fmt::format("{} registers for a value of type {}", words.size(), kernel.type(v).str()));
  words_[v.index] = std::move(words);
}

std::vector<ElementRef> Emitter::refs(ir::Value v) {
  const Holding h = holding(kernel.type(v));
  std::vector<ElementRef> out;
  for (Value* word : words(v))
    for (int part = 0; part < h.per_word; ++part) out.push_back({word, part});
  return out;
}

Value* Emitter::element(ElementRef ref, ir::Elem e) {
  llvm::Type* type = element_type(e);
  const unsigned wide = bit_width(ref.word->getType()), narrow = bit_width(type);
  if (ref.word->getType()->isPointerTy() || wide <= narrow) return bits_as(ref.word, type);
  // Extracts an element of a small vector, which NVPTX emits as `mov.b32 {lo, hi}, x`.
  auto* parts = llvm::FixedVectorType::get(b.getIntNTy(narrow), wide / narrow);
  Value* part = b.CreateExtractElement(b.CreateBitCast(ref.word, parts),
                                       static_cast<std::uint64_t>(ref.part));
  return bits_as(part, type);
}

Words Emitter::elements(ir::Value v) {
  const ir::Elem e = registers_of(kernel.type(v)).elem();
  Words out;
  for (ElementRef r : refs(v)) out.push_back(element(r, e));
  return out;
}

void Emitter::set_elements(ir::Value v, ArrayRef<Value*> elements) {
  std::vector<ElementRef> refs;
  for (Value* e : elements) refs.push_back({e, 0});
  set_refs(v, refs);
}

void Emitter::set_refs(ir::Value v, const std::vector<ElementRef>& refs) {
  const ir::Elem e = registers_of(kernel.type(v)).elem();
  const Holding h = holding(kernel.type(v));
  Words out;
  for (std::size_t first = 0; first < refs.size(); first += static_cast<std::size_t>(h.per_word)) {
    const auto is_whole = [&] {
      for (int i = 0; i < h.per_word; ++i) {
        const ElementRef& r = refs[first + static_cast<std::size_t>(i)];
        if (r.word != refs[first].word || r.part != i) return false;
      }
      return refs[first].word->getType() == h.word;
    };
    if (h.per_word == 1) {
      out.push_back(element(refs[first], e));
    } else if (is_whole()) {
      out.push_back(refs[first].word);
    } else {
      const unsigned bits = 32u / static_cast<unsigned>(h.per_word);
      Value* word = llvm::PoisonValue::get(
          llvm::FixedVectorType::get(b.getIntNTy(bits), static_cast<unsigned>(h.per_word)));
      for (int i = 0; i < h.per_word; ++i)
        word = b.CreateInsertElement(word, element(refs[first + static_cast<std::size_t>(i)], e),
                                     static_cast<std::uint64_t>(i));
      out.push_back(b.CreateBitCast(word, h.word));
    }
  }
  set_words(v, std::move(out));
}

Value* Emitter::scalar(ir::Value v) { return words(v).front(); }

Words Emitter::words_of(ArrayRef<ir::Value> values) const {
  Words out;
  for (ir::Value v : values) out.append(words(v).begin(), words(v).end());
  return out;
}

void Emitter::distribute(ArrayRef<ir::Value> values, ArrayRef<Value*> all) {
  std::size_t begin = 0;
  for (ir::Value v : values) {
    const auto n = static_cast<std::size_t>(holding(kernel.type(v)).words);
    set_words(v, Words(all.slice(begin, n)));
    begin += n;
  }
}

// ---- LLVM

llvm::BasicBlock* Emitter::block(const char* name) {
  return llvm::BasicBlock::Create(context, name, &function);
}

Value* Emitter::bits_as(Value* v, llvm::Type* type) {
  llvm::Type* from = v->getType();
  if (from == type) return v;
  if (from->isPointerTy()) return b.CreatePtrToInt(v, type);
  if (type->isPointerTy()) return b.CreateIntToPtr(v, type);
  const unsigned have = bit_width(from), want = bit_width(type);
  if (have == want) return b.CreateBitCast(v, type);
  Value* integer = from->isIntegerTy() ? v : b.CreateBitCast(v, b.getIntNTy(have));
  return bits_as(b.CreateZExtOrTrunc(integer, b.getIntNTy(want)), type);
}

llvm::Type* Emitter::class_type(ptx::Reg reg) {
  switch (reg) {
    case ptx::Reg::b16:
      return b.getInt16Ty();
    case ptx::Reg::b32:
      return b.getInt32Ty();
    case ptx::Reg::b64:
      return b.getInt64Ty();
    case ptx::Reg::f32:
      return b.getFloatTy();
    case ptx::Reg::f64:
      return b.getDoubleTy();
    case ptx::Reg::pred:
      return b.getInt1Ty();
  }
  return nullptr;
}

Words Emitter::inline_ptx(const ptx::Asm& a, ArrayRef<Value*> args) {
  const ptx::LlvmAsm r = ptx::render_llvm(a);
  if (r.inputs.size() != args.size())
    throw InternalError(fmt::format("{} arguments for PTX with {} inputs: {}", args.size(),
                                    r.inputs.size(), a.text));
  llvm::SmallVector<Value*, 8> call_args;
  llvm::SmallVector<llvm::Type*, 8> arg_types, result_types;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const ptx::Operand& o = a.operands[static_cast<std::size_t>(r.inputs[i])];
    // Generic pointers (tensor maps) are passed unchanged, so that LLVM sees only the parameter's
    // address.
    Value* arg = args[i]->getType()->isPointerTy() && o.reg == ptx::Reg::b64
                     ? args[i]
                     : bits_as(args[i], class_type(o.reg));
    call_args.push_back(arg);
    arg_types.push_back(arg->getType());
  }
  for (int i : r.outputs)
    result_types.push_back(class_type(a.operands[static_cast<std::size_t>(i)].reg));
  llvm::Type* type = result_types.empty()       ? b.getVoidTy()
                     : result_types.size() == 1 ? result_types[0]
                                                : llvm::StructType::get(context, result_types);
  auto* callee = llvm::InlineAsm::get(llvm::FunctionType::get(type, arg_types, false), r.text,
                                      r.constraints, a.effects);
  llvm::CallInst* call = b.CreateCall(callee, call_args);
  call->setDoesNotThrow();
  if (!a.effects) call->setDoesNotAccessMemory();
  if (a.effects || a.convergent) call->setConvergent();
  Words out;
  if (result_types.size() == 1) out.push_back(call);
  for (unsigned i = 0; result_types.size() > 1 && i < result_types.size(); ++i)
    out.push_back(b.CreateExtractValue(call, i));
  return out;
}

Value* Emitter::inline_ptx_value(const ptx::Asm& a, ArrayRef<Value*> args) {
  return inline_ptx(a, args).front();
}

Value* Emitter::thread_index() {
  return at_entry(thread_index_, [&] {
    llvm::CallInst* tid =
        b.CreateIntrinsic(b.getInt32Ty(), llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {});
    tid->addRangeRetAttr(llvm::ConstantRange(
        llvm::APInt(32, 0), llvm::APInt(32, static_cast<std::uint64_t>(kernel.info.threads))));
    return tid;
  });
}

Value* Emitter::warp_index() {
  // Without the shuffle, ptxas does not keep dependent values in uniform registers.
  return at_entry(warp_index_, [&]() -> Value* {
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_idx_i32, {},
                             {i32(-1), b.CreateLShr(thread_index(), 5), i32(0), i32(31)});
  });
}

Value* Emitter::never() {
  return at_entry(never_, [&] { return b.CreateICmpEQ(grid_register(true, 0), i32(0)); });
}

Value* Emitter::grid_register(bool extent, std::int64_t axis) {
  static constexpr llvm::Intrinsic::ID kRegisters[2][3] = {
      {llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y,
       llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z},
      {llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x, llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_y,
       llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_z}};
  const auto dim = static_cast<std::size_t>(axis);
  return at_entry(grid_[extent][dim], [&]() -> Value* {
    return b.CreateIntrinsic(b.getInt32Ty(), kRegisters[extent][dim], {});
  });
}

llvm::GlobalVariable* Emitter::shared_memory() {
  if (shared_memory_ == nullptr) {
    shared_memory_ = new llvm::GlobalVariable(module, llvm::ArrayType::get(b.getInt8Ty(), 0), false,
                                              llvm::GlobalValue::ExternalLinkage, nullptr, "smem",
                                              nullptr, llvm::GlobalValue::NotThreadLocal, 3);
    shared_memory_->setAlignment(llvm::Align(1024));
  }
  return shared_memory_;
}

void Emitter::refuse(ir::OpId id, std::string_view why) const {
  throw InternalError(fmt::format("LLVM emitter: {}: {}", ir::print_op(kernel, id), why));
}

}  // namespace tegula::codegen::llvm_backend
