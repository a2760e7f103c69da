// Driver of the lowering to simt form: parameters, structure, elementwise ops and the services of
// lowering.h.
#include "codegen/lower/lowering.h"

#include <fmt/format.h>

#include <unordered_set>

#include <algorithm>
#include <array>

#include "codegen/lower/lower_simt.h"
#include "codegen/lower/tma.h"
#include "ir/analysis/loop_end.h"
#include "ir/layout/linear_layout.h"
#include "ir/loop.h"
#include "tegula/error.h"
#include "tegula/int_math.h"

namespace tegula::codegen {
namespace {

using namespace ir;

/// One entry per op; null if the driver handles the whole family.
constexpr std::array kLower{
#define ROW(Name, ...) LowerFn{nullptr},
#define TILE_OP(Name, ...) LowerFn{&lower_##Name},
#define MACHINE_OP(Name, ...) LowerFn{&lower_##Name},
#include "ir/op_rows.h"
};

}  // namespace

const LinearLayout& layout_of(Type tile) {
  if (!tile.is_tile() || !tile.layout())
    throw InternalError(fmt::format("{} has no layout", tile.str()));
  return *tile.layout();
}

Lowering::Lowering(const Kernel& machine, PassContext& ctx)
    : from(machine), context(ctx), to(machine.info.name, Form::Simt), b(to) {
  to.info = machine.info;
  to.info.form = Form::Simt;
  scratch_offset_ = (machine.info.smem_bytes + 127) / 128 * 128;
  scratch_end_ = machine.info.smem_bytes;
}

void Lowering::reserve_store_staging() {
  staging_ = StoreStaging::of(from, context.planned.schedule.get(), groups_, scratch_offset_);
  if (!staging_) return;
  scratch_offset_ = scratch_end_ = staging_->end();
  to.info.shared_uses.push_back(staging_->use(from));
}

Kernel Lowering::run() {
  add_params();
  if (context.plan && context.plan->producer_warps > 0) producer_slice_ = ProducerSlice::of(from);
  find_groups();
  reserve_store_staging();
  reserve_toeplitz();
  find_live_ranges();
  if (producer_slice_)
    lower_roles();
  else
    lower_body();
  set_group_scratch_stride();
  to.info.smem_bytes = scratch_end_;
  if (most_scratch_.bytes > 0) to.info.shared_uses.push_back(most_scratch_);
  return std::move(to);
}

// ---- parameters
/// Unread parameters are not passed; sub-views are created at their uses.
void Lowering::add_params() {
  std::unordered_set<Value> read;
  walk(from, from.body(),
       [&](OpId op) { read.insert(from[op].operands.begin(), from[op].operands.end()); });
  int arg = 0;
  for (const Param& p : from.params()) {
    params_[p.value] = &p;
    const Type t = from.type(p.value);
    if (t.is_view()) {
      views_[p.value] = {Value(), std::vector<Value>(t.shape().size()),
                         std::vector<Value>(t.shape().size())};
    } else if (read.contains(p.value)) {
      AttrList attrs = p.attrs;
      attrs.set(AttrName::arg, std::int64_t{arg});
      attrs.set(AttrName::component, t.is(TypeKind::TensorMap)                     ? "map"
                                     : p.attrs.s(AttrName::component) == "counter" ? "counter"
                                     : t.is_pointer()                              ? "ptr"
                                                                                   : "value");
      set(p.value, to.add_param(p.name, t, attrs));
    }
    ++arg;
  }
}

Value Lowering::view_part(Value machine_view, const char* part, int axis, Type type,
                          const std::string& suffix) {
  const Param& p = *params_.at(machine_view);
  AttrList attrs;
  attrs.set(AttrName::arg, static_cast<std::int64_t>(&p - from.params().data()));
  attrs.set(AttrName::component, part);
  if (axis >= 0) attrs.set(AttrName::axis, std::int64_t{axis});
  if (axis < 0) attrs.set(AttrName::divisibility, from.type(machine_view).view_facts().align);
  return to.add_param(p.name + suffix, type, attrs);
}

Value Lowering::view_pointer(Value machine_view) {
  Value& v = view(machine_view).pointer;
  if (!v)
    v = view_part(machine_view, "ptr", -1, Type::pointer(from.type(machine_view).dtype()), "");
  return v;
}

Value Lowering::view_dim(Value machine_view, int axis, DType dtype) {
  const std::int64_t known = from.type(machine_view).shape()[static_cast<std::size_t>(axis)];
  if (known != kDynamic) return b.constant(Type::scalar(dtype), known);
  Value& v = view(machine_view).dims[static_cast<std::size_t>(axis)];
  if (!v) v = view_part(machine_view, "dim", axis, Type::scalar(dtype), fmt::format("_d{}", axis));
  return b.cast(v, dtype);
}

Value Lowering::view_stride(Value machine_view, int axis, DType dtype) {
  const std::int64_t known =
      from.type(machine_view).view_facts().strides[static_cast<std::size_t>(axis)];
  if (known != kDynamic) return b.constant(Type::scalar(dtype), known);
  Value& v = view(machine_view).strides[static_cast<std::size_t>(axis)];
  if (!v)
    v = view_part(machine_view, "stride", axis, Type::scalar(dtype), fmt::format("_s{}", axis));
  return b.cast(v, dtype);
}

// ---- values
Type Lowering::lowered_type(Type t) {
  if (t.is(TypeKind::Pending)) return Type::pending(lowered_type(t.inner()));
  return t.is_tile() ? Type::vec(t.elem(), layout_of(t).registers()) : t;
}

Value Lowering::regs(Value v, std::vector<std::int64_t> indices) {
  const std::int64_t count = type(v).count();
  bool identity = type(v).is_vec() && count == static_cast<std::int64_t>(indices.size());
  for (std::size_t i = 0; identity && i < indices.size(); ++i)
    identity = indices[i] == static_cast<std::int64_t>(i);
  if (identity) return v;
  const Value picked = b.op(Opcode::Regs, {v}, {{AttrName::indices, std::move(indices)}});
  return as_vec(picked);
}

Value Lowering::regs(Value v, std::span<const int> indices) {
  return regs(v, std::vector<std::int64_t>(indices.begin(), indices.end()));
}

Value Lowering::as_vec(Value v) { return type(v).is_vec() ? v : b.op(Opcode::Concat, {v}); }

Value Lowering::concat(std::span<const Value> parts) {
  if (parts.size() == 1) return as_vec(parts.front());
  return b.op(Opcode::Concat, parts);
}

Value Lowering::constants(DType dtype, std::span<const std::int64_t> values) {
  if (std::ranges::all_of(values, [&](std::int64_t v) { return v == values.front(); }))
    return b.constant(Type::vec({dtype, false}, static_cast<std::int64_t>(values.size())),
                      values.front());
  std::map<std::int64_t, Value> made;
  std::vector<Value> parts;
  for (std::int64_t v : values) {
    Value& c = made[v];
    if (!c) c = b.constant(Type::scalar(dtype), v);
    parts.push_back(c);
  }
  return b.op(Opcode::Concat, parts);
}

Value Lowering::splat(Value scalar, std::int64_t count) {
  return as_vec(b.op(Opcode::Regs, {scalar},
                     {{AttrName::indices, Ints(static_cast<std::size_t>(count), 0)}}));
}

Value Lowering::and_predicates(Value a, Value other) {
  if (!a) return other;
  if (!other) return a;
  return b.op(Opcode::And, {a, other});
}

// ---- structure
void Lowering::lower_region(RegionId machine_region) {
  for (OpId op : from.ops(machine_region)) lower_op(op);
}

void Lowering::lower_body() {
  lower_region(from.body());
  if (staging_ && role_ != Role::Producer) await_tma_stores(*this);
  wait_for_cluster_reads();
  // Channels must stay valid while other CTAs may signal them. Producer warps have exited by then,
  // or count as arrived once they exit.
  if (is_signalled_by_cluster_ && role_ != Role::Producer) cluster_barrier();
}

void Lowering::lower_op(OpId op) {
  if (is_for_another_role(op)) return;
  b.loc = from[op].loc;
  now_ = order_.at(op);
  if (toeplitz_->is_within(op)) return;
  if (const WarpToeplitz* here = toeplitz_->at(op)) return lower_toeplitz(op, *here);
  // Wait here, where all threads arrive; inside a branch some may be missing.
  if (!from[op].regions.empty()) wait_for_cluster_reads();
  const Opcode opcode = from[op].opcode;
  if (const LowerFn fn = kLower[static_cast<std::size_t>(opcode)]) return fn(*this, op);
  const OpInfo& row = ir::info(opcode);
  if (row.family == Family::Math)
    throw InternalError(fmt::format("{} should have been expanded before lowering", row.mnemonic));
  if (row.family == Family::Elementwise) return lower_elementwise(op);
  if (opcode == Opcode::For) return is_pingpong(op) ? lower_pingpong(op) : lower_for(op);
  if (opcode == Opcode::Yield) return lower_yield(op);
  if (opcode == Opcode::While) return lower_while(op);
  if (opcode == Opcode::If) return lower_if(op);
  lower_other_structure(op);
}

void Lowering::lower_elementwise(OpId op) {
  const OpData& d = from[op];
  if (const Value loaded = chunked_load_add(op)) return add_by_parts(op, loaded);
  if (const auto ramp = ramp_of(from, d.results[0]))
    return set(d.results[0], lower_ramp(from.type(d.results[0]), *ramp));
  std::vector<Value> operands;
  for (Value v : d.operands) operands.push_back(get(v));
  const Type result = lowered_type(from.type(d.results[0]));
  if (d.attrs.i(AttrName::skip_if_one) == 1)
    return set(d.results[0], lower_rescaling(op, operands[0], operands[1]));
  if (d.opcode == Opcode::Div)
    if (const auto q = lower_shared_division(op, operands[0], operands[1]))
      return set(d.results[0], *q);
  const OpId made = b.create(d.opcode, operands, std::span(&result, 1), d.attrs);
  set(d.results[0], to[made].results[0]);
}

/// Lowers a ramp to one fma per register, plus one for the thread's first value: the indices of a
/// thread's registers differ by constants.
Value Lowering::lower_ramp(Type type, const Ramp& ramp) {
  const IndexParts parts = index_parts(layout_of(type), 0);
  const Value step = get(ramp.step), first = get(ramp.first);
  const Value begin =
      parts.thread ? b.op(Opcode::Fma, {b.cast(parts.thread, type.dtype()), step, first}) : first;
  return b.op(Opcode::Fma, {constants(type.dtype(), parts.constant), step, begin});
}

/// Lowers constants, yields, pins, roles and expert ops to the same op on lowered values.
void Lowering::lower_other_structure(OpId op) {
  const OpData& d = from[op];
  std::vector<Value> operands;
  for (Value v : d.operands) operands.push_back(get(v));
  std::vector<Type> types;
  for (Value v : d.results) types.push_back(lowered_type(from.type(v)));
  const OpId made = b.create(d.opcode, operands, types, d.attrs);
  for (std::size_t i = 0; i < d.results.size(); ++i) set(d.results[i], to[made].results[i]);
  for (RegionId r : d.regions) in_region(to.add_region(made), [&] { lower_region(r); });
}

namespace {

/// Returns the type in which a loop carries registers: 16-bit registers are carried in pairs,
/// because each iteration would otherwise unpack and pack them.
Type carried_type(Type t) {
  const bool halves = t.is_vec() && !t.is_pointer() && size_bits(t.dtype()) == 16;
  return halves && t.count() % 2 == 0 ? Type::vec({DType::i32, false}, t.count() / 2) : t;
}

}  // namespace

Value Lowering::as_type(Value v, Type wanted) {
  return type(v) == wanted ? v : b.op(Opcode::Repack, {v}, wanted);
}

void Lowering::lower_yield(OpId op) {
  const OpId owner = from[from[op].parent].owner;
  const bool loops = owner && from[owner].opcode == Opcode::For;
  std::vector<Value> operands;
  const auto yield = [&](Value machine_value) {
    const Value v = get(machine_value);
    operands.push_back(loops ? as_type(v, carried_type(type(v))) : v);
  };
  // A while's first region yields its condition.
  const bool is_condition =
      owner && from[owner].opcode == Opcode::While && from[op].parent == from[owner].regions[0];
  if (owner && !is_condition)
    for (std::size_t i : kept(from[owner].results)) yield(from[op].operands[i]);
  else
    std::ranges::for_each(from[op].operands, yield);
  b.yield(operands);
}

/// Returns true if the index may wrap around after the last iteration. Such a loop counts its
/// iterations; other loops compare their index with the end.
bool Lowering::counts_iterations(OpId loop) {
  if (!facts_) facts_.emplace(from);
  return may_pass_indices(*facts_, from, loop);
}

void Lowering::lower_for(OpId op) {
  const OpData& d = from[op];
  const std::vector<std::size_t> carries = kept(d.results);
  std::vector<Value> inits;
  for (std::size_t i : carries) {
    const Value init = get(loop_inits(d)[i]);
    inits.push_back(as_type(init, carried_type(type(init))));
  }
  const Value lo = get(d.operands[0]), hi = get(d.operands[1]), step = get(d.operands[2]);
  const bool counts = counts_iterations(op);
  const OpId loop = counts ? b.make_for(b.i32(0), trip_count(b, lo, hi, step), b.i32(1), inits)
                           : b.make_for(lo, hi, step, inits);
  to[loop].attrs = d.attrs;
  const RegionId body = to[loop].regions[0], machine_body = d.regions[0];
  const RegionId outer = b.region();
  b.at_end(body);
  const auto bind = [&](Value machine_value, Value carried) {
    set(machine_value, as_type(carried, lowered_type(from.type(machine_value))));
  };
  const Value number = to[body].args[0], index = counts ? b.add(lo, b.mul(number, step)) : number;
  bind(from[machine_body].args[0], index);
  for (std::size_t n = 0; n < carries.size(); ++n)
    bind(body_carries(from, op)[carries[n]], body_carries(to, loop)[n]);
  if (is_pingpong(op))
    lower_own_tile(op, index);
  else
    lower_region(machine_body);
  if (!to.terminator(body)) b.yield({});
  b.at_end(outer);
  for (std::size_t n = 0; n < carries.size(); ++n) bind(d.results[carries[n]], to[loop].results[n]);
}

void Lowering::lower_while(OpId op) {
  const OpData& d = from[op];
  const std::vector<std::size_t> carries = kept(d.results);
  std::vector<Value> inits;
  for (std::size_t i : carries) inits.push_back(get(d.operands[i]));
  const OpId loop = b.make_while(inits);
  to[loop].attrs = d.attrs;
  for (std::size_t r = 0; r < d.regions.size(); ++r) {
    const RegionId region = to[loop].regions[r];
    for (std::size_t n = 0; n < carries.size(); ++n)
      set(from[d.regions[r]].args[carries[n]], to[region].args[n]);
    in_region(region, [&] { lower_region(d.regions[r]); });
  }
  for (std::size_t n = 0; n < carries.size(); ++n) set(d.results[carries[n]], to[loop].results[n]);
}

void Lowering::lower_if(OpId op) {
  const OpData& d = from[op];
  const std::vector<std::size_t> results = kept(d.results);
  std::vector<Type> types;
  for (std::size_t i : results) types.push_back(lowered_type(from.type(d.results[i])));
  const OpId made = branch(
      get(d.operands[0]), types, [&] { lower_region(d.regions[0]); },
      [&] { lower_region(d.regions[1]); });
  for (std::size_t n = 0; n < results.size(); ++n) set(d.results[results[n]], to[made].results[n]);
}

std::vector<Value> Lowering::inline_scalar_region(RegionId region, std::span<const Value> args) {
  for (std::size_t i = 0; i < args.size(); ++i) set(from[region].args[i], args[i]);
  std::vector<Value> yielded;
  for (OpId op : from.ops(region)) {
    const OpData& d = from[op];
    if (d.opcode == Opcode::Yield) {
      for (Value v : d.operands) yielded.push_back(get(v));
      break;
    }
    // Scalars of the region become vectors of registers, so types are inferred again from the
    // operands.
    std::vector<Value> operands;
    std::int64_t count = 0;
    for (Value v : d.operands) {
      operands.push_back(get(v));
      if (type(operands.back()).is_vec()) count = type(operands.back()).count();
    }
    const Elem elem = from.type(d.results[0]).elem();
    const Type result = count == 0 ? Type::of(elem) : Type::vec(elem, count);
    const OpId made = b.create(d.opcode, operands, std::span(&result, 1), d.attrs);
    set(d.results[0], to[made].results[0]);
  }
  return yielded;
}

// ---- the thread
Value Lowering::coordinate(HwDim in) {
  Value& v = coordinates_[in];
  if (v) return v;
  // Created at the start of the body, so that it dominates every region.
  Builder head(to);
  if (const OpId first = to[to.body()].first) head.before(first);
  v = head.op(in == HwDim::Lane ? Opcode::LaneId : Opcode::WarpId, std::initializer_list<Value>{});
  if (in == HwDim::Warp && groups_ > 1) v = head.op(Opcode::And, {v, head.i32(warps() - 1)});
  return v;
}

Value Lowering::thread_value(const ThreadOffset& fn) {
  Value sum;
  const auto accumulate = [&](Value term, bool exclusive) {
    sum = !sum ? term : b.op(exclusive ? Opcode::Xor : Opcode::Add, {sum, term});
  };
  const bool exclusive = !fn.is_disjoint();
  for (const ThreadOffset::Shift& s : fn.shifts()) {
    Value v = b.op(Opcode::And, {coordinate(s.in), b.i32(s.mask)});
    if (s.shift > 0) v = b.op(Opcode::Shl, {v, b.i32(s.shift)});
    if (s.shift < 0) v = b.op(Opcode::Shr, {v, b.i32(-s.shift)});
    accumulate(v, exclusive);
  }
  for (const ThreadOffset::Multiple& m : fn.multiples()) {
    Value v = b.op(Opcode::And, {coordinate(m.in), b.i32(m.mask)});
    v = b.op(Opcode::Shr, {v, b.i32(std::countr_zero(m.mask))});
    accumulate(b.mul(v, b.i32(m.factor)), false);
  }
  for (const ThreadDigit& d : fn.digits) {
    Value v = b.rem(b.div(coordinate(d.in), b.i32(d.divisor)), b.i32(d.count));
    accumulate(b.mul(v, b.i32(d.stride)), false);
  }
  return sum;
}

IndexParts Lowering::index_parts(const LinearLayout& layout, int dim) {
  const IndexFn fn = index_fn(layout, dim);
  if (!fn.is_additive)
    throw InternalError("layout " + layout.str() + ": index is not thread + constant");
  IndexParts parts{thread_value(fn.thread), {}};
  for (int r = 0; r < layout.registers(); ++r) parts.constant.push_back(fn.constant(r));
  return parts;
}

Value Lowering::is_replica_zero_along(const LinearLayout& layout, HwDim in) {
  Value all;
  for (const ThreadDigit& d : digits_along(layout, in, Repeat::kNoDim)) {
    const Value digit = b.rem(b.div(coordinate(in), b.i32(d.divisor)), b.i32(d.count));
    all = and_predicates(all, b.cmp("eq", digit, b.i32(0)));
  }
  return all;
}

Value Lowering::is_replica_zero(const LinearLayout& layout) {
  Value all;
  for (HwDim in : {HwDim::Lane, HwDim::Warp}) {
    std::uint32_t bits = layout.free_bits(in);
    const int present = layout.in_bits(in);
    const int machine_bits =
        in == HwDim::Lane ? 5 : std::bit_width(static_cast<unsigned>(std::max(1, warps() - 1)));
    for (int i = present; i < machine_bits && layout.repeats().empty(); ++i) bits |= 1u << i;
    all = and_predicates(all, is_replica_zero_along(layout, in));
    if (bits == 0) continue;
    const Value v = b.op(Opcode::And, {coordinate(in), b.i32(bits)});
    all = and_predicates(all, b.cmp("eq", v, b.i32(0)));
  }
  return all;
}

bool Lowering::is_sliced_load(Value machine_value) {
  if (sliced_only_.empty()) {
    // Computed once for all shared loads of the kernel.
    walk(from, from.body(), [&](OpId op) {
      if (from[op].opcode == Opcode::SmemLoad) sliced_only_[from[op].results[0]] = true;
    });
    walk(from, from.body(), [&](OpId op) {
      for (Value v : from[op].operands)
        if (const auto it = sliced_only_.find(v);
            it != sliced_only_.end() && from[op].opcode != Opcode::TileSlice)
          it->second = false;
    });
  }
  const auto it = sliced_only_.find(machine_value);
  return it != sliced_only_.end() && it->second;
}

// ---- shared memory
Value Lowering::shared_address(std::int64_t offset) {
  if (!smem_base_) {
    Builder head(to);
    if (const OpId first = to[to.body()].first) head.before(first);
    smem_base_ = head.op(Opcode::SmemBase, std::initializer_list<Value>{});
  }
  return offset == 0 ? smem_base_ : b.add(smem_base_, b.i32(offset));
}

void Lowering::find_live_ranges() {
  std::unordered_map<Value, std::size_t> ring_of;
  int next = 0;
  const auto visit = [&](const auto& self, RegionId region) -> void {
    for (OpId op : from.ops(region)) {
      order_[op] = next++;
      const OpData& d = from[op];
      // Memory of type i64 (mbarriers and published words) stays live and is never reused.
      if (d.opcode == Opcode::SmemAlloc && from.type(d.results[0]).dtype() != DType::i64) {
        ring_of[d.results[0]] = rings_.size();
        // A producer warp may fill a ring at any time before its last use.
        const int first = producer_slice_ ? -1 : order_[op];
        rings_.push_back({first, order_[op], d.attrs.i(AttrName::offset), false});
      }
      for (RegionId r : d.regions) self(self, r);
    }
  };
  visit(visit, from.body());
  // A ring allocated in a loop is written again in the next iteration, by the first warp that
  // reaches it.
  const auto outside_of_loops = [&](RegionId home) {
    RegionId outermost = home;
    for (OpId o = from[home].owner; o; o = from[from[o].parent].owner)
      if (is_loop(from[o])) outermost = from[o].parent;
    return outermost;
  };
  // A use inside a loop keeps the allocation live to the end of the loop.
  walk(from, from.body(), [&](OpId op) {
    for (Value v : from[op].operands)
      if (const auto ring = ring_of.find(v); ring != ring_of.end()) {
        const RegionId home = outside_of_loops(from[from[v].def].parent);
        OpId top = op;
        while (from[top].parent != home) top = from[from[top].parent].owner;
        auto& [first, last, offset, after_barrier] = rings_[ring->second];
        after_barrier |= from[op].opcode == Opcode::CopyTma;
        last = std::max(last, from[top].next ? order_.at(from[top].next) - 1 : next);
      }
  });
}

bool Lowering::has_live_ring() const {
  return std::ranges::any_of(rings_, [&](const LiveRange& r) {
    return (r.first < now_ || !r.after_barrier) && now_ <= r.last;
  });
}

Value Lowering::scratch(std::int64_t bytes, std::int64_t alignment) {
  wait_for_cluster_reads();
  if (bytes * groups_ > most_scratch_.bytes)
    most_scratch_ = {b.loc, "the exchange between threads here", bytes * groups_};
  if (groups_ > 1) return group_scratch(bytes);
  std::int64_t from_here = scratch_offset_;
  // Staging and Toeplitz memory follows the rings; TMA or other warps may still be reading it.
  if (!has_live_ring() && !staging_ && toeplitz_offset_ < 0)
    for (const LiveRange& r : rings_) from_here = std::min(from_here, r.offset);
  const std::int64_t begin = round_up(from_here, alignment);
  scratch_end_ = std::max(scratch_end_, begin + bytes);
  return shared_address(begin);
}

void Lowering::barrier() {
  if (groups_ > 1 && role_ == Role::Consumer) return warpgroup_barrier();
  // Barrier 0 synchronizes the whole CTA.
  const int id = role_ == Role::Consumer ? 1 : 0;
  const int threads = role_ == Role::All ? to.info.threads : from.info.threads;
  b.effect(Opcode::BarSync, {b.i32(id)}, {{AttrName::count, threads}});
}

namespace {

/// Makes the reported plan match the generated code. pipeline_wgmma has already reported why the
/// chosen plan was not carried out.
void report_executed_plan(const Kernel& simt, PassContext& context) {
  const bool has_wgmma =
      any_op(simt, simt.body(), [&](OpId op) { return simt[op].opcode == Opcode::Wgmma; });
  if (!context.plan || !context.plan->wgmma || has_wgmma) return;
  context.plan->wgmma = false;
  for (Remark& r : context.remarks)
    for (auto& [field, value] : r.values)
      if (r.pass == "plan" && field == "plan") value = context.plan->str();
}

}  // namespace

bool lower_simt(Kernel& kernel, PassContext& context) {
  kernel = Lowering(kernel, context).run();
  report_executed_plan(kernel, context);
  return true;
}

}  // namespace tegula::codegen
