#pragma once
// Runs one call of an exported callable, for all forms of arguments.
#include "dsl/export/arguments.h"

namespace tegula::c {

/// Calls it on `stream_on(device)`, a CUstream, which is evaluated for GPUs only.
template <class StreamOn>
void run(const detail::Exported& callee, std::span<const TegulaArg> args,
         const StreamOn& stream_on) {
  const Arguments arguments(callee, args);
  const Device device = arguments.device();
  const Stream stream = device.on_host() ? Stream(device) : Stream::wrap(stream_on(device), device);
  callee.callable().call(stream, arguments.host(), callee.loc());
}

}  // namespace tegula::c
