// Rules G4, W11 and T2: every role can compute the scalars that it needs, with the same result
// in all its threads.
#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/invariant_load.h"
#include "ir/analysis/memory_hazards.h"
#include "ir/loop.h"
#include "ir/passes/schedule/kernel_summary.h"
#include "ir/schedule/computed_from.h"
#include "ir/schedule/judging.h"

namespace tegula::ir {
namespace {

class Scalars {
 public:
  explicit Scalars(Judging& j) : j_(j), hazards_(j.k) {}

  void needs_of_roles() {
    if (j_.s.roles.size() < 2) return;
    for (const LoopSchedule& loop : j_.s.loops)
      for (std::size_t n : j_.nodes_of(loop))
        if (j_.place(n)) needs(loop, n);
  }

  void conditions() {
    for (const LoopSchedule& loop : j_.s.loops)
      for (const Step& step : loop.steps) {
        const DotForm* form = j_.s.find_dot(step.op);
        if (form && form->engine == Engine::Wgmma) condition(step.op);
      }
  }

  void tiles_in_turn() {
    const bool has_copies =
        std::ranges::any_of(j_.s.roles, [](const Role& r) { return r.copies > 1; });
    if (!has_copies) return;
    for (const LoopSchedule& loop : j_.s.loops) {
      const OpId op = j_.op_of(loop.loop);
      const std::string why = why_not_counted(op);
      if (!why.empty())
        j_.refuse(Rule::T2, {loop.loop}, "alternating copies: trips of {} {}", loop.loop, why);
    }
  }

 private:
  std::size_t role_of(std::size_t node) const {
    return j_.place(node) ? j_.place(node)->role : j_.role_of_dots();
  }

  /// Returns true if the op reads a single element of memory that the kernel writes.
  bool reads_written(OpId op) {
    const MemoryAccess* access = hazards_.access(op);
    return access && access->reads && !access->tile.is_tile();
  }

  /// Returns the only role that can compute the results of the op, or nothing if every role can.
  std::optional<std::size_t> only_role(OpId op) {
    if (reads_written(op)) return j_.role_of_dots();
    if (!touches_tile(j_.k, op)) return {};
    const auto node = j_.g.find(op);
    return node ? role_of(*node) : j_.role_of_dots();
  }

  void needs(const LoopSchedule& loop, std::size_t n) {
    const std::size_t role = j_.place(n)->role;
    const auto is_elsewhere = [&](OpId op) {
      const auto only = only_role(op);
      return only && *only != role;
    };
    std::vector<Value> needed;
    for (OpId op : j_.g[n].ops)
      for (Value v : j_.k[op].operands)
        if (!j_.k.type(v).is_tile()) needed.push_back(v);
    const OpData& around = j_.k[j_.op_of(loop.loop)];
    const auto bounds = std::span(around.operands).first(first_init(around.opcode));
    needed.insert(needed.end(), bounds.begin(), bounds.end());
    for (Value v : needed) {
      const OpId from = computed_from(j_.k, v, is_elsewhere);
      if (!from) continue;
      const std::string_view how =
          reads_written(from) ? "read from memory that the kernel writes" : "computed from a tile";
      return j_.refuse(Rule::G4, {j_.label(n), j_.g.label_of(from)},
                       "{} needs a scalar for {} which is {} in {}", j_.role_name(role),
                       j_.label(n), how, j_.role_name(*only_role(from)));
    }
  }

  /// Checks the conditions around a dot. Each thread reads an element of memory separately, and
  /// another program may write it in between.
  void condition(Label dot) {
    const auto may_change = [&](OpId op) { return reads_written(op); };
    for (RegionId r = j_.k[j_.op_of(dot)].parent; j_.k[r].owner; r = j_.k[j_.k[r].owner].parent)
      for (Value v : deciding_values(j_.k, j_.k[r].owner))
        if (computed_from(j_.k, v, may_change))
          return j_.refuse(Rule::W11, {dot},
                           "{}: the condition around it is read from memory that the "
                           "kernel writes, and may differ within a warpgroup",
                           dot);
  }

  std::string why_not_counted(OpId loop) {
    const OpData& d = j_.k[loop];
    if (d.opcode != Opcode::For) return "are not counted";
    std::string why;
    for (std::size_t i = 0; i < first_init(Opcode::For) && why.empty(); ++i)
      computed_from(j_.k, d.operands[i], [&](OpId op) {
        if (reads_written(op)) why = "are read from memory that the kernel writes";
        if (touches_tile(j_.k, op)) why = "are computed from a tile";
        return !why.empty();
      });
    return why;
  }

  Judging& j_;
  MemoryHazards hazards_;
};

}  // namespace

void judge_scalars(Judging& j) { Scalars(j).needs_of_roles(); }

void judge_conditions(Judging& j) { Scalars(j).conditions(); }

void judge_tiles(Judging& j) {
  const Tiles& t = j.s.tiles;
  const bool multicasts = std::ranges::any_of(j.s.channels, &Channel::multicast);
  if (t.order == TileOrder::Counter && (t.cluster > 1 ? !multicasts : uses_pdl(j.k)))
    j.refuse(Rule::T1, {}, "{}",
             t.cluster > 1 ? "clusters take tiles from a counter only with multicast"
                           : "a kernel with grid_dependency_wait has no counter of tiles");
  if (t.overlap && t.order == TileOrder::Each)
    j.refuse(Rule::T3, {}, "tiles overlap outside of a persistent kernel");
  Scalars(j).tiles_in_turn();
}

}  // namespace tegula::ir
