#pragma once
// State of the emitter and the services for op functions: the registers that hold an IR value, and
// inline PTX.
//
// Registers. A `v<NxT>` is N scalar LLVM values, never an LLVM vector or an array in memory.
// Elements of 8 and 16 bits that fill whole 32-bit words are held as those words (lowest element
// first), which is the form that loads, stores, matrix instructions and `cvt.rn.bf16x2.f32` use:
// `repack` and most casts are then free. Floats of up to 16 bits are held as integers with their
// bits, f32 and f64 as themselves, pointers as `ptr addrspace(1)`, shared addresses as i32.
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <optional>
#include <vector>

#include "codegen/emit.h"
#include "codegen/ptx/instructions.h"
#include "ir/kernel.h"

namespace tegula::codegen::llvm_backend {

using ir::AttrName;
using ir::Opcode;
using ir::OpId;
using llvm::Value;

using Words = llvm::SmallVector<llvm::Value*, 4>;

/// Registers of an IR value: `words` LLVM values of one type, each with `per_word` elements.
struct Holding {
  llvm::Type* word = nullptr;
  int words = 1, per_word = 1;
};

/// One element within a register.
struct ElementRef {
  llvm::Value* word = nullptr;
  int part = 0;
};

class Emitter {
 public:
  Emitter(const ir::Kernel& kernel, llvm::Module& module, llvm::Function& function);

  const ir::Kernel& kernel;
  llvm::Module& module;
  llvm::LLVMContext& context;
  llvm::Function& function;
  llvm::IRBuilder<> b;

  // ---- ops
  const ir::OpData& op(ir::OpId id) const { return kernel[id]; }
  const ir::AttrList& attrs(ir::OpId id) const { return kernel[id].attrs; }
  ir::Value operand(ir::OpId id, std::size_t i) const { return kernel[id].operands[i]; }
  std::size_t operand_count(ir::OpId id) const { return kernel[id].operands.size(); }
  ir::Value result(ir::OpId id, std::size_t i = 0) const { return kernel[id].results[i]; }
  bool is_used(ir::Value v) const { return used_[v.index]; }
  /// Returns the value of an integer constant, if `v` is one.
  std::optional<std::int64_t> constant(ir::Value v) const;
  void emit_region(ir::RegionId region);
  /// Returns the operands of a region's terminator, word by word.
  Words yielded(ir::RegionId region);

  // ---- registers
  /// Returns the LLVM type of one element.
  llvm::Type* element_type(ir::Elem e);
  Holding holding(ir::Type type);
  const Words& words(ir::Value v) const;
  void set_words(ir::Value v, Words words);
  /// Returns one LLVM value per element.
  Words elements(ir::Value v);
  void set_elements(ir::Value v, llvm::ArrayRef<llvm::Value*> elements);
  std::vector<ElementRef> refs(ir::Value v);
  /// Builds the words of `v`; a word that is a whole register needs no instruction.
  void set_refs(ir::Value v, const std::vector<ElementRef>& refs);
  llvm::Value* element(ElementRef ref, ir::Elem e);
  llvm::Value* scalar(ir::Value v);
  /// Concatenates the words of the values.
  Words words_of(llvm::ArrayRef<ir::Value> values) const;
  /// Splits `all` among `values` in order.
  void distribute(llvm::ArrayRef<ir::Value> values, llvm::ArrayRef<llvm::Value*> all);

  // ---- LLVM
  llvm::Value* i32(std::int64_t v) { return b.getInt32(static_cast<std::uint32_t>(v)); }
  llvm::Value* i64(std::int64_t v) { return b.getInt64(static_cast<std::uint64_t>(v)); }
  llvm::BasicBlock* block(const char* name);
  /// Reinterprets the bits as another type of the same width (integers, floats, pointers).
  llvm::Value* bits_as(llvm::Value* v, llvm::Type* type);
  /// Calls inline PTX with the values of its In and InOut operands in order; returns its results in
  /// order. Arguments of another type than the operand's class are bit-cast, narrow ones
  /// zero-extended.
  Words inline_ptx(const ptx::Asm& a, llvm::ArrayRef<llvm::Value*> args = {});
  /// The same for PTX with a single result.
  llvm::Value* inline_ptx_value(const ptx::Asm& a, llvm::ArrayRef<llvm::Value*> args = {});
  /// Returns a value that is computed once, at the kernel's entry, where all threads are active.
  template <class Make>
  llvm::Value* at_entry(llvm::Value*& slot, const Make& make) {
    if (slot == nullptr) {
      llvm::IRBuilder<>::InsertPointGuard guard(b);
      b.SetInsertPoint(entry_->getTerminator());
      slot = make();
    }
    return slot;
  }
  llvm::Value* thread_index();
  llvm::Value* warp_index();
  /// Returns a condition that is always false, which compilers do not know.
  llvm::Value* never();
  llvm::Value* grid_register(bool extent, std::int64_t axis);
  llvm::GlobalVariable* shared_memory();
  /// Throws an error: the op cannot be emitted for this target.
  [[noreturn]] void refuse(ir::OpId id, std::string_view why) const;

  void enable_line_info();
  void set_location(const Loc& loc);
  void finish_line_info();

 private:
  llvm::Type* class_type(ptx::Reg reg);
  void mark_used(ir::RegionId region);

  std::vector<Words> words_;
  std::vector<bool> used_;
  llvm::BasicBlock* entry_;
  llvm::Value *thread_index_ = nullptr, *warp_index_ = nullptr, *never_ = nullptr;
  llvm::Value* grid_[2][3] = {};
  llvm::GlobalVariable* shared_memory_ = nullptr;
  struct LineInfo;
  std::shared_ptr<LineInfo> lines_;
};

// ---- op functions, one per row of ops.def

/// One element of an elementwise op. Floats below 32 bits have been widened to f32 (see
/// elementwise.cpp).
struct ElementArgs {
  ir::OpId id;
  const ir::AttrList& attrs;
  llvm::ArrayRef<ir::Elem> in;
  ir::Elem out;
  llvm::ArrayRef<llvm::Value*> x;
  bool is_float() const { return !in[0].pointer && tegula::is_float(in[0].dtype); }
  bool is_signed() const { return !in[0].pointer && tegula::is_signed(in[0].dtype); }
};

#define STRUCTURE(Name, ...) void llvm_##Name(Emitter&, ir::OpId);
#define SIMT_OP(Name, ...) void llvm_##Name(Emitter&, ir::OpId);
#define ELEMENTWISE(Name, ...) llvm::Value* llvm_##Name(Emitter&, const ElementArgs&);
#include "ir/op_rows.h"

/// Applies the per-element function of an elementwise op to its registers.
void emit_elementwise(Emitter&, ir::OpId);
/// Convert narrow floats to f32 and back (round to nearest even), pairwise if the hardware supports
/// it.
Words widen(Emitter&, ir::Value v);
void set_narrowed(Emitter&, ir::Value v, llvm::ArrayRef<llvm::Value*> floats);

}  // namespace tegula::codegen::llvm_backend
