// Affine forms of layouts over GF(2) and the integers; see thread_fn.h.
#include "ir/layout/thread_fn.h"

#include <algorithm>
#include <bit>
#include <map>

namespace tegula::ir {
namespace {

std::uint32_t bit_at(int i) { return std::uint32_t{1} << i; }

/// A repeat with its divisor in its coordinate and its weight along its dimension.
struct Digit {
  Repeat repeat;
  int divisor;
  int weight;
};

std::vector<Digit> digits_of(const LinearLayout& layout) {
  std::vector<Digit> out;
  std::array<int, 4> divisor{};
  for (HwDim in : kIns) divisor[static_cast<std::size_t>(in)] = 1 << layout.in_bits(in);
  Dims weight;
  for (int d = 0; d < layout.rank(); ++d) weight.push_back(1 << layout.bits(d));
  for (const Repeat& r : layout.repeats()) {
    int& div = divisor[static_cast<std::size_t>(r.in)];
    out.push_back({r, div, r.dim == Repeat::kNoDim ? 0 : weight[r.dim]});
    div *= r.count;
    if (r.dim != Repeat::kNoDim) weight[r.dim] *= r.count;
  }
  return out;
}

}  // namespace

std::int64_t ThreadOffset::operator()(const HardwareCoord& thread,
                                      const RegisterOffset& part) const {
  std::uint32_t flips = part.flip;
  std::int64_t sum = part.add;
  for (const ThreadBit& b : bits)
    if (thread[b.in] >> b.bit & 1) {
      flips ^= b.flip;
      sum += b.add;
    }
  for (const ThreadDigit& d : digits) sum += thread[d.in] / d.divisor % d.count * d.stride;
  return flips + sum;
}

std::uint32_t ThreadOffset::flipped() const {
  std::uint32_t all = 0;
  for (const ThreadBit& b : bits) all |= b.flip;
  return all;
}

bool ThreadOffset::is_disjoint() const {
  std::uint32_t all = 0;
  for (const ThreadBit& b : bits) {
    if (all & b.flip) return false;
    all |= b.flip;
  }
  return true;
}

std::vector<ThreadOffset::Shift> ThreadOffset::shifts() const {
  std::vector<Shift> out;
  for (const ThreadBit& b : bits)
    for (std::uint32_t left = b.flip; left != 0; left &= left - 1) {
      const int shift = std::countr_zero(left) - b.bit;
      const auto has_shift = [&](const Shift& s) { return s.in == b.in && s.shift == shift; };
      const auto it = std::find_if(out.begin(), out.end(), has_shift);
      if (it == out.end())
        out.push_back({b.in, bit_at(b.bit), shift});
      else
        it->mask |= bit_at(b.bit);
    }
  return out;
}

std::vector<ThreadOffset::Multiple> ThreadOffset::multiples() const {
  std::vector<Multiple> out;
  for (const ThreadBit& b : bits) {
    if (b.add == 0) continue;
    const auto continues = [&](const Multiple& m) {
      const int next = static_cast<int>(std::bit_width(m.mask));
      return m.in == b.in && next == b.bit &&
             m.factor << (next - std::countr_zero(m.mask)) == b.add;
    };
    if (!out.empty() && continues(out.back()))
      out.back().mask |= bit_at(b.bit);
    else
      out.push_back({b.in, bit_at(b.bit), b.add});
  }
  return out;
}

std::vector<ThreadDigit> digits_along(const LinearLayout& layout, HwDim in, int dim) {
  std::vector<ThreadDigit> out;
  int divisor = 1 << layout.in_bits(in);
  for (const Repeat& r : layout.repeats()) {
    if (r.in != in) continue;
    if (r.dim == dim) out.push_back({in, divisor, r.count, 0});
    divisor *= r.count;
  }
  return out;
}

std::int64_t IndexFn::operator()(const HardwareCoord& place) const {
  return thread(place, registers[static_cast<std::size_t>(place.reg)]);
}

IndexFn index_fn(const LinearLayout& layout, int dim) {
  IndexFn fn;
  for (HwDim in : kThreadIns)
    for (int b = 0; b < layout.in_bits(in); ++b)
      if (const int value = layout.basis(in, b)[dim])
        fn.thread.bits.push_back({in, b, static_cast<std::uint32_t>(value), 0});
  for (const Digit& d : digits_of(layout))
    if (d.repeat.in != HwDim::Register && d.repeat.dim == dim)
      fn.thread.digits.push_back({d.repeat.in, d.divisor, d.repeat.count, d.weight});
  const int low = (1 << layout.bits(dim)) - 1;
  const std::uint32_t flipped = fn.thread.flipped();
  for (int r = 0; r < layout.registers(); ++r) {
    const int index = layout.apply({.reg = r})[dim];
    fn.registers.push_back({static_cast<std::uint32_t>(index & low), index & ~low});
    fn.is_additive &= (static_cast<std::uint32_t>(index & low) & flipped) == 0;
  }
  return fn;
}

std::vector<bool> padded_registers(const LinearLayout& layout, int dim) {
  const IndexFn fn = index_fn(layout, dim);
  std::int64_t last = 0;
  for (int r = 0; r < layout.registers(); ++r) last = std::max(last, fn.constant(r));
  const std::int64_t most_of_threads = layout.cover()[dim] - 1 - last;
  std::vector<bool> padded;
  for (int r = 0; r < layout.registers(); ++r)
    padded.push_back(fn.constant(r) + most_of_threads >= layout.shape()[dim]);
  return padded;
}

std::int64_t SharedFn::operator()(const HardwareCoord& place) const {
  const Register& r = registers[static_cast<std::size_t>(place.reg)];
  return slabs[static_cast<std::size_t>(r.slab)](place, r.part);
}

SharedFn::Cut SharedFn::cut(int reg) const {
  const Register& r = registers[static_cast<std::size_t>(reg)];
  const std::uint32_t flipped = slabs[static_cast<std::size_t>(r.slab)].flipped();
  return {r.part.flip & flipped, (r.part.flip & ~flipped) + r.part.add};
}

namespace {

/// Derives the parts of one slab. An index is split at the slab's bits: low parts are XORed, high
/// parts are added.
class SlabFn {
 public:
  SlabFn(const SharedLayout& shared, const Slab& slab, const LinearLayout& dist)
      : shared_(shared), slab_(slab), dist_(dist) {}

