#pragma once
#include <optional>
#include <source_location>

#include "tegula/functions.h"
#include "tegula/lambda.h"
#include "tegula/location.h"
#include "tegula/tensor.h"
#include "tegula/value.h"
#include "tegula/view.h"

/// Composable score functions of attention: `compose(softcap(30.f), alibi(16))`. Each is an
/// ordinary score lambda. Captured tensors are read at every launch and must be on the attention's
/// device; elements outside them read as 0. Tensors with other types or ranks than documented throw
/// CompileError.
///
/// Not score functions, although often listed as such: attention sinks are AttentionExtras::sinks;
/// a rotary part of r elements is r more columns of Q and K, whose head dim may differ from V's.
/// Head dims are at most 256, so the absorbed form of latent attention (576) is unsupported.
namespace tegula::kernels {

/// A number in a score. A float is a compile-time constant; a Scalar is read at every launch and
/// may change without recompilation. The functions below throw CompileError for a meaningless
/// float, such as a cap of 0, at the line that passes it.
class ScoreScalar {
 public:
  ScoreScalar(float constant, std::source_location at = std::source_location::current())
      : constant_(constant), at_(at) {}
  ScoreScalar(Scalar<f32> at_launch) : scalar_(std::move(at_launch)), is_scalar_(true) {}
  /// Returns the traced value, inside a score.
  Tile value() const { return is_scalar_ ? scalar_.value() : Tile(constant_); }
  /// Returns the compile-time constant, or nothing for a Scalar.
  std::optional<float> constant() const {
    return is_scalar_ ? std::nullopt : std::optional(constant_);
  }
  /// Returns the line that passes the constant.
  const Loc& loc() const { return at_; }

 private:
  float constant_ = 0;
  Scalar<f32> scalar_;
  bool is_scalar_ = false;
  Loc at_;
};

namespace scores {

/// Returns the score second(first(s)).
Score compose(Score first, Score second);

/// Accuracy of the hyperbolic tangent.
enum class Tanh {
  exact,        ///< absolute error of 2^-20, below the rounding of the score itself for usual caps
  approximate,  ///< relative error of 2^-11; one instruction instead of two of the same cost
};
/// cap * tanh(s / cap), cap > 0: scores stay within +-cap (Gemma 2).
Score softcap(ScoreScalar cap, Tanh tanh = Tanh::exact);

/// s + (kv - q) * 2^(-8 (h + 1) / heads) (Press et al. 2022, ALiBi).
Score alibi(int heads, Loc at = std::source_location::current());
/// s + (kv - q) * slopes[h], `slopes` f32 [heads].
Score alibi(Tensor slopes, Loc at = std::source_location::current());

/// s + weight * (q - kv), weight finite.
Score relative_bias(ScoreScalar weight);
/// s + bias[h], `bias` f32 [heads].
Score head_bias(Tensor bias, Loc at = std::source_location::current());
/// s + table[q - kv + offset, h], `table` f32 [distances, heads], with an entry for each pair of a
/// query and a key that it sees (T1314 on `cpu` and `sim`): any function of the distance
/// (Sandwich's weighted sums of cosines, Chi et al. 2023; KERPLE; learned functions).
Score distance_bias(Tensor table, int offset, Loc at = std::source_location::current());

/// s + table[bucket(kv - q), h], `table` f32 [buckets, heads] as in T5 (Raffel et al. 2020). Half
/// of the buckets hold one distance each, the others grow logarithmically up to `max_distance`;
/// `bidirectional` uses half of the buckets per sign, else later keys have distance 0.
Score t5_bias(Tensor table, int max_distance, bool bidirectional,
              Loc at = std::source_location::current());

/// s + bias[b, h, q, kv], `bias` f32, bf16 or f16 [batch or 1, heads or 1, q or 1, kv or 1];
/// extents of 1 broadcast (AlphaFold's pair bias, Swin's expanded relative position bias).
Score bias(Tensor bias, Loc at = std::source_location::current());

/// s + bias[h, distance[b, q, kv]], `bias` f32 [heads, distances], `distance` i32 [batch, q, kv]
/// (Ying et al. 2021, Graphormer's spatial encoding).
Score graph_distance(Tensor bias, Tensor distance, Loc at = std::source_location::current());
/// s + mean over the edges n < lengths[b, q, kv] of a path of table[n, h, types[b, q, kv, n]];
/// `table` f32 [steps, heads, types], `types` i32 [batch, q, kv, steps], `lengths` i32 [batch, q,
/// kv] (Graphormer's edge encoding). An empty path adds 0.
Score graph_edges(Tensor table, Tensor types, Tensor lengths,
                  Loc at = std::source_location::current());

/// s * factors[q], `factors` f32 [seqlen_q].
Score query_temperature(Tensor factors, Loc at = std::source_location::current());
/// s * factors[h], `factors` f32 [heads].
Score head_temperature(Tensor factors, Loc at = std::source_location::current());
/// s * log(q + 1) / log(length), length > 1: keeps the entropy equal at all positions (Chiang and
/// Cholak 2022).
Score log_length(ScoreScalar length);

/// s + f[b, h, q] - f[b, h, kv], `f` f32 [batch, heads, length]: prefix sums of log forget gates
/// (Lin et al. 2025, Forgetting Transformer). Queries and keys use the same positions.
Score forgetting(Tensor f, Loc at = std::source_location::current());

/// log(f(s)): weights proportional to f(s) >= 0 instead of e^s, such as sigmoid or the square of
/// max(s, 0). Outputs times e^lse are the unnormalized results; AttentionNormalization::none
/// computes those directly.
Score activation(Lambda<Tile(Tile s)> f);

}  // namespace scores
}  // namespace tegula::kernels
