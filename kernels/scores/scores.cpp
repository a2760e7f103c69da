// The library of score functions. Each returns the lambda that is documented in scores.h.
#include "tegula/kernels/scores.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/argument_error.h"
#include "tegula/derivative.h"
#include "tegula/math.h"
#include "tegula/memory.h"
#include "tegula/tile_ops.h"

namespace tegula::kernels::scores {
namespace {

/// Returns the bucket of each distance 0 .. max_distance; larger distances are in the last bucket.
std::vector<i32> t5_buckets(int buckets, int max_distance) {
  const int exact = buckets / 2;
  std::vector<i32> table;
  for (int n = 0; n <= max_distance; ++n) {
    int bucket = n;
    if (n >= exact) {
      const double share = std::log(static_cast<double>(n) / exact) /
                           std::log(static_cast<double>(max_distance) / exact);
      bucket = std::min(exact + static_cast<int>(share * (buckets - exact)), buckets - 1);
    }
    table.push_back(bucket);
  }
  return table;
}

/// Returns one element of a tensor. fill_absent avoids a select for every element of the score.
Tile of_head(const Tensor& t, const Tile& h) { return fill_absent(view<f32, 1>(t)(h), 0); }

/// A hyperbolic tangent and its slope.
struct Squashed {
  Tile value, slope;
};

/// Returns 2 / (1 + e^-2x) - 1: two special-function instructions instead of the four of `tanh`,
/// which is accurate relative to values near 0. Scores need absolute accuracy only.
Squashed tanh_of_share(const Tile& x) {
  constexpr float log2e = std::numbers::log2e_v<float>;
  const Tile r = rcp_approx(1.0f + exp2(x * (-2 * log2e))), r4 = 4.0f * r;
  return {2.0f * r - 1.0f, fma(-r4, r, r4)};
}

Squashed approximate_tanh(const Tile& x) {
  const Tile t = tanh_approx(x);
  return {t, fma(-t, t, 1.0f)};
}

/// Returns the index, or 0 along a broadcast extent of 1.
Tile along(const Tensor& t, int dim, const Tile& index) {
  return t.size(dim) == 1 ? Tile(0) : index;
}

template <class T>
Score bias_of(Tensor bias) {
  return [bias = std::move(bias)](Tile s, Tile b, Tile h, Tile q, Tile kv) {
    return s + cast<f32>(view<T, 4>(bias)(along(bias, 0, b), along(bias, 1, h), along(bias, 2, q),
                                          along(bias, 3, kv)));
  };
}

/// Throws T1662 for a constant that is not finite or not above `least`, at the line that passes it.
void require_finite(const char* score, const char* name, const ScoreScalar& number,
                    float least = -inf) {
  const std::optional<float> constant = number.constant();
  if (constant && !(*constant > least && std::isfinite(*constant)))
    fail(ErrorId::kernel_argument, number.loc(), {}, score, name, *constant,
         least == -inf ? "a finite number" : fmt::format("a finite number above {}", least));
}

}  // namespace

Score compose(Score first, Score second) {
  return [first = std::move(first), second = std::move(second)](Tile s, Tile b, Tile h, Tile q,
                                                                Tile kv) {
    return second(first(s, b, h, q, kv), b, h, q, kv);
  };
}

Score softcap(ScoreScalar cap, Tanh kind) {
  require_finite("scores::softcap", "cap", cap, 0);
  return [=](Tile s, Tile, Tile, Tile, Tile) {
    const Tile c = cap.value(), share = s * rcp(c);
    assume(c > 0.0f);  // allows scaling the maximum of a row instead of each score
    const auto [t, slope] = kind == Tanh::exact ? tanh_of_share(share) : approximate_tanh(share);
    return with_gradient(with_gradient(c * t, s, slope), c, t - share * slope);
  };
}

Score alibi(int heads, Loc at) {
  const detail::CallPlace here(at);
  if (heads <= 0) throw_argument_error(ErrorId::alibi_heads, heads);
  return [=](Tile s, Tile, Tile h, Tile q, Tile kv) {
    const Tile slope = exp2(cast<f32>(h + 1) * (-8.0f / static_cast<float>(heads)));
    return fma(cast<f32>(kv - q), slope, s);
  };
}
Score alibi(Tensor slopes, Loc at) {
  const detail::CallPlace here(at);
  require_table("scores::alibi", "slopes", slopes, DType::f32, 1);
  return [slopes = std::move(slopes)](Tile s, Tile, Tile h, Tile q, Tile kv) {
    return fma(cast<f32>(kv - q), of_head(slopes, h), s);
  };
}

Score relative_bias(ScoreScalar weight) {
  require_finite("scores::relative_bias", "weight", weight);
  return [=](Tile s, Tile, Tile, Tile q, Tile kv) {
    return fma(cast<f32>(q - kv), weight.value(), s);
  };
}
Score head_bias(Tensor bias, Loc at) {
  const detail::CallPlace here(at);
  require_table("scores::head_bias", "bias", bias, DType::f32, 1);
  return
      [bias = std::move(bias)](Tile s, Tile, Tile h, Tile, Tile) { return s + of_head(bias, h); };
}
Score distance_bias(Tensor table, int offset, Loc at) {
  const detail::CallPlace here(at);
  require_table("scores::distance_bias", "table", table, DType::f32, 2);
  return [table = std::move(table), offset](Tile s, Tile, Tile h, Tile q, Tile kv) {
    return s + view<f32, 2>(table)(q - kv + offset, h);
  };
}

Score t5_bias(Tensor table, int max_distance, bool bidirectional, Loc at) {
  const detail::CallPlace here(at);
  if (table.rank() != 2 || table.dtype() != DType::f32)
    throw_argument_error(ErrorId::t5_table, table.str());
  const auto all = static_cast<int>(table.size(0)), buckets = bidirectional ? all / 2 : all;
  if (buckets < 2 || max_distance <= buckets / 2)
    throw_argument_error(ErrorId::t5_buckets, all, max_distance);
  Tensor bucket_of = Tensor::from(t5_buckets(buckets, max_distance), table.device());
  return [=](Tile s, Tile, Tile h, Tile q, Tile kv) {
    const Tile ahead = kv - q;
    const Tile distance = bidirectional ? abs(ahead) : max(Tile(0), -ahead);
    Tile bucket = view<i32, 1>(bucket_of)(min(distance, Tile(max_distance)));
    if (bidirectional) bucket = where(ahead > 0, bucket + buckets, bucket);
    return s + view<f32, 2>(table)(bucket, h);
  };
}

Score bias(Tensor bias, Loc at) {
  const detail::CallPlace here(at);
  if (bias.rank() != 4) throw_argument_error(ErrorId::bias_rank, bias.str());
  if (bias.dtype() == DType::bf16) return bias_of<bf16>(std::move(bias));
  if (bias.dtype() == DType::f16) return bias_of<f16>(std::move(bias));
  if (bias.dtype() == DType::f32) return bias_of<f32>(std::move(bias));
  throw_argument_error(ErrorId::bias_rank, bias.str());
}

Score graph_distance(Tensor bias, Tensor distance, Loc at) {
  const detail::CallPlace here(at);
  require_table("scores::graph_distance", "bias", bias, DType::f32, 2);
  require_table("scores::graph_distance", "distance", distance, DType::i32, 3);
  return [bias = std::move(bias), distance = std::move(distance)](Tile s, Tile b, Tile h, Tile q,
                                                                  Tile kv) {
    return s + view<f32, 2>(bias)(h, view<i32, 3>(distance)(b, q, kv));
  };
}

Score graph_edges(Tensor table, Tensor types, Tensor lengths, Loc at) {
  const detail::CallPlace here(at);
  if (table.rank() != 3 || table.dtype() != DType::f32)
    throw_argument_error(ErrorId::graph_table, table.str());
  require_table("scores::graph_edges", "types", types, DType::i32, 4);
  require_table("scores::graph_edges", "lengths", lengths, DType::i32, 3);
  return [table = std::move(table), types = std::move(types), lengths = std::move(lengths)](
             Tile s, Tile b, Tile h, Tile q, Tile kv) {
    const Tile length = view<i32, 3>(lengths)(b, q, kv);
    Tile sum = Tile(0.0f);
    for (int n = 0; n < table.size(0); ++n) {
      const Tile type = view<i32, 4>(types)(b, q, kv, n);
      sum = sum + where(length > n, view<f32, 3>(table)(n, h, type), 0.0f);
    }
    return s + sum * rcp(cast<f32>(max(length, Tile(1))));
  };
}

Score query_temperature(Tensor factors, Loc at) {
  const detail::CallPlace here(at);
  require_table("scores::query_temperature", "factors", factors, DType::f32, 1);
  return [factors = std::move(factors)](Tile s, Tile, Tile, Tile q, Tile) {
    return s * view<f32, 1>(factors)(q);
  };
}
Score head_temperature(Tensor factors, Loc at) {
  const detail::CallPlace here(at);
  require_table("scores::head_temperature", "factors", factors, DType::f32, 1);
  return [factors = std::move(factors)](Tile s, Tile, Tile h, Tile, Tile) {
    return s * of_head(factors, h);
  };
}
Score log_length(ScoreScalar length) {
  require_finite("scores::log_length", "length", length, 1);
  return [=](Tile s, Tile, Tile, Tile q, Tile) {
    return s * (log2(cast<f32>(q + 1)) * rcp(log2(length.value())));
  };
}

Score forgetting(Tensor f, Loc at) {
  const detail::CallPlace here(at);
  require_table("scores::forgetting", "f", f, DType::f32, 3);
  return [f = std::move(f)](Tile s, Tile b, Tile h, Tile q, Tile kv) {
    const auto sums = view<f32, 3>(f);
    return s + (sums(b, h, q) - sums(b, h, kv));
  };
}

Score activation(Lambda<Tile(Tile s)> f) {
  return [f = std::move(f)](Tile s, Tile, Tile, Tile, Tile) { return log(f(s)); };
}

}  // namespace tegula::kernels::scores
