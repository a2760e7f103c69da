// Counts wavefronts; see bank_conflicts.h.
#include "ir/layout/bank_conflicts.h"

#include <algorithm>
#include <array>
#include <vector>

namespace tegula::ir {
namespace {

constexpr int kBanks = 32;
constexpr int kBankBytes = 4;
constexpr int kLanes = 32;

/// Returns the number of wavefronts for lanes that are served together.
int phase_wavefronts(std::span<const std::int64_t> addresses, int bytes_per_lane) {
  // At most 32 words: a phase moves 128 bytes.
  std::array<std::int64_t, kLanes> words;
  std::size_t n = 0;
  for (std::int64_t address : addresses)
    for (std::int64_t word = address / kBankBytes; word * kBankBytes < address + bytes_per_lane;
         ++word)
      words.at(n++) = word;
  std::sort(words.begin(), words.begin() + n);
  std::array<int, kBanks> in_bank{};
  int fullest = 0;
  for (std::size_t i = 0; i < n; ++i)
    if (i == 0 || words[i] != words[i - 1])
      fullest = std::max(fullest, ++in_bank[static_cast<std::size_t>(words[i] % kBanks)]);
  return fullest;
}

/// Accumulates counts over instructions. Constants of registers and warps are XORed to all lanes
/// within the low block of a slab and added in multiples of the block. Because the block is a power
/// of two, two lanes conflict in one instruction if and only if they conflict in another: all
/// instructions of one width on one slab have the same conflicts, and it is enough to count one.
class Counter {
 public:
  explicit Counter(const LinearLayout& dist) : warps_(dist.size(HwDim::Warp)) {}

  /// Counts an instruction; `address(coord)` returns the address for each lane of warp 0.
  template <class Address>
  void count(int slab, int lanes, int bytes_per_lane, const Address& address) {
    if (slab != last_slab_) {
      std::vector<std::int64_t> addresses;
      for (int lane = 0; lane < lanes; ++lane) addresses.push_back(address({0, lane, 0, 0}));
      const BankUse one = bank_use(addresses, bytes_per_lane);
      last_ = {one.instructions * warps_, one.wavefronts * warps_, one.phases * warps_};
      last_slab_ = slab;
    }
    total_ += last_;
  }
  BankUse total() const { return total_; }

 private:
  int warps_;
  int last_slab_ = -1;
  BankUse last_, total_;
};

}  // namespace

BankUse& BankUse::operator+=(const BankUse& other) {
  instructions += other.instructions;
  wavefronts += other.wavefronts;
  phases += other.phases;
  return *this;
}

BankUse bank_use(std::span<const std::int64_t> lane_addresses, int bytes_per_lane) {
  const auto per_phase =
      static_cast<std::size_t>(kLanes / std::max(1, bytes_per_lane / kBankBytes));
  BankUse use{1, 0, 0};
  for (std::size_t first = 0; first < lane_addresses.size(); first += per_phase) {
    const auto lanes =
        lane_addresses.subspan(first, std::min(per_phase, lane_addresses.size() - first));
    use.wavefronts += phase_wavefronts(lanes, bytes_per_lane);
    ++use.phases;
  }
  return use;
}

Result<BankUse> bank_use(const SharedLayout& shared, const LinearLayout& dist, int max_bytes) {
  const auto fn = shared_fn(shared, dist);
  if (!fn) return Result<BankUse>::refused(fn.reason());
  const auto vectors = shared_vectors(*fn, shared, max_bytes);
  if (!vectors) return Result<BankUse>::refused(vectors.reason());
  Counter counter(dist);
  for (const Vector& v : *vectors) {
    const auto address = [&](HardwareCoord p) {
      p.reg = v.registers[0];
      return (*fn)(p);
    };
    counter.count(fn->registers[static_cast<std::size_t>(v.registers[0])].slab,
                  dist.size(HwDim::Lane),
                  static_cast<int>(v.registers.size()) * shared.element_bytes(), address);
  }
  return counter.total();
}

BankUse bank_use(const LinearLayout& dist, const MatrixPlan& plan) {
  Counter counter(dist);
  for (const auto& access : plan.accesses)
    counter.count(access.slab, 8 * plan.matrices, 16,
                  [&](const HardwareCoord& p) { return plan.row_address(access, p); });
  return counter.total();
}

}  // namespace tegula::ir
