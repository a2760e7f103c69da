// A table as bytes: a header with a checksum, what it holds as JSON, then the kernels, each an
// entry of the disk cache's format.
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

constexpr char kMagic[8] = {'T', 'E', 'G', 'U', 'L', 'A', 'A', '1'};

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

std::string entry_of(const AheadKernel& k) {
  runtime::CacheEntry entry;
  runtime::encode_artefact(k.kernel->artefact(), entry);
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
  json rows = json::array(), callables = json::array();
  std::string kernels;
  for (const AheadCallable& c : callables_) {
    json params = json::array();
    for (const ExportParam& p : c.params) params.push_back(fields_of(p));
    callables.push_back({{"name", c.name}, {"params", std::move(params)}});
  }
  for (const AheadKernel& k : kernels_) {
    json args = json::array();
    for (const ArgClass& a : k.of.args) args.push_back(fields_of(a));
    const std::string entry = entry_of(k);
    rows.push_back({{"callable", k.callable},
                    {"args", std::move(args)},
                    {"constants", k.of.constants},
                    {"wide", k.of.is_wide},
                    {"at", kernels.size()},
                    {"bytes", entry.size()}});
    kernels += entry;
  }
  const std::string text = json{
      {"artefact", runtime::kArtefactVersion},
      {"callables", std::move(callables)},
      {"kernels",
       std::move(rows)}}.dump();
  const std::string body = text + kernels;
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
    for (const json& p : c.at("params")) callable.params.push_back(param_of(p));
  }
  const std::string_view entries = bytes.substr(sizeof h + h.text_bytes);
  for (const json& row : all.at("kernels")) {
    AheadKernel k;
    row.at("callable").get_to(k.callable);
    if (k.callable >= callables_.size()) throw std::runtime_error("a kernel of no callable");
    for (const json& a : row.at("args")) k.of.args.push_back(class_of(a));
    row.at("constants").get_to(k.of.constants);
    row.at("wide").get_to(k.of.is_wide);
    const auto at = row.at("at").get<std::uint64_t>(), size = row.at("bytes").get<std::uint64_t>();
    if (at > entries.size() || size > entries.size() - at)
      throw std::runtime_error("a kernel behind its end");
    k.kernel = kernel_of(entries.substr(at, size));
    kernels_.push_back(std::move(k));
  }
} catch (const std::exception& e) {
  fail(ErrorId::kernel_argument, {}, {}, "a table of kernels", "what was given",
       std::string("none: ") + e.what(), "one that the `tegula aot` of this library wrote");
}

}  // namespace tegula::dsl
