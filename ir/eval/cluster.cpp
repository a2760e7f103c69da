// Clusters: programs that run in lockstep and exchange parts of a sum.
#include "ir/eval/cluster.h"

#include <vector>

#include "ir/eval/fold.h"
#include "support/errors.h"

namespace tegula::ir::interp {
namespace {

/// Calls visit(element of the part, element of the tile) for part `rank` of a tile along an axis.
template <class Visit>
void for_part(const AxisShape& part, std::size_t whole_extent, std::size_t rank,
              const Visit& visit) {
  for (std::size_t o = 0; o < part.outer; ++o)
    for (std::size_t k = 0; k < part.extent; ++k)
      for (std::size_t j = 0; j < part.inner; ++j)
        visit((o * part.extent + k) * part.inner + j,
              (o * whole_extent + rank * part.extent + k) * part.inner + j);
}

/// Returns the edges of the slice: those along `axis` are cut.
std::vector<std::uint8_t> edges_of_part(const TileValue& tile, std::span<const std::int64_t> shape,
                                        std::size_t axis, std::size_t extent, std::size_t rank) {
  std::vector<std::uint8_t> out;
  for (std::size_t d = 0; d < shape.size() && !tile.edges.empty(); ++d) {
    auto edge = tile.edge(shape, d);
    if (d == axis) edge = edge.subspan(rank * extent, extent);
    out.insert(out.end(), edge.begin(), edge.end());
  }
  return out;
}

/// Computes the slice that the program of rank `receiver` receives.
void receive(std::span<const std::unique_ptr<Program>> programs, OpId id, std::size_t receiver) {
  Program& p = *programs[receiver];
  const Value v = p.op(id).operands[0];
  const Type type = p.result_type(id);
  const std::int64_t axis = p.attrs(id).i(AttrName::axis);
  const AxisShape part(type.shape(), axis);
  const auto whole =
      static_cast<std::size_t>(p.kernel().type(v).shape()[static_cast<std::size_t>(axis)]);
  const Fold sum = fold_of("sum", type.dtype(), "");
  TileValue out;
  out.reset(static_cast<std::size_t>(type.count()));
  std::ranges::fill(out.cells, sum.identity);
  for (const auto& giver : programs) {
    const Cell* cells = giver->dense(v);
    const std::uint8_t* states = giver->states(v);
    for_part(part, whole, receiver, [&](std::size_t to, std::size_t from) {
      const std::uint8_t state = states == nullptr ? 0 : states[from];
      if ((state & kPoison) != 0) {
        out.add_state(to, kPoison);
        out.origin = giver->value(v).origin;
      }
      if ((state & kAbsent) == 0) sum.step(out.cells[to], cells[from]);
    });
  }
  for (Cell& c : out.cells) c = canonical(c, type.dtype());
  const TileValue& own = p.value(v);
  if (!own.states.empty())
    for_part(part, whole, receiver, [&](std::size_t to, std::size_t from) {
      out.add_state(to, own.state(from) & kAbsent);
    });
  out.edges = edges_of_part(own, p.kernel().type(v).shape(), static_cast<std::size_t>(axis),
                            part.extent, receiver);
  p.result(id) = std::move(out);
}

/// Gives the program of rank `receiver` the concatenated tiles of all programs.
void gather_operands(std::span<const std::unique_ptr<Program>> programs, OpId id,
                     std::size_t receiver) {
  Program& p = *programs[receiver];
  for (std::size_t i = 0; i < p.op(id).operands.size(); ++i) {
    const Value v = p.op(id).operands[i];
    const auto elements = static_cast<std::size_t>(p.kernel().type(v).count());
    TileValue out;
    out.reset(elements * programs.size());
    std::size_t to = 0;
    for (const auto& giver : programs) {
      const Cell* cells = giver->dense(v);
      const std::uint8_t* states = giver->states(v);
      for (std::size_t from = 0; from < elements; ++from, ++to) {
        const std::uint8_t state = states == nullptr ? 0 : states[from];
        if ((state & kPoison) != 0) {
          out.add_state(to, kPoison);
          out.origin = giver->value(v).origin;
        }
        if ((state & kAbsent) == 0) out.cells[to] = cells[from];
      }
    }
    p.result(id, i) = std::move(out);
  }
}

}  // namespace

void run_cluster(std::span<const std::unique_ptr<Program>> programs, std::int64_t first) {
  const Kernel& k = programs.front()->kernel();
  for (std::size_t i = 0; i < programs.size(); ++i)
    programs[i]->start(first + static_cast<std::int64_t>(i));
  for (OpId id = k[k.body()].first; id; id = k[id].next) {
    const Opcode opcode = k[id].opcode;
    if (opcode == Opcode::Yield) return;
    for (std::size_t i = 0; i < programs.size(); ++i) {
      if (opcode == Opcode::ClusterReduceScatter)
        receive(programs, id, i);
      else if (opcode == Opcode::ClusterGather)
        gather_operands(programs, id, i);
      else
        eval_fn(opcode)(*programs[i], id);
    }
  }
}

void eval_ClusterRank(Program& p, OpId id) {
  p.result(id).set_scalar(Cell{.i = p.coordinates()[0] % p.kernel().info.cluster});
}

void eval_ClusterId(Program& p, OpId id) {
  p.result(id).set_scalar(Cell{.i = p.coordinates()[0] / p.kernel().info.cluster});
}

void eval_ClusterTile(Program& p, OpId id) {
  if (const auto tile = p.integer(id, 0, "a tile's number"))
    p.result(id).set_scalar(Cell{.i = *tile});
}

// Only run_cluster has access to the other programs.
void eval_ClusterReduceScatter(Program& p, OpId id) {
  fail(ErrorId::eager_cluster, p.op(id).loc, {}, "cluster_reduce_scatter");
}
void eval_ClusterGather(Program& p, OpId id) {
  fail(ErrorId::eager_cluster, p.op(id).loc, {}, "cluster_gather");
}

}  // namespace tegula::ir::interp
