// Attention forward: one tile of queries against all visible keys, online softmax in base 2.
#include "tegula/kernels/attention.h"

#include <cmath>
#include <numbers>

#include "kernels/attention/block_sizes.h"
#include "kernels/attention/mask_bounds.h"
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

/// Whether the block of keys holds one that some row must not see: one behind the last, or one that
/// the mask may stop.
Tile needs_mask(const AttentionSpec& spec, const std::optional<KvRange>& full, const Index& n,
                const Tile& length) {
  const Tile first = n.first(), end = first + n.block();
  const Tile ragged = end > length;
  if (!spec.mask) return ragged;
  return full ? ragged || first < full->lo || end > full->hi : ragged || true;
}

/// Which keys a tile of queries sees, by what the spec says or else by what its mask computes.
class Visibility {
 public:
  explicit Visibility(const AttentionSpec& spec) : spec_(spec) {
    if (spec.mask && !spec.range && !spec.full) derived_.emplace(spec.mask);
  }
  MaskedKeys of(const Tile& first, const Tile& last, const Tile& length) const {
    if (derived_) return derived_->record(first, last, length);
    MaskedKeys keys;
    if (spec_.range) keys.visible = spec_.range(first, last, length);
    if (spec_.full) keys.full = spec_.full(first, last, length);
    return keys;
  }

 private:
  const AttentionSpec& spec_;
  std::optional<MaskBounds> derived_;
};

template <class T>
auto make_kernel(const AttentionSpec& spec) {
  return kernel("attention", [spec](In<T, 4> Q, In<T, 4> K, In<T, 4> V, Out<T, 4> O,
                                    Out<f32, 3> Lse, Scalar<f32> scale) {
    // What head dims lack of a multiple of 16 is absent.
    const Index d = slice(0, padded_head_dim(Q.fixed(3))),
                dv = slice(0, padded_head_dim(V.fixed(3)));
    K.fixed(3), O.fixed(3);  // so that no guard is left where nothing is absent
    const int BM = tune("BM", {16, 32, 64, 128}, 128),
              BN = tune("BN", {16, 32, 48, 64, 80, 96, 112, 128, 176},
                        keys_of_a_step(d.block(), dv.block()));
    const Visibility visibility(spec);  // of this trace: what the mask captured may change
    const Tile group = Q.dim(1) / K.dim(1);
    for (auto [b, h, m] : grid(O, 1, 1, BM, heavy_first)) {
      const Tile q = Q(b, h, m, d), rows = expand(m, 1);
      OnlineSoftmax state{full<f32>(kFloor, BM), zeros<f32>(BM), zeros<f32>(BM, dv.block())};
      const Tile first = m.first(), length = K.dim(2);
      const MaskedKeys sees = visibility.of(first, first + (BM - 1), length);
      const KvRange range = sees.visible.value_or(KvRange{full<i32>(0), length});
      const Tile factor = std::numbers::log2e_v<float> * (spec.score ? full<f32>(1) : scale);
      for (auto n : steps(range.lo, min(range.hi, length), BN)) {
        // Keys behind the last read as 0; the mask stops them, and their weights are 0.
        const Tile columns = expand(n, 0), keys = fill_absent(K(b, h / group, n, d), 0),
                   values = fill_absent(V(b, h / group, n, dv), 0);
        Tile s = dot(q, keys.T());
        if (spec.score) s = spec.score(s * scale, b, h, rows, columns);
        if_(needs_mask(spec, sees.full, n, length), [&] {
          const Tile inside = columns < length;
          s = where(spec.mask ? inside && spec.mask(b, h, rows, columns) : inside, s, -INFINITY);
        });
        const Tile weights = softmax_step(state, s, factor);
        state.out = dot(cast<T>(weights), values, state.out);
      }
      const Tile empty = state.sum == 0.0f;
      O(b, h, m, dv) = state.out * expand(where(empty, 0.0f, rcp(state.sum)), 1);
      Lse(b, h, m) = where(empty, -INFINITY,
                           fma(state.top, factor, log2(state.sum)) * std::numbers::ln2_v<float>);
    }
  });
}

void require(bool ok, const std::string& message, const std::string& hint) {
  if (!ok) throw CompileError(Diagnostic{"", "attention: " + message, {}, {}, hint});
}

void check(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O) {
  for (const Tensor* t : {&Q, &K, &V, &O})
    require(t->rank() == 4, "a tensor is " + t->str() + ", not of rank 4",
            "use [batch, heads, length, head_dim]");
  const auto equal = [&](const char* what, const char* a, const Tensor& x, const char* b,
                         const Tensor& y, std::initializer_list<int> dims) {
    for (const int d : dims)
      require(x.size(d) == y.size(d),
              std::string(what) + " differ: " + a + " is " + x.str() + ", " + b + " is " + y.str(),
              std::string("give both tensors the same ") + what);
  };
  equal("batches", "Q", Q, "K", K, {0});
  equal("batches", "K", K, "V", V, {0});
  equal("heads", "K", K, "V", V, {1});
  equal("lengths", "K", K, "V", V, {2});
  equal("head dims", "Q", Q, "K", K, {3});
  equal("head dims", "V", V, "O", O, {3});
  equal("batches", "Q", Q, "O", O, {0});
  equal("heads", "Q", Q, "O", O, {1});
  equal("lengths", "Q", Q, "O", O, {2});
  for (const Tensor* t : {&Q, &V})
    require(t->size(3) > 0 && t->size(3) % 8 == 0 && t->size(3) <= kMaxHeadDim,
            "the head dim of " + t->str() + " is no multiple of 8 up to 256",
            "pad the last dimension with zeros");
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

struct Attention::Kernels {
  explicit Kernels(const AttentionSpec& s)
      : spec(s), bf16_kernel(make_kernel<bf16>(s)), f16_kernel(make_kernel<f16>(s)) {}
  AttentionSpec spec;
  decltype(make_kernel<bf16>({})) bf16_kernel;
  decltype(make_kernel<f16>({})) f16_kernel;
};

Attention::Attention(AttentionSpec spec) : kernels_(std::make_shared<const Kernels>(spec)) {}

void Attention::operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                           const Tensor& O, const Tensor& Lse) const {
  check(Q, K, V, O);
  const float scale =
      kernels_->spec.scale.value_or(1.0f / std::sqrt(static_cast<float>(Q.size(3))));
  require(scale > 0, "scale is " + std::to_string(scale), "give a positive one");
  if (Q.dtype() == DType::f16)
    kernels_->f16_kernel(stream, Q, K, V, O, Lse, scale);
  else
    kernels_->bf16_kernel(stream, Q, K, V, O, Lse, scale);
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
  return dtype == DType::f16 ? kernels_->f16_kernel.explain() : kernels_->bf16_kernel.explain();
}
std::string Attention::dump(std::string_view verb, DType dtype) const {
  return dtype == DType::f16 ? kernels_->f16_kernel.dump(verb) : kernels_->bf16_kernel.dump(verb);
}

}  // namespace tegula
