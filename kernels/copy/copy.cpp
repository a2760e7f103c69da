// Tiled copies of tensors with any strides; elements are copied as bits.
#include "tegula/kernels/copy.h"

#include "kernels/argument_error.h"
#include "kernels/copy/copy_slots.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

constexpr int kCopyRows = 32, kCopyColumns = 64;

template <class T>
auto copy_one() {
  return kernel("copy", [](In<T, 3> X, Out<T, 3> Y) {
    for (auto [b, m, n] : grid(Y, 1, kCopyRows, kCopyColumns)) {
      grid_launch_dependents();
      Y(b, m, n) = X(b, m, n);
    }
  });
}

template <class T>
auto copy_two() {
  return kernel("copy_two", [](In<T, 3> X, Out<T, 3> Y, In<T, 3> V, Out<T, 3> W) {
    const auto first = tiles_of(Y, 1, kCopyRows, kCopyColumns),
               second = tiles_of(W, 1, kCopyRows, kCopyColumns);
    for (auto p : grid(GridSpace({first.count() + second.count()}), 1)) {
      grid_launch_dependents();
      const auto copy_tile = [](const auto& from, const auto& to, const auto& at) {
        const auto& [b, m, n] = at;
        to(b, m, n) = from(b, m, n);
      };
      if_(
          p.first() < first.count(), [&] { copy_tile(X, Y, first.at(p.first())); },
          [&] { copy_tile(V, W, second.at(p.first() - first.count())); });
    }
  });
}

/// Returns the tensor as three dimensions, with elements of an unsigned type.
Tensor as_bits(const Tensor& t, DType bits) {
  const Tensor box = t.with_rank(3);
  return Tensor::borrow(t.data(), box.shape(), bits, t.device(), box.strides());
}

template <class T>
struct CopyKernels {
  decltype(copy_one<T>()) one = copy_one<T>();
  decltype(copy_two<T>()) two = copy_two<T>();
};
template <class T>
const CopyKernels<T>& copy_kernels() {
  static const auto* const all = new CopyKernels<T>;  // leaked: static destructors may call
  return *all;
}

/// Calls `f` with a value of the unsigned type of the same size.
template <class F>
void with_bits(DType dtype, const F& f) {
  switch (size_bytes(dtype)) {
    case 1:
      return f(u8{});
    case 2:
      return f(u16{});
    case 4:
      return f(u32{});
    default:
      return f(u64{});
  }
}

template <class T>
void copy_all(const Stream& stream, std::span<const TensorCopy> copies) {
  const auto bits = [](const Tensor& t) { return as_bits(t, dtype_of<T>); };
  for (; copies.size() > 1; copies = copies.subspan(2))
    copy_kernels<T>().two(stream, bits(copies[0].from), bits(copies[0].to), bits(copies[1].from),
                          bits(copies[1].to));
  if (!copies.empty()) copy_kernels<T>().one(stream, bits(copies[0].from), bits(copies[0].to));
}

template <class T>
void plan_all(PlanBuilder& plan, std::span<const SlotCopy> copies) {
  const auto bits = [&](PlanSlot slot) {
    return plan.view(slot, [](const Tensor& t) { return as_bits(t, dtype_of<T>); });
  };
  for (; copies.size() > 1; copies = copies.subspan(2))
    plan.launch(copy_kernels<T>().two, bits(copies[0].from), bits(copies[0].to),
                bits(copies[1].from), bits(copies[1].to));
  if (!copies.empty()) plan.launch(copy_kernels<T>().one, bits(copies[0].from), bits(copies[0].to));
}

void check_copy(const TensorCopy& c, DType dtype) {
  if (c.from.shape() == c.to.shape() && c.from.dtype() == dtype && c.to.dtype() == dtype &&
      c.from.rank() >= 1 && c.from.rank() <= 3)
    return;
  throw_argument_error(ErrorId::copied_tensors, c.from.str(), c.to.str());
}

}  // namespace

void copy(const Stream& stream, std::span<const TensorCopy> copies, Loc at) {
  const detail::CallPlace here(at);
  if (copies.empty()) return;
  const DType dtype = copies.front().from.dtype();
  for (const TensorCopy& c : copies) check_copy(c, dtype);
  with_bits(dtype, [&]<class T>(T) { copy_all<T>(stream, copies); });
}

void plan_copies(PlanBuilder& plan, std::span<const SlotCopy> copies) {
  if (copies.empty()) return;
  with_bits(plan.tensor(copies.front().from).dtype(),
            [&]<class T>(T) { plan_all<T>(plan, copies); });
}

void copy(const Stream& stream, const Tensor& from, const Tensor& to, Loc at) {
  const TensorCopy one[] = {{from, to}};
  copy(stream, one, at);
}

}  // namespace tegula::kernels
