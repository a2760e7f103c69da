// Follows pointers from the parameters to the accesses.
#include "codegen/sim/global_roots.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace tegula::sim {
namespace {

using ir::Opcode;
using ir::OpId;
using ir::Value;

/// One bit per parameter; the last bit represents further parameters and unknown addresses.
using Roots = std::uint64_t;
constexpr Roots kUnknown = Roots{1} << 63;

Roots bit_of(std::size_t param) { return param < 63 ? Roots{1} << param : kUnknown; }

class RootFinder {
 public:
  explicit RootFinder(const ir::Kernel& k) : k_(k) {
    for (std::size_t p = 0; p < k.params().size(); ++p)
      if (is_address(k.params()[p].value)) roots_[k.params()[p].value.index] = bit_of(p);
    do {
      changed_ = false;
      ir::walk(k, k.body(), [&](OpId op) { visit(op); });
    } while (changed_);
  }

  Roots of(Value v) const {
    const auto it = roots_.find(v.index);
    return it == roots_.end() || it->second == 0 ? kUnknown : it->second;
  }

 private:
  bool is_address(Value v) const {
    const ir::Type t = k_.type(v);
    if (t.is(ir::TypeKind::TensorMap)) return true;
    return (t.is_scalar() || t.is_vec()) && t.elem().pointer;
  }

  void visit(OpId op) {
    const ir::OpData& d = k_[op];
    Roots all = d.is(Opcode::LdGlobal, Opcode::LdShared) ? kUnknown : 0;
    for (const Value v : d.operands) all |= known(v);
    for (const ir::RegionId r : d.regions)
      if (const OpId yield = k_.terminator(r))
        for (const Value v : k_[yield].operands) all |= known(v);
    for (const Value v : d.results) give(v, all);
    for (const ir::RegionId r : d.regions)
      for (const Value v : k_[r].args) give(v, all);
  }

  Roots known(Value v) const {
    const auto it = roots_.find(v.index);
    return it == roots_.end() ? 0 : it->second;
  }

  void give(Value v, Roots more) {
    if (more == 0 || !is_address(v)) return;
    Roots& now = roots_[v.index];
    changed_ |= (now | more) != now;
    now |= more;
  }

  const ir::Kernel& k_;
  std::unordered_map<std::uint32_t, Roots> roots_;
  bool changed_ = false;
};

/// Summarizes the kernel's accesses to the memory of each parameter.
struct Accesses {
  Roots written = 0;
  std::vector<std::uint32_t> granules;  ///< smallest element size per parameter
  std::uint32_t by_address = 4;         ///< the same for memory that is not a parameter's

  Accesses(const ir::Kernel& k, std::span<const SimArg> args) : granules(k.params().size(), 4) {
    const RootFinder roots(k);
    ir::walk(k, k.body(), [&](OpId op) {
      const ir::OpData& d = k[op];
      using enum Opcode;
      const Opcode o = d.opcode;
      if (d.is(StGlobal, AtomGlobal, CasGlobal, TmaStore, TmaReduce))
        written |= roots.of(d.operands[0]);
      if (d.is(StGlobal, AtomGlobal, CasGlobal))
        touch(roots.of(d.operands[0]), k.type(d.operands[1]).elem());
      if (o == LdGlobal) touch(roots.of(d.operands[0]), k.type(d.results[0]).elem());
    });
    for (std::size_t p = 0; p < args.size(); ++p)
      if (const auto* map = std::get_if<const codegen::TensorMap*>(&args[p]); map && *map)
        touch(bit_of(p), {(*map)->dtype, false});
  }

  void touch(Roots roots, ir::Elem e) {
    const auto bytes = static_cast<std::uint32_t>(e.pointer ? 8 : size_bytes(e.dtype));
    if ((roots & kUnknown) != 0) by_address = std::min(by_address, bytes);
    for (std::size_t p = 0; p < granules.size(); ++p)
      if ((roots & (bit_of(p) | kUnknown)) != 0) granules[p] = std::min(granules[p], bytes);
  }

  bool writes(std::size_t param) const { return (written & (bit_of(param) | kUnknown)) != 0; }
};

std::uint64_t address_of(const SimArg& arg) {
  if (const auto* map = std::get_if<const codegen::TensorMap*>(&arg))
    return *map ? reinterpret_cast<std::uintptr_t>((*map)->base) : 0;
  const auto* n = std::get_if<std::int64_t>(&arg);
  return n ? static_cast<std::uint64_t>(*n) : 0;
}

}  // namespace

std::vector<WatchedRange> watched_ranges(const ir::Kernel& kernel, std::span<const SimArg> args,
                                         std::span<const GlobalRange> ranges) {
  const Accesses accesses(kernel, args);
  if (accesses.written == 0) return {};
  std::vector<WatchedRange> joined;
  for (const GlobalRange& r : ranges)
    if (r.begin != r.end)
      joined.push_back(
          {reinterpret_cast<std::uintptr_t>(r.begin), reinterpret_cast<std::uintptr_t>(r.end), 4});
  std::ranges::sort(joined, {}, &WatchedRange::begin);
  std::size_t n = 0;
  for (std::size_t i = 1; i < joined.size(); ++i) {
    if (joined[i].begin < joined[n].end)
      joined[n].end = std::max(joined[n].end, joined[i].end);
    else
      joined[++n] = joined[i];
  }
  if (!joined.empty()) joined.resize(n + 1);
  std::vector<WatchedRange> watched;
  for (WatchedRange& r : joined) {
    bool is_written = (accesses.written & kUnknown) != 0;
    if (is_written) r.granule = std::min(r.granule, accesses.by_address);
    for (std::size_t p = 0; p < args.size(); ++p) {
      const std::uint64_t address = address_of(args[p]);
      if (address < r.begin || address >= r.end) continue;
      is_written |= accesses.writes(p);
      r.granule = std::min(r.granule, accesses.granules[p]);
      // Elements are at multiples of their size from the address of the argument.
      r.granule = std::gcd(r.granule, static_cast<std::uint32_t>((address - r.begin) % 4));
    }
    if (is_written) watched.push_back(r);
  }
  return watched;
}

}  // namespace tegula::sim
