// Benchmark cases, and their C interface.
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/attention_cases.h"
#include "bench/bench.h"
#include "bench/choices.h"
#include "bench/ladder.h"
#include "codegen/emit.h"
#include "ir/text.h"
#include "runtime/assemble.h"
#include "runtime/jit.h"
#include "runtime/launch.h"
#include "runtime/nvrtc.h"
#include "runtime/tensor_map.h"
#include "support/text.h"
#include "tegula/device_profile.h"
#include "tegula/error.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/kv_cache.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/matmul.h"
#include "tegula/kernels/vector_add.h"
#include "tegula/tegula.h"
#include "tegula/tune.h"
#include "tools/workload/attention_pairs.h"

namespace tegula::bench {
using namespace kernels;
namespace {

/// The hand-written GEMM of gate G0: A [m, k], B [n, k] (transposed), C [m, n], bf16.
class HandWrittenGemm {
 public:
  HandWrittenGemm() : kernel_(ir::parse(read_file("tests/filetests/g0/gemm.tir"), "gemm.tir")) {
    std::vector<char> cubin;
    if (runtime::default_backend() == runtime::Backend::Nvrtc)
      cubin = runtime::compile_cuda({.source = codegen::emit_cuda(kernel_).source,
                                     .name = "gemm.cu",
                                     .target = std::string(kernel_.info.target.name()),
                                     .options = {}})
                  .cubin;
    else
      cubin = runtime::assemble({.ptx = codegen::emit_llvm(kernel_).ptx,
                                 .target = std::string(kernel_.info.target.name()),
                                 .options = {}})
                  .cubin;
    loaded_ = runtime::Module::load_cubin(cubin)->kernel(
        "gemm", 0, {.dynamic_shared_bytes = static_cast<unsigned>(kernel_.info.smem_bytes)});
    for (int i = 0; i < 3; ++i) layout_.add(128, 64);
    for (int i = 0; i < 4; ++i) layout_.add<std::int32_t>();
  }

  void operator()(const Stream& stream, Tensors t) const {
    const auto M = static_cast<int>(t[0].size(0)), K = static_cast<int>(t[0].size(1)),
               N = static_cast<int>(t[1].size(0));
    alignas(64) std::byte block[512];
    map(t[0], 128, block);
    map(t[1], 256, block + 128);
    map(t[2], 64, block + 256);
    const std::int32_t numbers[4] = {(K + 63) / 64, (M + 127) / 128, (N + 255) / 256, 8};
    std::memcpy(block + 384, numbers, sizeof numbers);
    runtime::LaunchShape shape;
    shape.grid = {static_cast<unsigned>(num_sms(t[0].device())), 1, 1};
    shape.block = {384, 1, 1};
    shape.shared_bytes = static_cast<unsigned>(kernel_.info.smem_bytes);
    runtime::PreparedLaunch(loaded_, shape, layout_.slots())
        .launch(static_cast<runtime::cu::Stream>(stream.handle()), block);
  }

