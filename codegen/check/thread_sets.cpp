#include "codegen/check/thread_sets.h"

#include <algorithm>
#include <array>
#include <span>

#include "codegen/check/index_ranges.h"

namespace tegula::codegen {

using namespace ir;

namespace {

constexpr std::size_t kMostOperands = 3;
constexpr int kLanes = 32;

}  // namespace

Threads threads_between(int first, int end) {
  Threads t;
  for (int i = first; i < end && i < static_cast<int>(kMostThreads); ++i)
    t.set(static_cast<std::size_t>(i));
  return t;
}

bool has_part_of_warp(const Threads& threads, int all) {
  for (int first = 0; first < all; first += kLanes) {
    const int end = std::min(all, first + kLanes);
    const std::size_t there = (threads & threads_between(first, end)).count();
    if (there != 0 && there != static_cast<std::size_t>(end - first)) return true;
  }
  return false;
}

std::uint32_t warpgroups_of(const Threads& threads) {
  std::uint32_t groups = 0;
  for (std::size_t i = threads._Find_first(); i < kMostThreads;
       i = threads._Find_next(i | (kWarpgroupThreads - 1)))
    groups |= 1U << (i / kWarpgroupThreads);
  return groups;
}

const std::vector<Cell>* ThreadSets::by_thread(Value v) {
  const auto it = known_.find(v);
  if (it != known_.end()) return it->second.get();
  auto made = compute(v);
  return (known_[v] = std::move(made)).get();
}

std::unique_ptr<std::vector<Cell>> ThreadSets::compute(Value v) {
  const Type t = k_.type(v);
  if (!k_[v].def || !t.is_scalar() || t.is_pointer() || is_float(t.dtype())) return nullptr;
  const OpData& d = k_[k_[v].def];
  auto out = std::make_unique<std::vector<Cell>>(static_cast<std::size_t>(threads_));
  const auto fill = [&](const auto& number) {
    for (int i = 0; i < threads_; ++i) (*out)[static_cast<std::size_t>(i)].i = number(i);
    return std::move(out);
  };
  switch (d.opcode) {
    case Opcode::Tid:
      return fill([](int i) { return i; });
    case Opcode::LaneId:
      return fill([](int i) { return i % kLanes; });
    case Opcode::WarpId:
      return fill([](int i) { return i / kLanes; });
    // Any one of the warp's.
    case Opcode::Elect:
      return fill([](int i) { return i % kLanes == 0 ? 1 : 0; });
    case Opcode::Const:
      return fill([&](int) { return d.attrs.i(AttrName::value); });
    default:
      break;
  }
  const ElementwiseFn fn = elementwise_fn(d.opcode);
  if (!fn || d.operands.empty() || d.operands.size() > kMostOperands) return nullptr;
  std::array<Elem, kMostOperands> in;
  std::array<const Cell*, kMostOperands> operands{};
  static constexpr std::array<std::size_t, kMostOperands> kStrides{1, 1, 1};
  const std::size_t n = d.operands.size();
  for (std::size_t i = 0; i < n; ++i) {
    const auto* cells = by_thread(d.operands[i]);
    if (!cells) return nullptr;
    in[i] = k_.type(d.operands[i]).elem();
    operands[i] = cells->data();
  }
  std::vector<std::uint8_t> poison(out->size());
  fn({d.attrs, std::span(in).first(n), t.elem(), std::span(operands).first(n),
      std::span(kStrides).first(n), out->data(), out->size(), poison.data()});
  const bool is_defined = std::ranges::none_of(poison, [](std::uint8_t p) { return p != 0; });
  return is_defined ? std::move(out) : nullptr;
}

Varies ThreadSets::varies(Value v) {
  const auto [it, is_new] = varies_.try_emplace(v, Varies::Never);
  if (!is_new) return it->second;
  const Varies found = find_varies(v);
  return varies_[v] = found;
}

Varies ThreadSets::most(std::span<const Value> values) {
  Varies all = Varies::Never;
  for (Value v : values) all = std::max(all, varies(v));
  return all;
}

/// A carry varies where what it begins with or goes on with does.
Varies ThreadSets::carry_varies(const OpData& d, std::size_t carry) {
  const std::size_t first = d.opcode == Opcode::For ? 3 : 0;
  Varies all = varies(d.operands[d.opcode == Opcode::If ? 0 : first + carry]);
  for (RegionId r : d.regions) {
    const OpId yield = k_.terminator(r);
    const bool is_condition = d.opcode == Opcode::While && r == d.regions[0];
    if (yield && !is_condition) all = std::max(all, varies(k_[yield].operands[carry]));
  }
  return all;
}

/// What is read from memory is taken for the same in all threads where its address is.
Varies ThreadSets::find_varies(Value v) {
  const RegionId region = k_[v].region;
  const OpId op = region ? k_[region].owner : k_[v].def;
  if (!op) return Varies::Never;
  const OpData& d = k_[op];
  const bool is_loop = d.opcode == Opcode::For || d.opcode == Opcode::While;
  const std::size_t position = k_[v].position;
  if (d.opcode == Opcode::For && region)
    return position > 0 ? carry_varies(d, position - 1) : most(std::span(d.operands).first(3));
  if (is_loop || d.opcode == Opcode::If) return carry_varies(d, position);
  const bool is_number = d.opcode == Opcode::Tid || d.opcode == Opcode::LaneId ||
                         d.opcode == Opcode::WarpId || d.opcode == Opcode::Elect;
  const Varies all = is_number ? Varies::ByThread : most(d.operands);
  if (all != Varies::ByThread) return all;
  const auto* cells = by_thread(v);
  if (!cells) return all;
  for (std::size_t i = 0; i < cells->size(); ++i)
    if ((*cells)[i].i != (*cells)[i / kWarpgroupThreads * kWarpgroupThreads].i) return all;
  return Varies::ByWarpgroup;
}

Taken ThreadSets::where(Value condition) {
  Taken t;
  t.varies = varies(condition);
  if (t.varies == Varies::Never || !by_thread(condition)) {
    t.yes.set();
    t.is_exact = t.varies != Varies::ByThread;
    t.is_together = t.varies == Varies::Never;
    const OpId def = k_[condition].def;
    if (t.is_together || !def || k_[def].opcode != Opcode::And) return t;
    t.is_exact = t.is_together = true;
    for (Value part : k_[def].operands) {
      const Taken one = where(part);
      t.yes &= one.yes;
      t.is_exact = t.is_exact && one.is_exact;
      t.is_together = t.is_together && one.is_together;
    }
    return t;
  }
  const auto* cells = by_thread(condition);
  for (std::size_t i = 0; i < cells->size(); ++i) t.yes.set(i, (*cells)[i].i != 0);
  t.by_number = t.is_exact = t.is_together = true;
  return t;
}

}  // namespace tegula::codegen
