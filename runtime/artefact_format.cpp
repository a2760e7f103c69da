#include "runtime/artefact_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "tegula/error.h"

namespace tegula::runtime {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AssembleReport, registers, spill_loads, spill_stores, stack,
                                   smem, barriers, tool_ms, warnings, codes, serialised,
                                   setmaxnreg_ignored)

namespace {

using nlohmann::json;

/// Returns a number of the file. Throws unless type T can represent it.
template <class T>
T number(const json& j) {
  const auto value = j.get<std::int64_t>();
  if (!j.is_number_integer() || value < static_cast<std::int64_t>(std::numeric_limits<T>::min()) ||
      value > static_cast<std::int64_t>(std::numeric_limits<T>::max()))
    throw InternalError(fmt::format("{} is out of range", value));
  return static_cast<T>(value);
}
template <>
std::int64_t number<std::int64_t>(const json& j) {
  return j.get<std::int64_t>();
}

/// Returns the position in `names` of a name of the file. Throws if it is not in the list.
template <class Names>
std::size_t named(const json& j, const Names& names) {
  const auto text = j.get<std::string>();
  const auto at = std::ranges::find(names, std::string_view(text));
  if (at == std::ranges::end(names)) throw InternalError(fmt::format("no '{}' is known", text));
  return static_cast<std::size_t>(at - std::ranges::begin(names));
}

ir::Target target_of_name(const json& j) {
  const auto target = ir::Target::find(j.get<std::string>());
  if (!target) throw InternalError("no such target");
  return *target;
}

DType dtype_of_name(const json& j) {
  const auto type = dtype_from_name(j.get<std::string>());
  if (!type) throw InternalError("no such element type");
  return *type;
}

template <class T, class Each>
std::vector<T> list_of(const json& j, const Each& each) {
  if (!j.is_array()) throw InternalError("no list");
  std::vector<T> out;
  for (const json& item : j) out.push_back(each(item));
  return out;
}

// ---- recipe

json fields_of(const GridStep& s) {
  return {kGridOpNames[static_cast<std::size_t>(s.op)], s.arg, s.axis, s.a, s.b, s.immediate};
}

GridStep step_of(const json& j) {
  GridStep s;
  s.op = static_cast<GridOp>(named(j.at(0), kGridOpNames));
  s.arg = number<std::uint8_t>(j.at(1)), s.axis = number<std::uint8_t>(j.at(2));
  s.a = number<std::uint16_t>(j.at(3)), s.b = number<std::uint16_t>(j.at(4));
  s.immediate = number<std::int64_t>(j.at(5));
  return s;
}

json fields_of(const MachineArg& a) {
  return {kArgComponentNames[static_cast<std::size_t>(a.component)],
          a.arg,
          a.axis,
          a.map,
          name(a.dtype),
          a.offset};
}

MachineArg arg_of(const json& j) {
  MachineArg a;
  a.component = static_cast<ArgComponent>(named(j.at(0), kArgComponentNames));
  a.arg = number<std::uint8_t>(j.at(1)), a.axis = number<std::uint8_t>(j.at(2));
  a.map = number<std::uint8_t>(j.at(3));
  a.dtype = dtype_of_name(j.at(4));
  a.offset = number<std::uint32_t>(j.at(5));
  return a;
}

json fields_of(const MapShape& m) {
  json bounds = json::array(), order = json::array(), box = json::array();
  for (const MapBound& b : m.bounds) bounds.push_back({b.dim, b.arg, b.value});
  for (int d = 0; d < m.map.rank; ++d) {
    order.push_back(m.order[static_cast<std::size_t>(d)]);
    box.push_back(m.map.box[d]);
  }
  return {{"tensor", m.tensor}, {"dtype", name(m.map.dtype)}, {"order", order},
          {"box", box},         {"swizzle", m.map.swizzle},   {"bounds", bounds}};
}

MapShape map_of(const json& j) {
  MapShape m;
  j.at("tensor").get_to(m.tensor);
  m.map.dtype = dtype_of_name(j.at("dtype"));
  const json &order = j.at("order"), &box = j.at("box");
  if (order.size() != box.size() || order.size() > codegen::kMaxTensorRank)
    throw InternalError("a tensor map with an impossible rank");
  m.map.rank = static_cast<std::int32_t>(order.size());
  for (std::size_t d = 0; d < order.size(); ++d) {
    m.order[d] = number<std::uint8_t>(order.at(d));
    m.map.box[d] = number<std::int32_t>(box.at(d));
  }
  m.map.swizzle = number<std::int32_t>(j.at("swizzle"));
  m.bounds = list_of<MapBound>(j.at("bounds"), [](const json& b) {
    return MapBound{number<std::uint8_t>(b.at(0)), number<std::int64_t>(b.at(1)),
                    number<std::int64_t>(b.at(2))};
  });
  return m;
}

json fields_of(const LaunchRecipe& r) {
  json steps = json::array(), args = json::array(), maps = json::array();
  for (const GridStep& s : r.steps) steps.push_back(fields_of(s));
  for (const MachineArg& a : r.args) args.push_back(fields_of(a));
  for (const MapShape& m : r.maps) maps.push_back(fields_of(m));
  return {{"ranks", r.ranks},     {"steps", steps}, {"grid", r.grid},
          {"cluster", r.cluster}, {"args", args},   {"maps", maps}};
}

LaunchRecipe recipe_of(const json& j) {
  LaunchRecipe r;
  r.ranks = list_of<std::int8_t>(j.at("ranks"), number<std::int8_t>);
  r.steps = list_of<GridStep>(j.at("steps"), step_of);
  for (std::size_t i = 0; i < 3; ++i) r.grid[i] = number<std::uint16_t>(j.at("grid").at(i));
  r.cluster = number<std::int64_t>(j.at("cluster"));
  r.args = list_of<MachineArg>(j.at("args"), arg_of);
  r.maps = list_of<MapShape>(j.at("maps"), map_of);
  if (const std::string fault = recipe_fault(r); !fault.empty()) throw InternalError(fault);
  return r;
}

// ---- artefact

constexpr std::string_view kBackends[] = {"llvm", "nvrtc"};
constexpr std::string_view kImages[] = {"none", "cubin", "ptx"};

/// Rejects the shape of a CTA that a launch would pass to the driver unchecked.
void check_shape(const Artefact& a) {
  constexpr int kMaxThreads = 1024, kMaxCluster = 16;
  constexpr std::uint32_t kMaxShared = 1 << 20;
  if (a.threads < 1 || a.threads > kMaxThreads || a.cluster < 1 || a.cluster > kMaxCluster ||
      a.shared_bytes > kMaxShared)
    throw InternalError("a CTA with an impossible shape");
}

}  // namespace

