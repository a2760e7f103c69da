#pragma once
// The kernel container: structured SSA in dense arrays. Ops, values and regions are addressed by
// typed index handles that stay valid until the entity is erased; all lists live in the kernel's
// arena.
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ir/op.h"
#include "ir/target.h"
#include "support/entity.h"
#include "tegula/location.h"
#include "tegula/plan_patch.h"

namespace tegula::ir {

using OpId = EntityId<struct OpTag>;
using Value = EntityId<struct ValueTag>;
using RegionId = EntityId<struct RegionTag>;

using Ints = std::vector<std::int64_t>;
/// Strings are interned (`tegula::intern`), so copying an attribute never allocates for them.
using AttrValue = std::variant<std::int64_t, double, const char*, Ints>;

/// The attributes of one op, ordered by name so that equal sets print and hash alike.
class AttrList {
 public:
  void set(AttrName name, AttrValue value);
  void set(AttrName name, std::string_view text) { set(name, AttrValue(intern(text))); }
  void set(AttrName name, const char* text) { set(name, AttrValue(intern(text))); }
  void erase(AttrName name);
  const AttrValue* find(AttrName name) const;
  bool has(AttrName name) const { return find(name) != nullptr; }
  std::int64_t i(AttrName name, std::int64_t otherwise = 0) const;
  double f(AttrName name, double otherwise = 0) const;
  std::string_view s(AttrName name, std::string_view otherwise = "") const;
  std::span<const std::int64_t> ints(AttrName name) const;
  std::span<const std::pair<AttrName, AttrValue>> all() const { return items_; }
  bool empty() const { return items_.empty(); }
  friend bool operator==(const AttrList&, const AttrList&);

 private:
  std::vector<std::pair<AttrName, AttrValue>> items_;
};

struct OpData {
  explicit OpData(std::pmr::memory_resource* arena)
      : operands(arena), results(arena), regions(arena) {}
  Opcode opcode{};
  Loc loc;
  std::pmr::vector<Value> operands;
  std::pmr::vector<Value> results;
  std::pmr::vector<RegionId> regions;
  AttrList attrs;
  RegionId parent;
  OpId prev, next;  ///< neighbours in the parent region
  bool erased = false;

  /// Returns true if the op is one of `ops`.
  bool is(auto... ops) const { return ((opcode == ops) || ...); }
};

struct ValueData {
  Type type;
  OpId def;         ///< the op it is a result of; none for a region argument or a parameter
  RegionId region;  ///< the region it is an argument of
  std::uint32_t position = 0;  ///< index among the results or arguments
};

struct RegionData {
  explicit RegionData(std::pmr::memory_resource* arena) : args(arena) {}
  OpId owner;  ///< none for the body and the launch region
  std::pmr::vector<Value> args;
  OpId first, last;
};

/// A kernel parameter. In tile form one per host argument; in simt form the flattened parts (attrs
/// arg, part, axis).
struct Param {
  Value value;
  std::string name;
  AttrList attrs;
};

/// A use of shared memory, for error messages about exceeding it.
struct SharedUse {
  Loc loc;
  std::string what;
  std::int64_t bytes = 0;
};

/// Launch facts that are not part of any op.
struct KernelInfo {
  std::string name;
  Form form = Form::Tile;
  Target target;
  int threads = 0;              ///< per CTA; 0 until a plan chose it
  std::int64_t smem_bytes = 0;  ///< dynamic shared memory
  std::vector<SharedUse> shared_uses;
  int cluster = 1;          ///< programs that run at once and see each other's shared memory
  int min_ctas_per_sm = 1;  ///< per SM, passed to the assembler
  /// The body loops over any share of the grid's programs; launched with at most one CTA per SM.
  bool persistent = false;
  /// Plan fields that are set if possible; empty once layouts are assigned.
  PlanPatch preferred;
};

class Kernel {
 public:
  explicit Kernel(std::string name, Form form = Form::Tile);
  Kernel(Kernel&&) noexcept;
  Kernel& operator=(Kernel&&) noexcept;
  ~Kernel();

  KernelInfo info;

  RegionId body() const { return body_; }
  /// Region of scalar ops on the parameters' extents that yields the three grid extents; evaluated
  /// on the host at launch.
  RegionId launch() const { return launch_; }
  std::vector<Param>& params() { return params_; }
  const std::vector<Param>& params() const { return params_; }
  Value add_param(std::string name, Type type, AttrList attrs = {});

