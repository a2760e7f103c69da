#pragma once
// Lowers machine form to simt form: every tile becomes the registers that one thread holds of it,
// in the order of its layout. One function per op (`lower_X`), grouped by family; the services they
// share are here.
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "codegen/lower/producer_slice.h"
#include "codegen/lower/store_staging.h"
#include "ir/analysis/facts.h"
#include "ir/analysis/toeplitz_tiles.h"
#include "ir/builder.h"
#include "ir/layout/thread_fn.h"
#include "ir/pipeline.h"
#include "ir/ramp.h"

namespace tegula::codegen {

/// The pointer, extents and strides of a view, as simt values that are created on first use.
struct ViewParts {
  ir::Value pointer;
  std::vector<ir::Value> dims, strides;
};

/// Position of a tile's elements along one of its dimensions: index = thread + constant(register).
struct IndexParts {
  ir::Value thread;                    ///< i32; none where it is always 0
  std::vector<std::int64_t> constant;  ///< per register
};

class Lowering {
 public:
  Lowering(const ir::Kernel& machine, ir::PassContext& context);
  ir::Kernel run();

  const ir::Kernel& from;
  ir::PassContext& context;
  ir::Kernel to;
  ir::Builder b;

  // ---- values
  ir::Value get(ir::Value machine_value) const { return map_.at(machine_value); }
  void set(ir::Value machine_value, ir::Value simt_value) { map_[machine_value] = simt_value; }
  ir::Type type(ir::Value simt_value) const { return to.type(simt_value); }
  /// Returns the type of the registers that a thread holds of a tile; scalars stay scalars.
  static ir::Type lowered_type(ir::Type t);
  /// Returns the 32-bit words of an A operand that a wgmma in flight reads.
  ir::Value fragments(ir::Value machine_tile) const { return fragments_.at(machine_tile); }
  void set_fragments(ir::Value machine_tile, ir::Value words) { fragments_[machine_tile] = words; }
  void lower_region(ir::RegionId machine_region);
  /// Inlines a region of scalar ops with its arguments bound to registers; returns its yields.
  std::vector<ir::Value> inline_scalar_region(ir::RegionId region, std::span<const ir::Value> args);

  // ---- regions of the simt form
  /// Emits what `fill` emits at the end of the region.
  template <class Fill>
  void in_region(ir::RegionId region, const Fill& fill) {
    const ir::RegionId outer = b.region();
    b.at_end(region);
    fill();
    b.at_end(outer);
  }
  /// Emits a branch to what `then` and `otherwise` emit, and returns its op.
  template <class Then, class Otherwise>
  ir::OpId branch(ir::Value condition, std::span<const ir::Type> results, const Then& then,
                  const Otherwise& otherwise) {
    const ir::OpId op = b.make_if(condition, results);
    in_region(to[op].regions[0], then);
    in_region(to[op].regions[1], otherwise);
    return op;
  }
  /// Emits a branch to what `then` emits.
  template <class Then>
  void when(ir::Value condition, const Then& then) {
    branch(condition, {}, then, [] {});
  }

  // ---- registers
  ir::Value regs(ir::Value v, std::span<const int> indices);
  ir::Value regs(ir::Value v, std::vector<std::int64_t> indices);
  ir::Value concat(std::span<const ir::Value> parts);
  /// Returns a vector (even of one register) whose registers are these constants.
  ir::Value constants(DType dtype, std::span<const std::int64_t> values);
  /// Returns a vector with the scalar in each of `count` registers.
  ir::Value splat(ir::Value scalar, std::int64_t count);
  ir::Value as_vec(ir::Value v);
  /// Returns the elementwise AND of two predicates. A null predicate is always true.
  ir::Value and_predicates(ir::Value a, ir::Value b);

