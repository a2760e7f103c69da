#include "dsl/functions/mask_trace.h"

#include <algorithm>
#include <optional>

#include "dsl/instance.h"
#include "ir/eval/cell.h"
#include "tegula/error.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

/// The i1 that the traced kernel's only store depends on.
ir::Value stored_condition(const ir::Kernel& k) {
  ir::Value condition;
  ir::walk(k, k.body(), [&](ir::OpId op) {
    if (k[op].opcode != ir::Opcode::StoreView) return;
    const ir::OpId select = k[k[op].operands[1]].def;
    if (select && k[select].opcode == ir::Opcode::Select) condition = k[select].operands[0];
  });
  if (!condition) throw InternalError("trace_mask: the trace stores no condition");
  return condition;
}

auto kernel_of(const Mask& mask) {
  return kernel(
      "mask", [mask](Scalar<i32> b, Scalar<i32> h, Scalar<i32> q, Scalar<i32> kv, Out<i32, 1> out) {
        for (auto i : grid(out, 1)) out(i) = where(mask(b, h, q, kv), 1, 0);
      });
}

/// A kernel around the mask, and its trace.
class Wrapped {
 public:
  explicit Wrapped(const Mask& mask)
      : kernel_(kernel_of(mask)),
        args_{number(0), number(0), number(0), number(0),
              detail::ParamTraits<Out<i32, 1>>::pack(out_)},
        trace_(kernel_.instance().trace(kernel_.instance().signature(args_))) {}

  ir::MaskExpr expr() const {
    const auto& p = trace_.kernel.params();
    return ir::import_mask(trace_.kernel, stored_condition(trace_.kernel),
                           {p[0].value, p[1].value, p[2].value, p[3].value});
  }
  /// Position of a parameter; none if the value is no parameter.
  std::optional<std::size_t> position(ir::Value v) const {
    const auto& params = trace_.kernel.params();
    const auto it = std::ranges::find(params, v, &ir::Param::value);
    return it == params.end() ? std::nullopt : std::optional<std::size_t>(it - params.begin());
  }
  /// Current values of the parameters.
  std::vector<detail::HostArg> values() const { return kernel_.instance().run_time_args(args_); }
  /// Capture that a parameter was made from; null if it was not.
  const dsl::Capture* capture(ir::Value v) const {
    const auto at = position(v);
    const auto& captures = kernel_.instance().known().captures;
    if (!at || *at < args_.size() || *at - args_.size() >= captures.size()) return nullptr;
    return &captures[*at - args_.size()];
  }

 private:
  static detail::HostArg number(i32 v) { return detail::ParamTraits<Scalar<i32>>::pack(v); }

  Tensor out_ = Tensor::empty({1}, DType::i32, Device::cpu());
  decltype(kernel_of({})) kernel_;
  std::vector<detail::HostArg> args_;
  dsl::TraceResult trace_;
};

}  // namespace

MaskSource trace_mask_source(const Mask& mask) {
  const auto wrapped = std::make_shared<const Wrapped>(mask);
  MaskSource source{wrapped->expr(), {}, {}, wrapped};
  for (const ir::Value v : source.expr.params) {
    const dsl::Capture* c = wrapped->capture(v);
    source.numbers.push_back(c ? c->cell : nullptr);
  }
  for (const ir::Value v : source.expr.tables) {
    const dsl::Capture* c = wrapped->capture(v);
    if (!c) throw InternalError("trace_mask: a table of the mask was not captured");
    source.tables.push_back(c->tensor ? c->tensor : &c->copy);
  }
  return source;
}

TracedMask trace_mask(const Mask& mask) {
  const Wrapped wrapped(mask);
  TracedMask m{wrapped.expr(), {}, {}};
  const auto values = wrapped.values();
  const auto argument = [&](ir::Value v) -> const detail::HostArg& {
    const auto at = wrapped.position(v);
    if (!at) throw InternalError("trace_mask: a number of the mask is not an argument");
    return values[*at];
  };
  for (const ir::Value v : m.expr.params) {
    const detail::HostArg& a = argument(v);
    m.numbers.push_back(ir::from_bits(a.bits, a.dtype).i);
  }
  for (const ir::Value v : m.expr.tables) {
    const auto entries = argument(v).tensor->to_doubles();  // entries have at most 32 bits: exact
    m.tables.emplace_back(std::vector<std::int64_t>(entries.begin(), entries.end()));
  }
  return m;
}

}  // namespace tegula
