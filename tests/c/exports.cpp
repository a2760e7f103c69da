// A library of exported callables, as a user's would be: tests of the C interface load it.
#include <tegula/kernels/attention.h>
#include <tegula/kernels/export.h>
#include <tegula/kernels/masks.h>
#include <tegula/kernels/matmul.h>
#include <tegula/tegula.h>

#include <stdexcept>

using namespace tegula;
using namespace tegula::kernels;

namespace {

const auto add_kernel = kernel("add", [](In<f32, 1> x, In<f32, 1> y, Out<f32, 1> z) {
                          for (auto i : grid(z, 64)) z(i) = x(i) + y(i);
                        }).named("x[N]", "y[N]", "z[N]");

enum class Sign : std::uint8_t { keep, flip };

/// Every kind of number: scalars of the call, and constants, for each of which it is traced.
const auto affine_kernel =
    kernel("affine", [](In<f32, 2> x, Scalar<f32> factor, Scalar<i32> offset, int repeat,
                        bool twice, Sign sign, float step, Out<f32, 2> y) {
      for (auto [r, c] : grid(y, 8, 32)) {
        Tile v = x(r, c) * factor + cast<f32>(offset);
        for (int i = 0; i < repeat; ++i) v = v + step;
        if (twice) v = v * 2.0f;
        y(r, c) = sign == Sign::flip ? -v : v;
      }
    }).named("x[M, N]", "factor", "offset", "repeat", "twice", "sign", "step", "y[M, N]");

/// Without names: arg0, arg1, ..
const auto bias_kernel =
    kernel("bias", [](In<f32, 1> x, Ptr<f32> scale, Out<f32, 1> y, std::optional<In<f32, 1>> b) {
      for (auto i : grid(y, 64)) {
        const Tile v = x(i) * load(scale);
        y(i) = b ? v + (*b)(i) : v;
      }
    });

const auto square_kernel = kernel("square", [](In<f32, 2> x, Out<f32, 2> y) {
                             for (auto [r, c] : grid(y, 8, 32)) {
                               const Tile v = x(r, c);
                               y(r, c) = v * v;
                             }
                           }).named("x[M, N]", "y[M, N]");
const auto square_backward_kernel =
    kernel("square_backward", [](In<f32, 2> grad_y, In<f32, 2> x, Out<f32, 2> grad_x) {
      for (auto [r, c] : grid(grad_x, 8, 32)) grad_x(r, c) = grad_y(r, c) * x(r, c) * 2.0f;
    }).named("grad_y[M, N]", "x[M, N]", "grad_x[M, N]");

const auto add_into_kernel = kernel("add_into", [](In<f32, 1> x, InOut<f32, 1> sum) {
                               for (auto i : grid(sum, 64)) sum(i) = sum(i) + x(i);
                             }).named("x[N]", "sum[N]");

/// No input tells how many columns there are.
const auto columns_kernel = kernel("columns", [](In<f32, 1> x, Out<f32, 2> y) {
                              for (auto [r, c] : grid(y, 8, 32)) y(r, c) = expand(x(r), 1) + 0.0f;
                            }).named("x[N]", "y[N, M]");

/// Settings that differ in their speed alone.
const auto doubled_kernel = kernel("doubled", [](In<f32, 2> x, Scalar<i32> offset, Out<f32, 2> y) {
                              const int rows = tune("ROWS", {1, 8});
                              const int turns = tune("TURNS", {200, 1}, 200);
                              for (auto [r, c] : grid(y, rows, 64)) {
                                Tile v = x(r, c) * 2.0f;
                                for (int i = 0; i < turns; ++i) v = (v + 1.0f) - 1.0f;
                                y(r, c) = v + cast<f32>(offset);
                              }
                            }).named("x[M, N]", "offset", "y[M, N]");

const auto refused_kernel = kernel("refused", [](In<f32, 1> x, Out<f32, 1> y) {
  for (auto i : grid(y, 64)) y(i) = dot(x(i), x(i));
});

[[noreturn]] Exportable thrown() { throw std::runtime_error("no configuration file"); }

/// A callable of the user's own: two launches.
Exportable twice_added() {
  Exportable out = exportable(add_kernel);
  out.kernel = nullptr;
  out.call = [](const Stream& stream, std::span<const tegula::detail::HostArg> args, Loc) {
    add_kernel(stream, *args[0].tensor, *args[1].tensor, *args[2].tensor);
    add_kernel(stream, *args[2].tensor, args[1].tensor->clone(), args[2].tensor->clone());
    if (args[0].tensor->numel() == 13) throw std::out_of_range("thirteen");
  };
  return out;
}

/// C = A B of 16-bit floats, by the library's choice.
Exportable product_of_library() {
  const auto matrix = [](const char* name, const char* dims, tegula::detail::ViewAccess access) {
    return ExportParam{{tegula::detail::ParamKind::View, DType::bf16, 2, access}, true, name, dims};
  };
  return {{matrix("A", "M K", tegula::detail::ViewAccess::In),
           matrix("B", "K N", tegula::detail::ViewAccess::In),
           matrix("C", "M N", tegula::detail::ViewAccess::Out)},
          [](const Stream& stream, std::span<const tegula::detail::HostArg> args, Loc at) {
            matmul(stream, *args[0].tensor, *args[1].tensor, *args[2].tensor, {}, at);
          }};
}

const Attention windowed{
    {.mask = [](auto, auto, auto q, auto kv) { return q >= kv && q - kv < 16; }}};
const Attention causal{{.mask = masks::causal()}};
/// Without a softmax, and so without lse.
const Attention relu_scores{{.score = [](auto s, auto, auto, auto, auto) { return max(s, 0.0f); },
                             .weighting = AttentionNormalization::none}};
/// With a bias for each pair and a factor for each head, which are parameters.
Tensor pair_bias = Tensor::zeros({1, 1, 1, 1}, DType::bf16, Device::cpu()),
       head_factors = Tensor::zeros({1}, DType::f32, Device::cpu());
const Attention biased{{.score = [](auto s, auto b, auto h, auto q, auto kv) {
  return s * view<f32, 1>(head_factors)(h) + cast<f32>(view<bf16, 4>(pair_bias)(b, h, q, kv));
}}};
const std::vector<CapturedParameter> of_biased{{"bias", &pair_bias, DType::bf16, "B H Q K"},
                                               {"factors", &head_factors, DType::f32, "H"}};

const Moe experts_layer =
    moe({.router = routers::deepseek_moe(2), .experts = 4, .shared_experts = 1});

}  // namespace

