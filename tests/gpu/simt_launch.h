#pragma once
// Hand-written simt texts on the GPU: built by either back end, launched with tensor maps.
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "codegen/emit.h"
#include "ir/text.h"
#include "runtime/assemble.h"
#include "runtime/context.h"
#include "runtime/launch.h"
#include "runtime/nvrtc.h"
#include "runtime/tensor_map.h"
#include "tegula/tensor.h"

namespace tegula::test {

/// A text of tests/filetests/g0, from the source tree or where the test runs.
inline std::string read_text(const std::string& name) {
  for (const std::string& root : {std::string(TEGULA_SOURCE_DIR), std::string(".")}) {
    std::ifstream in(root + "/tests/filetests/g0/" + name);
    if (!in) continue;
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  throw std::runtime_error("missing " + name);
}
inline ir::Kernel read_kernel(const std::string& name) { return ir::parse(read_text(name), name); }

struct Built {
  runtime::AssembleReport report;
  runtime::LoadedKernel kernel;
};

inline Built build(const ir::Kernel& k, bool nvrtc) {
  std::vector<char> cubin;
  Built b;
  if (nvrtc) {
    auto r = runtime::compile_cuda({.source = codegen::emit_cuda(k).source,
                                    .name = k.info.name + ".cu",
                                    .target = std::string(k.info.target.name()),
                                    .options = {}});
    cubin = r.cubin, b.report = r.report;
  } else {
    auto r = runtime::assemble({.ptx = codegen::emit_llvm(k).ptx,
                                .target = std::string(k.info.target.name()),
                                .options = {}});
    cubin = r.cubin, b.report = r.report;
  }
  b.kernel = runtime::Module::load_cubin(cubin)->kernel(
      k.info.name, 0, {.dynamic_shared_bytes = static_cast<unsigned>(k.info.smem_bytes)});
  return b;
}

/// Arguments in the order of the kernel's parameters.
class Args {
 public:
  template <class T>
  Args& add(T v) {
    const auto at = layout_.add<T>();
    block_.resize(layout_.total_bytes());
    std::memcpy(block_.data() + at, &v, sizeof v);
    return *this;
  }
  Args& map(const Tensor& t, std::initializer_list<int> box) {
    codegen::TensorMap m;
    m.base = t.data(), m.dtype = t.dtype(), m.rank = t.rank(), m.swizzle = 128;
    for (int d = 0; d < m.rank; ++d) {
      m.dims[d] = t.size(m.rank - 1 - d);
      m.strides[d] = t.stride(m.rank - 1 - d) * size_bytes(t.dtype());
      m.box[d] = box.begin()[d];
    }
    runtime::cu::TensorMap encoded;
    runtime::encode_tensor_map(m, &encoded);
    const auto at = layout_.add(128, 64);
    block_.resize(layout_.total_bytes());
    std::memcpy(block_.data() + at, &encoded, 128);
    return *this;
  }
  void launch(const Built& b, const ir::Kernel& k, runtime::Extent3 grid) const {
    runtime::LaunchShape shape;
    shape.grid = grid;
    shape.block = {static_cast<unsigned>(k.info.threads), 1, 1};
    shape.shared_bytes = static_cast<unsigned>(k.info.smem_bytes);
    runtime::PreparedLaunch(b.kernel, shape, layout_.slots()).launch(nullptr, block_.data(), grid);
  }

 private:
  runtime::ArgumentLayout layout_;
  std::vector<std::byte> block_;
};

}  // namespace tegula::test
