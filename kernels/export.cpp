#include "tegula/kernels/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "kernels/argument_error.h"

namespace tegula::kernels {
namespace {

using tegula::detail::HostArg;
using tegula::detail::ParamInfo;
using tegula::detail::ParamKind;
using tegula::detail::ViewAccess;

/// A tensor whose element type is the common type of all such tensors of a call.
ExportParam tensor(const std::string& name, const std::string& dims,
                   ViewAccess access = ViewAccess::In) {
  const int rank = 1 + static_cast<int>(std::ranges::count(dims, ' '));
  return {.info = {ParamKind::View, DType::bf16, rank, access},
          .any_dtype = true,
          .name = name,
          .dims = dims};
}

ExportParam tensor_of(DType dtype, const std::string& name, const std::string& dims,
                      ViewAccess access = ViewAccess::In) {
  ExportParam p = tensor(name, dims, access);
  p.info.dtype = dtype;
  p.any_dtype = false;
  return p;
}

ExportParam optional(ExportParam p) {
  p.info.optional = true;
  return p;
}

/// Returns the tensor of an argument; undefined if it is left out.
Tensor tensor_in(const HostArg& arg) { return arg.tensor ? *arg.tensor : Tensor(); }

using Params = std::vector<ExportParam>;
using Captured = std::vector<CapturedParameter>;

/// Sets the variables of captured parameters to the arguments of a call while it exists.
class BoundVariables {
 public:
  BoundVariables(const Captured& of, std::span<const HostArg> args) {
    static std::mutex turn;
    if (of.empty()) return;
    lock_ = std::unique_lock(turn);
    for (std::size_t i = 0; i < of.size(); ++i)
      before_.emplace_back(of[i].variable, std::exchange(*of[i].variable, *args[i].tensor));
  }
  ~BoundVariables() {
    for (auto& [variable, value] : before_) *variable = std::move(value);
  }
  BoundVariables(const BoundVariables&) = delete;
  BoundVariables& operator=(const BoundVariables&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
  std::vector<std::pair<Tensor*, Tensor>> before_;
};

Params attention_inputs() {
  return {tensor("q", "B H Q D"), tensor("k", "B G K D"), tensor("v", "B G K E")};
}
ExportParam attention_output(ViewAccess access) { return tensor("o", "B H Q E", access); }
ExportParam attention_lse(const char* name, ViewAccess access) {
  return optional(tensor_of(DType::f32, name, "B H Q", access));
}
ExportParam attention_sinks(const char* name, ViewAccess access) {
  return optional(tensor_of(DType::f32, name, "H", access));
}

Params cache_params(ViewAccess access) {
  return {tensor("k_cache", "P R G D", access), tensor("v_cache", "P R G E", access)};
}
/// Returns the members of KvBatch.
Params batch_params() {
  return {tensor_of(DType::i32, "q_offsets", "B+1"),
          tensor_of(DType::i32, "kv_lengths", "B"),
          {.info = {ParamKind::Scalar, DType::i64}, .name = "max_seqlen_q"}};
}
KvBatch batch_in(std::span<const HostArg> args) {
  return {*args[0].tensor, *args[1].tensor, static_cast<std::int64_t>(args[2].bits)};
}
ExportParam page_table() { return optional(tensor_of(DType::i32, "table", "Y C")); }

Params moe_inputs() {
  return {tensor("x", "T H"), tensor_of(DType::f32, "logits", "T E"), tensor("up", "G U H"),
          tensor("down", "G H I")};
}

/// Returns the tensors of MoeSaved for `choices` per token, in the order of its fields.
Params moe_saved(int choices, ViewAccess access) {
  const std::string by_choice = fmt::format("T {}", choices), rows = fmt::format("T*{}", choices);
  return {tensor_of(DType::i32, "ids", by_choice, access),
          tensor_of(DType::f32, "weights", by_choice, access),
          tensor_of(DType::i32, "row_of", by_choice, access),
          tensor_of(DType::i32, "slot_of", rows, access),
          tensor_of(DType::i32, "offsets", "G+1", access),
          tensor_of(DType::i32, "first_tiles", "4 G+1", access),
          tensor("hidden", rows + " U", access)};
}

MoeSaved saved_in(std::span<const HostArg> args) {
  return {{*args[0].tensor, *args[1].tensor, *args[2].tensor, *args[3].tensor, *args[4].tensor,
           *args[5].tensor},
          *args[6].tensor};
}

MoeWeights weights_in(const HostArg& up, const HostArg& down) {
  return {.up = *up.tensor, .down = *down.tensor};
}

int choices_of(const Moe& layer, const char* what, Loc at) {
  const MoeOptions& o = layer.options();
  const detail::CallPlace here(at);
  if (o.expert_choice)
    throw_argument_error(ErrorId::kernel_argument, what, "expert_choice", "given",
                         "a layer whose tokens choose: other rows follow from no dimension");
  return o.router.k + o.shared_experts;
}

void append(Params& to, const Params& more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace

Exportable exportable(const Attention& attention, const Captured& captured) {
  Exportable out;
  out.params = attention_inputs();
  append(out.params, {attention_output(ViewAccess::Out), attention_lse("lse", ViewAccess::Out),
                      attention_sinks("sinks", ViewAccess::In)});
  for (const CapturedParameter& c : captured)
    out.params.push_back(tensor_of(c.dtype, c.name, c.dims));
  out.call = [attention, captured](const Stream& stream, std::span<const HostArg> args, Loc at) {
    const BoundVariables bound(captured, args.subspan(6));
    attention(stream, *args[0].tensor, *args[1].tensor, *args[2].tensor, *args[3].tensor,
              {.lse = tensor_in(args[4]), .sinks = tensor_in(args[5])}, at);
  };
  return out;
}

namespace {

/// Throws T1662 if two captured parameters are one tensor: gradients are found by the tensor.
void require_distinct(const Captured& captured, std::span<const HostArg> args) {
  for (std::size_t i = 0; i < captured.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (args[i].tensor && args[k].tensor && args[i].tensor->data() == args[k].tensor->data())
        throw_argument_error(ErrorId::kernel_argument, "attention_backward", captured[i].name,
                             fmt::format("the tensor of {}", captured[k].name), "another tensor");
}

}  // namespace

Exportable attention_backward(const Attention& attention, const Captured& captured) {
  Exportable out;
  out.params = {tensor("grad_o", "B H Q E"), attention_lse("grad_lse", ViewAccess::In)};
  append(out.params, attention_inputs());
  append(out.params, {attention_output(ViewAccess::In), attention_lse("lse", ViewAccess::In),
                      attention_sinks("sinks", ViewAccess::In)});
  for (const CapturedParameter& c : captured)
    out.params.push_back(tensor_of(c.dtype, c.name, c.dims));
  append(out.params, {optional(tensor("grad_q", "B H Q D", ViewAccess::Out)),
                      optional(tensor("grad_k", "B G K D", ViewAccess::Out)),
                      optional(tensor("grad_v", "B G K E", ViewAccess::Out)),
                      attention_sinks("grad_sinks", ViewAccess::Out)});
  for (const CapturedParameter& c : captured)
    out.params.push_back(
        optional(tensor_of(c.dtype, fmt::format("grad_{}", c.name), c.dims, ViewAccess::Out)));
  out.call = [attention, captured](const Stream& stream, std::span<const HostArg> args, Loc at) {
    const auto of_captures = args.subspan(8), gradients = of_captures.subspan(captured.size());
    const BoundVariables bound(captured, of_captures);
    AttentionInputGradients into{.Q = tensor_in(gradients[0]),
                                 .K = tensor_in(gradients[1]),
                                 .V = tensor_in(gradients[2]),
                                 .sinks = tensor_in(gradients[3])};
    require_distinct(captured, of_captures);
    for (std::size_t i = 0; i < captured.size(); ++i)
      if (const HostArg& g = gradients[4 + i]; g.tensor)
        into.captured.emplace_back(*captured[i].variable, *g.tensor);
    attention.backward(
        stream, *args[2].tensor, *args[3].tensor, *args[4].tensor,
        {.O = *args[5].tensor, .lse = tensor_in(args[6]), .sinks = tensor_in(args[7])},
        {.O = *args[0].tensor, .lse = tensor_in(args[1])}, into, at);
  };
  return out;
}

Exportable paged_attention(const Attention& attention) {
  Exportable out;
  out.params = {tensor("q", "T H D")};
  append(out.params, cache_params(ViewAccess::In));
  append(out.params, batch_params());
  append(out.params, {tensor("o", "T H E", ViewAccess::Out), page_table(),
                      optional(tensor_of(DType::f32, "lse", "T H", ViewAccess::Out)),
                      attention_sinks("sinks", ViewAccess::In)});
  out.call = [attention](const Stream& stream, std::span<const HostArg> args, Loc at) {
    attention.paged(stream, *args[0].tensor, {*args[1].tensor, *args[2].tensor, tensor_in(args[7])},
                    *args[6].tensor, batch_in(args.subspan(3)),
                    {.lse = tensor_in(args[8]), .sinks = tensor_in(args[9])}, at);
  };
  return out;
}

Exportable kv_append(RopePairs pairs) {
  Exportable out;
  out.params = {tensor("k", "T G D"), tensor("v", "T G E")};
  append(out.params, cache_params(ViewAccess::InOut));
  append(out.params, batch_params());
  append(out.params, {page_table(), optional(tensor_of(DType::i64, "slots", "T")),
                      optional(tensor_of(DType::f32, "cos", "X A")),
                      optional(tensor_of(DType::f32, "sin", "X A")),
                      optional(tensor_of(DType::i32, "positions", "T")),
                      optional(tensor("q", "T H D", ViewAccess::InOut))});
  out.call = [pairs](const Stream& stream, std::span<const HostArg> args, Loc at) {
    kernels::append(stream, *args[0].tensor, *args[1].tensor,
                    {*args[2].tensor, *args[3].tensor, tensor_in(args[7])},
                    batch_in(args.subspan(4)),
                    {.pairs = pairs,
                     .rope = {tensor_in(args[9]), tensor_in(args[10]), tensor_in(args[11])},
                     .Q = tensor_in(args[12]),
                     .slots = tensor_in(args[8])},
                    at);
  };
  return out;
}

Exportable exportable(const Moe& layer) {
  Exportable out;
  out.params = moe_inputs();
  out.params.push_back(tensor("y", "T H", ViewAccess::Out));
  out.call = [layer](const Stream& stream, std::span<const HostArg> args, Loc at) {
    layer.from_logits(stream, *args[0].tensor, *args[1].tensor, weights_in(args[2], args[3]),
                      *args[4].tensor, at);
  };
  return out;
}

Exportable moe_forward(const Moe& layer, Loc at) {
  Exportable out;
  out.params = moe_inputs();
  out.params.push_back(tensor("y", "T H", ViewAccess::Out));
  append(out.params, moe_saved(choices_of(layer, "moe_forward", at), ViewAccess::Out));
  out.call = [layer](const Stream& stream, std::span<const HostArg> args, Loc where) {
    layer.from_logits(stream, *args[0].tensor, *args[1].tensor, weights_in(args[2], args[3]),
                      *args[4].tensor, saved_in(args.subspan(5)), where);
  };
  return out;
}

Exportable moe_backward(const Moe& layer, Loc at) {
  Exportable out;
  out.params = {tensor("grad_y", "T H")};
  append(out.params, moe_inputs());
  append(out.params, moe_saved(choices_of(layer, "moe_backward", at), ViewAccess::In));
  append(out.params, {tensor("grad_x", "T H", ViewAccess::Out),
                      optional(tensor_of(DType::f32, "grad_logits", "T E", ViewAccess::Out)),
                      optional(tensor("grad_up", "G U H", ViewAccess::Out)),
                      optional(tensor("grad_down", "G H I", ViewAccess::Out))});
  out.call = [layer](const Stream& stream, std::span<const HostArg> args, Loc where) {
    const auto results = args.last(4);
    layer.backward(stream, *args[1].tensor, *args[2].tensor, weights_in(args[3], args[4]),
                   saved_in(args.subspan(5)), *args[0].tensor,
                   {.X = *results[0].tensor,
                    .logits = tensor_in(results[1]),
                    .up = tensor_in(results[2]),
                    .down = tensor_in(results[3])},
                   where);
  };
  return out;
}

}  // namespace tegula::kernels
