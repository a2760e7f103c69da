// NVRTC compiles the output of the CUDA C++ emitter: every elementwise op on every element type,
// every conversion, every family of simt ops, and the handwritten Hopper kernels, which must keep
// their registers and their asynchrony.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "codegen/emit.h"
#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/nvrtc.h"
#include "support/text.h"
#include "tegula/error.h"

namespace tegula::runtime::cuda_source_test {
namespace {

using ir::AttrName;
using ir::Opcode;
using ir::Type;
using ir::Value;

#define NEEDS_NVRTC() \
  if (std::string why; !find_nvrtc(&why)) GTEST_SKIP() << why

NvrtcResult compile(const ir::Kernel& k) {
  ir::verify_or_throw(k);
  const std::string source = codegen::emit_cuda(k).source;
  try {
    const NvrtcResult r =
        compile_cuda({source, k.info.name + ".cu", std::string(k.info.target.name()), {}});
    EXPECT_TRUE(r.report.is_clean()) << r.report.defects() << "\n" << r.log << source;
    return r;
  } catch (const InternalError& e) {
    ADD_FAILURE() << e.what() << "\n" << source;
    return {};
  }
}

NvrtcResult compile(std::string_view text) { return compile(ir::parse(text)); }

NvrtcResult compile_file(const std::string& name) {
  return compile(ir::parse(read_file(std::filesystem::path(TEGULA_SOURCE_DIR) / name), name));
}

// ---- elementwise --------------------------------------------------------------------------------

/// Returns the types that an op supports.
enum class On { Integers, Floats, Numbers, F32 };
struct Case {
  Opcode op;
  int operands;
  On on;
  std::vector<ir::AttrInit> attrs = {};
};

std::vector<Case> elementwise_cases() {
  const auto pred = [](const char* p) { return std::vector<ir::AttrInit>{{AttrName::pred, p}}; };
  const std::vector<ir::AttrInit> approx{{AttrName::approx, 1}},
      propagate{{AttrName::nan, "propagate"}};
  return {{Opcode::Add, 2, On::Numbers},
          {Opcode::Sub, 2, On::Numbers},
          {Opcode::Mul, 2, On::Numbers},
          {Opcode::Div, 2, On::Numbers},
          {Opcode::Rem, 2, On::Integers},
          {Opcode::MulHi, 2, On::Integers},
          {Opcode::Fma, 3, On::Numbers},
          {Opcode::Min, 2, On::Numbers},
          {Opcode::Max, 2, On::Numbers},
          {Opcode::Min, 2, On::Floats, propagate},
          {Opcode::Max, 2, On::Floats, propagate},
          {Opcode::Neg, 1, On::Numbers},
          {Opcode::Abs, 1, On::Numbers},
          {Opcode::And, 2, On::Integers},
          {Opcode::Or, 2, On::Integers},
          {Opcode::Xor, 2, On::Integers},
          {Opcode::Not, 1, On::Integers},
          {Opcode::Shl, 2, On::Integers},
          {Opcode::Shr, 2, On::Integers},
          {Opcode::Popc, 1, On::Integers},
          {Opcode::Clz, 1, On::Integers},
          {Opcode::Cmp, 2, On::Numbers, pred("lt")},
          {Opcode::Cmp, 2, On::Numbers, pred("ne")},
          {Opcode::Sqrt, 1, On::Floats},
          {Opcode::Rcp, 1, On::Floats},
          {Opcode::Div, 2, On::Floats, approx},
          {Opcode::Floor, 1, On::Floats},
          {Opcode::Ceil, 1, On::Floats},
          {Opcode::Round, 1, On::Floats},
          {Opcode::Trunc, 1, On::Floats},
          {Opcode::Exp2, 1, On::F32},
          {Opcode::Log2, 1, On::F32},
          {Opcode::Rsqrt, 1, On::F32},
          {Opcode::TanhApprox, 1, On::F32},
          {Opcode::SinApprox, 1, On::F32},
          {Opcode::CosApprox, 1, On::F32},
          {Opcode::Sqrt, 1, On::F32, approx},
          {Opcode::Rcp, 1, On::F32, approx}};
}

bool applies(On on, DType d) {
  if (is_bool(d)) return false;
  if (on == On::Integers) return is_integer(d);
  if (on == On::Floats) return is_float(d);
  return on == On::Numbers ||
         (is_float(d) && d != DType::f64);  // F32: also the narrow ones, which compute in f32
}

/// A kernel with every elementwise op on scalars and on v<4> of the type, some with a constant
/// operand.
ir::Kernel elementwise_kernel(DType d) {
  ir::Kernel k("ops_" + std::string(name(d)), ir::Form::Simt);
  k.info.threads = 32;
  ir::Builder b(k);
  const Value p = k.add_param("p", Type::pointer(d)), out = k.add_param("out", Type::pointer(d));
  const Value index = b.op(Opcode::Tid, {});
  const Value at = b.op(Opcode::AddPtr, {p, index});
  for (const Type t : {Type::scalar(d), Type::vec({d, false}, 4)}) {
    const Value addresses = t.is_vec() ? b.op(Opcode::Concat, {at, p, at, p}) : at;
    std::vector<Value> x;
    for (int i = 0; i < 3; ++i)
      x.push_back(b.op(Opcode::LdGlobal, {addresses}, t, {{AttrName::width, 1}}));
    for (const Case& c : elementwise_cases()) {
      if (!applies(c.on, d)) continue;
      ir::AttrList attrs;
      for (const ir::AttrInit& a : c.attrs) attrs.set(a.name, a.value);
      const ir::OpId op =
          b.create(c.op, std::span(x).first(static_cast<std::size_t>(c.operands)), attrs);
      const Value v = k[op].results[0];
      const Value to = t.is_vec() ? b.op(Opcode::Concat, {out, out, out, out}) : out;
      if (!is_bool(k.type(v).dtype())) {
        b.effect(Opcode::StGlobal, {to, v}, {{AttrName::width, 1}});
        continue;
      }
      const Value chosen = b.op(Opcode::Select, {v, x[0], x[1]});
      b.effect(Opcode::StGlobal, {to, chosen}, {{AttrName::width, 1}});
    }
  }
  return k;
}

TEST(CudaSource, EveryElementwiseOpOnEveryType) {
  NEEDS_NVRTC();
  for (const DTypeInfo& t : kDTypeInfo)
    if (!is_bool(t.dtype)) compile(elementwise_kernel(t.dtype));
}

TEST(CudaSource, EveryConversion) {
  NEEDS_NVRTC();
  for (const DTypeInfo& from : kDTypeInfo) {
    ir::Kernel k("from_" + std::string(from.name), ir::Form::Simt);
    k.info.threads = 32;
    ir::Builder b(k);
    const Value p = k.add_param("p", Type::pointer(from.dtype));
    const Value x =
        b.op(Opcode::LdGlobal, {p}, Type::vec({from.dtype, false}, 8 / size_bytes(from.dtype)),
             {{AttrName::width, 8 / size_bytes(from.dtype)}});
    const Value one = b.op(Opcode::Regs, {x}, {{AttrName::indices, ir::Ints{0}}});
    for (const DTypeInfo& to : kDTypeInfo) {
      const Value out = k.add_param("to_" + std::string(to.name), Type::pointer(to.dtype));
      b.effect(Opcode::StGlobal, {out, b.op(Opcode::Cast, {one}, Type::scalar(to.dtype))});
      const Value all = b.op(Opcode::Cast, {x}, k.type(x).with_dtype(to.dtype));
      const Value last =
          b.op(Opcode::Regs, {all}, {{AttrName::indices, ir::Ints{k.type(x).count() - 1}}});
      b.effect(Opcode::StGlobal, {out, last});
      if (is_bool(from.dtype) || is_bool(to.dtype)) continue;
      b.effect(Opcode::StGlobal,
               {out, b.op(Opcode::Cast, {one}, Type::scalar(to.dtype), {{AttrName::sat, 1}})});
      if (is_float(to.dtype) && size_bits(to.dtype) > 8)
        b.effect(Opcode::StGlobal, {out, b.op(Opcode::Cast, {one}, Type::scalar(to.dtype),
                                              {{AttrName::round, "rz"}})});
      if (size_bits(to.dtype) == size_bits(from.dtype))
        b.effect(Opcode::StGlobal, {out, b.op(Opcode::Bitcast, {one}, Type::scalar(to.dtype))});
    }
    compile(k);
  }
}

TEST(CudaSource, ConstantsOfEveryType) {
  NEEDS_NVRTC();
  ir::Kernel k("constants", ir::Form::Simt);
  k.info.threads = 32;
  ir::Builder b(k);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const DTypeInfo& t : kDTypeInfo) {
    const Value out = k.add_param("out_" + std::string(t.name), Type::pointer(t.dtype));
    const auto put = [&](Value v) { b.effect(Opcode::StGlobal, {out, v}); };
    if (is_float(t.dtype)) {
      for (double v : {0.0, -0.0, 1.0, 0.1, -1e-30, 3e38, kInf, -kInf, std::nan("")})
        put(b.constant(Type::scalar(t.dtype), v));
    } else {
      for (std::int64_t v :
           {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1},
            std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(),
            std::int64_t{1} << 31, std::int64_t{-1} << 31})
        put(b.constant(Type::scalar(t.dtype), v));
    }
  }
  compile(k);
}

