#include "dsl/fold_body.h"

#include <algorithm>
#include <unordered_set>

#include "dsl/errors.h"

namespace tegula::dsl {
namespace {

struct LayoutRefusal {
  Opcode opcode;
  const char* text;
};

constexpr LayoutRefusal kRefused[] = {
    {Opcode::For, "a loop"},
    {Opcode::While, "a loop"},
    {Opcode::If, "a branch"},
    {Opcode::Load, "a load"},
    {Opcode::LoadView, "a load"},
    {Opcode::Store, "a store"},
    {Opcode::StoreView, "a store"},
    {Opcode::AtomicRmw, "an atomic operation"},
    {Opcode::AtomicView, "an atomic operation"},
    {Opcode::ArriveAndTestLast, "an atomic operation"},
    {Opcode::AtomicCas, "an atomic operation"},
    {Opcode::AtomicLoad, "an atomic operation"},
    {Opcode::AtomicStore, "an atomic operation"},
    {Opcode::WaitUntil, "wait_until"},
    {Opcode::GridBarrier, "grid_barrier"},
    {Opcode::ReadRegister, "a timer"},
    {Opcode::CtaBarrier, "barrier"},
    {Opcode::Assume, "assume"},
    {Opcode::Reduce, "another fold"},
    {Opcode::ArgReduce, "another fold"},
    {Opcode::ReduceWith, "another fold"},
    {Opcode::Scan, "a scan"},
    {Opcode::ScanWith, "a scan"},
    {Opcode::Sort, "a sort"},
    {Opcode::KeyRanks, "key_ranks"},
    {Opcode::Dot, "a matrix product"},
    {Opcode::AsmElementwise, "inline PTX"},
};

bool is_of_scalars(const ir::Kernel& k, const ir::OpData& d) {
  return std::ranges::none_of(d.results, [&](ir::Value v) { return k.type(v).is_tile(); });
}

bool is_allowed(const ir::Kernel& k, const ir::OpData& d) {
  const ir::Family family = ir::info(d.opcode).family;
  if (d.opcode == Opcode::Yield) return true;
  return is_of_scalars(k, d) && (family == ir::Family::Elementwise || family == ir::Family::Math ||
                                 d.opcode == Opcode::Const);
}

const char* refusal_text(Opcode opcode) {
  const auto* at = std::ranges::find(kRefused, opcode, &LayoutRefusal::opcode);
  return at == std::end(kRefused) ? "a tile" : at->text;
}

}  // namespace

void check_fold_body(Tracer& t, std::string_view what, ir::RegionId body) {
  const ir::Kernel& k = t.kernel;
  std::unordered_set<ir::Value> used;
  ir::walk(k, body,
           [&](ir::OpId op) { used.insert(k[op].operands.begin(), k[op].operands.end()); });
  // A store to a part of a view records a load of the part, which is not in the user's code.
  const auto is_name = [&](const ir::OpData& d) {
    return d.opcode == Opcode::LoadView && !used.contains(d.results[0]);
  };
  ir::OpId found;
  for (ir::OpId op : k.ops(body))
    if (!is_allowed(k, k[op]) && (!found || is_name(k[found]))) found = op;
  if (found) fail(ErrorId::fold_body, k[found].loc, {}, refusal_text(k[found].opcode), what, what);
}

void check_map_op(Tracer& t, ir::OpId op) {
  const ir::OpData& d = t.kernel[op];
  const ir::Family family = ir::info(d.opcode).family;
  const bool is_elementwise = family == ir::Family::Elementwise || family == ir::Family::Math;
  using enum Opcode;
  if (is_elementwise || d.is(Const, Splat, Broadcast, ExpandDims, FillAbsent, While, Yield)) return;
  const auto* known = std::ranges::find(kRefused, d.opcode, &LayoutRefusal::opcode);
  const std::string_view what =
      known == std::end(kRefused) ? ir::info(d.opcode).mnemonic : known->text;
  fail(ErrorId::fold_body, d.loc, {}, what, "map", "map");
}

void flatten_branch(ir::Kernel& kernel, ir::OpId branch) {
  for (ir::RegionId side : kernel[branch].regions)
    while (const ir::OpId op = kernel[side].first) {
      kernel.unlink(op);
      kernel.insert_before(branch, op);
    }
}

}  // namespace tegula::dsl
