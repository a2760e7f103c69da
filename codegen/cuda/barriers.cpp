// Barriers, mbarriers, fences and TMA.
#include <fmt/format.h>

#include "codegen/cuda/emitter.h"

namespace tegula::codegen::cuda {
namespace {

using NamedBarrier = ptx::Asm (*)(std::optional<std::int64_t>, std::int64_t);

void emit_named_barrier(Emitter& e, OpId id, std::string_view name, NamedBarrier spell) {
  const auto constant = e.constant(e.operand(id, 0));
  const std::int64_t count = e.attrs(id).i(AttrName::count);
  const ptx::Asm a = spell(constant, count);
  if (constant) return e.ptx_statement(a);
  const std::string f =
      e.ptx_effect(count == 0 ? std::string(name) : fmt::format("{}_{}", name, count),
                   {"int barrier"}, a, {"barrier"});
  e.line(fmt::format("{}({});", f, e.argument(e.operand(id, 0))));
}

/// Emits a call with the op's operands: a shared address and, optionally, a predicate.
void emit_mbarrier(Emitter& e, OpId id, const std::string& name, const ptx::Asm& a) {
  const bool predicated = e.operand_count(id) > 1;
  Parameters p;
  p.add("int", "mbarrier");
  if (predicated) p.add("bool", "is_active");
  const std::string f = e.ptx_effect(predicated ? name + "_if" : name, p.declarations, a, p.names);
  const std::string guard = predicated ? ", " + e.argument(e.operand(id, 1)) : "";
  e.line(fmt::format("{}({}{});", f, e.argument(e.operand(id, 0)), guard));
}

std::string eviction(const ir::AttrList& attrs) {
  const std::string_view evict = attrs.s(AttrName::evict);
  return evict.empty() ? "" : fmt::format("_evict_{}", evict);
}

void add_map_and_coordinates(Emitter& e, Parameters& p, int rank) {
  p.add("const " + e.use_type("TensorMap") + "*", "map");
  for (int i = 0; i < rank; ++i) p.add("int", fmt::format("x{}", i));
}

std::string coordinate_arguments(Emitter& e, OpId id, std::size_t first) {
  std::string s;
  for (std::size_t i = first; i < e.operand_count(id); ++i)
    s += ", " + e.argument(e.operand(id, i));
  return s;
}

}  // namespace

#define STATEMENT(Name, text) \
  void cuda_##Name(Emitter& e, OpId id) { e.ptx_statement(ptx::statement(e.op(id))); }
#include "codegen/ptx/statements.def"

void cuda_BarSync(Emitter& e, OpId id) { emit_named_barrier(e, id, "bar_sync", ptx::bar_sync); }
void cuda_BarArrive(Emitter& e, OpId id) {
  emit_named_barrier(e, id, "bar_arrive", ptx::bar_arrive);
}
void cuda_CtaRank(Emitter& e, OpId id) {
  e.declare(e.result(id), e.ptx_value("cluster_rank", "int", {}, ptx::cta_rank()) + "()");
}
void cuda_MapShared(Emitter& e, OpId id) {
  const std::string f =
      e.ptx_value("map_shared", "int", {"int address", "int rank"}, ptx::map_shared());
  e.declare(e.result(id), fmt::format("{}({}, {})", f, e.argument(e.operand(id, 0)),
                                      e.argument(e.operand(id, 1))));
}
void cuda_SpecialReg(Emitter& e, OpId id) {
  const std::string_view kind = e.attrs(id).s(AttrName::kind);
  e.declare(e.result(id), e.ptx_value(fmt::format("read_{}", kind), e.c_type(e.type(e.result(id))),
                                      {}, ptx::special_register(kind)) +
                              "()");
}

void cuda_MbarInit(Emitter& e, OpId id) {
  const std::int64_t count = e.attrs(id).i(AttrName::count, 1);
  emit_mbarrier(e, id, fmt::format("mbar_init_{}", count), ptx::mbar_init(count));
}
void cuda_MbarArrive(Emitter& e, OpId id) {
  const bool of_cluster = e.attrs(id).s(AttrName::scope) == "cluster";
  emit_mbarrier(e, id, of_cluster ? "mbar_arrive_cluster" : "mbar_arrive",
                ptx::mbar_arrive(e.operand_count(id) > 1, of_cluster));
}
void cuda_MbarExpectTx(Emitter& e, OpId id) {
  const std::int64_t bytes = e.attrs(id).i(AttrName::bytes);
  emit_mbarrier(e, id, fmt::format("mbar_expect_{}_bytes", bytes),
                ptx::mbar_expect_tx(bytes, e.operand_count(id) > 1));
}
void cuda_MbarWait(Emitter& e, OpId id) {
  const std::string f = e.ptx_effect("mbar_wait", {"int mbarrier", "int parity"}, ptx::mbar_wait(),
                                     {"mbarrier", "parity"});
  e.line(fmt::format("{}({}, {});", f, e.argument(e.operand(id, 0)), e.argument(e.operand(id, 1))));
}

void cuda_TmaLoad(Emitter& e, OpId id) {
  // Operands: map, destination, barrier, coordinates; PTX expects destination, map, coordinates,
  // barrier.
  const auto rank = static_cast<int>(e.operand_count(id)) - 3;
  const std::int64_t ctas = e.attrs(id).i(AttrName::cluster_ctas, 1);
  Parameters p;
  p.add("int", "to");
  add_map_and_coordinates(e, p, rank);
  p.add("int", "mbarrier");
  const std::string f = e.ptx_effect(
      fmt::format("tma_load_{}d{}{}", rank, ctas > 1 ? fmt::format("_to_{}", ctas) : "",
                  eviction(e.attrs(id))),
      p.declarations, ptx::tma_load(rank, e.attrs(id).s(AttrName::evict), ctas), p.names);
  e.line(fmt::format("{}({}, {}{}, {});", f, e.argument(e.operand(id, 1)),
                     e.argument(e.operand(id, 0)), coordinate_arguments(e, id, 3),
                     e.argument(e.operand(id, 2))));
}

namespace {

/// Operands: map, source, coordinates; PTX expects the source last.
void emit_to_global(Emitter& e, OpId id, std::string_view name, int rank, const ptx::Asm& text) {
  Parameters p;
  add_map_and_coordinates(e, p, rank);
  p.add("int", "from");
  const std::string f = e.ptx_effect(fmt::format("{}_{}d{}", name, rank, eviction(e.attrs(id))),
                                     p.declarations, text, p.names);
  e.line(fmt::format("{}({}{}, {});", f, e.argument(e.operand(id, 0)),
                     coordinate_arguments(e, id, 2), e.argument(e.operand(id, 1))));
}

int stored_rank(Emitter& e, OpId id) { return static_cast<int>(e.operand_count(id)) - 2; }

}  // namespace

void cuda_TmaStore(Emitter& e, OpId id) {
  const int rank = stored_rank(e, id);
  emit_to_global(e, id, "tma_store", rank, ptx::tma_store(rank, e.attrs(id).s(AttrName::evict)));
}
void cuda_TmaReduce(Emitter& e, OpId id) {
  const int rank = stored_rank(e, id);
  const std::string_view kind = e.attrs(id).s(AttrName::kind);
  emit_to_global(e, id, fmt::format("tma_{}", kind), rank,
                 ptx::tma_reduce(kind, rank, e.attrs(id).s(AttrName::evict)));
}

void cuda_PrefetchTensorMap(Emitter& e, OpId id) {
  const std::string f =
      e.ptx_effect("prefetch_tensormap", {"const " + e.use_type("TensorMap") + "* map"},
                   ptx::prefetch_tensormap(), {"map"});
  e.line(fmt::format("{}({});", f, e.argument(e.operand(id, 0))));
}

}  // namespace tegula::codegen::cuda
