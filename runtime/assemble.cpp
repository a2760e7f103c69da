#include "runtime/assemble.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>

#include "runtime/shared_library.h"
#include "runtime/subprocess.h"
#include "support/env.h"
#include "support/errors.h"
#include "support/text.h"

namespace tegula::runtime {
namespace {

bool is_program(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

std::vector<std::string> program_folders() {
  std::vector<std::string> folders;
  for (std::string_view folder : split(env().path, ':'))
    if (!folder.empty()) folders.emplace_back(folder);
  for (std::string& folder : toolkit_folders("bin")) folders.push_back(std::move(folder));
  return folders;
}

/// Returns the first line of the log that names an error.
std::string first_error(std::string_view log) {
  for (std::string_view line : split(log, '\n'))
    if (line.find("error") != std::string_view::npos ||
        line.find("fatal") != std::string_view::npos)
      return std::string(trim(line));
  return std::string(trim(log));
}

/// Writes rejected PTX to a file and returns the command that replays the failure; "" if the file
/// cannot be written.
std::string keep_reproducer(const std::filesystem::path& ptxas, const AssembleJob& job) {
  std::string name = (std::filesystem::temp_directory_path() / "tegula-XXXXXX.ptx").string();
  const int descriptor = ::mkostemps(name.data(), 4, O_CLOEXEC);
  if (descriptor < 0) return {};
  const bool whole =
      ::write(descriptor, job.ptx.data(), job.ptx.size()) == static_cast<ssize_t>(job.ptx.size());
  ::close(descriptor);
  return whole ? fmt::format("{} -arch={} -o /dev/null {}", ptxas.string(), job.target, name)
               : std::string();
}

/// Returns true if the tool wrote an ELF file. A tool that exits with 0 without one has failed.
bool is_elf(const std::vector<char>& file) {
  return file.size() > 64 && std::memcmp(file.data(), "\177ELF", 4) == 0;
}

}  // namespace

std::optional<std::filesystem::path> find_ptxas() {
  if (!env().ptxas.empty()) {
    if (is_program(env().ptxas)) return env().ptxas;
    throw DeviceError(
        diagnostic(ErrorId::bad_environment, {}, {}, "TEGULA_PTXAS", env().ptxas.string(),
                   "it is not a program",
                   "leave it unset: ptxas is then looked for on PATH and in /usr/local/cuda*/bin, "
                   "and without one the driver assembles"));
  }
  for (const std::string& folder : program_folders())
    if (std::filesystem::path file = folder + "/ptxas"; is_program(file)) return file;
  return std::nullopt;
}

std::string missing_ptxas_text() {
  return "ptxas, the assembler of the CUDA toolkit, was not found: TEGULA_PTXAS is not set, and it "
         "is neither on PATH "
         "nor in /usr/local/cuda*/bin. It comes with NVIDIA's package cuda-nvcc-13-0 (or any "
         "toolkit from 12.5 on; "
         "Debian's nvidia-cuda-toolkit 11.8 is too old for wgmma). Without it kernels are compiled "
         "to PTX, the NVRTC "
         "back end still makes cubins, and on a GPU the driver assembles the PTX at each start.";
}

void throw_missing_ptxas() {
  throw DeviceError(diagnostic(ErrorId::device_missing, {}, {}, missing_ptxas_text(),
                               "install it, or set TEGULA_PTXAS to its path"));
}

Assembled assemble(const AssembleJob& job) {
  const std::optional<std::filesystem::path> ptxas = find_ptxas();
  if (!ptxas) throw_missing_ptxas();
  const auto start = std::chrono::steady_clock::now();
  const MemoryFile source("tegula.ptx", job.ptx);
  const MemoryFile target("tegula.cubin", {});
  std::vector<std::string> argv{ptxas->string(), "-arch=" + job.target, "-v", "--warn-on-spills",
                                "--warn-on-local-memory-usage"};
  argv.insert(argv.end(), job.options.begin(), job.options.end());
  argv.insert(argv.end(), {"-o", target.path(), source.path()});
  const MemoryFile* const files[] = {&source, &target};
  const ProcessResult run = run_process(argv, files, job.limit);

  if (run.timed_out)
    throw DeviceError(diagnostic(ErrorId::assembler_time, {}, {}, job.kernel,
                                 std::chrono::duration<double>(job.limit).count(), job.target,
                                 "use smaller tiles, or steps(...) where a C++ loop repeats "
                                 "operations: ptxas takes long for long code without loops"));
  const auto failed = [&](const std::string& how) {
    return DeviceError(diagnostic(
        ErrorId::assembler_failed, {}, {}, job.kernel, job.target,
        fmt::format("{} {}\n{}", argv[0], how, run.output),
        "install another version of ptxas, or set TEGULA_PTXAS to its path; `tegula doctor` names "
        "the one that is used"));
  };
  if (run.signal != 0) throw failed("ended by " + run.how_it_ended());
  if (!run.ok())
    throw InternalError(fmt::format("ptxas refused the PTX of kernel {} for {}: {}", job.kernel,
                                    job.target, first_error(run.output)),
                        keep_reproducer(*ptxas, job));
  Assembled result;
  result.cubin = target.read_all();
  if (!is_elf(result.cubin)) throw failed("reported success but wrote no cubin");
  result.report = parse_assembler_log(run.output);
  result.log = run.output;
  result.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace tegula::runtime
