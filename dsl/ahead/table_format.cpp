// A table as bytes: a header with a checksum, what it holds as JSON, then the kernels, each an
// entry of the disk cache's format.
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "dsl/ahead/table.h"
#include "runtime/artefact_format.h"
#include "runtime/kernel_entry.h"
#include "support/errors.h"

namespace tegula::dsl {
namespace {

using nlohmann::json;

constexpr char kMagic[8] = {'T', 'E', 'G', 'U', 'L', 'A', 'A', '2'};

struct Header {
  char magic[8] = {};
  std::uint64_t bytes = 0;  ///< of all
  std::uint64_t text_bytes = 0;
  std::uint64_t hash = 0;  ///< of what follows
};

json fields_of(const detail::ParamInfo& info) {
  return {static_cast<int>(info.kind), static_cast<int>(info.dtype), info.rank,
          static_cast<int>(info.access), info.optional};
}
detail::ParamInfo info_of(const json& f) {
  detail::ParamInfo info;
  info.kind = static_cast<ParamKind>(f.at(0).get<int>());
  info.dtype = static_cast<DType>(f.at(1).get<int>());
  f.at(2).get_to(info.rank);
  info.access = static_cast<detail::ViewAccess>(f.at(3).get<int>());
  f.at(4).get_to(info.optional);
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
ArgClass class_of(const json& f) {
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
  for (const json& a : f.at("args")) c.args.push_back(class_of(a));
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
  m.from = static_cast<MadeTensor::From>(f.at(0).get<int>());
  f.at(1).get_to(m.of);
  m.shape = dims_of(f.at(2));
  m.dtype = static_cast<DType>(f.at(3).get<int>());
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

/// Throws where a slot is neither one of `params` nor one of the first `made` that the plan makes.
void check_slot(int slot, std::size_t params, std::size_t made) {
  const bool is_param = slot >= 0 && static_cast<std::size_t>(slot) < params;
  const bool is_made = slot >= slots::kMade && static_cast<std::size_t>(slot - slots::kMade) < made;
  if (!is_param && !is_made) throw std::runtime_error("an argument of no call");
}

CallPlan plan_of(const json& f, const Kernels& kernels, std::size_t params) {
  CallPlan plan;
  for (const json& m : f.at("made")) {
    plan.made.push_back(made_of(m));
    if (plan.made.size() > slots::kMaxOfEach) throw std::runtime_error("too many tensors");
    const MadeTensor& made = plan.made.back();
    if (made.from == MadeTensor::From::view) check_slot(made.of, params, plan.made.size() - 1);
  }
  f.at("scratch").get_to(plan.scratch_bytes);
  f.at("flags").get_to(plan.shares_flags);
  for (const json& s : f.at("steps")) {
    PlanStep& step = plan.steps.emplace_back();
    step.kernel = kernels.at(s.at(0).get<std::size_t>());
    for (const json& a : s.at(1)) {
      const int slot = a.at(0).get<int>();
      if (slot != -1) check_slot(slot, params, plan.made.size());
      step.args.push_back({slot, a.at(1).get<std::uint64_t>()});
    }
    if (step.args.size() != step.kernel->artefact().recipe.ranks.size())
      throw std::runtime_error("a launch with other arguments than its kernel's");
  }
  for (const json& a : f.at("apart")) {
    plan.apart.push_back({{a.at(0).get<int>(), a.at(1).get<int>()},
                          {a.at(2).get<std::size_t>(), a.at(3).get<std::size_t>()},
                          a.at(4).get<std::size_t>(),
                          a.at(5).get<std::string>(),
                          {}});
    for (const int slot : plan.apart.back().slot) check_slot(slot, params, plan.made.size());
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

/// The header; throws where it does not fit the bytes.
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
      throw std::runtime_error("a kernel behind its end");
    kernels.push_back(kernel_of(entries.substr(at, size)));
  }
  for (const json& c : all.at("calls")) {
    const auto number = c.at("callable").get<std::size_t>();
    if (number >= callables_.size()) throw std::runtime_error("a call of no callable");
    calls_.push_back({number, call_class_of(c.at("of")),
                      plan_of(c.at("plan"), kernels, callables_[number].params.size())});
  }
} catch (const std::exception& e) {
  fail(ErrorId::kernel_argument, {}, {}, "a table of kernels", "what was given",
       std::string("none: ") + e.what(), "one that the `tegula aot` of this library wrote");
}

}  // namespace tegula::dsl
