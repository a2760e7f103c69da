#pragma once
// A file of calls for `tegula tune` and `tegula aot`: a line each, the name of an exported callable
// and what its arguments are.
#include <tegula.h>

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tegula/export.h"
#include "tegula/tuning.h"

namespace tegula::tools {

/// `matmul M=4096 N=512 K=1024 scale=0.5 table=f32[64,32] mask=none BM=128 # why`: extents by the
/// names of dimensions, `dtype` of tensors of any type (default bf16), numbers by the names of
/// parameters, tensors whose dimensions have no names by type and shape; an optional argument may
/// be `none`. Words that are left stand for values of tune().
struct CallShape {
  std::string callable, text;  ///< text: the words behind the callable
  std::map<std::string, std::string> words;
  int line = 0;
};
/// Throws std::runtime_error with file and line for a line that is none.
std::vector<CallShape> read_shapes(const std::filesystem::path& file);

/// Opens libraries of exported callables, which register themselves. Throws std::runtime_error.
void open_libraries(const std::vector<std::string>& files);
const detail::Exported& exported_of(const CallShape& shape);

/// Arguments of a call of the C interface, with their memory.
struct ShapedCall {
  std::vector<TegulaArg> args;
  Tuning tuning;  ///< values of tune() that the line gives
  std::deque<Tensor> tensors;
  std::deque<DLTensor> described;
};
/// Tensors on `device` with random elements; without memory where `described_only`. Throws
/// std::runtime_error that names what the line lacks.
std::unique_ptr<ShapedCall> call_of(const CallShape& shape, const detail::Exported& callee,
                                    Device device, bool described_only);

}  // namespace tegula::tools
