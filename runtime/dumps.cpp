// TEGULA_DUMP: writes the result of each verb to a file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "ir/opt_command.h"
#include "ir/text.h"
#include "runtime/jit_verbs.h"
#include "support/env.h"
#include "support/text.h"

namespace tegula::runtime {
namespace {

/// Returns the traced kernel, preceded by a comment line with which `tegula opt` repeats these
/// passes.
std::string replayable_trace(const CompiledKernel& k) {
  ir::Kernel tile = ir::clone(k.tile);
  tile.info.target = k.artefact().target;
  ir::PassContext context;
  context.plan = k.plan;
  context.keep_checks = k.device.kind == DeviceKind::sim;
  std::vector<std::string_view> passes;
  for (const ir::PassTiming& pass : k.passes) passes.push_back(pass.name);
  return ir::opt_comment(ir::opt_command(context), fmt::format("{}", fmt::join(passes, ","))) +
         ir::print(tile);
}

}  // namespace

void write_dumps(const CompiledKernel& k) {
  const std::string& spec = env().dump;
  const auto colon = spec.find(':');
  if (spec.empty() || colon == std::string::npos) return;
  const std::string verbs = spec.substr(0, colon);
  const std::filesystem::path folder =
      std::filesystem::path(spec.substr(colon + 1)) / k.artefact().name;
  std::filesystem::create_directories(folder);
  static constexpr std::pair<const char*, const char*> kFiles[] = {
      {"key", "00-key.txt"},   {"trace", "01-trace.tir"}, {"optimize", "02-optimize.tir"},
      {"emit", "03-emit.txt"}, {"ptx", "04.ptx"},         {"launch", "06-launch.txt"}};
  for (const auto& [verb, file] : kFiles)
    if (verbs == "all" || verbs.find(verb) != std::string::npos) {
      const bool is_replayable = verb == std::string_view("trace") && !k.passes.empty();
      const std::string text = is_replayable ? replayable_trace(k) : k.dump(verb);
      // A stage that does not exist for a device has no file: nothing is emitted for cpu and sim.
      if (!text.empty()) write_file(folder / file, text);
    }
  const Artefact& a = k.artefact();
  if (a.kind == ImageKind::cubin && (verbs == "all" || verbs.find("assemble") != std::string::npos))
    write_file(folder / "05.cubin", std::string_view(a.image.data(), a.image.size()));
}

}  // namespace tegula::runtime
