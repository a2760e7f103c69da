// Attention forward: one tile of queries against all visible keys, online softmax in base 2.
#include "tegula/kernels/attention.h"

#include <cmath>
#include <numbers>

#include "kernels/attention/visits.h"
#include "kernels/attention/way.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

constexpr float kFloor =
    -1e30f;  // a maximum that no score lies below, yet finite: exp2(-inf - kFloor) is 0, not NaN

/// Running maximum and sum of each row, and the accumulated output they belong to.
struct OnlineSoftmax {
  Tile top, sum, out;
};

/// Takes one block of scores in; returns the weights of the block. Scores times `factor`, which is
/// positive, are exponents of 2: the product is one fma with the subtraction of the maximum.
Tile softmax_step(OnlineSoftmax& s, const Tile& scores, const Tile& factor) {
  const Tile now = max(s.top, max(scores, axis(1)));
  const Tile weights = exp2(fma(scores, factor, expand(now * -factor, 1)));
  const Tile rescale = exp2((s.top - now) * factor);
  s.sum = fma(s.sum, rescale, sum(weights, 1));
  s.out = s.out * expand(rescale, 1);
  s.top = now;
  return weights;
}

/// Which keys a tile of queries sees, by what the spec says or else by what its mask computes.
class Visibility {
 public:
  explicit Visibility(const AttentionSpec& spec) : spec_(spec) {
    if (spec.mask && !spec.range && !spec.full) derived_.emplace(spec.mask);
  }
  Visits of(const Tile& first, const Tile& last, const Tile& length, int block) const {
    return Visits::range(seen(first, last, length), length, block);
  }

 private:
  MaskedKeys seen(const Tile& first, const Tile& last, const Tile& length) const {
    if (derived_) return derived_->record(first, last, length);
    MaskedKeys keys;
    if (spec_.range) keys.visible = spec_.range(first, last, length);
    if (spec_.full) keys.full = spec_.full(first, last, length);
    return keys;
  }

  const AttentionSpec& spec_;
  std::optional<MaskBounds> derived_;
};

/// The kernel's body. Which blocks are visited is the lists' to say, where there are some.
template <class T>
void attend(const AttentionSpec& spec, bool has_gaps, const std::optional<ListViews>& lists,
            In<T, 4> Q, In<T, 4> K, In<T, 4> V, Out<T, 4> O, Out<f32, 3> Lse, Scalar<f32> scale) {
  const int D = Q.fixed(3);
  const AttentionTiles tiles = attention_tiles(D, has_gaps);
  const int BM = tune("BM", {16, 32, 64, 128}, tiles.queries),
            BN = tune("BN", {16, 32, 48, 64, 80, 96, 112, 128, 176}, tiles.keys);
  const Visibility visibility(spec);  // of this trace: what the mask captured may change
  const Tile group = Q.dim(1) / K.dim(1);
  for (auto [b, h, m] : grid(O, 1, 1, BM, heavy_first)) {
    const Tile q = Q(b, h, m, all), rows = expand(m, 1);
    OnlineSoftmax state{full<f32>(kFloor, BM), zeros<f32>(BM), zeros<f32>(BM, D)};
    const Tile first = m.first(), length = K.dim(2);
    const Visits visits = lists ? Visits::list(*lists, b, h, first / BM, BN)
                                : visibility.of(first, first + (BM - 1), length, BN);
    const Tile factor = std::numbers::log2e_v<float> * (spec.score ? full<f32>(1) : scale);
    for (auto step : visits.steps()) {
      // Keys behind the last read as 0; the mask stops them, and their weights are 0.
      const Index n = visits.block(step);
      const Tile columns = expand(n, 0), keys = fill_absent(K(b, h / group, n, all), 0),
                 values = fill_absent(V(b, h / group, n, all), 0);
      Tile s = dot(q, keys.T());
      if (spec.score) s = spec.score(s * scale, b, h, rows, columns);
      if_(visits.needs_mask(step, spec.mask != nullptr), [&] {
        const Tile inside = columns < length;
        s = where(spec.mask ? inside && spec.mask(b, h, rows, columns) : inside, s, -INFINITY);
      });
      const Tile weights = softmax_step(state, s, factor);
      state.out = dot(cast<T>(weights), values, state.out);
    }
    const Tile empty = state.sum == 0.0f;
    O(b, h, m, all) = state.out * expand(where(empty, 0.0f, rcp(state.sum)), 1);
    Lse(b, h, m) = where(empty, -INFINITY,
                         fma(state.top, factor, log2(state.sum)) * std::numbers::ln2_v<float>);
  }
}

template <class T>
auto make_kernel(const AttentionSpec& spec, bool has_gaps) {
  return kernel("attention", [spec, has_gaps](In<T, 4> Q, In<T, 4> K, In<T, 4> V, Out<T, 4> O,
                                              Out<f32, 3> Lse, Scalar<f32> scale) {
    attend(spec, has_gaps, std::nullopt, Q, K, V, O, Lse, scale);
  });
}

/// The same over block lists: the caller's, or those that are derived from the mask.
template <class T>
auto make_listed_kernel(const AttentionSpec& spec) {
  return kernel("attention",
                [spec](In<T, 4> Q, In<T, 4> K, In<T, 4> V, Out<T, 4> O, Out<f32, 3> Lse,
                       Scalar<f32> scale, In<i32, 4> blocks, In<i32, 3> counts, In<i32, 3> full) {
                  const ListViews lists{blocks, counts, full, !spec.blocks};
                  attend(spec, true, std::optional(lists), Q, K, V, O, Lse, scale);
                });
}

