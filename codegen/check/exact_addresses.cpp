#include "codegen/check/exact_addresses.h"

#include <algorithm>
#include <span>

namespace tegula::codegen {

using namespace ir;

namespace {

constexpr std::size_t kMostOperands = 3;
constexpr std::int64_t kLanes = 32;

}  // namespace

/// Loops ask again and again.
bool ExactAddresses::do_touch(const Place& a, const Place& b) {
  const auto number = [](int n) { return static_cast<std::uint32_t>(n); };
  const Pair pair{a.op.index, number(a.part), number(a.group),
                  b.op.index, number(b.part), number(b.group)};
  const auto [it, is_new] = touching_.try_emplace(pair, false);
  if (is_new) it->second = find_touch(a, b);
  return it->second;
}

bool ExactAddresses::find_touch(const Place& a, const Place& b) {
  const auto x = bytes_of(a), y = bytes_of(b);
  if (!x || !y || (x->is_carried && y->is_carried)) return false;
  return std::ranges::any_of(x->spans, [&](const Span& s) {
    return std::ranges::any_of(y->spans, [&](const Span& t) { return s.overlaps(t); });
  });
}

std::optional<ExactAddresses::Bytes> ExactAddresses::bytes_of(const Place& p) {
  Bytes found;
  for (std::size_t t = p.threads._Find_first(); t < kMostThreads; t = p.threads._Find_next(t)) {
    thread_ = static_cast<std::int64_t>(t);
    known_.clear();
    is_carried_ = false;
    const Registers* at = of(p.address);
    if (!at) return std::nullopt;
    for (const Cell& c : *at) found.spans.push_back({c.i, c.i + p.size});
    found.is_carried = found.is_carried || is_carried_;
    if (p.use != Use::Write) break;  // the same in all of them
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
  switch (d.opcode) {
    case Opcode::Tid:
      return all(thread_);
    case Opcode::LaneId:
      return all(thread_ % kLanes);
    case Opcode::WarpId:
      return all(thread_ / kLanes);
    case Opcode::SmemBase:
    case Opcode::CtaRank:
      return all(0);
    case Opcode::Const:
      return all(d.attrs.i(AttrName::value));
    case Opcode::Concat:
    case Opcode::Regs:
      return gathered(d);
    default:
      return elementwise(d, t);
  }
}

/// What a loop begins with; its results are that where it has no round.
std::optional<ExactAddresses::Registers> ExactAddresses::first_of(Value v, const OpData& d) {
  const bool is_for = d.opcode == Opcode::For;
  if (!is_for && d.opcode != Opcode::While) return std::nullopt;
  is_carried_ = true;
  const std::size_t position = k_[v].position;
  const std::size_t first = is_for ? (k_[v].region ? 2 : 3) : 0;
  const bool is_number_of_round = is_for && k_[v].region && position == 0;
  const Registers* begin = of(d.operands[is_number_of_round ? 0 : first + position]);
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
  const ElementwiseFn fn = elementwise_fn(d.opcode);
  const std::size_t n = d.operands.size();
  if (!fn || n == 0 || n > kMostOperands) return std::nullopt;
  std::array<Elem, kMostOperands> in;
  std::array<const Cell*, kMostOperands> operands{};
  std::array<std::size_t, kMostOperands> strides{};
  for (std::size_t i = 0; i < n; ++i)
    if (!of(d.operands[i])) return std::nullopt;
  for (std::size_t i = 0; i < n; ++i) {
    const Registers* part = of(d.operands[i]);
    in[i] = k_.type(d.operands[i]).elem();
    operands[i] = part->data();
    strides[i] = part->size() == 1 ? 0 : 1;
  }
  Registers out(static_cast<std::size_t>(type.count()));
  std::vector<std::uint8_t> poison(out.size());
  fn({d.attrs, std::span(in).first(n), type.elem(), std::span(operands).first(n),
      std::span(strides).first(n), out.data(), out.size(), poison.data()});
  for (std::uint8_t p : poison)
    if (p != 0) return std::nullopt;
  return out;
}

}  // namespace tegula::codegen
