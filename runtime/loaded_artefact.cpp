#include "runtime/loaded_artefact.h"

#include <algorithm>
#include <chrono>

#include "runtime/context.h"
#include "runtime/module.h"
#include "runtime/workspace.h"
#include "tegula/profiler_range.h"

namespace tegula::runtime {
namespace {

/// Loads the image on a GPU and completes the report with what only the driver knows.
PreparedLaunch loaded(const Artefact& a, int ordinal, AssembleReport& report) {
  const auto module = a.kind == ImageKind::cubin
                          ? Module::load_cubin(a.image)
                          : Module::load_ptx({a.image.begin(), a.image.end()}, ordinal);
  const LoadedKernel kernel = module->kernel(
      a.name, ordinal, {.dynamic_shared_bytes = a.shared_bytes, .large_cluster = a.cluster > 8});
  report = a.kind == ImageKind::cubin ? a.report : module->report();
  LaunchShape shape;
  shape.block = {static_cast<unsigned>(a.threads), 1, 1};
  shape.cluster = {static_cast<unsigned>(a.cluster), 1, 1};
  shape.shared_bytes = a.shared_bytes;
  shape.programmatic_launch = a.programmatic_launch;
  shape.cooperative = a.cooperative;
  return PreparedLaunch(kernel, shape, a.recipe.slots());
}

}  // namespace

LoadedArtefact::LoadedArtefact(std::shared_ptr<const Artefact> artefact, int ordinal)
    : artefact_(std::move(artefact)),
      maps_(encoded_maps(artefact_->recipe, artefact_->name)),
      needs_counter_(artefact_->recipe.needs_counter()),
      plan_([&] {
        const auto start = std::chrono::steady_clock::now();
        PreparedLaunch plan = loaded(*artefact_, ordinal, report_);
        const std::chrono::duration<double, std::milli> took =
            std::chrono::steady_clock::now() - start;
        load_ms_ = took.count();
        return plan;
      }()) {
  if (artefact_->persistent) max_ctas_ = resident_ctas();
}

/// Returns the number of CTAs that the GPU runs at one time, one on each SM, in whole clusters. The
/// GPCs that contain the clusters may lack some of their SMs.
std::int64_t LoadedArtefact::resident_ctas() const {
  const std::int64_t cluster = artefact_->cluster, all = device_properties(ordinal()).sm_count;
  const int clusters = cluster > 1 ? plan_.max_active_clusters() : 0;
  return cluster * (clusters > 0 ? clusters : std::max<std::int64_t>(1, all / cluster));
}

void LoadedArtefact::prepare(const Stream& stream) const {
  if (needs_counter_) acquire_scheduler_counter(stream);
}

void LoadedArtefact::launch(const Stream& stream, std::span<const LaunchArg> args) const {
  const LaunchRecipe& recipe = artefact_->recipe;
  const Extent3 grid = checked_grid(recipe, args, max_ctas_, artefact_->name);
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return;
  alignas(64) std::byte block[kMaxBlockBytes];
  pack(recipe, args, maps_, block, needs_counter_ ? acquire_scheduler_counter(stream) : nullptr);
  const ProfilerRange range(artefact_->name.c_str());
  plan_.launch(static_cast<cu::Stream>(stream.handle()), block, grid);
}

}  // namespace tegula::runtime
