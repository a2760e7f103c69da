#include "autotune/worker/messages.h"

#include <utility>

#include "ir/text.h"
#include "runtime/artefact_format.h"
#include "tegula/error.h"

namespace tegula::autotune {
namespace {

using nlohmann::json;

constexpr std::int64_t kAlignment = 256;  // of driver allocations

std::vector<std::int64_t> list_of(const Dims& dims) { return {dims.begin(), dims.end()}; }

Dims dims_of(const json& list) {
  const auto values = list.get<std::vector<std::int64_t>>();
  return Dims(std::span(values));
}

Tensor host_bytes(const void* data, std::size_t bytes) {
  return Tensor::borrow(const_cast<void*>(data), {static_cast<std::int64_t>(bytes)}, DType::u8,
                        Device::cpu());
}

json fields_of(const MeasuredArg& a) {
  json out = {a.tensor, a.is_address, a.bits, a.made};
  if (a.view)
    out.push_back({a.view->first, static_cast<int>(a.view->dtype), list_of(a.view->shape),
                   list_of(a.view->strides)});
  return out;
}

MeasuredArg arg_of(const json& fields) {
  MeasuredArg a{fields.at(0).get<int>(), fields.at(1).get<bool>(),
                fields.at(2).get<std::uint64_t>(), fields.at(3).get<int>()};
  if (fields.size() > 4) {
    const json& v = fields.at(4);
    a.view = {v.at(0).get<std::int64_t>(), static_cast<DType>(v.at(1).get<int>()), dims_of(v.at(2)),
              dims_of(v.at(3))};
  }
  return a;
}

MeasuredLaunch launch_of(const json& fields, const std::string& bytes, Device device) {
  const runtime::ReadResult read = runtime::decode_entry(bytes, {});
  if (read.state != runtime::ReadStatus::ok) throw InternalError("a kernel arrived damaged");
  runtime::Compilation of;
  of.device = device;
  if (const auto tile = fields.find("tile"); tile != fields.end()) {
    of.tile = ir::parse(tile->get<std::string>(), "a kernel that is tuned");
    of.simt_text = fields.at("simt").get<std::string>();
  }
  MeasuredLaunch out;
  out.kernel = std::make_shared<const runtime::CompiledKernel>(
      std::move(of), runtime::decode_artefact(read.entry));
  if (const auto args = fields.find("args"); args != fields.end())
    for (const json& a : *args) out.args.push_back(arg_of(a));
  return out;
}

Verdict verdict_of(const json& fields) {
  const int verdict = fields.at("verdict").get<int>();
  if (verdict < 0 || verdict > static_cast<int>(Verdict::timeout))
    throw WorkerLost{"an answer with an unknown verdict"};
  return static_cast<Verdict>(verdict);
}

}  // namespace

WorkerMessage tensor_request(const MeasuredTensor& t, const Stream& stream) {
  const ByteRange range = t.tensor.byte_range();
  WorkerMessage out;
  out.fields = {{"op", "tensor"},
                {"dtype", static_cast<int>(t.tensor.dtype())},
                {"shape", list_of(t.tensor.shape())},
                {"strides", list_of(t.tensor.strides())},
                {"access", static_cast<int>(t.access)},
                {"position", t.position},
                {"bytes", range.end - range.begin},
                {"phase", range.begin % kAlignment},
                {"first", reinterpret_cast<std::uintptr_t>(t.tensor.data()) - range.begin}};
  if (t.access == detail::ViewAccess::Out || t.tensor.numel() == 0) return out;
  out.blob.resize(range.end - range.begin);
  host_bytes(out.blob.data(), out.blob.size()).copy_from(bytes_in(t.tensor), stream);
  return out;
}

MeasuredTensor tensor_of(const WorkerMessage& request, const Stream& stream) {
  const json& f = request.fields;
  const auto bytes = f.at("bytes").get<std::int64_t>(), phase = f.at("phase").get<std::int64_t>();
  const auto owner =
      std::make_shared<Tensor>(Tensor::empty({phase + bytes}, DType::u8, stream.device()));
  char* const begin = static_cast<char*>(owner->data()) + phase;
  if (!request.blob.empty())
    Tensor::borrow(begin, {bytes}, DType::u8, stream.device(), {}, owner)
        .copy_from(host_bytes(request.blob.data(), request.blob.size()), stream);
  MeasuredTensor out;
  out.tensor = Tensor::borrow(begin + f.at("first").get<std::int64_t>(), dims_of(f.at("shape")),
                              static_cast<DType>(f.at("dtype").get<int>()), stream.device(),
                              dims_of(f.at("strides")), owner);
  out.access = static_cast<detail::ViewAccess>(f.at("access").get<int>());
  out.position = f.at("position").get<std::size_t>();
  return out;
}

WorkerMessage load_request(int candidate, const LoadedCandidate& of) {
  WorkerMessage out;
  json launches = json::array();
  for (const MeasuredLaunch& l : of.launches) {
    json fields;
    for (const MeasuredArg& a : l.args) fields["args"].push_back(fields_of(a));
    if (l.kernel->device.on_host()) {
      fields["tile"] = ir::print(l.kernel->tile);
      fields["simt"] = ir::print(l.kernel->simt());
    }
    runtime::CacheEntry entry;
    runtime::encode_artefact(l.kernel->artefact(), entry);
    const std::string bytes = runtime::encode_entry({}, entry);
    fields["bytes"] = bytes.size();
    out.blob += bytes;
    launches.push_back(std::move(fields));
  }
  out.fields = {{"op", "load"},
                {"candidate", candidate},
                {"launches", std::move(launches)},
                {"made", of.made}};
  return out;
}

LoadedCandidate candidate_of(const WorkerMessage& request, Device device) {
  LoadedCandidate out;
  request.fields.at("made").get_to(out.made);
  std::size_t at = 0;
  for (const json& fields : request.fields.at("launches")) {
    const auto bytes = fields.at("bytes").get<std::size_t>();
    if (bytes > request.blob.size() - at) throw InternalError("a kernel arrived truncated");
    out.launches.push_back(launch_of(fields, request.blob.substr(at, bytes), device));
    at += bytes;
  }
  return out;
}

json fields_of(const CheckResult& r) {
  return {{"verdict", static_cast<int>(r.verdict)}, {"why", r.why}};
}

CheckResult check_result_of(const json& fields) {
  return {verdict_of(fields), fields.at("why").get<std::string>()};
}

json fields_of(const Round& round) {
  json of = json::array();
  for (const Samples& s : round.of)
    of.push_back({{"verdict", static_cast<int>(s.verdict)}, {"ns", s.ns}, {"ratios", s.ratios}});
  return {{"of", std::move(of)},
          {"drift", round.drift},
          {"clock_mhz", round.clock_mhz},
          {"watts", round.watts}};
}

Round round_of(const json& fields) {
  Round round;
  for (const json& s : fields.at("of"))
    round.of.push_back(
        {verdict_of(s), s.at("ns").get<double>(), s.at("ratios").get<std::vector<double>>()});
  fields.at("drift").get_to(round.drift);
  fields.at("clock_mhz").get_to(round.clock_mhz);
  fields.at("watts").get_to(round.watts);
  return round;
}

}  // namespace tegula::autotune
