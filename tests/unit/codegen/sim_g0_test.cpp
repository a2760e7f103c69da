// The two hand-written Hopper kernels in the simulator: exact values, no findings; and with faults
// planted in their text.
#include <chrono>
#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "tests/unit/codegen/sim_test.h"

namespace tegula::sim::sim_g0_test {
namespace {

std::string source(const std::string& name) {
  std::ifstream in(std::string(TEGULA_SOURCE_DIR) + "/tests/filetests/g0/" + name);
  EXPECT_TRUE(in) << name;
  std::ostringstream s;
  s << in.rdbuf();
  return s.str();
}

// ---- GEMM ---------------------------------------------------------------------------------------

struct Gemm {
  int m, n, k;
  Buffer<bf16> a, b, d;

  Gemm(int m_, int n_, int k_)
      : m(m_), n(n_), k(k_), a(std::size_t(m) * k), b(std::size_t(n) * k), d(std::size_t(m) * n) {
    std::mt19937 rng(7);
    const auto small = [&] { return bf16(static_cast<float>(static_cast<int>(rng() % 5) - 2)); };
    for (bf16& x : a) x = small();
    for (bf16& x : b) x = small();
    for (bf16& x : d) x = bf16(-777.0f);
  }

  Report run(const ir::Kernel& kernel, int ctas, SimOptions options = {}) {
    const auto ma = matrix_map(a, m, k, 128, 64, 128), mb = matrix_map(b, n, k, 256, 64, 128),
               md = matrix_map(d, m, n, 64, 64, 128);
    Launch1 l;
    l.options = options;
    for (auto* v : {&a, &b, &d}) l.options.ranges.push_back({v->data(), v->data() + v->size()});
    l.map(ma)
        .map(mb)
        .map(md)
        .value((k + 63) / 64)
        .value((m + 127) / 128)
        .value((n + 255) / 256)
        .value(2);
    return l.run(kernel, {ctas, 1, 1});
  }

  /// Elements that differ from the exact matmul rounded to bf16.
  int wrong() const {
    int bad = 0;
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        float sum = 0;
        for (int p = 0; p < k; ++p)
          sum += static_cast<float>(a[std::size_t(i) * k + p]) *
                 static_cast<float>(b[std::size_t(j) * k + p]);
        bad += d[std::size_t(i) * n + j].bits != bf16(sum).bits;
      }
    return bad;
  }
};

TEST(SimG0, GemmIsExactAndClean) {
  const ir::Kernel k = parse_located(source("gemm.tir"), "gemm.tir");
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Gemm g(128, 256, 64 * 4 + 64);
    SimOptions o;
    o.seed = seed;
    const auto start = std::chrono::steady_clock::now();
    const Report r = g.run(k, 1, o);
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    EXPECT_TRUE(r.clean()) << r.str();
    EXPECT_EQ(g.wrong(), 0);
    EXPECT_LT(ms, 5000);
    RecordProperty("milliseconds", static_cast<int>(ms));
  }
}

TEST(SimG0, GemmRaggedAndPersistent) {
  const ir::Kernel k = parse_located(source("gemm.tir"), "gemm.tir");
  Gemm g(200, 520, 136);
  const Report r = g.run(k, 2);
  EXPECT_TRUE(r.clean()) << r.str();
  EXPECT_EQ(g.wrong(), 0);
  EXPECT_EQ(r.counters.bank_conflicts(), 0);
}

// ---- attention ----------------------------------------------------------------------------------

struct Attention {
  static constexpr int kDim = 128;
  int heads, seq_q, seq_k;
  Buffer<bf16> q, k, v, o;
  Buffer<float> lse;

  Attention(int h, int sq, int sk)
      : heads(h),
        seq_q(sq),
        seq_k(sk),
        q(std::size_t(h) * sq * kDim),
        k(std::size_t(h) * sk * kDim),
        v(k.size()),
        o(q.size()),
        lse(std::size_t(h) * sq) {
    std::mt19937 rng(11);
    std::normal_distribution<float> normal;
    for (auto* x : {&q, &k, &v})
      for (bf16& e : *x) e = bf16(normal(rng));
  }

