#include "runtime/store_sources.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>

namespace tegula::runtime {
namespace {

/// Returns "x at k.cpp:7:3, which is [90]"; "" for a view that is not a parameter.
std::string load_text(const ir::Kernel& k, std::span<const ir::EvalArg> args, ir::OpId load) {
  const auto& params = k.params();
  const auto param = std::ranges::find(params, k[load].operands[0], &ir::Param::value);
  const auto i = static_cast<std::size_t>(param - params.begin());
  if (param == params.end() || i >= args.size()) return {};
  const auto* tensor = std::get_if<ir::TensorArg>(&args[i]);
  if (!tensor) return {};
  const Loc at = k[load].loc;
  return fmt::format("{} at {}:{}:{}, which is [{}]", param->name, at.file, at.line, at.column,
                     fmt::join(tensor->dims, ", "));
}

/// Returns the loads from which the value is computed, the last one first.
std::vector<ir::OpId> loads_of(const ir::Kernel& k, ir::Value v) {
  std::vector<ir::OpId> loads;
  std::vector<ir::Value> left{v};
  std::unordered_set<ir::Value> seen;
  while (!left.empty()) {
    const ir::Value value = left.back();
    left.pop_back();
    const ir::OpId def = k[value].def;
    if (!seen.insert(value).second || !def) continue;
    if (k[def].opcode == ir::Opcode::LoadView) {
      if (std::ranges::find(loads, def) == loads.end()) loads.push_back(def);
      continue;
    }
    left.insert(left.end(), k[def].operands.begin(), k[def].operands.end());
    for (const ir::RegionId region : k[def].regions)
      if (const ir::OpId end = k.terminator(region))
        left.insert(left.end(), k[end].operands.begin(), k[end].operands.end());
  }
  return loads;
}

}  // namespace

std::vector<sim::StoreSource> store_sources(const ir::Kernel& tile,
                                            std::span<const ir::EvalArg> args, std::size_t i) {
  constexpr std::size_t kNamed = 3;
  std::vector<sim::StoreSource> stores;
  ir::walk(tile, tile.body(), [&](ir::OpId op) {
    const ir::OpData& d = tile[op];
    if (d.opcode != ir::Opcode::StoreView || d.operands[0] != tile.params()[i].value) return;
    std::vector<std::string> loads;
    for (const ir::OpId load : loads_of(tile, d.operands[1]))
      if (std::string text = load_text(tile, args, load); !text.empty() && loads.size() < kNamed)
        loads.push_back(std::move(text));
    stores.push_back({d.loc, fmt::format("{}", fmt::join(loads, "; "))});
  });
  return stores;
}

}  // namespace tegula::runtime
