// Regions of the recording: inside a loop every variable that is alive at its start is a
// loop-carried value; carries that do not change are removed at the end. Bodies are recorded twice
// to find hidden C++ state.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "dsl/eager.h"
#include "dsl/fold_body.h"
#include "dsl/same_ops.h"
#include "dsl/tracer.h"
#include "ir/text.h"

namespace tegula::dsl {

std::string_view name(ScopeKind kind) {
  static constexpr std::string_view kNames[] = {
      "the grid loop", "a loop", "while_", "if_", "a fold", "map", "the rest of a body"};
  return kNames[static_cast<int>(kind)];
}

namespace {
constexpr const char* kKeepsIndex =
    "indices(), first(), dim() and stride() return an index, whose width depends on the tensors: "
    "cast<i32>(...) or cast<i64>(...) it, or start from slice(0, 1).first()";
}  // namespace

// ---- scopes -------------------------------------------------------------------------------------
OpenScope& Tracer::push(ScopeKind kind) {
  if (scopes_.size() == kMaxOpenRegions)
    fail(ErrorId::trace_too_deep, build.loc, {{scopes_.front().loc, "the outermost begins here"}},
         kernel.info.name, kernel.op_count(), fmt::format("{} regions are open", kMaxOpenRegions));
  OpenScope s;
  s.kind = kind;
  s.id = ++next_scope_;
  s.first_variable_id = ++next_variable_id_;
  s.loc = build.loc;
  s.outer = build.region();
  s.requests = requests.size();
  s.ops = kernel.op_count();
  each_variable([&](Tile& t) { s.carries.push_back({&t, get(t), {}, {}}); });
  scopes_.push_back(std::move(s));
  return scopes_.back();
}

OpenScope Tracer::pop() {
  OpenScope s = std::move(scopes_.back());
  scopes_.pop_back();
  build.at_end(s.outer);
  build.loc = s.loc;
  return s;
}

OpenScope& Tracer::top(std::uint64_t id) {
  throw_pending();
  if (scopes_.empty() || scopes_.back().id != id)
    throw InternalError("regions of a trace are not nested");
  return scopes_.back();
}

bool Tracer::in_scope(ScopeKind kind) const {
  return std::ranges::any_of(scopes_, [&](const OpenScope& s) { return s.kind == kind; });
}

void Tracer::abandon(std::uint64_t id, bool by_exception) {
  const auto at = std::ranges::find(scopes_, id, &OpenScope::id);
  if (at == scopes_.end()) return;
  Note begins{at->loc, fmt::format("{} begins here", name(at->kind))};
  // Report that the region was left only if no exception is in flight: the exception has more
  // information.
  if (by_exception || std::uncaught_exceptions() > at->exceptions)
    left_by_exception_.push_back(std::move(begins));
  else if (!pending_)
    pending_ = diagnostic(ErrorId::left_loop, build.loc, {std::move(begins)}, name(at->kind));
  const ir::RegionId outer = at->outer;
  restore(at->carries);
  scopes_.erase(at, scopes_.end());
  build.at_end(outer);
}

bool Tracer::wants_check() const {
  return check_loops_ && std::ranges::none_of(scopes_, &OpenScope::second);
}

/// Replaces variables by arguments of the region inside the body.
void Tracer::start_body(OpenScope& scope, ir::RegionId region) {
  build.at_end(region);
  for (Carry& c : scope.carries) {
    if (c.variable && c.before) {
      c.arg = kernel.add_arg(region, kernel.type(c.before));
      keep_kind(c.before, c.arg);
      set(*c.variable, c.arg);
    }
  }
}

ir::Value Tracer::before_loop(ir::Value v) const {
  for (const OpenScope& s : scopes_)
    for (const Carry& c : s.carries)
      if (c.arg == v) return c.before;
  return {};
}

void Tracer::restore(const std::vector<Carry>& carries) {
  for (const Carry& c : carries)
    if (c.variable) set(*c.variable, c.before);
}

void Tracer::read_after(OpenScope& scope) {
  for (Carry& c : scope.carries) {
    if (!c.variable) fail(ErrorId::destroyed_in_loop, scope.loc, {});
    c.after = get(*c.variable);
  }
}

void Tracer::end_recording(OpenScope& scope) {
  read_after(scope);
  check_births(scope);
}

void Tracer::check_births(const OpenScope& scope) {
  each_variable([&](Tile& t) {
    if (t.scope_ < scope.first_variable_id) return;
    std::vector<Note> notes;
    if (const ir::Value v = get(t)) notes.push_back(origin(v, "its value"));
    fail(ErrorId::outlives_body, scope.loc, std::move(notes), name(scope.kind));
  });
}

void Tracer::lose(Tile& t, const OpenScope& scope) {
  lost_.emplace_back(scope.kind, scope.loc);
  t.trace_ = 0;
  t.value_ = static_cast<std::uint32_t>(lost_.size());
}

/// After the first recording of a body: starts the second one, if it is required.
bool Tracer::again(OpenScope& scope, ir::RegionId region) {
  if (scope.second || !wants_check()) return false;
  scope.first = scope.carries;
  scope.second = true;
  max_ops_ += kernel.op_count() - scope.ops;
  restore(scope.carries);
  for (Carry& c : scope.carries) c.arg = c.after = ir::Value();
  if (scope.kind == ScopeKind::Grid)
    build.at_end(region);
  else
    start_body(scope, region);
  return true;
}

/// Ends the check: both recordings must be the same.
void Tracer::compare(const OpenScope& scope, BodyComparison& same, ir::OpId first,
                     ir::OpId second) {
  const auto report = [&](std::vector<Note> notes) {
    // The recordings may differ only because the first one found out late which extents matter.
    if (requests.size() > scope.requests) throw ExtentsFound{};
    fail(ErrorId::hidden_state, scope.loc, std::move(notes));
  };
  if (const auto difference = same.run(first, second)) {
    const auto note = [&](ir::OpId op, std::string_view when) {
      if (!op) return Note{{}, fmt::format("recorded {}: no further operation", when)};
      return Note{kernel[op].loc, fmt::format("recorded {}: {}", when, ir::print_op(kernel, op))};
    };
    report({note(difference->first, "first"), note(difference->second, "again")});
  }
  for (std::size_t i = 0; i < scope.carries.size(); ++i) {
    const ir::Value a = scope.first[i].after, b = scope.carries[i].after;
    if (bool(a) != bool(b) || (a && !same.equal(a, b))) {
      std::vector<Note> notes;
      if (a) notes.push_back(origin(a, "a variable's value recorded first"));
      if (b) notes.push_back(origin(b, "a variable's value recorded again"));
      report(std::move(notes));
    }
  }
}

// ---- counted loops ------------------------------------------------------------------------------
std::vector<ir::Value> Tracer::held() const {
  std::vector<ir::Value> out;
  for (detail::Link* at = variables_.next; at != &variables_; at = at->next)
    if (const ir::Value v = get(static_cast<const Tile&>(*at))) out.push_back(v);
  for (const ViewAccessRecord& p : accesses)
    for (const std::vector<ir::Value>* used : {&p.offsets, &p.ends})
      std::ranges::copy_if(*used, std::back_inserter(out), [](ir::Value v) { return bool(v); });
  std::ranges::sort(out);
  return out;
}

std::uint64_t Tracer::open_live_loop(ir::Value lo, ir::Value hi, ir::Value step) {
  const std::int64_t first = live->integer(lo, "a loop bound"),
                     end = live->integer(hi, "a loop bound");
  if (first >= end) return 0;
  OpenScope& s = push(ScopeKind::Loop);
  s.next = first;
  s.end = end;
  s.step = live->integer(step, "a loop step");
  s.now = lo;
  next_iteration(s);
  return s.id;
}

/// Returns false after the last iteration.
bool Tracer::next_iteration(OpenScope& s) {
  if (s.next >= s.end) return false;
  live->catch_up();
  live->release();
  build.loc = s.loc;
  s.now = build.constant(kernel.type(s.now), s.next);
  s.next += s.step;
  return true;
}

std::uint64_t Tracer::open_loop(ir::Value lo, ir::Value hi, ir::Value step, ir::AttrList attrs) {
  if (runs()) return open_live_loop(lo, hi, step);
  const ir::Value bounds[] = {lo, hi, step};
  const ir::OpId op = build.create(Opcode::For, bounds, std::move(attrs));
  OpenScope& s = push(ScopeKind::Loop);
  s.op = op;
  const ir::RegionId body = kernel.add_region(op);
  indices.set(kernel.add_arg(body, kernel.type(lo)), IndexTypes::Kind::Index);
  start_body(s, body);
  return s.id;
}

ir::Value Tracer::induction(std::uint64_t id) const {
  const auto at = std::ranges::find(scopes_, id, &OpenScope::id);
  return at->now ? at->now : kernel[kernel[at->op].regions.back()].args[0];
}

bool Tracer::close_loop(std::uint64_t id) {
  if (has_rest()) end_steps(*std::ranges::find(scopes_, id, &OpenScope::id));
  OpenScope& s = top(id);
  if (s.now) {
    if (next_iteration(s)) return true;
    pop();
    return false;
  }
  end_recording(s);
  const ir::RegionId body = kernel[s.op].regions.front();
  if (!s.second && wants_check()) {
    const ir::RegionId twin = kernel.add_region(s.op);
    indices.set(kernel.add_arg(twin, kernel.type(kernel[body].args[0])), IndexTypes::Kind::Index);
    return again(s, twin);
  }
  if (s.second) {
    const ir::RegionId twin = kernel[s.op].regions.back();
    compare_regions(s, body, twin);
    kernel[s.op].regions.pop_back();
    s.carries = s.first;
  }
  const ir::OpId loop = s.op;
  const ir::Value following = s.following;
  finish_loop(s, std::span(&body, 1), 1);
  if (following) make_while(loop, following);
  return false;
}

void Tracer::compare_regions(const OpenScope& scope, ir::RegionId first, ir::RegionId second) {
  const auto &a = kernel[first], &b = kernel[second];
  BodyComparison same(kernel);
  for (std::size_t i = 0; i < a.args.size(); ++i) same.equate(a.args[i], b.args[i]);
  compare(scope, same, a.first, b.first);
}

/// Marks the carries that change across iterations. A carry that yields itself or its initial value
/// does not change; removing it may show that others do not change either.
std::vector<bool> Tracer::essential(const std::vector<Carry>& carries) const {
  std::vector<bool> keep(carries.size(), true);
  std::unordered_map<ir::Value, ir::Value> settled;
  for (std::size_t i = 0; i < carries.size(); ++i) keep[i] = bool(carries[i].arg);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < carries.size(); ++i) {
      const Carry& c = carries[i];
      if (!keep[i]) continue;
      const auto known = settled.find(c.after);
      const ir::Value after = known == settled.end() ? c.after : known->second;
      if (after != c.arg && after != c.before) continue;
      keep[i] = false;
      settled[c.arg] = c.before;
      changed = true;
    }
  }
  return keep;
}

