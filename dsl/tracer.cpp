// The recorder's variables, operands and parameters. Regions are in regions.cpp.
#include "dsl/tracer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "dsl/eager.h"
#include "dsl/instance.h"
#include "ir/text.h"
#include "tegula/called_from.h"

namespace tegula::dsl {
namespace {

thread_local Tracer* t_current = nullptr;
std::atomic<std::uint64_t> g_next_trace{1};

struct Stack {
  const char* begin = nullptr;  ///< lowest address
  std::size_t bytes = 0;
};

Stack stack_of_thread() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  void* begin = nullptr;
  Stack stack;
  if (pthread_attr_getstack(&attributes, &begin, &stack.bytes) == 0)
    stack.begin = static_cast<const char*>(begin);
  pthread_attr_destroy(&attributes);
  return stack;
}

/// Returns the lowest address that a trace on this thread may use. The rest, 256 KB or a quarter of
/// a small stack, is kept for the functions that record one op, and for throwing the error. Returns
/// null on a stack that is not the thread's, such as that of a coroutine: its size is unknown.
const char* lowest_of_trace() {
  static thread_local const Stack stack = stack_of_thread();
  const char* const here = static_cast<const char*>(__builtin_frame_address(0));
  if (here < stack.begin || here >= stack.begin + stack.bytes) return nullptr;
  return stack.begin + std::min<std::size_t>(stack.bytes / 4, 256 << 10);
}

}  // namespace

Tracer::Tracer(std::string name, Signature key, Tuning tuning, std::vector<ParamName> names,
               bool check_loops)
    : kernel(std::move(name)),
      build(kernel),
      indices(kernel),
      signature(std::move(key)),
      names_(std::move(names)),
      id_(g_next_trace++),
      outer_(t_current),
      tuning_(std::move(tuning)),
      check_loops_(check_loops),
      stack_end_(lowest_of_trace()) {
  variables_.previous = variables_.next = &variables_;
  t_current = this;
  for (std::size_t i = 0; i < signature.args.size(); ++i) {
    const ArgClass& a = signature.args[i];
    ir::AttrList attrs;
    attrs.set(AttrName::arg, static_cast<std::int64_t>(i));
    if (a.info.kind == ParamKind::Pointer) attrs.set(AttrName::divisibility, std::int64_t{a.align});
    kernel.add_param(i < names_.size() ? names_[i].name : fmt::format("arg{}", i), type_of(a),
                     std::move(attrs));
  }
}

Tracer::~Tracer() {
  for (detail::Link* at = variables_.next; at != &variables_;) {
    detail::Link* next = at->next;
    at->previous = at->next = nullptr;
    at = next;
  }
  t_current = outer_;
}

Tracer* Tracer::current() { return t_current; }

Tracer& Tracer::at(const Loc& loc, std::string_view what) {
  if (!t_current) fail(ErrorId::no_trace, loc, {}, what);
  t_current->throw_pending();
  if (t_current->live) [[unlikely]]
    t_current->live->catch_up();
  if (loc.known() && !t_current->pinned_ && !t_current->is_of_language(loc))
    t_current->build.loc = loc;
  t_current->check_size();
  return *t_current;
}

bool Tracer::is_of_language(const Loc& loc) {
  if (loc.file != latest_file_) {
    latest_file_ = loc.file;
    is_latest_of_language_ = detail::is_source_of_language(loc.file);
  }
  return is_latest_of_language_;
}

void Tracer::check_size() const {
  check_stack();
  if (kernel.op_count() <= max_ops_ || live) [[likely]]
    return;
  fail(ErrorId::trace_too_long, build.loc, {{instance->loc(), "the kernel is made here"}},
       kernel.info.name, kMaxTraceOps);
}

void Tracer::check_stack() const {
  if (static_cast<const char*>(__builtin_frame_address(0)) >= stack_end_) [[likely]]
    return;
  fail(ErrorId::trace_too_deep, build.loc, {{instance->loc(), "the kernel is made here"}},
       kernel.info.name, kernel.op_count(), "the stack of its thread is nearly used");
}

