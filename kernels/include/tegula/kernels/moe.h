#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>

#include "tegula/expert_config.h"
#include "tegula/kernels/moe_routers.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Layers of a mixture of experts.
namespace tegula {

/// a(gate, up) of an expert, on f32 tiles. Without a gate `up` is the same tile as `gate`.
struct ExpertActivation {
  bool is_gated = true;
  std::function<Tile(const Tile& gate, const Tile& up)> value;
  /// Partial derivatives by gate and up, for backward.
  std::function<std::array<Tile, 2>(const Tile& gate, const Tile& up)> gradient = {};
};
/// silu(gate) * up (Shazeer 2020).
ExpertActivation swiglu();
/// gelu(gate) * up.
ExpertActivation geglu();
/// max(x, 0)^2, without a gate (So et al. 2021).
ExpertActivation relu_squared();
/// gpt-oss: gate to at most `limit`, up to +- `limit`, gate * sigmoid(alpha * gate) * (up + 1).
ExpertActivation clamped_swiglu(float limit = 7, float alpha = 1.702f);

/// How many rows an expert takes: max(at_least, ceil(factor * k * tokens / experts)), or `rows`
/// where that is given. The factor counts as it is written, 0.1f as 1 / 10: whole products are not
/// rounded up. Choices beyond are dropped: they count as 0. Shared experts take all tokens.
/// CompileError for groups of another number of tokens.
struct ExpertCapacity {
  float factor = 1.25f;
  int at_least = 0;
  std::optional<int> rows = {};
  /// All first choices claim rows before all second ones (Mesh TensorFlow, GShard); else tokens do
  /// in order, with all their choices.
  bool by_slot = false;
  /// Tokens compete in groups of so many, a multiple of 256, each with rows of its own (GShard):
  /// the formula's tokens are those of a group. 0: all tokens of a call.
  int group_tokens = 0;
};

/// Routing by experts (Zhou et al. 2022): each takes the min(T, ceil(factor T / E)) tokens whose
/// softmax has most for it; that is the weight. So all experts have as many rows, and a token goes
/// to 0 to E experts: K is E, and R the rows of all experts. A token's experts depend on the other
/// tokens: not for causal inference. At most 32768 tokens.
struct ExpertChoice {
  float factor = 2;
};

/// How operands of 8 bits are scaled: a value is its 8 bits times its scale.
enum class ExpertScaling : std::uint8_t {
  tensor,  ///< one scale of each expert's matrix; those of X and of the activations are given
  row,     ///< one of each output of a matrix, and of each row of X and of the activations
};

/// Experts of f8e4m3: the weights are given in it, rows of X and of the activations are quantised
/// on their way to a GEMM, by row as quantise_fp8 does. Hidden and intermediate size are multiples
/// of 16, at most 32768. Forward only.
struct ExpertQuantisation {
  ExpertScaling scaling = ExpertScaling::row;
  /// The accumulators of k-iterations are added in f32: within a wgmma of 8 bits they have fewer
  /// bits (DeepSeek-V3, section 3.3).
  bool fp32_promotion = false;
};

/// Configurations of the two GEMMs; those that are left out are chosen by the mean number of rows
/// an expert, which follows from shapes.
struct MoeTiles {
  std::optional<ExpertTileConfig> up = {}, down = {};
};

struct MoeOptions {
  Router router;
  int experts = 0;  ///< experts that the router chooses from
  ExpertActivation activation = swiglu();
  /// In `up`, outputs of gate and up projection alternate (gpt-oss); else those of the gate come
  /// first.
  bool is_interleaved = false;
  /// Weights scale what experts take instead of what they give (Llama 4).
  bool scales_inputs = false;
  /// Experts that all tokens go to with weight 1: the last ones of `up` and `down`, as wide as the
  /// others (DeepSeekMoE).
  int shared_experts = 0;
  std::optional<ExpertCapacity> capacity = {};  ///< none: dropless
  /// Instead of `router` and `capacity`; there are no shared experts.
  std::optional<ExpertChoice> expert_choice = {};
  MoeTiles tiles = {};
  /// Configurations follow from no number of tokens, so that a token's output has the same bits
  /// whatever else is in the batch, if neither `capacity` nor `expert_choice` lets tokens compete.
  /// Tiles that are left out are those of 32 rows an expert.
  bool is_batch_invariant = false;
  std::optional<ExpertQuantisation> quantisation = {};  ///< none: experts of X's type
};

/// Scales of quantised experts, f32.
struct MoeScales {
  /// ExpertScaling::row: [E + S, 2 i or i], [E + S, h]. ExpertScaling::tensor: [E + S].
  Tensor up = {}, down = {};
  /// ExpertScaling::tensor alone: [1] of X, and of the activations.
  Tensor input = {}, hidden = {};
};

/// Parameters of a layer, of the type of X, but for `up` and `down` of quantised experts, which are
/// f8e4m3. E experts and S shared ones, hidden size h,
/// intermediate size i.
struct MoeWeights {
  Tensor router = {};       ///< [E, h]; not of a call by logits
  Tensor router_bias = {};  ///< f32 [E]; may be left out
  Tensor up = {};           ///< [E + S, 2 i, h]; [E + S, i, h] without a gate
  Tensor up_bias = {};      ///< [E + S, 2 i or i]; may be left out
  Tensor down = {};         ///< [E + S, h, i]
  Tensor down_bias = {};    ///< [E + S, h]; may be left out
  MoeScales scales = {};    ///< scales of quantised experts
};

/// Decisions of routing, i32 on the device but for the weights: K = k + S choices a token, R = T K
/// rows (see ExpertChoice). Made by Moe::make_routing.
struct MoeRouting {
  Tensor ids = {};      ///< [T, K]
  Tensor weights = {};  ///< f32 [T, K]
  Tensor row_of = {};   ///< [T, K]: row of a choice among those sorted by expert; -1: dropped
  Tensor slot_of = {};  ///< [R]: token * K + slot of each row
  Tensor offsets = {};  ///< [E + S + 1]: rows of each expert
  /// [4, E + S + 1]: tiles of 64 and of 128 rows in front of each expert's, and those of the up and
  /// of the down product (of 128 rows where Moe::route makes them).
  Tensor first_tiles = {};
};

/// Tensors that forward keeps for backward, besides X: routing, and pre-activations `hidden` [R, 2
/// i or i] of X's type, gates first. Made by Moe::make_saved.
struct MoeSaved {
  MoeRouting routing = {};
  Tensor hidden = {};
};

/// Results of backward; those that are left out are not computed, but for X. Gradients of
/// parameters are of X's type, or f32 (main gradients), in the shapes of the parameters.
struct MoeGradients {
  Tensor X = {};        ///< [T, h], without what comes through the router
  Tensor logits = {};   ///< f32 [T, E]
  Tensor weights = {};  ///< f32 [T, K]: of the choices' weights
  Tensor up = {}, up_bias = {}, down = {}, down_bias = {};
  bool adds = false;  ///< the parameters' gradients are added to what is there
};

/// A layer of experts, Y = sum over the choices of a token of weight * down(activation(up(x))).
/// Everything is decided on the device: no call waits for it, calls may be captured, and launches
/// depend on shapes alone. Every run gives the same bits: ranks and sums are counted in integers,
/// and choices are added up in order of their slots. Dropless layers take any T from 0 and any
/// distribution of rows over experts.
class Moe {
 public:
  explicit Moe(MoeOptions options, Loc at = std::source_location::current());

