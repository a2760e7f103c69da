// Lowering of clusters: the reduce-scatter and the gather of the CTAs' tiles through shared memory
// that the CTAs of the cluster read from each other (PTX ISA, "mapa", "barrier.cluster").
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>

#include "codegen/lower/lowering.h"
#include "codegen/lower/shared.h"
#include "ir/layout/layout_ops.h"
#include "ir/layout/swizzle.h"
#include "support/errors.h"
#include "tegula/int_math.h"

namespace tegula::codegen {

using namespace ir;

namespace {

int log2_of(int n) { return std::countr_zero(static_cast<unsigned>(n)); }

[[noreturn]] void refuse_cut(const LinearLayout& whole, int axis, int parts,
                             std::string_view reason, Loc loc) {
  const auto extent = static_cast<unsigned>(whole.shape()[axis]);
  const std::string why =
      std::has_single_bit(extent)
          ? std::string(reason)
          : fmt::format(
                "{} is not a power of two, and a slice would end within a part that threads "
                "cannot divide",
                extent);
  fail(ErrorId::cluster_cut, loc, {},
       fmt::format("[{}]", fmt::join(whole.shape().begin(), whole.shape().end(), ", ")), parts,
       axis, why, axis, std::bit_floor(extent), std::bit_ceil(extent));
}

/// Returns the layout of a tile whose dimension `axis` is split into `parts` slices. The first
/// dimension of the result is the number of the slice.
LinearLayout in_parts(const LinearLayout& whole, int axis, int parts, Loc loc) {
  ir::Dims shape, order{axis};
  for (int d = 0; d < whole.rank(); ++d) {
    if (d == axis) shape.push_back(parts);
    shape.push_back(d == axis ? whole.shape()[d] / parts : whole.shape()[d]);
  }
  for (int d = 0; d < shape.size(); ++d)
    if (d != axis) order.push_back(d);
  const auto cut = reshape(whole, shape);
  if (!cut) refuse_cut(whole, axis, parts, cut.reason(), loc);
  return permute(*cut, order);
}

/// Returns the XOR mask on the offsets of a slice's elements; `number`, the slice, is a run-time
/// value.
Value flips_of_part(Lowering& l, const SharedLayout& shared, int parts, Value number) {
  const Slab& slab = shared.slabs().front();
  if (shared.slabs().size() != 1 || slab.bits[0] != log2_of(parts))
    throw InternalError("cluster_reduce_scatter: parts of " + shared.str() +
                        " are not distinguished by bits");
  Value flips;
  for (int bit = 0; bit < slab.bits[0]; ++bit) {
    const std::uint32_t basis = slab.basis[static_cast<std::size_t>(slab.first_bit(0) + bit)];
    const Value one =
        l.b.op(Opcode::And, {l.b.op(Opcode::Shr, {number, l.b.i32(bit)}), l.b.i32(1)});
    const Value flip = l.b.mul(one, l.b.i32(basis));
    flips = flips ? l.b.op(Opcode::Xor, {flips, flip}) : flip;
  }
  return flips;
}

/// Returns the layout of the shared memory in which each CTA of the cluster stores a tile for the
/// others to read.
SharedLayout cluster_exchange_layout(const Lowering& l, const OpData& d, const LinearLayout& giving,
                                     const LinearLayout& taking, Type type) {
  const int ctas = l.from.info.cluster;
  const std::string_view name = info(d.opcode).mnemonic;
  if (ctas == 1) throw InternalError(fmt::format("{} without a cluster", name));
  const auto exchange = synthesize_exchange(giving, taking, size_bytes(type.dtype()),
                                            {.stmatrix = false, .ldmatrix = false, .reads = ctas});
  if (!exchange)
    throw InternalError(fmt::format("{} of {}: {}", name, giving.str(), exchange.reason()));
  return exchange->layout;
}

/// Sums the terms in a tree of adjacent pairs. Each rank reads the others in a different order,
/// (r, r ^ 1), (r ^ 2, r ^ 3), .., but a sum of two is commutative, so all ranks get the same bits.
Value sum_of_pairs(Lowering& l, std::vector<Value> terms) {
  while (terms.size() > 1) {
    for (std::size_t i = 0; i < terms.size() / 2; ++i)
      terms[i] = l.b.add(terms[2 * i], terms[2 * i + 1]);
    terms.resize(terms.size() / 2);
  }
  return terms.front();
}

}  // namespace

void Lowering::wait_for_cluster_reads() {
  if (!is_read_by_cluster_) return;
  is_read_by_cluster_ = false;
  b.effect(Opcode::ClusterWait, {});
}

void Lowering::cluster_barrier() {
  b.effect(Opcode::ClusterArrive, {});
  b.effect(Opcode::ClusterWait, {});
}

void Lowering::leave_cluster() {
  b.effect(Opcode::ClusterArrive, {});
  is_read_by_cluster_ = true;
}

void lower_ClusterRank(Lowering& l, OpId op) {
  const Value rank = l.b.op(Opcode::CtaRank, std::initializer_list<Value>{});
  l.set(l.from[op].results[0], l.b.cast(rank, l.from.type(l.from[op].results[0]).dtype()));
}

void lower_ClusterId(Lowering& l, OpId op) {
  const Value cta = l.b.op(Opcode::CtaId, {}, Type::scalar(DType::i32), {{AttrName::axis, 0}});
  const Value id = l.b.op(Opcode::Shr, {cta, l.b.i32(log2_of(l.from.info.cluster))});
  l.set(l.from[op].results[0], l.b.cast(id, l.from.type(l.from[op].results[0]).dtype()));
}

void lower_ClusterTile(Lowering& l, OpId op) {
  l.set(l.from[op].results[0], l.get(l.from[op].operands[0]));
}

namespace {

/// A tile that the CTAs of a cluster exchange.
struct Gathered {
  LinearLayout own;  ///< layout of one CTA's tile within the result
  SharedLayout shared;
  std::int64_t at = 0;  ///< byte offset after the preceding tiles

