#include "ir/passes/mma_loop/operand_loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/access.h"
#include "ir/analysis/access_width.h"
#include "ir/analysis/invariant_load.h"
#include "ir/analysis/memory_hazards.h"
#include "ir/analysis/page_boxes.h"
#include "ir/analysis/tma_access.h"
#include "ir/layout/shared_layout.h"
#include "ir/loop.h"
#include "ir/uses.h"
#include "tegula/int_math.h"

namespace tegula::ir {
namespace {

/// Bytes of the widest copy by cp.async.
constexpr int kWidestCopy = 16;

/// The agent that performs a loop's copies: TMA, which may run ahead of everything before the loop,
/// or the threads, which start just before the loop.
enum class CopiedBy : std::uint8_t { Tma, Threads };

class Finder {
 public:
  Finder(const Kernel& k, OpId loop, PassContext& context, CopiedBy by)
      : k_(k),
        loop_(loop),
        body_(k[loop].regions[0]),
        context_(context),
        by_(by),
        hazards_(k),
        uses_(k) {}

  std::optional<OperandLoad> find(OpId op) {
    auto c = chain(op);
    if (!c || (c->convert && k_[c->convert].parent != body_) || k_[c->dots.front()].parent != body_)
      return std::nullopt;
    return offsets_are_pure(*c) && indices_can_be_placed(*c) && may_be_read_ahead(op)
               ? c
               : std::nullopt;
  }

  /// Returns true if a load may run ahead of its iteration, without a barrier of the consumers that
  /// would delay it.
  bool may_be_read_ahead(OpId load) {
    if (by_ == CopiedBy::Threads ? hazards_.may_be_read_early_within(load, loop_)
                                 : hazards_.may_be_read_ahead(load, loop_))
      return true;
    context_.remark(Remark::Kind::Missed, k_[load].loc,
                    "not copied ahead: the program writes what it reads");
    return false;
  }

  /// Finds a load of a tile or a row that TMA can perform, whatever uses it.
  std::optional<OperandLoad> find_tile_or_row(OpId op) {
    auto c = box(op);
    return c && offsets_are_pure(*c) && may_be_read_ahead(op) ? c : std::nullopt;
  }

  std::optional<OperandLoad> tile(OpId op) {
    OperandLoad c = tile_of(op);
    return offsets_are_pure(c) && indices_can_be_placed(c) && may_be_read_ahead(op)
               ? std::optional(std::move(c))
               : std::nullopt;
  }

  std::optional<OperandLoad> box(OpId op) {
    if (k_[op].opcode != Opcode::LoadView || !k_.type(k_[op].results[0]).is_tile() ||
        uses_.count(k_[op].results[0]) == 0)
      return std::nullopt;
    const std::string_view why_not = why_not_tma_load(k_, k_[op]);
    if (why_not.empty() || is_tma_row(k_, k_[op])) return tile_of(op);
    context_.remark(Remark::Kind::Missed, k_[op].loc,
                    fmt::format("loaded by threads, not by TMA: {}", why_not));
    return std::nullopt;
  }

  /// Matches load_view -> [permute] -> convert_layout (in machine form) -> dots, where each op is
  /// the only user of the previous one.
  std::optional<OperandLoad> chain(OpId load) const {
    if (k_[load].opcode != Opcode::LoadView) return std::nullopt;
    OperandLoad c = tile_of(load);
    Value operand = k_[load].results[0];
    const auto pass_through = [&](Opcode opcode) {
      const OpId user = only_user(operand);
      if (!user || k_[user].opcode != opcode) return OpId();
      operand = k_[user].results[0];
      return user;
    };
    c.permute = pass_through(Opcode::Permute);
    c.convert = pass_through(Opcode::ConvertLayout);
    if (!c.convert && k_.info.form != Form::Tile) return std::nullopt;
    c.dots = dots_on(operand);
    if (c.dots.empty()) return std::nullopt;
    c.tile = k_.type(operand).with_layout(nullptr);
    if (c.permute) {
      const Ints axes = c.axes;
      const auto order = k_[c.permute].attrs.ints(AttrName::order);
      for (std::size_t i = 0; i < order.size(); ++i)
        c.axes[i] = axes[static_cast<std::size_t>(order[i])];
    }
    return c;
  }

