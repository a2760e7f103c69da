#pragma once
// The state of a stream that calls must know before they take memory of it.
#include "tegula/stream.h"

namespace tegula::runtime {

struct StreamState {
  bool is_recording = false;  ///< a CUDA graph; an invalidated capture counts
  /// A number that no other stream of the process has, 0 of the default one: handles are reused
  /// after a stream is destroyed while its work may still run, identifiers never are. Unknown while
  /// it records.
  unsigned long long id = 0;
};

/// Whether the stream records: one driver call, none for the default stream, which cannot.
bool is_recording(const Stream& stream);

/// Two driver calls, one where the stream records, none for the default stream, which cannot.
StreamState state_of(const Stream& stream);

}  // namespace tegula::runtime