  // ---- the thread
  ir::Value coordinate(ir::HwDim in);
  ir::Value thread_value(const ir::ThreadOffset& fn);
  IndexParts index_parts(const ir::LinearLayout& layout, int dim);
  /// Returns a predicate: true in the threads that hold the writing replica of a replicated tile.
  /// Returns null if no element is replicated.
  ir::Value is_replica_zero(const ir::LinearLayout& layout);
  /// Returns the same for the digits of one thread coordinate that do not affect the element.
  ir::Value is_replica_zero_along(const ir::LinearLayout& layout, ir::HwDim in);
  /// Returns true if all users of a smem_load are tile_slice ops: it is then emitted per slice.
  bool is_sliced_load(ir::Value machine_value);
  /// Returns the loaded tile that is lowered in chunks together with the addition that uses it,
  /// given either op; none otherwise.
  ir::Value chunked_load_add(ir::OpId op);
  /// Returns the number of warps that compute a tile together: all consumers of the CTA, or those
  /// of one ping-pong warpgroup.
  int warps() const { return from.info.threads / 32; }
  /// Returns the number of warpgroups that compute tiles alternately (ping-pong); 1 if all warps
  /// compute a tile together.
  int groups() const { return groups_; }
  ir::Value group();
  /// Returns a predicate: true in the first thread of the warps that compute a tile together.
  ir::Value is_first_thread();
  /// Returns a predicate: true in the thread that issues TMA loads. Returns null if only that
  /// thread runs the code.
  ir::Value is_producer_thread();
  /// Returns the positions of the carries or results that the current role needs.
  std::vector<std::size_t> kept(std::span<const ir::Value> results) const;
  /// Return true if the code runs only in the producer warps, or only in the consumer warps.
  bool is_producer() const { return role_ == Role::Producer; }
  bool is_consumer() const { return role_ == Role::Consumer; }

  // ---- views
  ViewParts& view(ir::Value machine_view) { return views_.at(machine_view); }
  /// Return the extent or stride in index type `dtype`: a constant if the signature fixes it.
  ir::Value view_dim(ir::Value machine_view, int axis, DType dtype);
  ir::Value view_stride(ir::Value machine_view, int axis, DType dtype);
  ir::Value view_pointer(ir::Value machine_view);
  /// Sets the base, extents and strides of a view created by make_view.
  void set_view(ir::Value machine_view, ViewParts parts) {
    views_[machine_view] = std::move(parts);
  }

  // ---- shared memory
  /// Returns the byte address of an allocation made by the pass allocate_shared.
  ir::Value shared_address(std::int64_t offset);
  /// Returns the address of the mbarrier of a channel's slot.
  ir::Value mbarrier(ir::Value machine_channel, ir::Value machine_slot);
  ir::Value mbarrier(ir::Value machine_channel);  ///< the first slot's
  /// Returns the tensor map parameter for boxes of a view, which is created on first use. `clip`
  /// (attr map_bounds) may shorten its extents.
  ir::Value tensor_map(ir::Value machine_view, const ir::Ints& order, const ir::Ints& box,
                       int swizzle, const ir::Ints& clip = {});
  /// Initializes the mbarriers of channels; precedes the roles, if there are any.
  void init_channels(std::span<const ir::OpId> channel_inits);
  /// Returns the address of scratch memory for one op. The next op reuses it, so barriers precede
  /// and follow its use. It may overlap allocations that are not live at this op.
  ir::Value scratch(std::int64_t bytes, std::int64_t alignment);
  void barrier();
  /// Returns the staging buffers of TMA stores, or null.
  const StoreStaging* store_staging() const { return staging_ ? &*staging_ : nullptr; }
  /// Waits for other CTAs that may still read this CTA's shared memory after a
  /// cluster_reduce_scatter; needed before it is overwritten or the CTA exits.
  void wait_for_cluster_reads();
  /// Signals that this CTA has read the others' shared memory, which stays valid until all have.
  void leave_cluster();
  /// Emits a barrier of all threads of the cluster that have not exited.
  void cluster_barrier();