void Tracer::throw_pending() {
  if (!pending_) return;
  Diagnostic d = std::move(*pending_);
  pending_.reset();
  throw CompileError(std::move(d));
}

// ---- values -------------------------------------------------------------------------------------
ir::Value Tracer::value(const Arg& a) {
  const Loc loc = a.loc_.known() ? a.loc_ : build.loc;
  if (a.trace_ == id_) return ir::Value(a.value_);
  if (a.trace_ != 0) fail(ErrorId::foreign_value, loc, {});
  if (a.value_ == 0) fail(ErrorId::undefined_value, loc, {});
  const auto& [kind, where] = lost_[a.value_ - 1];
  fail(ErrorId::undefined_after, loc, {{where, "it was recorded here"}}, name(kind));
}

Arg Tracer::arg(ir::Value v, Loc loc) {
  Arg a;
  a.loc_ = loc;
  a.trace_ = t_current->id_;
  a.value_ = v.index;
  a.kind_ = Arg::Kind::Value;
  return a;
}

void Tracer::check_limits(ir::Type type) const {
  const auto shape = type.shape();
  if (static_cast<int>(shape.size()) > kMaxTileRank)
    fail(ErrorId::tile_rank, build.loc, {}, extents_text(shape));
  std::int64_t left = kMaxTileElements;
  for (std::int64_t extent : shape) {
    if (extent <= 0) fail(ErrorId::bad_extent, build.loc, {}, extent);
    left /= extent;
  }
  if (left == 0) fail(ErrorId::tile_too_large, build.loc, {}, extents_text(shape));
}

Tile Tracer::tile(ir::Value v) {
  if (const ir::Type type = kernel.type(v); type.is_tile()) check_limits(type);
  Tile t;
  set(t, v);
  return t;
}

ir::Value Tracer::get(const Tile& t) const {
  return t.trace_ == id_ ? ir::Value(t.value_) : ir::Value();
}

void Tracer::set(Tile& t, ir::Value v) {
  t.trace_ = v ? id_ : 0;
  t.value_ = v ? v.index : 0;
}

Note Tracer::origin(ir::Value v, std::string_view role) {
  const ir::Value source = stated(kernel, v);
  const ir::OpId def = kernel[source].def;
  if (!def) return {{}, fmt::format("{} is {}", role, type_text(v))};
  const ir::OpData& op = kernel[def];
  std::string how = fmt::format("made here by {}", ir::info(op.opcode).mnemonic);
  if (const auto at = read_from.find(source); at != read_from.end())
    how = "read here from " + at->second;
  return {op.loc, fmt::format("{} is {}, {}", role, type_text(v), how)};
}

// ---- variables ----------------------------------------------------------------------------------
void Tracer::enlist(Tile& t) {
  check_stack();
  detail::Link& l = t;
  l.previous = variables_.previous;
  l.next = &variables_;
  l.previous->next = &l;
  variables_.previous = &l;
  t.scope_ = next_variable_id_;
}

void Tracer::forget(Tile& t) {
  for (OpenScope& s : scopes_) {
    if (t.scope_ >= s.first_variable_id) continue;
    for (auto* list : {&s.carries, &s.first})
      for (Carry& c : *list)
        if (c.variable == &t) c.variable = nullptr;
  }
  if (outer_) outer_->forget(t);
}

// ---- parameters ---------------------------------------------------------------------------------
std::uint32_t Tracer::position(const detail::Parameter& p) const {
  if (p.trace != id_) fail(ErrorId::foreign_value, build.loc, {});
  return p.number;
}

ViewAccessRecord& Tracer::access(const ViewTile& part) {
  value(part);  // throws
  return accesses[part.access_];
}