  /// Returns the position of each result register among the loaded ones, which are ordered by CTA.
  std::vector<std::int64_t> positions(const LinearLayout& result) const {
    const auto of_own = broadcast_registers(expand_dim(own, 0), result);
    if (!of_own)
      throw InternalError(fmt::format("cluster_gather into {}: {}", result.str(), of_own.reason()));
    std::vector<std::int64_t> out;
    for (int reg = 0; reg < result.registers(); ++reg) {
      const int cta = result.apply({.reg = reg})[0];
      out.push_back(cta * own.registers() + (*of_own)[static_cast<std::size_t>(reg)]);
    }
    return out;
  }
};

/// Writes the operands to shared memory, one after another.
std::vector<Gathered> share_operands(Lowering& l, const OpData& d, Value& base) {
  std::vector<Gathered> all;
  std::int64_t bytes = 0;
  int alignment = 16;
  for (std::size_t i = 0; i < d.operands.size(); ++i) {
    const Type type = l.from.type(d.operands[i]);
    LinearLayout own = slice(layout_of(l.from.type(d.results[i])), 0);
    SharedLayout shared = cluster_exchange_layout(l, d, layout_of(type), own, type);
    alignment = std::max(alignment, shared.alignment());
    const std::int64_t begin = round_up(bytes, shared.alignment());
    bytes = begin + shared.bytes();
    all.push_back({std::move(own), std::move(shared), begin});
  }
  base = l.scratch(bytes, alignment);
  l.barrier();
  for (std::size_t i = 0; i < all.size(); ++i)
    store_shared(l, l.b.add(base, l.b.i32(all[i].at)), all[i].shared,
                 layout_of(l.from.type(d.operands[i])), l.get(d.operands[i]), /*matrices=*/false);
  return all;
}

}  // namespace

void lower_ClusterGather(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  Value base;
  const std::vector<Gathered> all = share_operands(l, d, base);
  l.cluster_barrier();
  std::vector<Value> peer_bases;
  for (int cta = 0; cta < l.from.info.cluster; ++cta)
    peer_bases.push_back(l.b.op(Opcode::MapShared, {base, l.b.i32(cta)}));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Elem elem = l.from.type(d.operands[i]).elem();
    std::vector<Value> loaded;
    for (const Value peer_base : peer_bases)
      loaded.push_back(
          load_cluster(l, l.b.add(peer_base, l.b.i32(all[i].at)), all[i].shared, all[i].own, elem));
    const Value joined = l.b.op(Opcode::Concat, loaded);
    l.set(d.results[i], l.regs(joined, all[i].positions(layout_of(l.from.type(d.results[i])))));
  }
  l.leave_cluster();
}

void lower_ClusterReduceScatter(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Type type = l.from.type(d.results[0]);
  const int ctas = l.from.info.cluster;
  const LinearLayout giving = in_parts(layout_of(l.from.type(d.operands[0])),
                                       static_cast<int>(d.attrs.i(AttrName::axis)), ctas, d.loc);
  const LinearLayout taking = expand_dim(layout_of(type), 0);
  const SharedLayout shared = cluster_exchange_layout(l, d, giving, taking, type);
  const Value base = l.scratch(shared.bytes(), std::max(16, shared.alignment()));
  l.barrier();
  store_shared(l, base, shared, giving, l.get(d.operands[0]), /*matrices=*/false);
  l.cluster_barrier();

  const Value rank = l.b.op(Opcode::CtaRank, std::initializer_list<Value>{});
  const Value flips = flips_of_part(l, shared, ctas, rank);
  std::vector<Value> terms;
  for (int i = 0; i < ctas; ++i) {
    const Value peer = l.b.op(Opcode::Xor, {rank, l.b.i32(i)});
    const Value peer_base = l.b.op(Opcode::MapShared, {base, peer});
    terms.push_back(load_cluster(l, peer_base, shared, taking, type.elem(), flips));
  }
  l.set(d.results[0], sum_of_pairs(l, std::move(terms)));
  l.leave_cluster();
}

}  // namespace tegula::codegen
