// Execution: elementwise ops, divergence, loops, memory, lanes. Values against plain C++.
#include <cmath>
#include <numeric>

#include "tests/unit/codegen/sim_test.h"

namespace tegula::sim::sim_run_test {
namespace {

constexpr std::string_view kAdd = R"(
kernel @add simt target(sm_90a) threads(64) (%x: ptr<f32>, %y: ptr<f32>, %z: ptr<f32>, %n: i32) {
  %t = tid
  %c = ctaid [axis = 0]
  %w = const [value = 64] : i32
  %base = mul %c, %w
  %i = add %base, %t
  %inside = cmp %i, %n [pred = "lt"]
  %px = addptr %x, %i
  %py = addptr %y, %i
  %a = ld_global %px, %inside [width = 1] : f32
  %b = ld_global %py, %inside [width = 1] : f32
  %s = add %a, %b
  %pz = addptr %z, %i
  st_global %pz, %s, %inside [width = 1]
})";

TEST(SimRun, VectorAddWithARaggedEdge) {
  const ir::Kernel k = parse_located(kAdd);
  Buffer<float> x(200), y(200), z(256, -1.0f);
  std::iota(x.begin(), x.end(), 0.0f);
  std::iota(y.begin(), y.end(), 1000.0f);
  Launch1 l;
  l.pointer(x).pointer(y).pointer(z).value(200);
  const Report r = l.run(k, {4, 1, 1});
  EXPECT_TRUE(r.clean()) << r.str();
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(z[static_cast<std::size_t>(i)], 1000.0f + 2 * static_cast<float>(i));
  for (int i = 200; i < 256; ++i) EXPECT_EQ(z[static_cast<std::size_t>(i)], -1.0f);
  EXPECT_EQ(r.counters.ctas, 4);
  EXPECT_EQ(r.counters.excess_sectors(), 0);
}

TEST(SimRun, TwoHostThreadsGiveTheSame) {
  const ir::Kernel k = parse_located(kAdd);
  Buffer<float> x(6400, 2.0f), y(6400, 3.0f), z(6400);
  Launch1 l;
  l.options.threads = 2;
  l.pointer(x).pointer(y).pointer(z).value(6400);
  const Report r = l.run(k, {100, 1, 1});
  EXPECT_TRUE(r.clean()) << r.str();
  EXPECT_EQ(r.counters.ctas, 100);
  for (float v : z) EXPECT_EQ(v, 5.0f);
}

// One row of 256 a CTA; max and sum through shuffles, then shared memory.
constexpr std::string_view kSoftmax = R"(
kernel @softmax simt target(sm_90a) threads(128) smem(64) (%x: ptr<f32>, %y: ptr<f32>) {
  %zero = const [value = 0] : i32
  %one = const [value = 1] : i32
  %two = const [value = 2] : i32
  %four = const [value = 4] : i32
  %t = tid
  %lane = lane_id
  %warp = warp_id
  %c = ctaid [axis = 0]
  %n = const [value = 256] : i32
  %row = mul %c, %n
  %t2 = mul %t, %two
  %i = add %row, %t2
  %px = addptr %x, %i
  %v = ld_global %px [width = 2] : v<2xf32>
  %v0 = regs %v [indices = [0]]
  %v1 = regs %v [indices = [1]]
  %m0 = max %v0, %v1
  %c16 = const [value = 16] : i32
  %m = for %zero, %four, %one, %m0 : f32 { (%s: i32, %mi: f32)
    %d = shr %c16, %s
    %o = shfl %mi, %d [mode = "xor"]
    %mx = max %mi, %o
    yield %mx
  }
  %o1 = shfl %m, %one [mode = "xor"]
  %mw = max %m, %o1
  %base = smem_base
  %w4 = mul %warp, %four
  %at = add %base, %w4
  %lead = cmp %lane, %zero [pred = "eq"]
  if %lead {
    st_shared %at, %mw [width = 1]
  } {
  }
  bar_sync %zero [count = 128]
  %ms = ld_shared %base [width = 4] : v<4xf32>
  %ma = regs %ms [indices = [0, 1]]
  %mb = regs %ms [indices = [2, 3]]
  %mab = max %ma, %mb
  %ma0 = regs %mab [indices = [0]]
  %ma1 = regs %mab [indices = [1]]
  %mm = max %ma0, %ma1
  %e = sub %v, %mm
  %log2e = const [value = 1.4426950408889634] : f32
  %es = mul %e, %log2e
  %p = exp2 %es
  %p0 = regs %p [indices = [0]]
  %p1 = regs %p [indices = [1]]
  %s0 = add %p0, %p1
  %cont0 = const [value = 16] : i32
  %sum, %last = while %s0, %cont0 : f32, i32 { (%a: f32, %dist: i32)
    %go = cmp %dist, %zero [pred = "gt"]
    yield %go
  } { (%a2: f32, %dist2: i32)
    %oo = shfl %a2, %dist2 [mode = "xor"]
    %aa = add %a2, %oo
    %half = shr %dist2, %one
    yield %aa, %half
  }
  %at2 = add %at, %c16
  if %lead {
    st_shared %at2, %sum [width = 1]
  } {
  }
  bar_sync %zero [count = 128]
  %sbase = add %base, %c16
  %ss = ld_shared %sbase [width = 4] : v<4xf32>
  %sa = regs %ss [indices = [0, 1]]
  %sb = regs %ss [indices = [2, 3]]
  %sab = add %sa, %sb
  %sa0 = regs %sab [indices = [0]]
  %sa1 = regs %sab [indices = [1]]
  %total = add %sa0, %sa1
  %r = div %p, %total
  %py = addptr %y, %i
  st_global %py, %r [width = 2]
})";

