// tegula calibrate: measures a GPU that has no row among the device profiles.
#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "autotune/calibration/calibrate.h"
#include "autotune/field.h"
#include "tools/commands.h"

namespace tegula::tools {
namespace {

void calibrate(const std::string& name) {
  const Device device = Device::parse(name, {});
  if (device.kind != DeviceKind::cuda)
    throw std::runtime_error(name + " is not a GPU: only GPUs are calibrated");
  const autotune::MeasuredRates rates = autotune::measure_rates(device);
  fmt::print("{} {}\n", device.str(), autotune::text_of(rates));
  const bool is_exact = find_profile(device.index).is_exact;
  if (!is_exact) autotune::keep_rates(device, rates);
  fmt::print("{}\n", is_exact ? "its model has its own profile, which determines choices"
                              : "these rates determine choices for this GPU from now on");
}

}  // namespace

void add_calibrate(CLI::App& program, int&) {
  CLI::App* command = program.add_subcommand(
      "calibrate",
      "Measure the rates of a GPU of an unknown model in about a second, to base choices on them");
  command->footer(
      "The rates are stored with the results of tuning. Tuning on such a GPU measures them first.\n"
      "Example:\n  tegula calibrate --device cuda:1");
  const auto device = std::make_shared<std::string>("cuda:0");
  command->add_option("--device", *device, "The GPU")->capture_default_str();
  command->callback([device] { calibrate(*device); });
}

}  // namespace tegula::tools
