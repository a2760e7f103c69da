#include "autotune/cost/time_of.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "autotune/cost/operand_reads.h"

namespace tegula::autotune {
namespace {

double to_4th(double x) { return x * x * x * x; }
double root_4th(double x) { return std::sqrt(std::sqrt(x)); }

/// Combines times that overlap by the 4-norm: about the longer one, and more if both are similar.
double overlapped(double a, double b) { return root_4th(to_4th(a) + to_4th(b)); }

/// Returns the fraction of the tensor cores' peak that instructions of this width reach.
double mma_share(const Work& w, const CostRates& r) {
  if (w.engine == MmaEngine::mma_sync) return r.mma_sync_share;
  const double loss = w.mma_columns < 128 ? r.narrow_loss : r.wide_loss;
  return r.wgmma_share - loss * std::abs(w.mma_columns - 128) / 64;
}

/// Returns the barrier cycles of a trip. Ping-pong consumers wait for a multicast partner while the
/// other warpgroup's MMAs run.
double barrier_cycles(const Work& w, const CostRates& r) {
  if (w.overlaps_epilogue)
    return r.pingpong_barrier + (w.is_multicast ? r.pingpong_multicast_barrier : 0);
  return r.barrier + (w.is_multicast ? r.multicast_barrier : 0);
}

/// One trip of the mainloop.
struct Trip {
  double tensor, smem, l2, threads, issue, latency;

  Trip(const Work& w, const CostRates& r)
      : tensor(w.mma_bytes / (r.mma_bytes * mma_share(w, r))),
        smem(w.smem_bytes / r.smem_bytes),
        l2(w.l2_lines / r.l2_lines),
        threads(w.thread_ops / r.thread_ops),
        issue((w.engine == MmaEngine::none ? 0 : barrier_cycles(w, r)) +
              w.single_elements * r.single_element + w.exchanges * r.exchange),
        latency(w.engine != MmaEngine::none ? r.latency / w.slots
                : w.l2_lines > 0            ? r.thread_latency
                                            : 0),
        turn_loss_(r.turn_loss) {}

  /// Returns the cycles of a trip if `sharing` CTAs alternate on the tensor cores of an SM.
  double cycles(double sharing) const {
    const double turns = sharing > 1 ? 1 + turn_loss_ : 1;
    return overlapped(cycles_of_units(turns) * sharing + issue, latency);
  }
  /// Returns the cycles in which the units of an SM do the work of one CTA.
  double cycles_of_units(double turns = 1) const {
    return root_4th(to_4th(tensor * turns) + to_4th(smem) + to_4th(l2) + to_4th(threads));
  }

