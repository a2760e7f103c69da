#pragma once
#include "ir/pipeline.h"

namespace tegula::ir {

/// Cluster split-K: divides the k-iterations of a kernel's GEMMs over the CTAs of clusters, as plan
/// field `cluster_split_k` asks. A given plan requires it (CompileError); changes to a plan are
/// dropped with a remark if the kernel does not allow it. Returns the CTAs of a cluster.
int apply_cluster_split_k(Kernel& k, PassContext& context);

}  // namespace tegula::ir
