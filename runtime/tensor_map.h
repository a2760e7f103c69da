#pragma once
// Encodes the driver's tensor maps, by which TMA addresses a box of a tensor.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "codegen/tensor_map.h"
#include "runtime/driver_types.h"

namespace tegula::runtime {

/// Returns the reason why the hardware does not support this tensor map, or "": alignment of
/// address and strides, extents, box and swizzle.
std::string tensor_map_fault(const codegen::TensorMap& map);

/// Encodes a tensor map. If the driver rejects it, throws CompileError with tensor_map_fault() if
/// that is not empty, else DeviceError; both name `tensor`, such as "argument A of kernel matmul".
void encode_tensor_map(const codegen::TensorMap& map, cu::TensorMap* out,
                       cu::TensorMapL2 l2 = cu::kL2Promote256,
                       const std::string& tensor = "this tensor");

/// Cache of the encoded tensor maps of one argument of one kernel, which differ only in address,
/// extents and strides. Only addressing is encoded, so an entry stays valid when the contents of
/// the tensor change. Many threads may call `get`; a hit takes no lock and writes no shared state.
///
/// The cache consists of sets of four ways. It begins with one set and doubles their number
/// whenever a set is full, up to kMaxSets, so that the tensors of many layers stay cached.
class TensorMapCache {
 public:
  explicit TensorMapCache(std::string tensor = "this tensor") : tensor_(std::move(tensor)) {}

  /// Writes the 128 bytes of the encoded map, or throws as encode_tensor_map() does.
  void get(const codegen::TensorMap& map, std::byte* to) {
    const Key key = key_of(map);
    const Table* table = table_.load(std::memory_order_acquire);
    if (table == nullptr || !table->find(key, to)) [[unlikely]]
      fill(key, map, to);
  }
  int misses() const { return misses_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kWays = 4, kMaxSets = 128;
  static constexpr std::size_t kKeyWords = 2 * codegen::kMaxTensorRank;
  static constexpr std::size_t kMapWords = sizeof(cu::TensorMap) / sizeof(std::uint64_t);
  using Key = std::array<std::uint64_t, kKeyWords>;

  static Key key_of(const codegen::TensorMap& m) {
    Key key{reinterpret_cast<std::uintptr_t>(m.base)};
    for (std::size_t i = 0; i < codegen::kMaxTensorRank; ++i)
      key[1 + i] = static_cast<std::uint64_t>(m.dims[i]);
    for (std::size_t i = 1; i < codegen::kMaxTensorRank; ++i)
      key[codegen::kMaxTensorRank + i] = static_cast<std::uint64_t>(m.strides[i]);
    return key;
  }
  static std::uint64_t hash_of(const Key& k) {
    return (k[0] ^ k[1] << 7 ^ k[2] << 23 ^ k[3] << 31 ^ k[codegen::kMaxTensorRank + 1] << 40) *
           0x9e3779b97f4a7c15u;
  }

  /// A seqlock: the version is odd while the entry is written, and 0 before. Every word of it is
  /// atomic, and readers load with acquire order, so that they see the version of the words that
  /// they read.
  struct alignas(64) Entry {
    std::atomic<std::uint64_t> version = 0;
    std::array<std::atomic<std::uint64_t>, kKeyWords> key{};
    std::array<std::atomic<std::uint64_t>, kMapWords> map{};

    bool read(const Key& wanted, std::byte* to) const;
    void write(const Key& of, const std::array<std::uint64_t, kMapWords>& words);
  };
  struct Table {
    explicit Table(std::size_t number_of_sets)
        : sets(number_of_sets), entries(new Entry[number_of_sets * kWays]) {}
    Entry* set_of(const Key& key) const {
      return entries.get() + (hash_of(key) >> 32) % sets * kWays;
    }
    bool find(const Key& key, std::byte* to) const;
    /// Returns an unused way of the key's set, or null.
    Entry* free_way(const Key& key) const;

    std::size_t sets;
    std::unique_ptr<Entry[]> entries;
  };

  void fill(const Key& key, const codegen::TensorMap& map, std::byte* to);
  Entry& place_for(const Key& key);
  const Table& grow(std::size_t sets);

  std::string tensor_;
  std::atomic<const Table*> table_ = nullptr;
  std::atomic<int> misses_ = 0;
  std::mutex filling_;
  std::size_t next_victim_ = 0;
  std::vector<std::unique_ptr<const Table>> tables_;  ///< outgrown ones may still be read
};

}  // namespace tegula::runtime