TEST(SimRun, SoftmaxThroughShufflesAndSharedMemory) {
  const ir::Kernel k = parse_located(kSoftmax);
  Buffer<float> x(3 * 256), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 37) % 101) / 10.0f;
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    Launch1 l;
    l.options.seed = seed;
    l.pointer(x).pointer(y);
    const Report r = l.run(k, {3, 1, 1});
    ASSERT_TRUE(r.clean()) << r.str();
    for (std::size_t row = 0; row < 3; ++row) {
      double sum = 0;
      for (std::size_t i = 0; i < 256; ++i) sum += std::exp(static_cast<double>(x[row * 256 + i]));
      for (std::size_t i = 0; i < 256; ++i)
        EXPECT_NEAR(y[row * 256 + i], std::exp(static_cast<double>(x[row * 256 + i])) / sum, 1e-6);
    }
  }
}

// Every lane runs its own trip count and takes its own branch.
constexpr std::string_view kDivergent = R"(
kernel @divergent simt target(sm_90a) threads(40) (%y: ptr<i32>) {
  %zero = const [value = 0] : i32
  %one = const [value = 1] : i32
  %two = const [value = 2] : i32
  %t = tid
  %a, %b = for %zero, %t, %one, %zero, %one : i32, i32 { (%i: i32, %p: i32, %q: i32)
    %s = add %p, %q
    yield %q, %s
  }
  %odd = and %t, %one
  %is_odd = cmp %odd, %one [pred = "eq"]
  %r = if %is_odd : i32 {
    %n = neg %a
    yield %n
  } {
    %big = cmp %t, %two [pred = "gt"]
    %inner = if %big : i32 {
      yield %b
    } {
      yield %t
    }
    yield %inner
  }
  %py = addptr %y, %t
  st_global %py, %r [width = 1]
})";

TEST(SimRun, DivergentLoopsAndBranches) {
  const ir::Kernel k = parse_located(kDivergent);
  Buffer<std::int32_t> y(40);
  Launch1 l;
  const Report r = l.pointer(y).run(k);
  EXPECT_TRUE(r.clean()) << r.str();
  for (int t = 0; t < 40; ++t) {
    std::uint32_t a = 0, b = 1;
    for (int i = 0; i < t; ++i) a = std::exchange(b, a + b);
    const auto want = t % 2   ? -static_cast<std::int32_t>(a)
                      : t > 2 ? static_cast<std::int32_t>(b)
                              : t;
    EXPECT_EQ(y[static_cast<std::size_t>(t)], want) << "thread " << t;
  }
}