void Tracer::check_types(const OpenScope& scope) {
  for (const Carry& c : scope.carries) {
    if (!c.arg || !c.after || indices.is_same_type(c.before, c.after)) continue;
    fail(ErrorId::carried_type, scope.loc,
         {origin(c.before, "before"), origin(c.after, "after an iteration")}, type_text(c.before),
         type_text(c.after),
         is_of_indices(c.before, c.after)
             ? kKeepsIndex
             : "a variable keeps its type and shape from one iteration to the next; cast or "
               "broadcast before the loop");
  }
}

void Tracer::replace_in(ir::RegionId region,
                        const std::vector<std::pair<ir::Value, ir::Value>>& map) {
  if (map.empty()) return;
  const std::unordered_map<ir::Value, ir::Value> to(map.begin(), map.end());
  ir::walk(kernel, region, [&](ir::OpId op) {
    for (ir::Value& v : kernel[op].operands)
      if (const auto at = to.find(v); at != to.end()) v = at->second;
  });
}

void Tracer::yield(ir::RegionId region, const std::vector<ir::Value>& values) {
  build.at_end(region);
  build.yield(values);
}

/// Gives the op its initial values, results and yields. `regions` take the carries as arguments
/// after `fixed_args` other ones; the last region yields the next values.
void Tracer::finish_loop(OpenScope& s, std::span<const ir::RegionId> regions,
                         std::size_t fixed_args) {
  check_types(s);
  const std::vector<bool> keep = essential(s.carries);
  std::vector<std::pair<ir::Value, ir::Value>> settled;
  std::vector<ir::Value> inits, nexts;
  std::size_t position = 0;  // among the arguments of carries
  for (std::size_t i = 0; i < s.carries.size(); ++i) {
    const Carry& c = s.carries[i];
    if (!c.arg) continue;
    for (ir::RegionId r : regions)
      if (!keep[i]) settled.emplace_back(kernel[r].args[fixed_args + position], c.before);
    ++position;
    if (!keep[i]) continue;
    inits.push_back(c.before);
    nexts.push_back(c.after);
  }
  // `settled` maps arguments that are removed to values from before the loop, so the values are not
  // themselves removed arguments.
  const std::unordered_map<ir::Value, ir::Value> outside(settled.begin(), settled.end());
  for (ir::Value& v : nexts)
    if (const auto at = outside.find(v); at != outside.end()) v = at->second;
  for (ir::RegionId r : regions) {
    replace_in(r, settled);
    auto& args = kernel[r].args;
    std::erase_if(args, [&](ir::Value v) { return outside.contains(v); });
    for (std::size_t i = 0; i < args.size(); ++i)
      kernel[args[i]].position = static_cast<std::uint32_t>(i);
  }
  build.loc = s.loc;
  yield(regions.back(), nexts);
  const ir::OpId op = s.op;
  kernel[op].operands.insert(kernel[op].operands.end(), inits.begin(), inits.end());
  for (std::size_t i = 0; i < s.carries.size(); ++i) {
    const Carry& c = s.carries[i];
    if (keep[i]) {
      const ir::Value result = kernel.add_result(op, kernel.type(c.before));
      keep_kind(c.before, result);
      set(*c.variable, result);
    } else if (c.before)
      set(*c.variable, c.before);
    else if (c.after)
      lose(*c.variable, s);
  }
  pop();
}

