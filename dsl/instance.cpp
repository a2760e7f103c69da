// Traces kernel lambdas, and stores what traces find: captured arguments and extents that matter.
#include "dsl/instance.h"

#include <cxxabi.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>

#include "dsl/at_kernel.h"
#include "dsl/eager.h"
#include "dsl/liveness.h"
#include "ir/access.h"
#include "ir/analysis/memory_hazards.h"
#include "ir/verify.h"
#include "support/text.h"

namespace tegula::dsl {
namespace {

/// Returns false if the bytes cannot contain an address: then they describe a closure completely.
/// Any other closure may point to state that changes.
bool may_hold_address(const void* bytes, std::size_t size) {
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= size; at += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, static_cast<const char*>(bytes) + at, sizeof word);
    if (word >= 0x10000 && word < (std::uint64_t{1} << 48)) return true;
  }
  return false;
}

Hash128 identity_of(const Closure& c, const KernelOptions& options) {
  static std::atomic<std::uint64_t> next_unique{1};
  Hasher h;
  h.add(reinterpret_cast<std::uintptr_t>(c.type)).add(c.name);
  if (c.is_plain && !may_hold_address(c.object.get(), c.size_bytes))
    h.add(std::string_view(static_cast<const char*>(c.object.get()), c.size_bytes));
  else
    h.add(next_unique++);
  for (const auto& [name, value] : options.tuning) h.add(name).add(value);
  if (options.may_alias) h.add(std::string_view("may_alias"));
  h.add(ir::str(options.preferred));
  return h.digest();
}

bool is_identifier(std::string_view s) {
  const auto letter = [](char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; };
  return !s.empty() && (letter(s[0]) || s[0] == '_') && std::ranges::all_of(s, [&](char c) {
    return letter(c) || c == '_' || (c >= '0' && c <= '9');
  });
}

/// Tests for identifiers separated by dots: the name of a struct's member, `tensors.Q`.
bool is_member_name(std::string_view s) {
  return std::ranges::all_of(split(s, '.'), is_identifier);
}

/// Parses "A[M, K]" or "A".
ParamName parse_name(std::string_view text, int rank, Loc at) {
  const auto reject = [&] { fail(ErrorId::bad_name, at, {}, text, rank); };
  ParamName out;
  const auto open = text.find('[');
  out.name = trim(text.substr(0, open));
  if (open != text.npos) {
    if (text.back() != ']') reject();
    for (std::string_view d : split(text.substr(open + 1, text.size() - open - 2), ','))
      out.dims.emplace_back(trim(d));
    if (static_cast<int>(out.dims.size()) != rank) reject();
  }
  if (!is_member_name(out.name) || !std::ranges::all_of(out.dims, is_identifier)) reject();
  return out;
}

std::string param_text(const ParamName& n) {
  return fmt::format("{}[{}]", n.name, fmt::join(n.dims, ", "));
}

/// Pairs each further use of a name with the first one.
std::vector<EqualExtents> equal_extents_of(const std::vector<ParamName>& names) {
  std::vector<EqualExtents> out;
  std::map<std::string, std::pair<std::uint32_t, int>> first;
  for (std::uint32_t arg = 0; arg < names.size(); ++arg)
    for (int axis = 0; axis < static_cast<int>(names[arg].dims.size()); ++axis) {
      const std::string& name = names[arg].dims[static_cast<std::size_t>(axis)];
      const auto [at, fresh] = first.try_emplace(name, arg, axis);
      const auto [other, other_axis] = at->second;
      if (!fresh)
        out.push_back({{other, arg},
                       {other_axis, axis},
                       name,
                       {param_text(names[other]), param_text(names[arg])}});
    }
  return out;
}

/// States equal extents, which each call checks, as facts for the compiler.
void state_equal_extents(Tracer& t, std::span<const EqualExtents> equal) {
  const ir::Type index = ir::Type::scalar(t.signature.index_type);
  const auto extent = [&](const EqualExtents& e, int i) {
    return t.build.op(Opcode::ViewDim, {t.param(e.arg[i])}, index, {{AttrName::axis, e.axis[i]}});
  };
  const auto is_there = [&](std::uint32_t arg) {
    return arg < t.signature.args.size() && !t.signature.args[arg].absent;
  };
  for (const EqualExtents& e : equal)
    if (is_there(e.arg[0]) && is_there(e.arg[1]))
      t.build.effect(Opcode::Assume, {t.build.cmp("eq", extent(e, 0), extent(e, 1))});
}

