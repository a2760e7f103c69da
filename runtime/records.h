#pragma once
// Records of running kernels: print, device_assert and watch_nan. Programs append them to one
// buffer of the process that all devices can access, and the host reads them after a kernel has
// ended.
#include <cstdint>
#include <string>
#include <vector>

#include "tegula/dtype.h"
#include "tegula/location.h"

namespace tegula::runtime {

enum class RecordKind : std::uint8_t { Print, Assert, Nan };

/// A value of a record: the type and shape of its elements.
struct RecordedValue {
  DType dtype = DType::i32;
  std::vector<std::int64_t> shape;
  friend bool operator==(const RecordedValue&, const RecordedValue&) = default;
};

/// The call site of a print, assert or watch in a kernel.
struct RecordSite {
  RecordKind kind = RecordKind::Print;
  std::string kernel, format;
  Loc loc;
  std::vector<RecordedValue> values;
};

/// Sizes in words of 32 bits. The buffer begins with the number of words that records requested and
/// the number of records that did not fit. A record consists of its length (written last), its
/// site, its program, and for each element of its values the low and high half of its 64 bits and a
/// flag that the element is present.
inline constexpr std::uint32_t kRecordWords = 1 << 20;
inline constexpr std::uint32_t kRecordHead = 2, kRecordHeader = 3, kElementWords = 3;

/// Returns a number for the site; equal sites have the same number.
std::uint32_t record_site(const RecordSite& site);

/// Returns the address of the buffer, which the first call allocates.
std::uint64_t record_buffer();
/// Returns true if this is the address of the buffer; does not allocate the buffer.
bool is_record_buffer(std::uint64_t address);

/// Passes the contents of the buffer to the print sink and empties it. Throws ProgramError with the
/// failures of asserts. Does nothing if no kernel has ever had a record.
void read_records();

}  // namespace tegula::runtime