/// Counting up to a number and then from 0 again, which is what "inc" does.
TEST(SimRun, AtomicRounds) {
  const ir::Kernel k = parse_located(R"(
kernel @k simt target(sm_90a) threads(32) (%count: ptr<u32>, %out: ptr<u32>) {
  %t = tid
  %last = const [value = 4] : u32
  %old = atom_global %count, %last [kind = "inc", sem = "relaxed", scope = "gpu"]
  %p = addptr %out, %t
  st_global %p, %old [width = 1]
})");
  Buffer<std::uint32_t> count(1), out(32);
  Launch1 l;
  const Report r = l.pointer(count).pointer(out).run(k);
  EXPECT_TRUE(r.clean()) << r.str();
  for (std::uint32_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], t % 5);
  EXPECT_EQ(count[0], 32u % 5);
}

TEST(SimRun, AtomicsVotesAndRepack) {
  const ir::Kernel k = parse_located(R"(
kernel @k simt target(sm_90a) threads(64) (%sum: ptr<i32>, %out: ptr<u32>, %h: ptr<i32>) {
  %zero = const [value = 0] : i32
  %three = const [value = 3] : i32
  %t = tid
  %old = atom_global %sum, %t [kind = "add"]
  %low = and %t, %three
  %is0 = cmp %low, %zero [pred = "eq"]
  %mask = vote %is0 [kind = "ballot"]
  %p = addptr %out, %t
  st_global %p, %mask [width = 1]
  %f = cast %t : f32
  %two = const [value = 2] : i32
  %f2 = mul %f, %f
  %pair = concat %f, %f2
  %hb = cast %pair : v<2xbf16>
  %packed = repack %hb : v<1xi32>
  %ph = addptr %h, %t
  st_global %ph, %packed [width = 1]
})");
  Buffer<std::int32_t> sum(1), h(64);
  Buffer<std::uint32_t> out(64);
  Launch1 l;
  const Report r = l.pointer(sum).pointer(out).pointer(h).run(k);
  EXPECT_TRUE(r.clean()) << r.str();
  EXPECT_EQ(sum[0], 63 * 64 / 2);
  for (std::uint32_t m : out) EXPECT_EQ(m, 0x11111111u);
  for (int t = 0; t < 64; ++t) {
    const std::uint32_t want = bf16(static_cast<float>(t)).bits |
                               static_cast<std::uint32_t>(bf16(static_cast<float>(t * t)).bits)
                                   << 16;
    EXPECT_EQ(static_cast<std::uint32_t>(h[static_cast<std::size_t>(t)]), want);
  }
}

TEST(SimRun, CountsBankConflictsAndExcessSectorsWithTheirLine) {
  const ir::Kernel k = parse_located(R"(
kernel @k simt target(sm_90a) threads(32) smem(4096) (%x: ptr<f32>, %y: ptr<f32>) {
  %t = tid
  %c8 = const [value = 8] : i32
  %c128 = const [value = 128] : i32
  %c4 = const [value = 4] : i32
  %i = mul %t, %c8
  %px = addptr %x, %i
  %v = ld_global %px [width = 1] : f32
  %base = smem_base
  %o = mul %t, %c128
  %a = add %base, %o
  st_shared %a, %v [width = 1]
  %z = const [value = 0] : i32
  bar_sync %z [count = 32]
  %v2 = ld_shared %a [width = 1] : f32
  %py = addptr %y, %t
  st_global %py, %v2 [width = 1]
})");
  Buffer<float> x(256, 1.0f), y(32);
  Launch1 l;
  const Report r = l.pointer(x).pointer(y).run(k);
  EXPECT_TRUE(r.clean()) << r.str();
  ASSERT_EQ(r.counters.accesses.size(), 4u);
  EXPECT_EQ(r.counters.accesses[0].op, "ld_global");
  EXPECT_EQ(r.counters.accesses[0].loc.line, 9u);
  EXPECT_EQ(r.counters.accesses[0].sectors, 32);
  EXPECT_EQ(r.counters.accesses[0].ideal_sectors, 4);
  EXPECT_EQ(r.counters.accesses[1].bank_conflicts(), 31);
  EXPECT_EQ(r.counters.accesses[1].loc.line, 13u);
  EXPECT_EQ(r.counters.accesses[3].excess_sectors(), 0);
}

