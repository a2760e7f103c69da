#include "dsl/plan_key.h"

#include <bit>

#include "dsl/signature.h"

namespace tegula::dsl {
namespace {

/// Returns log2 of the largest power of two up to 128 that divides `n`; 128 bytes are an L2 cache
/// line. 0 is divisible by all of them.
std::uint64_t alignment_class(std::uint64_t n) {
  constexpr int kLine = 7;
  return n == 0 ? kLine : static_cast<std::uint64_t>(std::min(std::countr_zero(n), kLine));
}

std::uint64_t stride_class(std::int64_t stride) {
  return alignment_class(static_cast<std::uint64_t>(stride)) | (stride == 1 ? 8u : 0u) |
         (stride == 0 ? 16u : 0u) | (stride < 0 ? 32u : 0u);
}

/// Returns the class of an address, in 5 bits. With exact strides it contains the lowest 4 bits of
/// the address: they determine the alignment of views that begin at other elements.
std::uint64_t address_class(std::uint64_t address, StrideKey strides) {
  return strides == StrideKey::classes || address % 16 == 0 ? alignment_class(address)
                                                            : 16 + address % 16;
}

constexpr std::uint64_t kAbsent = ~std::uint64_t{0};  // differs from every tensor's first word

}  // namespace

void PlanKey::add(const Tensor& t) {
  if (!t.defined()) return add(kAbsent);
  add(static_cast<std::uint64_t>(t.dtype()) | static_cast<std::uint64_t>(t.rank()) << 8 |
      address_class(reinterpret_cast<std::uintptr_t>(t.data()), strides_) << 16 |
      static_cast<std::uint64_t>(needs_wide_index(t)) << 21 |
      static_cast<std::uint64_t>(t.device().kind) << 24 |
      static_cast<std::uint64_t>(t.device().index) << 32);
  std::uint64_t strides = 0;
  for (std::size_t i = 0; i < t.shape().size(); ++i) {
    add(static_cast<std::uint64_t>(t.shape()[i]));
    if (strides_ == StrideKey::exact)
      add(static_cast<std::uint64_t>(t.strides()[i]));
    else
      strides = strides << 8 | stride_class(t.strides()[i]);
  }
  if (strides_ == StrideKey::classes) add(strides);
}

void PlanKey::add(const HostArg& a) {
  switch (a.kind) {
    case detail::ParamKind::View:
      if (a.tensor)
        add(*a.tensor);
      else
        add(kAbsent);
      return;
    case detail::ParamKind::Constant:
      add(a.bits);
      return;
    case detail::ParamKind::Pointer:
      add(address_class(a.bits, strides_) |
          static_cast<std::uint64_t>(a.tensor && needs_wide_index(*a.tensor)) << 8);
      return;
    case detail::ParamKind::Scalar:
      return;
  }
}

}  // namespace tegula::dsl