  /// Y [T, h] from X [T, h]: bf16 or f16, rows of a multiple of 16 bytes.
  void operator()(const Stream& stream, const Tensor& X, const MoeWeights& weights, const Tensor& Y,
                  Loc at = std::source_location::current()) const;
  /// The same from logits f32 [T, E] instead of the weights' router.
  void from_logits(const Stream& stream, const Tensor& X, const Tensor& logits,
                   const MoeWeights& weights, const Tensor& Y,
                   Loc at = std::source_location::current()) const;
  /// The same for training: fills `saved`.
  void from_logits(const Stream& stream, const Tensor& X, const Tensor& logits,
                   const MoeWeights& weights, const Tensor& Y, const MoeSaved& saved,
                   Loc at = std::source_location::current()) const;
  /// Gradients from that of Y: those of the experts' parameters, of X through the experts, and of
  /// the logits by the router's gradient. The products with the router's weights are the caller's:
  /// dlogits^T X, and dlogits router, which is to be added to the gradient of X.
  void backward(const Stream& stream, const Tensor& X, const Tensor& logits,
                const MoeWeights& weights, const MoeSaved& saved, const Tensor& dY,
                const MoeGradients& gradients, Loc at = std::source_location::current()) const;

  /// Routing alone, from logits f32 [T, E] and a bias f32 [E], which may be left out.
  void route(const Stream& stream, const Tensor& logits, const Tensor& bias, const MoeRouting& out,
             Loc at = std::source_location::current()) const;
  MoeRouting make_routing(std::int64_t tokens, Device device,
                          Loc at = std::source_location::current()) const;
  MoeSaved make_saved(const Tensor& X, const MoeWeights& weights,
                      Loc at = std::source_location::current()) const;

  const MoeOptions& options() const;
  /// Reports on the kernels compiled for `dtype`: plans, remarks.
  std::string explain(DType dtype = DType::bf16, Loc at = std::source_location::current()) const;

  struct Kernels;

 private:
  std::shared_ptr<const Kernels> kernels_;
};

inline Moe moe(MoeOptions options, Loc at = std::source_location::current()) {
  return Moe(std::move(options), at);
}

}  // namespace tegula
