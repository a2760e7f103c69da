// The kernel container.
#include "ir/kernel.h"

#include <algorithm>
#include <cassert>

namespace tegula::ir {

// ---- attributes
void AttrList::set(AttrName name, AttrValue value) {
  const auto found = std::lower_bound(items_.begin(), items_.end(), name,
                                      [](const auto& item, AttrName n) { return item.first < n; });
  if (found != items_.end() && found->first == name)
    found->second = std::move(value);
  else
    items_.emplace(found, name, std::move(value));
}

void AttrList::erase(AttrName name) {
  std::erase_if(items_, [&](const auto& item) { return item.first == name; });
}

const AttrValue* AttrList::find(AttrName name) const {
  for (const auto& [n, value] : items_)
    if (n == name) return &value;
  return nullptr;
}

std::int64_t AttrList::i(AttrName name, std::int64_t otherwise) const {
  const AttrValue* v = find(name);
  return v ? std::get<std::int64_t>(*v) : otherwise;
}

double AttrList::f(AttrName name, double otherwise) const {
  const AttrValue* v = find(name);
  if (!v) return otherwise;
  if (const auto* i = std::get_if<std::int64_t>(v)) return static_cast<double>(*i);
  return std::get<double>(*v);
}

std::string_view AttrList::s(AttrName name, std::string_view otherwise) const {
  const AttrValue* v = find(name);
  return v ? std::string_view(std::get<const char*>(*v)) : otherwise;
}

std::span<const std::int64_t> AttrList::ints(AttrName name) const {
  const AttrValue* v = find(name);
  return v ? std::span<const std::int64_t>(std::get<Ints>(*v)) : std::span<const std::int64_t>();
}

bool operator==(const AttrList& a, const AttrList& b) { return a.items_ == b.items_; }

// ---- construction
Kernel::Kernel(std::string kernel_name, Form form)
    : arena_(std::make_unique<std::pmr::monotonic_buffer_resource>(std::size_t{1} << 14)),
      ops_(arena_.get()),
      values_(arena_.get()),
      regions_(arena_.get()) {
  info.name = std::move(kernel_name);
  info.form = form;
  body_ = regions_.add(arena_.get());
  launch_ = regions_.add(arena_.get());
}
Kernel::Kernel(Kernel&&) noexcept = default;
Kernel& Kernel::operator=(Kernel&& other) noexcept {
  // The arrays must be destroyed before the arena that contains them, and pmr containers do not
  // adopt each other's arena.
  if (this != &other) {
    this->~Kernel();
    new (this) Kernel(std::move(other));
  }
  return *this;
}
Kernel::~Kernel() = default;

Value Kernel::add_param(std::string name, Type type, AttrList attrs) {
  const Value v =
      values_.add(ValueData{type, OpId(), body_, static_cast<std::uint32_t>(params_.size())});
  params_.push_back({v, std::move(name), std::move(attrs)});
  return v;
}

OpId Kernel::make_op(Opcode opcode, std::span<const Value> operands,
                     std::span<const Type> result_types, Loc loc) {
  const OpId id = ops_.add(arena_.get());
  OpData& op = ops_[id];
  op.opcode = opcode;
  op.loc = loc;
  op.operands.assign(operands.begin(), operands.end());
  for (Type t : result_types) add_result(id, t);
  return id;
}

RegionId Kernel::add_region(OpId owner) {
  const RegionId r = regions_.add(arena_.get());
  regions_[r].owner = owner;
  ops_[owner].regions.push_back(r);
  return r;
}

Value Kernel::add_arg(RegionId region, Type type) {
  RegionData& r = regions_[region];
  const Value v =
      values_.add(ValueData{type, OpId(), region, static_cast<std::uint32_t>(r.args.size())});
  r.args.push_back(v);
  return v;
}

Value Kernel::add_result(OpId op, Type type) {
  auto& results = ops_[op].results;
  const Value v =
      values_.add(ValueData{type, op, RegionId(), static_cast<std::uint32_t>(results.size())});
  results.push_back(v);
  return v;
}

// ---- order
namespace {

/// Inserts the op between two neighbours, which may be null.
void link(Kernel& k, RegionId region, OpId prev, OpId op, OpId next) {
  OpData& d = k[op];
  assert(!d.parent && "op is already in a region");
  d.parent = region;
  d.prev = prev;
  d.next = next;
  (prev ? k[prev].next : k[region].first) = op;
  (next ? k[next].prev : k[region].last) = op;
}

}  // namespace

void Kernel::append(RegionId region, OpId op) {
  link(*this, region, regions_[region].last, op, OpId());
}

void Kernel::insert_before(OpId where, OpId op) {
  link(*this, ops_[where].parent, ops_[where].prev, op, where);
}

void Kernel::unlink(OpId op) {
  OpData& d = ops_[op];
  if (!d.parent) return;
  RegionData& r = regions_[d.parent];
  (d.prev ? ops_[d.prev].next : r.first) = d.next;
  (d.next ? ops_[d.next].prev : r.last) = d.prev;
  d.parent = RegionId();
  d.prev = d.next = OpId();
}

void Kernel::erase(OpId op) {
  unlink(op);
  for (RegionId r : ops_[op].regions)
    for (OpId inner : ops(r)) erase(inner);
  OpData& d = ops_[op];
  d.erased = true;
  d.operands.clear();
}

void Kernel::replace_all_uses(Value from, Value to) {
  for (std::uint32_t i = 0; i < ops_.size(); ++i) {
    OpData& d = ops_[OpId(i)];
    if (!d.erased) std::replace(d.operands.begin(), d.operands.end(), from, to);
  }
}

OpId Kernel::terminator(RegionId region) const {
  const OpId last = regions_[region].last;
  return last && ir::info(ops_[last].opcode).has(kTerminator) ? last : OpId();
}

bool Kernel::is_visible_from(Value v, OpId point) const {
  const ValueData& d = values_[v];
  const RegionId home = d.def ? ops_[d.def].parent : d.region;
  for (OpId op = point; op;) {
    const RegionId region = ops_[op].parent;
    if (region == home) {
      if (!d.def) return true;
      for (OpId before = ops_[op].prev; before; before = ops_[before].prev)
        if (before == d.def) return true;
      return false;
    }
    // Parameters belong to the body but are also visible in the launch region.
    if (region == launch_ && home == body_ && !d.def) return true;
    op = regions_[region].owner;
  }
  return false;
}

Kernel::OpRange Kernel::ops(RegionId region) const { return {*this, regions_[region].first}; }

bool is_used(const Kernel& k, Value v) {
  return any_op(k, k.body(), [&](OpId o) { return std::ranges::count(k[o].operands, v) > 0; });
}

}  // namespace tegula::ir
