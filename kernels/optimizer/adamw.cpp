// AdamW for many tensors: each program updates a chunk of one tensor, selected by a table.
#include "tegula/kernels/adamw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/argument_error.h"
#include "tegula/int_math.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

/// Elements per program.
constexpr std::int64_t kChunk = 4096;
/// Elements per iteration: each thread of four warps has 8 elements, of at least 12 bytes of memory
/// each.
constexpr int kStep = 1024;
constexpr std::int64_t kGranuleBytes = 16;

/// Columns of the table: start of a chunk in the memory of each kind of tensor, in elements; its
/// number of elements; whether it is complete and its tensors are aligned.
enum Column : std::uint8_t { kWeight, kGradient, kFirst, kSecond, kCount, kIsWhole, kColumnCount };

/// Scalars of a step, derived from the options.
struct StepScalars {
  Scalar<f32> kept;        ///< 1 - lr decay
  Scalar<f32> rate;        ///< lr / (1 - beta1^t)
  Scalar<f32> correction;  ///< 1 / sqrt(1 - beta2^t)
  Scalar<f32> beta1, beta2, epsilon, gradient_scale;
};

/// Random bits for the stochastic rounding of a step.
struct RoundingBits {
  Scalar<u64> seed, step;

  /// Returns a word for each of kStep elements from `first`, a multiple of 4. A Philox block has
  /// four words, which are used by four neighbours, so each element costs a quarter of a block.
  Tile from(const Arg& first) const {
    const Tile block = cast<u64>(first / 4) + cast<u64>(arange(kStep / 4));
    const auto [a, b, c, d] = philox(seed, block, step);
    return interleave(interleave(a, c), interleave(b, d));
  }
};

struct Updated {
  Tile weight, first, second;
};
Updated updated(const StepScalars& s, const Tile& weight, const Tile& gradient, const Tile& first,
                const Tile& second) {
  const Tile g = cast<f32>(gradient) * s.gradient_scale;
  const Tile m = first + (1.0f - s.beta1) * (g - first);
  const Tile v = s.beta2 * second + (1.0f - s.beta2) * g * g;
  const Tile w = cast<f32>(weight) * s.kept;
  return {w - s.rate * m / (sqrt(v) * s.correction + s.epsilon), m, v};
}

/// For each kind of tensor, a vector over the memory that contains all its tensors (MemorySpan).
template <class W, class G>
struct Memory {
  InOut<W, 1> weight;
  In<G, 1> gradient;
  InOut<f32, 1> first, second;

  static std::int64_t bytes_of(int column) {
    return column == kWeight ? sizeof(W) : column == kGradient ? sizeof(G) : sizeof(float);
  }
  /// Updates the elements that `at(column)` selects; `rounded` converts weights to their type. All
  /// elements are in bounds, so none is absent.
  template <class At, class Rounded>
  void update(const StepScalars& s, const At& at, const Rounded& rounded) const {
    const auto w = at(kWeight), m = at(kFirst), v = at(kSecond);
    const auto present = [](const Tile& t) { return fill_absent(t, 0); };
    const Updated u = updated(s, present(weight(w)), present(gradient(at(kGradient))),
                              present(first(m)), present(second(v)));
    weight(w) = rounded(u.weight), first(m) = u.first, second(v) = u.second;
  }
};

template <class W, class G, bool is_stochastic>
auto adamw_kernel() {
  return kernel("adamw",
                [](Memory<W, G> memory, In<i64, 2> chunks, StepScalars scalars, RoundingBits bits) {
                  for (auto c : grid(rows(chunks), 1)) {
                    const auto rounded_from = [&](const Arg& first) {
                      return [=](const Tile& weight) {
                        if constexpr (!is_stochastic)
                          return weight;
                        else
                          return cast<W>(weight, Stochastic{bits.from(c.first() * kChunk + first)});
                      };
                    };
                    const Tile count = chunks(c, int{kCount});
                    const auto begins = [&](bool is_aligned) {
                      std::array<Tile, kCount> of;
                      for (int column = 0; column < kCount; ++column) {
                        const std::int64_t granule =
                            is_aligned ? kGranuleBytes / Memory<W, G>::bytes_of(column) : 1;
                        of[column] = chunks(c, column) / granule * granule;
                      }
                      return of;
                    };
                    if_(
                        chunks(c, int{kIsWhole}) != 0,
                        [&] {
                          const auto begin = begins(true);
                          for (auto s : steps(kChunk, kStep).independent())
                            memory.update(
                                scalars,
                                [&](Column of) { return Index(begin[of] + s.first(), kStep); },
                                rounded_from(s.first()));
                        },
                        [&] {
                          const auto begin = begins(false);
                          for (auto s : steps(count, kStep).independent()) {
                            const Tile i = cast<i64>(s.indices());
                            memory.update(
                                scalars,
                                [&](Column of) { return where(i < count, begin[of] + i, -1); },
                                rounded_from(s.first()));
                          }
                        });
                  }
                })
      .may_alias()
      .with_plan({.num_warps = 4, .min_ctas_per_sm = 4});
}

