#include "autotune/worker/serve.h"

#include <signal.h>
#include <sys/prctl.h>

#include <optional>

#include "autotune/worker/messages.h"
#include "tegula/error.h"

namespace tegula::autotune {
namespace {

using nlohmann::json;

/// One problem: the tensors of a call and its candidates.
class Session {
 public:
  json answer(const WorkerMessage& request) {
    const auto op = request.fields.at("op").get<std::string>();
    if (op == "start") return start(request.fields);
    if (!measure_) throw InternalError("nothing was started");
    if (op == "tensor") {
      tensors_.push_back(tensor_of(request, *stream_));
      return json::object();
    }
    if (op == "round") return round(request.fields);
    const int candidate = request.fields.at("candidate").get<int>();
    if (op == "try") return fields_of(measure_->try_once(candidate));
    if (op == "check") return fields_of(measure_->check(candidate));
    if (op == "forget")
      measure_->forget(candidate);
    else if (op == "load")
      measure_->load(candidate, candidate_of(request, stream_->device()));
    else
      throw InternalError("no request is called " + op);
    return json::object();
  }

 private:
  json start(const json& fields) {
    stream_.emplace(Device::parse(fields.at("device").get<std::string>()));
    // Create the context now: an unavailable GPU must be reported before anything is compiled.
    Tensor::zeros({1}, DType::u8, stream_->device());
    measure_ =
        measure_here(tensors_, stream_->device(), {fields.at("may_change_bits").get<bool>()});
    return json::object();
  }

  json round(const json& fields) {
    const auto ids = fields.at("candidates").get<std::vector<int>>();
    json out = fields_of(measure_->round(ids, fields.at("repetitions").get<int>(),
                                         fields.at("seed").get<std::uint64_t>()));
    out["reference_ns"] = measure_->reference_ns();
    return out;
  }

  MeasuredTensors tensors_;
  std::optional<Stream> stream_;
  std::unique_ptr<LaunchMeasure> measure_;
};

}  // namespace

int serve_tuner(int descriptor) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Channel channel(descriptor);
  Session session;
  try {
    for (;;) {
      const WorkerMessage request = channel.receive(kNoDeadline);
      WorkerMessage answer;
      try {
        answer.fields = session.answer(request);
      } catch (const std::exception& e) {
        answer.fields = {{"error", e.what()}};
      }
      channel.send(answer, kNoDeadline);
    }
  } catch (const WorkerLost&) {
    return 0;  // the tuner has closed the connection
  }
}

}  // namespace tegula::autotune
