// factor * dot(a, b) + ramp = factor * dot(a, b, ramp / factor) + start of the ramp.
//
// The MMA then adds the column terms for free, as the initial value of its accumulator. Row terms
// and scalars remain and cost nothing per element. A product of halves is rounded (on Hopper
// truncated) at each k step, and so is the accumulator. It therefore starts with a ramp from 0,
// whose terms are small because the tile is narrow. The start of the ramp is a scalar. Terms that
// are not a ramp may have any magnitude and are not moved.
#include "ir/analysis/index_facts.h"
#include "ir/matrix_type.h"
#include "ir/passes/terms/linear_form.h"
#include "ir/ramp.h"

namespace tegula::ir {
namespace {

/// Narrower tiles save little, and attention uses them where head dims leave no registers.
constexpr std::int64_t kMinColumns = 64;

/// Returns true for a dot whose sums are as accurate as floats (with fp8, Hopper keeps 14 bits), on
/// a target with registers for the terms. Without wgmma, operands are in registers, too, and spill.
bool can_init_accumulator(const Kernel& k, OpId dot) {
  if (!dot || k[dot].opcode != Opcode::Dot || !k.info.target->has_wgmma) return false;
  const MatrixType* type = matrix_type(k, k[dot]);
  return type && type->bits == 16 && k.type(k[dot].results[0]).dtype() == DType::f32 &&
         is_zero(k, k[dot].operands[2]);
}

}  // namespace

std::optional<LinearForm> LinearForms::with_accumulator_init(const LinearForm& f, int axis) {
  if (!f.tile || !can_init_accumulator(k_, k_[f.tile].def)) return std::nullopt;
  if (f.factor && f.factor.axis >= 0) return std::nullopt;
  const auto ramp = ramp_of(k_, f.term(axis).value);
  if (!ramp || ramp->extent < kMinColumns) return std::nullopt;
  const Value step = f.factor ? b_.div(ramp->step, f.factor.value) : ramp->step;
  LinearForm sums;
  sums.term(axis) = {make_ramp(b_, {ramp->extent, b_.f32(0), step}), axis};
  const OpId dot = k_[f.tile].def;
  const Type type = k_.type(f.tile);
  const std::vector<Value> operands{k_[dot].operands[0], k_[dot].operands[1], emit(sums, type)};
  const OpId made = b_.create(Opcode::Dot, operands, std::span(&type, 1), AttrList(k_[dot].attrs));
  LinearForm out = f;
  out.tile = k_[made].results[0];
  out.term(-1) = add(out.term(-1), {ramp->first});
  out.term(axis) = {};
  return out;
}

}  // namespace tegula::ir
