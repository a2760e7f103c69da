#include "ir/passes/absence/cut_pieces.h"

#include "ir/access.h"
#include "ir/analysis/access_width.h"
#include "ir/view_addresses.h"

namespace tegula::ir {

bool has_cut_pieces(const Kernel& k, OpId box) {
  const OpData& d = k[box];
  const BoxAccess a = access_of(k, d);
  return k.type(a.view).view_facts().is_made && !d.attrs.has(AttrName::kind) &&
         contiguous_dim(k, d) >= 0 && a.gathered_dim() < 0 &&
         piece_elements(k, d) > access_elements(k, d);
}

AttrList attrs_by_address(const Kernel& k, OpId box) {
  AttrList attrs = k[box].attrs;
  for (AttrName name : {AttrName::axes, AttrName::in_bounds, AttrName::offset_divisibility})
    attrs.erase(name);
  if (!has_cut_pieces(k, box)) return attrs;
  const std::int64_t size = size_bytes(k.type(accessed_view(k[box])).dtype());
  attrs.set(AttrName::align, piece_elements(k, k[box]) * size);
  attrs.set(AttrName::axis, std::int64_t{contiguous_dim(k, k[box])});
  return attrs;
}

Value load_in_pieces(Kernel& k, OpId load) {
  Builder b(k, load);
  const BoxAccess a = access_of(k, k[load]);
  const AttrList attrs = attrs_by_address(k, load);
  const ViewAddresses addresses = box_addresses(b, a);
  const Value operands[] = {addresses.pointers, addresses.inside,
                            b.zero(Type::scalar(a.tile.dtype()))};
  return k[b.create(Opcode::Load, operands, attrs)].results[0];
}

}  // namespace tegula::ir
