// Encodes a table as bytes: a header with a checksum, the contents as JSON, and the kernels, each
// as an entry in the format of the disk cache.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "dsl/ahead/table.h"
#include "runtime/artefact_format.h"
#include "runtime/kernel_entry.h"
#include "runtime/recipe.h"
#include "support/errors.h"
#include "tegula/prepare.h"
#include "tegula/scratch.h"

namespace tegula::dsl {
namespace {

using nlohmann::json;

constexpr char kMagic[8] = {'T', 'E', 'G', 'U', 'L', 'A', 'A', '2'};

struct Header {
  char magic[8] = {};
  std::uint64_t bytes = 0;  ///< total size
  std::uint64_t text_bytes = 0;
  std::uint64_t hash = 0;  ///< of the bytes that follow
};

/// Converts a number to an enumerator; throws if it is greater than the last one.
template <class Enum>
Enum enum_of(const json& f, Enum last) {
  const auto number = f.get<std::int64_t>();
  if (number < 0 || number > static_cast<std::int64_t>(last))
    throw std::runtime_error("an invalid number");
  return static_cast<Enum>(number);
}
DType dtype_of(const json& f) { return enum_of(f, static_cast<DType>(kDTypeCount - 1)); }

json fields_of(const detail::ParamInfo& info) {
  return {static_cast<int>(info.kind), static_cast<int>(info.dtype), info.rank,
          static_cast<int>(info.access), info.optional};
}
detail::ParamInfo info_of(const json& f) {
  detail::ParamInfo info;
  info.kind = enum_of(f.at(0), ParamKind::Constant);
  info.dtype = dtype_of(f.at(1));
  f.at(2).get_to(info.rank);
  info.access = enum_of(f.at(3), detail::ViewAccess::InOut);
  f.at(4).get_to(info.optional);
  if (info.rank < 0 || info.rank > Dims::kMaxRank) throw std::runtime_error("a rank of no tensor");
  return info;
}

json fields_of(const ExportParam& p) {
  return {{"info", fields_of(p.info)}, {"any", p.any_dtype}, {"name", p.name}, {"dims", p.dims}};
}
ExportParam param_of(const json& f) {
  return {info_of(f.at("info")), f.at("any").get<bool>(), f.at("name").get<std::string>(),
          f.at("dims").get<std::string>()};
}

json fields_of(const ArgClass& a) {
  json dims = json::array();
  for (const DimClass& d : a.dims)
    dims.push_back({d.div, d.stride_div, d.unit_stride, d.fixed, d.bucket});
  return {{"info", fields_of(a.info)},
          {"align", a.align},
          {"empty", a.empty},
          {"absent", a.absent},
          {"dims", std::move(dims)}};
}
ArgClass arg_class_of(const json& f) {
  ArgClass a;
  a.info = info_of(f.at("info"));
  f.at("align").get_to(a.align);
  f.at("empty").get_to(a.empty);
  f.at("absent").get_to(a.absent);
  const json& dims = f.at("dims");
  for (std::size_t i = 0; i < a.dims.size(); ++i) {
    const json& d = dims.at(i);
    a.dims[i] = {d.at(0).get<std::uint8_t>(), d.at(1).get<std::uint8_t>(), d.at(2).get<bool>(),
                 d.at(3).get<std::int64_t>(), d.at(4).get<std::int64_t>()};
    if (a.dims[i].div == 0 || a.dims[i].stride_div == 0) throw std::runtime_error("a class of 0");
  }
  if (a.align == 0) throw std::runtime_error("an alignment of 0");
  return a;
}

json fields_of(const Dims& dims) { return std::vector<std::int64_t>(dims.begin(), dims.end()); }
Dims dims_of(const json& f) {
  Dims dims;
  for (const json& d : f) dims.push_back(d.get<std::int64_t>());
  return dims;
}

json fields_of(const AheadClass& c) {
  json args = json::array(), strides = json::array();
  for (const ArgClass& a : c.args) args.push_back(fields_of(a));
  for (const Dims& d : c.strides) strides.push_back(fields_of(d));
  return {{"args", std::move(args)},
          {"constants", c.constants},
          {"wide", c.is_wide},
          {"strides", std::move(strides)}};
}
AheadClass call_class_of(const json& f) {
  AheadClass c;
  for (const json& a : f.at("args")) c.args.push_back(arg_class_of(a));
  f.at("constants").get_to(c.constants);
  f.at("wide").get_to(c.is_wide);
  for (const json& d : f.at("strides")) c.strides.push_back(dims_of(d));
  return c;
}

json fields_of(const MadeTensor& m) {
  return {static_cast<int>(m.from),  m.of,     fields_of(m.shape),
          static_cast<int>(m.dtype), m.offset, fields_of(m.strides)};
}
MadeTensor made_of(const json& f) {
  MadeTensor m;
  m.from = enum_of(f.at(0), MadeTensor::From::fallback_flags);
  f.at(1).get_to(m.of);
  m.shape = dims_of(f.at(2));
  m.dtype = dtype_of(f.at(3));
  f.at(4).get_to(m.offset);
  m.strides = dims_of(f.at(5));
  return m;
}

using Kernels = std::vector<std::shared_ptr<const runtime::CompiledKernel>>;

json fields_of(const CallPlan& plan, const Kernels& kernels) {
  json made = json::array(), steps = json::array(), apart = json::array();
  for (const MadeTensor& m : plan.made) made.push_back(fields_of(m));
  for (const PlanStep& step : plan.steps) {
    json args = json::array();
    for (const StepArg& a : step.args) args.push_back({a.slot, a.bits});
    steps.push_back({std::ranges::find(kernels, step.kernel) - kernels.begin(), std::move(args)});
  }
  for (const ApartArguments& a : plan.apart)
    apart.push_back({a.slot[0], a.slot[1], a.position[0], a.position[1], a.written, a.kernel});
  return {{"made", std::move(made)},
          {"scratch", plan.scratch_bytes},
          {"flags", plan.shares_flags},
          {"steps", std::move(steps)},
          {"apart", std::move(apart)}};
}

/// The ranks of the tensors in the slots of the plan that is being decoded; kNoTensor for numbers,
/// addresses and omitted tensors.
class SlotRanks {
 public:
  static constexpr int kNoTensor = runtime::LaunchRecipe::kNoTensor;

