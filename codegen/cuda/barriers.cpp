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
  std::vector<std::string> parameters{"int mbarrier"}, names{"mbarrier"};
  if (predicated) {
    parameters.push_back("bool is_active");
    names.push_back("is_active");
  }
  const std::string f = e.ptx_effect(predicated ? name + "_if" : name, parameters, a, names);
  const std::string guard = predicated ? ", " + e.argument(e.operand(id, 1)) : "";
  e.line(fmt::format("{}({}{});", f, e.argument(e.operand(id, 0)), guard));
}

std::string eviction(const ir::AttrList& attrs) {
  const std::string_view evict = attrs.s(AttrName::evict);
  return evict.empty() ? "" : fmt::format("_evict_{}", evict);
}

std::vector<std::string> coordinates(int rank) {
  std::vector<std::string> out;
  for (int i = 0; i < rank; ++i) out.push_back(fmt::format("x{}", i));
  return out;
}

void append_int_parameters(std::vector<std::string>& parameters,
                           const std::vector<std::string>& names) {
  for (const std::string& n : names) parameters.push_back("int " + n);
}

std::string coordinate_arguments(Emitter& e, OpId id, std::size_t first) {
  std::string s;
  for (std::size_t i = first; i < e.operand_count(id); ++i)
    s += ", " + e.argument(e.operand(id, i));
  return s;
}

}  // namespace

void cuda_BarSync(Emitter& e, OpId id) { emit_named_barrier(e, id, "bar_sync", ptx::bar_sync); }
void cuda_BarArrive(Emitter& e, OpId id) {
  emit_named_barrier(e, id, "bar_arrive", ptx::bar_arrive);
}
void cuda_WarpSync(Emitter& e, OpId) { e.ptx_statement(ptx::warp_sync()); }
void cuda_ClusterArrive(Emitter& e, OpId) { e.ptx_statement(ptx::cluster_arrive()); }
void cuda_ClusterWait(Emitter& e, OpId) { e.ptx_statement(ptx::cluster_wait()); }
void cuda_CtaRank(Emitter& e, OpId id) {
  e.declare(e.result(id), e.ptx_value("cluster_rank", "int", {}, ptx::cta_rank()) + "()");
}
void cuda_MapShared(Emitter& e, OpId id) {
  const std::string f =
      e.ptx_value("map_shared", "int", {"int address", "int rank"}, ptx::map_shared());
  e.declare(e.result(id), fmt::format("{}({}, {})", f, e.argument(e.operand(id, 0)),
                                      e.argument(e.operand(id, 1))));
}
void cuda_Trap(Emitter& e, OpId) { e.ptx_statement(ptx::trap()); }
void cuda_Nanosleep(Emitter& e, OpId id) {
  e.ptx_statement(ptx::nanosleep(e.attrs(id).i(AttrName::count)));
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
void cuda_FenceMbarInit(Emitter& e, OpId) { e.ptx_statement(ptx::fence_mbar_init()); }
void cuda_FenceProxyAsync(Emitter& e, OpId id) {
  e.ptx_statement(ptx::fence_proxy_async(e.attrs(id).s(AttrName::kind) == "global"));
}
void cuda_GridDepWait(Emitter& e, OpId) { e.ptx_statement(ptx::griddep_wait()); }
void cuda_GridDepLaunch(Emitter& e, OpId) { e.ptx_statement(ptx::griddep_launch()); }

void cuda_TmaLoad(Emitter& e, OpId id) {
  // Operands: map, destination, barrier, coordinates; PTX expects destination, map, coordinates,
  // barrier.
  const auto rank = static_cast<int>(e.operand_count(id)) - 3;
  const std::int64_t ctas = e.attrs(id).i(AttrName::cluster_ctas, 1);
  std::vector<std::string> parameters{"int to", "const " + e.use_type("TensorMap") + "* map"},
      names{"to", "map"};
  append_int_parameters(parameters, coordinates(rank));
  for (const std::string& x : coordinates(rank)) names.push_back(x);
  parameters.push_back("int mbarrier");
  names.push_back("mbarrier");
  const std::string f =
      e.ptx_effect(fmt::format("tma_load_{}d{}{}", rank,
                               ctas > 1 ? fmt::format("_to_{}", ctas) : "", eviction(e.attrs(id))),
                   parameters, ptx::tma_load(rank, e.attrs(id).s(AttrName::evict), ctas), names);
  e.line(fmt::format("{}({}, {}{}, {});", f, e.argument(e.operand(id, 1)),
                     e.argument(e.operand(id, 0)), coordinate_arguments(e, id, 3),
                     e.argument(e.operand(id, 2))));
}

namespace {

/// Operands: map, source, coordinates; PTX expects the source last.
void emit_to_global(Emitter& e, OpId id, std::string_view name, int rank, const ptx::Asm& text) {
  std::vector<std::string> parameters{"const " + e.use_type("TensorMap") + "* map"}, names{"map"};
  append_int_parameters(parameters, coordinates(rank));
  for (const std::string& x : coordinates(rank)) names.push_back(x);
  parameters.push_back("int from");
  names.push_back("from");
  const std::string f = e.ptx_effect(fmt::format("{}_{}d{}", name, rank, eviction(e.attrs(id))),
                                     parameters, text, names);
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

void cuda_TmaCommit(Emitter& e, OpId) { e.ptx_statement(ptx::tma_commit()); }
void cuda_TmaWait(Emitter& e, OpId id) {
  e.ptx_statement(
      ptx::tma_wait(e.attrs(id).i(AttrName::count), e.attrs(id).i(AttrName::read) != 0));
}
void cuda_PrefetchTensorMap(Emitter& e, OpId id) {
  const std::string f =
      e.ptx_effect("prefetch_tensormap", {"const " + e.use_type("TensorMap") + "* map"},
                   ptx::prefetch_tensormap(), {"map"});
  e.line(fmt::format("{}({});", f, e.argument(e.operand(id, 0))));
}

}  // namespace tegula::codegen::cuda