 private:
  OperandLoad tile_of(OpId load) const {
    OperandLoad c;
    c.load = load;
    c.tile = k_.type(k_[load].results[0]).with_layout(nullptr);
    c.axes = access_of(k_, k_[load]).along;
    return c;
  }

  OpId only_user(Value v) const {
    const auto use = uses_.only(v);
    return use ? use->op : OpId();
  }

  /// Returns the users, if all are dots of one region that take the value as the same operand.
  std::vector<OpId> dots_on(Value v) const {
    std::vector<OpId> users;
    for (const Uses::Use& use : uses_.of(v)) users.push_back(use.op);
    const auto position = [&](OpId op) {
      return std::ranges::find(k_[op].operands, v) - k_[op].operands.begin();
    };
    for (OpId op : users)
      if (k_[op].opcode != Opcode::Dot || k_[op].parent != k_[users.front()].parent ||
          position(op) != position(users.front()))
        return {};
    return users;
  }

  /// Returns true if the offsets can be computed for another step: by pure ops of the body and
  /// reads of unchanging memory, from the induction variable and values from outside of the loop.
  /// Collects these ops in the slice.
  bool offsets_are_pure(OperandLoad& c) {
    const auto& operands = k_[c.load].operands;
    const bool has_tiles =
        by_ == CopiedBy::Threads || access_of(k_, k_[c.load]).gathered_dim() >= 0;
    for (Value v : operands)
      if (!collect(v, has_tiles, c.offset_ops)) {
        context_.remark(Remark::Kind::Missed, k_[c.load].loc,
                        "not pipelined: the offset depends on a value the loop carries");
        return false;
      }
    return true;
  }

  /// Returns true if each thread can compute the indices of the rows that it copies: index tiles of
  /// the body are made element by element, from tiles of the same extent.
  bool indices_can_be_placed(const OperandLoad& c) {
    const auto& operands = k_[c.load].operands;
    const auto index = std::ranges::find_if(
        operands, [&](Value v) { return k_.type(v).is_tile() && !k_.is_visible_from(v, loop_); });
    if (index == operands.end()) return true;
    const std::int64_t extent = k_.type(*index).count();
    const bool can = std::ranges::all_of(c.offset_ops, [&](OpId op) {
      const OpData& d = k_[op];
      const Type type = k_.type(d.results[0]);
      if (!type.is_tile()) return true;
      const Family family = info(d.opcode).family;
      using enum Opcode;
      return type.rank() == 1 && type.count() == extent &&
             (family == Family::Elementwise || family == Family::Math ||
              d.is(Arange, Splat, Const, Load, LoadView, ConvertLayout));
    });
    if (!can)
      context_.remark(Remark::Kind::Missed, k_[c.load].loc,
                      "not pipelined: threads cannot make its index tile row by row");
    return can;
  }
  bool collect(Value v, bool has_tiles, std::unordered_set<OpId>& ops) {
    const ValueData& d = k_[v];
    if (!d.def) return d.region != body_ || d.position == 0;
    if (!is_inside(k_, d.def, loop_)) return true;
    const OpData& op = k_[d.def];
    const bool repeatable = info(op.opcode).has(kPure) || is_invariant_scalar_load(k_, d.def) ||
                            (has_tiles && is_invariant_load(k_, d.def));
    if (!repeatable || !op.regions.empty() || op.parent != body_) return false;
    ops.insert(d.def);
    return std::ranges::all_of(op.operands, [&](Value o) { return collect(o, has_tiles, ops); });
  }

