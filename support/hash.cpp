// XXH3-128, inlined from the header so that no shared library is needed.
#include "support/hash.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace tegula {

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;

Hasher& Hasher::bytes(std::string_view data) {
  XXH3_128bits_update(&state_->xxh, data.data(), data.size());
  return *this;
}

Hasher& Hasher::add(std::string_view field) { return add_number(field.size()).bytes(field); }

Hasher& Hasher::add_number(std::uint64_t value) {
  char little_endian[8];
  for (int i = 0; i < 8; ++i) little_endian[i] = static_cast<char>(value >> (8 * i));
  return bytes({little_endian, sizeof little_endian});
}

Hash128 Hasher::digest() const {
  const XXH128_hash_t h = XXH3_128bits_digest(&state_->xxh);
  return {.high = h.high64, .low = h.low64};
}

std::string Hash128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Hash128 hash128(std::string_view data) {
  const XXH128_hash_t h = XXH3_128bits(data.data(), data.size());
  return {.high = h.high64, .low = h.low64};
}

}  // namespace tegula
