// Derivatives of recorded expressions, and of score functions.
#include "tegula/derivative.h"
#include "ir/access.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "dsl/elementwise.h"
#include "dsl/functions/traced_function.h"
#include "ir/analysis/index_facts.h"
#include "ir/differentiate.h"
#include "tegula/functions.h"

namespace tegula {
namespace {

/// Returns an operand, which must be a float, in its own type; literals are f32.
ir::Value float_operand(Tracer& t, const char* what, const char* role, const Arg& a) {
  if (a.is_literal()) return dsl::operand(t, a, DType::f32);
  const ir::Value v = t.value(a);
  if (const ir::Type type = t.kernel.type(v); type.is_pointer() || !is_float(type.dtype()))
    fail(ErrorId::derivative_operand, a.loc(), {t.origin(v, role)}, what, role, t.type_text(v),
         "a floating-point value");
  return v;
}

/// Returns the adjoint of y in y's shape, as f32 or f64.
ir::Value seed(Tracer& t, ir::Value y, const Tile& dy, Loc at) {
  const ir::Value v = float_operand(t, "derivative", "dy", Arg(dy).at(at));
  const ir::Type type = t.kernel.type(v), like = t.kernel.type(y);
  if (!dsl::can_broadcast(type.shape(), like.shape()))
    fail(ErrorId::derivative_operand, at, {t.origin(y, "y")}, "derivative", "dy", t.type_text(v),
         fmt::format("one that broadcasts to the shape of y, {}", t.type_text(y)));
  const DType adjoints = type.dtype() == DType::f64 ? DType::f64 : DType::f32;
  return dsl::broadcast_to(t, t.build.cast(v, adjoints),
                           {like.shape().begin(), like.shape().end()});
}

CaptureSource source_of(const dsl::Capture& c) {
  return {c.cell ? nullptr : c.tensor ? c.tensor : &c.copy, c.cell};
}

/// The captures of the kernel that is being traced, with the parameters that represent them.
class Captures {
 public:
  Captures(const Tracer& t, const std::function<bool(const CaptureSource&)>& wants) : t_(t) {
    const std::size_t first = t.signature.args.size() - t.captures.size();
    for (std::size_t i = 0; wants && i < t.captures.size(); ++i) {
      const dsl::Capture& c = t.captures[i];
      if (c.is_records || !is_float(c.info.dtype) || !wants(source_of(c))) continue;
      params.push_back(t.param(static_cast<std::uint32_t>(first + i)));
      sources_.push_back(source_of(c));
    }
  }

  std::vector<ir::Value> params;

  CaptureAdjoint adjoint(Tracer& t, const ir::LoadAdjoint& of) const {
    const auto at = std::ranges::find(params, of.param) - params.begin();
    CaptureAdjoint found{sources_[static_cast<std::size_t>(at)], {}, {}, t.tile(of.adjoint)};
    if (!of.load) return found;
    const auto part = std::ranges::find(t_.accesses, of.load, &dsl::ViewAccessRecord::load);
    if (part == t_.accesses.end())
      fail(ErrorId::no_derivative, t.kernel[of.load].loc, {}, "a tensor whose gradient is required",
           "is read in a loop: read it before the loop");
    for (const ir::Value v : part->offsets) found.offsets.push_back(t.tile(v));
    for (const std::int64_t axis : part->axes) found.axes.push_back(static_cast<int>(axis));
    return found;
  }

