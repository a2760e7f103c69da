#include "runtime/reachable_memory.h"

#include "runtime/storage.h"

namespace tegula::runtime {

std::vector<ir::HostMemory> reachable_memory(const ir::Kernel& tile) {
  std::vector<ir::HostMemory> all;
  if (!ir::takes_addresses(tile)) return all;
  for (const HostAllocation& a : host_allocations()) all.push_back({a.begin, a.bytes});
  return all;
}

}  // namespace tegula::runtime
