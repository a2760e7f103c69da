// Loads and stores of distributed tiles in shared memory: by matrices (ldmatrix, stmatrix) where
// legal, else by vectors.
#include "codegen/lower/shared.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "codegen/lower/linear_exchange.h"
#include "tegula/error.h"

namespace tegula::codegen {

using namespace ir;

Value shared_addresses(Lowering& l, Value base, const std::vector<ThreadOffset>& slabs,
                       const std::vector<std::pair<int, RegisterOffset>>& parts, Value more_flips) {
  std::map<int, Value> flips_of, adds_of;
  std::vector<Value> addresses;
  // Parts of one slab become one vector op; slabs are few (almost always one).
  std::map<int, std::vector<std::size_t>> by_slab;
  for (std::size_t i = 0; i < parts.size(); ++i) by_slab[parts[i].first].push_back(i);
  std::vector<std::int64_t> order;
  for (const auto& [slab, members] : by_slab) {
    ThreadOffset flips = slabs[static_cast<std::size_t>(slab)], adds = flips;
    for (ThreadBit& bit : flips.bits) bit.add = 0;
    flips.digits.clear();
    for (ThreadBit& bit : adds.bits) bit.flip = 0;
    std::vector<std::int64_t> flip, add;
    for (std::size_t i : members) {
      flip.push_back(parts[i].second.flip);
      add.push_back(parts[i].second.add);
      order.push_back(static_cast<std::int64_t>(i));
    }
    Value offsets = l.constants(DType::i32, flip);
    Value t = l.thread_value(flips);
    if (t && more_flips)
      t = l.b.op(Opcode::Xor, {t, more_flips});
    else if (more_flips)
      t = more_flips;
    if (t) {
      const bool none = std::ranges::all_of(flip, [](std::int64_t f) { return f == 0; });
      offsets = none ? l.splat(t, static_cast<std::int64_t>(members.size()))
                     : l.b.op(Opcode::Xor, {offsets, t});
    }
    Value origin = base;
    if (const Value t = l.thread_value(adds)) origin = l.b.add(origin, t);
    offsets = l.b.add(offsets, origin);
    addresses.push_back(l.b.add(offsets, l.constants(DType::i32, add)));
  }
  const Value all = l.concat(addresses);
  std::vector<std::int64_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return l.regs(all, back);
}

namespace {

/// Accesses that move the registers, either 8x8 matrices or vectors.
struct Route {
  bool by_matrix = false;
  bool transposed = false;
  std::int64_t num = 1;  ///< matrices, or elements of a vector
  std::vector<ThreadOffset> slabs;
  std::vector<std::pair<int, RegisterOffset>> parts;
  std::vector<std::vector<int>> registers;  ///< element registers of each access, in order
};

std::optional<Route> matrix_route(const SharedLayout& shared, const LinearLayout& dist) {
  const auto plan = ldmatrix_plan(shared, dist);
  if (!plan) return std::nullopt;
  Route r{true, plan->transposed, plan->matrices, plan->rows, {}, {}};
  for (const MatrixPlan::Access& a : plan->accesses) {
    r.parts.emplace_back(a.slab, a.base);
    r.registers.push_back(a.registers);
  }
  return r;
}

Route vector_route(const SharedLayout& shared, const LinearLayout& dist) {
  const auto fn = shared_fn(shared, dist);
  if (!fn) throw InternalError(fmt::format("{} in {}: {}", dist.str(), shared.str(), fn.reason()));
  const auto vectors = shared_vectors(*fn, shared);
  if (!vectors)
    throw InternalError(fmt::format("{} in {}: {}", dist.str(), shared.str(), vectors.reason()));
  Route r{false,     false, static_cast<std::int64_t>(vectors->front().registers.size()),
          fn->slabs, {},    {}};
  for (const Vector& v : *vectors) {
    const auto& first = fn->registers[static_cast<std::size_t>(v.registers.front())];
    r.parts.emplace_back(first.slab, first.part);
    r.registers.push_back(v.registers);
  }
  return r;
}

/// Routes are cached per pair of layouts: each slice of a sliced tile needs the same route.
const Route& choose_route(const SharedLayout& shared, const LinearLayout& dist, bool matrices) {
  thread_local std::unordered_map<std::string, Route> known;
  const std::string key = fmt::format("{} {} {}", shared.str(), dist.str(), matrices);
  if (const auto it = known.find(key); it != known.end()) return it->second;
  if (known.size() > 256) known.clear();
  if (matrices)
    if (auto route = matrix_route(shared, dist))
      return known.emplace(key, std::move(*route)).first->second;
  return known.emplace(key, vector_route(shared, dist)).first->second;
}

/// Keeps only the accesses that touch a wanted register.
void keep(Route& r, const std::vector<int>& wanted) {
  if (wanted.empty()) return;
  Route kept = r;
  kept.parts.clear();
  kept.registers.clear();
  for (std::size_t i = 0; i < r.parts.size(); ++i) {
    const bool needed = std::ranges::any_of(
        r.registers[i], [&](int reg) { return std::ranges::find(wanted, reg) != wanted.end(); });
    if (!needed) continue;
    kept.parts.push_back(r.parts[i]);
    kept.registers.push_back(r.registers[i]);
  }
  r = std::move(kept);
}

/// Clamps the addresses of padding registers to the tile: no offset from `base` exceeds `last`.
Value kept_inside(Lowering& l, Value addresses, Value base, std::int64_t last) {
  const Value origin = l.splat(base, l.type(addresses).count());
  const Value offset = l.b.op(Opcode::Min, {l.b.sub(addresses, origin), l.b.i32(last)});
  return l.b.add(origin, offset);
}

/// Emits the loads of a route: `opcode` for vectors, ldmatrix for matrices.
Value load_by(Lowering& l, const Route& r, Value base, const SharedLayout& shared,
              const LinearLayout& dist, Elem elem, Opcode opcode, std::vector<int> wanted,
              Value more_flips) {
  Value addresses = shared_addresses(l, base, r.slabs, r.parts, more_flips);
  const std::int64_t access = r.by_matrix ? 16 : r.num * size_bytes(elem.dtype);
  if (!dist.is_exact()) addresses = kept_inside(l, addresses, base, shared.bytes() - access);
  std::vector<int> order;
  for (const auto& regs : r.registers) order.insert(order.end(), regs.begin(), regs.end());
  const Type flat = Type::vec(elem, static_cast<std::int64_t>(order.size()));
  Value loaded;
  if (r.by_matrix) {
    AttrInits attrs{{AttrName::num, r.num}, {AttrName::trans, r.transposed ? 1 : 0}};
    loaded = l.b.op(Opcode::Repack, {l.b.op(Opcode::LdMatrix, {addresses}, attrs)}, flat);
  } else {
    loaded = l.b.op(opcode, {addresses}, flat, {{AttrName::width, r.num}});
  }
  if (wanted.empty())
    for (int i = 0; i < dist.registers(); ++i) wanted.push_back(i);
  std::vector<std::int64_t> picked;
  for (int reg : wanted) {
    const auto found = std::ranges::find(order, reg);
    if (found == order.end()) throw InternalError("a register of the layout is not loaded");
    picked.push_back(found - order.begin());
  }
  return l.regs(loaded, picked);
}

}  // namespace

Value load_shared(Lowering& l, Value base, const SharedLayout& shared, const LinearLayout& dist,
                  Elem elem, bool matrices, std::vector<int> wanted) {
  Route r = choose_route(shared, dist, matrices && size_bits(elem.dtype) == 16);
  keep(r, wanted);
  return load_by(l, r, base, shared, dist, elem, Opcode::LdShared, std::move(wanted), {});
}

Value load_cluster(Lowering& l, Value base, const SharedLayout& shared, const LinearLayout& dist,
                   Elem elem, Value more_flips) {
  return load_by(l, choose_route(shared, dist, false), base, shared, dist, elem, Opcode::LdCluster,
                 {}, more_flips);
}

namespace {

/// Returns true for the registers that the shared tile has elements for, or null if it has all of
/// them: layouts may pad a tile.
Value is_in_tile(Lowering& l, const SharedLayout& shared, const LinearLayout& dist) {
  Value inside;
  for (int d = 0; d < dist.rank() && shared.rank() == dist.rank(); ++d) {
    if (dist.cover()[d] <= shared.shape()[d]) continue;
    const Value along = l.b.cmp("lt", index_along(l, dist, d), l.b.i32(shared.shape()[d]));
    inside = inside ? l.b.op(Opcode::And, {inside, along}) : along;
  }
  return inside;
}

}  // namespace

void store_shared(Lowering& l, Value base, const SharedLayout& shared, const LinearLayout& dist,
                  Value registers, bool matrices, std::int64_t offset) {
  const Value inside = is_in_tile(l, shared, dist);
  const Elem elem = l.type(registers).elem();
  const bool has_stmatrix = l.from.info.target->has_stmatrix;
  const Route r = choose_route(shared, dist,
                               matrices && !inside && has_stmatrix && size_bits(elem.dtype) == 16);
  std::vector<std::int64_t> order;
  for (const auto& regs : r.registers) order.insert(order.end(), regs.begin(), regs.end());
  auto parts = r.parts;
  for (auto& [slab, part] : parts) part.add += offset;
  const Value addresses = shared_addresses(l, base, r.slabs, parts);
  const Value flat = l.regs(registers, order);
  if (r.by_matrix) {
    const Value packed =
        l.b.op(Opcode::Repack, {flat},
               Type::vec({DType::i32, false}, static_cast<std::int64_t>(order.size()) / 2));
    l.b.effect(Opcode::StMatrix, {addresses, packed},
               {{AttrName::num, r.num}, {AttrName::trans, r.transposed ? 1 : 0}});
    return;
  }
  std::vector<Value> operands{addresses, flat};
  Value stores;
  if (const Value first = l.is_replica_zero(dist))
    stores = l.splat(first, l.type(addresses).count());
  if (inside) {
    std::vector<std::int64_t> firsts;  // of the registers of each address
    for (std::size_t i = 0; i < order.size(); i += static_cast<std::size_t>(r.num))
      firsts.push_back(order[i]);
    const Value in_tile = l.regs(inside, firsts);
    stores = stores ? l.b.op(Opcode::And, {stores, in_tile}) : in_tile;
  }
  if (stores) operands.push_back(stores);
  l.b.effect(Opcode::StShared, operands, {{AttrName::width, r.num}});
}

namespace {

SharedLayout without_slots(const SharedLayout& whole) {
  ir::Dims shape, order;
  for (int d = 1; d < whole.rank(); ++d) shape.push_back(whole.shape()[d]);
  for (int d : whole.order())
    if (d != 0) order.push_back(d - 1);
  if (whole.piece_list().empty()) return SharedLayout::plain(shape, whole.element_bytes(), order);
  const auto slot =
      SharedLayout::pieces(shape, whole.element_bytes(), order, whole.piece_list(), 0);
  if (!slot) throw InternalError("slot of " + whole.str() + ": " + slot.reason());
  return *slot;
}

}  // namespace

SmemSlot slot_of(Lowering& l, Value shared_tile, Value slot) {
  const Type type = l.from.type(shared_tile);
  const SharedLayout& whole = *type.shared_layout();
  const std::int64_t offset = l.from[l.from[shared_tile].def].attrs.i(AttrName::offset);
  Value base = l.shared_address(offset);
  if (!slot) return {whole, base};
  ir::Dims second = ir::Dims::filled(whole.rank(), 0);
  std::int64_t stride = 0;
  if (whole.shape()[0] > 1) {
    second[0] = 1;
    stride = whole.offset(second);
  }
  base = l.b.add(base, l.b.mul(l.get(slot), l.b.i32(stride)));
  return {without_slots(whole), base};
}

}  // namespace tegula::codegen