// ---- families -----------------------------------------------------------------------------------

TEST(CudaSource, Registers) {
  NEEDS_NVRTC();
  compile(
      R"(kernel @registers simt target(sm_90a) threads(128) (%p: ptr<i32>, %h: ptr<bf16>, %b: ptr<i8>) {
    %tid = tid  %lane = lane_id  %warp = warp_id  %cx = ctaid [axis = 0]  %ny = nctaid [axis = 1]
    %x = ld_global %h [width = 8] : v<8xbf16>
    %w = repack %x : v<4xi32>
    %l = repack %w : v<2xi64>
    %back = repack %l : v<8xbf16>
    %bytes = repack %w : v<16xu8>
    %one = const [value = 1] : i32
    %s = shfl %w, %one [mode = "xor"]
    %s1 = shfl %s, %lane [mode = "idx"]
    %s2 = shfl %s1, %one [mode = "up"]
    %s3 = shfl %s2, %one [mode = "down"]
    %odd = regs %s3, %w [indices = [1, 7, 0, 5]]
    %cat = concat %odd, %tid, %warp, %cx, %ny
    %is = cmp %lane, %one [pred = "lt"]
    %any = vote %is [kind = "any"]
    %all = vote %is [kind = "all"]
    %ballot = vote %is [kind = "ballot"]
    %t = and %any, %all
    %u = and %t, %is
    %bits = bitcast %ballot : i32
    if %u { st_global %p, %cat [width = 4]  st_global %p, %bits } { }
    st_global %h, %back [width = 8]
    %c = regs %bytes [indices = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]]
    %cs = cast %c : v<16xi8>
    st_global %b, %cs [width = 16]
  })");
}

