// Counter-based random numbers: Philox 4x32-10, and distributions computed from its words.
#include "tegula/random.h"

#include <cmath>

#include "dsl/elementary/parts.h"

namespace tegula {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xd2511f53, kMultiplier1 = 0xcd9e8d57;
constexpr std::uint32_t kWeyl0 = 0x9e3779b9, kWeyl1 = 0xbb67ae85;
constexpr int kRounds = 10;

/// Returns an integer operand as u64.
Tile counted(Tracer& t, std::string_view what, const Arg& x) {
  const DType d = dsl::promote_types(t, what, std::span(&x, 1));
  dsl::require_integers(what, d, x.loc());
  return t.tile(dsl::operand(t, x, DType::u64));
}

Tile lower_half(const Tile& x) { return cast<u32>(x); }
Tile upper_half(const Tile& x) { return cast<u32>(x >> 32); }

/// The four words of a counter.
using PhiloxWords = std::array<Tile, 4>;

PhiloxWords philox_words(const Tile& seed, const Tile& counter, const Tile& subsequence) {
  PhiloxWords c{lower_half(counter), upper_half(counter), lower_half(subsequence),
                upper_half(subsequence)};
  Tile key0 = lower_half(seed), key1 = upper_half(seed);
  for (int i = 0; i < kRounds; ++i) {
    if (i > 0) {
      key0 += kWeyl0;
      key1 += kWeyl1;
    }
    const Tile high0 = mulhi(c[0], kMultiplier0), low0 = c[0] * kMultiplier0;
    const Tile high1 = mulhi(c[2], kMultiplier1), low1 = c[2] * kMultiplier1;
    c = PhiloxWords{high1 ^ c[1] ^ key0, low1, high0 ^ c[3] ^ key1, low0};
  }
  return c;
}

/// Returns word `offset % 4` of counter `offset / 4`.
Tile word_at(const Tile& seed, const Tile& offset) {
  const PhiloxWords w = philox_words(seed, offset >> 2, Tile(std::uint64_t{0}));
  const Tile place = lower_half(offset), odd = (place & 1u) != 0u, late = (place & 2u) != 0u;
  return where(late, where(odd, w[3], w[2]), where(odd, w[1], w[0]));
}

/// Returns 64 bits: words 2 i and 2 i + 1 of counter `offset / 2`, i = offset % 2.
Tile pair_at(const Tile& seed, const Tile& offset) {
  const PhiloxWords w = philox_words(seed, offset >> 1, Tile(std::uint64_t{0}));
  const Tile late = (lower_half(offset) & 1u) != 0u;
  const Tile low = where(late, w[2], w[0]), high = where(late, w[3], w[1]);
  return (cast<u64>(high) << 32) | cast<u64>(low);
}

struct Place {
  Tile seed, offset;
};
Place place_of(Tracer& t, std::string_view what, const Arg& seed, const Arg& offset) {
  return {counted(t, what, seed), counted(t, what, offset)};
}

/// Returns the unsigned integer type of a float's size.
DType bits_like(DType t) {
  const int size = size_bits(t);
  return size == 64 ? DType::u64 : size == 32 ? DType::u32 : size == 16 ? DType::u16 : DType::u8;
}

}  // namespace

std::array<Tile, 4> philox(const Arg& seed, const Arg& counter, const Arg& subsequence) {
  Tracer& t = Tracer::at(seed.loc(), "philox");
  const Tracer::Pin pin(t, seed.loc());
  const auto [key, first] = place_of(t, "philox", seed, counter);
  return philox_words(key, first, counted(t, "philox", subsequence));
}

Tile rand(const Arg& seed, const Arg& offset, DType type) {
  Tracer& t = Tracer::at(seed.loc(), "rand");
  dsl::require_floats("rand", type, seed.loc());
  const Tracer::Pin pin(t, seed.loc());
  const auto [key, at] = place_of(t, "rand", seed, offset);
  if (type == DType::f64) return cast<f64>(pair_at(key, at) >> 11) * 0x1p-53;
  // Use the significand's number of bits, so that no number is rounded up to 1.
  const int bits = dtype_info(type).mantissa_bits + 1;
  return cast(cast<f32>(word_at(key, at) >> (32 - bits)) * std::ldexp(1.0, -bits), type);
}

Tile randn(const Arg& seed, const Arg& offset) {
  Tracer& t = Tracer::at(seed.loc(), "randn");
  const Tracer::Pin pin(t, seed.loc());
  const auto [key, at] = place_of(t, "randn", seed, offset);
  const PhiloxWords w = philox_words(key, at >> 2, Tile(std::uint64_t{0}));
  const Tile place = lower_half(at), late = (place & 2u) != 0u;
  const Tile first = where(late, w[2], w[0]), second = where(late, w[3], w[1]);
  // Uniform in (0, 1]: half a step above 0.
  const Tile uniform = fma(cast<f32>(first), 0x1p-32, 0x1p-33);
  const Tile radius = sqrt(-2.0f * dsl::elementary::log_of_normal(uniform));
  const auto [sine, cosine] = dsl::elementary::sincos_pi(cast<f32>(second >> 8) * 0x1p-23f);
  return radius * where((place & 1u) != 0u, sine, cosine);
}

Tile randint(const Arg& seed, const Arg& offset, const Arg& low, const Arg& high) {
  Tracer& t = Tracer::at(seed.loc(), "randint");
  const Arg bounds[] = {low, high};
  const DType d = dsl::promote_types(t, "randint", bounds);
  if (!is_integer(d) || size_bits(d) < 32) fail(ErrorId::randint_type, low.loc(), {}, name(d));
  const Tracer::Pin pin(t, seed.loc());
  const auto [key, at] = place_of(t, "randint", seed, offset);
  const Tile first = t.tile(dsl::operand(t, low, d)), end = t.tile(dsl::operand(t, high, d));
  const DType bits = size_bits(d) == 64 ? DType::u64 : DType::u32;
  const Tile count = where(end > first, cast(end, bits) - cast(first, bits), 0);
  const Tile random = bits == DType::u64 ? pair_at(key, at) : word_at(key, at);
  return cast(cast(first, bits) + mulhi(random, count), d);
}

Tile dropout(const Arg& x, double p, const Arg& seed, const Arg& offset) {
  Tracer& t = Tracer::at(x.loc(), "dropout");
  if (!(p >= 0 && p < 1)) fail(ErrorId::dropout_probability, x.loc(), {}, p);
  dsl::require_floats("dropout", dsl::promote_types(t, "dropout", std::span(&x, 1)), x.loc());
  const Tracer::Pin pin(t, x.loc());
  // Use a bit mask, so that elements which are absent in x stay absent even if they are dropped.
  const Tile is_kept = rand<f32>(seed, offset) >= static_cast<float>(p);
  const Tile scaled = x * (1 / (1 - p));
  const DType bits = bits_like(scaled.dtype());
  const Tile zero = cast(0, bits), mask = where(is_kept, ~zero, zero);
  return bitcast(bitcast(scaled, bits) & mask, scaled.dtype());
}

}  // namespace tegula
