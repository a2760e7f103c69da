// Rules W: dots fit the instructions that compute them.
#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/access_width.h"
#include "ir/matrix_type.h"
#include "ir/passes/layouts/warp_grid.h"
#include "ir/schedule/judging.h"

namespace tegula::ir {
namespace {

class Dots {
 public:
  explicit Dots(Judging& j) : j_(j) {}

  void run() {
    for (const LoopSchedule& loop : j_.s.loops)
      for (const Step& step : loop.steps) {
        const bool is_dot = j_.g[*j_.g.find(step.op)].kind == NodeKind::Dot;
        if (!is_dot && (step.in_flight != 0 || step.pin))
          j_.refuse(Rule::W14, {step.op}, "{} is not a dot", step.op);
        if (is_dot) dot_step(step);
      }
    for (const DotForm& d : j_.s.dots) form(d);
  }

 private:
  void form(const DotForm& d) {
    const MatrixType* type = matrix_type(j_.k, j_.k[j_.op_of(d.dot)]);
    if (d.engine == Engine::Fma) return;
    if (!type)
      return j_.refuse(Rule::W1, {d.dot}, "{}: tensor cores do not support {}", d.dot,
                       name(j_.k.type(j_.k[j_.op_of(d.dot)].operands[0]).dtype()));
    if (d.engine != Engine::Wgmma) return;
    if (!j_.s.target->has_wgmma)
      return j_.refuse(Rule::W14, {d.dot}, "{}: {} has no wgmma", d.dot, j_.s.target.name());
    const auto& place = j_.place(*j_.g.find(d.dot));
    if (!place) return j_.refuse(Rule::W14, {d.dot}, "{} is not in a scheduled loop", d.dot);
    shape(d, *type, place->role);
    for (std::size_t i : {0u, 1u}) operand(d, *type, i);
    fragments_of(d, d.flip ? 1 : 0, place->role);
    overwriting(*j_.g.find(d.dot));
  }

  void shape(const DotForm& d, const MatrixType& type, std::size_t role) {
    const OpId op = j_.op_of(d.dot);
    const Type acc = j_.k.type(j_.k[op].results[0]), a = j_.k.type(j_.k[op].operands[0]);
    const std::int64_t rows = acc.shape()[d.flip ? 1 : 0], depth = a.shape()[1];
    const int warps = j_.s.roles[role].warps, groups = j_.warpgroups(role);
    if (groups == 0 || warps % kWarpgroupWarps != 0)
      return j_.refuse(Rule::W2, {d.dot}, "{}: the {} warps of {} are not whole warpgroups", d.dot,
                       warps, j_.role_name(role));
    const WarpGrid grid = grid_of(d, role);
    const std::int64_t all_columns = acc.shape()[d.flip ? 0 : 1],
                       columns = all_columns / grid.columns;
    if (const std::string_view why = why_not_divided(rows, all_columns, grid); !why.empty())
      j_.refuse(Rule::W2, {d.dot}, "{}: {} x {} over {} warpgroups: {}", d.dot, rows, all_columns,
                groups, why);
    if (!type.has_columns(columns) || columns == 0)
      j_.refuse(Rule::W3, {d.dot}, "{}: no instruction has {} columns", d.dot, columns);
    instruction(d, columns);
    if (depth % type.step() != 0)
      j_.refuse(Rule::W4, {d.dot}, "{}: a depth of {} is not a multiple of {}", d.dot, depth,
                type.step());
  }

  /// Returns the warps of the role along the rows and columns of the result.
  WarpGrid grid_of(const DotForm& d, std::size_t role) const {
    const auto shape = j_.k.type(j_.k[j_.op_of(d.dot)].results[0]).shape();
    const int warps = j_.s.roles[role].warps;
    return warp_grid(shape[d.flip ? 1 : 0], shape[d.flip ? 0 : 1], warps, warps);
  }

  /// Checks that one instruction fits in the registers at kernel entry: its registers are allocated
  /// before setmaxnreg gives a role more (C7602).
  void instruction(const DotForm& d, std::int64_t columns) {
    const int warps = j_.total_warps();
    const int has = j_.s.target->registers_at_entry(warps);
    const std::int64_t takes = columns / 2 + kNonAccumulatorRegisters;
    if (takes > has)
      j_.refuse(Rule::W8, {d.dot},
                "one instruction of {} needs {} registers, but a thread of a CTA of {} "
                "warps starts with {}",
                d.dot, takes, warps, has);
  }

  /// Checks an A that is computed in the loop and does not go through shared memory: the warps that
  /// hold its rows must be those that compute the same rows of the result.
  void fragments_of(const DotForm& d, std::size_t i, std::size_t role) {
    const OpId op = j_.op_of(d.dot);
    const Judging::Operand a = j_.operand(op, i);
    if (a.source.kind != OperandSource::Kind::Computed || a.shared) return;
    const Label maker = a.nodes.empty() ? Label() : j_.label(a.nodes.front());
    if (grid_of(d, role).columns > 1)
      return j_.refuse(Rule::W13, {d.dot, maker}, "{} is split along columns, but its A along rows",
                       d.dot);
    // The layouts of a flipped dot differ from those of the kernel: only check its transposition.
    if (d.flip ? a.source.transposed : is_in_operand_layout(j_.k, op, i)) return;
    j_.refuse(Rule::W6, {d.dot, maker},
              "{}: rows of A are in other warps: flip {} or give it an smem channel", d.dot,
              maker ? maker : "the op that computes it");
  }

