// Choice of a GEMM's configuration, and its text.
#include "autotune/calls/decision.h"
#include "autotune/matmul/space.h"

namespace tegula {

std::string MatmulConfig::str() const {
  const auto count = [](const char* what, int n) { return what + std::to_string(n); };
  const char* split_text = split == SplitK::cluster    ? " cluster_split_k "
                           : split == SplitK::partials ? " split_k "
                                                       : " stream_k ";
  const std::string_view shared = autotune::enumerator_name(multicast);
  return count("", bm) + count("x", bn) + count("x", bk) +
         (split != SplitK::none ? count(split_text, parts) : "") + (swap_ab ? " swap_ab" : "") +
         (operands == OperandPath::direct ? " direct" : "") +
         (multicast != Multicast::none ? " multicast " + std::string(shared) : "") +
         (pingpong ? " pingpong" : "") + (tma_store ? " tma_store" : "") +
         (stages != 0 ? count(" stages ", stages) : "") +
         (group_m != MatmulConfig().group_m ? count(" group_m ", group_m) : "");
}

MatmulConfig choose_matmul(const MatmulProblem& problem, const DeviceProfile& gpu) {
  return autotune::choose(problem, autotune::matmul_space(), gpu).config;
}

MatmulConfig choose_matmul(const MatmulProblem& problem, Device device, std::string_view family) {
  return autotune::decide(autotune::Family{family}, problem, autotune::matmul_space(), device);
}

}  // namespace tegula