 private:
  const Tracer& t_;
  std::vector<CaptureSource> sources_;
};

/// Returns ScoreCapture::axes of a parameter.
std::optional<std::array<int, 4>> axes_of(const TracedFunction& f, ir::Value param) {
  std::array<int, 4> axes{-1, -1, -1, -1};
  const ir::Kernel& k = f.function().body;
  if (k.type(param).is_scalar()) return axes;
  const auto reads = ir::ops_where(k, k.body(), [&](ir::OpId op) {
    return k[op].opcode == Opcode::LoadView && ir::accessed_view(k[op]) == param;
  });
  if (reads.size() != 1) return {};
  const std::vector<ir::AccessAxis> subscripts = ir::access_of(k, k[reads[0]]).axes;
  for (std::size_t i = 0; i < subscripts.size(); ++i) {
    ir::Value at = subscripts[i].offset;
    while (k[at].def && k[k[at].def].opcode == Opcode::Cast) at = k[k[at].def].operands[0];
    bool is_known = ir::is_zero(k, at);
    for (int a = TracedFunction::kBatch; a <= TracedFunction::kKey; ++a) {
      int& axis = axes[static_cast<std::size_t>(a - TracedFunction::kBatch)];
      if (at != f.argument(static_cast<TracedFunction::Argument>(a)) || axis >= 0) continue;
      axis = static_cast<int>(i);
      is_known = true;
    }
    if (!is_known) return {};
  }
  return axes;
}

}  // namespace

Tile with_gradient(const Arg& value, const Arg& x, const Arg& slope) {
  Tracer& t = Tracer::at(value.loc(), "with_gradient");
  constexpr const char* kName = "with_gradient";
  std::array values{float_operand(t, kName, "the value", value), float_operand(t, kName, "x", x),
                    float_operand(t, kName, "the slope", slope)};
  dsl::broadcast_shapes(t, "with_gradient", values, value.loc());
  for (const ir::Value v : values)
    if (const auto shape = t.kernel.type(v).shape(); t.kernel.type(values[0]).is_scalar())
      values[0] = dsl::broadcast_to(t, values[0], {shape.begin(), shape.end()});
  return t.tile(t.build.op(Opcode::WithGradient, std::span<const ir::Value>(values)));
}

Adjoints adjoints(const Tile& y, const Tile& dy, std::span<const Tile> wrt,
                  const std::function<bool(const CaptureSource&)>& wants, std::source_location at) {
  const Loc loc(at);
  Tracer& t = Tracer::at(loc, "derivative");
  const auto operand = [&](const char* role, const Tile& of) {
    return float_operand(t, "derivative", role, Arg(of).at(loc));
  };
  const ir::Value result = operand("y", y);
  std::vector<ir::Value> values;
  for (const Tile& x : wrt) values.push_back(operand("x", x));
  const Captures captures(t, wants);
  const ir::ValueAdjoints found =
      ir::differentiate(t.build, result, seed(t, result, dy, loc), values, captures.params,
                        [&](ir::Value v) { return t.before_loop(v); });
  Adjoints all;
  for (const ir::Value v : values) {
    const auto adjoint = found.of.find(v);
    all.of.push_back(adjoint == found.of.end() ? std::nullopt
                                               : std::optional(t.tile(adjoint->second)));
  }
  for (const ir::LoadAdjoint& l : found.loads) all.captured.push_back(captures.adjoint(t, l));
  return all;
}

Tile derivative(const Tile& y, const Tile& x, const Tile& dy, std::source_location at) {
  const Adjoints found = adjoints(y, dy, std::span(&x, 1), {}, at);
  if (found.of[0]) return *found.of[0];
  Tracer& t = Tracer::at(Loc(at), "derivative");
  const DType dtype = t.type(dy).dtype() == DType::f64 ? DType::f64 : DType::f32;
  return t.tile(t.build.zero(t.type(x).with_dtype(dtype)));
}

ScoreSlope ScoreFunction::slope() const {
  using enum ScoreSlope;
  if (!traced_) return pair;
  ir::Kernel k = ir::clone(traced_->function().body);
  const auto argument = [&](TracedFunction::Argument a) { return k.params()[a].value; };
  const auto is_store = [&](ir::OpId op) { return k[op].opcode == Opcode::StoreView; };
  const ir::OpId store = ir::ops_where(k, k.body(), is_store).front();
  ir::Builder b(k, store);
  const ir::Value s = argument(TracedFunction::kScore), dy = b.f32(1);
  const ir::Value slope =
      ir::differentiate(b, ir::stored_value(k[store]), dy, std::span(&s, 1)).of[s];
  if (!slope || slope == dy) return slope ? one : zero;
  std::unordered_set<ir::Value> seen{slope};
  std::vector<ir::Value> left{slope};
  const auto enter = [&](ir::OpId op) {
    for (const ir::Value v : k[op].operands)
      if (seen.insert(v).second) left.push_back(v);
  };
  while (!left.empty()) {
    const ir::OpId def = k[left.back()].def;
    left.pop_back();
    if (!def) continue;
    enter(def);
    for (const ir::RegionId r : k[def].regions) ir::walk(k, r, enter);
  }
  const bool key_too = seen.contains(argument(TracedFunction::kKey)),
             query_too = seen.contains(argument(TracedFunction::kQuery));
  if (seen.contains(s) || (key_too && query_too)) return pair;
  return key_too ? key : query_too ? query : uniform;
}

std::vector<ScoreCapture> ScoreFunction::captures() const {
  std::vector<ScoreCapture> all;
  if (!traced_) return all;
  for (const ir::Param& p : traced_->function().body.params()) {
    const dsl::Capture* c = traced_->capture(p.value);
    if (c && !c->is_records && is_float(c->info.dtype))
      all.push_back({source_of(*c), axes_of(*traced_, p.value)});
  }
  return all;
}

}  // namespace tegula
