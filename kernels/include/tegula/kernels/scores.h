#pragma once
#include <optional>
#include <source_location>

#include "tegula/functions.h"
#include "tegula/location.h"
#include "tegula/tensor.h"
#include "tegula/value.h"
#include "tegula/view.h"

/// Score functions of attention, to be composed: `compose(softcap(30.f), alibi(16))`. Each is an
/// ordinary score lambda. Tensors are captured: they are read at every launch and lie on the device
/// of the attention; what is read outside of them counts as 0. Tensors of other types or ranks than
/// said throw CompileError.
///
/// Not score functions, though often listed with them: attention sinks are AttentionExtras::sinks;
/// a rotary part of r elements is r more columns of Q and K, whose head dim may differ from that of
/// V. No head dim exceeds 256, so the absorbed form of latent attention (576) is not possible.
namespace tegula {

/// A number in a score. A float is compiled in; a Scalar is read at every launch, so that it
/// changes without compiling. Functions below throw CompileError for a float with which they mean
/// nothing, such as a cap of 0, at the line that gives it.
class ScoreScalar {
 public:
  ScoreScalar(float constant, std::source_location at = std::source_location::current())
      : constant_(constant), at_(at) {}
  ScoreScalar(Scalar<f32> at_launch) : scalar_(std::move(at_launch)), is_scalar_(true) {}
  /// The traced value, inside a score.
  Tile value() const { return is_scalar_ ? scalar_.value() : Tile(constant_); }
  /// The number that is compiled in; none of a Scalar.
  std::optional<float> constant() const {
    return is_scalar_ ? std::nullopt : std::optional(constant_);
  }
  /// The line that gives the constant.
  const Loc& loc() const { return at_; }

 private:
  float constant_ = 0;
  Scalar<f32> scalar_;
  bool is_scalar_ = false;
  Loc at_;
};

namespace scores {

/// second(first(s)).
Score compose(Score first, Score second);

/// How near the hyperbolic tangent is: `exact` within 2^-20 (absolute: beside the score's own
/// rounding, for caps as they are used), `approximate` within 2^-11 of the value, by one
/// instruction instead of two that are as slow each.
enum class Tanh { exact, approximate };
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
/// s + table[q - kv + offset, h], `table` f32 [distances, heads]: any function of the distance
/// (Sandwich's sums of cosines with its weights of heads, Chi et al. 2023; KERPLE; learned ones).
Score distance_bias(Tensor table, int offset, Loc at = std::source_location::current());

/// s + table[bucket(kv - q), h], `table` f32 [buckets, heads] as T5 keeps it (Raffel et al. 2020).
/// Half of the buckets are of one distance each, the others grow logarithmically up to
/// `max_distance`; `bidirectional` gives each sign half of all, else keys ahead count as at 0.
Score t5_bias(Tensor table, int max_distance, bool bidirectional,
              Loc at = std::source_location::current());

/// s + bias[b, h, q, kv], `bias` f32, bf16 or f16 [batch or 1, heads or 1, q or 1, kv or 1];
/// extents of 1 stand for all (AlphaFold's pair bias, Swin's relative table written out).
Score bias(Tensor bias, Loc at = std::source_location::current());

/// s + bias[h, distance[b, q, kv]], `bias` f32 [heads, distances], `distance` i32 [batch, q, kv]
/// (Ying et al. 2021, Graphormer's spatial encoding).
Score graph_distance(Tensor bias, Tensor distance, Loc at = std::source_location::current());
/// s + the mean over the edges n < lengths[b, q, kv] of a path of table[n, h, types[b, q, kv, n]];
/// `table` f32 [steps, heads, types], `types` i32 [batch, q, kv, steps], `lengths` i32 [batch, q,
/// kv] (Graphormer's edge encoding). An empty path adds 0.
Score graph_edges(Tensor table, Tensor types, Tensor lengths,
                  Loc at = std::source_location::current());

/// s * factors[q], `factors` f32 [seqlen_q].
Score query_temperature(Tensor factors, Loc at = std::source_location::current());
/// s * factors[h], `factors` f32 [heads].
Score head_temperature(Tensor factors, Loc at = std::source_location::current());
/// s * log(q + 1) / log(length), length > 1: the same entropy at every position (Chiang and Cholak
/// 2022).
Score log_length(ScoreScalar length);

/// s + f[b, h, q] - f[b, h, kv], `f` f32 [batch, heads, length]: sums of the logarithms of forget
/// gates (Lin et al. 2025, Forgetting Transformer). Query and key count positions alike.
Score forgetting(Tensor f, Loc at = std::source_location::current());

/// log(f(s)): weights in proportion to f(s) >= 0 instead of e^s, for instance sigmoid or the square
/// of max(s, 0). Outputs times e^lse are the results without a denominator;
/// AttentionNormalization::none gives those at once.
Score activation(std::function<Tile(Tile s)> f);

}  // namespace scores
}  // namespace tegula