  static constexpr double scale() { return 0.08838834764831845; }  // 1 / sqrt(128)

  codegen::TensorMap map(Buffer<bf16>& x, int seq, int rows) {
    codegen::TensorMap m = matrix_map(x, seq, kDim, rows, 64, 128);
    m.rank = 3;
    m.dims[2] = heads;
    m.strides[2] = m.strides[1] * seq;
    m.box[2] = 1;
    return m;
  }

  Report run(const ir::Kernel& kernel, SimOptions options = {}) {
    const auto mq = map(q, seq_q, 128), mk = map(k, seq_k, 128), mv = map(v, seq_k, 128),
               mo = map(o, seq_q, 64);
    Launch1 l;
    l.options = options;
    for (auto* x : {&q, &k, &v, &o}) l.options.ranges.push_back({x->data(), x->data() + x->size()});
    l.map(mq)
        .map(mk)
        .map(mv)
        .map(mo)
        .pointer(lse)
        .value(seq_q)
        .value(seq_k / 128)
        .real(scale() * 1.4426950408889634);
    return l.run(kernel, {seq_q / 128, heads, 1});
  }

  /// Largest error of an output, and of a logsumexp.
  std::pair<double, double> error() const {
    double worst = 0, worst_lse = 0;
    std::vector<double> p(static_cast<std::size_t>(seq_k)), want(kDim);
    for (int h = 0; h < heads; ++h)
      for (int i = 0; i < seq_q; ++i) {
        const auto row = [&](const Buffer<bf16>& x, int seq, int r) {
          return x.data() + (std::size_t(h) * seq + r) * kDim;
        };
        double sum = 0;
        for (int j = 0; j < seq_k; ++j) {
          double s = 0;
          for (int d = 0; d < kDim; ++d)
            s += static_cast<double>(static_cast<float>(row(q, seq_q, i)[d])) *
                 static_cast<float>(row(k, seq_k, j)[d]);
          sum += p[static_cast<std::size_t>(j)] = std::exp(s * scale());
        }
        std::fill(want.begin(), want.end(), 0.0);
        for (int j = 0; j < seq_k; ++j)
          for (int d = 0; d < kDim; ++d)
            want[static_cast<std::size_t>(d)] +=
                p[static_cast<std::size_t>(j)] / sum * static_cast<float>(row(v, seq_k, j)[d]);
        for (int d = 0; d < kDim; ++d)
          worst = std::max(worst, std::abs(want[static_cast<std::size_t>(d)] -
                                           static_cast<float>(row(o, seq_q, i)[d])));
        worst_lse = std::max(worst_lse, std::abs(std::log(sum) - lse[std::size_t(h) * seq_q + i]));
      }
    return {worst, worst_lse};
  }
};

TEST(SimG0, AttentionIsRightAndClean) {
  const ir::Kernel k = parse_located(source("attention.tir"), "attention.tir");
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    Attention a(1, 128, 512);
    SimOptions o;
    o.seed = seed;
    const Report r = a.run(k, o);
    EXPECT_TRUE(r.clean()) << r.str();
    const auto [error, lse_error] = a.error();
    EXPECT_LT(error, 0.01);  // P rounded to bf16, sums of weights of 512 unit normals
    EXPECT_LT(lse_error, 1e-4);
  }
}

TEST(SimG0, AttentionSeveralTilesAndOneBlock) {
  const ir::Kernel k = parse_located(source("attention.tir"), "attention.tir");
  for (const int blocks : {1, 3}) {
    Attention a(2, 256, 128 * blocks);
    const Report r = a.run(k);
    EXPECT_TRUE(r.clean()) << r.str();
    EXPECT_LT(a.error().first, 0.02);
  }
}

// ---- planted faults -----------------------------------------------------------------------------

struct Planted {
  Detector kind;
  std::string from, to;
};

