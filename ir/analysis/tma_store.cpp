#include "ir/analysis/tma_store.h"

#include <algorithm>

#include "ir/access.h"
#include "ir/analysis/index_facts.h"
#include "ir/analysis/memory_hazards.h"
#include "ir/analysis/tma_access.h"
#include "ir/loop.h"

namespace tegula::ir {
namespace {

/// Accumulator registers form vectors of two elements; narrower elements would need byte stores.
bool has_staged_size(DType dtype) { return size_bytes(dtype) == 2 || size_bytes(dtype) == 4; }

/// Returns true if `cp.reduce.async.bulk` supports the operation of a store (PTX ISA,
/// 9.7.9.25.5.3).
bool is_combined_by_tma(std::string_view kind, DType dtype) {
  if (kind.empty()) return true;
  const bool is_16_bit_float = dtype == DType::f16 || dtype == DType::bf16,
             is_32_bit_integer = dtype == DType::i32 || dtype == DType::u32;
  return is_16_bit_float || is_32_bit_integer || (kind == "add" && dtype == DType::f32);
}

/// Collects the bounds whose minimum is `limit`; returns false if one is not known at launch.
bool collect(const Kernel& k, Value limit, std::int64_t dim, std::vector<TensorMapBound>& clips) {
  const OpId def = k[limit].def;
  if (!def) return false;
  const OpData& d = k[def];
  if (d.opcode == Opcode::Min)
    return collect(k, d.operands[0], dim, clips) && collect(k, d.operands[1], dim, clips);
  if (d.opcode == Opcode::Const) {
    clips.push_back({dim, -1, d.attrs.i(AttrName::value)});
    return true;
  }
  if (d.opcode != Opcode::ViewDim) return false;
  const auto& params = k.params();
  const auto view = std::ranges::find(params, d.operands[0], &Param::value);
  if (view == params.end()) return false;
  clips.push_back({dim, view - params.begin(), d.attrs.i(AttrName::axis)});
  return true;
}

bool is_extent_of(const Kernel& k, const TensorMapBound& clip, Value view) {
  const auto dim = static_cast<std::size_t>(clip.dim);
  if (clip.arg < 0) return k.type(view).shape()[dim] == clip.value;
  return clip.value == clip.dim && k.params()[static_cast<std::size_t>(clip.arg)].value == view;
}

/// TMA writes whole 16-byte chunks of a row, and the last chunk may extend past its end (observed
/// on an H200).
constexpr std::int64_t kPieceBytes = 16;

bool rows_end_with_a_piece(const Kernel& k, const BoxAccess& a,
                           const std::vector<TensorMapBound>& clips) {
  const std::int64_t inner = a.along[1], size = size_bytes(a.tile.dtype());
  const auto has_whole_pieces = [&](Value view, std::int64_t dim) {
    return extent_divisor(k.type(view), static_cast<std::size_t>(dim)) * size % kPieceBytes == 0;
  };
  const auto ends = [&](const TensorMapBound& c) {
    if (c.dim != inner) return true;
    if (c.arg < 0) return c.value * size % kPieceBytes == 0;
    return has_whole_pieces(k.params()[static_cast<std::size_t>(c.arg)].value, c.value);
  };
  return has_whole_pieces(a.view, inner) && std::ranges::all_of(clips, ends);
}

/// Returns true if the kernel signals its results to others or reads them again. Neither orders TMA
/// writes.
bool may_be_read_again(const Kernel& k, Value view) {
  if (first_announcement(k)) return true;
  int uses = 0;
  walk(k, k.body(), [&](OpId op) {
    const OpData& d = k[op];
    if (!d.is(Opcode::ViewDim, Opcode::ViewStride))
      uses += static_cast<int>(std::ranges::count(d.operands, view));
  });
  return uses > 1;
}

/// Returns true if a later iteration of a loop may store the same elements, because TMA stores are
/// not ordered. Stores that combine with memory may run in any order.
bool may_be_stored_again(const Kernel& k, const OpData& store) {
  if (store.attrs.find(AttrName::kind) != nullptr) return false;
  MemoryHazards hazards(k);
  OpId op = k[store.parent].first;
  while (&k[op] != &store) op = k[op].next;
  const MemoryAccess& box = *hazards.access(op);
  for (OpId enclosing = k[store.parent].owner; enclosing;
       enclosing = k[k[enclosing].parent].owner) {
    const bool loops = is_loop(k[enclosing]);
    if (loops && !has_independent_iterations(k, enclosing) && !hazards.moves_with(box, enclosing))
      return true;
  }
  return false;
}

/// Returns true for memory that other arguments may share. Their accesses are not ordered with TMA
/// stores.
bool is_shared_by_call(const Kernel& k, Value view) {
  return std::ranges::any_of(k.params(), [&](const Param& p) {
    return p.value == view && p.attrs.s(AttrName::kind) == kMayAlias;
  });
}

}  // namespace

std::optional<std::vector<TensorMapBound>> clips_of(const Kernel& k, const OpData& store) {
  std::vector<TensorMapBound> clips;
  const BoxAccess a = access_of(k, store);
  for (std::size_t v = 0; v < a.axes.size() && a.has_limits(); ++v)
    if (!collect(k, a.axes[v].limit, static_cast<std::int64_t>(v), clips)) return std::nullopt;
  std::erase_if(clips, [&](const TensorMapBound& clip) { return is_extent_of(k, clip, a.view); });
  return clips;
}

OpId first_announcement(const Kernel& k) {
  OpId found;
  any_op(k, k.body(), [&](OpId op) {
    const OpData& d = k[op];
    using enum Opcode;
    const bool signals =
        d.is(ArriveAndTestLast, AtomicRmw, AtomicCas, AtomicStore, GridBarrier, CtaBarrier);
    // Results are two-dimensional tiles; a store that combines other tiles is a counter or a
    // signal.
    const bool counts =
        d.opcode == StoreView && d.attrs.has(AttrName::kind) && access_of(k, d).tile.rank() != 2;
    if (signals || counts) found = op;
    return signals || counts;
  });
  return found;
}

std::string_view why_not_tma_store(const Kernel& k, const OpData& store) {
  const BoxAccess a = access_of(k, store);
  const Type view = k.type(a.view);
  if (!a.tile.is_tile() || a.tile.rank() != 2 || a.along.size() != 2)
    return "not a tile of two dimensions";
  if (view.view_facts().is_made) return "a view that the kernel makes, which has no tensor map";
  if (a.gathered_dim() >= 0) return "rows that an index tile scatters";
  if (!has_staged_size(a.tile.dtype())) return "elements of neither 16 nor 32 bits";
  if (!is_combined_by_tma(store.attrs.s(AttrName::kind), a.tile.dtype()))
    return "an operation that TMA does not have for this type";
  if (view.view_facts().strides[static_cast<std::size_t>(a.along[1])] != 1 ||
      !is_tma_loadable(view, a.along, a.tile))
    return "rows that are not contiguous, or a base or strides that are not multiples of 16 bytes";
  const auto clips = clips_of(k, store);
  if (!clips) return "limits that are not known at the launch";
  if (!rows_end_with_a_piece(k, a, *clips)) return "rows that may end within 16 bytes";
  if (may_be_read_again(k, a.view)) return "results that may be read, or announced, in the kernel";
  if (is_shared_by_call(k, a.view)) return "memory that other arguments may share";
  if (may_be_stored_again(k, store)) return "results that a later step may store again";
  return {};
}

}  // namespace tegula::ir
