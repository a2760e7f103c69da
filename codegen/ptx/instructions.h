#pragma once
// Texts of all PTX instructions that both emitters use, in one place so that they cannot differ.
// Each function lists its operands in the order results, then inputs; `#i` in the text is operand i
// (see asm.h). Attribute lists are those of the op of the same name in ops.def.
#include <cstdint>
#include <optional>
#include <string_view>

#include "codegen/ptx/asm.h"
#include "ir/cast_mode.h"
#include "ir/kernel.h"

namespace tegula::codegen::ptx {

// ---- types

/// Returns the register class that holds one element: 8- and 16-bit types (floats as their bits) in
/// b16, pointers and 64-bit integers in b64, i1 in pred.
Reg reg_of(ir::Elem e);
/// Returns the name in an instruction suffix: "s32", "bf16", "e4m3", ...
std::string_view type_suffix(DType d);
/// Returns the same for the attrs a_type and b_type, which also allow "tf32".
std::string_view matrix_suffix(std::string_view attr);

// ---- arithmetic (pure; one element)

/// Operands: result, a, b. Amounts of `bits` or more yield 0 (the sign for a signed right shift).
/// The value is b32 or b64; the amount is always b32.
Asm shift(bool left, bool is_signed, int bits);
/// Operands: result, a, b; 32 or 64 bits. Division by zero returns an unspecified value instead of
/// undefined behavior.
Asm int_div(DType d, bool remainder);
/// -x, which wraps; 16, 32 or 64 bits. Operands: result, x. If ptxas before 13.4 turns max(max(a,
/// b), c) of signed integers into one instruction (VIMNMX3: Hopper, sm_100), it treats a negation
/// of `b` as an operand modifier, which that instruction does not have, and drops it. This affects
/// `neg`, `0 - b`, `b * -1` and its simplification of `a - (a + b)`. A 64-bit negation is split
/// into two instructions only later; its upper half is dead here.
Asm int_neg(DType d);
/// Float division, f32 or f64. Operands: result, a, b.
Asm float_div(DType d, bool approx);
/// min/max of f32 or f64 (f64 has no NaN-propagating form, so that one is composed). Operands:
/// result, a, b.
Asm float_minmax(DType d, bool max, bool propagate_nan);

/// Returns the PTX name of an op that the hardware performs directly on 16-bit floats with one
/// rounding: add, sub, mul, fma, min and max of f16, min and max of bf16; empty for any other op.
std::string_view half_arithmetic(std::string_view mnemonic, DType d);
/// One of those on a pair of numbers in a word, or on a single number. Operands: result, then the
/// op's.
Asm half_op(std::string_view mnemonic, DType d, bool pair, bool propagate_nan);
/// f32, and f64 where the hardware supports it; otherwise the text is empty. Operands: result, x.
/// Names are the mnemonics of ops.def: exp2 log2 sqrt rsqrt rcp tanh_approx sin_approx cos_approx
/// floor ceil round trunc.
Asm unary(std::string_view mnemonic, DType d, bool approx);
/// Conversions as defined by `cast` in ops.def if a float is involved, and saturating conversions
/// between integers; the text is empty for the rest (and for fp8 if the target does not support
/// it). Operands: result (reg_of(to); bits above 8 unspecified), x (reg_of(from); 8-bit integers
/// sign- or zero-extended to 16 bits).
Asm cast(DType from, DType to, const ir::TargetRow& target, ir::CastMode mode = {});
/// Throws CompileError if the kernel's target cannot execute an op because it lacks a conversion.
/// Targets without has_f8 cannot convert fp8, so every elementwise op with fp8 operands or results
/// is rejected, except those that only inspect or move bits.
void require_conversions(const ir::Kernel& kernel);
/// Two floats packed into one register, `low` in the low half: bf16, f16 (b32) or fp8 (b16).
/// Operands: result, high, low.
Asm cast_pair(DType from, DType to);
/// Two packed fp8 into two packed f16 (b32). Operands: result, x (b16).
Asm unpack_f8_pair(DType from);

// ---- ops without operands and results

/// Returns the PTX of an op of statements.def.
Asm statement(const ir::OpData& op);

// ---- registers of other lanes

/// kind: any all ballot. Operands: result (pred, or b32 for ballot), predicate.
Asm vote(std::string_view kind);

// ---- memory

/// Cluster: shared memory of any CTA of the cluster, at addresses of `map_shared`.
enum class Space : char { Global, Shared, Cluster };

/// One access of one thread. It moves `units()` registers of class `unit()`.
struct Access {
  Space space = Space::Global;
  DType dtype = DType::i32;  ///< type of the elements (i64 for pointers)
  int width = 1;             ///< elements
  bool predicated = false;
  std::string_view cache, evict;          ///< attrs of the op
  std::string_view sem = {}, scope = {};  ///< likewise; empty for a weak access
  bool adds = false;                      ///< a store that atomically adds its single integer

