#pragma once
// Records of running kernels: those of print, device_assert and watch_nan, which programs append to
// one buffer of the process that all devices reach, and which are read once a kernel has ended.
#include <cstdint>
#include <string>
#include <vector>

#include "tegula/dtype.h"
#include "tegula/location.h"

namespace tegula::runtime {

enum class RecordKind : std::uint8_t { Print, Assert, Nan };

/// A value of a record: its elements as they are written.
struct RecordedValue {
  DType dtype = DType::i32;
  std::vector<std::int64_t> shape;
  friend bool operator==(const RecordedValue&, const RecordedValue&) = default;
};

/// The place of a print in a kernel.
struct RecordSite {
  RecordKind kind = RecordKind::Print;
  std::string kernel, format;
  Loc loc;
  std::vector<RecordedValue> values;
};

/// Words of 32 bits: the buffer begins with how many words of records were asked for and how many
/// records did not fit. A record has its length (written last), its site, its program, and for each
/// element of its values the low and high half of its 64 bits and whether it is present.
inline constexpr std::uint32_t kRecordWords = 1 << 20;
inline constexpr std::uint32_t kRecordHead = 2, kRecordHeader = 3, kElementWords = 3;

/// A number for the site, the same for equal ones.
std::uint32_t record_site(const RecordSite& site);

/// Address of the buffer, which is made by the first call.
std::uint64_t record_buffer();
/// Whether that is the address of the buffer, which may not be there.
bool is_record_buffer(std::uint64_t address);

/// Hands what is in the buffer to the sink of prints and empties it. Throws ProgramError with what
/// asserts found. Nothing where no kernel has ever had a record.
void read_records();

}  // namespace tegula::runtime
