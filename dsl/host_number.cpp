#include "tegula/host_number.h"

#include "support/errors.h"

namespace tegula::detail {

template <class N>
void refuse_number(N number, const char* what, DType dtype, const Loc& at) {
  fail(ErrorId::scalar_range, at, {}, what, name(dtype), number);
}
template void refuse_number(std::int64_t, const char*, DType, const Loc&);
template void refuse_number(std::uint64_t, const char*, DType, const Loc&);
template void refuse_number(double, const char*, DType, const Loc&);

}  // namespace tegula::detail
