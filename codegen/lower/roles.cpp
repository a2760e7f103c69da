// Roles: the warps that compute, and one that copies. Both are lowered from the same machine form,
// which says what happens in order; channels keep the order between them. Those that compute may be
// groups that take tiles in turn (groups.cpp).
#include <algorithm>

#include "codegen/lower/lowering.h"

namespace tegula::codegen {

using namespace ir;

Value Lowering::is_leader() {
  if (role_ == Role::Copy) return {};
  return is_first_thread();
}

const CopySlice* Lowering::slice() const {
  if (role_ == Role::Copy) return &*copying_;
  return role_ == Role::Skip ? &*skipping_ : nullptr;
}

bool Lowering::is_for_another_role(OpId op) const {
  if (role_ == Role::Everything) return false;
  if (role_ == Role::Compute)
    return copying_->is_leaders(op) || from[op].opcode == Opcode::ChannelInit;
  return !slice()->contains(op);
}

std::vector<std::size_t> Lowering::kept(std::span<const Value> results) const {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!slice() || slice()->contains(results[i])) positions.push_back(i);
  return positions;
}

void Lowering::lower_roles() {
  const int copy_warps = context.plan->copy_warps;
  const int computing = groups_ * from.info.threads;
  to.info.threads = computing + 32 * copy_warps;
  std::vector<OpId> channels;
  for (OpId op : from.ops(from.body()))
    if (from[op].opcode == Opcode::ChannelInit) channels.push_back(op);
  init_channels(channels);
  AttrList attrs;
  attrs.set(AttrName::warps, Ints{groups_ * warps(), copy_warps});
  attrs.set(AttrName::names, "compute,copy");
  const OpId roles =
      b.create(Opcode::Roles, std::span<const Value>(), std::span<const Type>(), attrs);
  lower_role(Role::Compute, roles);
  lower_role(Role::Copy, roles);
  role_ = Role::Everything;
}

/// A map's first use would wait for it. Those of all copies are known once these are lowered.
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
  // They were dealt for all groups.
  const bool is_as_planned = groups_ == context.plan->groups();
  if (const int registers = context.plan->registers; registers != 0 && is_as_planned) {
    const bool computes = role == Role::Compute;
    b.effect(Opcode::SetMaxNReg, {},
             {{AttrName::mode, computes ? "inc" : "dec"},
              {AttrName::regs,
               Ints{computes ? registers : context.plan->copy_registers(*from.info.target)}}});
  }
  if (role == Role::Copy) {
    const Value first = b.cmp("eq", b.op(Opcode::Tid, std::initializer_list<Value>{}),
                              b.i32(groups_ * from.info.threads));
    b.at_end(to[b.make_if(first, {})].regions[0]);
  }
  const RegionId copies = b.region();
  lower_body();
  if (role == Role::Copy) prefetch_maps(copies);
  b.at_end(outer);
}

}  // namespace tegula::codegen