/// Gives dots stable names for a Plan to refer to.
void label_dots(ir::Kernel& k) {
  int next = 0;
  ir::walk(k, k.body(), [&](ir::OpId op) {
    if (k[op].opcode == Opcode::Dot)
      k[op].attrs.set(AttrName::label, "dot#" + std::to_string(next++));
  });
}

void finish_launch(ir::Kernel& k) {
  if (k[k.launch()].first) return;
  ir::Builder b(k, k.launch());
  const ir::Value one = b.i32(1);
  b.yield(std::vector{one, one, one});
}

void check_out_views(Tracer& t) {
  const auto access = [&](ir::Value v) {
    const ir::Type type = t.kernel.type(v);
    return type.is_view() ? type.view_facts().access : ir::Access::In;
  };
  const auto text = [&](ir::Value view) {
    for (std::size_t i = 0; i < t.kernel.params().size(); ++i)
      if (t.kernel.params()[i].value == view) return t.param_text(static_cast<std::uint32_t>(i));
    return std::string();
  };
  std::vector<ir::Value> stored;
  ir::walk(t.kernel, t.kernel.body(), [&](ir::OpId op) {
    const ir::OpData& d = t.kernel[op];
    const bool reads = d.is(Opcode::LoadView, Opcode::AtomicView);
    if (reads && access(ir::accessed_view(d)) == ir::Access::Out)
      fail(ErrorId::out_view_read, d.loc, {}, text(ir::accessed_view(d)));
    if (d.is(Opcode::StoreView, Opcode::AtomicView)) stored.push_back(ir::accessed_view(d));
    if (d.is(Opcode::ViewPtr)) stored.push_back(d.operands[0]);
  });
  std::vector<Loc> told;  // avoids repeated warnings, because bodies are recorded twice
  for (const ViewAccessRecord& p : t.accesses) {
    if (!p.rebound || std::ranges::find(stored, t.param(p.param)) != stored.end()) continue;
    if (std::ranges::find(told, p.loc) != told.end()) continue;
    told.push_back(p.loc);
    t.warnings.push_back(diagnostic(ErrorId::never_stored, p.loc, {}, t.param_text(p.param)));
  }
}

/// Marks that arguments may share memory: one that is only read here may be written through
/// another.
void let_params_alias(ir::Kernel& k) {
  for (ir::Param& p : k.params()) {
    const ir::Type type = k.type(p.value);
    if (!type.is_view() && !type.is_pointer()) continue;
    p.attrs.set(ir::AttrName::kind, ir::kMayAlias);
    if (!type.is_view() || type.view_facts().access != ir::Access::In) continue;
    ir::ViewFacts facts = type.view_facts();
    facts.access = ir::Access::InOut;
    k.set_type(p.value, ir::Type::view(type.dtype(), type.shape(), std::move(facts)));
  }
}

/// Returns true for each parameter that is an address to which the kernel writes.
std::vector<bool> stored_through(const ir::Kernel& k) {
  std::vector<bool> stored(k.params().size());
  ir::walk(k, k.body(), [&](ir::OpId op) {
    if (!ir::info(k[op].opcode).has(ir::kWrites)) return;
    const ir::Type written = k.type(k[op].operands[0]);
    if (!written.is_pointer() && !(written.is_view() && written.view_facts().is_made)) return;
    const std::optional<std::vector<ir::Value>> roots = ir::memory_roots(k, k[op].operands[0]);
    for (std::size_t i = 0; i < stored.size(); ++i) {
      const ir::Value param = k.params()[i].value;
      if (k.type(param).is_pointer())
        stored[i] = stored[i] || !roots || std::ranges::count(*roots, param) > 0;
    }
  });
  return stored;
}

}  // namespace

KernelInstance::KernelInstance(Closure closure, KernelOptions options)
    : KernelInstance(std::make_shared<const Closure>(std::move(closure)), std::move(options)) {}

