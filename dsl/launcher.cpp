// A call: check the arguments, find the compiled kernel by their key, launch. The first call of a
// key compiles.
#include "dsl/launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dsl/ahead/call_recording.h"
#include "dsl/at_kernel.h"
#include "dsl/compiled_table.h"
#include "dsl/eager.h"
#include "dsl/errors.h"
#include "dsl/instance.h"
#include "dsl/preparing.h"
#include "ir/text.h"
#include "runtime/gpu_text.h"
#include "runtime/jit_verbs.h"
#include "support/env.h"
#include "support/text.h"
#include "support/warnings.h"

namespace tegula::dsl {
namespace {

using runtime::CompiledKernel;

Hash128 hash_of(const ir::Kernel& k) { return hash128(ir::print(k, {.locations = false})); }

std::string key_text(const KernelInstance& k, const Signature& s) {
  std::string text = fmt::format("kernel {}\nidentity {}\n", k.name(), k.identity().hex());
  for (const auto& [name, value] : k.tuning()) text += fmt::format("tune {} = {}\n", name, value);
  if (!k.options().planned.is_empty()) text += fmt::format("plan {}\n", k.options().planned.str());
  return text + s.text();
}

/// Returns the warnings of the trace, then those of the machine code. The latter refer to the
/// kernel's own line if they have none.
std::vector<Warning> warnings_about(const KernelInstance& k, std::span<const Diagnostic> of_trace,
                                    std::vector<Warning> of_code) {
  std::vector<Warning> found;
  for (const Diagnostic& d : of_trace)
    found.push_back({d.code, k.name(), d.loc, d.message, d.hint});
  for (Warning& w : of_code) {
    if (!w.place.known()) w.place = k.loc();
    found.push_back(std::move(w));
  }
  return found;
}

/// Returns the device of a call: the stream's, else that of its first tensor, else the best.
Device device_of(const Stream* stream, std::span<const HostArg> args) {
  if (stream) return stream->device();
  for (const HostArg& a : args)
    if (a.tensor && a.tensor->defined()) return a.tensor->device();
  return Device::best();
}

/// Rejects nested launches: a kernel launched in another's lambda would run on the host once,
/// during the trace; one that launches itself would wait for its own trace.
void refuse_nested(const KernelInstance& k) {
  const Tracer* t = Tracer::current();
  if (!t) return;
  std::vector<Note> made{{k.loc(), fmt::format("{} is made here", k.name())}};
  if (t->instance->loc() != k.loc())
    made.push_back({t->instance->loc(), fmt::format("{} is made here", t->instance->name())});
  fail(ErrorId::nested_launch, t->build.loc, std::move(made), k.name(), t->instance->name());
}

}  // namespace

bool wants_retrace() {
  const auto& checks = env().check;
  return !checks.empty() && std::ranges::find(checks, "retrace") != checks.end();
}

const CompiledEntry* Launcher::find(const CallKey& key) const {
  const CompiledEntry* e = newest_.load(std::memory_order_acquire);
  while (e && !(e->key == key)) e = e->next.get();
  return e;
}

const CompiledEntry* Launcher::add(CompiledEntry entry) {
  entry.next = std::move(entries_);
  entries_ = std::make_unique<const CompiledEntry>(std::move(entry));
  newest_.store(entries_.get(), std::memory_order_release);
  return entries_.get();
}

/// Returns the difference between the keys of this compilation and the last one.
std::string Launcher::reason(const std::string& signature) const {
  if (history_.empty()) return "first call";
  const auto before = split(last_signature_, '\n'), now = split(signature, '\n');
  for (std::size_t i = 0; i < std::min(before.size(), now.size()); ++i)
    if (before[i] != now[i]) return fmt::format("'{}' was '{}'", now[i], before[i]);
  return "another device";
}

const CompiledEntry* Launcher::compile(KernelInstance& k, std::span<const HostArg> args,
                                       Device device) {
  std::vector<Warning> unsaid;
  const CompiledEntry* entry = [&] {
    const std::lock_guard lock(compiling_);
    return find_or_add(k, args, device, unsaid);
  }();
  report_warnings(unsaid);  // without the lock: the handler may use the kernel
  return entry;
}

const CompiledEntry* Launcher::find_or_add(KernelInstance& k, std::span<const HostArg> args,
                                           Device device, std::vector<Warning>& unsaid) {
  const auto key_now = [&] {
    CallArgs unused;
    return make_call_key(k, args, device, unused);
  };
  if (const CompiledEntry* entry = find(key_now())) return entry;
  TraceResult traced = k.trace(k.signature(args));
  if (k.tuned.note(traced, k.tuning())) return nullptr;
  const Hash128 ir = hash_of(traced.kernel);
  const std::string signature = traced.signature.text(), why = reason(signature);
  bool is_new = false;
  auto kernel = find_or_compile(k, traced, ir, device, {}, is_new);
  if (device.kind == DeviceKind::cuda) kernel->on(device.index);  // a first call also loads it
  history_.push_back(fmt::format("{}: {}", is_new ? "compiled" : "reused", why));
  for (const Diagnostic& w : traced.warnings) history_.push_back("warning: " + w.str());
  std::vector<Warning> found = warnings_about(k, traced.warnings, kernel->warnings_on(device));
  for (const Warning& w : found)
    if (std::ranges::find(warnings_, w) == warnings_.end()) warnings_.push_back(w);
  if (is_new) unsaid = std::move(found);
  last_signature_ = signature;
  // The trace may have requested more: use the key with all that is known now.
  return add({key_now(), std::move(kernel), ir, nullptr});
}

/// Returns the request, which takes the traced kernel only when it is needed.
runtime::CompileRequest Launcher::request_for(const KernelInstance& k, TraceResult& traced,
                                              Device device,
                                              std::optional<ir::Target> target) const {
  runtime::CompileRequest request;
  request.device = device;
  request.target = target;
  request.backend = backend.value_or(runtime::default_backend());
  request.plan = plan;
  if (!plan) request.planned = k.options().planned;
  request.planned.at = k.options().planned.at;
  request.key = key_text(k, traced.signature);
  request.trace = [&traced] { return std::move(traced.kernel); };
  return request;
}

std::vector<Warning> Launcher::try_passes(KernelInstance& k, Device device,
                                          std::span<const HostArg> args) const {
  TraceResult traced = k.trace(k.signature(args));
  return runtime::warnings_of_passes(request_for(k, traced, device, {}));
}

std::shared_ptr<const CompiledKernel> Launcher::find_or_compile(KernelInstance& k,
                                                                TraceResult& traced,
                                                                const Hash128& ir, Device device,
                                                                std::optional<ir::Target> target,
                                                                bool& is_new) const {
  const runtime::CompileRequest request = request_for(k, traced, device, target);
  runtime::Compilation keyed;
  runtime::key(keyed, request);
  // GPUs of one target share the kernel, and each loads it.
  const std::string name =
      fmt::format("{} {} {} {} {} {} {}", ir.hex(), static_cast<int>(device.kind),
                  keyed.target.name(), keyed.assembler_target, runtime::name(keyed.backend),
                  plan ? plan->str() : k.options().planned.str(), env().plan);
  auto kernel = compiled_by_ir().find(name);
  is_new = !kernel;
  if (kernel) return kernel;
  kernel = runtime::compile(request);
  compiled_by_ir().add(name, kernel);
  return kernel;
}

std::shared_ptr<const CompiledKernel> Launcher::compiled_for_target(
    KernelInstance& k, std::string_view name, std::span<const HostArg> args, const Loc& at,
    std::vector<Warning>& warnings) const {
  refuse_nested(k);
  const auto target = ir::Target::find(name);
  if (!target)
    fail(ErrorId::unknown_target, at, {{k.loc(), fmt::format("{} is made here", k.name())}},
         k.name(), name, ir::Target::all_names());
  CallArgs run_time;
  k.check_argument_count(k.run_time_params() + k.known().captures.size());
  for (const HostArg& a : k.run_time_args(args)) run_time.add(a, {});
  check_equal_extents(k, run_time);
  TraceResult traced = k.trace(k.signature(args));
  const Hash128 ir = hash_of(traced.kernel);
  std::shared_ptr<const CompiledKernel> kernel;
  bool is_new = false;
  {
    const std::lock_guard lock(compiling_);
    kernel = find_or_compile(k, traced, ir, Device::cuda(), target, is_new);
  }
  warnings = warnings_about(k, traced.warnings, kernel->warnings);
  if (is_new) report_warnings(warnings);
  return kernel;
}

Artefact Launcher::compile_for(KernelInstance& k, std::string_view name,
                               std::span<const HostArg> args, const Loc& at) const {
  std::vector<Warning> warnings;
  auto kernel = compiled_for_target(k, name, args, at, warnings);
  return Artefact(std::move(kernel), std::move(warnings));
}

void Launcher::launch(KernelInstance& k, const Stream* given, std::span<const HostArg> args) {
  refuse_nested(k);
  const Device device = device_of(given, args);
  if (env().eager) [[unlikely]]
    return launch_eagerly(k, args, device);
  CallArgs call;
  const CallKey key = make_call_key(k, args, device, call);
  check_overlap(k, call);
  if (k.tuned.has_choices())
    if (KernelInstance* tuned = k.tuned.find(k, given, args, device))
      return tuned->launcher.launch(*tuned, given, args);
  const CompiledEntry* entry = find(key);
  if (!entry) [[unlikely]] {
    entry = compile(k, args, device);
    if (!entry) return launch(k, given, args);
    call.count = 0;
    make_call_key(k, args, device, call);  // includes captures of the trace
    check_overlap(k, call);                // includes addresses that the trace stores to
  }
  if (wants_retrace()) [[unlikely]]
    if (hash_of(k.trace(k.signature(args)).kernel) != entry->ir)
      fail(ErrorId::stale_trace, k.loc(), {}, k.name());
  const std::span<const runtime::LaunchArg> run_time(call.args.data(),
                                                     entry->kernel->tile.params().size());
  entry->kernel->launch(given ? *given : Stream(device), run_time);
}

std::shared_ptr<const CompiledKernel> Launcher::prepare(KernelInstance& k, const Stream* stream,
                                                        std::span<const HostArg> args) {
  refuse_nested(k);
  const Device device = device_of(stream, args);
  CallArgs unused;
  const CallKey key = make_call_key(k, args, device, unused);
  if (k.tuned.has_choices())
    if (KernelInstance* tuned = k.tuned.find(k, stream, args, device))
      return tuned->launcher.prepare(*tuned, stream, args);
  const CompiledEntry* entry = find(key);
  if (!entry) entry = compile(k, args, device);
  if (!entry) return prepare(k, stream, args);
  auto kernel = entry->kernel;
  kernel->prepare(stream ? *stream : Stream(device));
  return kernel;
}

std::shared_ptr<const CompiledKernel> Launcher::compiled_for(KernelInstance& k,
                                                             std::span<const HostArg> args,
                                                             Device device, CallArgs& run_time) {
  refuse_nested(k);
  const CallKey key = make_call_key(k, args, device, run_time);
  if (k.tuned.has_choices())
    if (KernelInstance* tuned = k.tuned.find(k, nullptr, args, device)) {
      run_time.count = 0;
      return tuned->launcher.compiled_for(*tuned, args, device, run_time);
    }
  const CompiledEntry* entry = find(key);
  if (!entry) {
    entry = compile(k, args, device);
    run_time.count = 0;
    if (!entry) return compiled_for(k, args, device, run_time);
    make_call_key(k, args, device, run_time);  // includes captures of the trace
  }
  run_time.count = entry->kernel->tile.params().size();
  return entry->kernel;
}

std::shared_ptr<const CompiledKernel> Launcher::latest() const {
  const CompiledEntry* entry = newest_.load(std::memory_order_acquire);
  return entry ? entry->kernel : nullptr;
}

std::vector<Warning> Launcher::warnings() const {
  const std::lock_guard lock(compiling_);
  return warnings_;
}

std::string Launcher::compile_history() const {
  const std::lock_guard lock(compiling_);
  return fmt::format("{}\n", fmt::join(history_, "\n"));
}

std::size_t Launcher::compiled() const {
  std::size_t n = 0;
  for (const CompiledEntry* e = newest_.load(std::memory_order_acquire); e; e = e->next.get()) ++n;
  return n;
}

}  // namespace tegula::dsl

