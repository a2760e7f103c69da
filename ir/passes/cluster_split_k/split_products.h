#pragma once
#include "ir/pipeline.h"

namespace tegula::ir {

/// Divides the steps of a kernel's products among the programs of clusters, as plan field `splits`
/// asks: of a plan that is given it is required (CompileError), of changes to one it is dropped
/// with a remark where the kernel is not so. Gives the programs of a cluster that are now the
/// plan's.
int split_as_asked(Kernel& k, PassContext& context);

}  // namespace tegula::ir
