// The matrix units: every element type, swizzle and major-ness against plain loops, on integers,
// where all must be exact.
#include <fmt/format.h>

#include <cmath>
#include <random>

#include "tests/unit/codegen/sim_test.h"

namespace tegula::sim::sim_matrix_test {
namespace {

template <class T>
T small_value(std::mt19937& rng) {
  const float v = static_cast<float>(static_cast<int>(rng() % 5) - (std::is_unsigned_v<T> ? 0 : 2));
  // tf32 keeps 10 bits of the fraction, so the excess must be cut off.
  return static_cast<T>(std::is_same_v<T, float> ? v * (1 + 0x1p-11f) : v);
}
template <class T>
double as_double(T v) {
  return std::round(static_cast<double>(static_cast<float>(v)));
}

template <class T>
Buffer<T> random_matrix(int rows, int columns, unsigned seed) {
  std::mt19937 rng(seed);
  Buffer<T> m(static_cast<std::size_t>(rows * columns));
  for (T& v : m) v = small_value<T>(rng);
  return m;
}

/// c[m][n] = sum over k of a[m][k] b[n][k], each stored with the named dimension innermost.
template <class T>
double expected(const Buffer<T>& a, bool a_m_inner, const Buffer<T>& b, bool b_n_inner, int m,
                int n, int rows, int columns, int depth) {
  double sum = 0;
  for (int k = 0; k < depth; ++k)
    sum += as_double(a[static_cast<std::size_t>(a_m_inner ? k * rows + m : m * depth + k)]) *
           as_double(b[static_cast<std::size_t>(b_n_inner ? k * columns + n : n * depth + k)]);
  return sum;
}

constexpr std::string_view kEpilogue = R"(
  %four = const [value = 4] : i32
  %two = const [value = 2] : i32
  %sixteen = const [value = 16] : i32
  %eight = const [value = 8] : i32
  %lane = lane_id
  %warp = warp_id
  %g = shr %lane, %two
  %three = const [value = 3] : i32
  %t = and %lane, %three
  %w16 = mul %warp, %sixteen
  %row = add %w16, %g
)";

/// Stores accumulator registers 4j..4j+3 for every 8 columns of a 64 x n (or 16 x n) tile.
std::string store_tile(int n, std::string_view type) {
  std::string s(kEpilogue);
  s += fmt::format(
      "  %n = const [value = {}] : i32\n  %r0 = mul %row, %n\n  %t2 = mul %t, %two\n  %at = add "
      "%r0, %t2\n",
      n);
  for (int j = 0; j < n / 8; ++j)
    for (int h = 0; h < 2; ++h) {
      s += fmt::format(
          "  %o{0}_{1} = const [value = {2}] : i32\n  %i{0}_{1} = add %at, %o{0}_{1}\n  %p{0}_{1} "
          "= addptr %c, %i{0}_{1}\n"
          "  %v{0}_{1} = regs %acc [indices = [{3}, {4}]]\n  st_global %p{0}_{1}, %v{0}_{1} [width "
          "= 2]\n",
          j, h, 8 * j + 8 * n * h, 4 * j + 2 * h, 4 * j + 2 * h + 1);
    }
  (void)type;
  return s;
}

std::string load_prologue(std::string_view header, int bytes,
                          const std::vector<std::string>& loads) {
  std::string s = fmt::format("{}\n{}", header, barrier_prologue(65536, bytes));
  for (const std::string& l : loads) s += l;
  return s + "  } {\n  }\n  mbar_wait %bar, %zero\n";
}

std::string load(std::string_view map, int number, int offset, int c0, int c1) {
  return fmt::format(
      "    %lo{0} = const [value = {1}] : i32\n    %la{0} = add %base, %lo{0}\n    %lc{0} = const "
      "[value = {2}] : i32\n"
      "    %ld{0} = const [value = {3}] : i32\n    tma_load {4}, %la{0}, %bar, %lc{0}, %ld{0}\n",
      number, offset, c0, c1, map);
}

// ---- wgmma --------------------------------------------------------------------------------------

struct WgmmaShape {
  std::string_view type;
  int n, swizzle;
  bool a_mn_major = false, b_mn_major = false;
};

template <class T, class C>
int wrong_elements(const WgmmaShape& s, const Buffer<T>& a, const Buffer<T>& b, const Buffer<C>& c,
                   int depth) {
  int wrong = 0;
  for (int m = 0; m < 64; ++m)
    for (int n = 0; n < s.n; ++n)
      wrong += static_cast<double>(c[static_cast<std::size_t>(m * s.n + n)]) !=
               expected(a, s.a_mn_major, b, s.b_mn_major, m, n, 64, s.n, depth);
  return wrong;
}

template <class T, class C>
void check_wgmma(const WgmmaShape& s) {
  SCOPED_TRACE(fmt::format("{} n {} swizzle {} {}{}", s.type, s.n, s.swizzle,
                           s.a_mn_major ? "M" : "K", s.b_mn_major ? "N" : "K"));
  const int size = sizeof(T), step = 32 / size;
  const int depth = s.swizzle ? std::max(s.swizzle, 64) / size : 2 * step, steps = depth / step;
  Buffer<T> a = random_matrix<T>(64, depth, 3), b = random_matrix<T>(s.n, depth, 4);
  Buffer<C> c(static_cast<std::size_t>(64 * s.n), C(-99));
  const int b_offset = 16384;

  // A piece is what one box holds: K-major rows x swizzle bytes of k, MN-major all k x swizzle
  // bytes of the rows.
  const int piece = (s.swizzle ? s.swizzle : 16) / size;
  std::vector<std::string> loads;
  const auto operand = [&](std::string_view map, bool mn_major, int rows, int offset) {
    const int inner = mn_major ? rows : depth, outer = mn_major ? depth : rows;
    for (int p = 0; p < inner / piece; ++p)
      loads.push_back(load(map, static_cast<int>(loads.size()), offset + p * piece * size * outer,
                           p * piece, 0));
    // Strides: PTX ISA, matrix descriptor.
    struct {
      int lbo, sbo;
      std::string step;
    } d;
    const int piece_bytes = piece * size * outer, pattern = s.swizzle ? 8 * s.swizzle : 128;
    if (s.swizzle)
      d.lbo = mn_major ? piece_bytes : 16, d.sbo = pattern;
    else if (mn_major)
      d.lbo = 128, d.sbo = piece_bytes;
    else
      d.lbo = piece_bytes, d.sbo = 128;
    for (int k = 0; k < steps; ++k) {
      int bytes = 0;
      if (mn_major)
        bytes = k * step / 8 * pattern;
      else if (s.swizzle)
        bytes = k * 32 / s.swizzle * piece_bytes + k * 32 % s.swizzle;
      else
        bytes = k * 2 * piece_bytes;
      d.step += (k ? ", " : "") + std::to_string(bytes);
    }
    return d;
  };
  const auto da = operand("%a", s.a_mn_major, 64, 0),
             db = operand("%b", s.b_mn_major, s.n, b_offset);
  std::string text = load_prologue(fmt::format("kernel @w simt target(sm_90a) threads(128) "
                                               "smem(65552) (%a: tmap, %b: tmap, %c: ptr<{}>) {{",
                                               name(dtype_of<C>)),
                                   (64 + s.n) * depth * size, loads);
  text += fmt::format(R"(
  %b_off = const [value = {}] : i32
  %b_at = add %base, %b_off
  %da = smem_desc %base [lbo = {}, sbo = {}, swizzle = {}]
  %db = smem_desc %b_at [lbo = {}, sbo = {}, swizzle = {}]
  %none = poison : v<{}x{}>
  %false = const [value = 0] : i1
  wgmma_fence
  %p = wgmma %none, %da, %db, %false [shape = [64, {}, {}], a_type = "{}", b_type = "{}", trans_a = {}, trans_b = {}, step_a = [{}], step_b = [{}]]
  wgmma_commit
  %acc = wgmma_wait %p [count = 0] : v<{}x{}>
)",
                      b_offset, da.lbo, da.sbo, s.swizzle, db.lbo, db.sbo, s.swizzle, s.n / 2,
                      name(dtype_of<C>), s.n, step, s.type, s.type, int(s.a_mn_major),
                      int(s.b_mn_major), da.step, db.step, s.n / 2, name(dtype_of<C>));
  text += store_tile(s.n, name(dtype_of<C>)) + "}\n";