KernelInstance::KernelInstance(std::shared_ptr<const Closure> closure, KernelOptions options)
    : closure_(std::move(closure)),
      options_(std::move(options)),
      identity_(identity_of(*closure_, options_)) {
  for (std::size_t i = 0; i < closure_->params.size(); ++i) {
    if (closure_->params[i].kind == ParamKind::Constant) continue;
    ++run_time_params_;
    if (!closure_->names.empty()) names_.push_back(closure_->names[i]);
  }
  equal_extents_ = equal_extents_of(names_);
  versions_.push_back(std::make_unique<Specialization>());
  specialization_ = versions_.back().get();
}

std::shared_ptr<KernelInstance> KernelInstance::make(std::shared_ptr<const Closure> closure,
                                                     KernelOptions options) {
  return std::shared_ptr<KernelInstance>(
      new KernelInstance(std::move(closure), std::move(options)));
}

std::shared_ptr<KernelInstance> KernelInstance::with(const Tuning& tuning, Loc at) const {
  KernelOptions options = options_;
  options.tuned_at = at;
  for (const auto& [name, value] : tuning) options.tuning[name] = value;
  return make(closure_, std::move(options));
}

std::shared_ptr<KernelInstance> KernelInstance::allowing_alias() const {
  KernelOptions options = options_;
  options.may_alias = true;
  return make(closure_, std::move(options));
}

std::shared_ptr<KernelInstance> KernelInstance::planned(const ir::PlanRequest& request) const {
  KernelOptions options = options_;
  options.planned.add(request);
  return make(closure_, std::move(options));
}

std::shared_ptr<KernelInstance> KernelInstance::preferring(const PlanPatch& fields) const {
  KernelOptions options = options_;
  options.preferred = ir::merged(options.preferred, fields);
  return make(closure_, std::move(options));
}

std::shared_ptr<KernelInstance> KernelInstance::named(std::span<const char* const> names,
                                                      Loc at) const {
  auto closure = std::make_shared<Closure>(*closure_);
  closure->names.clear();
  for (std::size_t i = 0; i < names.size(); ++i)
    closure->names.push_back(parse_name(names[i], closure_->params[i].rank, at));
  return make(std::move(closure), options_);
}

Signature KernelInstance::signature(std::span<const HostArg> args) const {
  return signature_of(callee(), args, closure_->params, known());
}

void KernelInstance::check_argument_count(std::size_t count) const {
  if (count > CallArgs::kMax) [[unlikely]]
    fail(ErrorId::too_many_arguments, loc(), {}, fmt::format("kernel {}", name()), count,
         +CallArgs::kMax);
}

std::vector<HostArg> KernelInstance::run_time_args(std::span<const HostArg> args) const {
  std::vector<HostArg> out;
  for (const HostArg& a : args)
    if (a.kind != ParamKind::Constant) out.push_back(a);
  for (const Capture& c : known().captures) out.push_back(c.read());
  return out;
}

std::vector<HostArg> KernelInstance::constants(const Signature& key) const {
  std::vector<HostArg> args(closure_->params.size());
  auto next = key.constants.begin();
  auto run_time = key.args.begin();
  for (std::size_t i = 0; i < args.size(); ++i)
    if (closure_->params[i].kind == ParamKind::Constant)
      args[i].bits = *next++;
    else
      args[i].bits = (run_time++)->absent ? 0 : 1;
  return args;
}

/// Adds the captures that were found after the key was made.
Signature KernelInstance::completed(Signature key) const {
  const Specialization& found = known();
  for (std::size_t i = key.args.size() - run_time_params_; i < found.captures.size(); ++i) {
    const HostArg now = found.captures[i].read();
    key.args.push_back(classify(now, found.captures[i].info));
    if (index_type_of(std::span(&now, 1)) == DType::i64) key.index_type = DType::i64;
  }
  for (const SpecializationRequest& r : found.requests)
    if (r.arg < key.args.size()) apply_request(r, key.args[r.arg]);
  return key;
}

