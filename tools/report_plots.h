#pragma once
// Plots of a tuning run as inline SVG.
#include <string>

#include "tools/report_run.h"

namespace tegula::tools {

/// Plots the best time relative to the defaults against the seconds of the run.
std::string convergence_svg(const ReportedShape& shape);
/// Plots each setting as a line across one axis per value, coloured by time.
std::string parallel_svg(const ReportedShape& shape);
/// Plots measured time against the model's estimate, one point per setting, with the rank
/// correlation.
std::string model_svg(const ReportedShape& shape);
/// Plots the CTAs per SM of each setting and the limiting resource.
std::string occupancy_svg(const ReportedShape& shape, const ReportedDevice& device);
/// Plots the rate against arithmetic intensity below the memory and tensor-core ceilings; uses
/// bytes only if the number of operations is unknown.
std::string roofline_svg(const ReportedShape& shape, const ReportedDevice& device);

}  // namespace tegula::tools