  /// Returns the reason for refusal, or an empty string on success.
  std::string build(ThreadOffset& fn) {
    high_by_thread_ = Dims::filled(dist_.rank(), 0);
    for (HwDim in : kThreadIns)
      for (int b = 0; b < dist_.in_bits(in); ++b) {
        const Dims basis = dist_.basis(in, b);
        const RegisterOffset part = contribution(basis);
        for (int d = 0; d < dist_.rank(); ++d) {
          const int high = basis[d] >> slab_.bits[d];
          if (high & high_by_thread_[d]) return "two threads' bits overlap above the linear block";
          high_by_thread_[d] |= high;
        }
        if (part.flip != 0 || part.add != 0) fn.bits.push_back({in, b, part.flip, part.add});
      }
    for (const Digit& d : digits_of(dist_)) {
      if (d.repeat.in == HwDim::Register || d.repeat.dim == Repeat::kNoDim) continue;
      const int dim = d.repeat.dim;
      if (d.weight % (1 << slab_.bits[dim]) != 0)
        return "a thread's digit reaches into the linear block";
      fn.digits.push_back(
          {d.repeat.in, d.divisor, d.repeat.count,
           (d.weight >> slab_.bits[dim]) * slab_.stride[static_cast<std::size_t>(dim)]});
    }
    return {};
  }

  /// Computes the part of a register whose index in thread 0 is `index`.
  std::string build(Dims index, RegisterOffset& part) const {
    const int split = shared_.split_dim();
    if (dist_.rank() > 0) {
      const int reach = reach_along(split);
      const int first = index[split] & ~(reach - 1);
      const bool last =
          &slab_ == &shared_.slabs().back();  // only absent elements are beyond its end
      if (first < slab_.begin || (!last && first + reach > slab_.end) || slab_.begin % reach != 0)
        return "a thread's elements straddle pieces";
      index[split] -= slab_.begin;
    }
    for (int d = 0; d < dist_.rank(); ++d)
      if (index[d] >> slab_.bits[d] & high_by_thread_[d] &
          ((1 << dist_.bits(d)) - 1) >> slab_.bits[d])
        return "a register's bits overlap a thread's above the linear block";
    part = contribution(index);
    part.add += slab_.base;
    return {};
  }

 private:
  RegisterOffset contribution(const Dims& index) const {
    RegisterOffset part;
    for (int d = 0; d < index.size(); ++d) {
      part.add += (index[d] >> slab_.bits[d]) * slab_.stride[static_cast<std::size_t>(d)];
      const int first = slab_.first_bit(d);
      for (int b = 0; b < slab_.bits[d]; ++b)
        if (index[d] >> b & 1) part.flip ^= slab_.basis[static_cast<std::size_t>(first + b)];
    }
    return part;
  }

  /// Returns the size of the aligned block within which threads move a register's index.
  int reach_along(int dim) const {
    unsigned all = 0;
    for (HwDim in : kThreadIns)
      for (int b = 0; b < dist_.in_bits(in); ++b)
        all |= static_cast<unsigned>(dist_.basis(in, b)[dim]);
    return 1 << std::bit_width(all);
  }