  OpData& operator[](OpId id) { return ops_[id]; }
  const OpData& operator[](OpId id) const { return ops_[id]; }
  ValueData& operator[](Value v) { return values_[v]; }
  const ValueData& operator[](Value v) const { return values_[v]; }
  RegionData& operator[](RegionId r) { return regions_[r]; }
  const RegionData& operator[](RegionId r) const { return regions_[r]; }
  Type type(Value v) const { return values_[v].type; }
  void set_type(Value v, Type t) { values_[v].type = t; }
  std::size_t value_count() const { return values_.size(); }
  std::size_t op_count() const { return ops_.size(); }

  /// Creates an op that is in no region yet.
  OpId make_op(Opcode opcode, std::span<const Value> operands, std::span<const Type> result_types,
               Loc loc);
  RegionId add_region(OpId owner);
  Value add_arg(RegionId region, Type type);
  Value add_result(OpId op, Type type);
  void append(RegionId region, OpId op);
  void insert_before(OpId where, OpId op);
  /// Removes an op from its region; it stays usable.
  void unlink(OpId op);
  /// Unlinks and retires an op with everything inside it. Its results must be unused.
  void erase(OpId op);
  void replace_all_uses(Value from, Value to);
  /// Returns the op that ends a region, or none.
  OpId terminator(RegionId region) const;
  /// Returns true if the region of op `point`, or a region that encloses it, contains the
  /// definition of `v`.
  bool is_visible_from(Value v, OpId point) const;

  /// Forward range over the ops of a region; the current op may be erased or replaced while
  /// iterating.
  class OpRange;
  OpRange ops(RegionId region) const;

  std::pmr::memory_resource* arena() { return arena_.get(); }

 private:
  std::unique_ptr<std::pmr::monotonic_buffer_resource> arena_;
  EntityMap<OpId, OpData> ops_;
  EntityMap<Value, ValueData> values_;
  EntityMap<RegionId, RegionData> regions_;
  std::vector<Param> params_;
  RegionId body_, launch_;
};

class Kernel::OpRange {
 public:
  OpRange(const Kernel& k, OpId first) : kernel_(k), first_(first) {}
  class Iterator {
   public:
    Iterator(const Kernel* k, OpId first)
        : kernel_(k), at_(first), next_(first ? (*k)[first].next : OpId()) {}
    OpId operator*() const { return at_; }
    Iterator& operator++() {
      at_ = next_;
      next_ = at_ ? (*kernel_)[at_].next : OpId();
      return *this;
    }
    bool operator!=(const Iterator& o) const { return at_ != o.at_; }

   private:
    const Kernel* kernel_;
    OpId at_, next_;
  };
  Iterator begin() const { return {&kernel_, first_}; }
  Iterator end() const { return {&kernel_, OpId()}; }

 private:
  const Kernel& kernel_;
  OpId first_;
};

/// Calls `visit(op)` for every op of the region and of the regions inside it, owners before their
/// contents.
template <class Visit>
void walk(const Kernel& k, RegionId region, const Visit& visit) {
  for (OpId op : k.ops(region)) {
    visit(op);
    if (k[op].erased) continue;
    for (RegionId r : k[op].regions) walk(k, r, visit);
  }
}

/// Returns true if `holds` returns true for the op or for an op inside it.
template <class Test>
bool any_op(const Kernel& k, OpId op, const Test& holds) {
  if (holds(op)) return true;
  for (RegionId r : k[op].regions)
    if (any_op(k, r, holds)) return true;
  return false;
}
/// Returns true if `holds` returns true for some op of the region or of the regions inside it.
template <class Test>
bool any_op(const Kernel& k, RegionId region, const Test& holds) {
  for (OpId op : k.ops(region))
    if (any_op(k, op, holds)) return true;
  return false;
}
/// Returns the ops of the region, and of the regions inside it, for which `holds` returns true, in
/// the order of the text.
template <class Test>
std::vector<OpId> ops_where(const Kernel& k, RegionId region, const Test& holds) {
  std::vector<OpId> found;
  walk(k, region, [&](OpId op) {
    if (holds(op)) found.push_back(op);
  });
  return found;
}
/// Returns true if some op of the body uses the value.
bool is_used(const Kernel& k, Value v);

/// Returns a deep copy; ids are renumbered densely.
Kernel clone(const Kernel& k);

}  // namespace tegula::ir