// ---- while --------------------------------------------------------------------------------------
void Tracer::record_while(const std::function<Tile()>& condition,
                          const std::function<void()>& body) {
  if (is_mapping())
    map_while(condition, body);
  else
    record_loop(condition, body);
}

void Tracer::record_loop(const std::function<Tile()>& condition,
                         const std::function<void()>& body) {
  if (runs()) {
    const std::uint64_t id = push(ScopeKind::While).id;
    while (live->integer(value(condition()), "a condition") != 0) {
      body();
      const bool leaves = has_rest();
      if (leaves) close_rests({});
      live->catch_up();
      if (leaves) break;
      live->release();
    }
    top(id);
    pop();
    return;
  }
  const ir::OpId op = build.create(Opcode::While, {});
  const std::uint64_t id = push(ScopeKind::While).id;
  top(id).op = op;
  const ir::RegionId test = kernel.add_region(op), loop = kernel.add_region(op);
  start_body(top(id), test);
  {
    const Tile c = condition();
    OpenScope& s = top(id);
    for (const Carry& carry : s.carries)
      if (carry.variable && get(*carry.variable) != carry.arg)
        fail(ErrorId::condition_rebinds, s.loc, {});
    const ir::Type type = kernel.type(value(c));
    if (type != ir::Type::scalar(DType::i1))
      fail(ErrorId::condition_type, s.loc, {origin(value(c), "the condition")}, "while_",
           type.str(), condition_hint(type));
    build.yield(std::vector{value(c)});
  }
  check_births(top(id));
  start_body(top(id), loop);
  const auto record_body = [&] {
    body();
    return has_rest() ? close_rests(build.flag(true)) : ir::Value();
  };
  const ir::Value following = record_body();
  end_recording(top(id));
  if (!top(id).second && wants_check()) {
    const ir::RegionId twin = kernel.add_region(op);
    again(top(id), twin);
    record_body();
    end_recording(top(id));
    compare_regions(top(id), loop, twin);
    kernel[op].regions.pop_back();
    top(id).carries = top(id).first;
  }
  const ir::RegionId regions[] = {test, loop};
  finish_loop(top(id), regions, 0);
  if (following) stop_while(op, following);
}