  const Kernel& k_;
  OpId loop_;
  RegionId body_;
  PassContext& context_;
  CopiedBy by_;
  MemoryHazards hazards_;
  Uses uses_;
};

}  // namespace

std::vector<OpId> loops_of(const Kernel& k) {
  return ops_where(k, k.body(), [&](OpId op) { return k[op].opcode == Opcode::For; });
}

OpId first_dot(const Kernel& k, RegionId r) {
  for (OpId op : k.ops(r))
    if (k[op].opcode == Opcode::Dot) return op;
  return {};
}

bool is_in_counted_loops(const Kernel& k, OpId op) {
  OpId owner = k[k[op].parent].owner;
  while (owner && k[owner].opcode == Opcode::For) owner = k[k[owner].parent].owner;
  return !owner;
}

namespace {

std::vector<OperandLoad> found_by(std::optional<OperandLoad> (Finder::*find)(OpId), const Kernel& k,
                                  OpId loop, PassContext& context, CopiedBy by) {
  Finder finder(k, loop, context, by);
  std::vector<OperandLoad> found;
  for (OpId op : k.ops(k[loop].regions[0]))
    if (auto load = (finder.*find)(op)) found.push_back(std::move(*load));
  return found;
}

}  // namespace

std::vector<OperandLoad> operand_loads(const Kernel& k, OpId loop, PassContext& context) {
  if (!first_dot(k, k[loop].regions[0])) return {};
  return found_by(&Finder::find, k, loop, context, CopiedBy::Threads);
}

std::vector<OperandLoad> tile_loads(const Kernel& k, OpId loop, PassContext& context) {
  return found_by(&Finder::find_tile_or_row, k, loop, context, CopiedBy::Tma);
}

std::optional<OperandLoad> tile_load(const Kernel& k, OpId loop, OpId load) {
  PassContext unused;
  return Finder(k, loop, unused, CopiedBy::Tma).box(load);
}

std::optional<OperandLoad> stationary_load(const Kernel& k, OpId loop, OpId load) {
  if (k[load].parent != k[loop].parent) return std::nullopt;
  PassContext unused;
  Finder finder(k, loop, unused, CopiedBy::Tma);
  auto found = finder.box(load);
  return found && finder.may_be_read_ahead(load) ? found : std::nullopt;
}

std::optional<OperandLoad> copied_load(const Kernel& k, OpId loop, OpId load) {
  const OpData& d = k[load];
  if (d.opcode != Opcode::LoadView || !k.type(d.results[0]).is_tile()) return std::nullopt;
  if (access_of(k, d).gathered_dim() < 0 && !k.type(accessed_view(d)).view_facts().is_made)
    return std::nullopt;
  PassContext unused;
  auto found = Finder(k, loop, unused, CopiedBy::Threads).tile(load);
  return found && access_bytes(k, load) == kWidestCopy ? found : std::nullopt;
}

bool writes_memory(const Kernel& k, OpId loop) {
  return any_op(k, k[loop].regions[0], [&](OpId op) { return info(k[op].opcode).has(kWrites); });
}

int access_bytes(const Kernel& k, OpId load) {
  const OpData& box = k[load];
  if (contiguous_dim(k, box) < 0) return 0;
  return std::min(kWidestCopy,
                  access_elements(k, box) * size_bytes(k.type(box.results[0]).dtype()));
}

std::int64_t cp_async_ring_bytes(const Kernel& k, int slots) {
  PassContext unused;
  std::int64_t end = 0;
  for (OpId loop : loops_of(k)) {
    if (writes_memory(k, loop)) continue;
    for (const OperandLoad& load : operand_loads(k, loop, unused)) {
      if (access_bytes(k, load.load) < kMinCpAsyncBytes) continue;
      const SharedLayout& ring = *ring_type(k, load, slots).shared_layout();
      const std::int64_t alignment = ring.alignment();
      end = round_up(end, alignment) + ring.bytes();
    }
  }
  return end;
}

namespace {

/// Returns the order of dimensions, fastest first: `fast`, the other dimensions, the slots.
Dims slot_order(Dims dims, int fast) {
  Dims order{fast + 1};
  for (int d = dims.size() - 1; d >= 1; --d)
    if (d != fast + 1) order.push_back(d);
  order.push_back(0);
  return order;
}

Dims slot_dims(Type tile, int slots) {
  Dims dims{slots};
  for (std::int64_t extent : tile.shape()) dims.push_back(static_cast<int>(extent));
  return dims;
}

Type slots_of(Type tile, const Dims& dims, const SharedLayout& layout) {
  return Type::shared(tile.dtype(), Ints(dims.begin(), dims.end()), intern_layout(layout));
}

}  // namespace

int contiguous_dim(const Kernel& k, const OperandLoad& load) {
  return line_dim(k.type(access_of(k, k[load.load]).view), load.axes);
}

Type slots_type(Type tile, int fast, int slots) {
  const Dims dims = slot_dims(tile, slots), order = slot_order(dims, fast);
  const int bytes = size_bytes(tile.dtype());
  if (tile.rank() == 1) return slots_of(tile, dims, SharedLayout::plain(dims, bytes, order));
  const auto swizzled = SharedLayout::swizzled(dims, bytes, order, 128, SegmentRule::Equal, 1);
  return slots_of(tile, dims, swizzled ? *swizzled : SharedLayout::plain(dims, bytes, order));
}

Type ring_type(const Kernel& k, const OperandLoad& load, int slots) {
  return slots_type(load.tile, contiguous_dim(k, load), slots);
}

Type tma_ring_type(const Kernel& k, const OperandLoad& load, int slots) {
  if (load.tile.rank() != 2) return ring_type(k, load, slots);
  const TmaSegments segments = tma_segments(k, k[load.load]);
  if (segments.count == 0) return ring_type(k, load, slots);
  const Dims dims = slot_dims(load.tile, slots);
  const auto width = static_cast<int>(segments.swizzle);
  const SwizzleSegment row{width, width, static_cast<int>(segments.count)};
  const auto layout = SharedLayout::pieces(dims, size_bytes(load.tile.dtype()),
                                           slot_order(dims, contiguous_dim(k, load)), {&row, 1}, 1);
  return layout ? slots_of(load.tile, dims, *layout) : ring_type(k, load, slots);
}

void erase_load(Kernel& k, const OperandLoad& load) {
  for (OpId op : {load.convert, load.permute, load.load})
    if (op && !k[op].erased) k.erase(op);
}

/// Clones the ops that the offsets need. Tiles get the layout of the index tiles.
ValueMap& IterationOffsets::copy_slice(Builder& b, const OperandLoad& load) {
  ValueMap& map = maps_[load.lines];
  map[k_[body_].args[0]] = iv_;
  map.insert(load.placed.begin(), load.placed.end());
  const Loc saved = b.loc;
  for (OpId op : k_.ops(body_)) {
    if (!load.offset_ops.contains(op) || map.contains(k_[op].results[0])) continue;
    const Type type = k_.type(k_[op].results[0]);
    if (!load.lines || !type.is_tile()) {
      clone_op(b, op, map);
      continue;
    }
    std::vector<Value> operands;
    for (Value v : k_[op].operands) operands.push_back(mapped(map, v));
    Value placed = operands.empty() ? Value() : operands[0];
    if (k_[op].opcode != Opcode::ConvertLayout) {
      b.loc = k_[op].loc;
      const Type types[] = {type.with_layout(load.lines)};
      AttrList attrs = k_[op].attrs;
      attrs.erase(AttrName::label);  // it is part of the copy
      placed = k_[b.create(k_[op].opcode, operands, types, attrs)].results[0];
    }
    map[k_[op].results[0]] = placed;
  }
  b.loc = saved;
  return map;
}

Value IterationOffsets::read(Builder& b, const OperandLoad& load, OpId op) {
  return mapped(copy_slice(b, load), k_[op].results[0]);
}

/// Computes one element of a tile of the iteration, or a scalar.
Value IterationOffsets::element(Builder& b, Value v, std::int64_t index) {
  const bool is_tile = k_.type(v).is_tile();
  ValueMap& map = is_tile ? elements_[index] : maps_[nullptr];
  if (const auto it = map.find(v); it != map.end()) return it->second;
  const OpId def = k_[v].def;
  if (!is_tile && (!def || k_[def].parent != body_)) return v;
  std::vector<Value> operands(k_[def].operands.begin(), k_[def].operands.end());
  for (Value& operand : operands) operand = element(b, operand, index);
  const Type type = Type::of(k_.type(v).elem());
  const Opcode opcode = k_[def].opcode;
  if (opcode == Opcode::Arange)
    return map[v] = b.constant(type, k_[def].attrs.i(AttrName::start) + index);
  if (is_tile && (opcode == Opcode::Splat || opcode == Opcode::ConvertLayout))
    return map[v] = operands[0];
  AttrList attrs = k_[def].attrs;
  if (is_tile)
    for (AttrName name : {AttrName::label, AttrName::align, AttrName::axis}) attrs.erase(name);
  if (is_tile && opcode == Opcode::LoadView) attrs.set(AttrName::axes, Ints());
  return map[v] = k_[b.create(opcode, operands, std::span(&type, 1), attrs)].results[0];
}

/// Adds the offsets of each box of a load whose index tiles select runs of rows, and the number of
/// rows of the tile that exist.
void IterationOffsets::set_boxes(Builder& b, BoxAccess& a, const PageBoxes& pages,
                                 std::int64_t tile_rows) {
  const std::vector<AccessAxis> axes = a.axes;
  for (std::int64_t row = 0; row < tile_rows; row += pages.rows) {
    std::vector<Value> offsets;
    for (std::size_t v = 0; v < axes.size(); ++v)
      offsets.push_back(element(b, v == pages.row_dim ? pages.row : axes[v].offset, row));
    if (row > 0)
      a.next_boxes.push_back(std::move(offsets));
    else
      for (std::size_t v = 0; v < axes.size(); ++v) a.axes[v].offset = offsets[v];
  }
  for (AccessAxis& axis : a.axes) axis.limit = {};
  a.along[0] = static_cast<std::int64_t>(pages.row_dim);
  const DType type = k_.type(a.axes[pages.row_dim].offset).dtype();
  a.rows = b.sub(b.cast(element(b, pages.end, 0), type), b.cast(element(b, pages.first, 0), type));
}

std::optional<PageBoxes> IterationOffsets::page_boxes_of(const OperandLoad& load,
                                                         Opcode opcode) const {
  const bool may_be = opcode == Opcode::CopyTma && access_of(k_, k_[load.load]).gathered_dim() >= 0;
  return may_be ? page_boxes(k_, k_[load.load]) : std::nullopt;
}

void IterationOffsets::read_entries(Builder& b, const OperandLoad& load) {
  const auto pages = page_boxes_of(load, Opcode::CopyTma);
  if (!pages) return;
  maps_[nullptr][k_[body_].args[0]] = iv_;
  const Loc saved = std::exchange(b.loc, k_[load.load].loc);
  const BoxAccess a = access_of(k_, k_[load.load]);
  for (std::size_t v = 0; v < a.axes.size(); ++v) {
    if (v == pages->row_dim) continue;
    for (std::int64_t row = 0; row < load.tile.shape()[0]; row += pages->rows)
      element(b, a.axes[v].offset, row);
  }
  b.loc = saved;
}

void IterationOffsets::copy(Builder& b, const OperandLoad& load, Opcode opcode,
                            std::span<const Value> into) {
  BoxAccess a = access_of(k_, k_[load.load]);
  a.target.assign(into.begin(), into.end());
  a.along = load.axes;
  a.multicast = load.is_shared;
  if (const auto pages = page_boxes_of(load, opcode)) {
    set_boxes(b, a, *pages, load.tile.shape()[0]);
  } else {
    const ValueMap& map = copy_slice(b, load);
    for (AccessAxis& axis : a.axes) {
      axis.offset = mapped(map, axis.offset);
      if (axis.limit) axis.limit = mapped(map, axis.limit);
    }
  }
  AttrList attrs;
  for (AttrName name : {AttrName::evict, AttrName::label})
    if (const AttrValue* v = k_[load.load].attrs.find(name)) attrs.set(name, *v);
  const Loc saved = std::exchange(b.loc, k_[load.load].loc);
  create_access(b, opcode, a, attrs);
  b.loc = saved;
}

}  // namespace tegula::ir