TEST(CudaSource, MemoryOfEveryWidth) {
  NEEDS_NVRTC();
  std::string ops, parameters = "%pred: i1, %base: i32";
  for (const DTypeInfo& t : kDTypeInfo) {
    const std::string d(t.name);
    parameters += ", %p_" + d + ": ptr<" + d + ">";
    for (int width = 1; width * size_bytes(t.dtype) <= 16; width *= 2) {
      const std::string n = d + "_" + std::to_string(width), w = std::to_string(width);
      const std::string type = "v<" + w + "x" + d + ">";
      ops += "%a" + n + " = ld_global %p_" + d + " [width = " + w +
             ", cache = \"cg\", evict = \"first\"] : " + type + "\n";
      ops += "st_global %p_" + d + ", %a" + n + ", %pred [width = " + w + "]\n";
      ops += "%b" + n + " = ld_global %p_" + d + ", %pred, %a" + n + " [width = " + w +
             "] : " + type + "\n";
      ops += "st_shared %base, %b" + n + " [width = " + w + "]\n";
      ops += "%c" + n + " = ld_shared %base, %pred [width = " + w + "] : " + type + "\n";
      ops += "st_global %p_" + d + ", %c" + n + " [width = " + w + ", evict = \"last\"]\n";
    }
  }
  compile("kernel @memory simt target(sm_90a) threads(32) smem(1024) (" + parameters + ") {\n" +
          ops + "}");
}

TEST(CudaSource, AtomicsAndAsynchronousCopies) {
  NEEDS_NVRTC();
  compile(
      R"(kernel @atomics simt target(sm_90a) threads(128) smem(4096) (%p: ptr<i32>, %f: ptr<f32>, %h: ptr<bf16>, %u: ptr<u32>, %go: i1) {
    %base = smem_base
    %last = const [value = 7] : u32
    %round = atom_global %u, %last, %go [kind = "inc", sem = "relaxed", scope = "gpu"]
    st_global %u, %round
    %one = const [value = 1] : i32
    %x = const [value = 1.0] : f32
    %y = const [value = 1.0] : bf16
    %old = atom_global %p, %one [kind = "add", sem = "acq_rel", scope = "gpu"]
    %old2 = atom_global %p, %old, %go [kind = "max", sem = "relaxed", scope = "gpu"]
    %unused = atom_global %f, %x [kind = "add", sem = "release", scope = "sys"]
    %extreme = atom_global %f, %x, %go [kind = "max", sem = "relaxed", scope = "gpu"]
    %narrow = atom_global %h, %y [kind = "add", sem = "relaxed", scope = "gpu"]
    %swapped = atom_global %p, %old2 [kind = "xchg", sem = "acquire", scope = "gpu"]
    %zero = const [value = 0] : i32
    %sixteen = const [value = 16] : i32
    %steps = concat %zero, %sixteen
    %to = add %steps, %base
    %four = const [value = 4] : i32
    %elements = div %steps, %four
    %from = addptr %p, %elements
    cp_async %to, %from [bytes = 16, cache = "cg"]
    cp_async %to, %from, %go [bytes = 4, cache = "ca"]
    cp_async_commit
    cp_async_wait [count = 0]
    bar_sync %zero [count = 128]
    st_global %p, %swapped
    st_global %f, %extreme
  })");
}