TraceResult KernelInstance::trace(const Signature& key) {
  // A lambda that traces its own kernel would deadlock.
  if (const Tracer* t = Tracer::current(); t && t->is_inside(*this))
    fail(ErrorId::nested_launch, t->build.loc, {{loc(), "it is made here"}}, name(), name());
  const std::lock_guard lock(*closure_->tracing);
  bool is_wide = false;
  // Each turn starts with more captures and requested extents than the one before.
  for (;;) {
    Signature full = completed(key);
    if (is_wide) full.index_type = DType::i64;
    try {
      return run(std::move(full), !checked_);
    } catch (const IndexTypeChanged&) {
      is_wide = true;
    } catch (const ExtentsFound&) {
    } catch (const GridBarrierFound&) {
      meets_ = true;
    }
  }
}

void KernelInstance::run_eagerly(const Signature& key, const EagerProgram& runs) {
  const std::lock_guard lock(*closure_->tracing);
  Tracer t(name(), key, options_.tuning, names_, /*check_loops=*/false);
  EagerInterpreter live(t, runs);
  t.live = &live;
  call(t);
  live.finish();
}

/// Rejects a name that no tune() of the kernel has, which would be ignored.
void KernelInstance::check_tuning(const Tracer& t) const {
  for (const auto& [given, value] : options_.tuning) {
    if (std::ranges::find(t.tunables, given, &Tunable::name) != t.tunables.end()) continue;
    std::vector<std::string> names;
    for (const Tunable& known : t.tunables) names.push_back(known.name);
    fail(ErrorId::unknown_tunable, options_.tuned_at.known() ? options_.tuned_at : loc(),
         {{loc(), fmt::format("{} is made here", name())}}, name(), given,
         names.empty() ? "it has no tune() at all"
                       : fmt::format("it has {}", fmt::join(names, ", ")));
  }
}

void KernelInstance::remember(const Tracer& t) {
  std::vector<bool> stored = stored_through(t.kernel);
  if (t.requests.empty() && t.captures.size() == known().captures.size() &&
      stored == known().stored_through)
    return;
  auto next = std::make_unique<Specialization>(known());
  next->stored_through = std::move(stored);
  next->captures = t.captures;
  for (const SpecializationRequest& r : t.requests) next->add(r);
  specialization_.store(next.get(), std::memory_order_release);
  versions_.push_back(std::move(next));
}

/// Runs the lambda. What it throws becomes a CompileError, except the library's own exceptions.
void KernelInstance::call(Tracer& t) const {
  t.captures = known().captures;
  t.stack_begin = static_cast<const char*>(__builtin_frame_address(0));
  t.build.loc = loc();
  t.instance = this;
  t.meets = meets_;
  if (!t.live) state_equal_extents(t, equal_extents_);
  try {
    closure_->call(closure_->object.get(), constants(t.signature));
    t.throw_pending();
  } catch (const TraceRestart&) {
    throw;
  } catch (const CompileError& e) {
    rethrow_at(t.build.loc, e);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    fail(ErrorId::exception_in_kernel, t.build.loc, t.left_by_exception(), e.what());
  } catch (const abi::__forced_unwind&) {  // the thread is cancelled
    throw;
  } catch (...) {
    std::vector<Note> notes = t.left_by_exception();
    notes.push_back({t.build.loc, "the last operation before it"});
    fail(ErrorId::foreign_exception, loc(), std::move(notes), name());
  }
}

TraceResult KernelInstance::run(Signature key, bool check_loops) {
  Tracer t(name(), std::move(key), options_.tuning, names_, check_loops);
  try {
    call(t);
  } catch (const ExtentsFound&) {
    check_argument_count(t.signature.args.size());
    remember(t);
    throw;
  }
  check_argument_count(t.signature.args.size());
  check_tuning(t);
  finish_launch(t.kernel);
  remove_restatements(t.kernel);
  remove_dead(t.kernel);
  check_out_views(t);
  label_dots(t.kernel);
  if (options_.may_alias) let_params_alias(t.kernel);
  if (t.kernel.info.cluster == 1) t.kernel.info.preferred = options_.preferred;
  TraceResult result{ir::clone(t.kernel), t.signature, std::move(t.warnings),
                     std::move(t.tunables)};
  ir::verify_or_throw(result.kernel, "trace");
  remember(t);
  checked_ = true;
  return result;
}

}  // namespace tegula::dsl
