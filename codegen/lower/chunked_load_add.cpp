// Loads a tile in chunks, a few of them in flight, and adds each chunk to another tile at once, so
// that a thread never holds all registers of both tiles.
#include <algorithm>
#include <numeric>
#include <vector>

#include "codegen/lower/box.h"
#include "codegen/lower/lowering.h"
#include "codegen/lower/pointers.h"
#include "ir/layout/linear_layout.h"
#include "ir/uses.h"
#include "tegula/int_math.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// Minimum registers per thread of a tile that is loaded in chunks, and registers of one chunk.
constexpr int kManyRegisters = 64, kPartRegisters = 16;
/// Chunks in flight at a time: enough to hide most of their latency.
constexpr std::size_t kChunksAhead = 3;

/// Returns true if no op between the two writes memory or synchronizes.
bool are_side_by_side(const Kernel& k, OpId load, OpId use) {
  if (k[load].parent != k[use].parent) return false;
  bool found = false;
  for (OpId op : k.ops(k[load].parent)) {
    if (op == use) return found;
    found = found || op == load;
    if (found && (info(k[op].opcode).has(kWrites | kEffects) || !k[op].regions.empty()))
      return false;
  }
  return false;
}

bool is_much(Type t) {
  return t.is_tile() && t.layout() && size_bits(t.dtype()) == 32 &&
         t.layout()->registers() >= kManyRegisters;
}

/// Returns the operand of an addition whose load has no other use; null if there is none or
/// two.
Value find_added(const Kernel& k, OpId op) {
  if (k[op].opcode != Opcode::Add || !is_much(k.type(k[op].results[0]))) return {};
  Value found;
  for (Value v : k[op].operands) {
    const OpId def = k[v].def;
    if (!def || k[def].opcode != Opcode::LoadView) continue;
    if (found || !is_much(k.type(v)) || !are_side_by_side(k, def, op)) return {};
    found = v;
  }
  return found;
}

/// Loads the registers of a tile in chunks of whole accesses.
class LoadChunks {
 public:
  LoadChunks(Lowering& l, OpId load) : l_(l), d_(l.from[load]), box_(l, load) {
    const LinearLayout& layout = layout_of(l.from.type(d_.results[0]));
    vectors_ = box_.vectors(layout);
    access_ = box_.access(vectors_, layout);
    width_ = vectors_.front().registers.size();
    at_once_ = std::max<std::size_t>(1, kPartRegisters / width_);
  }

  std::size_t count() const { return ceil_div(vectors_.size(), at_once_); }

  std::vector<int> registers(std::size_t part) const {
    std::vector<int> all;
    for (std::size_t i : accesses(part))
      all.insert(all.end(), vectors_[i].registers.begin(), vectors_[i].registers.end());
    return all;
  }

  Value load(std::size_t part) {
    const auto which = accesses(part);
    const std::vector<int> indices(which.begin(), which.end());
    const auto count = static_cast<std::int64_t>(which.size() * width_);
    const Type type = Type::vec(l_.from.type(d_.results[0]).elem(), count);
    std::vector<Value> operands{l_.as_vec(l_.regs(access_.addresses, indices))};
    if (access_.predicate) {
      operands.push_back(l_.as_vec(l_.regs(access_.predicate, indices)));
      operands.push_back(l_.b.zero(type));
    }
    const AttrList attrs = access_attrs(d_.attrs, static_cast<std::int64_t>(width_));
    return l_.to[l_.b.create(Opcode::LdGlobal, operands, std::span(&type, 1), attrs)].results[0];
  }

 private:
  std::vector<std::size_t> accesses(std::size_t part) const {
    const std::size_t first = part * at_once_, last = std::min(first + at_once_, vectors_.size());
    std::vector<std::size_t> all(last - first);
    std::iota(all.begin(), all.end(), first);
    return all;
  }

  Lowering& l_;
  const OpData& d_;
  Box box_;
  std::vector<Vector> vectors_;
  Box::Access access_;
  std::size_t width_, at_once_;
};

}  // namespace

Value Lowering::chunked_load_add(OpId op) {
  if (!found_added_) {
    const Uses uses(from);
    walk(from, from.body(), [&](OpId o) {
      if (const Value v = find_added(from, o); v && uses.count(v) == 1) {
        added_[o] = v;
        added_[from[v].def] = v;
      }
    });
    found_added_ = true;
  }
  const auto it = added_.find(op);
  return it == added_.end() ? Value() : it->second;
}

void Lowering::add_by_parts(OpId op, Value loaded) {
  const OpData& d = from[op];
  const Value other = get(d.operands[0] == loaded ? d.operands[1] : d.operands[0]);
  const auto others = [&](const std::vector<int>& registers) {
    return type(other).is_vec() ? regs(other, registers)
                                : splat(other, static_cast<std::int64_t>(registers.size()));
  };
  LoadChunks chunks(*this, from[loaded].def);
  std::vector<Value> on_their_way, sums;
  std::vector<int> order;
  for (std::size_t i = 0; i < chunks.count() + kChunksAhead; ++i) {
    if (i < chunks.count()) on_their_way.push_back(chunks.load(i));
    if (i < kChunksAhead) continue;
    const std::vector<int> registers = chunks.registers(i - kChunksAhead);
    const Value operands[] = {others(registers), on_their_way[i - kChunksAhead]};
    const Type type = this->type(operands[1]);
    const OpId sum = b.create(d.opcode, operands, std::span(&type, 1), d.attrs);
    sums.push_back(to[sum].results[0]);
    order.insert(order.end(), registers.begin(), registers.end());
  }
  std::vector<int> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  set(d.results[0], regs(concat(sums), back));
}

}  // namespace tegula::codegen
