// A kernel as an LLVM module: one function with its launch annotations, and the table of op
// functions.
#include "codegen/llvm/module.h"

#include <fmt/format.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "codegen/llvm/emitter.h"
#include "tegula/error.h"

namespace tegula::codegen::llvm_backend {
namespace {

constexpr unsigned kTensorMapBytes = 128;

/// Returns the type of a kernel parameter, which is a byte for i1.
llvm::Type* parameter_type(llvm::LLVMContext& context, ir::Type type) {
  if (type.is(ir::TypeKind::TensorMap)) return llvm::PointerType::get(context, 0);
  if (type.is_pointer()) return llvm::PointerType::get(context, 1);
  if (type.dtype() == DType::f32) return llvm::Type::getFloatTy(context);
  if (type.dtype() == DType::f64) return llvm::Type::getDoubleTy(context);
  return llvm::Type::getIntNTy(context,
                               std::max(8u, static_cast<unsigned>(size_bits(type.dtype()))));
}

/// Collects `!nvvm.annotations`; LLVM 19 ignores the same properties as string attributes.
class Annotations {
 public:
  explicit Annotations(llvm::Function& f)
      : function_(f), node_(f.getParent()->getOrInsertNamedMetadata("nvvm.annotations")) {}
  void add(llvm::StringRef key, unsigned value) { add(key, number(value)); }
  void add(llvm::StringRef key, llvm::Metadata* value) {
    llvm::LLVMContext& c = function_.getContext();
    node_->addOperand(llvm::MDNode::get(
        c, {llvm::ValueAsMetadata::get(&function_), llvm::MDString::get(c, key), value}));
  }
  llvm::Metadata* number(unsigned value) {
    return llvm::ConstantAsMetadata::get(
        llvm::ConstantInt::get(llvm::Type::getInt32Ty(function_.getContext()), value));
  }

 private:
  llvm::Function& function_;
  llvm::NamedMDNode* node_;
};

llvm::Function* declare(const ir::Kernel& kernel, llvm::Module& module) {
  llvm::LLVMContext& context = module.getContext();
  llvm::SmallVector<llvm::Type*, 8> types;
  for (const ir::Param& p : kernel.params())
    types.push_back(parameter_type(context, kernel.type(p.value)));
  auto* f =
      llvm::Function::Create(llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false),
                             llvm::GlobalValue::ExternalLinkage, kernel.info.name, module);
  f->addFnAttr(llvm::Attribute::NoUnwind);
  f->addFnAttr(llvm::Attribute::Convergent);
  Annotations annotations(*f);
  annotations.add("kernel", 1);
  annotations.add("maxntidx", static_cast<unsigned>(kernel.info.threads));
  annotations.add("maxntidy", 1);
  annotations.add("maxntidz", 1);
  // Without it ptxas does not know the register count at entry and ignores setmaxnreg.
  annotations.add("minctasm", static_cast<unsigned>(kernel.info.min_ctas_per_sm));

  llvm::SmallVector<llvm::Metadata*, 4> maps;
  for (unsigned i = 0; i < kernel.params().size(); ++i) {
    if (!kernel.type(kernel.params()[i].value).is(ir::TypeKind::TensorMap)) continue;
    f->addParamAttr(
        i, llvm::Attribute::getWithByValType(
               context, llvm::ArrayType::get(llvm::Type::getInt8Ty(context), kTensorMapBytes)));
    f->addParamAttr(i, llvm::Attribute::getWithAlignment(context, llvm::Align(64)));
    f->addParamAttr(i, llvm::Attribute::NoCapture);
    f->addParamAttr(i, llvm::Attribute::ReadOnly);
    maps.push_back(annotations.number(i + 1));
  }
  // Otherwise LLVM would copy the maps to local memory, where TMA cannot read them.
  if (!maps.empty()) annotations.add("grid_constant", llvm::MDNode::get(context, maps));
  return f;
}

void bind_parameters(Emitter& e) {
  for (unsigned i = 0; i < e.kernel.params().size(); ++i) {
    const ir::Param& p = e.kernel.params()[i];
    llvm::Value* arg = e.function.getArg(i);
    arg->setName(p.name);
    const ir::Type type = e.kernel.type(p.value);
    const bool flag = type.is_scalar() && !type.is_pointer() && is_bool(type.dtype());
    e.set_words(p.value, {flag ? e.b.CreateIsNotNull(arg) : arg});
  }
}

void check_target(const ir::Kernel& kernel) {
  if (kernel.info.form != ir::Form::Simt)
    throw InternalError(
        fmt::format("LLVM emitter: kernel {} is not in simt form", kernel.info.name));
  if (kernel.info.threads <= 0 || kernel.info.threads > kernel.info.target->max_threads_per_cta)
    throw InternalError(fmt::format("LLVM emitter: kernel {} has {} threads", kernel.info.name,
                                    kernel.info.threads));
}

}  // namespace

void Emitter::emit_region(ir::RegionId region) {
  using EmitFn = void (*)(Emitter&, ir::OpId);
  static constexpr EmitFn kTable[] = {
#define ROW(...) nullptr,
#define STRUCTURE(Name, ...) llvm_##Name,
#define SIMT_OP(Name, ...) llvm_##Name,
#define ELEMENTWISE(Name, ...) emit_elementwise,
#include "ir/op_rows.h"
  };
  for (ir::OpId id : kernel.ops(region)) {
    const EmitFn fn = kTable[static_cast<std::size_t>(kernel[id].opcode)];
    if (fn == nullptr) refuse(id, "not an op of the simt form");
    set_location(kernel[id].loc);
    fn(*this, id);
  }
}

Words Emitter::yielded(ir::RegionId region) {
  const ir::OpId yield = kernel.terminator(region);
  if (!yield) return {};
  const auto& operands = kernel[yield].operands;
  return words_of(llvm::ArrayRef<ir::Value>(operands.data(), operands.size()));
}

std::unique_ptr<llvm::Module> build_module(const ir::Kernel& kernel, llvm::LLVMContext& context,
                                           bool lineinfo) {
  check_target(kernel);
  auto module = std::make_unique<llvm::Module>(kernel.info.name, context);
  module->setTargetTriple("nvptx64-nvidia-cuda");
  Emitter e(kernel, *module, *declare(kernel, *module));
  if (lineinfo) e.enable_line_info();
  bind_parameters(e);
  e.emit_region(kernel.body());
  e.b.CreateRetVoid();
  e.finish_line_info();
  std::string faults;
  llvm::raw_string_ostream os(faults);
  if (llvm::verifyModule(*module, &os))
    throw InternalError("LLVM emitter: broken module\n" + faults);
  return module;
}

}  // namespace tegula::codegen::llvm_backend
