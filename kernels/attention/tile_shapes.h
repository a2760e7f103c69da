#pragma once
// Extents of attention's tiles by head dim: what registers and shared memory of an sm_90 CTA hold.
#include <initializer_list>

#include "tegula/device_profile.h"
#include "tegula/functions.h"
#include "tegula/kernels/attention.h"

namespace tegula {

inline constexpr int kMaxHeadDim = 256;

/// The extent of a tile that holds a head dim: a multiple of 16, the k step of an MMA.
int padded_head_dim(int dim);

/// Extents that the kernel may be traced with.
inline constexpr std::initializer_list<int> kQueryTiles{16, 32, 64, 128, 192},
    kKeyTiles{16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224};

/// Maximum programs that split the keys of a tile, and the sizes of their clusters.
inline constexpr int kMaxSplitKv = 256;
inline constexpr std::initializer_list<int> kSplitKvClusters{8, 4, 2, 1};

/// Properties of a call that take registers besides the head dims, which need not be padded.
struct TileRequirements {
  int dim, head_dim_v;
  ScoreTraits score = {};
  bool is_non_contiguous = false;  ///< kv blocks of a tile are not consecutive
  bool has_score = false;
};
AttentionTileShape attention_tiles(const TileRequirements& needs);

/// Keys that a query tile visits, as far as known before the kernel is traced.
enum class KvExtent : std::uint8_t {
  unknown,
  full,
  causal,  ///< from the first to one that rises with the rows
};

/// Tiles with as many keys as fit if no score and no search for blocks takes registers.
AttentionTileShape large_n_tiles(const TileRequirements& needs);
/// Tiles of three consumer warpgroups, which share loaded keys and values. Each thread has fewer
/// registers, and bounds of keys on both sides (`kv_extent` unknown) take some.
AttentionTileShape three_warpgroup_tiles(const TileRequirements& needs, KvExtent kv_extent);

/// Tiles for a score whose tensors TMA loads, as far as ScoreTraits::tma_bytes_per_element says:
/// the elements of a kv block lie in shared memory next to its keys, and in registers next to the
/// accumulator.
AttentionTileShape tma_bias_tiles(const TileRequirements& needs);

enum class TileShapeClass : std::uint8_t { standard, large_n, three_warpgroups, tma_bias };
AttentionTileShape tiles_of(TileShapeClass form, const TileRequirements& needs, KvExtent kv_extent);

struct AttentionLengths {
  std::int64_t queries, keys;
  std::int64_t first_query = 0;  ///< its position among the keys
  std::int64_t matrices = 1;     ///< heads of all batch entries
};
struct AttentionGpu {
  const DeviceProfile* profile = &host_profile();
  int num_sms = profile->num_sms;
  bool has_wgmma = true;  ///< else tiles are usual ones or wide
};
/// The tile shape with the shortest estimated time: fewer kv blocks, and keys and values that more
/// rows share, against keys that no row needs, rows beyond the last, and SMs without a tile.
TileShapeClass choose_tile_shape(const TileRequirements& needs, KvExtent kv_extent,
                                 const AttentionLengths& lengths, const AttentionGpu& gpu = {});

}  // namespace tegula
