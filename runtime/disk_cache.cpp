#include "runtime/disk_cache.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <nlohmann/json.hpp>

#include "codegen/emit.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/artefact_format.h"
#include "runtime/make_recipe.h"
#include "runtime/nvrtc.h"
#include "runtime/shared_library.h"
#include "runtime/tool_hash.h"
#include "support/env.h"
#include "tegula/error.h"

namespace tegula::runtime {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBytes = std::size_t{2} << 30;
constexpr std::chrono::seconds kPatience{2};  // for another process that compiles the same kernel

// ---- the key

/// The file this code was loaded from: passes, lowering and the CUDA C++ emitter are in it, and the
/// layout of the entries too.
std::filesystem::path own_file() {
  Dl_info info{};
  link_map* map = nullptr;
  const bool known = ::dladdr1(reinterpret_cast<const void*>(&disk_key), &info,
                               reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0;
  // The program itself has no name there.
  if (!known || map == nullptr || map->l_name[0] == 0) return "/proc/self/exe";
  return map->l_name;
}

class ToolFields {
 public:
  ToolFields(CacheKey& key, const std::filesystem::path& memos) : key_(key), memos_(memos) {}

  void file(std::string_view field, const std::filesystem::path& file) {
    key_.add(field, tool_hash(file, memos_).hex());
  }

  /// Every file that could be the module: which one the loader takes is known only once it is
  /// opened, and a kernel found on disk must not open it.
  void llvm() {
    bool any = false;
    std::error_code ignored;
    for (const std::string& place : codegen::llvm_module_places())
      if (std::filesystem::is_regular_file(place, ignored)) {
        file("llvm", place);
        any = true;
      }
    if (!any) throw DeviceError("no file is known for the LLVM back end");
    const auto ptxas = find_ptxas();
    if (ptxas)
      file("ptxas", *ptxas);
    else
      key_.add("ptxas", "the driver");
  }

  void nvrtc() {
    std::string why;
    const auto library = find_nvrtc(&why);
    if (!library) throw DeviceError(why);
    file("nvrtc", library->path);
    for (const std::string& builtins :
         glob_files((library->path.parent_path() / "libnvrtc-builtins.so*").string()))
      file("nvrtc builtins", builtins);
  }

 private:
  CacheKey& key_;
  const std::filesystem::path& memos_;
};

bool wants_lineinfo(const CompileRequest& request) { return request.lineinfo || env().lineinfo; }

/// Machine code without line tables is the same wherever the kernel's source lies; the simulator's
/// reports name lines.
bool has_lineinfo(const Compilation& k, const CompileRequest& request) {
  return k.device.kind == DeviceKind::sim || wants_lineinfo(request);
}

// ---- what is kept beside the code

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
    throw InternalError("a remark of no known kind");
  r.kind = static_cast<ir::Remark::Kind>(kind);
  kept.at("reason").get_to(r.reason);
  kept.at("values").get_to(r.values);
  if (const auto at = kept.find("loc"); at != kept.end())
    r.loc = Loc(intern(at->at(0).get<std::string>()), at->at(1).get<std::uint32_t>(),
                at->at(2).get<std::uint32_t>());
  return r;
}

/// Refuses an artefact that differs from the trace in what the trace alone decides.
void check_artefact(const Artefact& found, const Compilation& k) {
  const LaunchRecipe grid = grid_recipe(k.tile);
  const bool is_for_gpu = k.device.kind == DeviceKind::cuda;
  if (found.name != k.name || found.target != k.target || found.backend != k.backend ||
      found.recipe.ranks != grid.ranks || found.recipe.steps != grid.steps ||
      found.recipe.grid != grid.grid || is_for_gpu != (found.kind != ImageKind::none))
    throw InternalError("another kernel");
}

}  // namespace

