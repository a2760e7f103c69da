#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

/// Values of tune(), and how they are chosen by measuring.
namespace tegula {

/// Values of tune() names.
using Tuning = std::map<std::string, int>;

/// How much is measured.
enum class TuneBudget : std::uint8_t {
  quick,  ///< about 3 seconds per problem
  full,   ///< about a minute per problem
};

/// Options of Kernel::tune().
struct TuneOptions {
  TuneBudget budget = TuneBudget::quick;  ///< how much is measured
  /// Accepts values whose results differ from an untuned call's in the last bits, for example
  /// by a different summation order. Otherwise all outputs must be the same, bit for bit.
  bool may_change_bits = false;
  /// Measures even if the winner of this problem is known. The winner is then replaced only if
  /// another is faster by more than 1 % beyond noise.
  bool again = false;
  /// Receives a line for each step.
  std::function<void(const std::string& line)> progress;
};

/// Result of Kernel::tune().
struct TuneResult {
  Tuning tuning;                   ///< calls of this problem use it from now on
  bool was_known = false;          ///< found in the store: nothing was measured
  bool is_replaced = false;        ///< measured, and faster than what was used before, beyond noise
  bool is_low_confidence = false;  ///< the device was not steady: nothing was replaced
  double us = 0;                   ///< time of a call, 0 if it was not measured
  double ratio = 1;                ///< its time over that of an untuned call
  double ratio_high = 1;           ///< upper end of the ratio's 95 % interval
  int candidates = 0;              ///< settings that were timed
  /// The settings that were not timed or failed, each with its reason.
  std::vector<std::string> rejected;
};

/// Returns "BK=64 BM=128", the names in order.
std::string str(const Tuning& tuning);

}  // namespace tegula
