// LLVM IR to PTX: a minimal pass pipeline and NVPTX's code generator.
//
// More passes have no benefit over ptxas (measured: O3 produced equal SASS in 1.5 times the time;
// InstCombine took a tenth of the total time and produced more instructions), and unrolling or
// duplicating convergent code would separate wgmma groups. Without SimplifyCFG attention gets 5 %
// more instructions. Without a block before each loop, ptxas assumes that loaded A registers of a
// wgmma are written within its stage (C7513).
#include <fmt/format.h>
#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar/DCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/LoopSimplify.h>

#include <chrono>

#include "codegen/llvm/module.h"
#include "tegula/error.h"

extern "C" {
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace tegula::codegen::llvm_backend {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

bool initialize_once() {
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  // Shared addresses are 32 bits. This copy of LLVM is private to this library, and so are its
  // options.
  const char* options[] = {"tegula", "-nvptx-short-ptr"};
  return llvm::cl::ParseCommandLineOptions(2, options);
}

std::unique_ptr<llvm::TargetMachine> target_machine(std::string_view target) {
  [[maybe_unused]] static const bool ready = initialize_once();
  constexpr const char* kTriple = "nvptx64-nvidia-cuda";
  std::string error;
  const llvm::Target* t = llvm::TargetRegistry::lookupTarget(kTriple, error);
  if (t == nullptr) throw InternalError("LLVM emitter: " + error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  // 8.5 is the newest PTX version that LLVM 19 emits; every ptxas since CUDA 12.5 accepts it.
  return std::unique_ptr<llvm::TargetMachine>(
      t->createTargetMachine(kTriple, target, "+ptx85", options, llvm::Reloc::PIC_, std::nullopt,
                             llvm::CodeGenOptLevel::Default));
}

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::DCEPass());
  passes.addPass(llvm::LoopSimplifyPass());
  llvm::ModulePassManager all;
  all.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  all.run(module, modules);
}

/// Verifies every function after the last pass over LLVM IR, including the passes of the code
/// generator. A broken function is emptied, so that instruction selection does not crash on it, and
/// its faults are recorded: an exception must not pass through LLVM.
class VerifyLast : public llvm::FunctionPass {
 public:
  explicit VerifyLast(std::string& faults) : FunctionPass(id_), faults_(faults) {}
  bool runOnFunction(llvm::Function& function) override {
    llvm::raw_string_ostream os(faults_);
    if (!llvm::verifyFunction(function, &os)) return false;
    function.deleteBody();
    llvm::LLVMContext& context = function.getContext();
    llvm::ReturnInst::Create(context, llvm::BasicBlock::Create(context, "broken", &function));
    return true;
  }

 private:
  static inline char id_ = 0;
  std::string& faults_;
};

/// Gives access to protected members of TargetPassConfig that add instruction selection.
struct PassConfigAccess : llvm::TargetPassConfig {
  static constexpr auto kSelect = &PassConfigAccess::addCoreISelPasses;
};

/// Like addPassesToEmitFile, but runs only the required ones of the target's passes over LLVM IR:
/// loop strength reduction took a third of the total time and, by rewriting the definitions of a
/// wgmma's A registers, made ptxas serialize the wgmmas (C7513). Instruction selection and register
/// coalescing run at the default level: level None leaves moves between wgmmas, which also
/// serializes them.
void add_codegen(llvm::LLVMTargetMachine& machine, llvm::legacy::PassManager& passes,
                 llvm::raw_pwrite_stream& out, std::string& faults) {
  auto* modules = new llvm::MachineModuleInfoWrapperPass(&machine);
  llvm::TargetPassConfig* config = machine.createPassConfig(passes);
  config->setDisableVerify(true);
  passes.add(config);
  passes.add(modules);
  passes.add(llvm::createTargetTransformInfoWrapperPass(machine.getTargetIRAnalysis()));
  machine.setOptLevel(llvm::CodeGenOptLevel::None);
  config->addIRPasses();
  machine.setOptLevel(llvm::CodeGenOptLevel::Default);
  config->addISelPrepare();
  passes.add(new VerifyLast(faults));
  const bool failed = (config->*PassConfigAccess::kSelect)();
  config->addMachinePasses();
  config->setInitialized();
  if (failed || machine.addAsmPrinter(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile,
                                      modules->getMMI().getContext()))
    throw InternalError("LLVM emitter: the target writes no assembly");
  passes.add(llvm::createFreeMachineFunctionPass());
}

}  // namespace

void write_ptx(llvm::Module& module, std::string_view target, const EmitOptions& options,
               Emitted& out) {
  auto start = Clock::now();
  const auto machine = target_machine(target);
  module.setDataLayout(machine->createDataLayout());
  optimize(module, *machine);
  for (llvm::Function& f : module) place_conditions_late(f);
  out.optimize_ms = milliseconds_since(start);
  if (options.keep_source) {
    llvm::raw_string_ostream os(out.source);
    module.print(os, nullptr);
  }
  start = Clock::now();
  llvm::SmallString<0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  std::string faults;
  add_codegen(static_cast<llvm::LLVMTargetMachine&>(*machine), passes, stream, faults);
  passes.run(module);
  if (!faults.empty()) throw InternalError("LLVM emitter: a pass broke the module\n" + faults);
  out.ptx = with_safe_negations({buffer.data(), buffer.size()});
  out.codegen_ms = milliseconds_since(start);
}

}  // namespace tegula::codegen::llvm_backend
