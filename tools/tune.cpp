// tegula tune: tunes the tune() values of exported kernels and the decisions of exported library
// calls, for the shapes of a file.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>

#include "autotune/calls/first_calls.h"
#include "autotune/calls/tune_calls.h"
#include "autotune/device_class.h"
#include "autotune/store/bundled_winners.h"
#include "autotune/store/store_text.h"
#include "autotune/store/tuning_store.h"
#include "dsl/export/arguments.h"
#include "dsl/export/kernel_tuner.h"
#include "runtime/kernel_recorder.h"
#include "support/text.h"
#include "tools/call_shapes.h"
#include "tools/commands.h"
#include "tools/one_of.h"
#include "tools/tune_display.h"

namespace tegula::tools {
namespace {

constexpr int kFailed = 2, kPartly = 3;

struct TuneArgs {
  std::vector<std::string> libraries, devices;
  std::string shapes, output, budget = "quick";
  double seconds = 0, seconds_of_each = 0;  ///< 0: unlimited, and the budget's limit
  bool json = false, again = false, may_change_bits = false;
};

std::vector<Device> devices_of(const TuneArgs& args) {
  std::vector<Device> devices;
  for (const std::string& name : args.devices) devices.push_back(Device::parse(name, {}));
  if (devices.empty()) devices.push_back(Device::best());
  return devices;
}

TuneOptions options_of(const TuneArgs& args) {
  TuneOptions options;
  options.budget = args.budget == "full" ? TuneBudget::full : TuneBudget::quick;
  options.again = args.again;
  options.may_change_bits = args.may_change_bits;
  return options;
}

autotune::RaceLimits limits_of(const TuneArgs& args, const TuneOptions& options) {
  autotune::RaceLimits limits = autotune::limits_of(options.budget);
  if (args.seconds_of_each > 0) limits.seconds = args.seconds_of_each;
  return limits;
}

/// Contents of a bundle: the kernels that the shapes use after tuning, and their winners.
struct Collected {
  std::mutex mutex;
  std::vector<runtime::BundledKernel> kernels;
  std::vector<std::pair<std::string, std::string>> families;  ///< device class, family
};

class ShapeTuning {
 public:
  ShapeTuning(const TuneArgs& args, std::vector<CallShape> shapes)
      : args_(args),
        shapes_(std::move(shapes)),
        display_(static_cast<int>(shapes_.size()), args.json, ::isatty(STDOUT_FILENO) != 0) {}

  /// Each device repeatedly takes the next free shape.
  void run(const std::vector<Device>& devices) {
    const auto work = [&](Device device) {
      for (std::size_t i = next_++; i < shapes_.size(); i = next_++)
        if (has_time())
          tune(shapes_[i], device);
        else
          display_.not_reached(shapes_[i].callable + " " + shapes_[i].text);
    };
    display_.device(devices.front());
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < devices.size(); ++i) others.emplace_back(work, devices[i]);
    work(devices.front());
    others.clear();
    display_.end();
  }

  void write_bundle(const std::string& file) {
    if (const std::string lines = winners(); !lines.empty())
      collected_.kernels.push_back(autotune::winners_entry(lines));
    if (collected_.kernels.empty())
      throw std::runtime_error("no shape has a winner or GPU code: " + file + " is not written");
    std::ofstream out(file, std::ios::binary);
    out << runtime::encode_bundle(collected_.kernels);
    if (!out.flush()) throw std::runtime_error("cannot write " + file);
  }

  int exit_code() const {
    const TuneCounts counts = display_.counts();
    if (counts.failed == 0) return 0;
    return counts.failed == counts.done() ? kFailed : kPartly;
  }

 private:
  bool has_time() const {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin_;
    return args_.seconds <= 0 || took.count() < args_.seconds;
  }

  void tune(const CallShape& shape, Device device) {
    const std::string name = shape.callable + " " + shape.text;
    try {
      const detail::Exported& callee = exported_of(shape);
      const auto call = call_of(shape, callee, device, false);
      const c::Arguments arguments(callee, call->args);
      const autotune::TuneListener listener(
          {[&](const autotune::RaceProgress& p, const std::string& best) {
             display_.progress(name, p, best);
           },
           [&](const autotune::TimedSetting& s) { display_.timed(name, s); }});
      const TunedShape tuned = callee.callable().kernel
                                   ? tune_kernel(*callee.callable().kernel, arguments)
                                   : tune_calls(callee, arguments);
      display_.finished(name, tuned, work_of(shape, *call));
    } catch (const std::exception& e) {
      display_.failed(name, e.what());
    }
  }

  TunedShape tune_kernel(dsl::KernelInstance& kernel, const c::Arguments& arguments) {
    const TunedShape tuned =
        shape_of(dsl::kernel_tuner()(kernel, options_of(args_), arguments.host()));
    if (!args_.output.empty()) {
      const Stream stream(arguments.device());
      collect(*kernel.launcher.prepare(kernel, &stream, arguments.host()), arguments.device(),
              "kernel " + kernel.name());
    }
    return tuned;
  }