// CTA 0 spins until CTA 3 has counted itself in.
TEST(SimRun, CtasThatWaitForEachOtherAlternate) {
  const ir::Kernel k = parse_located(R"(
kernel @k simt target(sm_90a) threads(32) (%count: ptr<i32>, %out: ptr<i32>) {
  %zero = const [value = 0] : i32
  %one = const [value = 1] : i32
  %four = const [value = 4] : i32
  %lane = lane_id
  %lead = cmp %lane, %zero [pred = "eq"]
  if %lead {
    %old = atom_global %count, %one [kind = "add", sem = "acq_rel", scope = "gpu"]
    %seen = while %zero : i32 { (%v: i32)
      %wait = cmp %v, %four [pred = "lt"]
      yield %wait
    } { (%u: i32)
      %now = atom_global %count, %zero [kind = "add", sem = "acquire", scope = "gpu"]
      yield %now
    }
    %c = ctaid [axis = 0]
    %p = addptr %out, %c
    st_global %p, %seen [width = 1]
  } {
  }
})");
  Buffer<std::int32_t> count(1), out(4);
  Launch1 l;
  l.options.max_steps = 2'000'000;
  const Report r = l.pointer(count).pointer(out).run(k, {4, 1, 1});
  EXPECT_TRUE(r.clean()) << r.str();
  for (std::int32_t v : out) EXPECT_EQ(v, 4);
}

/// Eight CTAs of a cluster, which have exited warps among them when the others synchronise: every
/// one adds up what all wrote.
TEST(SimRun, ClustersReadEachOther) {
  const ir::Kernel k = parse_located(R"(
kernel @cluster simt target(sm_90a) threads(64) smem(1024) cluster(8) (%out: ptr<i32>) {
  %zero = const [value = 0] : i32
  %one = const [value = 1] : i32
  %four = const [value = 4] : i32
  %eight = const [value = 8] : i32
  %warp = warp_id
  %works = cmp %warp, %zero [pred = "eq"]
  if %works {
    %t = tid
    %rank = cta_rank
    %cta = ctaid [axis = 0]
    %base = smem_base
    %t4 = mul %t, %four
    %mine = add %base, %t4
    st_shared %mine, %cta [width = 1]
    cluster_arrive
    cluster_wait
    %sum = for %zero, %eight, %one, %zero : i32 { (%r: i32, %s: i32)
      %peer = xor %r, %rank
      %there = map_shared %mine, %peer
      %v = ld_cluster %there [width = 1] : i32
      %more = add %s, %v
      yield %more
    }
    cluster_arrive
    cluster_wait
    %at = addptr %out, %cta
    st_global %at, %sum [width = 1]
  } {
  }
})");
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    Buffer<std::int32_t> out(16);
    Launch1 l;
    l.options.seed = seed;
    const Report r = l.pointer(out).run(k, {16, 1, 1});
    EXPECT_TRUE(r.clean()) << r.str();
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], i < 8 ? 28 : 92) << i;
  }
}

TEST(SimRun, RejectsUnsupportedOps) {
  const ir::Kernel k = parse_located(kAdd);
  EXPECT_THROW(simulate(k, {1, 1, 1}, {}), InternalError);
  const ir::Kernel clusters = parse_located("kernel @k simt threads(32) cluster(2) () { }");
  EXPECT_THROW(simulate(clusters, {3, 1, 1}, {}), InternalError);
  const ir::Kernel inline_ptx =
      parse_located("kernel @k simt threads(32) () { asm [text = \"nop;\", constraints = \"\"] }");
  EXPECT_THROW(simulate(inline_ptx, {1, 1, 1}, {}), CompileError);
}

}  // namespace
}  // namespace tegula::sim::sim_run_test