TEGULA_EXPORT(add, add_kernel);
TEGULA_EXPORT(affine, affine_kernel);
TEGULA_EXPORT(bias, bias_kernel);
TEGULA_EXPORT(square, square_kernel);
TEGULA_EXPORT(square_backward, square_backward_kernel);
TEGULA_EXPORT_BACKWARD(square, square_backward, "x");
TEGULA_EXPORT(add_into, add_into_kernel);
TEGULA_EXPORT(columns, columns_kernel);
TEGULA_EXPORT(doubled, doubled_kernel);
TEGULA_EXPORT(refused, refused_kernel);
TEGULA_EXPORT(thrown, thrown());
TEGULA_EXPORT(misnamed, kernel("misnamed", [](In<f32, 2>) {}).named("x[M]"));
TEGULA_EXPORT(twice_added, twice_added());
TEGULA_EXPORT(product, product_of_library());
TEGULA_EXPORT(window_attention, windowed);
TEGULA_EXPORT(window_attention_backward, attention_backward(windowed));
TEGULA_EXPORT_BACKWARD(window_attention, window_attention_backward, kAttentionSaved);
TEGULA_EXPORT(biased_attention, exportable(biased, of_biased));
TEGULA_EXPORT(biased_attention_backward, attention_backward(biased, of_biased));
TEGULA_EXPORT_BACKWARD(biased_attention, biased_attention_backward,
                       "q k v o lse sinks bias factors");
TEGULA_EXPORT(relu_attention, relu_scores);
TEGULA_EXPORT(relu_attention_backward, attention_backward(relu_scores));
TEGULA_EXPORT_BACKWARD(relu_attention, relu_attention_backward, "q k v o");
TEGULA_EXPORT(paged_attention, paged_attention(causal));
TEGULA_EXPORT(append, kv_append());
TEGULA_EXPORT(wrong_backward, square_kernel);
TEGULA_EXPORT_BACKWARD(wrong_backward, square_backward, "x z");
TEGULA_EXPORT(experts, exportable(experts_layer));
TEGULA_EXPORT(experts_training, moe_forward(experts_layer));
TEGULA_EXPORT(experts_backward, moe_backward(experts_layer));
TEGULA_EXPORT_BACKWARD(experts_training, experts_backward, kMoeSaved);