TEST(CudaSource, MmaOfTheOlderPath) {
  NEEDS_NVRTC();
  for (const char* target : {"sm_80", "sm_90a"})
    compile(std::string("kernel @mma simt target(") + target +
            R"() threads(128) smem(16384) (%p: ptr<f32>, %n: i32) {
    %base = smem_base
    %lane = lane_id
    %sixteen = const [value = 16] : i32
    %off = mul %lane, %sixteen
    %row = add %base, %off
    %k = const [value = 512] : i32
    %zero = const [value = 0] : i32
    %one = const [value = 1] : i32
    %halves = concat %zero, %k
    %rows = add %halves, %row
    %c0 = const [value = 0.0] : v<16xf32>
    %c = for %zero, %n, %one, %c0 : v<16xf32> { (%i: i32, %acc: v<16xf32>)
      %a = ldmatrix %rows [num = 4]
      %b = ldmatrix %row [num = 4, trans = 1]
      %d = mma %a, %b, %acc [shape = [16, 8, 16], a_type = "bf16", b_type = "bf16", tiles = [2, 2, 1]]
      yield %d
    }
    st_global %p, %c0 [width = 4]
    %part = regs %c [indices = [12, 13, 14, 15]]
    st_global %p, %part [width = 4]
  })");
}

TEST(CudaSource, InlinePtx) {
  NEEDS_NVRTC();
  compile(
      R"(kernel @inline_ptx simt target(sm_90a) threads(32) (%p: ptr<f32>, %h: ptr<bf16>, %x: f32) {
    %y = asm %x, %x [text = "fma.rn.f32 $0, $1, $2, $1;", constraints = "=f,f,f"] : f32
    %z = asm %y, %y [text = "add.rn.f32 $0, $0, $2;", constraints = "=f,0,f", effects = 1] : f32
    st_global %p, %z
    %v = ld_global %h [width = 4] : v<4xbf16>
    %w = asm %v [text = "{ mov.b32 $0, $3; mov.b32 $1, $2; }", constraints = "=&r,=&r,r,r"] : v<4xbf16>
    st_global %h, %w [width = 4]
    asm [text = "membar.gl;", constraints = "", effects = 1]
  })");
}

TEST(CudaSource, StructuredControl) {
  NEEDS_NVRTC();
  compile(R"(kernel @control simt target(sm_90a) threads(64) (%p: ptr<i32>, %n: i32) {
    %zero = const [value = 0] : i32
    %one = const [value = 1] : i32
    %four = const [value = 4] : i32
    %u = for %zero, %four, %one, %zero : i32 { (%i: i32, %s: i32)
      %t = add %s, %i
      yield %t
    }
    %w, %c = while %u, %zero : i32, i32 { (%a: i32, %k: i32)
      %old = ld_global %p : i32
      %more = cmp %old, %k [pred = "gt"]
      yield %more
    } { (%a2: i32, %k2: i32)
      %next = add %k2, %one
      yield %k2, %next
    }
    %is = cmp %w, %n [pred = "lt"]
    %r = if %is : i32 { %q = add %w, %c  yield %q } { yield %zero }
    pin
    st_global %p, %r
    if %is { } { trap }
  })");
}

/// The texts of the LLVM emitter's tests.
TEST(CudaSource, EveryTextOfTheOtherEmitter) {
  NEEDS_NVRTC();
  int texts = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(TEGULA_SOURCE_DIR "/tests/filetests/emit")) {
    if (entry.path().extension() != ".tir") continue;
    SCOPED_TRACE(entry.path().filename());
    ++texts;
    compile(ir::parse(read_file(entry.path()), entry.path().string()));
  }
  EXPECT_GT(texts, 5);
}

// ---- the handwritten Hopper kernels -------------------------------------------------------------

class CudaHopper : public ::testing::TestWithParam<const char*> {};

TEST_P(CudaHopper, KeepsItsRegistersAndItsAsynchrony) {
  NEEDS_NVRTC();
  const NvrtcResult r = compile_file(std::string("tests/filetests/g0/") + GetParam() + ".tir");
  EXPECT_EQ(r.report.registers, 168) << r.log;
  EXPECT_TRUE(r.report.codes.empty()) << r.log;
}
INSTANTIATE_TEST_SUITE_P(G0, CudaHopper, ::testing::Values("gemm", "attention"));

}  // namespace
}  // namespace tegula::runtime::cuda_source_test
