#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>

#include "tegula/expert_config.h"
#include "tegula/kernels/moe_routers.h"
#include "tegula/lambda.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Mixture-of-experts layers.
namespace tegula::kernels {

/// Activation a(gate, up) of an expert, on f32 tiles. Without a gate, `up` is the tile `gate`. The
/// backward pass differentiates it (tegula/derivative.h).
struct ExpertActivation {
  bool is_gated = true;  ///< the up projection has 2 i outputs: gates and values
  Lambda<Tile(const Tile& gate, const Tile& up)> value;  ///< a(gate, up)
};
/// silu(gate) * up (Shazeer 2020).
ExpertActivation swiglu();
/// gelu(gate) * up.
ExpertActivation geglu();
/// max(x, 0)^2, without a gate (So et al. 2021).
ExpertActivation relu_squared();
/// gpt-oss: min(gate, limit), up clamped to +- limit, gate * sigmoid(alpha * gate) * (up + 1).
ExpertActivation clamped_swiglu(float limit = 7, float alpha = 1.702f);

/// Maximum rows per expert: max(at_least, ceil(factor * k * tokens / experts)), or `rows` if given.
/// The factor is taken as its shortest decimal, 0.1f as 1 / 10, so exact integers are not rounded
/// up. Choices that exceed the capacity are dropped: they contribute 0. Shared experts process all
/// tokens. Moe's constructor throws CompileError (T1662) if group_tokens is not a multiple of 256.
struct ExpertCapacity {
  float factor = 1.25f;          ///< multiple of the mean number of rows, 0 or more
  int at_least = 0;              ///< lower bound of the maximum
  std::optional<int> rows = {};  ///< the maximum, in place of the formula
  /// All first choices claim rows before all second ones (Mesh TensorFlow, GShard); otherwise
  /// tokens claim rows in order, with all their choices.
  bool by_slot = false;
  /// Tokens compete in groups of this size, a multiple of 256, each with its own capacity (GShard):
  /// `tokens` in the formula is that of a group. 0: all tokens of a call.
  int group_tokens = 0;
};

/// Expert-choice routing (Zhou et al. 2022): each expert takes the min(T, ceil(factor T / E))
/// tokens with its largest softmax probabilities, which are the weights. All experts have equally
/// many rows, and a token is sent to 0 to E experts: K is E, and R the rows of all experts. Experts
/// depend on the other tokens, so this does not suit causal inference. At most 32768 tokens.
struct ExpertChoice {
  float factor = 2;  ///< mean number of experts per token, 0 or more
};

/// Scaling of 8-bit operands: a value is its 8-bit float times its scale.
enum class ExpertScaling : std::uint8_t {
  tensor,  ///< one scale per expert's matrix; the scales of X and of the activations are given
  row,     ///< one scale per output of a matrix, and per row of X and of the activations
};

/// Experts with f8e4m3 weights: rows of X and of the activations are quantised per row before each
/// GEMM, as by quantise_fp8. Hidden and intermediate size are multiples of 16, at most 32768.
/// Forward only.
struct ExpertQuantisation {
  ExpertScaling scaling = ExpertScaling::row;  ///< granularity of MoeScales
  /// Adds the accumulators of k-iterations in f32: an 8-bit wgmma accumulates with fewer bits
  /// (DeepSeek-V3, section 3.3).
  bool fp32_promotion = false;
};

/// Configurations of the two GEMMs. Absent ones are chosen from the mean number of rows per expert,
/// which depends on shapes only.
struct MoeTiles {
  std::optional<ExpertTileConfig> up = {}, down = {};  ///< tegula/expert_config.h
};

/// Definition of a layer, apart from its tensors.
struct MoeOptions {
  Router router;    ///< chooses router.k experts per token, such as routers::mixtral()
  int experts = 0;  ///< experts that the router chooses from
  ExpertActivation activation = swiglu();  ///< between the two GEMMs of an expert
  /// Outputs of the gate and up projections alternate in `up` (gpt-oss); otherwise those of the
  /// gate come first.
  bool is_interleaved = false;
  /// Weights scale the inputs of experts instead of their outputs (Llama 4).
  bool scales_inputs = false;
  /// Experts that process all tokens with weight 1: the last ones of `up` and `down`, as wide as
  /// the others (DeepSeekMoE).
  int shared_experts = 0;
  std::optional<ExpertCapacity> capacity = {};  ///< none: dropless
  /// Replaces `router` and `capacity`; not supported with shared experts.
  std::optional<ExpertChoice> expert_choice = {};
  MoeTiles tiles = {};  ///< for measurements; default: chosen for each call
  /// Configurations do not depend on the number of tokens, so a token's output has the same bits in
  /// any batch, unless tokens compete because of `capacity` or `expert_choice`. Absent tiles are
  /// those chosen for 32 rows per expert.
  bool is_batch_invariant = false;
  std::optional<ExpertQuantisation> quantisation = {};  ///< none: experts of X's type
};

/// Scales of quantised experts, f32.
struct MoeScales {
  /// ExpertScaling::row: [E + S, 2 i or i], [E + S, h]. ExpertScaling::tensor: [E + S].
  Tensor up = {}, down = {};
  /// ExpertScaling::tensor only: [1], for X and for the activations.
  Tensor input = {}, hidden = {};
};

/// Parameters of a layer with E experts and S shared ones, hidden size h, intermediate
/// size i. They have the type of X, except that `up` and `down` of quantised experts are
/// f8e4m3.
struct MoeWeights {
  Tensor router = {};       ///< [E, h]; not of a call by logits
  Tensor router_bias = {};  ///< f32 [E]; optional
  Tensor up = {};           ///< [E + S, 2 i, h]; [E + S, i, h] without a gate
  Tensor up_bias = {};      ///< [E + S, 2 i or i]; optional
  Tensor down = {};         ///< [E + S, h, i]
  Tensor down_bias = {};    ///< [E + S, h]; optional
  MoeScales scales = {};    ///< scales of quantised experts
};

/// Routing decisions on the device, i32 except for the weights: K = k + S choices per token, R = T
/// K rows (but see ExpertChoice). Allocated by Moe::make_routing.
struct MoeRouting {
  Tensor ids = {};      ///< [T, K]
  Tensor weights = {};  ///< f32 [T, K]
  Tensor row_of = {};   ///< [T, K]: row of a choice among those sorted by expert; -1: dropped
  Tensor slot_of = {};  ///< [R]: token * K + slot of each row
  Tensor offsets = {};  ///< [E + S + 1]: rows of each expert
  /// [4, E + S + 1]: tiles before those of each expert, for tiles of 64 rows, of 128 rows, and for
  /// those of the up and down GEMMs (128 rows if made by Moe::route).
  Tensor first_tiles = {};
};

/// Tensors that the forward pass saves for the backward pass, apart from X: routing, and
/// pre-activations `hidden` [R, 2 i or i] of X's type, gates first. Allocated by Moe::make_saved.
struct MoeSaved {
  MoeRouting routing = {};  ///< choices of the forward pass
  Tensor hidden = {};       ///< [R, 2 i or i]
};

/// Results of the backward pass. All but X are computed only if defined. Gradients of parameters
/// have the parameters' shapes, and X's type or f32 (main gradients).
struct MoeGradients {
  Tensor X = {};        ///< [T, h], without the contribution of the router
  Tensor logits = {};   ///< f32 [T, E]
  Tensor weights = {};  ///< f32 [T, K]: gradients of the choices' weights
  Tensor up = {}, up_bias = {}, down = {}, down_bias = {};  ///< shaped like those of MoeWeights
  bool adds = false;  ///< gradients of parameters are added to the tensors' contents
};

/// A mixture-of-experts layer, Y = sum over the choices of a token of weight *
/// down(activation(up(x))). All decisions are made on the device: calls do not synchronize and may
/// be captured, and launches depend on shapes only. Results are bitwise reproducible: ranks are
/// counted in integers, and choices are added in order of their slots. Dropless layers support any
/// T >= 0 and any distribution of rows over experts.
///
///     const Moe layer = moe({.router = routers::mixtral(2), .experts = 8});
///     layer(stream, X, {.router = gate, .up = up, .down = down}, Y);
class Moe {
 public:
  /// Compiles nothing yet. Throws CompileError (T1662, T1670, T1671) for options that contradict
  /// each other or exceed a limit.
  explicit Moe(MoeOptions options, Loc at = std::source_location::current());

