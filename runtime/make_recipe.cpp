#include "runtime/make_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "runtime/driver_types.h"
#include "tegula/error.h"

namespace tegula::runtime {
namespace {

using ir::AttrName;
using ir::Opcode;

constexpr std::uint32_t kTensorMapAlignment = 64;  // bytes, as a kernel parameter

struct OpRow {
  Opcode opcode;
  GridOp op;
};
constexpr OpRow kOpRows[] = {
    {Opcode::Const, GridOp::constant},    {Opcode::ViewDim, GridOp::dim},
    {Opcode::ViewStride, GridOp::stride}, {Opcode::Add, GridOp::add},
    {Opcode::Sub, GridOp::sub},           {Opcode::Mul, GridOp::mul},
    {Opcode::Div, GridOp::div},           {Opcode::Rem, GridOp::rem},
    {Opcode::Min, GridOp::min},           {Opcode::Max, GridOp::max},
    {Opcode::Cast, GridOp::copy},
};

/// Returns the op that reads a scalar argument, whose upper bytes are zero.
GridOp scalar_of(DType d) {
  if (d == DType::i8) return GridOp::scalar8;
  if (d == DType::i16) return GridOp::scalar16;
  return d == DType::i32 ? GridOp::scalar32 : GridOp::scalar64;
}

/// Translates the ops of a launch region to steps.
class GridCompiler {
 public:
  GridCompiler(const ir::Kernel& tile, LaunchRecipe& recipe) : tile_(tile), recipe_(recipe) {}

  void op(ir::OpId id) {
    const ir::OpData& d = tile_[id];
    if (d.opcode == Opcode::Yield) {
      for (std::size_t i = 0; i < 3; ++i) recipe_.grid[i] = operand(d.operands[i]);
      return;
    }
    const auto row = std::ranges::find(kOpRows, d.opcode, &OpRow::opcode);
    if (row == std::end(kOpRows))
      throw InternalError(fmt::format("launch region: {} is not evaluated on the host",
                                      ir::info(d.opcode).mnemonic));
    GridStep s;
    s.op = row->op;
    if (d.opcode == Opcode::Const) s.immediate = d.attrs.i(AttrName::value);
    if (d.opcode == Opcode::ViewDim || d.opcode == Opcode::ViewStride) {
      s.arg = param_index(d.operands[0]);
      s.axis = static_cast<std::uint8_t>(d.attrs.i(AttrName::axis));
    } else {
      if (!d.operands.empty()) s.a = operand(d.operands[0]);
      if (d.operands.size() > 1) s.b = operand(d.operands[1]);
    }
    push(d.results[0], s);
  }

 private:
  std::uint8_t param_index(ir::Value v) const {
    for (std::size_t i = 0; i < tile_.params().size(); ++i)
      if (tile_.params()[i].value == v) return static_cast<std::uint8_t>(i);
    throw InternalError("launch region uses a value that is not a parameter");
  }

  /// Returns the step of an operand. A scalar parameter is read as its integer value.
  std::uint16_t operand(ir::Value v) {
    if (const auto it = at_.find(v); it != at_.end()) return it->second;
    GridStep load;
    load.arg = param_index(v);
    load.op = scalar_of(tile_.type(v).dtype());
    return push(v, load);
  }

  std::uint16_t push(ir::Value v, const GridStep& s) {
    if (recipe_.steps.size() >= LaunchRecipe::kMaxSteps)
      throw InternalError("launch region is too long");
    recipe_.steps.push_back(s);
    return at_[v] = static_cast<std::uint16_t>(recipe_.steps.size() - 1);
  }

  const ir::Kernel& tile_;
  LaunchRecipe& recipe_;
  std::unordered_map<ir::Value, std::uint16_t> at_;
};

/// Lists the machine arguments in the order of the simt form's parameters.
class ArgLister {
 public:
  ArgLister(const ir::Kernel& tile, const ir::Kernel& simt, LaunchRecipe& recipe)
      : tile_(tile), simt_(simt), recipe_(recipe) {}