  SlotRanks(const AheadCallable& callable, const AheadClass& of) {
    auto given = of.args.begin();
    for (const ExportParam& p : callable.params) {
      const ParamKind kind = p.info.kind;
      params_.push_back(kNoTensor);
      if (kind == ParamKind::Constant || (kind == ParamKind::Scalar && !callable.is_kernel))
        continue;
      if (given == of.args.end()) throw std::runtime_error("a class of too few arguments");
      // A kernel's pointer argument may be given without a tensor.
      const bool may_be_tensor =
          kind == ParamKind::View || (kind == ParamKind::Pointer && !callable.is_kernel);
      if (may_be_tensor && !given->absent) params_.back() = given->info.rank;
      ++given;
    }
    if (given != of.args.end()) throw std::runtime_error("a class of too many arguments");
  }
  void add_made(std::size_t rank) {
    made_.push_back(static_cast<int>(rank));
    if (made_.size() > slots::kMaxOfEach) throw std::runtime_error("too many tensors");
  }
  /// Returns the rank for a slot. Throws if the slot is neither a parameter nor a tensor that the
  /// plan has made earlier.
  int at(int slot) const {
    if (slot >= 0 && std::cmp_less(slot, params_.size()))
      return params_[static_cast<std::size_t>(slot)];
    if (slot >= slots::kMade && std::cmp_less(slot - slots::kMade, made_.size()))
      return made_[static_cast<std::size_t>(slot - slots::kMade)];
    throw std::runtime_error("an argument of no call");
  }

