// The tensors that a mask or a score reads: which of them its arguments index directly, and checks
// of the others while the kernel runs.
#include <set>
#include <utility>

#include "dsl/functions/traced_function.h"
#include "dsl/tracer.h"
#include "ir/access.h"
#include "ir/uses.h"
#include "tegula/error.h"

namespace tegula {
namespace {

using ir::Opcode;
using ir::OpId;
using ir::Value;

/// Follows a function's result back to the elements that it is computed from.
class ReadsOfResult {
 public:
  explicit ReadsOfResult(const TracedFunction& f) : f_(f), k_(f.function().body) {}

  std::vector<TableReads::ByArgument> found;

  void visit(Value v, bool is_guarded) {
    const OpId def = k_[v].def;
    if (!def || !seen_.emplace(v, is_guarded).second) return;
    const ir::OpData& d = k_[def];
    if (d.opcode == Opcode::LoadView && !is_guarded) note(d);
    const bool chooses = d.opcode == Opcode::Select,
               joins = d.is(Opcode::And, Opcode::Or) && k_.type(v).dtype() == DType::i1;
    for (std::size_t i = 0; i < d.operands.size(); ++i)
      visit(d.operands[i],
            is_guarded || d.opcode == Opcode::FillAbsent || joins || (chooses && i > 0));
  }

 private:
  void note(const ir::OpData& load) {
    const ir::BoxAccess read = ir::access_of(k_, load);
    const dsl::Capture* capture = f_.capture(read.view);
    if (!capture) return;
    const Tensor* table = capture->tensor ? capture->tensor : &capture->copy;
    for (std::size_t i = 0; i < read.axes.size(); ++i)
      for (int a = TracedFunction::kBatch; a <= TracedFunction::kKey; ++a)
        if (uncast(read.axes[i].offset) == f_.argument(static_cast<TracedFunction::Argument>(a)))
          found.push_back({table, static_cast<int>(i),
                           static_cast<TableReads::Argument>(a - TracedFunction::kBatch),
                           load.loc});
  }
  Value uncast(Value v) const {
    while (k_[v].def && k_[k_[v].def].opcode == Opcode::Cast) v = k_[k_[v].def].operands[0];
    return v;
  }

  const TracedFunction& f_;
  const ir::Kernel& k_;
  std::set<std::pair<Value, bool>> seen_;
};

}  // namespace

TableReads::TableReads(const Score& score) {
  try {
    traced_ = std::make_shared<const TracedFunction>(score);
  } catch (const Error&) {
    return;  // the trace of the kernel reports it
  }
  const ir::Kernel& k = traced_->function().body;
  ir::walk(k, k.body(), [&](OpId op) { any_ = any_ || ir::info(k[op].opcode).has(ir::kReads); });
  for (std::size_t a = 0; a < depends_on_.size(); ++a)
    depends_on_[a] = ir::is_used(
        k, traced_->argument(static_cast<TracedFunction::Argument>(TracedFunction::kBatch + a)));
  ReadsOfResult reads(*traced_);
  reads.visit(traced_->function().result, false);
  by_argument_ = std::move(reads.found);
}

void require_inside_reads(const Tile& value) {
  Tracer& t = Tracer::at({}, "require_inside_reads");
  if (t.runs()) return;
  const ir::Value v = t.value(value);
  t.build.effect(Opcode::Assume, {v}, {{dsl::AttrName::kind, "reads"}});
}

}  // namespace tegula
