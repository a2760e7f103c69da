#include "runtime/recipe.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/driver_types.h"
#include "tegula/int_math.h"

namespace tegula::runtime {

std::uint32_t ArgumentLayout::add(std::uint32_t bytes, std::uint32_t alignment) {
  const std::uint32_t offset = round_up(total_, alignment);
  slots_.push_back({offset, bytes});
  total_ = offset + bytes;
  return offset;
}

std::uint32_t MachineArg::bytes() const {
  return component == ArgComponent::map ? sizeof(cu::TensorMap)
                                        : static_cast<std::uint32_t>(size_bytes(dtype));
}

bool LaunchRecipe::needs_counter() const {
  return std::ranges::find(args, ArgComponent::counter, &MachineArg::component) != args.end();
}

std::vector<ArgumentSlot> LaunchRecipe::slots() const {
  std::vector<ArgumentSlot> out;
  for (const MachineArg& a : args) out.push_back({a.offset, a.bytes()});
  return out;
}

std::string LaunchRecipe::str() const {
  std::string out = fmt::format("grid: {} steps\n", steps.size());
  for (const MachineArg& a : args)
    out += fmt::format("+{:<4} {} of argument {} axis {} as {}\n", a.offset,
                       kArgComponentNames[static_cast<std::size_t>(a.component)], a.arg, a.axis,
                       name(a.dtype));
  return out;
}

namespace {

/// The checks of one recipe; each function returns the fault, or "".
class RecipeCheck {
 public:
  explicit RecipeCheck(const LaunchRecipe& recipe) : r_(recipe) {}

  std::string fault() const {
    if (r_.steps.size() > LaunchRecipe::kMaxSteps) return "its grid program is too long";
    for (std::size_t i = 0; i < r_.steps.size(); ++i)
      if (!is_step_sound(r_.steps[i], i)) return fmt::format("step {} of its grid", i);
    for (const std::uint16_t extent : r_.grid)
      if (extent >= r_.steps.size()) return "an extent of its grid";
    if (r_.cluster < 1 || r_.cluster > kMaxCluster) return "its clusters";
    for (std::size_t i = 0; i < r_.maps.size(); ++i)
      if (!is_map_sound(r_.maps[i])) return fmt::format("tensor map {}", i);
    std::uint32_t end = 0;
    for (std::size_t i = 0; i < r_.args.size(); ++i) {
      if (!is_arg_sound(r_.args[i]) || r_.args[i].offset < end)
        return fmt::format("machine argument {}", i);
      end = r_.args[i].offset + r_.args[i].bytes();
    }
    return {};
  }

 private:
  static constexpr std::int64_t kMaxCluster = 16;

  bool is_tensor(std::size_t arg, std::size_t axis = 0) const {
    return arg < r_.ranks.size() && static_cast<std::int64_t>(axis) < r_.ranks[arg];
  }
  bool is_number(std::size_t arg) const {
    return arg < r_.ranks.size() && r_.ranks[arg] == LaunchRecipe::kNoTensor;
  }

  bool is_step_sound(const GridStep& s, std::size_t at) const {
    if (s.op == GridOp::constant) return true;
    if (s.op == GridOp::dim || s.op == GridOp::stride) return is_tensor(s.arg, s.axis);
    using enum GridOp;
    constexpr GridOp kNumbers[] = {scalar8, scalar16, scalar32, scalar64};
    if (std::ranges::count(kNumbers, s.op) > 0) return is_number(s.arg);
    return s.a < at && (s.b < at || s.op == GridOp::copy);
  }

  /// Checks the map itself; is_arg_sound checks axes and arguments at each use of the map.
  bool is_map_sound(const MapShape& m) const {
    if (m.map.rank < 1 || m.map.rank > codegen::kMaxTensorRank) return false;
    return std::ranges::all_of(m.bounds, [&](const MapBound& b) {
      const bool is_dim = b.dim < static_cast<std::size_t>(m.map.rank);
      return is_dim &&
             (b.arg < 0 || (b.value >= 0 && is_tensor(static_cast<std::size_t>(b.arg),
                                                      static_cast<std::size_t>(b.value))));
    });
  }

  bool is_arg_sound(const MachineArg& a) const {
    if (a.offset > kMaxBlockBytes || a.offset + a.bytes() > kMaxBlockBytes) return false;
    if (a.component == ArgComponent::counter) return true;
    if (a.component == ArgComponent::dim || a.component == ArgComponent::stride)
      return is_tensor(a.arg, a.axis);
    if (a.component == ArgComponent::value) return is_number(a.arg);
    if (a.component == ArgComponent::pointer) return a.arg < r_.ranks.size();
    if (a.map >= r_.maps.size()) return false;
    const MapShape& m = r_.maps[a.map];
    return std::ranges::all_of(m.order.begin(), m.order.begin() + m.map.rank,
                               [&](std::uint8_t axis) { return is_tensor(a.arg, axis); });
  }

  const LaunchRecipe& r_;
};

}  // namespace

std::string recipe_fault(const LaunchRecipe& recipe) { return RecipeCheck(recipe).fault(); }

}  // namespace tegula::runtime
