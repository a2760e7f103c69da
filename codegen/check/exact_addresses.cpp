#include "codegen/check/exact_addresses.h"

#include <algorithm>
#include <span>

#include "ir/eval/evaluate.h"
#include "ir/loop.h"

namespace tegula::codegen {

using namespace ir;

/// Caches its results, because the check of a loop repeats the query.
bool ExactAddresses::do_touch(const SmemAccess& a, const SmemAccess& b) {
  const auto number = [](int n) { return static_cast<std::uint32_t>(n); };
  const Pair pair{a.op.index, number(a.part), number(a.group),
                  b.op.index, number(b.part), number(b.group)};
  const auto [it, is_new] = touching_.try_emplace(pair, false);
  if (is_new) it->second = find_touch(a, b);
  return it->second;
}

bool ExactAddresses::find_touch(const SmemAccess& a, const SmemAccess& b) {
  const auto x = bytes_of(a), y = bytes_of(b);
  if (!x || !y || (x->is_carried && y->is_carried)) return false;
  return std::ranges::any_of(x->spans, [&](const ByteRange& s) {
    return std::ranges::any_of(y->spans, [&](const ByteRange& t) { return s.overlaps(t); });
  });
}

std::optional<ExactAddresses::Bytes> ExactAddresses::bytes_of(const SmemAccess& p) {
  Bytes found;
  for (std::size_t t = p.threads._Find_first(); t < kMaxThreads; t = p.threads._Find_next(t)) {
    thread_ = static_cast<std::int64_t>(t);
    known_.clear();
    is_carried_ = false;
    const Registers* registers = of(p.address);
    if (!registers) return std::nullopt;
    for (const Cell& c : *registers) found.spans.push_back({c.i, c.i + p.size});
    found.is_carried = found.is_carried || is_carried_;
    if (p.use != AccessKind::GenericWrite) break;  // the same address in all threads
  }
  return found;
}

const ExactAddresses::Registers* ExactAddresses::of(Value v) {
  auto it = known_.find(v);
  if (it == known_.end()) {
    auto made = compute(v);
    it = known_.insert_or_assign(v, std::move(made)).first;
  }
  return it->second ? &*it->second : nullptr;
}

std::optional<ExactAddresses::Registers> ExactAddresses::compute(Value v) {
  const Type t = k_.type(v);
  const bool is_number = (t.is_scalar() || t.is_vec()) && !t.is_pointer() && !is_float(t.dtype());
  const RegionId region = k_[v].region;
  const OpId op = region ? k_[region].owner : k_[v].def;
  if (!op || !is_number) return std::nullopt;
  const OpData& d = k_[op];
  if (!d.regions.empty()) return first_of(v, d);
  const auto all = [&](std::int64_t n) {
    return Registers(static_cast<std::size_t>(t.count()), Cell{.i = n});
  };
  if (d.opcode == Opcode::Const) return all(d.attrs.i(AttrName::value));
  if (d.is(Opcode::SmemBase, Opcode::CtaRank)) return all(0);
  if (const auto number = thread_number(d)) return all(number(static_cast<int>(thread_)));
  return d.is(Opcode::Concat, Opcode::Regs) ? gathered(d) : elementwise(d, t);
}

/// Returns the initial value of a loop's induction variable or carry. For a result of the loop,
/// that is the value if the loop runs no iteration.
std::optional<ExactAddresses::Registers> ExactAddresses::first_of(Value v, const OpData& d) {
  if (!is_loop(d)) return std::nullopt;
  is_carried_ = true;
  const auto merge = merge_of(k_, v);
  const Registers* begin = of(merge ? loop_inits(d)[merge->index] : d.operands[0]);
  return begin ? std::optional(*begin) : std::nullopt;
}

std::optional<ExactAddresses::Registers> ExactAddresses::gathered(const OpData& d) {
  Registers whole;
  for (Value o : d.operands) {
    const Registers* part = of(o);
    if (!part) return std::nullopt;
    whole.insert(whole.end(), part->begin(), part->end());
  }
  if (d.opcode == Opcode::Concat) return whole;
  Registers picked;
  for (std::int64_t i : d.attrs.ints(AttrName::indices))
    picked.push_back(whole[static_cast<std::size_t>(i)]);
  return picked;
}

std::optional<ExactAddresses::Registers> ExactAddresses::elementwise(const OpData& d, Type type) {
  if (!elementwise_fn(d.opcode)) return std::nullopt;
  std::vector<std::span<const Cell>> operands;
  for (Value o : d.operands)
    if (!of(o)) return std::nullopt;
  for (Value o : d.operands) operands.emplace_back(*of(o));
  Registers out(static_cast<std::size_t>(type.count()));
  return evaluate_elementwise(k_, d, operands, out) ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace tegula::codegen
