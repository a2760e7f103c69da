// Lowering of asynchronous MMAs to wgmma: descriptors from the shared layout, fragments from the
// register layout. PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": a warpgroup
// computes 64 rows, each of its warps 16 of them, as mma.m16n8k16 lays them out.
#include <fmt/format.h>

#include "codegen/lower/fragments.h"
#include "codegen/lower/lowering.h"
#include "codegen/lower/shared.h"
#include "ir/layout/linear_layout.h"
#include "ir/matrix_type.h"
#include "tegula/error.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// Address bits that a descriptor encodes.
constexpr int kAddressBits = 18;

/// A shared-memory operand of the instruction.
struct Matrix {
  Value descriptor;
  bool mn_major = false;
  Ints steps;  ///< bytes from k step to k step
};

std::int64_t offset_at(const SharedLayout& layout, int k_dim, int k, int mn) {
  ir::Dims index = ir::Dims::filled(2, 0);
  index[k_dim] = k;
  index[1 - k_dim] = mn;
  return layout.offset(index);
}

/// Builds the descriptor of a slot. `k_dim`: the contracted dimension of the tile. `first_byte`:
/// offset of the warpgroup's rows or columns in the slot, or none.
Matrix matrix(Lowering& l, const SmemSlot& slot, int k_dim, Value first_byte) {
  const SharedLayout& layout = slot.layout;
  const SwizzleSegment piece = layout.piece_list().front();
  Matrix m;
  m.mn_major = layout.order()[0] != k_dim;
  const int depth = layout.shape()[k_dim];
  const int step = kMmaStepBytes / layout.element_bytes();
  for (int k = 0; k < depth; k += step) m.steps.push_back(offset_at(layout, k_dim, k, 0));
  const std::int64_t group = kSwizzleRows * piece.swizzle;  // bytes of eight rows
  // MN-major: from segment to segment along MN, and from eight k to the next eight. K-major: LBO is
  // ignored.
  const std::int64_t lbo = m.mn_major && piece.count > 1
                               ? offset_at(layout, k_dim, 0, piece.width / layout.element_bytes())
                               : 16;
  Value base = slot.base;
  if (first_byte) base = l.b.add(base, first_byte);
  // Addresses of a cluster's CTA begin with its rank, which must not get into other fields.
  if (l.from.info.cluster > 1) base = l.b.op(Opcode::And, {base, l.b.i32((1 << kAddressBits) - 1)});
  m.descriptor =
      l.b.op(Opcode::SmemDesc, {base},
             {{AttrName::lbo, lbo}, {AttrName::sbo, group}, {AttrName::swizzle, piece.swizzle}});
  return m;
}

/// Division of an accumulator among warpgroups: by rows first, then by columns.
struct Partition {
  int warps_m = 0;        ///< warps along the rows
  int columns = 0;        ///< of each warpgroup
  std::vector<int> rows;  ///< first row of each 16 rows of a warp
};

/// Returns the partition. The first 16 rows of all warps precede the second 16 rows of any warp.
Partition partition_of(Lowering& l, OpId op, Type acc) {
  const RegisterOf register_of(layout_of(acc));
  const std::vector<int> tiles = register_of.tiles(0, kWarpRows),
                         columns = register_of.tiles(1, kMmaColumns);
  const auto order = acc_order(register_of, tiles, columns);
  bool fits = true;
  for (std::size_t i = 0; i < order.size(); ++i)
    fits = fits && order[i] == static_cast<std::int64_t>(i);
  for (std::size_t i = 0; i < columns.size(); ++i) fits = fits && columns[i] == static_cast<int>(i);
  Partition p;
  p.columns = static_cast<int>(columns.size()) * kMmaColumns;
  const int warps_n = static_cast<int>(acc.shape()[1]) / p.columns;
  p.warps_m = l.warps() / warps_n;
  for (int tile : tiles) {
    fits = fits && tile == static_cast<int>(p.rows.size()) * p.warps_m;
    p.rows.push_back(tile * kWarpRows);
  }
  if (!fits)
    throw InternalError(fmt::format("dot_async: {} is not in the order of wgmma ({})", acc.str(),
                                    l.from[op].loc.line));
  return p;
}

/// Returns the offset of the warpgroup's first 64 rows of A.
Value row_offset(Lowering& l, const Partition& p, const SharedLayout& layout, int k_dim) {
  if (p.warps_m <= kWarpgroupWarps) return {};
  const std::int64_t stride = offset_at(layout, k_dim, 0, kWgmmaRows);
  Value warp = l.coordinate(HwDim::Warp);
  if (p.warps_m < l.warps()) warp = l.b.rem(warp, l.b.i32(p.warps_m));
  return l.b.mul(l.b.op(Opcode::Shr, {warp, l.b.i32(2)}), l.b.i32(stride));
}

