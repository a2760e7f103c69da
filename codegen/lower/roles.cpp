// Warp specialization: lowers the same machine form once for the consumer warps and once for the
// producer warp. Channels (mbarriers) synchronize the two. Consumers may be two ping-pong
// warpgroups (pingpong.cpp).

#include "codegen/lower/lowering.h"
#include "ir/access.h"

namespace tegula::codegen {

using namespace ir;

Value Lowering::is_producer_thread() {
  if (role_ == Role::Producer) return {};
  return is_first_thread();
}

const ProducerSlice* Lowering::slice() const {
  if (role_ == Role::Producer) return &*producer_slice_;
  return role_ == Role::Skip ? &*carry_slice_ : nullptr;
}

bool Lowering::is_for_another_role(OpId op) const {
  if (role_ == Role::All) return false;
  if (role_ == Role::Consumer)
    return producer_slice_->is_producer_only(op) || from[op].opcode == Opcode::ChannelInit;
  return !slice()->contains(op);
}

std::vector<std::size_t> Lowering::kept(std::span<const Value> results) const {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!slice() || slice()->contains(results[i])) positions.push_back(i);
  return positions;
}

void Lowering::lower_roles() {
  const int producer_warps = context.plan->producer_warps;
  const int computing = groups_ * from.info.threads;
  to.info.threads = computing + 32 * producer_warps;
  std::vector<OpId> channels;
  for (OpId op : from.ops(from.body()))
    if (from[op].opcode == Opcode::ChannelInit) channels.push_back(op);
  init_channels(channels);
  AttrList attrs;
  attrs.set(AttrName::warps, Ints{groups_ * warps(), producer_warps});
  attrs.set(AttrName::names, "consumer,producer");
  const OpId roles =
      b.create(Opcode::Roles, std::span<const Value>(), std::span<const Type>(), attrs);
  lower_role(Role::Consumer, roles);
  lower_role(Role::Producer, roles);
  role_ = Role::All;
}

namespace {

/// Returns true if the kernel loads boxes of pages, of which there are many in a block of keys.
bool copies_pages(const Kernel& k) {
  return any_op(k, k.body(), [&](OpId op) {
    return k[op].opcode == Opcode::CopyTma && access_of(k, k[op]).boxes() > 1;
  });
}

}  // namespace

/// Returns true in the thread that issues copies, in the first producer warp. ptxas does not know
/// that a comparison of thread indices holds in one thread, and issues each copy in a loop over
/// lanes, which takes about 90 cycles: too slow for pages. It knows that elect.sync does.
Value Lowering::issues_copies() {
  const Value tid = b.op(Opcode::Tid, std::initializer_list<Value>{});
  const std::int64_t begin = groups_ * from.info.threads;
  const Value first = b.cmp("eq", tid, b.i32(begin));
  if (!copies_pages(from)) return first;
  if (context.plan->producer_warps > 1)
    b.at_end(to[b.make_if(b.cmp("lt", tid, b.i32(begin + 32)), {})].regions[0]);
  constexpr std::string_view kElect =
      "{ .reg .b32 lane; .reg .pred p; elect.sync lane|p, 0xffffffff; selp.b32 $0, 1, 0, p; }";
  const Value elected = b.op(Opcode::Asm, {b.cast(first, DType::i32)}, Type::scalar(DType::i32),
                             {{AttrName::text, kElect},
                              {AttrName::constraints, "=r"},
                              {AttrName::count, 0},
                              {AttrName::effects, 1}});
  return b.cmp("ne", elected, b.i32(0));
}

/// Prefetches tensor maps, because the first use would wait for them. All maps are known once the
/// loads are lowered.
void Lowering::prefetch_maps(RegionId copies) {
  Builder head(to);
  head.before(to[copies].first);
  for (const Param& p : to.params())
    if (to.type(p.value).is(TypeKind::TensorMap)) head.effect(Opcode::PrefetchTensorMap, {p.value});
}

void Lowering::lower_role(Role role, OpId roles) {
  role_ = role;
  const RegionId outer = b.region();
  b.at_end(to.add_region(roles));
  // The plan divided the registers over all of its consumer warpgroups.
  const bool is_as_planned = groups_ == context.plan->groups();
  if (const int registers = context.plan->consumer_registers; registers != 0 && is_as_planned) {
    const bool computes = role == Role::Consumer;
    b.effect(Opcode::SetMaxNReg, {},
             {{AttrName::mode, computes ? "inc" : "dec"},
              {AttrName::regs,
               Ints{computes ? registers : context.plan->producer_registers(*from.info.target)}}});
  }
  if (role == Role::Producer) {
    const Value first = issues_copies();
    b.at_end(to[b.make_if(first, {})].regions[0]);
  }
  const RegionId copies = b.region();
  lower_body();
  if (role == Role::Producer) prefetch_maps(copies);
  b.at_end(outer);
}

}  // namespace tegula::codegen
