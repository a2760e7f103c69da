#pragma once
// Address space for tensors that are too large to be written.
#include <sys/mman.h>

#include <cstddef>

namespace tegula::test {

/// Zeros that take no memory until they are written.
class ReservedMemory {
 public:
  explicit ReservedMemory(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~ReservedMemory() {
    if (is_there()) munmap(data_, bytes_);
  }
  ReservedMemory(const ReservedMemory&) = delete;
  ReservedMemory& operator=(const ReservedMemory&) = delete;
  bool is_there() const { return data_ != MAP_FAILED; }
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

}  // namespace tegula::test