  int bytes() const { return width * size_bytes(dtype); }
  /// Bytes of one register: 8 for 64-bit elements, else 4 for accesses of at least 4 bytes, else
  /// the whole access.
  int unit_bytes() const;
  int units() const { return bytes() / unit_bytes(); }
  Reg unit() const;
};
/// Returns the access of a load or store of elements `e`. In memory, i1 is a byte and a pointer a
/// 64-bit integer.
Access access_of(const ir::AttrList& attrs, Space space, ir::Elem e, bool predicated);
/// Operands: units() results (InOut when predicated: the fill), address (b64; b32 in shared memory)
/// [, predicate].
Asm load(const Access& a);
/// Operands: address, units() values [, predicate].
Asm store(const Access& a);

/// Operands: [old value (Out),] address (b64), value [, predicate]. Without `result_used`, the text
/// is a `red`, unless the order requires an `atom`. If `target` has no such instruction, it is a
/// compare-and-swap loop. Empty for i1, and for fp8 except xchg.
Asm atomic(const ir::AttrList& attrs, DType d, bool predicated, bool result_used,
           const ir::TargetRow& target);
/// Compare and swap of 16, 32 or 64 bits. Operands: old value (Out), address (b64), expected,
/// desired [, predicate].
Asm compare_and_swap(const ir::AttrList& attrs, DType d, bool predicated);

/// Operands: result (b32 for smid, else b64). `kind` as in special_reg.
Asm special_register(std::string_view kind);

/// Operands: shared address (b32), global address (b64) [, bytes to read (b32): the rest is filled
/// with 0].
Asm cp_async(int bytes, std::string_view cache, bool sized);

/// Operands: num results (b32), row address (b32).
Asm ldmatrix(int num, bool trans);
/// Operands: row address (b32), num values (b32).
Asm stmatrix(int num, bool trans);

// ---- barriers

/// A constant `id` is part of the text (a register makes ptxas reserve all 16); otherwise it is
/// operand 0 (b32). count 0: all threads.
Asm bar_sync(std::optional<std::int64_t> id, std::int64_t count);
Asm bar_arrive(std::optional<std::int64_t> id, std::int64_t count);
/// Operands: result (b32).
Asm cta_rank();
/// mapa. Operands: result (b32), shared address (b32), rank (b32).
Asm map_shared();
/// A boundary across which ptxas moves nothing. Operand: `never` (pred), which is false at run time
/// but unknown to compilers (a grid extent of 0).
Asm pin();

// ---- matrix units

/// One mma.sync. Operands: results (Out), A registers, B registers, C registers (see
/// `mma_registers`).
struct MmaRegisters {
  int a, b, c;
};
MmaRegisters mma_registers(const ir::AttrList& attrs);
Asm mma(const ir::AttrList& attrs, DType accumulator);

/// Properties of a wgmma that depend on its operands rather than on its attributes.
struct WgmmaForm {
  int accumulators = 0;            ///< number of registers
  DType accumulator = DType::f32;  ///< f32, i32, or f16 (two packed in each b32 register)
  bool a_in_registers = false;
  int steps = 1;
  int row_tiles = 1;            ///< number of tiles of 64 rows
  bool fresh = false;           ///< the accumulator is poison: results only, first scale-d false
  std::optional<bool> scale_d;  ///< constant, or operand
};
/// All k steps of one wgmma op. Operands: accumulators (InOut; Out when fresh; grouped by row
/// tile), A (b64 descriptors, one per step, grouped by row tile, or 4 b32 registers per step), B
/// descriptors (b64, one per step) [, scale_d (pred) unless it is constant or fresh].
Asm wgmma(const ir::AttrList& attrs, const WgmmaForm& form);
/// Byte offsets of A's descriptors from the first one: the k steps of each tile of 64 rows.
std::vector<std::int64_t> steps_of_rows(const ir::AttrList& attrs);
/// The bits of a matrix descriptor that do not depend on the address. The address is below 2^18;
/// add it >> 4.
std::uint64_t smem_desc_bits(const ir::AttrList& attrs);
/// Increment of a descriptor for a step of `bytes`.
inline std::int64_t smem_desc_step(std::int64_t bytes) { return bytes / 16; }

/// Orders registers before the next wgmma. Operands: the registers passed through (InOut, classes
/// given).
Asm wgmma_fence(const std::vector<Reg>& through);
/// Operands: the accumulators (InOut), then registers kept alive (In).
Asm wgmma_wait(std::int64_t count, const std::vector<Reg>& through, const std::vector<Reg>& kept);

// ---- mbarriers and TMA

/// Operands: barrier address (b32) [, predicate] in all of these; mbar_wait: address, parity (b32).
Asm mbar_init(std::int64_t count);
/// of_cluster: the address comes from map_shared.
Asm mbar_arrive(bool predicated, bool of_cluster = false);
Asm mbar_expect_tx(std::int64_t bytes, bool predicated);
Asm mbar_wait();
/// Operands: shared address (b32), tensor map (b64), coordinates (b32 each), barrier (b32). Loads
/// into the first `ctas` CTAs of the cluster; 1: into this CTA.
Asm tma_load(int rank, std::string_view evict, std::int64_t ctas = 1);
/// Operands: tensor map (b64), coordinates (b32 each), shared address (b32).
Asm tma_store(int rank, std::string_view evict);
Asm tma_reduce(std::string_view kind, int rank, std::string_view evict);
/// Operand: tensor map (b64, generic address).
Asm prefetch_tensormap();

}  // namespace tegula::codegen::ptx