/// Returns the offset of the warpgroup's columns of B.
Value column_offset(Lowering& l, const Partition& p, const SharedLayout& layout, int k_dim) {
  if (p.warps_m == l.warps()) return {};
  const Value part = l.b.div(l.coordinate(HwDim::Warp), l.b.i32(p.warps_m));
  return l.b.mul(part, l.b.i32(offset_at(layout, k_dim, 0, p.columns)));
}

}  // namespace

void lower_DotAsync(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Type acc_type = l.from.type(d.results[0]).inner(), a_type = l.from.type(d.operands[1]);
  const Partition part = partition_of(l, op, acc_type);
  // The contracted dimension of the shared tile, which may be the operand's transpose.
  const int k_of_a = d.attrs.i(AttrName::trans_a) == 1 ? 0 : 1,
            k_of_b = d.attrs.i(AttrName::trans_b) == 1 ? 1 : 0;
  std::size_t next_slot = 4;
  Value acc = l.get(d.operands[0]), a;
  AttrList attrs;
  Ints step_a;
  if (a_type.is(TypeKind::Shared)) {
    const SmemSlot slot = slot_of(l, d.operands[1], d.operands[next_slot++]);
    const Matrix m = matrix(l, slot, k_of_a, row_offset(l, part, slot.layout, k_of_a));
    a = m.descriptor;
    step_a = m.steps;
    if (m.mn_major) attrs.set(AttrName::trans_a, std::int64_t{1});
    Ints bytes;
    for (int row : part.rows) bytes.push_back(offset_at(slot.layout, k_of_a, 0, row));
    if (part.rows.size() > 1) attrs.set(AttrName::rows_a, bytes);
  } else {
    a = a_fragments(l, d.operands[1]);
  }
  const SmemSlot at_b = slot_of(l, d.operands[2], d.operands[next_slot]);
  const Matrix b = matrix(l, at_b, k_of_b, column_offset(l, part, at_b.layout, k_of_b));
  if (b.mn_major) attrs.set(AttrName::trans_b, std::int64_t{1});
  if (step_a.empty()) step_a.assign(b.steps.size(), 0);
  // The fence orders the registers that the instruction reads before it.
  std::vector<Value> ordered;
  if (l.type(acc).is_vec()) ordered.push_back(acc);
  if (l.type(a).is_vec()) ordered.push_back(a);
  std::vector<Type> types;
  for (Value v : ordered) types.push_back(l.type(v));
  const OpId fence = l.b.create(Opcode::WgmmaFence, ordered, types);
  std::size_t next = 0;
  if (l.type(acc).is_vec()) acc = l.to[fence].results[next++];
  if (l.type(a).is_vec()) a = l.to[fence].results[next++];
  const MatrixType& type = *matrix_type_of(l.from.type(d.operands[2]).dtype());
  attrs.set(AttrName::shape, Ints{kWgmmaRows, part.columns, type.step()});
  attrs.set(AttrName::a_type, type.name);
  attrs.set(AttrName::b_type, type.name);
  attrs.set(AttrName::step_a, step_a);
  attrs.set(AttrName::step_b, b.steps);
  const OpId made = l.b.create(
      Opcode::Wgmma, std::vector<Value>{acc, a, b.descriptor, l.get(d.operands[3])}, attrs);
  l.b.effect(Opcode::WgmmaCommit, {});
  l.set(d.results[0], l.to[made].results[0]);
  if (!a_type.is(TypeKind::Shared)) l.set_fragments(d.operands[1], a);
}

void lower_DotWait(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  std::vector<Value> operands;
  for (std::size_t i = 0; i < d.operands.size(); ++i)
    operands.push_back(i < d.results.size() ? l.get(d.operands[i]) : l.fragments(d.operands[i]));
  std::vector<Type> types;
  for (Value v : d.results) types.push_back(Lowering::lowered_type(l.from.type(v)));
  AttrList attrs;
  attrs.set(AttrName::count, d.attrs.i(AttrName::count));
  const OpId made = l.b.create(Opcode::WgmmaWait, operands, types, attrs);
  for (std::size_t i = 0; i < d.results.size(); ++i) l.set(d.results[i], l.to[made].results[i]);
}

}  // namespace tegula::codegen