void encode_artefact(const Artefact& a, CacheEntry& entry) {
  const json fields = {{"name", a.name},
                       {"target", a.target.name()},
                       {"back end", kBackends[static_cast<std::size_t>(a.backend)]},
                       {"image", kImages[static_cast<std::size_t>(a.kind)]},
                       {"recipe", fields_of(a.recipe)},
                       {"threads", a.threads},
                       {"cluster", a.cluster},
                       {"shared_bytes", a.shared_bytes},
                       {"programmatic_launch", a.programmatic_launch},
                       {"persistent", a.persistent},
                       {"cooperative", a.cooperative},
                       {"mma", a.has_mma},
                       {"wgmma", a.has_wgmma},
                       {"schedule", a.schedule_text},
                       {"report", a.report}};
  entry.meta = fields.dump();
  entry.cubin.clear();
  if (a.kind == ImageKind::cubin) entry.cubin.assign(a.image.begin(), a.image.end());
  entry.ptx = a.code;
}

Artefact decode_artefact(const CacheEntry& entry) {
  const json j = json::parse(entry.meta);
  Artefact a;
  j.at("name").get_to(a.name);
  a.target = target_of_name(j.at("target"));
  a.backend = static_cast<Backend>(named(j.at("back end"), kBackends));
  const auto kind = static_cast<ImageKind>(named(j.at("image"), kImages));
  a.recipe = recipe_of(j.at("recipe"));
  a.threads = number<int>(j.at("threads"));
  a.cluster = number<int>(j.at("cluster"));
  a.shared_bytes = number<std::uint32_t>(j.at("shared_bytes"));
  check_shape(a);
  j.at("programmatic_launch").get_to(a.programmatic_launch);
  j.at("persistent").get_to(a.persistent);
  j.at("cooperative").get_to(a.cooperative);
  j.at("mma").get_to(a.has_mma);
  j.at("wgmma").get_to(a.has_wgmma);
  j.at("schedule").get_to(a.schedule_text);
  j.at("report").get_to(a.report);
  a.code = entry.ptx;
  if (kind != ImageKind::none) set_image(a, {entry.cubin.begin(), entry.cubin.end()});
  if (a.kind != kind || (kind != ImageKind::none && a.image.empty()))
    throw InternalError("no machine code");
  return a;
}

}  // namespace tegula::runtime
