// Rules W: dots fit the instructions that compute them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/matrix_type.h"
#include "ir/schedule/judging.h"

namespace tegula::ir {
namespace {

/// The most rows of a warpgroup's part of a dot.
constexpr std::int64_t kMaxRows = 256;
/// Bytes of a row that a swizzle moves together.
constexpr std::int64_t kSwizzleBytes = 32;

class Dots {
 public:
  explicit Dots(Judging& j) : j_(j) {}

  void run() {
    for (const LoopSchedule& loop : j_.s.loops)
      for (const Step& step : loop.steps) {
        const bool is_dot = j_.g[*j_.g.find(step.op)].kind == NodeKind::Dot;
        if (!is_dot && (step.in_flight != 0 || step.pin))
          j_.refuse(Rule::W14, fmt::format("{} is no dot", step.op.str()), {step.op});
        if (is_dot) dot_step(step);
      }
    for (const DotForm& d : j_.s.dots) form(d);
  }

 private:
  void form(const DotForm& d) {
    const MatrixType* type = matrix_type(j_.k, j_.k[j_.op_of(d.dot)]);
    if (d.engine == Engine::Fma) return;
    if (!type)
      return j_.refuse(Rule::W1,
                       fmt::format("{}: tensor cores do not take {}", d.dot.str(),
                                   name(j_.k.type(j_.k[j_.op_of(d.dot)].operands[0]).dtype())),
                       {d.dot});
    if (d.engine != Engine::Wgmma) return;
    if (!j_.s.target->has_wgmma)
      return j_.refuse(
          Rule::W14, fmt::format("{}: {} has no wgmma", d.dot.str(), j_.s.target.name()), {d.dot});
    const auto& place = j_.place(*j_.g.find(d.dot));
    if (!place)
      return j_.refuse(Rule::W14, fmt::format("{} stands in no scheduled loop", d.dot.str()),
                       {d.dot});
    shape(d, *type, place->role);
    for (std::size_t i : {0u, 1u}) operand(d, *type, i);
  }

  void shape(const DotForm& d, const MatrixType& type, std::size_t role) {
    const OpId op = j_.op_of(d.dot);
    const Type acc = j_.k.type(j_.k[op].results[0]), a = j_.k.type(j_.k[op].operands[0]);
    std::int64_t rows = acc.shape()[d.flip ? 1 : 0], columns = acc.shape()[d.flip ? 0 : 1];
    const int groups = j_.warpgroups(role);
    if (groups == 0 || j_.s.roles[role].warps % kWarpgroupWarps != 0)
      return j_.refuse(Rule::W2,
                       fmt::format("{}: the {} warps of {} are no whole warpgroups", d.dot.str(),
                                   j_.s.roles[role].warps, j_.role_name(role)),
                       {d.dot});
    const std::int64_t all = rows, depth = a.shape()[1];
    if (d.split == Split::Rows) rows /= groups;
    if (d.split == Split::Columns) columns /= groups;
    if (rows * (d.split == Split::Rows ? groups : 1) != all || rows % kWgmmaRows != 0 ||
        rows > kMaxRows)
      j_.refuse(Rule::W2, fmt::format("{}: {} rows over {} warpgroups", d.dot.str(), all, groups),
                {d.dot});
    if (!type.has_columns(columns) || columns == 0)
      j_.refuse(Rule::W3, fmt::format("{}: no instruction has {} columns", d.dot.str(), columns),
                {d.dot});
    if (depth % type.step() != 0)
      j_.refuse(
          Rule::W4,
          fmt::format("{}: a depth of {} is no multiple of {}", d.dot.str(), depth, type.step()),
          {d.dot});
  }

  static std::string_view side(const DotForm& d, std::size_t i) {
    return (i == 0) != d.flip ? "A" : "B";
  }