 private:
  static void map(const Tensor& t, int rows, std::byte* out) {
    codegen::TensorMap m;
    m.base = t.data();
    m.dtype = t.dtype();
    m.swizzle = 128;
    m.dims[0] = t.size(1), m.dims[1] = t.size(0);
    m.strides[0] = 2, m.strides[1] = t.stride(0) * 2;
    m.box[0] = 64, m.box[1] = rows;
    runtime::cu::TensorMap encoded;
    runtime::encode_tensor_map(m, &encoded);
    std::memcpy(out, &encoded, 128);
  }
  ir::Kernel kernel_;
  runtime::LoadedKernel loaded_;
  runtime::ArgumentLayout layout_;
};

void run_attention(const Attention& a, const Stream& s, Tensors t) {
  if (t.size() > 4)
    a(s, t[0], t[1], t[2], t[3], t[4]);
  else
    a(s, t[0], t[1], t[2], t[3]);
}

std::vector<Case> make_cases() {
  std::vector<Case> list;
  list.push_back(
      {"vector_add", [](const Stream& s, Tensors t, double) { vector_add(s, t[0], t[1], t[2]); }});
  list.push_back({"vector_add_block", [](const Stream& s, Tensors t, double block) {
                    static const auto base =
                        kernel("vector_add", [](In<f32, 1> a, In<f32, 1> b, Out<f32, 1> c) {
                          for (auto i : grid(c, tune("B", {512, 1024, 2048, 4096, 8192}, 1024)))
                            c(i) = a(i) + b(i);
                        });
                    static std::map<int, decltype(base)> made;
                    made.try_emplace(static_cast<int>(block),
                                     base.with({{"B", static_cast<int>(block)}}))
                        .first->second(s, t[0], t[1], t[2]);
                  }});
  add_row_cases(list);
  add_device_cases(list);
  add_triton_cases(list);
  add_matmul_cases(list);
  add_ladder(list);
  add_tuned_cases(list);
  add_moe_cases(list);
  add_grouped_cases(list);
  add_serving_cases(list);
  add_choices(list);
  list.push_back({"g0_gemm", [](const Stream& s, Tensors t, double) {
                    static const HandWrittenGemm gemm;
                    gemm(s, t);
                  }});
  list.push_back({"attention_full",
                  [](const Stream& s, Tensors t, double) {
                    static const Attention full(AttentionSpec{});
                    run_attention(full, s, t);
                  },
                  [](Tensors, double) { return AttentionSpec{}; }});
  list.push_back({"attention_full_lazy", [](const Stream& s, Tensors t, double) {
                    static const Attention full({}, {}, {.rescaling = Rescaling::lazy});
                    run_attention(full, s, t);
                  }});
  list.push_back({"attention_causal_lazy", [](const Stream& s, Tensors t, double) {
                    static const Attention causal({.mask = masks::causal()}, {},
                                                  {.rescaling = Rescaling::lazy});
                    run_attention(causal, s, t);
                  }});
  list.push_back({"attention_causal",
                  [](const Stream& s, Tensors t, double) {
                    static const Attention causal({.mask = masks::causal()});
                    run_attention(causal, s, t);
                  },
                  [](Tensors, double) { return AttentionSpec{.mask = masks::causal()}; }});
  list.push_back({"attention_causal_window_alibi", [](const Stream& s, Tensors t, double window) {
                    static const auto w = static_cast<int>(window);
                    static const Attention attn(
                        {.mask = [](auto, auto, auto q, auto kv) { return q >= kv && q - kv < w; },
                         .score =
                             [](auto x, auto, auto h, auto q, auto kv) {
                               return x + exp2(cast<f32>(h + 1) * -0.5f) * cast<f32>(kv - q);
                             },
                         .kv_range = causal_range});
                    run_attention(attn, s, t);
                  }});
  for (Case& c : attention_cases()) list.push_back(std::move(c));
  return list;
}

/// Type codes of DLPack: integers, unsigned integers, floats, bfloats and booleans.
DType our_dtype(const dlpack::DataType& t) {
  constexpr struct {
    int code, bits;
    DType dtype;
  } kRows[] = {{4, 16, DType::bf16}, {2, 16, DType::f16}, {2, 32, DType::f32},
               {0, 32, DType::i32},  {0, 64, DType::i64}, {0, 8, DType::i8},
               {1, 8, DType::u8},    {1, 16, DType::u16}, {6, 8, DType::i1}};
  for (const auto& row : kRows)
    if (row.code == t.code && row.bits == t.bits) return row.dtype;
  throw CompileError(
      Diagnostic{"", "bench: a tensor has a type that no case supports", {}, {}, ""});
}

/// The caller keeps the capsules alive, so that only the descriptions are read.
std::vector<Tensor> borrowed(void* const* dlpack, int count) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < count; ++i) {
    const auto& t = static_cast<dlpack::ManagedTensor*>(dlpack[i])->tensor;
    Dims shape, strides;
    for (int d = 0; d < t.ndim; ++d) {
      shape.push_back(t.shape[d]);
      if (t.strides) strides.push_back(t.strides[d]);
    }
    const bool is_host = t.device.type == dlpack::DeviceType::cpu;
    const Device device = is_host ? Device::cpu() : Device::cuda(t.device.id);
    tensors.push_back(Tensor::borrow(static_cast<char*>(t.data) + t.byte_offset, shape,
                                     our_dtype(t.dtype), device, strides));
  }
  return tensors;
}