 private:
  double turn_loss_;
};

/// Returns the cycles in which the CTAs of a cluster add their accumulators, per tile.
double cluster_sum_cycles(const Work& w, const CostRates& r) {
  return r.cluster_sum + r.cluster_part * w.parts +
         w.accumulator_bytes * (w.parts - 1) / w.parts / r.cluster_bytes;
}

/// Returns the cycles of a tile outside of its mainloop.
double tile_cycles(const Work& w, const CostRates& r) {
  const double start = w.engine == MmaEngine::wgmma ? r.tile : r.mma_sync_tile;
  const double rate = w.stores_elements ? r.element_bytes
                      : w.transposes    ? r.transposed_bytes
                                        : r.epilogue_bytes;
  return start + w.epilogue_bytes / w.epilogue_rows / rate;
}

/// Returns the cycles of a tile of a kernel without dots. CTAs of an SM are replaced one by one:
/// each computes while others wait.
double thread_cycles(const Work& w, const Trip& trip, const CostRates& r, int num_sms) {
  const double of_sm = w.tiles / num_sms, resident = w.ctas_per_sm;
  const double tiles = of_sm <= resident ? std::ceil(of_sm) : of_sm + 0.5;
  const double busy = tiles * (r.cta + w.trips * trip.cycles_of_units()),
               waiting = std::max(tiles / resident, 1.0) *
                         (r.thread_tile + w.trips * (trip.issue + trip.latency));
  return overlapped(busy, waiting) + std::min(busy, waiting) / (2 * std::min(tiles, resident));
}

/// Returns the cycles of an SM until its last tile is done.
double sm_cycles(const Work& w, const CostRates& r, int num_sms) {
  const Trip trip(w, r);
  if (w.engine == MmaEngine::none) return thread_cycles(w, trip, r, num_sms);
  const double tile = tile_cycles(w, r);
  if (w.is_streamed) {
    // A CTA begins and ends within a tile: it writes one partial accumulator and reads another.
    const double fixup = 2 * r.stream_fixup + 2 * w.accumulator_bytes / r.epilogue_bytes;
    return w.tiles * w.trips / num_sms * trip.cycles(1) + tile * (1 + w.tiles / num_sms) + fixup;
  }
  const double sms = w.cluster > 2 ? num_sms * r.cluster_fill : num_sms;
  if (w.overlaps_epilogue) {
    // Two warpgroups alternate on the tensor cores. If a mainloop takes less time than an epilogue,
    // both determine the time.
    const double mainloop = w.trips * trip.cycles(1);
    return tile + std::ceil(w.tiles / sms) * std::max(mainloop, (mainloop + tile) / 2);
  }
  const double wave = sms * w.ctas_per_sm, full = std::floor(w.tiles / wave),
               rest = w.tiles - full * wave;
  const double sum = w.sum == PartsSum::in_cluster ? cluster_sum_cycles(w, r) : 0;
  double cycles = full * (tile + sum + w.trips * trip.cycles(w.ctas_per_sm));
  if (rest > 0.5) cycles += tile + sum + w.trips * trip.cycles(std::ceil(rest / sms));
  // A persistent CTA fills its ring for the next tile during an epilogue.
  return w.is_persistent ? cycles - (std::ceil(w.tiles / wave) - 1) * r.latency : cycles;
}

/// Returns the cycles until all bytes have arrived from memory. Too many scattered requests in
/// flight slow it down.
double memory_cycles(const Work& w, const CostRates& r, int num_sms, double bytes) {
  const double ctas = std::min(w.tiles, static_cast<double>(num_sms) * w.ctas_per_sm);
  const double excess = ctas * w.scattered_bytes / r.under_way - 1;
  const double gaps = r.memory_gaps / std::max(ctas / num_sms, 1.0);
  return bytes / r.hbm_bytes * (1 + gaps + r.crowding * std::clamp(excess, 0.0, 2.0));
}

/// Returns the bytes that are transferred to and from memory. Tiles that wait for the tensor cores
/// stay in step; tiles that wait for memory drift apart, because the one served last is delayed.
double memory_bytes(const Work& w, const DeviceProfile& gpu, double busy_cycles) {
  const TileOrder& t = w.order;
  const int ctas = w.sum == PartsSum::in_cluster ? w.parts : 1;
  const double wave = static_cast<double>(gpu.num_sms) * w.ctas_per_sm / ctas;
  const OperandReads reads = operand_reads(t, wave, static_cast<double>(gpu.l2_bytes));
  const double results = t.matrices * t.rows * t.columns * t.result_bytes;
  const double waiting =
      std::min(1.0, memory_cycles(w, gpu.cost, gpu.num_sms, reads.in_step + results) / busy_cycles);
  return results + reads.in_step + waiting * waiting * (reads.out_of_step - reads.in_step);
}

/// Returns the cycles at the power limit, as if nothing else limited the GPU.
double power_cycles(const Work& w, const CostRates& r, double memory_bytes) {
  const double trips = w.tiles * w.trips;
  return trips *
             (w.mma_bytes * r.mma_power + w.smem_bytes * r.smem_power + w.l2_lines * r.l2_power) +
         memory_bytes * r.hbm_power;
}

/// Returns the cycles in which the memory waits for CTAs that compute between their loads and their
/// stores, all threads at once. CTAs that share an SM fill the gaps of each other.
double gap_cycles(const Work& w, double busy, double memory, int num_sms) {
  if (w.engine != MmaEngine::none || w.exchanges < 1) return 0;
  const double resident = std::clamp(w.tiles / num_sms, 1.0, static_cast<double>(w.ctas_per_sm));
  return std::min(busy, memory) / (2 * resident);
}

double reduce_cycles(const Work& w, const CostRates& r) {
  if (w.sum != PartsSum::by_kernel) return 0;
  return r.reduce + w.parts * (r.reduce_part + w.part_bytes / r.reduce_bytes);
}

}  // namespace

std::string_view limit_of(const Work& w, const DeviceProfile& gpu) {
  const CostRates& r = gpu.cost;
  const Trip trip(w, r);
  const double busy = sm_cycles(w, r, gpu.num_sms), bytes = memory_bytes(w, gpu, busy);
  const double tiles = std::ceil(w.tiles / gpu.num_sms), trips = tiles * w.trips,
               ctas = std::min<double>(tiles, w.ctas_per_sm),
               tile = w.engine == MmaEngine::none ? r.thread_tile : tile_cycles(w, r);
  const std::pair<double, std::string_view> parts[] = {
      {memory_cycles(w, r, gpu.num_sms, bytes), "memory"},
      {power_cycles(w, r, bytes), "power"},
      {trips * trip.tensor, "tensor cores"},
      {trips * trip.smem, "shared memory"},
      {trips * trip.l2, "L2"},
      {trips * trip.threads, "threads"},
      {trips / ctas * trip.latency, "latency"},
      {trips / ctas * trip.issue, "exchanges and barriers"},
      {tiles / ctas * tile, "starts and ends of tiles"},
      {r.launch, "launch"},
  };
  return std::ranges::max_element(parts)->second;
}

double cycles_of(const Work& w, const DeviceProfile& gpu) {
  const CostRates& r = gpu.cost;
  const double busy_of_sms = sm_cycles(w, r, gpu.num_sms);
  const double bytes = memory_bytes(w, gpu, busy_of_sms);
  const double busy = overlapped(busy_of_sms, power_cycles(w, r, bytes));
  const double repack = w.repack_bytes > 0 ? r.dependent_launch + w.repack_bytes / r.hbm_bytes : 0;
  const double memory = memory_cycles(w, r, gpu.num_sms, bytes);
  return r.launch + overlapped(busy, memory) + gap_cycles(w, busy, memory, gpu.num_sms) +
         (w.is_multicast ? r.multicast : 0) + reduce_cycles(w, r) + repack;
}

}  // namespace tegula::autotune