std::string Tracer::param_text(std::uint32_t position) const {
  static constexpr std::string_view kAccess[] = {"In", "Out", "InOut"};
  const ParamInfo& info = arg_class(position).info;
  return fmt::format("{} ({}<{}, {}>)", kernel.params()[position].name,
                     kAccess[static_cast<int>(info.access)], tegula::name(info.dtype), info.rank);
}

std::string Tracer::dimension_text(std::uint32_t position, int axis) const {
  const bool named = position < names_.size() && !names_[position].dims.empty();
  const std::string& param = kernel.params()[position].name;
  if (named)
    return fmt::format("{}.{}", param, names_[position].dims[static_cast<std::size_t>(axis)]);
  return fmt::format("{}.{}", param, axis);
}

std::int64_t Tracer::specialise(std::uint32_t position, int axis, bool exact) {
  ArgClass& a = signature.args[position];
  DimClass& d = a.dims[static_cast<std::size_t>(axis)];
  if (d.fixed >= 0) return d.fixed;
  if (!exact && d.bucket >= 0) return d.bucket;
  if (a.sample.empty())
    throw InternalError(fmt::format("{} has no extents to specialise on", param_text(position)));
  const SpecializationRequest request{position, axis, exact ? ExtentKey::Exact : ExtentKey::Bucket};
  requests.push_back(request);
  apply_request(request, a);
  kernel.set_type(param(position), type_of(a));
  return exact ? d.fixed : d.bucket;
}

void Tracer::generalise(std::uint32_t position, int axis, ExtentKey key) {
  const SpecializationRequest request{position, axis, key};
  requests.push_back(request);
  apply_request(request, signature.args[position]);
  kernel.set_type(param(position), type_of(signature.args[position]));
}

std::uint32_t Tracer::param_of_capture(const std::shared_ptr<detail::ScalarCell>& cell) {
  for (std::size_t i = 0; i < captures.size(); ++i)
    if (captures[i].cell == cell)
      return static_cast<std::uint32_t>(signature.args.size() - captures.size() + i);
  Capture c;
  c.info = {ParamKind::Scalar, cell->dtype, 0, detail::ViewAccess::In};
  c.cell = cell;
  add_capture(std::move(c));
  return static_cast<std::uint32_t>(signature.args.size() - 1);
}

std::uint32_t Tracer::param_of_records() {
  for (std::size_t i = 0; i < captures.size(); ++i)
    if (captures[i].is_records)
      return static_cast<std::uint32_t>(signature.args.size() - captures.size() + i);
  Capture c;
  c.info = {ParamKind::Pointer, DType::u32, 0, detail::ViewAccess::InOut};
  c.is_records = true;
  add_capture(std::move(c));
  return static_cast<std::uint32_t>(signature.args.size() - 1);
}

std::uint32_t Tracer::param_of_capture(const Tensor& t, DType dtype, int rank, Loc loc,
                                       detail::ViewAccess access) {
  if (t.dtype() != dtype)
    fail(ErrorId::argument_dtype, loc, {}, tegula::name(dtype), rank, tegula::name(t.dtype()));
  if (t.rank() != rank) fail(ErrorId::captured_rank, loc, {}, tegula::name(dtype), rank, t.rank());
  // A variable of the host is read through its address at every launch. A copy that the lambda made
  // on the stack during the trace would be gone by then, so its handle is kept instead.
  const char* at = reinterpret_cast<const char*>(&t);
  const bool is_local =
      at >= static_cast<const char*>(__builtin_frame_address(0)) && at < stack_begin;
  const auto is_same = [&](const Capture& c) {
    if (c.cell || c.info.dtype != dtype || c.info.rank != rank || c.info.access != access)
      return false;
    if (!is_local) return c.tensor == &t;
    return !c.tensor && c.copy.data() == t.data() && c.copy.shape() == t.shape() &&
           c.copy.strides() == t.strides();
  };
  for (std::size_t i = 0; i < captures.size(); ++i)
    if (is_same(captures[i]))
      return static_cast<std::uint32_t>(signature.args.size() - captures.size() + i);
  Capture c;
  c.info = {ParamKind::View, dtype, rank, access};
  if (is_local)
    c.copy = t;
  else
    c.tensor = &t;
  add_capture(std::move(c));
  return static_cast<std::uint32_t>(signature.args.size() - 1);
}

