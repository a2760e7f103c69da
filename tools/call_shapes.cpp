#include "tools/call_shapes.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "dsl/export/dimensions.h"
#include "dsl/export/exported.h"
#include "runtime/dlpack_types.h"
#include "support/text.h"

namespace tegula::tools {
namespace {

[[noreturn]] void refuse_shape(const CallShape& shape, const std::string& why) {
  throw std::runtime_error(
      fmt::format("line {}, {} {}: {}", shape.line, shape.callable, shape.text, why));
}

template <class T>
std::optional<T> number_of(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Reads the words of one line and records which have been used.
class CallShapeReader {
 public:
  CallShapeReader(const CallShape& shape, const detail::Exported& callee, Device device,
                  bool described)
      : shape_(shape), params_(callee.callable().params), device_(device), described_(described) {
    for (const ExportParam& p : params_)
      for (const std::string_view dim : split(p.dims, ' ')) {
        const std::string name(dim), given = word(name);
        if (given.empty()) continue;
        extents_.insert_or_assign(name, extent(name, given));
        used_.insert(name);
      }
  }

  std::unique_ptr<ShapedCall> read() {
    auto out = std::make_unique<ShapedCall>();
    for (const ExportParam& p : params_) out->args.push_back(argument(p, *out));
    for (const auto& [name, value] : shape_.words) {
      if (used_.contains(name) || name == "flops") continue;
      const auto n = number_of<int>(value);
      if (!n)
        refuse_shape(shape_,
                     fmt::format("{}={} is not a dimension, parameter or number", name, value));
      out->tuning[name] = *n;
    }
    return out;
  }

 private:
  std::string word(const std::string& name) const {
    const auto at = shape_.words.find(name);
    return at == shape_.words.end() ? std::string() : at->second;
  }

  std::int64_t extent(const std::string& name, std::string_view given) const {
    const auto n = number_of<std::int64_t>(given);
    if (!n || *n < 0) refuse_shape(shape_, fmt::format("{}={} is not an extent", name, given));
    return *n;
  }

  DType dtype_named(const std::string& name) {
    if (const auto found = dtype_from_name(name)) return *found;
    refuse_shape(shape_, fmt::format("there is no element type {}", name));
  }

  TegulaArg argument(const ExportParam& p, ShapedCall& out) {
    const std::string given = word(p.name);
    if (!given.empty()) used_.insert(p.name);
    const TegulaKind kind = c::kind_of(p);
    if (kind == TEGULA_INT || kind == TEGULA_FLOAT) return number(p, given);
    if (given == "none") return {TEGULA_NONE, 0, {0}};
    return tensor(p, given, out);
  }

  TegulaArg number(const ExportParam& p, const std::string& given) {
    if (const auto i = number_of<std::int64_t>(given)) return {TEGULA_INT, 0, {.i = *i}};
    if (const auto f = number_of<double>(given)) return {TEGULA_FLOAT, 0, {.f = *f}};
    refuse_shape(shape_, fmt::format("pass the number {}=..", p.name));
  }

  TegulaArg tensor(const ExportParam& p, const std::string& given, ShapedCall& out) {
    DType dtype = p.info.dtype;
    std::vector<std::int64_t> shape;
    if (const std::size_t open = given.find('['); open != given.npos && given.back() == ']') {
      if (open > 0) dtype = dtype_named(given.substr(0, open));
      for (const std::string_view n :
           split(std::string_view(given).substr(open + 1, given.size() - open - 2), ','))
        shape.push_back(extent(p.name, n));
    } else {
      used_.insert("dtype");
      if (p.any_dtype) dtype = dtype_named(word("dtype").empty() ? "bf16" : word("dtype"));
      for (const std::string_view dim : split(p.dims, ' ')) {
        const auto extent = dim.empty() ? std::nullopt : c::extent_of(dim, extents_);
        if (!extent && p.info.optional) return {TEGULA_NONE, 0, {0}};
        if (!extent)
          refuse_shape(shape_,
                       fmt::format("the extent {} of {} is missing: pass {}=.., or {}=f32[64,32]",
                                   dim, p.name, dim.empty() ? "it" : dim, p.name));
        shape.push_back(*extent);
      }
    }
    return described(Dims(std::span(shape)), dtype, out);
  }

  TegulaArg described(const Dims& shape, DType dtype, ShapedCall& out) {
    static void* const nowhere = reinterpret_cast<void*>(std::uintptr_t{1} << 40);
    out.tensors.push_back(described_ ? Tensor::borrow(nowhere, shape, dtype, device_)
                          : is_float(dtype)
                              ? Tensor::normal(shape, dtype, 0, 1, ++seed_, device_)
                              : Tensor::integers(shape, dtype, 0, 2, ++seed_, device_));
    Tensor& t = out.tensors.back();
    const dlpack::DataType type = runtime::dlpack_type(dtype);
    const bool is_gpu = device_.kind == DeviceKind::cuda;
    out.described.push_back({t.data(),
                             {is_gpu ? kDLCUDA : kDLCPU, is_gpu ? device_.index : 0},
                             static_cast<std::int32_t>(shape.size()),
                             {type.code, type.bits, type.lanes},
                             const_cast<std::int64_t*>(t.shape().begin()),
                             nullptr,
                             0});
    return {TEGULA_TENSOR, 0, {.tensor = &out.described.back()}};
  }

  const CallShape& shape_;
  const std::vector<ExportParam>& params_;
  Device device_;
  bool described_;
  c::Extents extents_;
  std::set<std::string> used_;
  std::uint64_t seed_ = 0;
};

}  // namespace

std::vector<CallShape> read_shapes(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(fmt::format("{} cannot be read", file.string()));
  std::vector<CallShape> all;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    CallShape shape;
    shape.line = number;
    if (!(words >> shape.callable)) continue;
    for (std::string word; words >> word;) {
      const std::size_t at = word.find('=');
      if (at == 0 || at == word.npos || at + 1 == word.size() ||
          !shape.words.emplace(word.substr(0, at), word.substr(at + 1)).second)
        throw std::runtime_error(
            fmt::format("{}:{}: {} is not NAME=VALUE", file.string(), number, word));
      shape.text += (shape.text.empty() ? "" : " ") + word;
    }
    all.push_back(std::move(shape));
  }
  return all;
}

void open_libraries(const std::vector<std::string>& files) {
  for (const std::string& file : files)
    if (::dlopen(std::filesystem::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr)
      throw std::runtime_error(::dlerror());
}

const detail::Exported& exported_of(const CallShape& shape) {
  const detail::Exported* found = c::find_exported(shape.callable);
  if (found == nullptr) refuse_shape(shape, "none of the libraries exports it");
  return *found;
}

std::unique_ptr<ShapedCall> call_of(const CallShape& shape, const detail::Exported& callee,
                                    Device device, bool described_only) {
  return CallShapeReader(shape, callee, device, described_only).read();
}

}  // namespace tegula::tools