  /// Checks that readers of an accumulator run before its registers are overwritten. The chained
  /// MMA adds to these registers; an MMA that starts a new accumulator overwrites them one
  /// iteration later. Readers after that read a copy, which requires that the MMA is complete
  /// before then.
  void overwriting(std::size_t dot) {
    std::optional<Edge> next;
    for (const Edge& e : j_.reads_of(dot))
      if (j_.adds_to(e)) next = e;
    const std::size_t writer = next ? next->to : dot;
    const int distance = next ? next->distance : 1;
    if (!j_.place(writer)) return;
    const Place& place = *j_.place(writer);
    const OpId owner = j_.k[j_.g[dot].region].owner;
    const LoopSchedule& loop = *j_.s.find_loop(j_.label(*j_.g.find(owner)));
    if (j_.retired(loop, dot) < Judging::Moment(place.stage + distance, place.order)) return;
    for (const Edge& e : j_.reads_of(dot)) {
      if (e.to == writer || !j_.place(e.to) || j_.adds_to(e) || e.distance > distance) continue;
      const Place &reader = *j_.place(e.to), &write = *j_.place(writer);
      if (reader.role != write.role || reader.comes_before(write, distance - e.distance)) continue;
      j_.refuse(Rule::W9, {j_.label(e.to), j_.label(dot)},
                "{} reads the accumulator of {} after {}, which overwrites it", j_.label(e.to),
                j_.label(dot), writer == dot ? "the next iteration's" : j_.label(writer));
    }
  }

  static std::string_view side(const DotForm& d, std::size_t i) {
    return (i == 0) != d.flip ? "A" : "B";
  }

  /// Checks operand `i` of the kernel's dot. If the dot is flipped, A and B are exchanged.
  void operand(const DotForm& d, const MatrixType& type, std::size_t i) {
    const OpId op = j_.op_of(d.dot);
    const OperandSource source = source_of(j_.k, op, i);
    const auto node = source.op ? j_.g.find(source.op) : std::nullopt;
    const bool is_load = node && j_.g[*node].kind == NodeKind::Load;
    const Channel* channel = node ? j_.channel_of(j_.label(*node)) : nullptr;
    const bool is_shared = channel && channel->kind != ChannelKind::Register;
    if (side(d, i) == "B" && !is_shared) {
      const std::string_view from = is_load ? j_.label(*node).str() : "it";
      return j_.refuse(Rule::W5, {d.dot}, "{}: B is in registers; give {} a {} channel", d.dot,
                       from, is_load ? "tma" : "smem");
    }
    if (!is_shared || !is_load || source.kind == OperandSource::Kind::Computed) return;
    order_of_load(d, type, i, source);
  }

  /// Checks which dimension of a loaded operand is contiguous in memory.
  void order_of_load(const DotForm& d, const MatrixType& type, std::size_t i,
                     const OperandSource& source) {
    const OpData& load = j_.k[source.op];
    const Type tile = j_.k.type(load.results[0]);
    const int fast = contiguous_dim(j_.k, load);
    if (tile.rank() != 2 || fast < 0) return;
    const int k_dim = (i == 0) != source.transposed ? 1 : 0;
    const std::int64_t bytes = tile.shape()[static_cast<std::size_t>(fast)] * type.bits / 8;
    const Label label = j_.label(*j_.g.find(source.op));
    if (fast != k_dim && !type.any_major())
      j_.refuse(Rule::W7, {d.dot, label}, "{}: {} is MN-major, but {} needs K-major", d.dot, label,
                type.name);
    if (bytes % kSwizzleBytes != 0)
      j_.refuse(Rule::W7, {d.dot, label}, "{}: rows of {} have {} bytes, not a multiple of {}",
                d.dot, label, bytes, kSwizzleBytes);
  }

  void dot_step(const Step& step) {
    const DotForm* form = j_.s.find_dot(step.op);
    if (step.in_flight < 0 || (step.in_flight > 0 && (!form || form->engine != Engine::Wgmma)))
      j_.refuse(Rule::W14, {step.op}, "{} in_flight {}: it is not a wgmma", step.op,
                step.in_flight);
    const std::size_t dot = *j_.g.find(step.op);
    for (const Edge& e : j_.g.edges()) {
      if (e.to != dot || e.kind != EdgeKind::Flow || !j_.place(e.from)) continue;
      const Channel* c = j_.channel_of(j_.label(e.from));
      if (form && form->engine == Engine::Wgmma) fragments(step, e, c);
    }
  }

  /// Checks that an A in registers is read before it is overwritten for a later iteration.
  void fragments(const Step& step, const Edge& e, const Channel* c) {
    const bool is_a = source_of(j_.k, j_.op_of(step.op), 0).kind == OperandSource::Kind::Computed &&
                      j_.k[j_.op_of(step.op)].operands[0] == e.value;
    const bool in_registers = !c || c->kind == ChannelKind::Register;
    const Place &dot = *j_.place(e.to), &writer = *j_.place(e.from);
    if (!is_a || !in_registers || dot.role != writer.role) return;
    if (dot.comes_before(writer, c ? c->slots : 1)) return;
    j_.refuse(Rule::W10, {j_.label(e.from), step.op},
              "{} writes what {} of the preceding iteration reads: order it after",
              j_.label(e.from), step.op);
  }

  Judging& j_;
};

}  // namespace

void judge_dots(Judging& j) { Dots(j).run(); }

}  // namespace tegula::ir