void Tracer::add_capture(Capture c) {
  captures.push_back(std::move(c));
  const HostArg now = captures.back().read();
  const ArgClass a = classify(now, captures.back().info);
  if (index_type_of(std::span(&now, 1)) == DType::i64 && signature.index_type != DType::i64)
    throw IndexTypeChanged{};
  const auto position = static_cast<std::int64_t>(signature.args.size());
  ir::AttrList attrs;
  attrs.set(AttrName::arg, position);
  kernel.add_param(fmt::format("arg{}", position), type_of(a), std::move(attrs));
  signature.args.push_back(a);
}

int Tracer::tune(const char* tunable, std::vector<int> set, std::optional<int> otherwise, Loc loc) {
  if (set.empty()) fail(ErrorId::tune_empty, loc, {}, tunable);
  for (const Tunable& t : tunables) {
    if (t.name != tunable) continue;
    if (t.set != set)
      fail(ErrorId::tune_sets, loc, {{t.loc, "first used here"}}, tunable,
           fmt::format("{{{}}}", fmt::join(t.set, ", ")),
           fmt::format("{{{}}}", fmt::join(set, ", ")));
    return t.value;
  }
  const auto given = tuning_.find(tunable);
  const int value = given != tuning_.end() ? given->second : otherwise.value_or(set.front());
  if (std::ranges::find(set, value) == set.end())
    fail(ErrorId::tune_value, loc, {}, value, fmt::format("{{{}}}", fmt::join(set, ", ")), tunable);
  tunables.push_back({tunable, std::move(set), value, loc, otherwise.has_value()});
  return value;
}

}  // namespace tegula::dsl

// ---- Tile: the handle itself --------------------------------------------------------------------
namespace tegula {

detail::Parameter::Parameter(std::uint32_t position)
    : number(position), trace(Tracer::current() ? Tracer::current()->id() : 0) {}

void Tile::enlist() {
  if (Tracer* t = Tracer::current()) t->enlist(*this);
}

Tile::Tile() { enlist(); }
Tile::Tile(const Tile& other) : detail::Link(), trace_(other.trace_), value_(other.value_) {
  enlist();
}
Tile::Tile(Tile&& other) : Tile(static_cast<const Tile&>(other)) {}

Tile::~Tile() {
  if (!next) return;
  if (Tracer* t = Tracer::current()) t->forget(*this);
  previous->next = next;
  next->previous = previous;
}

Tile& Tile::operator=(const Tile& other) & {
  trace_ = other.trace_;
  value_ = other.value_;
  // A variable from before the trace is used for the first time.
  if (!next) {
    enlist();
    scope_ = 0;
  }
  return *this;
}
Tile& Tile::operator=(Tile&& other) & { return *this = static_cast<const Tile&>(other); }

Tile Tile::constant(double f, std::int64_t i, DType dtype, Loc at) {
  Tracer& t = Tracer::at(at, "a traced constant");
  const ir::Type type = ir::Type::scalar(dtype);
  return t.tile(is_float(dtype) ? t.build.constant(type, f) : t.build.constant(type, i));
}

namespace {
ir::Type tile_type(const Tile& tile) {
  Tracer& t = Tracer::at({}, "the type of a tile");
  return t.kernel.type(t.value(tile));
}
}  // namespace

DType Tile::dtype() const { return tile_type(*this).dtype(); }
bool Tile::is_pointer() const { return tile_type(*this).is_pointer(); }
std::vector<std::int64_t> Tile::shape() const {
  const auto s = tile_type(*this).shape();
  return {s.begin(), s.end()};
}
int Tile::rank() const { return static_cast<int>(tile_type(*this).rank()); }

}  // namespace tegula