  const SharedLayout& shared_;
  const Slab& slab_;
  const LinearLayout& dist_;
  Dims high_by_thread_;
};

}  // namespace

Result<SharedFn> shared_fn(const SharedLayout& shared, const LinearLayout& dist) {
  using LayoutRefusal = Result<SharedFn>;
  if (shared.rank() != dist.rank()) return LayoutRefusal::refused("the ranks differ");
  if (shared.slabs().size() > 1 && dist.has_thread_digit(shared.split_dim()))
    return LayoutRefusal::refused("a thread's digit runs across pieces");
  SharedFn out;
  std::vector<SlabFn> builders;
  for (const Slab& slab : shared.slabs()) {
    builders.emplace_back(shared, slab, dist);
    const std::string reason = builders.back().build(out.slabs.emplace_back());
    if (!reason.empty()) return LayoutRefusal::refused(reason);
  }
  for (int r = 0; r < dist.registers(); ++r) {
    const Dims index = dist.apply({.reg = r});
    SharedFn::Register reg;
    reg.slab = static_cast<int>(&shared.slab_of(index) - shared.slabs().data());
    const std::string reason = builders[static_cast<std::size_t>(reg.slab)].build(index, reg.part);
    if (!reason.empty()) return LayoutRefusal::refused(reason);
    out.registers.push_back(reg);
  }
  return out;
}

namespace {

bool keeps_alignment(const SharedFn& fn, int bytes) {
  const auto mask = static_cast<std::uint32_t>(bytes - 1);
  for (const ThreadOffset& slab : fn.slabs) {
    if (slab.flipped() & mask) return false;
    for (const ThreadBit& b : slab.bits)
      if (b.add % bytes != 0) return false;
    for (const ThreadDigit& d : slab.digits)
      if (d.stride % bytes != 0) return false;
  }
  return true;
}

/// Groups registers by aligned block of `width` units; returns false unless each block is full.
/// `key(reg)` returns the block and the offset within it, in units.
template <class Key>
bool group(int registers, int width, const Key& key, std::vector<Vector>& out) {
  out.clear();
  std::map<decltype(key(0).first), std::size_t> blocks;
  for (int r = 0; r < registers; ++r) {
    const auto [block, offset] = key(r);
    const auto [it, fresh] = blocks.try_emplace(block, out.size());
    if (fresh) out.push_back({std::vector<int>(static_cast<std::size_t>(width), -1)});
    int& slot = out[it->second].registers[static_cast<std::size_t>(offset)];
    if (slot >= 0) return false;
    slot = r;
  }
  return std::all_of(out.begin(), out.end(), [](const Vector& v) {
    return std::find(v.registers.begin(), v.registers.end(), -1) == v.registers.end();
  });
}

}  // namespace

Result<std::vector<Vector>> shared_vectors(const SharedFn& fn, const SharedLayout& shared,
                                           int max_bytes) {
  const int element_bytes = shared.element_bytes();
  const int registers = static_cast<int>(fn.registers.size());
  std::vector<Vector> out;
  for (int bytes = max_bytes; bytes > element_bytes; bytes /= 2) {
    // Another tile may follow this one immediately (the next slot of a ring), and an access to the
    // end of the tile must not extend past its padding: both are ensured if the tile size is a
    // multiple of the vector size.
    if (shared.bytes() % bytes != 0 || !keeps_alignment(fn, bytes)) continue;
    const auto key = [&](int r) {
      const auto& reg = fn.registers[static_cast<std::size_t>(r)];
      const std::int64_t constant =
          reg.part.flip % static_cast<unsigned>(bytes) + reg.part.add % bytes;
      const std::array<std::int64_t, 3> block{
          reg.slab, reg.part.flip / static_cast<unsigned>(bytes), reg.part.add / bytes};
      return std::pair(block, static_cast<int>(constant / element_bytes));
    };
    const bool fits =
        std::all_of(fn.registers.begin(), fn.registers.end(), [&](const SharedFn::Register& r) {
          return r.part.flip % static_cast<unsigned>(bytes) + r.part.add % bytes < bytes;
        });
    if (fits && group(registers, bytes / element_bytes, key, out)) return out;
  }
  out.clear();
  for (int r = 0; r < registers; ++r) out.push_back({{r}});
  return out;
}

std::vector<Vector> global_vectors(const LinearLayout& dist, int dim, int max_elements) {
  std::vector<Vector> out;
  const IndexFn along = index_fn(dist, dim);
  for (int width = max_elements; width > 1; width /= 2) {
    const auto key = [&](int r) {
      const Dims index = dist.apply({.reg = r});
      std::vector<int> block(index.begin(), index.end());
      block[static_cast<std::size_t>(dim)] /= width;
      return std::pair(block, index[dim] % width);
    };
    const bool aligned = (along.thread.flipped() & static_cast<unsigned>(width - 1)) == 0;
    if (aligned && group(dist.registers(), width, key, out)) return out;
  }
  out.clear();
  for (int r = 0; r < dist.registers(); ++r) out.push_back({{r}});
  return out;
}

}  // namespace tegula::ir
