#pragma once
// Extents of attention's tiles by head dim: what registers and shared memory of an sm_90 CTA hold.
#include <initializer_list>

#include "tegula/device_profile.h"
#include "tegula/functions.h"
#include "tegula/kernels/attention.h"

namespace tegula {

inline constexpr int kMaxHeadDim = 256;

/// The extent of a tile that holds a head dim: products take steps of 16.
int padded_head_dim(int dim);

/// Extents that the kernel may be traced with.
inline constexpr std::initializer_list<int> kQueryTiles{16, 32, 64, 128, 192},
    kKeyTiles{16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224};

/// Programs that share the keys of a tile, and those of a cluster of them.
inline constexpr int kMostKeySplits = 256;
inline constexpr std::initializer_list<int> kKeyClusters{8, 4, 2, 1};

/// What takes registers beside the head dims, which need not be padded.
struct TileNeeds {
  int dim, value_dim;
  ScoreCost score = {};
  bool has_gaps = false;  ///< finding a block that is not just the one behind the last
  bool has_score = false;
};
AttentionTiles attention_tiles(const TileNeeds& needs);

/// Which keys a tile of queries visits, as far as it is known before the kernel is traced.
enum class KeyReach : std::uint8_t {
  unknown,
  all,
  up_to_row,  ///< from the first to one that rises with the rows
};

/// Tiles with as many keys as fit where no score and no gap takes registers.
AttentionTiles wide_tiles(const TileNeeds& needs);
/// Tiles of three warpgroups, which share the keys and values that are brought. Each has the fewer
/// registers, and limits of keys on both sides (`reach` unknown) take some.
AttentionTiles tall_tiles(const TileNeeds& needs, KeyReach reach);

/// Tiles of a score whose tensors TMA brings, as far as ScoreCost::box_bytes says: the elements of
/// a step lie in shared memory beside its keys, and in registers beside its sums.
AttentionTiles boxed_tiles(const TileNeeds& needs);

enum class TileForm : std::uint8_t { usual, wide, tall, boxed };
AttentionTiles tiles_of(TileForm form, const TileNeeds& needs, KeyReach reach);

struct AttentionLengths {
  std::int64_t queries, keys;
  std::int64_t first_query = 0;  ///< its position among the keys
  std::int64_t matrices = 1;     ///< heads of all batch entries
};
struct AttentionGpu {
  const DeviceProfile* profile = &host_profile();
  int sms = profile->sms;
  bool has_wgmma = true;  ///< else tiles are usual ones or wide
};
/// The form with the least estimated time: fewer steps, and keys and values that more rows share,
/// against keys that no row needs, rows behind the last, and SMs without a tile.
TileForm best_form(const TileNeeds& needs, KeyReach reach, const AttentionLengths& lengths,
                   const AttentionGpu& gpu = {});

}  // namespace tegula
