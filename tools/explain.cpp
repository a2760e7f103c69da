// tegula explain KERNEL: reports the code of the library's kernels and their hardware limits.
#include <fmt/format.h>

#include <functional>

#include "ir/schedule/carried_out.h"
#include "runtime/doctor.h"
#include "support/text.h"
#include "tegula/device_profile.h"
#include "tegula/error.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/matmul.h"
#include "tegula/kernels/norm.h"
#include "tegula/kernels/softmax.h"
#include "tegula/kernels/vector_add.h"
#include "tegula/tegula.h"
#include "tools/assembled.h"
#include "tools/commands.h"
#include "tools/one_of.h"
#include "tools/schedule_picture.h"

namespace tegula::tools {
using namespace kernels;
namespace {

/// A kernel of the library, and its work for a representative shape.
struct Subject {
  std::string name, shape;
  double bytes = 0, flops = 0;  ///< every tensor moved once; multiplications and additions of the
                                ///< algorithm
  bool tensor_cores = false;
  std::function<void()> run;  ///< a call of the same class (alignment, divisibility), small enough
                              ///< for the interpreter
  std::vector<std::string> tensors = {};  ///< argument names, for pictures
  std::string kernel = name;              ///< name of the traced kernel
};

Tensor host(const Dims& shape, DType dtype) { return Tensor::zeros(shape, dtype, Device::cpu()); }

std::vector<Subject> subjects() {
  const Stream cpu(Device::cpu());
  constexpr double kVector = 1 << 28, kRows = 16384, kColumns = 8192, kSide = 4096;
  constexpr double kPairs = 4.0 * 16 * 4096 * 4097 / 2;
  return {
      {"vector_add", "2^28 f32", 12 * kVector, kVector, false,
       [=] {
         vector_add(cpu, host({4096}, DType::f32), host({4096}, DType::f32),
                    host({4096}, DType::f32));
       }},
      {"softmax", "16384 x 8192 bf16", 4 * kRows * kColumns, 5 * kRows * kColumns, false,
       [=] { softmax(cpu, host({1, 8192}, DType::bf16), host({1, 8192}, DType::bf16)); }},
      {"rms_norm",
       "16384 x 8192 bf16",
       4 * kRows * kColumns + 2 * kColumns,
       4 * kRows * kColumns,
       false,
       [=] {
         rms_norm(cpu, host({1, 8192}, DType::bf16), host({8192}, DType::bf16),
                  host({1, 8192}, DType::bf16));
       },
       {},
       "norm"},
      {"matmul",
       "4096 x 4096 x 4096 bf16",
       6 * kSide * kSide,
       2 * kSide * kSide * kSide,
       true,
       [=] {
         // Use the tiles that are chosen for a large product.
         matmul(cpu, host({256, 128}, DType::bf16), host({128, 256}, DType::bf16),
                host({256, 256}, DType::bf16),
                choose_matmul({.m = 4096, .n = 4096, .k = 4096}, Device::cpu()));
       },
       {"A", "B", "C"}},
      {"attention",
       "[4, 16, 4096, 128] bf16, causal",
       4.0 * 2 * 4 * 16 * 4096 * 128 + 4.0 * 4 * 16 * 4096,
       4 * kPairs * 128,
       true,
       [=] {
         const Dims shape{1, 2, 64, 128};
         const Attention causal({.mask = [](auto, auto, auto q, auto kv) { return q >= kv; },
                                 .score = nullptr,
                                 .kv_range = causal_range,
                                 .full_kv_range = causal_full,
                                 .scale = {}});
         causal(cpu, host(shape, DType::bf16), host(shape, DType::bf16), host(shape, DType::bf16),
                host(shape, DType::bf16));
       },
       {"Q", "K", "V", "O"}},
  };
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const Subject& s : subjects()) list.push_back(s.name);
  return list;
}

std::string roofline(const Subject& s) {
  const DeviceProfile& gpu = host_profile();
  const double peak = 1e12 * (s.tensor_cores ? gpu.tensor_tflops : gpu.f32_tflops),
               bandwidth = 1e9 * gpu.memory_gbs;
  const double by_memory = s.bytes / bandwidth, by_math = s.flops / peak;
  const std::string absent = Device::cuda_count() > 0
                                 ? ""
                                 : fmt::format(
                                       "no GPU is present: the roofline is for the "
                                       "profile {}\n",
                                       gpu.name);
  return absent +
         fmt::format(
             "roofline for {}: {:.4g} GB moved at least once, {:.4g} GFLOP, {:.1f} FLOP per byte "
             "({} "
             "balances at {:.0f})\n"
             "  {} needs {:.3f} ms for the bytes at {:.0f} GB/s, {:.3f} ms for the arithmetic at "
             "{:.0f} TFLOPS: bound by {}\n",
             s.shape, s.bytes / 1e9, s.flops / 1e9, s.flops / s.bytes, gpu.name, peak / bandwidth,
             gpu.name, 1e3 * by_memory, bandwidth / 1e9, 1e3 * by_math, peak / 1e12,
             by_memory > by_math ? "memory" : "arithmetic");
}

/// Writes the schedule of three tiles of six k-iterations.
void write_schedule(const std::string& path, const ir::Kernel& tile, const Subject& s,
                    ir::Target target) {
  ir::Kernel on_target = ir::clone(tile);
  on_target.info.target = target;
  ir::PassContext context;
  const ir::CarriedOut done = ir::schedule_carried_out(on_target, context);
  const PictureOptions options{s.name + ", " + s.shape, s.tensors, 6, 3};
  write_file(path, schedule_svg(done.machine, done.schedule, options));
}

int explain(const std::string& name, ir::Target target, const std::string& backend,
            const std::string& svg) {
  for (const Subject& s : subjects()) {
    if (s.name != name) continue;
    const ir::Kernel tile = traced(s.kernel, s.run);
    if (!svg.empty()) {
      write_schedule(svg, tile, s, target);
      continue;
    }
    const auto k = compiled_for(tile, target, backend_of(backend));
    fmt::print("{}{}\n{}", k->explain(), size_line(k->artefact()), roofline(s));
    if (k->artefact().kind != runtime::ImageKind::cubin) fmt::print("{}", missing_parts());
  }
  return 0;
}

}  // namespace

void add_explain(CLI::App& program, int& exit_code) {
  CLI::App* c = program.add_subcommand(
      "explain",
      "Plan, remarks, registers, shared memory, occupancy and roofline of a kernel of the library");
  struct Options {
    std::string kernel, target{ir::Target().name()}, backend = "llvm", svg;
  };
  auto o = std::make_shared<Options>();
  c->add_option("KERNEL", o->kernel, "Name of the kernel")->required()->check(one_of(names()));
  c->add_option("--target", o->target, "Architecture")
      ->check(one_of(target_names()))
      ->capture_default_str();
  c->add_option("--backend", o->backend, "Emitter")
      ->check(one_of(backend_names()))
      ->capture_default_str();
  c->add_option("--svg", o->svg,
                "Write a drawing of roles, rings and their timeline to this SVG file instead");
  c->callback([o, &exit_code] {
    exit_code = explain(o->kernel, target_of(o->target), o->backend, o->svg);
  });
}

}  // namespace tegula::tools
