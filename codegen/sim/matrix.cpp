#include "codegen/sim/matrix.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "codegen/sim/warp.h"
#include "ir/eval/number.h"
#include "tegula/error.h"

namespace tegula::sim {

using ir::Cell;

namespace {

template <class T>
void decode_small(const std::uint8_t* from, int count, double* to) {
  using Bits = decltype(T::bits);
  static const std::vector<float> table = [] {
    std::vector<float> t(std::size_t{1} << (8 * sizeof(Bits)));
    for (std::size_t b = 0; b < t.size(); ++b)
      t[b] = static_cast<float>(T::from_bits(static_cast<Bits>(b)));
    return t;
  }();
  for (int n = 0; n < count; ++n) {
    Bits b;
    std::memcpy(&b, from + static_cast<std::size_t>(n) * sizeof(Bits), sizeof(Bits));
    to[n] = table[b];
  }
}

/// The tensor core reads the upper 19 bits of a register.
void decode_tf32(const std::uint8_t* from, int count, double* to) {
  for (int n = 0; n < count; ++n) {
    std::uint32_t b;
    std::memcpy(&b, from + 4 * n, 4);
    to[n] = std::bit_cast<float>(b & 0xffffe000u);
  }
}

template <class T>
void decode_int(const std::uint8_t* from, int count, double* to) {
  for (int n = 0; n < count; ++n) to[n] = static_cast<T>(from[n]);
}

struct NamedElem {
  std::string_view name;
  MatrixElem elem;
};
constexpr NamedElem kElems[] = {
    {"bf16", {2, false, decode_small<bf16>}},
    {"f16", {2, false, decode_small<f16>}},
    {"tf32", {4, false, decode_tf32}},
    {"f8e4m3", {1, false, decode_small<f8e4m3>}},
    {"f8e5m2", {1, false, decode_small<f8e5m2>}},
    {"i8", {1, true, decode_int<std::int8_t>}},
    {"u8", {1, true, decode_int<std::uint8_t>}},
};

}  // namespace

const MatrixElem& matrix_elem(std::string_view name) {
  for (const NamedElem& n : kElems)
    if (n.name == name) return n.elem;
  throw InternalError(fmt::format("'{}' is not an element type of the matrix units", name));
}

// ---- descriptors --------------------------------------------------------------------------------

namespace {

constexpr std::uint64_t kField = 0x3fff;  // 14 bits, in units of 16 bytes

}  // namespace

std::uint64_t encode_descriptor(std::uint32_t address, std::int64_t lbo, std::int64_t sbo,
                                std::int64_t swizzle) {
  const std::uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
  return ((address >> 4) & kField) | ((static_cast<std::uint64_t>(lbo) >> 4) & kField) << 16 |
         ((static_cast<std::uint64_t>(sbo) >> 4) & kField) << 32 | mode << 62;
}

Descriptor Descriptor::decode(std::uint64_t bits) {
  static constexpr int kSwizzles[4] = {0, 128, 64, 32};
  Descriptor d;
  d.address = static_cast<std::uint32_t>(bits & kField) << 4;
  d.lbo = static_cast<std::uint32_t>((bits >> 16) & kField) << 4;
  d.sbo = static_cast<std::uint32_t>((bits >> 32) & kField) << 4;
  d.base_offset = static_cast<std::uint32_t>((bits >> 49) & 7);
  d.swizzle = kSwizzles[bits >> 62];
  return d;
}

Descriptor Descriptor::advanced(std::int64_t bytes) const {
  Descriptor d = *this;
  d.address = (address + static_cast<std::uint32_t>(bytes)) & 0x3ffffu;
  return d;
}

std::uint32_t Descriptor::swizzled(std::uint32_t a) const {
  const std::uint32_t chunks = swizzle == 0 ? 0 : static_cast<std::uint32_t>(swizzle) / 16 - 1;
  return a ^ ((((a >> 7) - base_offset) & chunks) << 4);
}

std::uint32_t Descriptor::k_major(std::uint32_t mn, std::uint32_t chunk) const {
  const std::uint32_t group = address + mn / 8 * sbo;
  if (swizzle == 0) return group + mn % 8 * 16 + chunk * lbo;
  return swizzled(group + mn % 8 * static_cast<std::uint32_t>(swizzle) + chunk * 16);
}

std::uint32_t Descriptor::mn_major(std::uint32_t k, std::uint32_t chunk) const {
  if (swizzle == 0) return address + chunk * sbo + k / 8 * lbo + k % 8 * 16;
  const auto span = static_cast<std::uint32_t>(swizzle), per_atom = span / 16;
  return swizzled(address + chunk / per_atom * lbo + chunk % per_atom * 16 + k / 8 * sbo +
                  k % 8 * span);
}

// ---- fragments ----------------------------------------------------------------------------------

namespace {

void read_fragment(const Cell* regs, const std::uint32_t* poison, int count, const MatrixElem& elem,
                   int rows, Operand& out) {
  const int per_reg = 4 / elem.bytes, halves = rows / 8;
  out.reset(rows, count / halves * 4 * per_reg);
  double values[4];
  for (int j = 0; j < count; ++j) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = (lane >> 2) + 8 * (j % halves),
                k = per_reg * (lane & 3) + 4 * per_reg * (j / halves);
      const auto bits = static_cast<std::uint32_t>(regs[j * kLanes + lane].i);
      std::uint8_t bytes[4];
      std::memcpy(bytes, &bits, 4);
      elem.decode(bytes, per_reg, values);
      for (int h = 0; h < per_reg; ++h) out.at(row, k + h) = values[h];
      if (poison && (poison[j] >> lane & 1)) out.poison[static_cast<std::size_t>(row)] = 1;
    }
  }
}