 private:
  std::vector<int> params_, made_;
};

/// Decodes the tensors that the plan makes. Validates their sizes, because calls use their memory
/// without further checks.
void read_made(const json& f, CallPlan& plan, SlotRanks& slots) {
  using From = MadeTensor::From;
  f.at("scratch").get_to(plan.scratch_bytes);
  f.at("flags").get_to(plan.shares_flags);
  std::size_t left = plan.scratch_bytes;
  for (const json& m : f.at("made")) {
    const MadeTensor& made = plan.made.emplace_back(made_of(m));
    described(made.shape, made.dtype, Device::cuda(), made.strides);  // throws if it is invalid
    if (made.from == From::view && slots.at(made.of) == SlotRanks::kNoTensor)
      throw std::runtime_error("a view of no tensor");
    if (made.from == From::counters && made.shape.size() != 1)
      throw std::runtime_error("counters of no shape");
    if (made.from == From::fallback_flags && !plan.shares_flags)
      throw std::runtime_error("flags that are not locked");
    const std::size_t bytes =
        made.from == From::scratch ? Scratch::bytes_of(made.shape, made.dtype) : 0;
    if (bytes > left) throw std::runtime_error("too little scratch memory");
    left -= bytes;
    slots.add_made(made.shape.size());
  }
}

/// Returns true if a launch reads extents, strides or a tensor map of the argument.
bool reads_tensor(const runtime::LaunchRecipe& recipe, std::size_t arg) {
  using runtime::ArgComponent, runtime::GridOp;
  const auto of_step = [&](const runtime::GridStep& s) {
    return s.arg == arg && (s.op == GridOp::dim || s.op == GridOp::stride);
  };
  const auto of_value = [&](const runtime::MachineArg& a) {
    return a.arg == arg &&
           (a.component == ArgComponent::dim || a.component == ArgComponent::stride ||
            a.component == ArgComponent::map);
  };
  const auto of_map = [&](const runtime::MapShape& m) {
    return std::ranges::any_of(
        m.bounds, [&](const runtime::MapBound& b) { return std::cmp_equal(b.arg, arg); });
  };
  return std::ranges::any_of(recipe.steps, of_step) || std::ranges::any_of(recipe.args, of_value) ||
         std::ranges::any_of(recipe.maps, of_map);
}

PlanStep step_of(const json& f, const Kernels& kernels, const SlotRanks& slots) {
  PlanStep step;
  step.kernel = kernels.at(f.at(0).get<std::size_t>());
  const runtime::LaunchRecipe& recipe = step.kernel->artefact().recipe;
  for (const json& a : f.at(1))
    step.args.push_back({a.at(0).get<int>(), a.at(1).get<std::uint64_t>()});
  if (step.args.size() != recipe.ranks.size() || step.args.size() > CallArgs::kMax)
    throw std::runtime_error("a launch with other arguments than its kernel's");
  for (std::size_t i = 0; i < step.args.size(); ++i) {
    const int slot = step.args[i].slot;
    const int rank = slot == -1 ? SlotRanks::kNoTensor : slots.at(slot);
    if (rank != recipe.ranks[i] && reads_tensor(recipe, i))
      throw std::runtime_error("an argument of another rank than its kernel's");
  }
  return step;
}

CallPlan plan_of(const json& f, const Kernels& kernels, SlotRanks slots) {
  CallPlan plan;
  read_made(f, plan, slots);
  for (const json& s : f.at("steps")) plan.steps.push_back(step_of(s, kernels, slots));
  for (const json& a : f.at("apart")) {
    plan.apart.push_back({{a.at(0).get<int>(), a.at(1).get<int>()},
                          {a.at(2).get<std::size_t>(), a.at(3).get<std::size_t>()},
                          a.at(4).get<std::size_t>(),
                          a.at(5).get<std::string>(),
                          {}});
    for (const int slot : plan.apart.back().slot) slots.at(slot);
  }
  return plan;
}

std::string entry_of(const runtime::CompiledKernel& k) {
  runtime::CacheEntry entry;
  runtime::encode_artefact(k.artefact(), entry);
  return runtime::encode_entry({}, entry);
}

std::shared_ptr<const runtime::CompiledKernel> kernel_of(std::string_view bytes) {
  const runtime::ReadResult read = runtime::decode_entry(bytes, {});
  if (read.state != runtime::ReadStatus::ok) throw std::runtime_error("a kernel: " + read.why);
  runtime::Compilation of;
  of.device = Device::cuda();
  return std::make_shared<const runtime::CompiledKernel>(std::move(of),
                                                         runtime::decode_artefact(read.entry));
}

std::uint64_t checksum_of(std::string_view bytes) { return hash128(bytes).low; }

/// Returns the header; throws if it does not match the bytes.
Header header_of(std::string_view bytes) {
  Header h;
  if (bytes.size() < sizeof h) throw std::runtime_error("it is too short");
  std::memcpy(&h, bytes.data(), sizeof h);
  if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0)
    throw std::runtime_error("it is not one, or one of another version");
  if (h.bytes != bytes.size() || h.text_bytes > bytes.size() - sizeof h)
    throw std::runtime_error("it is truncated or extended");
  if (h.hash != checksum_of(bytes.substr(sizeof h)))
    throw std::runtime_error("its checksum differs");
  return h;
}

}  // namespace

