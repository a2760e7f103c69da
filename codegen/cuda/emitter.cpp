// The frame of the emitted program: header, types, helper functions, signature, entry values,
// statements.
#include "codegen/cuda/emitter.h"

#include <fmt/format.h>

#include <array>
#include <cctype>

#include "codegen/emit.h"
#include "ir/text.h"
#include "tegula/error.h"

namespace tegula::codegen {
namespace cuda {
namespace {

using EmitFn = void (*)(Emitter&, ir::OpId);
constexpr std::array<EmitFn, ir::kOpCount> kEmit{
#define ROW(...) nullptr,
#define STRUCTURE(Name, ...) cuda_##Name,
#define SIMT_OP(Name, ...) cuda_##Name,
#define ELEMENTWISE(Name, ...) emit_elementwise,
#include "ir/op_rows.h"
};

constexpr std::array<ElementFn, ir::kOpCount> kElement{
#define ROW(...) nullptr,
#define ELEMENTWISE(Name, ...) cuda_##Name,
#include "ir/op_rows.h"
};

/// Types that the program may use, in the order of their declarations.
struct NamedType {
  std::string_view name, declaration;
};
constexpr std::array kNamedTypes{
    NamedType{"i8", "typedef signed char i8;"},
    NamedType{"u8", "typedef unsigned char u8;"},
    NamedType{"i16", "typedef short i16;"},
    NamedType{"u16", "typedef unsigned short u16;"},
    NamedType{"u32", "typedef unsigned int u32;"},
    NamedType{"i64", "typedef long long i64;"},
    NamedType{"u64", "typedef unsigned long long u64;"},
    NamedType{"bf16", "typedef unsigned short bf16;  // its bits; arithmetic is done in float"},
    NamedType{"f16", "typedef unsigned short f16;  // its bits; arithmetic is done in float"},
    NamedType{"f8e4m3", "typedef unsigned char f8e4m3;  // its bits; arithmetic is done in float"},
    NamedType{"f8e5m2", "typedef unsigned char f8e5m2;  // its bits; arithmetic is done in float"},
    NamedType{"TensorMap", "struct alignas(64) TensorMap { unsigned char bytes[128]; };"},
};

/// Returns the statement with 0 in place of `r`, the register index of for_registers().
std::string at_register_zero(std::string_view statement) {
  const auto is_word = [&](std::size_t i) {
    return i < statement.size() &&
           (std::isalnum(static_cast<unsigned char>(statement[i])) || statement[i] == '_');
  };
  std::string out;
  for (std::size_t i = 0; i < statement.size(); ++i) {
    const bool is_index = statement[i] == 'r' && !is_word(i + 1) && (i == 0 || !is_word(i - 1));
    out += is_index ? '0' : statement[i];
  }
  return out;
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

ElementFn element_fn(ir::Opcode o) { return kElement[static_cast<std::size_t>(o)]; }

Emitter::Emitter(const ir::Kernel& k, bool line_info)
    : kernel(k), uses(k), variable_(k.value_count(), -1), line_info_(line_info) {
  names.fresh(k.info.name + std::string(kCudaNameSuffix));
  declare_parameters();
}

void Emitter::refuse(ir::OpId id, std::string_view why) const {
  throw InternalError(fmt::format("CUDA emitter: {}: {}", ir::print_op(kernel, id), why));
}

// ---- the program

void Emitter::declare_parameters() {
  for (const ir::Param& p : kernel.params()) {
    const ir::Type t = kernel.type(p.value);
    const std::size_t v = new_variable(p.value, p.name, false);
    const std::string type = t.is(ir::TypeKind::TensorMap)
                                 ? "const __grid_constant__ " + use_type("TensorMap")
                                 : c_type(t);
    parameters_ +=
        fmt::format("{}{} {}", parameters_.empty() ? "" : ", ", type, variables_[v].name);
  }
}

std::string Emitter::header() const {
  std::string s = fmt::format(
      "// {}: CUDA C++ for NVRTC, written by Tegula. Compile with -arch={} -fmad=false; it "
      "includes nothing.\n",
      kernel.info.name, kernel.info.target.name());
  s += fmt::format("// {} threads per CTA", kernel.info.threads);
  if (kernel.info.smem_bytes != 0)
    s += fmt::format(", {} bytes of dynamic shared memory", kernel.info.smem_bytes);
  if (kernel.info.cluster != 1) s += fmt::format(", clusters of {}", kernel.info.cluster);
  return s + ".\n\n";
}

std::string Emitter::signature() const {
  std::string s = "extern \"C\" __global__ void";
  if (kernel.info.threads != 0)
    s +=
        fmt::format(" __launch_bounds__({}, {})", kernel.info.threads, kernel.info.min_ctas_per_sm);
  s += fmt::format("\n{}{}(", kernel.info.name, kCudaNameSuffix);
  return s + parameters_ + ")";
}

std::string Emitter::run() {
  emit_region(kernel.body());
  std::string program = header();
  for (const NamedType& t : kNamedTypes)
    if (used_types_.contains(std::string(t.name))) program += fmt::format("{}\n", t.declaration);
  if (!used_types_.empty()) program += "\n";
  if (uses_smem_) program += "extern __shared__ __align__(1024) unsigned char dynamic_smem[];\n\n";
  program += functions_;
  return program + signature() + " {\n" + entry_ + body_ + "}\n";
}

void Emitter::emit_region(ir::RegionId region) {
  for (ir::OpId id : kernel.ops(region)) {
    const ir::OpData& d = kernel[id];
    const bool pure = ir::info(d.opcode).has(ir::kPure);
    if (pure && (!uses.is_used(d.results[0]) || uses.is_inlined(d.results[0]))) continue;
    pending_location_ = d.loc;
    const EmitFn emit = kEmit[static_cast<std::size_t>(d.opcode)];
    if (emit == nullptr) refuse(id, "is not an op of the simt form");
    emit(*this, id);
  }
}

void Emitter::locate(const Loc& loc) {
  if (!loc.known() ||
      (loc.line == last_location_.line && std::string_view(loc.file) == last_location_.file))
    return;
  last_location_ = loc;
  body_ += fmt::format("{:{}}// {}:{}\n", "", 2 * depth_, base_name(loc.file), loc.line);
}

void Emitter::line(std::string_view text) {
  locate(pending_location_);
  // Repeats the directive before each line: one line of the user's source may become many.
  if (line_info_ && last_location_.known())
    body_ += fmt::format("#line {} \"{}\"\n", last_location_.line, last_location_.file);
  body_ += fmt::format("{:{}}{}\n", "", 2 * depth_, text);
}

void Emitter::open(std::string_view head) {
  line(head);
  ++depth_;
}

void Emitter::close() {
  --depth_;
  pending_location_ = {};
  line("}");
}

void Emitter::next_branch(std::string_view head) {
  --depth_;
  pending_location_ = {};
  line(head);
  ++depth_;
}

void Emitter::for_registers(std::int64_t count, const std::string& statement, std::int64_t step) {
  if (count == 1) return line(at_register_zero(statement));
  line("#pragma unroll");
  const std::string advance = step == 1 ? "r++" : fmt::format("r += {}", step);
  line(fmt::format("for (int r = 0; r < {}; {}) {}", count, advance, statement));
}

// ---- entry values

const std::string& Emitter::at_entry(std::string& slot, std::string_view name,
                                     const std::string& type, const std::string& value) {
  if (slot.empty()) {
    slot = names.fresh(name);
    entry_ += fmt::format("  const {} {} = {};\n", type, slot, value);
  }
  return slot;
}

const std::string& Emitter::tid() { return at_entry(tid_, "tid", "int", "threadIdx.x"); }
const std::string& Emitter::lane() { return at_entry(lane_, "lane", "int", "threadIdx.x % 32"); }

const std::string& Emitter::warp() {
  // Without the shuffle, ptxas does not keep dependent values in uniform registers.
  return at_entry(warp_, "warp", "int", "__shfl_sync(0xffffffff, threadIdx.x / 32, 0)");
}

const std::string& Emitter::never() {
  // Always false; compilers cannot know that, because they do not interpret the PTX.
  ptx::Asm a = ptx::pure(ptx::Reg::b32, {});
  a.text = "mov.u32 #0, %nctaid.x;";
  return at_entry(never_, "never", "bool",
                  fmt::format("{}() == 0", ptx_value("grid_extent", use_type("u32"), {}, a)));
}

const std::string& Emitter::grid_register(bool extent, std::int64_t axis) {
  const char letter = "xyz"[axis];
  return at_entry(grid_[extent][axis], fmt::format("{}_{}", extent ? "ctas" : "cta", letter), "int",
                  fmt::format("{}.{}", extent ? "gridDim" : "blockIdx", letter));
}

const std::string& Emitter::smem() {
  uses_smem_ = true;
  return at_entry(smem_, "smem", "int", "__cvta_generic_to_shared(dynamic_smem)");
}

}  // namespace cuda

}  // namespace tegula::codegen