  TunedShape tune_calls(const detail::Exported& callee, const c::Arguments& arguments) {
    const Device device = arguments.device();
    const TuneOptions options = options_of(args_);
    std::vector<TunedDecision> decisions;
    const Stream stream(device);
    autotune::on_first_calls(
        [&] { callee.callable().call(stream, arguments.host(), callee.loc()); },
        [&](const dsl::FirstCall& call) {
          for (TunedDecision& d : autotune::tune_call(call, options, limits_of(args_, options)))
            decisions.push_back(std::move(d));
          if (args_.output.empty()) return;
          for (const dsl::PlanStep& step : call.build()->steps)
            for (const TunedDecision& d : decisions) collect(*step.kernel, device, d.family);
        });
    if (decisions.empty())
      throw std::runtime_error(std::string(callee.name()) +
                               " is not a kernel and has no decisions");
    return shape_of(decisions);
  }

  static CallWork work_of(const CallShape& shape, const ShapedCall& call) {
    CallWork work;
    for (const Tensor& t : call.tensors)
      work.bytes += static_cast<double>(t.numel() * size_bytes(t.dtype()));
    if (const auto flops = shape.words.find("flops"); flops != shape.words.end())
      work.flops = std::strtod(flops->second.c_str(), nullptr);
    return work;
  }

  void collect(const runtime::CompiledKernel& kernel, Device device, const std::string& family) {
    auto entry = recorder_.find(kernel);
    const std::lock_guard lock(collected_.mutex);
    if (entry) collected_.kernels.push_back(std::move(*entry));
    collected_.families.emplace_back(autotune::device_class(device), family);
  }

  /// Returns the store's lines for the tuned families.
  std::string winners() const {
    std::string lines;
    const std::string all = autotune::TuningStore::of_process().export_text();
    autotune::for_each_line(all, [&](std::string_view line) {
      const auto w = autotune::row_of<autotune::Winner>(line);
      if (w && std::ranges::count(collected_.families, std::pair(w->key.device, w->key.family)) > 0)
        lines += std::string(line) + "\n";
    });
    return lines;
  }

  const TuneArgs& args_;
  const std::vector<CallShape> shapes_;
  TuneDisplay display_;
  runtime::KernelRecorder recorder_;
  Collected collected_;
  std::atomic<std::size_t> next_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

int tune(const TuneArgs& args) {
  open_libraries(args.libraries);
  std::vector<CallShape> shapes = read_shapes(args.shapes);
  if (args.budget == "off") {
    for (const CallShape& s : shapes) call_of(s, exported_of(s), Device::cpu(), true);
    fmt::print("{} shapes are sound\n", shapes.size());
    return 0;
  }
  ShapeTuning tuning(args, std::move(shapes));
  tuning.run(devices_of(args));
  if (!args.output.empty()) tuning.write_bundle(args.output);
  return tuning.exit_code();
}

}  // namespace

void add_tune(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "tune",
      "Tune the tune() values of exported kernels and the decisions of exported library calls "
      "for the shapes of a file");
  command->footer(
      "A line of the file is a call: extents by the names of dimensions, numbers by those of\n"
      "parameters, tensors without names as f32[64,32], optional ones as none; # begins a "
      "comment.\n"
      "  matmul M=4096 N=512 K=1024 scale=0.5\n"
      "Winners are stored per user; results in the store are not measured again, so "
      "that\n"
      "a killed run can be resumed. Exit codes: 0, 2 if all shapes fail, 3 if some do.\n"
      "Examples:\n  tegula tune --lib libmine.so --shapes shapes.txt\n"
      "  tegula tune --lib libmine.so --shapes shapes.txt --budget full --gpus cuda:0,cuda:1 -o "
      "mine.tgb\n"
      "  tegula tune --lib libmine.so --shapes shapes.txt --json > events.jsonl");
  const auto args = std::make_shared<TuneArgs>();
  command->add_option("--lib", args->libraries, "Libraries that export the kernels")->required();
  command->add_option("--shapes", args->shapes, "The file of calls")->required();
  command->add_option("-o,--output", args->output,
                      "A bundle (.tgb) of the winners and the code that they name");
  command
      ->add_option("--budget", args->budget,
                   "off checks the file; quick takes 3 s per shape, full a minute")
      ->check(one_of({"off", "quick", "full"}))
      ->capture_default_str();
  command
      ->add_option("--gpus,--device", args->devices,
                   "Devices, which share the shapes: cuda:0,cuda:1")
      ->delimiter(',');
  command
      ->add_option("--seconds", args->seconds,
                   "Start no further shape after this time; 0: no limit")
      ->capture_default_str();
  command
      ->add_option("--seconds-each", args->seconds_of_each,
                   "Limit of each decision of a call, instead of the budget's")
      ->capture_default_str();
  command->add_flag("--json", args->json, "Events as lines of JSON");
  command->add_flag("--again", args->again, "Also measure shapes whose winners are known");
  command->add_flag("--may-change-bits", args->may_change_bits,
                    "Also accept settings whose results differ in the last bits");
  command->callback([args, &exit_code] { exit_code = tune(*args); });
}

}  // namespace tegula::tools
