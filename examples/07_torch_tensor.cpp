// Lesson 7: tensors of other libraries, without a copy. A PyTorch extension gets a DLManagedTensor
// from a tensor's
// __dlpack__() and gives one back to torch.from_dlpack; here a small struct plays PyTorch's part.
#include <tegula/tegula.h>

#include <cstdio>
#include <numeric>

using namespace tegula;

namespace {

/// A tensor as another library owns it: DLPack says where it is, what it is, and how to give it
/// back.
struct Foreign {
  std::vector<float> values;
  std::int64_t shape[2], strides[2];
  bool* returned;
  dlpack::ManagedTensor managed;
};

/// rows x columns, column-major as a transposed torch tensor would be: strides go along.
dlpack::ManagedTensor* export_tensor(std::int64_t rows, std::int64_t columns, bool* returned) {
  auto* f = new Foreign{std::vector<float>(static_cast<std::size_t>(rows * columns)),
                        {rows, columns},
                        {1, rows},
                        returned,
                        {}};
  std::iota(f->values.begin(), f->values.end(), 0.0f);
  f->managed.tensor = {f->values.data(),
                       {dlpack::DeviceType::cpu, 0},
                       2,
                       {static_cast<std::uint8_t>(dlpack::TypeCode::floating), 32, 1},
                       f->shape,
                       f->strides,
                       0};
  f->managed.manager_context = f;
  f->managed.deleter = [](dlpack::ManagedTensor* self) {
    auto* mine = static_cast<Foreign*>(self->manager_context);
    *mine->returned = true;
    delete mine;
  };
  return &f->managed;
}

}  // namespace

int main() {
  const auto square = kernel("square", [](In<f32, 2> x, Out<f32, 2> y) {
    for (auto [r, c] : grid(y, 8, 32)) {
      const Tile v = x(r, c);
      y(r, c) = v * v;
    }
  });

  const std::int64_t rows = 20, columns = 50;
  bool returned = false, right = true;
  dlpack::ManagedTensor* out = nullptr;
  {
    const Tensor host = Tensor::from_dlpack(export_tensor(rows, columns, &returned));
    // Foreign memory of the host is on the device cpu; on a GPU, torch's tensors are there already
    // and nothing is moved.
    const Tensor x = host.to(Device::best());
    const Tensor y = Tensor::empty({rows, columns}, DType::f32, Device::best());
    square(x, y);  // with torch: Stream::wrap(the pointer of torch.cuda.current_stream()) as the
                   // first argument
    std::printf("in:  %s\nout: %s\n", host.str().c_str(), y.str().c_str());
    right = right && !returned;

    out = y.to(Device::cpu()).to_dlpack_unversioned();  // torch.from_dlpack takes this
  }
  // The input was given back with its last view; the output lives on until its new owner calls the
  // deleter.
  right = right && returned;
  const dlpack::Tensor& t = out->tensor;
  const auto* values =
      reinterpret_cast<const float*>(static_cast<const char*>(t.data) + t.byte_offset);
  right = right && t.ndim == 2 && t.shape[0] == rows && t.shape[1] == columns && t.dtype.bits == 32;
  for (std::int64_t r = 0; right && r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto in = static_cast<float>(c * rows + r);
      const std::int64_t at = t.strides ? r * t.strides[0] + c * t.strides[1] : r * columns + c;
      right = right && values[at] == in * in;
    }
  out->deleter(out);
  std::printf("%s\n", right ? "all as it should be" : "SOMETHING IS WRONG");
  return right ? 0 : 1;
}
