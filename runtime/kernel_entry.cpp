#include "runtime/kernel_entry.h"

#include <nlohmann/json.hpp>

#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/artefact_format.h"
#include "runtime/make_recipe.h"
#include "support/env.h"
#include "tegula/error.h"

namespace tegula::runtime {
namespace {

using nlohmann::json;

bool wants_lineinfo(const CompileRequest& request) { return request.lineinfo || env().lineinfo; }

json remark_fields(const ir::Remark& r, bool with_lines) {
  json kept = {{"pass", r.pass},
               {"kind", static_cast<int>(r.kind)},
               {"reason", r.reason},
               {"values", r.values}};
  if (with_lines && r.loc.known()) kept["loc"] = {r.loc.file, r.loc.line, r.loc.column};
  return kept;
}

ir::Remark remark_of(const json& kept) {
  ir::Remark r;
  kept.at("pass").get_to(r.pass);
  const int kind = kept.at("kind").get<int>();
  if (kind < 0 || kind > static_cast<int>(ir::Remark::Kind::Analysis))
    throw InternalError("a remark of an unknown kind");
  r.kind = static_cast<ir::Remark::Kind>(kind);
  kept.at("reason").get_to(r.reason);
  kept.at("values").get_to(r.values);
  if (const auto at = kept.find("loc"); at != kept.end())
    r.loc = Loc(intern(at->at(0).get<std::string>()), at->at(1).get<std::uint32_t>(),
                at->at(2).get<std::uint32_t>());
  return r;
}

/// Rejects an artefact that differs from the trace in what the trace alone determines.
void check_artefact(const Artefact& found, const Compilation& k) {
  const LaunchRecipe grid = grid_recipe(k.tile);
  const bool is_for_gpu = k.device.kind == DeviceKind::cuda;
  if (found.name != k.name || found.target != k.target || found.recipe.ranks != grid.ranks ||
      found.recipe.steps != grid.steps || found.recipe.grid != grid.grid ||
      is_for_gpu != (found.kind != ImageKind::none))
    throw InternalError("another kernel");
}

/// Returns the simt form of a kernel whose reports contain lines. Throws unless it fits the recipe.
ir::Kernel parsed_simt(const CacheEntry& entry, const Compilation& k, const Artefact& found) {
  ir::Kernel simt = ir::parse(entry.ir, "a stored kernel");
  ir::verify_or_throw(simt);
  if (simt.info.name != k.name || simt.info.target != k.target ||
      make_recipe(k.tile, simt) != found.recipe || simt.info.threads != found.threads)
    throw InternalError("another kernel");
  return simt;
}

}  // namespace

bool keeps_lines(const Compilation& k, const CompileRequest& request) {
  return k.device.kind == DeviceKind::sim || wants_lineinfo(request);
}

CacheKey kernel_key(const Compilation& k, const CompileRequest& request) {
  CacheKey key;
  key.add("artefact", std::to_string(kArtefactVersion));
  key.add("ir", ir::print(k.tile, {.locations = keeps_lines(k, request)}));
  key.add("target", std::string(k.target.name()));
  key.add("device", k.device.kind == DeviceKind::sim ? "sim" : "cuda");
  key.add("plan", request.plan ? request.plan->str() : "chosen");
  key.add("changes of the plan", request.planned.str());
  key.add("TEGULA_PLAN", env().plan);
  key.add("line tables", wants_lineinfo(request) ? "yes" : "no");
  if (k.device.kind == DeviceKind::cuda) key.add("assembled for", k.assembler_target);
  return key;
}

CacheEntry kernel_entry(const Compilation& k, const Artefact& artefact, bool with_lines) {
  CacheEntry entry;
  encode_artefact(artefact, entry);
  json remarks = json::array();
  for (const ir::Remark& r : k.remarks) remarks.push_back(remark_fields(r, with_lines));
  entry.log = remarks.dump();
  // A kernel found in a cache has only the text.
  entry.ir = k.simt_text.empty() ? ir::print(k.simt, {.locations = with_lines}) : k.simt_text;
  return entry;
}

Artefact restore_kernel(const CacheEntry& entry, Compilation& k, bool with_lines,
                        std::optional<Backend> only) {
  Artefact found = decode_artefact(entry);
  check_artefact(found, k);
  if (only && found.backend != *only) throw InternalError("a kernel of another back end");
  std::vector<ir::Remark> told;
  for (const json& r : json::parse(entry.log)) told.push_back(remark_of(r));
  ir::Plan plan;
  plan.apply(ir::parse_plan_patch(found.schedule_text));
  if (with_lines)
    k.simt = parsed_simt(entry, k, found);
  else
    k.simt_text = entry.ir;  // used only by explain() and dumps
  found.key_text = k.key_text;
  k.plan = plan;
  k.backend = found.backend;
  k.remarks = std::move(told);
  return found;
}

}  // namespace tegula::runtime
