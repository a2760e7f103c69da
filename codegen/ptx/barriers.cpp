// Lanes, named barriers, mbarriers, fences, and small TMA instructions.
#include <fmt/format.h>

#include <initializer_list>

#include "codegen/ptx/instructions.h"
#include "support/errors.h"

namespace tegula::codegen::ptx {
namespace {

using ir::AttrName;

Asm named_barrier(std::string_view op, std::optional<std::int64_t> id, std::int64_t count) {
  Asm a = effect("");
  a.convergent = true;
  if (!id) a.add(Reg::b32, Role::In);
  a.text = fmt::format("{} {}{};", op, id ? std::to_string(*id) : "#0",
                       count == 0 ? "" : fmt::format(", {}", count));
  return a;
}

Asm guarded(const std::string& text, bool predicated) {
  return predicated ? effect("@#1 " + text, {Reg::b32, Reg::pred}) : effect(text, {Reg::b32});
}

}  // namespace

Asm vote(std::string_view kind) {
  Asm a;
  a.convergent = true;
  const bool ballot = kind == "ballot";
  a.add(ballot ? Reg::b32 : Reg::pred, Role::Out);
  a.add(Reg::pred, Role::In);
  a.text = fmt::format("vote.sync.{}.{} #0, #1, -1;", kind, ballot ? "b32" : "pred");
  return a;
}

Asm bar_sync(std::optional<std::int64_t> id, std::int64_t count) {
  return named_barrier("bar.sync", id, count);
}
Asm bar_arrive(std::optional<std::int64_t> id, std::int64_t count) {
  return named_barrier("bar.arrive", id, count);
}

Asm special_register(std::string_view kind) {
  Asm a = effect("");
  const bool is_word = kind == "smid";
  a.add(is_word ? Reg::b32 : Reg::b64, Role::Out);
  a.text =
      fmt::format("mov.{} #0, %{};", is_word ? "u32" : "u64", kind == "clock" ? "clock64" : kind);
  return a;
}

Asm pin() {
  // A profiler trigger that never fires: one predicated-off instruction, across which ptxas 13
  // schedules nothing. A branch that is never taken also works but costs four instructions; an
  // empty loop is deleted; trap serializes wgmma.
  Asm a = effect("@#0 pmevent 1;", {Reg::pred});
  a.convergent = true;
  return a;
}

Asm cta_rank() {
  Asm a = pure(Reg::b32, {});
  a.text = "mov.u32 #0, %cluster_ctarank;";
  return a;
}

Asm map_shared() {
  Asm a = pure(Reg::b32, {Reg::b32, Reg::b32});
  a.text = "mapa.shared::cluster.u32 #0, #1, #2;";
  return a;
}

Asm mbar_init(std::int64_t count) {
  return effect(fmt::format("mbarrier.init.shared::cta.b64 [#0], {};", count), {Reg::b32});
}

Asm mbar_arrive(bool predicated, bool of_cluster) {
  // Not .release.cluster, which waits for everything that the thread has written anywhere: only
  // reads are released here.
  return guarded(
      fmt::format("mbarrier.arrive.shared::{}.b64 _, [#0];", of_cluster ? "cluster" : "cta"),
      predicated);
}

Asm mbar_expect_tx(std::int64_t bytes, bool predicated) {
  return guarded(fmt::format("mbarrier.arrive.expect_tx.shared::cta.b64 _, [#0], {};", bytes),
                 predicated);
}

Asm mbar_wait() {
  return effect(
      "{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [#0], #1;\n"
      "@done bra DONE;\nbra WAIT;\nDONE:\n}",
      {Reg::b32, Reg::b32});
}

Asm statement(const ir::OpData& op) {
  const ir::AttrList& attrs = op.attrs;
  [[maybe_unused]] const std::int64_t count = attrs.i(AttrName::count);
#define STATEMENT(Name, text) \
  if (op.opcode == ir::Opcode::Name) return effect(text);
#include "codegen/ptx/statements.def"
  throw InternalError("no statement of PTX");
}

Asm prefetch_tensormap() { return effect("prefetch.tensormap [#0];", {Reg::b64}); }

}  // namespace tegula::codegen::ptx