template <class Round>
void accumulate_rows(Operand& a, Operand& b, bool keep, Cell* acc, std::uint32_t* poison,
                     const Round& round) {
  std::vector<double> sum(static_cast<std::size_t>(b.rows));
  for (int row = 0; row < 16; ++row) {
    std::fill(sum.begin(), sum.end(), 0.0);
    for (int k = 0; k < a.depth; k += 4) {  // every depth is a multiple of 4
      const double f0 = a.at(row, k), f1 = a.at(row, k + 1), f2 = a.at(row, k + 2),
                   f3 = a.at(row, k + 3);
      const double *b0 = &b.at(0, k), *b1 = b0 + b.rows, *b2 = b1 + b.rows, *b3 = b2 + b.rows;
      for (std::size_t n = 0; n < sum.size(); ++n)
        sum[n] = sum[n] + f0 * b0[n] + f1 * b1[n] + f2 * b2[n] + f3 * b3[n];  // in order of k
    }
    for (int n = 0; n < b.rows; ++n) {
      const int reg = 4 * (n / 8) + 2 * (row / 8) + (n & 1), lane = 4 * (row % 8) + n % 8 / 2;
      round(acc[reg * kLanes + lane], sum[static_cast<std::size_t>(n)], keep);
      const std::uint32_t bit = 1u << lane;
      const bool bad = a.poison[static_cast<std::size_t>(row)] ||
                       b.poison[static_cast<std::size_t>(n)] || (keep && (poison[reg] & bit));
      poison[reg] = (poison[reg] & ~bit) | (bad ? bit : 0);
    }
  }
}

}  // namespace

void read_a_fragment(const Cell* regs, const std::uint32_t* poison, int count,
                     const MatrixElem& elem, Operand& out) {
  read_fragment(regs, poison, count, elem, 16, out);
}

void read_b_fragment(const Cell* regs, const std::uint32_t* poison, int count,
                     const MatrixElem& elem, Operand& out) {
  read_fragment(regs, poison, count, elem, 8, out);
}

void multiply_accumulate(Operand& a, Operand& b, DType acc_type, bool keep, Cell* acc,
                         std::uint32_t* poison) {
  if (acc_type == DType::f32) {
    accumulate_rows(a, b, keep, acc, poison, [](Cell& c, double sum, bool kept) {
      c.f = ir::rounded<f32>(kept ? c.f + sum : sum);
    });
  } else if (is_float(acc_type)) {
    accumulate_rows(a, b, keep, acc, poison, [&](Cell& c, double sum, bool kept) {
      c = ir::canonical(Cell{.f = kept ? c.f + sum : sum}, acc_type);
    });
  } else {
    accumulate_rows(a, b, keep, acc, poison, [&](Cell& c, double sum, bool kept) {
      c = ir::canonical(Cell{(kept ? c.i : 0) + static_cast<std::int64_t>(sum)}, acc_type);
    });
  }
}

}  // namespace tegula::sim