namespace tegula::detail {
namespace {

/// Returns the kernel that the latest call ran.
dsl::KernelInstance& latest_of(dsl::KernelInstance& called) {
  dsl::KernelInstance* const tuned = called.tuned.latest();
  return tuned ? *tuned : called;
}

}  // namespace

void launch(dsl::KernelInstance& k, const Stream* stream, std::span<const HostArg> args) {
  dsl::at_kernel(k.loc(), [&] {
    if (!dsl::is_preparing()) [[likely]]
      k.launcher.launch(k, stream, args);
    else if (dsl::CallRecording* recording = dsl::CallRecording::current())
      recording->add(k, args);
    else
      k.launcher.prepare(k, stream, args);
  });
}

Artefact compile(dsl::KernelInstance& k, std::string_view target, std::span<const HostArg> args,
                 Loc at) {
  return dsl::at_kernel(k.loc(), [&] { return k.launcher.compile_for(k, target, args, at); });
}

std::string dump(dsl::KernelInstance& called, std::string_view verb) {
  dsl::KernelInstance& k = latest_of(called);
  static constexpr std::string_view kVerbs[] = {"key", "trace",    "optimize", "emit",
                                                "ptx", "assemble", "launch"};
  if (std::ranges::find(kVerbs, verb) == std::end(kVerbs))
    fail(ErrorId::unknown_stage, k.loc(), {}, verb);
  const auto kernel = k.launcher.latest();
  if (!kernel) fail(ErrorId::not_compiled, k.loc(), {}, k.name());
  if (verb == "emit" || verb == "ptx") return runtime::gpu_text(*kernel, verb);
  return kernel->dump(verb);
}

std::vector<Warning> warnings(const dsl::KernelInstance& k) {
  std::vector<Warning> all = k.launcher.warnings();
  if (const dsl::KernelInstance* tuned = k.tuned.latest())
    for (Warning& w : tuned->launcher.warnings())
      if (std::ranges::find(all, w) == all.end()) all.push_back(std::move(w));
  return all;
}

std::string explain(dsl::KernelInstance& called) {
  dsl::KernelInstance& k = latest_of(called);
  const auto kernel = k.launcher.latest();
  if (!kernel) fail(ErrorId::not_compiled, k.loc(), {}, k.name());
  return called.tuned.why() + k.launcher.compile_history() + kernel->explain();
}

}  // namespace tegula::detail
