#pragma once
// The state of a stream that a call must know before it acquires memory for the stream.
#include "tegula/stream.h"

namespace tegula::runtime {

struct StreamState {
  bool is_recording = false;  ///< a CUDA graph; true for an invalidated capture, too
  /// A number unique to this stream within the process; 0 for the default stream. Handles are
  /// reused after a stream is destroyed although its work may still run; identifiers are not. Not
  /// set while the stream records.
  unsigned long long id = 0;
};

/// Returns true if the stream records. Takes one driver call; none for the default stream, which
/// cannot record.
bool is_recording(const Stream& stream);

/// Returns the stream's state. Takes two driver calls, one if the stream records, none for the
/// default stream, which cannot record.
StreamState state_of(const Stream& stream);

}  // namespace tegula::runtime
