// Line tables for the user's source: directives only (`nvcc -lineinfo`), which affect neither
// optimization nor registers.
#include <llvm/IR/DIBuilder.h>
#include <llvm/Support/Path.h>

#include <map>

#include "codegen/llvm/emitter.h"

namespace tegula::codegen::llvm_backend {

struct Emitter::LineInfo {
  explicit LineInfo(llvm::Module& module) : builder(module) {}
  llvm::DIBuilder builder;
  llvm::DISubprogram* program = nullptr;
  std::map<std::string_view, llvm::DIScope*> scopes;  ///< one per source file

  llvm::DIFile* file(std::string_view path) {
    return builder.createFile(llvm::sys::path::filename(path), llvm::sys::path::parent_path(path));
  }
};

void Emitter::enable_line_info() {
  lines_ = std::make_shared<LineInfo>(module);
  llvm::DIBuilder& d = lines_->builder;
  module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  llvm::DIFile* file = lines_->file("tegula");
  d.createCompileUnit(llvm::dwarf::DW_LANG_C_plus_plus, file, "tegula", true, "", 0, "",
                      llvm::DICompileUnit::DebugDirectivesOnly);
  lines_->program = d.createFunction(
      file, kernel.info.name, kernel.info.name, file, 1,
      d.createSubroutineType(d.getOrCreateTypeArray({})), 1, llvm::DINode::FlagZero,
      llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagOptimized);
  function.setSubprogram(lines_->program);
}

void Emitter::set_location(const Loc& loc) {
  if (!lines_) return;
  if (!loc.known())
    return b.SetCurrentDebugLocation(llvm::DILocation::get(context, 0, 0, lines_->program));
  llvm::DIScope*& scope = lines_->scopes[loc.file];
  if (scope == nullptr)
    scope = lines_->builder.createLexicalBlockFile(lines_->program, lines_->file(loc.file), 0);
  b.SetCurrentDebugLocation(llvm::DILocation::get(context, loc.line, loc.column, scope));
}

void Emitter::finish_line_info() {
  if (lines_) lines_->builder.finalize();
}

}  // namespace tegula::codegen::llvm_backend