// ---- branches -----------------------------------------------------------------------------------
std::uint64_t Tracer::open_branch(ir::Value condition, bool& takes) {
  if (is_mapping()) return open_choice(condition);
  takes = !runs() || live->integer(condition, "a condition") != 0;
  if (runs()) {
    OpenScope& s = push(ScopeKind::Branch);
    s.now = condition;
    s.next = takes;
    return s.id;
  }
  const ir::OpId op = build.make_if(condition, {});
  OpenScope& s = push(ScopeKind::Branch);
  s.op = op;
  build.at_end(kernel[op].regions[0]);
  return s.id;
}

bool Tracer::else_branch(std::uint64_t id) {
  OpenScope& s = top(id);
  if (s.now) return s.next == 0;
  end_recording(s);
  s.first = s.carries;
  restore(s.carries);
  s.is_otherwise = true;
  if (!s.chooses) build.at_end(kernel[s.op].regions[1]);
  return true;
}

void Tracer::close_branch(std::uint64_t id) {
  OpenScope& s = top(id);
  if (s.now) {
    pop();
    return;
  }
  end_recording(s);
  build.loc = s.loc;
  if (s.chooses) return close_choice(s);
  std::vector<ir::Value> yields[2];
  const ir::OpId op = s.op;
  const bool selects = in_scope(ScopeKind::Fold);
  if (selects) build.at_end(s.outer);
  for (std::size_t i = 0; i < s.carries.size(); ++i) {
    const Carry& c = s.carries[i];
    const ir::Value then = s.first[i].after, otherwise = c.after;
    if (then == otherwise) continue;  // neither branch changed it
    if (!then || !otherwise) {
      lose(*c.variable, s);
      continue;
    }
    if (!indices.is_same_type(then, otherwise))
      fail(ErrorId::branch_type, s.loc,
           {origin(then, "if true, it"), origin(otherwise, "if false, it")}, type_text(then),
           type_text(otherwise),
           is_of_indices(then, otherwise)
               ? kKeepsIndex
               : "cast or broadcast so that both branches give one type");
    if (selects) {
      set(*c.variable, build.select(kernel[op].operands[0], then, otherwise));
      continue;
    }
    yields[0].push_back(then);
    yields[1].push_back(otherwise);
    const ir::Value result = kernel.add_result(op, kernel.type(then));
    keep_kind(then, result);
    set(*c.variable, result);
  }
  if (selects) {
    flatten_branch(kernel, op);
    kernel.erase(op);
    pop();
    return;
  }
  for (int branch : {0, 1})
    yield(kernel[op].regions[static_cast<std::size_t>(branch)], yields[branch]);
  pop();
}