  /// Operand `i` of the kernel's dot, which is the other one of a flipped dot.
  void operand(const DotForm& d, const MatrixType& type, std::size_t i) {
    const OpId op = j_.op_of(d.dot);
    const OperandSource source = source_of(j_.k, op, i);
    const auto node = source.op ? j_.g.find(source.op) : std::nullopt;
    const bool is_load = node && j_.g[*node].kind == NodeKind::Load;
    const Channel* channel = node ? j_.channel_of(j_.label(*node)) : nullptr;
    const bool is_shared = channel && channel->kind != ChannelKind::Register;
    if (side(d, i) == "B" && !is_shared) {
      const std::string_view from = is_load ? j_.label(*node).str() : "it";
      return j_.refuse(Rule::W5,
                       fmt::format("{}: B is in registers; give {} a {} channel", d.dot.str(), from,
                                   is_load ? "tma" : "smem"),
                       {d.dot});
    }
    if (!is_shared || !is_load || source.kind == OperandSource::Kind::Computed) return;
    order_of_load(d, type, i, source);
  }

  /// The dimension of the operand that is contiguous in memory.
  void order_of_load(const DotForm& d, const MatrixType& type, std::size_t i,
                     const OperandSource& source) {
    const OpData& load = j_.k[source.op];
    const Type tile = j_.k.type(load.results[0]);
    const auto& strides = j_.k.type(load.operands[0]).view_facts().strides;
    const auto axes = load.attrs.ints(AttrName::axes);
    if (tile.rank() != 2 || axes.size() != 2) return;
    for (std::size_t t = 0; t < 2; ++t) {
      if (strides[static_cast<std::size_t>(axes[t])] != 1) continue;
      const std::size_t dim = source.transposed ? 1 - t : t;
      const bool is_k_major = dim == (i == 0 ? 1 : 0);
      const Label label = j_.label(*j_.g.find(source.op));
      if (!is_k_major && !type.any_major())
        j_.refuse(Rule::W7,
                  fmt::format("{}: {} lies MN-major, {} needs K-major", d.dot.str(), label.str(),
                              type.name),
                  {d.dot, label});
      if (tile.shape()[t] * type.bits / 8 % kSwizzleBytes != 0)
        j_.refuse(Rule::W7,
                  fmt::format("{}: rows of {} have {} bytes, no multiple of {}", d.dot.str(),
                              label.str(), tile.shape()[t] * type.bits / 8, kSwizzleBytes),
                  {d.dot, label});
    }
  }

  void dot_step(const Step& step) {
    const DotForm* form = j_.s.find_dot(step.op);
    if (step.in_flight < 0 || (step.in_flight > 0 && (!form || form->engine != Engine::Wgmma)))
      j_.refuse(Rule::W14,
                fmt::format("{} in_flight {}: it is no wgmma", step.op.str(), step.in_flight),
                {step.op});
    const std::size_t dot = *j_.g.find(step.op);
    const Channel* refused = nullptr;
    for (const Edge& e : j_.g.edges()) {
      if (e.to != dot || e.kind != EdgeKind::Flow || !j_.place(e.from)) continue;
      const Channel* c = j_.channel_of(j_.label(e.from));
      if (j_.is_copy(e.from) && c->slots < step.in_flight + 1 && c != std::exchange(refused, c))
        j_.refuse(
            Rule::W12,
            fmt::format("{} in_flight {}: slots of {} come free {} iterations later, it "
                        "has {}",
                        step.op.str(), step.in_flight, c->name.str(), step.in_flight + 1, c->slots),
            {step.op, j_.label(e.from)});
      if (form && form->engine == Engine::Wgmma) fragments(step, e, c);
    }
  }

  /// A in registers must have been read before it is written for a later iteration.
  void fragments(const Step& step, const Edge& e, const Channel* c) {
    const bool is_a = source_of(j_.k, j_.op_of(step.op), 0).kind == OperandSource::Kind::Computed &&
                      j_.k[j_.op_of(step.op)].operands[0] == e.value;
    const bool in_registers = !c || c->kind == ChannelKind::Register;
    const Place &dot = *j_.place(e.to), &writer = *j_.place(e.from);
    if (!is_a || !in_registers || dot.role != writer.role) return;
    if (dot.comes_before(writer, c ? c->slots : 1)) return;
    j_.refuse(Rule::W10,
              fmt::format("{} writes what {} of the iteration before reads: order it behind",
                          j_.label(e.from).str(), step.op.str()),
              {j_.label(e.from), step.op});
  }

  Judging& j_;
};

}  // namespace

void judge_dots(Judging& j) { Dots(j).run(); }

}  // namespace tegula::ir