  void add(const ir::Param& p) {
    const auto text = std::ranges::find(kArgComponentNames, p.attrs.s(AttrName::component));
    if (text == std::end(kArgComponentNames))
      throw InternalError(
          fmt::format("parameter {} has component '{}'", p.name, p.attrs.s(AttrName::component)));
    MachineArg a;
    a.component = static_cast<ArgComponent>(text - std::begin(kArgComponentNames));
    check_argument(p, a.component);
    a.arg = static_cast<std::uint8_t>(p.attrs.i(AttrName::arg));
    const ir::Type t = simt_.type(p.value);
    if (a.component == ArgComponent::map) {
      a.dtype = tile_.type(tile_.params()[a.arg].value).dtype();
      a.map = add_map(p.attrs, a);
    } else {
      a.axis = static_cast<std::uint8_t>(p.attrs.i(AttrName::axis));
      a.dtype = t.is_pointer() ? DType::u64 : t.dtype();
    }
    a.offset =
        layout_.add(a.bytes(), a.component == ArgComponent::map ? kTensorMapAlignment : a.bytes());
    recipe_.args.push_back(a);
  }

 private:
  void check_argument(const ir::Param& p, ArgComponent component) const {
    if (component == ArgComponent::counter) return;
    const bool has_axis = component == ArgComponent::dim || component == ArgComponent::stride;
    const std::int64_t arg = p.attrs.i(AttrName::arg), axis = p.attrs.i(AttrName::axis);
    const bool known = arg >= 0 && arg < std::ssize(tile_.params());
    const ir::Type of =
        known ? tile_.type(tile_.params()[static_cast<std::size_t>(arg)].value) : ir::Type();
    if (!known || (has_axis && (!of.is_view() || axis < 0 || axis >= of.rank())))
      throw InternalError(fmt::format("parameter {} is of no argument", p.name));
  }

  std::uint8_t add_map(const ir::AttrList& attrs, const MachineArg& a) {
    const auto order = attrs.ints(AttrName::order), box = attrs.ints(AttrName::box);
    if (order.size() > codegen::kMaxTensorRank || box.size() != order.size())
      throw InternalError("a tensor map with an impossible rank");
    MapShape shape;
    shape.tensor = tile_.params()[a.arg].name;
    shape.map.dtype = a.dtype;
    shape.map.rank = static_cast<std::int32_t>(order.size());
    shape.map.swizzle = static_cast<std::int32_t>(attrs.i(AttrName::swizzle));
    for (std::size_t d = 0; d < order.size(); ++d) {
      shape.order[d] = static_cast<std::uint8_t>(order[d]);
      shape.map.box[d] = static_cast<std::int32_t>(box[d]);
    }
    const auto clips = attrs.ints(AttrName::map_bounds);
    for (std::size_t i = 0; i + 2 < clips.size(); i += 3) {
      const auto at = std::ranges::find(order, clips[i]) - order.begin();
      shape.bounds.push_back({static_cast<std::size_t>(at), clips[i + 1], clips[i + 2]});
    }
    recipe_.maps.push_back(std::move(shape));
    return static_cast<std::uint8_t>(recipe_.maps.size() - 1);
  }

  const ir::Kernel& tile_;
  const ir::Kernel& simt_;
  LaunchRecipe& recipe_;
  ArgumentLayout layout_;
};

}  // namespace

bool is_grid_op(ir::Opcode opcode) {
  return std::ranges::find(kOpRows, opcode, &OpRow::opcode) != std::end(kOpRows);
}

LaunchRecipe grid_recipe(const ir::Kernel& tile) {
  LaunchRecipe r;
  for (const ir::Param& p : tile.params()) {
    const ir::Type t = tile.type(p.value);
    r.ranks.push_back(t.is_view() ? static_cast<std::int8_t>(t.rank()) : LaunchRecipe::kNoTensor);
  }
  GridCompiler compiler(tile, r);
  for (ir::OpId op : tile.ops(tile.launch())) compiler.op(op);
  return r;
}

LaunchRecipe make_recipe(const ir::Kernel& tile, const ir::Kernel& simt) {
  LaunchRecipe r = grid_recipe(tile);
  // The grid counts the CTAs of a kernel in clusters, but the tiles of a persistent kernel.
  if (simt.info.persistent) r.cluster = simt.info.cluster;
  ArgLister lister(tile, simt, r);
  for (const ir::Param& p : simt.params()) lister.add(p);
  if (const std::string fault = recipe_fault(r); !fault.empty())
    throw InternalError(fmt::format("the launch recipe of kernel {}: {}", tile.info.name, fault));
  return r;
}

}  // namespace tegula::runtime
