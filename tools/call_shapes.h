#pragma once
// Files of calls for `tegula tune` and `tegula aot`: each line has the name of an exported callable
// and a description of its arguments.
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

/// `matmul M=4096 N=512 K=1024 scale=0.5 table=f32[64,32] mask=none BM=128 # why`: extents by
/// dimension names, `dtype` for tensors of any type (default bf16), numbers by parameter names,
/// tensors without named dimensions by type and shape. An optional argument may be `none`. The
/// remaining words are values of tune().
struct CallShape {
  std::string callable, text;  ///< text: the words after the callable
  std::map<std::string, std::string> words;
  int line = 0;
};
/// Throws std::runtime_error with file and line if a line is invalid.
std::vector<CallShape> read_shapes(const std::filesystem::path& file);

/// Opens libraries of exported callables, which register themselves. Throws std::runtime_error.
void open_libraries(const std::vector<std::string>& files);
const detail::Exported& exported_of(const CallShape& shape);

/// Arguments of a call of the C interface, and their memory.
struct ShapedCall {
  std::vector<TegulaArg> args;
  Tuning tuning;  ///< values of tune() from the line
  std::deque<Tensor> tensors;
  std::deque<DLTensor> described;
};
/// Returns tensors with random elements on `device`, or without memory if `described_only`. Throws
/// std::runtime_error that names missing words of the line.
std::unique_ptr<ShapedCall> call_of(const CallShape& shape, const detail::Exported& callee,
                                    Device device, bool described_only);

}  // namespace tegula::tools
