#pragma once
// Lists the parts of this machine that Tegula uses: whether each is present, the package that
// provides it and the features it enables. Data only: the tool prints it.
#include <string>
#include <vector>

#include "runtime/context.h"
#include "tegula/device.h"

namespace tegula::runtime {

struct DoctorCheck {
  std::string part;  ///< "driver", "GPU", "ptxas", "NVRTC", "LLVM", "cache", "environment"
  bool present = false;
  std::string detail;   ///< the finding, or the reason why it is missing
  std::string enables;  ///< features that it enables
  std::string remedy;   ///< empty if present
};

struct Diagnosis {
  std::vector<DoctorCheck> findings;
  std::vector<DeviceProperties> gpus;
  Device default_device;
  bool makes_ptx = false;     ///< the LLVM back end is present
  bool makes_cubins = false;  ///< ptxas with LLVM, or NVRTC
  bool launches = false;      ///< the driver can use a GPU

  const DoctorCheck& finding(const std::string& part) const;
  /// Returns the lines that `tegula doctor` prints.
  std::string str() const;
};

/// Examines all parts. Does not throw for missing ones. Loads the driver and NVRTC, but not LLVM.
Diagnosis diagnose();

}  // namespace tegula::runtime
