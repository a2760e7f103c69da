// tegula aot: compiles calls ahead of time into an object file with a header.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <memory>

#include "dsl/ahead/table.h"
#include "dsl/export/arguments.h"
#include "dsl/instance.h"
#include "runtime/context.h"
#include "runtime/described_gpu.h"
#include "tools/call_shapes.h"
#include "tools/commands.h"
#include "tools/elf_object.h"
#include "tools/known_gpu.h"

namespace tegula::tools {
namespace {

struct AotArgs {
  std::vector<std::string> libraries;
  std::string shapes, folder, gpu, name = "kernels";
  std::string target{runtime::default_target(Device::cpu()).name()};  // the newest target
};

void write_output(const std::filesystem::path& file, const std::string& content) {
  std::ofstream out(file, std::ios::binary);
  out << content;
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string params_text(const dsl::AheadCallable& c) {
  std::string text;
  for (const ExportParam& p : c.params)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", p.name,
                        p.dims.empty() ? "" : fmt::format("[{}]", p.dims));
  return text;
}

std::string c_header_of(const AotArgs& args, const dsl::AheadTable& table, std::size_t bytes) {
  const std::string guard = upper(args.name) + "_H_";
  std::string text = fmt::format(
      "/* Written by `tegula aot`: {0} calls for {1} in {2}.o, which needs libtegula.so and no\n"
      " * compiler. Functions are those of tegula_ahead_find and tegula_ahead_call. */\n"
      "#ifndef {3}\n#define {3}\n\n#include <tegula.h>\n\n"
      "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n"
      "extern const unsigned char {2}_table[];\n#define {4}_TABLE_BYTES UINT64_C({5})\n\n",
      table.size(), args.target, args.name, guard, upper(args.name), bytes);
  for (const dsl::AheadCallable& c : table.callables())
    text += fmt::format(
        "/* ({0}) */\n"
        "static inline int32_t {1}_{2}_supported(const TegulaArg* args, int32_t count) {{\n"
        "  return tegula_ahead_find({1}_table, {3}_TABLE_BYTES, \"{2}\", args, count);\n}}\n"
        "static inline TegulaCode {1}_{2}(const TegulaArg* args, int32_t count, void* stream) {{\n"
        "  return tegula_ahead_call({1}_table, {3}_TABLE_BYTES, \"{2}\", args, count, "
        "stream);\n}}\n\n",
        params_text(c), args.name, c.name, upper(args.name));
  return text + fmt::format("#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {} */\n", guard);
}

std::string cmake_of(const std::string& name) {
  return fmt::format(
      "# add_executable(mine mine.c); target_link_libraries(mine PRIVATE {0})\n"
      "find_package(tegula REQUIRED)\n"
      "add_library({0} INTERFACE)\n"
      "target_include_directories({0} INTERFACE \"${{CMAKE_CURRENT_LIST_DIR}}\")\n"
      "target_link_libraries({0} INTERFACE \"${{CMAKE_CURRENT_LIST_DIR}}/{0}.o\" tegula::tegula)\n",
      name);
}

/// Calls of the library depend on the GPU's properties and winners.
void add_library_call(const CallShape& shape, const ShapedCall& call, const AotArgs& args,
                      dsl::AheadTable& table) {
  const detail::Exported& callee = exported_of(shape);
  if (!call.tuning.empty())
    throw std::runtime_error(
        fmt::format("line {}: {} is not a kernel with values of tune(), as {} is", shape.line,
                    shape.callable, call.tuning.begin()->first));
  if (const std::string decided{runtime::default_target(Device::cuda()).name()};
      decided != args.target)
    throw std::runtime_error(fmt::format("{} is not a kernel: it is decided for {}, which is {}",
                                         shape.callable, runtime::device_properties(0).name,
                                         decided));
  const c::Arguments arguments(callee, call.args, true);
  table.add(shape.callable, callee.callable(), args.target, arguments.host());
}

void add_call(const CallShape& shape, const AotArgs& args, dsl::AheadTable& table) {
  const detail::Exported& callee = exported_of(shape);
  const auto call = call_of(shape, callee, Device::cuda(), true);
  const auto& kernel = callee.callable().kernel;
  if (!kernel) return add_library_call(shape, *call, args, table);
  const c::Arguments arguments(callee, call->args, true);
  const auto tuned = call->tuning.empty() ? kernel : kernel->with(call->tuning, callee.loc());
  table.add(shape.callable, callee.callable().params, *tuned, args.target, arguments.host());
}

/// Accepts identifiers of C. Keywords are accepted, too, because the names in the header have a
/// suffix.
CLI::Validator c_identifier() {
  const auto check = [](const std::string& name) {
    const auto is_letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
    const bool fits = !name.empty() && std::ranges::all_of(name, is_letter) &&
                      std::isdigit(static_cast<unsigned char>(name.front())) == 0;
    return fits ? std::string()
                : fmt::format("'{}' is not an identifier of C: use letters, digits and _", name);
  };
  return {check, "IDENTIFIER"};
}

void compile_ahead(const AotArgs& args) {
  open_libraries(args.libraries);
  dsl::AheadTable table;
  if (!args.gpu.empty() || Device::cuda_count() == 0) runtime::describe_gpu(known_gpu(args.gpu));
  for (const CallShape& shape : read_shapes(args.shapes)) add_call(shape, args, table);
  const std::filesystem::path folder = args.folder;
  std::filesystem::create_directories(folder);
  const std::string bytes = table.encode();
  write_output(folder / (args.name + ".o"), elf_object(args.name + "_table", bytes));
  write_output(folder / (args.name + ".h"), c_header_of(args, table, bytes.size()));
  write_output(folder / (args.name + ".cmake"), cmake_of(args.name));
  const auto kernels = table.kernels();
  const auto cubins = std::ranges::count_if(kernels, [](const auto& kernel) {
    return kernel->artefact().kind == runtime::ImageKind::cubin;
  });
  fmt::print("{} calls, {} kernels, {} of them machine code, {} bytes: {}\n", table.size(),
             kernels.size(), cubins, bytes.size(),
             (folder / (args.name + ".{o,h,cmake}")).string());
}

}  // namespace

void add_aot(CLI::App& program, int&) {
  CLI::App* command = program.add_subcommand(
      "aot", "Compile exported callables ahead of time, to an object file with its header");
  command->footer(
      "Lines of the file are those of `tegula tune`; words that name no dimension or parameter "
      "are\n"
      "values of tune(). A kernel serves all calls with the regularity of its line, a callable of\n"
      "the library only these extents, with its decisions for the GPU. A program that links the "
      "object\n"
      "needs libtegula.so, and neither LLVM nor NVRTC nor ptxas; where this machine has no "
      "assembler\n"
      "the GPU's driver compiles the PTX.\n"
      "Example:\n  tegula aot --lib libmine.so --shapes shapes.txt -o build --name mine\n"
      "  cc program.c build/mine.o -Ibuild -ltegula");
  const auto args = std::make_shared<AotArgs>();
  command->add_option("--lib", args->libraries, "Libraries that export the callables")->required();
  command->add_option("--shapes", args->shapes, "The file of calls")->required();
  command->add_option("-o,--output", args->folder, "Output folder")->required();
  command->add_option("--name", args->name, "Prefix of the files and of their functions in C")
      ->check(c_identifier())
      ->capture_default_str();
  command->add_option("--target", args->target, "Target to compile for")->capture_default_str();
  command->add_option(
      "--gpu", args->gpu,
      "GPU model that determines the decisions of library calls, such as H200, if it is not "
      "this machine's GPU 0");
  command->callback([args] { compile_ahead(*args); });
}

}  // namespace tegula::tools
