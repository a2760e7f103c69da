#pragma once
// Plots of a tuning run as inline SVG.
#include <string>

#include "tools/report_run.h"

namespace tegula::tools {

/// Best time over that of the defaults, against the seconds of the run.
std::string convergence_svg(const ReportedShape& shape);
/// A line a setting over one axis for each of its values, coloured by its time.
std::string parallel_svg(const ReportedShape& shape);
/// Measured time against the model's estimate, a point a setting, with the rank correlation.
std::string model_svg(const ReportedShape& shape);
/// CTAs of an SM by setting, with what limits them.
std::string occupancy_svg(const ReportedShape& shape, const ReportedDevice& device);
/// Rate against intensity under the ceilings of memory and tensor cores; by bytes alone where the
/// operations are not known.
std::string roofline_svg(const ReportedShape& shape, const ReportedDevice& device);

}  // namespace tegula::tools
