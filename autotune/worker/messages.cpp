#include "autotune/worker/messages.h"

#include <utility>

#include "ir/text.h"
#include "runtime/artefact_format.h"
#include "tegula/error.h"

namespace tegula::autotune {
namespace {

using nlohmann::json;

constexpr std::int64_t kAlignment = 256;  // of memory of the driver's

std::vector<std::int64_t> list_of(const Dims& dims) { return {dims.begin(), dims.end()}; }

Dims dims_of(const json& list) {
  const auto values = list.get<std::vector<std::int64_t>>();
  return Dims(std::span(values));
}

Tensor host_bytes(const void* data, std::size_t bytes) {
  return Tensor::borrow(const_cast<void*>(data), {static_cast<std::int64_t>(bytes)}, DType::u8,
                        Device::cpu());
}

Verdict verdict_of(const json& fields) {
  const int verdict = fields.at("verdict").get<int>();
  if (verdict < 0 || verdict > static_cast<int>(Verdict::timeout))
    throw WorkerLost{"an answer with no known verdict"};
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
  json args = json::array();
  for (const MeasuredArg& a : of.args) args.push_back({a.tensor, a.is_address, a.bits});
  out.fields = {{"op", "load"}, {"candidate", candidate}, {"args", std::move(args)}};
  if (of.kernel->device.on_host()) {
    out.fields["tile"] = ir::print(of.kernel->tile);
    out.fields["simt"] = ir::print(of.kernel->simt());
  }
  runtime::CacheEntry entry;
  runtime::encode_artefact(of.kernel->artefact(), entry);
  out.blob = runtime::encode_entry({}, entry);
  return out;
}

LoadedCandidate candidate_of(const WorkerMessage& request, Device device) {
  const runtime::ReadResult read = runtime::decode_entry(request.blob, {});
  if (read.state != runtime::ReadStatus::ok) throw InternalError("a kernel was sent damaged");
  runtime::Compilation of;
  of.device = device;
  if (const auto tile = request.fields.find("tile"); tile != request.fields.end()) {
    of.tile = ir::parse(tile->get<std::string>(), "a kernel that is tuned");
    of.simt_text = request.fields.at("simt").get<std::string>();
  }
  LoadedCandidate out;
  out.kernel = std::make_shared<const runtime::CompiledKernel>(
      std::move(of), runtime::decode_artefact(read.entry));
  for (const json& a : request.fields.at("args"))
    out.args.push_back({a.at(0).get<int>(), a.at(1).get<bool>(), a.at(2).get<std::uint64_t>()});
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
