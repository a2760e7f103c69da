#include "runtime/tensor_map.h"

#include "runtime/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/driver_api.h"
#include "support/errors.h"

namespace tegula::runtime {
namespace {

constexpr std::array<cu::TensorMapType, kDTypeCount> kTensorMapTypes = [] {
  std::array<cu::TensorMapType, kDTypeCount> types{};
  const auto set = [&](DType d, cu::TensorMapType t) { types[static_cast<std::size_t>(d)] = t; };
  // TMA moves bits: a type that TMA lacks uses the unsigned type of its size.
  for (DType d : {DType::i1, DType::i8, DType::u8, DType::f8e4m3, DType::f8e5m2})
    set(d, cu::kMapU8);
  for (DType d : {DType::i16, DType::u16}) set(d, cu::kMapU16);
  set(DType::i32, cu::kMapI32);
  set(DType::u32, cu::kMapU32);
  set(DType::i64, cu::kMapI64);
  set(DType::u64, cu::kMapU64);
  set(DType::f16, cu::kMapF16);
  set(DType::bf16, cu::kMapBf16);
  set(DType::f32, cu::kMapF32);
  set(DType::f64, cu::kMapF64);
  return types;
}();

std::string stride_fault(const codegen::TensorMap& m) {
  for (int i = 1; i < m.rank; ++i) {
    if (m.strides[i] % 16 != 0)
      return fmt::format("the stride of dimension {} is {} bytes, not a multiple of 16", i,
                         m.strides[i]);
    if (m.strides[i] < 0 || m.strides[i] >= std::int64_t{1} << 40)
      return fmt::format("the stride of dimension {} is {} bytes, not below 2^40", i, m.strides[i]);
  }
  return {};
}

std::string box_fault(const codegen::TensorMap& m) {
  for (int i = 0; i < m.rank; ++i) {
    if (m.dims[i] < 1 || m.dims[i] > std::int64_t{1} << 32)
      return fmt::format("dimension {} has {} elements, not 1 to 2^32", i, m.dims[i]);
    if (m.box[i] < 1 || m.box[i] > 256)
      return fmt::format("the box has {} elements along dimension {}, not 1 to 256", m.box[i], i);
  }
  const int row = m.box[0] * size_bytes(m.dtype);
  if (row % 16 != 0) return fmt::format("a row of the box is {} bytes, not a multiple of 16", row);
  if (m.swizzle != 0 && row > m.swizzle)
    return fmt::format("a row of the box is {} bytes, more than the swizzle of {}", row, m.swizzle);
  return {};
}

cu::TensorMapSwizzle swizzle_mode(int bytes) {
  constexpr std::array kBytes{0, 32, 64, 128};
  const auto* found = std::find(kBytes.begin(), kBytes.end(), bytes);
  if (found == kBytes.end())
    throw InternalError(fmt::format("a tensor map with a swizzle of {} bytes", bytes));
  return static_cast<cu::TensorMapSwizzle>(found - kBytes.begin());
}

}  // namespace

std::string tensor_map_fault(const codegen::TensorMap& m) {
  if (m.rank < 1 || m.rank > codegen::kMaxTensorRank)
    return fmt::format("{} dimensions, not 1 to 5", m.rank);
  if (reinterpret_cast<std::uintptr_t>(m.base) % 16 != 0)
    return fmt::format("the address {} is not a multiple of 16", m.base);
  if (std::string fault = stride_fault(m); !fault.empty()) return fault;
  return box_fault(m);
}

void encode_tensor_map(const codegen::TensorMap& m, cu::TensorMap* out, cu::TensorMapL2 l2,
                       const std::string& tensor) {
  std::array<std::uint64_t, codegen::kMaxTensorRank> dims{}, strides{};
  std::array<std::uint32_t, codegen::kMaxTensorRank> box{}, ones{1, 1, 1, 1, 1};
  for (int i = 0; i < std::min(m.rank, codegen::kMaxTensorRank); ++i) {
    const auto d = static_cast<std::size_t>(i);
    dims[d] = static_cast<std::uint64_t>(m.dims[i]);
    box[d] = static_cast<std::uint32_t>(m.box[i]);
    if (i > 0)
      strides[d - 1] = static_cast<std::uint64_t>(m.strides[i]);  // the innermost is implicit
  }
  const auto swizzle = swizzle_mode(m.swizzle);
  const auto encode = [&] {
    return driver().tensor_map_encode(out, kTensorMapTypes[static_cast<std::size_t>(m.dtype)],
                                      static_cast<std::uint32_t>(m.rank), m.base, dims.data(),
                                      strides.data(), box.data(), ones.data(), cu::kInterleaveNone,
                                      swizzle, l2, cu::kFillZero);
  };
  // The driver requires a current context, although the map does not depend on it.
  cu::Result result = call_in_context(0, encode);
  if (result == cu::kSuccess) return;
  if (const std::string fault = tensor_map_fault(m); !fault.empty())
    fail(ErrorId::tensor_map, {}, {}, tensor, fault);
  throw_driver_error(result, "cuTensorMapEncodeTiled", "; the tensor map of " + tensor);
}

bool TensorMapCache::Entry::read(const Key& wanted, std::byte* to) const {
  const std::uint64_t before = version.load(std::memory_order_acquire);
  if (before == 0 || before % 2 != 0) return false;
  for (std::size_t i = 0; i < kKeyWords; ++i)
    if (key[i].load(std::memory_order_acquire) != wanted[i]) return false;
  std::array<std::uint64_t, kMapWords> words;
  for (std::size_t i = 0; i < kMapWords; ++i) words[i] = map[i].load(std::memory_order_acquire);
  if (version.load(std::memory_order_relaxed) != before) return false;
  std::memcpy(to, words.data(), sizeof words);
  return true;
}

/// One writer at a time. A reader that sees a new word also sees the odd version.
void TensorMapCache::Entry::write(const Key& of,
                                  const std::array<std::uint64_t, kMapWords>& words) {
  const std::uint64_t before = version.load(std::memory_order_relaxed);
  version.store(before + 1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < kKeyWords; ++i) key[i].store(of[i], std::memory_order_release);
  for (std::size_t i = 0; i < kMapWords; ++i) map[i].store(words[i], std::memory_order_release);
  version.store(before + 2, std::memory_order_release);
}

bool TensorMapCache::Table::find(const Key& key, std::byte* to) const {
  const Entry* set = set_of(key);
  return std::any_of(set, set + kWays, [&](const Entry& e) { return e.read(key, to); });
}

TensorMapCache::Entry* TensorMapCache::Table::free_way(const Key& key) const {
  Entry* set = set_of(key);
  Entry* found = std::find_if(set, set + kWays, [](const Entry& e) { return e.version == 0; });
  return found == set + kWays ? nullptr : found;
}

const TensorMapCache::Table& TensorMapCache::grow(std::size_t sets) {
  auto larger = std::make_unique<const Table>(sets);
  const Table* old = table_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; old != nullptr && i < old->sets * kWays; ++i) {
    const Entry& e = old->entries[i];
    if (e.version == 0) continue;
    Key key;
    std::array<std::uint64_t, kMapWords> words;
    for (std::size_t w = 0; w < kKeyWords; ++w) key[w] = e.key[w];
    for (std::size_t w = 0; w < kMapWords; ++w) words[w] = e.map[w];
    if (Entry* way = larger->free_way(key)) way->write(key, words);
  }
  tables_.push_back(std::move(larger));
  table_.store(tables_.back().get(), std::memory_order_release);
  return *tables_.back();
}

TensorMapCache::Entry& TensorMapCache::place_for(const Key& key) {
  const Table* table = table_.load(std::memory_order_relaxed);
  if (table == nullptr) table = &grow(1);
  while (table->free_way(key) == nullptr && table->sets < kMaxSets) table = &grow(2 * table->sets);
  if (Entry* way = table->free_way(key)) return *way;
  return table->set_of(key)[next_victim_++ % kWays];
}

void TensorMapCache::fill(const Key& key, const codegen::TensorMap& map, std::byte* to) {
  cu::TensorMap encoded;
  encode_tensor_map(map, &encoded, cu::kL2Promote256, tensor_);
  misses_.fetch_add(1, std::memory_order_relaxed);
  std::memcpy(to, &encoded, sizeof encoded);
  const std::lock_guard lock(filling_);
  const Table* table = table_.load(std::memory_order_relaxed);
  std::array<std::byte, sizeof encoded> unused;
  if (table != nullptr && table->find(key, unused.data())) return;  // another thread was first
  std::array<std::uint64_t, kMapWords> words;
  std::memcpy(words.data(), &encoded, sizeof encoded);
  place_for(key).write(key, words);
}

}  // namespace tegula::runtime
