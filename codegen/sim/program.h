#pragma once
// A kernel in simt form, decoded once per launch: structured control becomes jumps in one
// instruction array, and every SSA value gets a fixed slot of registers.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ir/eval/cell.h"
#include "ir/kernel.h"

namespace tegula::sim {

class Warp;
struct Instr;

/// Outcome of an instruction: continue, stay because it must wait, or `pc` is already set.
enum class Step : std::uint8_t { Next, Blocked, Jumped };
using ExecFn = Step (*)(Warp&, const Instr&);

using Slot = std::uint32_t;

/// Location of an SSA value in a warp's register file.
struct SlotInfo {
  std::uint32_t first = 0;  ///< index of its first register; a register holds one cell per lane
  std::uint32_t regs = 1;
  ir::Elem elem;
  bool pending = false;  ///< the register holds the number of an accumulator in flight
};

struct Instr {
  ExecFn exec = nullptr;
  ir::OpId id;
  const ir::OpData* op = nullptr;
  std::span<const Slot> in, out;
  std::uint32_t target = 0;  ///< jump target of control instructions
  std::uint32_t index = 0;   ///< position in the program
  std::uint32_t role = 0;    ///< region number of a roles op
  bool convergent = false;
  ir::ElementwiseFn elementwise = nullptr;
  std::span<const ir::Elem> in_elems;
};

class DecodedKernel {
 public:
  explicit DecodedKernel(const ir::Kernel& kernel);
  DecodedKernel(const DecodedKernel&) = delete;

  const ir::Kernel& kernel() const { return kernel_; }
  std::span<const Instr> code() const { return code_; }
  const SlotInfo& slot(Slot s) const { return slots_[s]; }
  std::size_t slot_count() const { return slots_.size(); }
  std::uint32_t register_count() const { return registers_; }
  std::span<const Slot> params() const { return params_; }
  /// Slots whose value never changes, with the op (const or poison) that defines it.
  std::span<const std::pair<Slot, ir::OpId>> constants() const { return constants_; }
  int threads() const { return kernel_.info.threads; }

 private:
  friend class Decoder;
  const ir::Kernel& kernel_;
  std::vector<Instr> code_;
  std::vector<SlotInfo> slots_;
  std::vector<Slot> params_;
  std::vector<std::pair<Slot, ir::OpId>> constants_;
  std::vector<std::unique_ptr<Slot[]>> slot_lists_;
  std::vector<std::unique_ptr<ir::Elem[]>> elem_lists_;
  std::uint32_t registers_ = 0;
};

// Executors of simt ops, one function each; a missing one is a link error.
#define SIMT_OP(Name, ...) Step sim_##Name(Warp&, const Instr&);
#include "ir/op_rows.h"

// Executors of control flow (ops_control.cpp).
Step control_if(Warp&, const Instr&);
Step control_else(Warp&, const Instr&);
Step control_leave(Warp&, const Instr&);
Step control_copy(Warp&, const Instr&);
Step control_enter_loop(Warp&, const Instr&);
Step control_for_test(Warp&, const Instr&);
Step control_for_next(Warp&, const Instr&);
Step control_while_test(Warp&, const Instr&);
Step control_jump(Warp&, const Instr&);
Step control_role(Warp&, const Instr&);
Step control_exit(Warp&, const Instr&);
Step control_elementwise(Warp&, const Instr&);

}  // namespace tegula::sim