  const auto box = [&](bool mn_major, Buffer<T>& m, int rows) {
    const int inner = mn_major ? rows : depth, outer = mn_major ? depth : rows;
    return matrix_map(m, outer, inner, outer, piece, s.swizzle);
  };
  const auto ma = box(s.a_mn_major, a, 64), mb = box(s.b_mn_major, b, s.n);
  Launch1 l;
  l.options.ranges = {{a.data(), a.data() + a.size()}, {b.data(), b.data() + b.size()}};
  l.map(ma).map(mb).pointer(c);
  const Report r = l.run(parse_located(text));
  EXPECT_TRUE(r.clean()) << r.str();
  EXPECT_EQ(wrong_elements(s, a, b, c, depth), 0);
}

TEST(SimWgmma, KMajorEverySwizzle) {
  for (const int swizzle : {0, 32, 64, 128}) {
    check_wgmma<bf16, float>({"bf16", 64, swizzle});
    check_wgmma<f16, float>({"f16", 24, swizzle});
    check_wgmma<float, float>({"tf32", 48, swizzle});
    check_wgmma<f8e4m3, float>({"f8e4m3", 96, swizzle});
    check_wgmma<f8e5m2, float>({"f8e5m2", 8, swizzle});
    check_wgmma<std::int8_t, std::int32_t>({"i8", 32, swizzle});
    check_wgmma<std::uint8_t, std::int32_t>({"u8", 64, swizzle});
  }
}