// ---- folds --------------------------------------------------------------------------------------
std::uint64_t Tracer::open_fold(ir::OpId op) {
  OpenScope& s = push(ScopeKind::Fold);
  s.op = op;
  build.at_end(kernel[op].regions[0]);
  return s.id;
}

void Tracer::close_fold(std::uint64_t id) {
  OpenScope& s = top(id);
  read_after(s);
  for (const Carry& c : s.carries)
    if (c.after != c.before) {
      const char* what = kernel[s.op].opcode == Opcode::ScanWith ? "scan" : "reduce";
      fail(ErrorId::reduce_rebinds, s.loc, {}, what, what);
    }
  pop();
}

// ---- the grid -----------------------------------------------------------------------------------
std::uint64_t Tracer::open_grid(ir::RegionId body) {
  OpenScope& s = push(ScopeKind::Grid);
  s.body = body;
  s.op = kernel[body].last;
  build.at_end(body);
  return s.id;
}

/// Moves a wait for earlier kernels that is at the start of a branch before all reads that the
/// branch depends on, because the earlier kernels may have written those too. A launch of later
/// kernels may precede the wait.
void Tracer::move_wait_in_front(ir::RegionId branch) {
  ir::OpId wait = kernel[branch].first;
  while (wait && (ir::info(kernel[wait].opcode).has(ir::kPure) ||
                  kernel[wait].opcode == Opcode::GridLaunchDependents))
    wait = kernel[wait].next;
  if (!wait || kernel[wait].opcode != Opcode::GridDependencyWait) return;
  for (ir::OpId op : kernel.ops(kernel.body()))
    if (ir::info(kernel[op].opcode).has(ir::kReads)) {
      kernel.unlink(wait);
      return kernel.insert_before(op, wait);
    }
}

bool Tracer::close_grid(std::uint64_t id) {
  close_rests({});
  OpenScope& s = top(id);
  end_recording(s);
  if (!s.second && wants_check()) {
    // An op outside all regions owns the second recording, which is not used afterwards.
    return again(s, kernel.add_region(kernel.make_op(Opcode::If, {}, {}, s.loc)));
  }
  if (s.second) {
    const ir::OpId first = s.op ? kernel[s.op].next : kernel[s.body].first;
    BodyComparison same(kernel);
    compare(s, same, first, kernel[build.region()].first);
    s.carries = s.first;
    for (const Carry& c : s.carries) set(*c.variable, c.after);
  }
  if (s.body != kernel.body()) {
    // Values computed in the branch are not available after it.
    restore(s.carries);
    move_wait_in_front(s.body);
    for (ir::RegionId branch : kernel[kernel[s.body].owner].regions) yield(branch, {});
  }
  pop();
  return false;
}

}  // namespace tegula::dsl
