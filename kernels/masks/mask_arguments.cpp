#include "kernels/masks/mask_arguments.h"

#include <fmt/format.h>

namespace tegula::kernels::masks {

void require_at_least(int least, const char* mask, const char* name, const MaskScalar& number) {
  const std::optional<int> constant = number.constant();
  if (constant && *constant < least)
    fail(ErrorId::kernel_argument, number.loc(), {}, mask, name, *constant,
         fmt::format("{} or more", least));
}

}  // namespace tegula::kernels::masks