std::string AheadTable::encode() const {
  json calls = json::array(), callables = json::array(), rows = json::array();
  std::string entries;
  for (const AheadCallable& c : callables_) {
    json params = json::array();
    for (const ExportParam& p : c.params) params.push_back(fields_of(p));
    callables.push_back({{"name", c.name}, {"params", std::move(params)}, {"kernel", c.is_kernel}});
  }
  const Kernels all = kernels();
  for (const auto& kernel : all) {
    const std::string entry = entry_of(*kernel);
    rows.push_back({entries.size(), entry.size()});
    entries += entry;
  }
  for (const AheadCall& c : calls_)
    calls.push_back(
        {{"callable", c.callable}, {"of", fields_of(c.of)}, {"plan", fields_of(c.plan, all)}});
  const std::string text = json{
      {"artefact", runtime::kArtefactVersion},
      {"callables", std::move(callables)},
      {"kernels", std::move(rows)},
      {"calls",
       std::move(calls)}}.dump();
  const std::string body = text + entries;
  Header h;
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.bytes = sizeof h + body.size();
  h.text_bytes = text.size();
  h.hash = checksum_of(body);
  return std::string(reinterpret_cast<const char*>(&h), sizeof h) + body;
}

AheadTable::AheadTable(std::string_view bytes) try {
  const Header h = header_of(bytes);
  const json all = json::parse(bytes.substr(sizeof h, h.text_bytes));
  if (all.at("artefact").get<int>() != runtime::kArtefactVersion)
    throw std::runtime_error("its kernels are those of another version of the library");
  for (const json& c : all.at("callables")) {
    AheadCallable& callable = callables_.emplace_back();
    c.at("name").get_to(callable.name);
    c.at("kernel").get_to(callable.is_kernel);
    for (const json& p : c.at("params")) callable.params.push_back(param_of(p));
    if (callable.params.size() > slots::kMaxOfEach) throw std::runtime_error("too many parameters");
    if (callable.is_kernel) callable.equal = equal_dims_of(callable.params);
  }
  const std::string_view entries = bytes.substr(sizeof h + h.text_bytes);
  Kernels kernels;
  for (const json& row : all.at("kernels")) {
    const auto at = row.at(0).get<std::uint64_t>(), size = row.at(1).get<std::uint64_t>();
    if (at > entries.size() || size > entries.size() - at)
      throw std::runtime_error("a kernel after its end");
    kernels.push_back(kernel_of(entries.substr(at, size)));
  }
  for (const json& c : all.at("calls")) {
    const auto number = c.at("callable").get<std::size_t>();
    if (number >= callables_.size()) throw std::runtime_error("a call of no callable");
    AheadClass of = call_class_of(c.at("of"));
    CallPlan plan = plan_of(c.at("plan"), kernels, SlotRanks(callables_[number], of));
    calls_.push_back({number, std::move(of), std::move(plan)});
  }
} catch (const std::exception& e) {
  fail(ErrorId::kernel_argument, {}, {}, "a table of kernels", "the bytes",
       fmt::format("used: {}", e.what()), "one that the `tegula aot` of this library wrote");
}

}  // namespace tegula::dsl