CacheKey disk_key(const Compilation& k, const CompileRequest& request,
                  const std::filesystem::path& memos) {
  CacheKey key;
  key.add("ir", ir::print(k.tile, {.locations = has_lineinfo(k, request)}));
  key.add("target", std::string(k.target.name()));
  key.add("device", k.device.kind == DeviceKind::sim ? "sim" : "cuda");
  key.add("back end", name(k.backend));
  key.add("plan", request.plan ? request.plan->str() : "chosen");
  key.add("changes of the plan", request.plan_changes);
  key.add("TEGULA_PLAN", env().plan);
  key.add("line tables", wants_lineinfo(request) ? "yes" : "no");
  ToolFields tools(key, memos);
  tools.file("tegula", own_file());
  if (k.device.kind != DeviceKind::cuda) return key;
  key.add("assembled for", k.assembler_target);
  if (k.backend == Backend::Llvm)
    tools.llvm();
  else
    tools.nvrtc();
  return key;
}

DiskCacheLookup::DiskCacheLookup(Compilation& k, const CompileRequest& request)
    : k_(k), request_(request), with_lines_(has_lineinfo(k, request)) {}

void DiskCacheLookup::open() {
  if (env().cache == "off" || !env().dump.empty()) return;
  const std::filesystem::path folder = default_cache_folder();
  if (folder.empty()) return;
  try {
    cache_ = std::make_unique<KernelCache>(
        CacheOptions{folder, env().cache == "readonly", kMaxBytes,
                     [this](const std::string& line) { note(line); }, &Vfs::posix()});
    key_ = disk_key(k_, request_, cache_->memo_folder());
  } catch (const std::exception& e) {
    note(fmt::format("not looked up: {}", e.what()));
    cache_ = nullptr;
  }
}

void DiskCacheLookup::note(std::string text) { notes_.push_back(std::move(text)); }

bool DiskCacheLookup::load(Artefact& artefact) {
  open();
  if (!cache_) return false;
  auto entry = cache_->find(key_);
  if (!entry) {
    lock_ = cache_->lock_for_build(key_, kPatience);
    if (lock_) entry = cache_->find(key_);  // whoever held the lock may have published it
  }
  if (!entry || !restore(*entry, artefact)) return false;
  lock_ = nullptr;
  note("taken from the disk cache");
  for (std::string& text : notes_)
    k_.remarks.push_back({"cache", {}, ir::Remark::Kind::Analysis, std::move(text), {}});
  return true;
}

/// The checksum is right by now, so what fails here was written by another hand or by a bug.
bool DiskCacheLookup::restore(const CacheEntry& entry, Artefact& artefact) try {
  Artefact found = decode_artefact(entry);
  check_artefact(found, k_);
  const json remarks = json::parse(entry.log);
  std::vector<ir::Remark> told;
  for (const json& r : remarks) told.push_back(remark_of(r));
  ir::Plan plan;
  plan.change(found.schedule_text);
  if (with_lines_) {
    ir::Kernel simt = ir::parse(entry.ir, "a kernel of the disk cache");
    ir::verify_or_throw(simt);
    if (simt.info.name != k_.name || simt.info.target != k_.target ||
        make_recipe(k_.tile, simt) != found.recipe || simt.info.threads != found.threads)
      throw InternalError("another kernel");
    k_.simt = std::move(simt);
  } else {
    k_.simt_text = entry.ir;  // explain() and dumps alone read it
  }
  found.key_text = k_.key_text;
  k_.plan = plan;
  k_.remarks = std::move(told);
  artefact = std::move(found);
  return true;
} catch (const std::exception& e) {
  note(fmt::format("{} is of no use ({}): compiled again", cache_->path_of(key_).string(),
                   e.what()));
  cache_->discard(key_);
  return false;
}

void DiskCacheLookup::save(const Artefact& artefact) {
  if (cache_) try {
      CacheEntry entry;
      encode_artefact(artefact, entry);
      json remarks = json::array();
      for (const ir::Remark& r : k_.remarks) remarks.push_back(remark_fields(r, with_lines_));
      entry.log = remarks.dump();
      entry.ir = ir::print(k_.simt, {.locations = with_lines_});
      cache_->store(key_, entry);
    } catch (const std::exception& e) {
      note(fmt::format("not kept: {}", e.what()));
    }
  lock_ = nullptr;
  for (std::string& text : notes_)
    k_.remarks.push_back({"cache", {}, ir::Remark::Kind::Missed, std::move(text), {}});
}

}  // namespace tegula::runtime