void expect_found(const std::string& name_of_file, const std::vector<Planted>& faults,
                  const std::function<Report(const ir::Kernel&, const SimOptions&)>& run) {
  for (const Planted& p : faults) {
    const ir::Kernel k = parse_located(replaced(source(name_of_file), p.from, p.to), "planted.tir");
    std::string found;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      SimOptions o;
      o.seed = seed;
      o.max_steps = 300000;
      const Report r = run(k, o);
      EXPECT_FALSE(r.clean()) << "'" << p.from << "' -> '" << p.to << "', seed " << seed;
      found += r.find(p.kind) ? "y" : r.str();
    }
    EXPECT_NE(found.find('y'), std::string::npos)
        << name(p.kind) << " not found with '" << p.from << "' -> '" << p.to << "':\n"
        << found;
  }
}

TEST(SimG0, FaultsPlantedInTheGemmAreFound) {
  const std::string release = "mbar_arrive %prev_empty",
                    store_barrier = "fence_proxy_async\n      bar_sync %bar_id [count = 128]";
  expect_found(
      "gemm.tir",
      {{Detector::MbarrierWait, "mbar_wait %full_s, %phase", "pin"},
       {Detector::WrongParity, "mbar_wait %full_s, %phase",
        "%flipped = xor %phase, %one\n        mbar_wait %full_s, %flipped"},
       {Detector::EarlyOverwrite, release, "mbar_arrive %empty_s"},
       {Detector::EarlyOverwrite, "mbar_wait %p_empty, %p_free", "pin"},
       {Detector::TxMismatch, "bytes = 49152", "bytes = 32768"},
       {Detector::TxMismatch, "bytes = 49152", "bytes = 49168"},
       {Detector::Deadlock, "mbar_init %empty_i [count = 2]", "mbar_init %empty_i [count = 3]"},
       {Detector::Deadlock, release, "pin"},
       {Detector::MbarrierMisuse, "fence_mbar_init\n    fence_proxy_async", "pin"},
       {Detector::WgmmaFence, "wgmma_fence", "pin"},
       {Detector::Accumulator, "wgmma_wait %acc_p [count = 0]", "wgmma_wait %acc_p [count = 1]"},
       {Detector::ProxyFence, store_barrier, "bar_sync %bar_id [count = 128]"},
       {Detector::AsyncUnordered, store_barrier, "fence_proxy_async"},
       {Detector::EarlyOverwrite,
        "if %lead { tma_wait [count = 1, read = 1] } { }\n      bar_sync %bar_id [count = 128]\n   "
        "   stmatrix %st_addr0, %regs2",
        "stmatrix %st_addr0, %regs2"},
       {Detector::AsyncAtExit, "if %lead { tma_wait [count = 0, read = 1] } { }", "pin"},
       {Detector::SetMaxNReg, "regs = [40]", "regs = [56]"}},
      [](const ir::Kernel& k, const SimOptions& o) {
        Gemm g(128, 512, 64 * 6);
        return g.run(k, 1, o);
      });
}

TEST(SimG0, FaultsPlantedInTheAttentionAreFound) {
  expect_found(
      "attention.tir",
      {{Detector::AFragment, "wgmma_wait %o_w, %p_f", "wgmma_wait %o_w"},
       {Detector::WgmmaFence, "%o_f, %p_f = wgmma_fence %o_in, %p_in",
        "%o_f = add %o_in, %zero_f\n %p_f = add %p_in, %zero"},
       {Detector::Accumulator, "%s, %o_w = wgmma_wait %s_p, %o_p [count = 1]",
        "%s, %o_w = wgmma_wait %s_p, %o_p [count = 2]"},
       {Detector::EarlyOverwrite, "pin\n      %o_r", "mbar_arrive %vempty, %lead\n      %o_r"},
       {Detector::MbarrierWait, "mbar_wait %vfull, %vphase", "pin"},
       {Detector::Deadlock, "if %second { bar_arrive %one [count = 256] } { }", "pin"},
       {Detector::ProxyFence, "stmatrix %st1, %o_hi [num = 4]\n    fence_proxy_async",
        "stmatrix %st1, %o_hi [num = 4]"},
       {Detector::AsyncUnordered, "bar_sync %epi_bar [count = 128]", "pin"}},
      [](const ir::Kernel& k, const SimOptions& o) {
        Attention a(1, 128, 512);
        return a.run(k, o);
      });
}

}  // namespace
}  // namespace tegula::sim::sim_g0_test