TEST(SimWgmma, MnMajorEverySwizzle) {
  for (const int swizzle : {0, 32, 64, 128}) {
    check_wgmma<bf16, float>({"bf16", 128, swizzle, true, false});
    check_wgmma<bf16, float>({"bf16", 128, swizzle, false, true});
    check_wgmma<f16, float>({"f16", 64, swizzle, true, true});
  }
}

TEST(SimWgmma, AccumulatorsOfHalfPrecision) { check_wgmma<f16, f16>({"f16", 64, 128}); }

// ---- mma.sync through ldmatrix ------------------------------------------------------------------

/// C[16][8] of one warp over `steps` k steps, fragments by ldmatrix (which moves bytes, so it
/// serves every element type).
template <class T, class C>
void check_mma(std::string_view type, int k, int steps) {
  SCOPED_TRACE(fmt::format("{} k {} x {}", type, k, steps));
  const int depth = k * steps, row = depth * static_cast<int>(sizeof(T));
  Buffer<T> a = random_matrix<T>(16, depth, 5), b = random_matrix<T>(8, depth, 6);
  Buffer<C> c(128, C(-99));
  const int a_num = k * static_cast<int>(sizeof(T)) == 32 ? 4 : 2, b_num = a_num / 2;
  std::string text = load_prologue(fmt::format("kernel @m simt target(sm_80) threads(32) "
                                               "smem(65552) (%a: tmap, %b: tmap, %c: ptr<{}>) {{",
                                               name(dtype_of<C>)),
                                   24 * row, {load("%a", 0, 0, 0, 0), load("%b", 1, 8192, 0, 0)});
  // Lane l gives row (l & 15) of A and 16-byte piece l >> 4; row (l & 7) of B and piece (l >> 3)
  // & 1.
  text += fmt::format(R"(
  %ln = lane_id
  %f15 = const [value = 15] : i32
  %f7 = const [value = 7] : i32
  %n1 = const [value = 1] : i32
  %n3 = const [value = 3] : i32
  %n4 = const [value = 4] : i32
  %pitch = const [value = {}] : i32
  %ra = and %ln, %f15
  %rab = mul %ra, %pitch
  %ca = shr %ln, %n4
  %cab = shl %ca, %n4
  %oa = add %rab, %cab
  %aa = add %base, %oa
  %rb = and %ln, %f7
  %rbb = mul %rb, %pitch
  %cb0 = shr %ln, %n3
  %cb = and %cb0, %n1
  %cbb = shl %cb, %n4
  %ob = add %rbb, %cbb
  %b_off = const [value = 8192] : i32
  %b_at = add %base, %b_off
  %ab = add %b_at, %ob
)",
                      row);
  std::string as, bs;
  for (int s = 0; s < steps; ++s) {
    text += fmt::format(
        "  %st{0} = const [value = {1}] : i32\n  %as{0} = add %aa, %st{0}\n  %bs{0} = add %ab, "
        "%st{0}\n",
        s, s * k * static_cast<int>(sizeof(T)));
    as += (s ? ", %as" : "%as") + std::to_string(s);
    bs += (s ? ", %bs" : "%bs") + std::to_string(s);
  }
  text += fmt::format(R"(
  %al = concat {}
  %bl = concat {}
  %fa = ldmatrix %al [num = {}]
  %fb = ldmatrix %bl [num = {}]
  %c0 = const [value = 0] : v<4x{}>
  %acc = mma %fa, %fb, %c0 [shape = [16, 8, {}], a_type = "{}", b_type = "{}", tiles = [1, 1, {}]]
)",
                      as, bs, a_num, b_num, name(dtype_of<C>), k, type, type, steps);
  text += store_tile(8, name(dtype_of<C>)) + "}\n";
  const auto ma = matrix_map(a, 16, depth, 16, depth, 0), mb = matrix_map(b, 8, depth, 8, depth, 0);
  Launch1 l;
  l.options.ranges = {{a.data(), a.data() + a.size()}, {b.data(), b.data() + b.size()}};
  l.map(ma).map(mb).pointer(c);
  const Report r = l.run(parse_located(text));
  EXPECT_TRUE(r.clean()) << r.str();
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n)
      EXPECT_EQ(static_cast<double>(c[static_cast<std::size_t>(m * 8 + n)]),
                expected(a, false, b, false, m, n, 16, 8, depth))
          << m << "," << n;
}