void require(bool ok, const std::string& message, const std::string& hint) {
  if (!ok) throw CompileError(Diagnostic{"", "attention: " + message, {}, {}, hint});
}

void check(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O) {
  for (const Tensor* t : {&Q, &K, &V, &O})
    require(t->rank() == 4, "a tensor is " + t->str() + ", not of rank 4",
            "use [batch, heads, length, head_dim]");
  require(K.shape() == V.shape(), "K is " + K.str() + ", V is " + V.str(),
          "K and V must have one shape");
  require(Q.shape() == O.shape(), "Q is " + Q.str() + ", O is " + O.str(), "O must have Q's shape");
  require(Q.size(0) == K.size(0), "batches differ: Q is " + Q.str() + ", K is " + K.str(), "");
  require(Q.size(3) == K.size(3), "head dims differ: Q is " + Q.str() + ", K is " + K.str(), "");
  require(K.size(1) > 0 && Q.size(1) % K.size(1) == 0,
          "Q has " + std::to_string(Q.size(1)) + " heads, K has " + std::to_string(K.size(1)),
          "the number of query heads must be a multiple of that of key heads");
}

}  // namespace

KvRange causal_range(const Tile&, const Tile& last, const Tile& kv_length) {
  return {full<i32>(0), min(last + 1, kv_length)};
}
KvRange causal_full(const Tile& first, const Tile&, const Tile&) {
  return {full<i32>(0), first + 1};
}

namespace {

/// The kernels of one element type.
template <class T>
struct KernelsOf {
  KernelsOf(const AttentionSpec& s, bool has_gaps)
      : plain(make_kernel<T>(s, has_gaps)), listed(with_tiles(s)) {}

  static auto with_tiles(const AttentionSpec& s) {
    const auto k = make_listed_kernel<T>(s);
    return s.blocks ? k.with({{"BM", s.blocks->block_q}, {"BN", s.blocks->block_kv}}) : k;
  }
  std::string explain(bool is_listed) const {
    return is_listed ? listed.explain() : plain.explain();
  }
  std::string dump(bool is_listed, std::string_view verb) const {
    return is_listed ? listed.dump(verb) : plain.dump(verb);
  }

  decltype(make_kernel<T>({}, false)) plain;
  decltype(make_listed_kernel<T>({})) listed;
};

void check_spec(const AttentionSpec& spec) {
  if (!spec.blocks) return;
  require(!spec.range && !spec.full, "`blocks` is given together with `range` or `full`",
          "leave those out: the list says which blocks are visited and which are full");
  check_blocks(*spec.blocks);
}

}  // namespace

struct Attention::Kernels {
  explicit Kernels(const AttentionSpec& s)
      : spec(s), way(s), of_bf16(s, way.has_gaps()), of_f16(s, way.has_gaps()) {}

  template <class T>
  void run(const KernelsOf<T>& kernels, const Stream& stream, const Tensor& Q, const Tensor& K,
           const Tensor& V, const Tensor& O, const Tensor& Lse, float scale) const {
    const auto lists = way.lists(stream, {Q, K, V, O});
    if (!lists) return kernels.plain(stream, Q, K, V, O, Lse, scale);
    kernels.listed(stream, Q, K, V, O, Lse, scale, lists->blocks, lists->counts, lists->full);
  }

  AttentionSpec spec;
  Way way;
  KernelsOf<bf16> of_bf16;
  KernelsOf<f16> of_f16;
};

Attention::Attention(AttentionSpec spec) {
  check_spec(spec);
  kernels_ = std::make_shared<const Kernels>(spec);
}

void Attention::operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                           const Tensor& O, const Tensor& Lse) const {
  check(Q, K, V, O);
  const float scale =
      kernels_->spec.scale.value_or(1.0f / std::sqrt(static_cast<float>(Q.size(3))));
  require(scale > 0, "scale is " + std::to_string(scale), "give a positive one");
  if (Q.dtype() == DType::f16)
    kernels_->run(kernels_->of_f16, stream, Q, K, V, O, Lse, scale);
  else
    kernels_->run(kernels_->of_bf16, stream, Q, K, V, O, Lse, scale);
}

void Attention::operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                           const Tensor& O) const {
  require(Q.rank() == 4, "Q is " + Q.str() + ", not of rank 4",
          "use [batch, heads, length, head_dim]");
  (*this)(stream, Q, K, V, O,
          Tensor::empty({Q.size(0), Q.size(1), Q.size(2)}, DType::f32, Q.device()));
}

void Attention::operator()(const Tensor& Q, const Tensor& K, const Tensor& V,
                           const Tensor& O) const {
  (*this)(Stream(Q.device()), Q, K, V, O);
}

std::string Attention::explain(DType dtype) const {
  const Way& way = kernels_->way;
  const bool listed = way.is_listed();
  return (dtype == DType::f16 ? kernels_->of_f16.explain(listed)
                              : kernels_->of_bf16.explain(listed)) +
         "keys visited: " + way.text() + "\n" + way.explain();
}
std::string Attention::dump(std::string_view verb, DType dtype) const {
  const bool listed = kernels_->way.is_listed();
  return dtype == DType::f16 ? kernels_->of_f16.dump(listed, verb)
                             : kernels_->of_bf16.dump(listed, verb);
}

}  // namespace tegula
