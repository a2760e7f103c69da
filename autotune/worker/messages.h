#pragma once
// Messages between a tuner and its worker, as fields of JSON. Requests have an `op`:
//   start   device, options                      tensor  type, shape, access; its bytes
//   load    candidate, launches; their kernels   try, check  candidate -> verdict, why
//   round   candidates, repetitions, seed -> samples of each
//   forget  candidate
// An answer with `error` means that the request failed.
#include "autotune/user/launch_measure.h"
#include "autotune/worker/channel.h"

namespace tegula::autotune {

WorkerMessage tensor_request(const MeasuredTensor& tensor, const Stream& stream);
/// Returns a tensor with the bytes sent and the same shape, strides and alignment on the stream's
/// device.
MeasuredTensor tensor_of(const WorkerMessage& request, const Stream& stream);

WorkerMessage load_request(int candidate, const LoadedCandidate& of);
LoadedCandidate candidate_of(const WorkerMessage& request, Device device);

nlohmann::json fields_of(const CheckResult& result);
CheckResult check_result_of(const nlohmann::json& fields);
nlohmann::json fields_of(const Round& round);
Round round_of(const nlohmann::json& fields);

}  // namespace tegula::autotune