TegulaBenchPairs pairs_of(const Case& c, Tensors t, double number) {
  if (!c.setup)
    throw CompileError(Diagnostic{"", "bench: " + c.name + " is not attention", {}, {}, ""});
  const AttentionSetup setup = c.setup(t, number);
  const AttentionWorkload p = attention_pairs(setup.spec, t[0], t[1], t[2], setup.schedule);
  if (!p.kept)
    throw CompileError(
        Diagnostic{"", "bench: the pairs that " + c.name + " keeps are not known", {}, {}, ""});
  return {*p.kept, p.computed, p.cover, p.tiles.block_q, p.tiles.block_kv};
}

std::string json_of(const TunedDecision& d) {
  return nlohmann::json{{"family", d.family},
                        {"problem", d.problem},
                        {"default", d.by_default},
                        {"config", d.config},
                        {"was_known", d.was_known},
                        {"is_replaced", d.is_replaced},
                        {"is_low_confidence", d.is_low_confidence},
                        {"us", d.us},
                        {"ratio", d.ratio},
                        {"ratio_high", d.ratio_high},
                        {"candidates", d.candidates},
                        {"rejected", d.rejected.size()}}
      .dump();
}

thread_local std::string last_error, last_text;

/// Returns 0, or 1 after storing the text of the error.
template <class Work>
int status_of(const Work& work) {
  try {
    work();
    return 0;
  } catch (const std::exception& e) {
    last_error = e.what();
    return 1;
  }
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> list = make_cases();
  return list;
}

const Case& find_case(std::string_view name) {
  for (const Case& c : cases())
    if (c.name == name) return c;
  throw CompileError(Diagnostic{
      "", "no benchmark case is called " + std::string(name), {}, {}, "tegula bench --list"});
}

}  // namespace tegula::bench

namespace bench = tegula::bench;

extern "C" {

int tegula_bench_run(const char* name, void* const* dlpack, int count, void* stream,
                     double number) {
  return bench::status_of([&] {
    bench::find_case(name).run(tegula::Stream::wrap(stream), bench::borrowed(dlpack, count),
                               number);
  });
}

const char* tegula_bench_tune(const char* name, void* const* dlpack, int count, void* stream,
                              double number, int is_full, int any_bits) {
  const int status = bench::status_of([&] {
    const std::vector<tegula::Tensor> tensors = bench::borrowed(dlpack, count);
    tegula::TuneOptions options;
    options.budget = is_full != 0 ? tegula::TuneBudget::full : tegula::TuneBudget::quick;
    options.may_change_bits = any_bits != 0;
    const bench::Case& c = bench::find_case(name);
    bench::last_text.clear();
    for (const tegula::TunedDecision& d :
         tegula::tune([&] { c.run(tegula::Stream::wrap(stream), tensors, number); }, options))
      bench::last_text += bench::json_of(d) + "\n";
  });
  return status == 0 ? bench::last_text.c_str() : nullptr;
}

int tegula_bench_pairs(const char* name, void* const* dlpack, int count, double number,
                       TegulaBenchPairs* pairs) {
  return bench::status_of([&] {
    *pairs = bench::pairs_of(bench::find_case(name), bench::borrowed(dlpack, count), number);
  });
}

const char* tegula_bench_error() { return bench::last_error.c_str(); }

int64_t tegula_bench_schedule_words(int64_t requests) {
  std::int64_t words = -1;
  bench::status_of(
      [&] { words = tegula::kernels::schedule_words(requests, tegula::Device::cuda()); });
  return words;
}

const char* tegula_bench_compile(int repeats) {
  std::string& text = bench::last_text;
  text.clear();
  try {
    for (const std::string& line : bench::compile_figures(repeats)) text += line + "\n";
  } catch (const std::exception& e) {
    text = e.what();
  }
  return text.c_str();
}

const char* tegula_bench_launch(int rounds) {
  try {
    bench::last_text = bench::launch_figures(rounds);
  } catch (const std::exception& e) {
    bench::last_text = e.what();
  }
  return bench::last_text.c_str();
}

const char* tegula_bench_backend() {
  return tegula::runtime::default_backend() == tegula::runtime::Backend::Nvrtc ? "nvrtc" : "llvm";
}
}