  /// Computes Y [T, h] from X [T, h]: bf16 or f16, with rows of a multiple of 16 bytes. The logits
  /// are X times the transpose of `weights.router`, plus `weights.router_bias`. Throws CompileError
  /// for tensors of other types, shapes or devices: T1672 (X), T1673, T1677.
  void operator()(const Stream& stream, const Tensor& X, const MoeWeights& weights, const Tensor& Y,
                  Loc at = std::source_location::current()) const;
  /// The same with given logits f32 [T, E] instead of the router's weights (T1674, T1676).
  void from_logits(const Stream& stream, const Tensor& X, const Tensor& logits,
                   const MoeWeights& weights, const Tensor& Y,
                   Loc at = std::source_location::current()) const;
  /// The same for training: also fills `saved`.
  void from_logits(const Stream& stream, const Tensor& X, const Tensor& logits,
                   const MoeWeights& weights, const Tensor& Y, const MoeSaved& saved,
                   Loc at = std::source_location::current()) const;
  /// Computes gradients from that of Y: of the experts' parameters, of X through the experts, and
  /// of the logits through the router's gradient. The caller computes the GEMMs with the router's
  /// weights: dlogits^T X, and dlogits router, which must be added to the gradient of X. Throws
  /// CompileError for a router without a gradient (T1675) or an activation without a derivative
  /// (T1022), and with quantisation (T1678).
  void backward(const Stream& stream, const Tensor& X, const Tensor& logits,
                const MoeWeights& weights, const MoeSaved& saved, const Tensor& dY,
                const MoeGradients& gradients, Loc at = std::source_location::current()) const;

  /// Routing only, from logits f32 [T, E] and an optional bias f32 [E].
  void route(const Stream& stream, const Tensor& logits, const Tensor& bias, const MoeRouting& out,
             Loc at = std::source_location::current()) const;
  /// Returns undefined contents for `route`, for this number of tokens.
  MoeRouting make_routing(std::int64_t tokens, Device device,
                          Loc at = std::source_location::current()) const;
  /// Returns undefined contents for the `saved` of from_logits, for tokens X.
  MoeSaved make_saved(const Tensor& X, const MoeWeights& weights,
                      Loc at = std::source_location::current()) const;

  const MoeOptions& options() const;
  /// Returns reports on the kernels compiled for `dtype`: plans, remarks.
  std::string explain(DType dtype = DType::bf16, Loc at = std::source_location::current()) const;

  struct Kernels;

 private:
  std::shared_ptr<const Kernels> kernels_;
};

/// Makes a layer from its options. Keep the result: it owns the compiled kernels.
inline Moe moe(MoeOptions options, Loc at = std::source_location::current()) {
  return Moe(std::move(options), at);
}

}  // namespace tegula::kernels
