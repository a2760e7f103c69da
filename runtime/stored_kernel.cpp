#include "runtime/stored_kernel.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "codegen/emit.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/jit_steps.h"
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
  const bool known = ::dladdr1(reinterpret_cast<const void*>(&stored_key), &info,
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
bool names_lines(const CompiledKernel& k, const CompileRequest& request) {
  return k.device.kind == DeviceKind::sim || wants_lineinfo(request);
}

// ---- what is kept beside the code

/// The key names the library by its content, so a plan is read by the code that wrote it.
json plan_bytes(const ir::Plan& plan) {
  static_assert(std::is_trivially_copyable_v<ir::Plan>, "keep it field by field instead");
  std::vector<std::uint8_t> bytes(sizeof plan);
  std::memcpy(bytes.data(), &plan, sizeof plan);
  return bytes;
}

ir::Plan plan_of(const json& kept) {
  const auto bytes = kept.get<std::vector<std::uint8_t>>();
  ir::Plan plan;
  if (bytes.size() != sizeof plan) throw InternalError("a plan of another size");
  std::memcpy(&plan, bytes.data(), sizeof plan);
  return plan;
}

json report_fields(const AssembleReport& r) {
  return {{"registers", r.registers},
          {"spill_loads", r.spill_loads},
          {"spill_stores", r.spill_stores},
          {"stack", r.stack},
          {"smem", r.smem},
          {"barriers", r.barriers},
          {"tool_ms", r.tool_ms},
          {"warnings", r.warnings},
          {"codes", r.codes},
          {"serialised", r.serialised},
          {"setmaxnreg_ignored", r.setmaxnreg_ignored}};
}

AssembleReport report_of(const json& kept) {
  AssembleReport r;
  kept.at("registers").get_to(r.registers);
  kept.at("spill_loads").get_to(r.spill_loads);
  kept.at("spill_stores").get_to(r.spill_stores);
  kept.at("stack").get_to(r.stack);
  kept.at("smem").get_to(r.smem);
  kept.at("barriers").get_to(r.barriers);
  kept.at("tool_ms").get_to(r.tool_ms);
  kept.at("warnings").get_to(r.warnings);
  kept.at("codes").get_to(r.codes);
  kept.at("serialised").get_to(r.serialised);
  kept.at("setmaxnreg_ignored").get_to(r.setmaxnreg_ignored);
  return r;
}

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

json meta_of(const CompiledKernel& k, bool with_lines) {
  json remarks = json::array();
  for (const ir::Remark& r : k.remarks) remarks.push_back(remark_fields(r, with_lines));
  return {{"plan", plan_bytes(k.plan)}, {"report", report_fields(k.report)}, {"remarks", remarks}};
}

/// The text that the assembler took.
std::string& code_text(codegen::Emitted& emitted, Backend backend) {
  return backend == Backend::Llvm ? emitted.ptx : emitted.source;
}

/// A GPU kernel must bring something that the driver can load; that a cubin is one was checked with
/// the entry.
void check_code(const CompiledKernel& k) {
  if (k.cubin.empty() && k.emitted.ptx.empty()) throw InternalError("no machine code");
}

}  // namespace

CacheKey stored_key(const CompiledKernel& k, const CompileRequest& request,
                    const std::filesystem::path& memos) {
  CacheKey key;
  key.add("ir", ir::print(k.tile, {.locations = names_lines(k, request)}));
  key.add("target", k.target);
  key.add("device", k.device.kind == DeviceKind::sim ? "sim" : "cuda");
  key.add("back end", name(k.backend));
  key.add("plan", request.plan ? request.plan->str() : "chosen");
  key.add("changes of the plan", request.plan_changes);
  key.add("TEGULA_PLAN", env().plan);
  key.add("line tables", wants_lineinfo(request) ? "yes" : "no");
  ToolFields tools(key, memos);
  tools.file("tegula", own_file());
  if (k.device.kind != DeviceKind::cuda) return key;
  key.add("assembled for", assembler_target(k));
  if (k.backend == Backend::Llvm)
    tools.llvm();
  else
    tools.nvrtc();
  return key;
}

StoredKernel::StoredKernel(CompiledKernel& k, const CompileRequest& request)
    : k_(k), request_(request), with_lines_(names_lines(k, request)) {}

void StoredKernel::open() {
  if (env().cache == "off" || !env().dump.empty()) return;
  const std::filesystem::path folder = default_cache_folder();
  if (folder.empty()) return;
  try {
    cache_ = std::make_unique<KernelCache>(
        CacheOptions{folder, env().cache == "readonly", kMaxBytes,
                     [this](const std::string& line) { note(line); }, &Vfs::posix()});
    key_ = stored_key(k_, request_, cache_->memo_folder());
  } catch (const std::exception& e) {
    note(fmt::format("not looked up: {}", e.what()));
    cache_ = nullptr;
  }
}

void StoredKernel::note(std::string text) { notes_.push_back(std::move(text)); }

bool StoredKernel::load() {
  open();
  if (!cache_) return false;
  auto entry = cache_->find(key_);
  if (!entry) {
    lock_ = cache_->lock_for_build(key_, kPatience);
    if (lock_) entry = cache_->find(key_);  // whoever held the lock may have published it
  }
  if (!entry || !restore(*entry)) return false;
  lock_ = nullptr;
  note("taken from the disk cache");
  for (std::string& text : notes_)
    k_.remarks.push_back({"cache", {}, ir::Remark::Kind::Analysis, std::move(text), {}});
  return true;
}

/// The checksum is right by now, so what fails here was written by another hand or by a bug.
bool StoredKernel::restore(const CacheEntry& entry) try {
  CompiledKernel found;
  found.device = k_.device;
  found.backend = k_.backend;
  const json meta = json::parse(entry.meta);
  found.plan = plan_of(meta.at("plan"));
  found.report = report_of(meta.at("report"));
  for (const json& r : meta.at("remarks")) found.remarks.push_back(remark_of(r));
  found.simt = ir::parse(entry.ir, "a kernel of the disk cache");
  ir::verify_or_throw(found.simt);
  if (found.simt.info.name != k_.name || found.simt.info.target != k_.target)
    throw InternalError("another kernel");
  LaunchRecipe::make(k_.tile, found.simt);
  if (k_.device.kind == DeviceKind::cuda) {
    found.cubin.assign(entry.cubin.begin(), entry.cubin.end());
    code_text(found.emitted, k_.backend) = entry.ptx;
    check_code(found);
  }
  k_.plan = found.plan;
  k_.report = std::move(found.report);
  k_.remarks = std::move(found.remarks);
  k_.simt = std::move(found.simt);
  k_.cubin = std::move(found.cubin);
  k_.emitted = std::move(found.emitted);
  return true;
} catch (const std::exception& e) {
  note(fmt::format("{} is of no use ({}): compiled again", cache_->path_of(key_).string(),
                   e.what()));
  cache_->discard(key_);
  return false;
}

void StoredKernel::save() {
  if (cache_) try {
      CacheEntry entry;
      entry.meta = meta_of(k_, with_lines_).dump();
      entry.cubin.assign(k_.cubin.begin(), k_.cubin.end());
      entry.ptx = code_text(k_.emitted, k_.backend);
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
