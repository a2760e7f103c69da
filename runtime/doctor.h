#pragma once
// Lists the parts of this machine that Tegula uses: present or missing, the package that brings
// each and the features it enables. Data only: the tool prints it.
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
  bool makes_ptx = false;     ///< the LLVM back end is there
  bool makes_cubins = false;  ///< ptxas with LLVM, or NVRTC
  bool launches = false;      ///< a GPU that the driver can use

  const DoctorCheck& finding(const std::string& part) const;
  /// The lines that `tegula doctor` prints.
  std::string str() const;
};

/// Looks at everything. Does not throw for what is missing; loads the driver and NVRTC, not LLVM.
Diagnosis diagnose();

}  // namespace tegula::runtime
