#include "ir/eval/absent_loads.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "ir/access.h"
#include "ir/analysis/affine_index.h"
#include "ir/analysis/index_facts.h"
#include "ir/eval/program.h"
#include "ir/loop.h"

namespace tegula::ir {
namespace {

/// Returns the loads from which the value is computed, in the order of the source.
std::vector<OpId> loads_of(const Kernel& k, Value v) {
  std::vector<OpId> loads;
  std::vector<Value> left{v};
  std::unordered_set<Value> seen;
  while (!left.empty()) {
    const Value value = left.back();
    left.pop_back();
    if (!seen.insert(value).second) continue;
    if (const auto merge = merge_of(k, value))
      for (const Value from : incoming_values(k, *merge)) left.push_back(from);
    const OpId def = k[value].def;
    if (!def || !k[def].regions.empty()) continue;
    if (k[def].opcode == Opcode::LoadView)
      loads.push_back(def);
    else
      left.insert(left.end(), k[def].operands.begin(), k[def].operands.end());
  }
  std::ranges::sort(loads, {}, [&](OpId op) { return std::pair(k[op].loc.line, op.index); });
  return loads;
}

/// Returns true if the load reads the position of the stored element along some dimension, and its
/// view does not have it.
bool lacks(const Kernel& k, OpId load, const TensorArg& tensor, OpId store,
           std::span<const std::int64_t> index) {
  const BoxAccess from = access_of(k, k[load]), to = access_of(k, k[store]);
  for (std::size_t axis = 0; axis < tensor.dims.size(); ++axis) {
    if (from.axes[axis].is_gathered()) continue;
    for (std::size_t d = 0; d < index.size(); ++d) {
      const Value target = to.axes[d].offset;
      if (to.axes[d].is_gathered() || constant_value(k, target)) continue;
      const auto apart = difference(k, expanded(k, from.axes[axis].offset), expanded(k, target));
      if (!apart || !apart->is_number()) continue;
      const std::int64_t element = index[d] + apart->constant;
      if (element < 0 || element >= tensor.dims[axis]) return true;
    }
  }
  return false;
}

std::string absent_loads(const Kernel& k, std::span<const EvalArg> args, OpId store,
                         std::span<const std::int64_t> index) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> found;
  for (const OpId load : loads_of(k, k[store].operands[1])) {
    const auto param = std::ranges::find(k.params(), k[load].operands[0], &Param::value);
    const auto i = static_cast<std::size_t>(param - k.params().begin());
    if (i >= args.size() || found.size() == kNamed) continue;
    const auto* tensor = std::get_if<TensorArg>(&args[i]);
    if (!tensor || !lacks(k, load, *tensor, store, index)) continue;
    const Loc loc = k[load].loc;
    std::string text = fmt::format("{} at {}:{}:{}, which is [{}]", param->name, loc.file, loc.line,
                                   loc.column, fmt::join(tensor->dims, ", "));
    if (std::ranges::find(found, text) == found.end()) found.push_back(std::move(text));
  }
  return fmt::format("{}{}", found.empty() ? "" : ": ", fmt::join(found, "; "));
}

}  // namespace

std::string left_out(const Kernel& k, std::span<const EvalArg> args, OpId store,
                     std::string_view name, std::span<const std::int64_t> index) {
  return fmt::format("the store at {} leaves out {}[{}], as its value is absent there{}",
                     interp::str(k[store].loc), name, fmt::join(index, ", "),
                     absent_loads(k, args, store, index));
}

}  // namespace tegula::ir