 private:
  /// Part of the kernel that is being lowered. Skip: only the loop carries of a tile that the other
  /// warpgroup computes.
  enum class Role : std::uint8_t { All, Consumer, Producer, Skip };
  void add_params();
  void lower_roles();
  void lower_role(Role role, ir::OpId roles);
  ir::Value issues_copies();
  void prefetch_maps(ir::RegionId copies);
  /// Returns the slice of the kernel that the role runs; null if it runs all but the ops of other
  /// roles.
  const ProducerSlice* slice() const;
  void find_groups();
  void warpgroup_barrier();
  ir::Value group_scratch(std::int64_t bytes);
  void set_group_scratch_stride();
  bool is_pingpong(ir::OpId loop) const;
  void lower_pingpong(ir::OpId tiles);
  void lower_own_tile(ir::OpId tiles, ir::Value number);
  bool is_for_another_role(ir::OpId op) const;
  ir::Value view_part(ir::Value machine_view, const char* part, int axis, ir::Type type,
                      const std::string& suffix);
  void reserve_store_staging();
  void reserve_toeplitz();
  void find_live_ranges();
  bool has_live_ring() const;
  void lower_body();
  void lower_op(ir::OpId op);
  void lower_elementwise(ir::OpId op);
  void add_by_parts(ir::OpId op, ir::Value loaded);
  void lower_toeplitz(ir::OpId op, const ir::WarpToeplitz& here);
  ir::Value lower_ramp(ir::Type type, const ir::Ramp& ramp);
  ir::Value lower_rescaling(ir::OpId op, ir::Value x, ir::Value by);
  /// Returns nothing unless several registers of the division share a divisor.
  std::optional<ir::Value> lower_shared_division(ir::OpId op, ir::Value x, ir::Value by);
  void lower_for(ir::OpId op);
  bool counts_iterations(ir::OpId loop);
  void lower_yield(ir::OpId op);
  /// Reinterprets the bits as another vector type.
  ir::Value as_type(ir::Value v, ir::Type wanted);
  void lower_while(ir::OpId op);
  void lower_if(ir::OpId op);
  void lower_other_structure(ir::OpId op);

  std::optional<ProducerSlice> producer_slice_;  ///< if there are producer warps
  std::optional<ProducerSlice>
      carry_slice_;  ///< for the other warpgroup's tiles, in ping-pong mode
  int groups_ = 1;
  ir::Value group_;
  std::int64_t group_scratch_bytes_ = 0;
  std::vector<ir::OpId> scratch_strides_;  ///< constants: scratch bytes per group
  Role role_ = Role::All;
  std::unordered_map<ir::Value, ir::Value> map_;
  std::unordered_map<ir::Value, ir::Value> fragments_;
  std::unordered_map<ir::Value, bool> sliced_only_;
  std::unordered_map<ir::OpId, ir::Value> added_;
  bool found_added_ = false;
  std::unordered_map<ir::Value, ViewParts> views_;
  std::unordered_map<ir::Value, const ir::Param*> params_;
  std::map<ir::HwDim, ir::Value> coordinates_;
  std::optional<ir::Facts> facts_;
  ir::Value smem_base_;
  std::int64_t scratch_offset_ = 0, scratch_end_ = 0;
  ir::SharedUse most_scratch_;  ///< largest scratch memory of one op
  std::optional<StoreStaging> staging_;
  std::optional<ir::ToeplitzTiles> toeplitz_;
  std::int64_t toeplitz_offset_ = -1;  ///< none: -1
  bool is_read_by_cluster_ = false;
  bool is_signalled_by_cluster_ = false;  ///< others arrive at this CTA's mbarriers
  /// First and last op at which an allocation is live, in program order.
  struct LiveRange {
    int first = 0, last = 0;
    std::int64_t offset = 0;
    bool after_barrier = false;  ///< all threads synchronize before its first write
  };
  std::vector<LiveRange> rings_;
  std::unordered_map<ir::OpId, int> order_;
  int now_ = 0;  ///< position of the op being lowered
};

using LowerFn = void (*)(Lowering&, ir::OpId);
#define TILE_OP(Name, ...) void lower_##Name(Lowering&, ir::OpId);
#define MACHINE_OP(Name, ...) void lower_##Name(Lowering&, ir::OpId);
#include "ir/op_rows.h"

/// Returns the layout of a tile type; throws InternalError for a tile without one.
const ir::LinearLayout& layout_of(ir::Type tile);

}  // namespace tegula::codegen
