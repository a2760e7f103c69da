// map: operations on one element are recorded for whole tiles. A branch becomes selections; a loop
// continues while any element does, and changes only such elements.
#include "tegula/map.h"

#include <algorithm>

#include "dsl/eager.h"
#include "dsl/elementwise.h"
#include "dsl/fold_body.h"
#include "tegula/math.h"
#include "tegula/tile_ops.h"

namespace tegula {
namespace detail {

RecordedMap::RecordedMap(std::initializer_list<Arg> tiles, Loc at) {
  // An initializer list has no room for a source location: errors refer to where the operands were
  // made.
  Tracer* recording = Tracer::current();
  Tracer& t = Tracer::at(recording ? recording->build.loc : at, "map");
  std::vector<ir::Value> values;
  for (const Arg& a : tiles) values.push_back(t.value(a));
  dsl::broadcast_shapes(t, "map", values, t.build.loc);
  for (ir::Value v : values) operands_.push_back(t.tile(v));
  open_.open(t.open_map());
}

Tile RecordedMap::finish(const Tile& result) {
  Tracer& t = Tracer::at({}, "map");
  t.close_map(open_.id);
  open_.id = 0;
  ir::Value values[] = {t.value(result), t.value(operands_.front())};
  dsl::broadcast_shapes(t, "map", values, t.build.loc);
  return t.tile(values[0]);
}

}  // namespace detail

namespace dsl {

std::uint64_t Tracer::open_map() {
  OpenScope& s = push(ScopeKind::Map);
  s.op = kernel[build.region()].last;
  return s.id;
}

void Tracer::close_map(std::uint64_t id) {
  OpenScope& s = top(id);
  for (const Carry& c : s.carries)
    if (c.variable && get(*c.variable) != c.before)
      fail(ErrorId::reduce_rebinds, s.loc, {}, "map", "map");
  check_map(s);
  pop();
}

/// Rejects ops that are not elementwise, except the loop tests that the map itself has made.
void Tracer::check_map(const OpenScope& scope) {
  ir::OpId op = scope.op ? kernel[scope.op].next : kernel[build.region()].first;
  const auto check = [&](ir::OpId at) {
    if (!map_tests_.contains(at)) check_map_op(*this, at);
  };
  for (; op; op = kernel[op].next) {
    check(op);
    for (ir::RegionId r : kernel[op].regions) ir::walk(kernel, r, check);
  }
}

std::uint64_t Tracer::open_choice(ir::Value condition) {
  OpenScope& s = push(ScopeKind::Branch);
  s.chooses = condition;
  return s.id;
}

void Tracer::close_choice(OpenScope& s) {
  for (std::size_t i = 0; i < s.carries.size(); ++i) {
    const Carry& c = s.carries[i];
    const ir::Value then = s.first[i].after, otherwise = c.after;
    if (then == otherwise) continue;
    if (!then || !otherwise) {
      lose(*c.variable, s);
      continue;
    }
    if (kernel.type(then).dtype() != kernel.type(otherwise).dtype())
      fail(ErrorId::branch_type, s.loc,
           {origin(then, "if true, it"), origin(otherwise, "if false, it")}, type_text(then),
           type_text(otherwise), "cast so that both branches give one type");
    ir::Value values[] = {s.chooses, then, otherwise};
    broadcast_shapes(*this, "if_", values, s.loc);
    set(*c.variable, build.op(Opcode::Select, std::span<const ir::Value>(values)));
  }
  pop();
}

/// Returns the elements that the current code applies to, given the enclosing branches and loops.
Tile Tracer::elements_of(const Tile& condition) {
  const Pin pin(*this, build.loc);
  Tile all = condition;
  for (const OpenScope& s : scopes_) {
    if (!s.chooses) continue;
    const ir::Value c = s.is_otherwise ? build.op(Opcode::Not, {s.chooses}) : s.chooses;
    all = tile(c) && all;
  }
  for (const Tile* active : map_masks_) all = *active && all;
  return all;
}

/// Broadcasts variables that a loop may change to the shape of all elements before the loop.
void Tracer::spread_elements(const Tile& like) {
  const auto map = std::ranges::find(scopes_, ScopeKind::Map, &OpenScope::kind);
  const auto extents = kernel.type(value(like)).shape();
  const ir::Ints shape(extents.begin(), extents.end());
  each_variable([&](Tile& v) {
    const ir::Value held = get(v);
    if (v.scope_ < map->first_variable_id || !held || shape.empty()) return;
    if (const ir::Type type = kernel.type(held); type.is_scalar() && !type.is_pointer())
      set(v, broadcast_to(*this, held, shape));
  });
}

/// `active` is true for elements that are still in the loop, which changes only these elements.
void Tracer::map_while(const std::function<Tile()>& condition, const std::function<void()>& body) {
  Tile active = elements_of(condition());
  spread_elements(active);
  const auto test = [&] {
    const Pin pin(*this, build.loc);
    const ir::RegionId region = build.region();
    const ir::OpId last = kernel[region].last;
    const Tile goes_on = kernel.type(value(active)).is_tile() ? any(active) : Tile(active);
    for (ir::OpId op = last ? kernel[last].next : kernel[region].first; op; op = kernel[op].next)
      map_tests_.insert(op);
    return goes_on;
  };
  const auto masked = [&] {
    std::vector<std::pair<Tile*, ir::Value>> held;
    each_variable([&](Tile& v) { held.emplace_back(&v, get(v)); });
    map_masks_.push_back(&active);
    body();
    map_masks_.pop_back();
    for (auto& [variable, old] : held) {
      const ir::Value now = get(*variable);
      if (now == old || !now || !old || variable == &active) continue;
      ir::Value values[] = {value(active), convert(*this, now, kernel.type(old).dtype()), old};
      broadcast_shapes(*this, "while_", values, build.loc);
      set(*variable, build.op(Opcode::Select, std::span<const ir::Value>(values)));
    }
    const Tile goes_on = condition();
    const Pin pin(*this, build.loc);
    active = active && goes_on;
  };
  record_loop(test, masked);
}

}  // namespace dsl
}  // namespace tegula