TEST(SimMma, EveryElementType) {
  check_mma<bf16, float>("bf16", 16, 1);
  check_mma<bf16, float>("bf16", 16, 4);
  check_mma<f16, float>("f16", 8, 2);
  check_mma<float, float>("tf32", 8, 2);
  check_mma<f8e4m3, float>("f8e4m3", 32, 2);
  check_mma<std::int8_t, std::int32_t>("i8", 32, 2);
}

// A in registers by ldmatrix, two MMAs into one accumulator in flight.
TEST(SimWgmma, AFromRegistersBackToBack) {
  Buffer<bf16> a = random_matrix<bf16>(64, 32, 8), b = random_matrix<bf16>(16, 32, 9);
  Buffer<float> c(64 * 16, -99.0f);
  std::string text = load_prologue(
      "kernel @r simt target(sm_90a) threads(128) smem(65552) (%a: tmap, %b: tmap, %c: ptr<f32>) {",
      80 * 64, {load("%a", 0, 0, 0, 0), load("%b", 1, 8192, 0, 0)});
  text += R"(
  %ln = lane_id
  %wp = warp_id
  %f15 = const [value = 15] : i32
  %n4 = const [value = 4] : i32
  %row_bytes = const [value = 64] : i32
  %half = const [value = 32] : i32
  %ra = and %ln, %f15
  %w0 = shl %wp, %n4
  %rw = add %w0, %ra
  %rb = mul %rw, %row_bytes
  %ck = shr %ln, %n4
  %cb = shl %ck, %n4
  %of = add %rb, %cb
  %a0 = add %base, %of
  %a1 = add %a0, %half
  %as = concat %a0, %a1
  %fr0 = ldmatrix %as [num = 4]
  %b_off = const [value = 8192] : i32
  %b_at = add %base, %b_off
  %db = smem_desc %b_at [lbo = 16, sbo = 512, swizzle = 64]
  %zeros = const [value = 2.0] : v<8xf32>
  %true = const [value = 1] : i1
  %z0, %fr = wgmma_fence %zeros, %fr0
  %p0 = wgmma %z0, %fr, %db, %true [shape = [64, 16, 16], a_type = "bf16", b_type = "bf16", step_a = [0, 0], step_b = [0, 32]]
  %p1 = wgmma %p0, %fr, %db, %true [shape = [64, 16, 16], a_type = "bf16", b_type = "bf16", step_a = [0, 0], step_b = [0, 32]]
  wgmma_commit
  %acc = wgmma_wait %p1, %fr [count = 0] : v<8xf32>
)";
  text += store_tile(16, "f32") + "}\n";
  const auto ma = matrix_map(a, 64, 32, 64, 32, 0), mb = matrix_map(b, 16, 32, 16, 32, 64);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    Launch1 l;
    l.options.seed = seed;
    l.options.ranges = {{a.data(), a.data() + a.size()}, {b.data(), b.data() + b.size()}};
    l.map(ma).map(mb).pointer(c);
    const Report r = l.run(parse_located(text));
    EXPECT_TRUE(r.clean()) << r.str();
    for (int m = 0; m < 64; ++m)
      for (int n = 0; n < 16; ++n)
        EXPECT_EQ(c[static_cast<std::size_t>(m * 16 + n)],
                  2 + 2 * expected(a, false, b, false, m, n, 64, 16, 32));
  }
}

