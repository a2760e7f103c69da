#pragma once
// A tile kernel on any device by any back end, on arguments of the host.
#include <optional>
#include <vector>

#include "runtime/jit.h"
#include "tests/fuzz/run_program.h"

namespace tegula::fuzz {

/// The device, back end and plan of a run; what is left out is chosen as for users.
struct KvTraversal {
  Device device;
  std::optional<runtime::Backend> backend;
  std::optional<ir::Plan> plan;
};

inline std::shared_ptr<const runtime::CompiledKernel> compiled(const ir::Kernel& tile,
                                                               const KvTraversal& way) {
  runtime::CompileRequest request;
  request.key = "fuzz";
  request.trace = [&] { return ir::clone(tile); };
  request.device = way.device;
  request.backend = way.backend;
  request.plan = way.plan;
  return runtime::compile(request);
}

/// The contents of the arguments after one launch.
inline Arguments launched(const runtime::CompiledKernel& k, Arguments args) {
  std::vector<Tensor> memory, tensors;
  memory.reserve(args.size()), tensors.reserve(args.size());
  std::vector<runtime::LaunchArg> list;
  for (const Argument& a : args) {
    if (!a.is_view) {
      list.push_back({nullptr, ir::to_bits(a.scalar, a.dtype)});
      continue;
    }
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(a.bytes.data());
    memory.push_back(
        Tensor::from(std::vector<std::uint8_t>(bytes, bytes + a.bytes.size()), k.device));
    tensors.push_back(Tensor::borrow(memory.back().data(), Dims(std::span(a.dims)), a.dtype,
                                     k.device, Dims(std::span(a.strides))));
    list.push_back({&tensors.back(), 0});
  }
  const Stream stream(k.device);
  k.launch(stream, list);
  stream.synchronize();
  auto from = memory.begin();
  for (Argument& a : args) {
    if (!a.is_view) continue;
    const std::vector<std::uint8_t> bytes = (from++)->to_vector<std::uint8_t>();
    std::memcpy(a.bytes.data(), bytes.data(), bytes.size());
  }
  return args;
}

/// The first argument whose bytes differ; empty where none do.
inline std::string other_bits(const Arguments& a, const Arguments& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].bytes != b[i].bytes) return fmt::format("argument {} has other bits", i);
  return "";
}

}  // namespace tegula::fuzz