/// Byte range that contains all tensors, aligned to 16 bytes. It is passed as the argument for each
/// kind of tensor: memory between tensors is not accessed, and `sim` registers each range once.
class MemorySpan {
 public:
  void add(const Tensor& t) {
    if (t.numel() == 0) return;
    const ByteRange r = t.byte_range();
    begin_ = std::min(begin_, r.begin / kGranuleBytes * kGranuleBytes);
    end_ = std::max(end_, round_up(r.end, kGranuleBytes));
    device_ = t.device();
  }
  /// Returns the offset of a tensor, in its elements.
  std::int64_t offset_of(const Tensor& t) const {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(t.data()) - begin_) /
           size_bytes(t.dtype());
  }
  Tensor as(DType dtype) const {
    return Tensor::borrow(reinterpret_cast<void*>(begin_),
                          {static_cast<std::int64_t>(end_ - begin_) / size_bytes(dtype)}, dtype,
                          device_);
  }

 private:
  std::uintptr_t begin_ = std::numeric_limits<std::uintptr_t>::max(), end_ = 0;
  Device device_ = Device::cpu();
};

/// Returns the tensors in the order of the table's columns.
std::array<const Tensor*, 4> all_of(const AdamWTensors& t) {
  return {&t.weight, &t.gradient, &t.first_moment, &t.second_moment};
}

bool is_aligned(const Tensor* t) {
  return reinterpret_cast<std::uintptr_t>(t->data()) % kGranuleBytes == 0;
}

void check_adamw(const AdamWTensors& t, const AdamWTensors& of_first) {
  constexpr const char* kName = "adamw";
  const DType weight = of_first.weight.dtype(), gradient = of_first.gradient.dtype();
  require_tensor(kName, "weight", t.weight, weight == DType::bf16 ? weight : DType::f32,
                 t.weight.shape());
  require_tensor(kName, "gradient", t.gradient, gradient == weight ? weight : DType::f32,
                 t.weight.shape());
  require_tensor(kName, "first_moment", t.first_moment, DType::f32, t.weight.shape());
  require_tensor(kName, "second_moment", t.second_moment, DType::f32, t.weight.shape());
  for (const Tensor* tensor : all_of(t))
    if (!tensor->is_contiguous() || tensor->device() != of_first.weight.device())
      throw_argument_error(ErrorId::kernel_argument, kName, "a tensor", tensor->str(),
                           "contiguous tensors on one device");
}

}  // namespace

struct AdamW::State {
  std::vector<AdamWTensors> tensors;  ///< keeps the tensors alive
  Tensor weight, gradient, moments, chunks;
};

AdamW::AdamW(std::span<const AdamWTensors> tensors, Loc at) {
  const detail::CallPlace here(at);
  auto state = std::make_shared<State>();
  MemorySpan span;
  for (const AdamWTensors& t : tensors) {
    check_adamw(t, tensors.front());
    for (const Tensor* tensor : all_of(t)) span.add(*tensor);
    if (t.weight.numel() > 0) state->tensors.push_back(t);
  }
  std::vector<std::int64_t> table;
  for (const AdamWTensors& t : state->tensors) {
    const auto four = all_of(t);
    const bool aligned = std::ranges::all_of(four, is_aligned);
    for (std::int64_t begin = 0; begin < t.weight.numel(); begin += kChunk) {
      const std::int64_t count = std::min(kChunk, t.weight.numel() - begin);
      for (const Tensor* tensor : four) table.push_back(span.offset_of(*tensor) + begin);
      table.push_back(count);
      table.push_back(aligned && count == kChunk);
    }
  }
  if (!table.empty()) {
    const AdamWTensors& first = state->tensors.front();
    state->weight = span.as(first.weight.dtype());
    state->gradient = span.as(first.gradient.dtype()), state->moments = span.as(DType::f32);
    state->chunks =
        Tensor::from(table, {static_cast<std::int64_t>(table.size()) / kColumnCount, kColumnCount},
                     first.weight.device());
  }
  state_ = std::move(state);
}

void AdamW::step(const Stream& stream, std::int64_t t, const AdamWOptions& options, Loc at) const {
  const detail::CallPlace here(at);
  const State& s = *state_;
  if (t < 1)
    throw_argument_error(ErrorId::kernel_argument, "adamw", "t", t, "1 for the first step");
  if (!s.chunks.defined()) return;
  const auto& [rate, beta1, beta2, epsilon, decay, gradient_scale, seed] = options;
  const auto at_step = static_cast<double>(t);
  const auto run = [&]<class W, class G, bool is_stochastic>(W, G,
                                                             std::bool_constant<is_stochastic>) {
    // Leaked: destructors of static objects may call.
    static const auto* const kernel = new auto(adamw_kernel<W, G, is_stochastic>());
    (*kernel)(stream, s.weight, s.gradient, s.moments, s.moments, s.chunks, 1 - rate * decay,
              static_cast<float>(rate / (1 - std::pow(static_cast<double>(beta1), at_step))),
              static_cast<float>(1 / std::sqrt(1 - std::pow(static_cast<double>(beta2), at_step))),
              beta1, beta2, epsilon, gradient_scale, seed.value_or(0),
              static_cast<std::uint64_t>(t));
  };
  if (s.weight.dtype() == DType::f32) return run(f32(), f32(), std::false_type());
  const auto run_bf16 = [&](auto is_stochastic) {
    if (s.gradient.dtype() == DType::f32)
      run(bf16(), f32(), is_stochastic);
    else
      run(bf16(), bf16(), is_stochastic);
  };
  if (seed)
    run_bf16(std::true_type());
  else
    run_bf16(std::false_type());
}

}  // namespace tegula::kernels