// A box that hangs over two edges of a three-dimensional tensor.
TEST(SimTma, OutsideElementsAreFilled) {
  Buffer<float> x(5 * 6 * 8);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  auto m = matrix_map(x, 6, 8, 4, 8, 32);
  m.rank = 3;
  m.dims[2] = 5;
  m.strides[2] = 6 * 8 * 4;
  m.box[2] = 2;
  Buffer<float> out(64, -1.0f);
  std::string text = load_prologue(
      "kernel @f simt target(sm_90a) threads(64) smem(65552) (%a: tmap, %c: ptr<f32>) {", 256, {});
  text = replaced(text, "  } {\n  }\n  mbar_wait",
                  "    %x0 = const [value = 4] : i32\n    %x1 = const [value = -2] : i32\n"
                  "    tma_load %a, %base, %bar, %x0, %x1, %x0\n  } {\n  }\n  mbar_wait");
  // Undo the 32-byte swizzle: bit 4 of the byte address is xored with bit 7.
  text += R"(
  %four = const [value = 4] : i32
  %seven = const [value = 7] : i32
  %b = mul %tid, %four
  %hi = shr %b, %seven
  %flip = shl %hi, %four
  %low = and %flip, %sixteen
  %at0 = xor %b, %low
  %at = add %base, %at0
  %v = ld_shared %at [width = 1] : f32
  %p = addptr %c, %tid
  st_global %p, %v [width = 1]
})";
  text = replaced(text, "  %zero =", "  %sixteen = const [value = 16] : i32\n  %zero =");
  Launch1 l;
  l.options.ranges = {{x.data(), x.data() + x.size()}};
  const Report r = l.map(m).pointer(out).run(parse_located(text));
  EXPECT_TRUE(r.clean()) << r.str();
  for (int plane = 0; plane < 2; ++plane)
    for (int row = 0; row < 4; ++row)
      for (int column = 0; column < 8; ++column) {
        const int z = 4 + plane, y = row - 2, c = 4 + column;
        const float got = out[static_cast<std::size_t>((plane * 4 + row) * 8 + column)];
        const bool is_inside = z < 5 && y >= 0 && c < 8;
        EXPECT_EQ(got, is_inside ? static_cast<float>((z * 6 + y) * 8 + c) : 0)
            << plane << row << column;
      }
}

TEST(SimMma, TransposedLdMatrixAndStMatrixAreInverse) {
  // stmatrix of lane numbers, then ldmatrix.trans: lane 4a + b, half h must hold element (2b + h,
  // a).
  const ir::Kernel k = parse_located(R"(
kernel @t simt target(sm_90a) threads(32) smem(128) (%c: ptr<i32>) {
  %zero = const [value = 0] : i32
  %l = lane_id
  %two = const [value = 2] : i32
  %one = const [value = 1] : i32
  %c16 = const [value = 16] : i32
  %seven = const [value = 7] : i32
  %e0 = mul %l, %two
  %e1 = add %e0, %one
  %hi = shl %e1, %c16
  %v = or %hi, %e0
  %row = and %l, %seven
  %off = mul %row, %c16
  %base = smem_base
  %at = add %base, %off
  %reg = concat %v
  stmatrix %at, %reg [num = 1]
  bar_sync %zero
  %t = ldmatrix %at [num = 1, trans = 1]
  %p = addptr %c, %l
  st_global %p, %t [width = 1]
})");
  Buffer<std::int32_t> c(32);
  Launch1 l;
  const Report r = l.pointer(c).run(k);
  EXPECT_TRUE(r.clean()) << r.str();
  for (int lane = 0; lane < 32; ++lane) {
    const int a = lane / 4, b = lane % 4;
    const int low = 8 * (2 * b) + a,
              high = 8 * (2 * b + 1) + a;  // element (row, column) holds 8 * row + column
    EXPECT_EQ(c[static_cast<std::size_t>(lane)], high << 16 | low) << lane;
  }
}

