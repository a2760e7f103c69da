#pragma once
// A paged call's kernel, compiled for a target that the library does not choose on a device.
#include <bit>
#include <cmath>
#include <vector>

#include "runtime/jit_verbs.h"
#include "tests/assemble/assembled.h"
#include "tests/differential/attention/paged_tensors.h"

namespace tegula::test {

/// The tensors of a call in the forward kernel's layout, and its run-time arguments: without a work
/// list, sinks and block lists. `packs`: all heads of a request's queries are rows of a tile.
struct PagedLaunch {
  Tensor Q, K, V, O, Lse, Max;
  std::vector<runtime::LaunchArg> args;

  PagedLaunch(const PagedRequests& p, bool packs) {
    const auto rows = [&](const Tensor& t) {
      if (!packs)
        return t.rank() == 3 ? t.permute({1, 0, 2}).with_rank(4) : t.permute({1, 0}).with_rank(3);
      const std::int64_t heads = p.extents.kv_heads, group = p.extents.heads / heads;
      return t.reshape(t.rank() == 3 ? Dims{t.size(0), heads, group, t.size(2)}
                                     : Dims{t.size(0), heads, group});
    };
    Q = rows(p.Q), O = rows(p.O), Lse = rows(p.Lse), Max = rows(p.Max);
    K = p.cache.k.permute({0, 2, 1, 3}), V = p.cache.v.permute({0, 2, 1, 3});
    const float scale = 1 / std::sqrt(static_cast<float>(p.extents.dim));
    const runtime::LaunchArg none{};
    args = {{&Q},
            {&K},
            {&V},
            {&O},
            {&Lse},
            {nullptr, std::bit_cast<std::uint32_t>(scale)},
            {nullptr, static_cast<std::uint64_t>(p.batch.max_seqlen_q)},
            {&p.batch.q_offsets},
            none,
            {&p.batch.kv_lengths},
            {&p.cache.table},
            none,
            none,
            {&Max}};
    args.resize(22);
  }
  PagedLaunch(const PagedLaunch&) = delete;
  PagedLaunch& operator=(const PagedLaunch&) = delete;
};

/// Returns the kernel that a call of these extents and a causal mask traces.
inline ir::Kernel traced_paged(const CacheExtents& extents, const Lengths& lengths) {
  const PagedRequests on_host(extents, lengths, Device::cpu());
  const Attention attention({.mask = masks::causal()});
  return traced("attention", [&] { on_host.run(attention); });
}

/// Cases of the path of GPUs before Hopper: pages of any rows, decoding and prompts.
struct OlderPath {
  CacheExtents extents;
  Lengths lengths;
  bool packs;
};
inline std::vector<OlderPath> older_paths() {
  const Lengths decoding{{1, 1, 0, 1}, {150, 16, 30, 1}},
      prompts{{70, 3, 0, 40}, {150, 16, 30, 40}};
  std::vector<OlderPath> all;
  for (const std::int64_t rows : {1, 16, 24, 64})
    for (const bool packs : {true, false}) {
      const std::int64_t dim = rows == 16 ? 128 : 64;
      all.push_back({{.rows = rows, .heads = 8, .kv_heads = 2, .dim = dim, .head_dim_v = dim},
                     packs ? decoding : prompts,
                     packs});
    }
  return all;
}

}  // namespace tegula::test
