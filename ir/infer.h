#pragma once
// Result types of the ops, from operands and attributes. One function per rule; ops.def names them.
#include "ir/op.h"

namespace tegula::ir {

/// Returns the result of a rule for an op with one result.
inline Inferred one_result(Type t) { return {{t}, ""}; }

Inferred infer_none(const InferArgs&);
Inferred infer_same(const InferArgs&);
Inferred infer_tied(const InferArgs&);
Inferred infer_float(const InferArgs&);
Inferred infer_with_gradient(const InferArgs&);
Inferred infer_cmp(const InferArgs&);
Inferred infer_select(const InferArgs&);
Inferred infer_addptr(const InferArgs&);
Inferred infer_i1(const InferArgs&);
Inferred infer_i32(const InferArgs&);
Inferred infer_arrival(const InferArgs&);
Inferred infer_cas(const InferArgs&);
Inferred infer_wait(const InferArgs&);
Inferred infer_i64(const InferArgs&);
Inferred infer_for(const InferArgs&);
Inferred infer_while(const InferArgs&);
Inferred infer_view_ptr(const InferArgs&);
Inferred infer_expand_dims(const InferArgs&);
Inferred infer_permute(const InferArgs&);
Inferred infer_load(const InferArgs&);
Inferred infer_atomic(const InferArgs&);
Inferred infer_reduce(const InferArgs&);
Inferred infer_arg_reduce(const InferArgs&);
Inferred infer_reduce_with(const InferArgs&);
Inferred infer_scan_with(const InferArgs&);
Inferred infer_sort(const InferArgs&);
Inferred infer_key_ranks(const InferArgs&);
Inferred infer_dot(const InferArgs&);
Inferred infer_tile_concat(const InferArgs&);
Inferred infer_gather(const InferArgs&);
Inferred infer_scatter(const InferArgs&);
Inferred infer_concat(const InferArgs&);
Inferred infer_regs(const InferArgs&);
Inferred infer_shfl(const InferArgs&);
Inferred infer_vote(const InferArgs&);
Inferred infer_atom_global(const InferArgs&);
Inferred infer_ldmatrix(const InferArgs&);
Inferred infer_mma(const InferArgs&);
Inferred infer_wgmma(const InferArgs&);

}  // namespace tegula::ir