/// Four of the eight rows that ldmatrix transposes are written: the odd ones are not, so each
/// register is half defined. Stores half `half` of each.
std::string half_written(int half) {
  return replaced(R"(
kernel @h simt target(sm_90a) threads(32) smem(256) (%c: ptr<bf16>) {
  %zero = const [value = 0] : i32
  %l = lane_id
  %one = const [value = 1] : i32
  %c16 = const [value = 16] : i32
  %four = const [value = 4] : i32
  %seven = const [value = 7] : i32
  %base = smem_base
  %row = and %l, %seven
  %off = mul %row, %c16
  %at = add %base, %off
  %two = const [value = 2] : i32
  %odd = and %l, %one
  %is_even = cmp %odd, %zero [pred = "eq"]
  %l4 = mul %l, %four
  %v = concat %l, %l, %l, %l
  %few = cmp %l, %seven [pred = "le"]
  %stores = and %is_even, %few
  st_shared %at, %v, %stores [width = 4]
  bar_sync %zero
  %t = ldmatrix %at [num = 1, trans = 1]
  %e = repack %t : v<2xbf16>
  %packed = repack %e : v<1xi32>
  %there = const [value = 128] : i32
  %beside = add %at, %there
  stmatrix %beside, %packed [num = 1, trans = 1]
  bar_sync %zero
  %again = ldmatrix %beside [num = 1, trans = 1]
  %back = repack %again : v<2xbf16>
  %x = regs %back [indices = [{H}]]
  %p = addptr %c, %l
  st_global %p, %x [width = 1]
})",
                  "{H}", std::to_string(half));
}

TEST(SimMma, HalvesOfARegisterAreDefinedOnTheirOwn) {
  Buffer<bf16> c(32);
  const Report sound = Launch1().pointer(c).run(parse_located(half_written(0)));
  EXPECT_TRUE(sound.clean()) << sound.str();
  const Report faulty = Launch1().pointer(c).run(parse_located(half_written(1)));
  EXPECT_NE(faulty.str().find("uninitialised"), std::string::npos) << faulty.str();
}

/// Two warps write `value` to the same place by one instruction; %none is undefined.
std::string written_twice(const std::string& value) {
  return replaced(R"(
kernel @w simt target(sm_90a) threads(64) smem(256) () {
  %zero = const [value = 0] : i32
  %l = lane_id
  %w = warp_id
  %c16 = const [value = 16] : i32
  %seven = const [value = 7] : i32
  %base = smem_base
  %row = and %l, %seven
  %off = mul %row, %c16
  %at = add %base, %off
  %none = ldmatrix %at [num = 1, trans = 0]
  %there = const [value = 128] : i32
  %beside = add %at, %there
  %second = cmp %w, %zero [pred = "ne"]
  %one_side = select %second, %l, %none
  %v = concat {V}
  stmatrix %beside, %v [num = 1, trans = 0]
})",
                  "{V}", value);
}

TEST(SimMma, CopiesMayWriteTheSameUndefinedPadding) {
  const Report sound = Launch1().run(parse_located(written_twice("%none")));
  EXPECT_TRUE(sound.clean()) << sound.str();
  const Report faulty = Launch1().run(parse_located(written_twice("%one_side")));
  EXPECT_NE(faulty.str().find("shared-race"), std::string::npos) << faulty.str();
}

}  // namespace
}  // namespace tegula::sim::sim_matrix_test
