// Lowering of clusters: the reduce-scatter and the gather of the CTAs' tiles through shared memory
// that the CTAs of the cluster read from each other (PTX ISA, "mapa", "barrier.cluster").
#include <fmt/format.h>

#include <algorithm>
#include <bit>

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

/// The layout of a tile whose dimension `axis` is split into slices: the slice number comes first.
LinearLayout in_parts(const LinearLayout& whole, int axis, int parts, Loc loc) {
  ir::Dims shape, order{axis};
  for (int d = 0; d < whole.rank(); ++d) {
    if (d == axis) shape.push_back(parts);
    shape.push_back(d == axis ? whole.shape()[d] / parts : whole.shape()[d]);
  }
  for (int d = 0; d < shape.size(); ++d)
    if (d != axis) order.push_back(d);
  const auto cut = reshape(whole, shape);
  if (!cut) fail(ErrorId::cluster_cut, loc, {}, parts, axis, whole.str(), cut.reason());
  return permute(*cut, order);
}

/// Bits that the slice number, known to the thread only, flips in the offsets of its elements.
Value flips_of_part(Lowering& l, const SharedLayout& shared, int parts, Value number) {
  const Slab& slab = shared.slabs().front();
  if (shared.slabs().size() != 1 || slab.bits[0] != log2_of(parts))
    throw InternalError("cluster_reduce_scatter: parts of " + shared.str() +
                        " are not told apart by bits");
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

/// How a slice is read: the address of every vector, its registers, and the position of each
/// register afterwards.
struct PartRoute {
  std::vector<ThreadOffset> slabs;
  std::vector<std::pair<int, RegisterOffset>> places;
  std::vector<std::int64_t> position;  ///< position of each register among the loaded ones
  std::int64_t width = 1;
};

PartRoute route(const SharedLayout& shared, const LinearLayout& part) {
  const auto fn = shared_fn(shared, part);
  if (!fn) throw InternalError(fmt::format("{} in {}: {}", part.str(), shared.str(), fn.reason()));
  const auto vectors = shared_vectors(*fn, shared);
  if (!vectors)
    throw InternalError(fmt::format("{} in {}: {}", part.str(), shared.str(), vectors.reason()));
  PartRoute r{fn->slabs,
              {},
              std::vector<std::int64_t>(static_cast<std::size_t>(part.registers())),
              static_cast<std::int64_t>(vectors->front().registers.size())};
  std::int64_t next = 0;
  for (const Vector& v : *vectors) {
    const auto& first = fn->registers[static_cast<std::size_t>(v.registers.front())];
    r.places.emplace_back(first.slab, first.part);
    for (int reg : v.registers) r.position[static_cast<std::size_t>(reg)] = next++;
  }
  return r;
}

/// Sums of neighbours, then of neighbours of these: each rank reads from the others in another
/// order, (r, r ^ 1), (r ^ 2, r ^ 3), .., and as a sum of two has no order, all get the same bits.
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

/// A tile that the programs of a cluster give each other.
struct Gathered {
  ir::LinearLayout own;  ///< what a thread gives, and gets of each program
  SharedLayout shared;
  std::int64_t at = 0;  ///< bytes behind the others

  static Gathered of(const ir::LinearLayout& given, const ir::LinearLayout& taken, Type type,
                     int ctas) {
    const auto exchange =
        synthesize_exchange(given, taken, size_bytes(type.dtype()),
                            {.stmatrix = false, .ldmatrix = false, .reads = ctas});
    if (!exchange)
      throw InternalError(fmt::format("cluster_gather of {}: {}", given.str(), exchange.reason()));
    return {taken, exchange->layout};
  }
  /// The tile in the program at whose shared memory `there` points, as it is loaded.
  Value load(Lowering& l, Value there, const PartRoute& r, Type type) const {
    const Value base = l.b.add(there, l.b.i32(at));
    Value addresses = shared_addresses(l, base, r.slabs, r.places);
    if (!own.is_exact())
      addresses =
          kept_inside(l, addresses, base, shared.bytes() - r.width * size_bytes(type.dtype()));
    return l.b.op(Opcode::LdCluster, {addresses}, Type::vec(type.elem(), own.registers()),
                  {{AttrName::width, r.width}});
  }
  /// The place of each register of the result among those loaded, program after program.
  std::vector<std::int64_t> positions(const ir::LinearLayout& result, const PartRoute& r) const {
    const auto of_own = broadcast_registers(expand_dim(own, 0), result);
    if (!of_own)
      throw InternalError(fmt::format("cluster_gather into {}: {}", result.str(), of_own.reason()));
    std::vector<std::int64_t> out;
    for (int reg = 0; reg < result.registers(); ++reg) {
      const int cta = result.apply({.reg = reg})[0];
      const int held = (*of_own)[static_cast<std::size_t>(reg)];
      out.push_back(cta * own.registers() + r.position[static_cast<std::size_t>(held)]);
    }
    return out;
  }
};

/// Puts the operands into shared memory, side by side.
std::vector<Gathered> share_operands(Lowering& l, const OpData& d, Value& base) {
  std::vector<Gathered> all;
  std::int64_t bytes = 0;
  int alignment = 16;
  for (std::size_t i = 0; i < d.operands.size(); ++i) {
    const Type type = l.from.type(d.operands[i]);
    all.push_back(Gathered::of(layout_of(type), slice(layout_of(l.from.type(d.results[i])), 0),
                               type, l.from.info.cluster));
    Gathered& g = all.back();
    alignment = std::max(alignment, g.shared.alignment());
    g.at = round_up(bytes, g.shared.alignment());
    bytes = g.at + g.shared.bytes();
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
  const int ctas = l.from.info.cluster;
  if (ctas == 1) throw InternalError("cluster_gather without a cluster");
  Value base;
  const std::vector<Gathered> all = share_operands(l, d, base);
  l.cluster_barrier();
  std::vector<Value> theirs;
  for (int cta = 0; cta < ctas; ++cta)
    theirs.push_back(l.b.op(Opcode::MapShared, {base, l.b.i32(cta)}));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Type type = l.from.type(d.operands[i]);
    const PartRoute r = route(all[i].shared, all[i].own);
    std::vector<Value> loaded;
    for (const Value there : theirs) loaded.push_back(all[i].load(l, there, r, type));
    const Value joined = l.b.op(Opcode::Concat, loaded);
    l.set(d.results[i], l.regs(joined, all[i].positions(layout_of(l.from.type(d.results[i])), r)));
  }
  // Nobody may write here, or exit, before all have read.
  l.b.effect(Opcode::ClusterArrive, {});
  l.will_leave_cluster();
}

void lower_ClusterReduceScatter(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Type type = l.from.type(d.results[0]);
  const int ctas = l.from.info.cluster;
  if (ctas == 1) throw InternalError("cluster_reduce_scatter without a cluster");
  const LinearLayout giving = in_parts(layout_of(l.from.type(d.operands[0])),
                                       static_cast<int>(d.attrs.i(AttrName::axis)), ctas, d.loc);
  const LinearLayout taking = expand_dim(layout_of(type), 0);
  const auto exchange = synthesize_exchange(giving, taking, size_bytes(type.dtype()),
                                            {.stmatrix = false, .ldmatrix = false, .reads = ctas});
  if (!exchange)
    throw InternalError(
        fmt::format("cluster_reduce_scatter of {}: {}", giving.str(), exchange.reason()));
  const SharedLayout& shared = exchange->layout;
  const Value base = l.scratch(shared.bytes(), std::max(16, shared.alignment()));
  l.barrier();
  store_shared(l, base, shared, giving, l.get(d.operands[0]), /*matrices=*/false);
  l.cluster_barrier();

  const Value rank = l.b.op(Opcode::CtaRank, std::initializer_list<Value>{});
  const Value flips = flips_of_part(l, shared, ctas, rank);
  const PartRoute r = route(shared, taking);
  const Type flat = Type::vec(type.elem(), taking.registers());
  std::vector<Value> terms;
  for (int i = 0; i < ctas; ++i) {
    const Value peer = l.b.op(Opcode::Xor, {rank, l.b.i32(i)});
    const Value there = l.b.op(Opcode::MapShared, {base, peer});
    Value addresses = shared_addresses(l, there, r.slabs, r.places, flips);
    if (!taking.is_exact())
      addresses =
          kept_inside(l, addresses, there, shared.bytes() - r.width * size_bytes(type.dtype()));
    const Value loaded = l.b.op(Opcode::LdCluster, {addresses}, flat, {{AttrName::width, r.width}});
    terms.push_back(l.regs(loaded, r.position));
  }
  l.set(d.results[0], sum_of_pairs(l, std::move(terms)));
  // Nobody may write here, or exit, before all have read.
  l.b.effect(Opcode::ClusterArrive, {});
  l.will_leave_cluster();
}

}  // namespace tegula::codegen
