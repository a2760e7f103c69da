#include "autotune/matmul/space.h"

#include <algorithm>

#include "autotune/matmul/work.h"

namespace tegula::autotune {
namespace {

constexpr int kDepths[] = {64, 32, 128, 16, 256};
constexpr int kSwapAb[] = {0, 1};
/// Rows of C's tile: 16 and 32 for mma.sync, and multiples of 8 where rows of C are columns of the
/// instruction.
constexpr int kRows[] = {128, 64,  192, 8,   16,  24,  32,  40,  48,  56,  72,
                         80,  88,  96,  104, 112, 120, 136, 144, 152, 160, 168,
                         176, 184, 200, 208, 216, 224, 232, 240, 248, 256};
constexpr int kColumns[] = {256, 192, 128, 64, 32, 224, 176, 160, 112, 96};
constexpr int kOperands[] = {static_cast<int>(OperandPath::tma),
                             static_cast<int>(OperandPath::direct)};
constexpr int kSplit[] = {static_cast<int>(SplitK::none), static_cast<int>(SplitK::cluster),
                          static_cast<int>(SplitK::partials), static_cast<int>(SplitK::stream)};
constexpr int kParts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
constexpr int kFlag[] = {0, 1};
constexpr int kMulticast[] = {static_cast<int>(Multicast::none), static_cast<int>(Multicast::b)};
/// 0: the number chosen by the plan of a ping-pong kernel.
constexpr int kStages[] = {0, 3, 4, 5, 6, 7, 8};
constexpr int kGroups[] = {8, 1, 4, 16};

using C = MatmulConfig;
constexpr Axis<C> kAxes[] = {
    {"bk", [](C& c, int v) { c.bk = v; }, kDepths},
    {"swap_ab", [](C& c, int v) { c.swap_ab = v != 0; }, kSwapAb},
    {"bm", [](C& c, int v) { c.bm = v; }, kRows},
    {"bn", [](C& c, int v) { c.bn = v; }, kColumns},
    {"operands", [](C& c, int v) { c.operands = static_cast<OperandPath>(v); }, kOperands},
    {"split", [](C& c, int v) { c.split = static_cast<SplitK>(v); }, kSplit},
    {"parts", [](C& c, int v) { c.parts = v; }, kParts},
    {"pingpong", [](C& c, int v) { c.pingpong = v != 0; }, kFlag},
    {"multicast", [](C& c, int v) { c.multicast = static_cast<Multicast>(v); }, kMulticast},
    {"stages", [](C& c, int v) { c.stages = v; }, kStages},
    {"tma_store", [](C& c, int v) { c.tma_store = v != 0; }, kFlag},
    {"group_m", [](C& c, int v) { c.group_m = v; }, kGroups},
};

MatmulConfig canonical(MatmulConfig c, const MatmulProblem& p, const Limits& gpu) {
  if (c.split == SplitK::stream) c.parts = gpu.num_sms;
  if (c.parts == 1) c.split = SplitK::none;
  if (c.split == SplitK::none) c.parts = 1;
  const bool may_multicast = c.split == SplitK::none || c.split == SplitK::partials;
  if (!gpu.target->has_wgmma || !may_multicast || !has_shared_operand(p, c))
    c.multicast = Multicast::none;
  if (!gpu.target->has_wgmma) c.pingpong = c.tma_store = false;
  if (size_bytes(p.operands) != 2 || !p.repacks()) c.operands = OperandPath::tma;
  return c;
}

double cycles(const MatmulProblem& p, const MatmulConfig& c, const DeviceProfile& gpu) {
  return cycles_of(work_of(p, c, limits_of(gpu).target), gpu);
}

/// Results are equal if the same terms are added in the same order. This depends on the engine, the
/// parts of k and, if terms are first added within an iteration, their number.
std::uint64_t numerics(const MatmulProblem& p, const MatmulConfig& c, const Limits& gpu) {
  const MmaEngine engine = engine_of(p, c, gpu.target);
  const bool adds_iterations = p.fp32_promotion || engine == MmaEngine::mma_sync;
  const int parts = c.split == SplitK::none ? 1 : c.parts;
  std::uint64_t hash =
      field_detail::mixed(static_cast<std::uint64_t>(engine), adds_iterations ? c.bk : 0);
  hash = field_detail::mixed(hash, static_cast<std::uint64_t>(c.split));
  return field_detail::mixed(hash, static_cast<std::uint64_t>(parts));
}

}  // namespace

const MatmulSpace& matmul_space() {
  static const MatmulSpace space{
      kAxes,     matmul_rules(), [](const MatmulProblem&, const Limits&) { return C{}; },
      canonical, cycles,         numerics};
  return space;
}

}  // namespace tegula::autotune
