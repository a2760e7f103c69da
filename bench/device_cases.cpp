// Kernels of whole arrays: scan, compaction, segment sums, sorts, top-k, histogram; log-space
// matmul.
#include <vector>

#include "bench/bench.h"
#include "tegula/kernels/device_histogram.h"
#include "tegula/kernels/device_scan.h"
#include "tegula/kernels/device_searchsorted.h"
#include "tegula/kernels/device_segment_sum.h"
#include "tegula/kernels/device_select.h"
#include "tegula/kernels/device_sort.h"
#include "tegula/kernels/device_topk.h"
#include "tegula/kernels/log_matmul.h"

namespace tegula::bench {
using namespace kernels;

void add_device_cases(std::vector<Case>& list) {
  list.push_back(
      {"device_scan", [](const Stream& s, Tensors t, double) { device_scan(s, t[0], t[1]); }});
  list.push_back({"device_scan_look_back", [](const Stream& s, Tensors t, double) {
                    device_scan(s, t[0], t[1], {.look_back = true});
                  }});
  // x, keep, y, count.
  list.push_back({"device_select", [](const Stream& s, Tensors t, double) {
                    device_select(s, t[0], t[1], t[2], t[3]);
                  }});
  // x, offsets, y.
  list.push_back({"device_segment_sum", [](const Stream& s, Tensors t, double) {
                    device_segment_sum(s, t[0], t[1], t[2]);
                  }});
  // sorted, values, y.
  list.push_back({"device_searchsorted", [](const Stream& s, Tensors t, double) {
                    device_searchsorted(s, t[0], t[1], t[2]);
                  }});
  list.push_back({"device_histogram",
                  [](const Stream& s, Tensors t, double) { device_histogram(s, t[0], t[1]); }});
  // keys, sorted, and optionally places.
  list.push_back({"device_sort", [](const Stream& s, Tensors t, double) {
                    device_sort(s, t[0], t[1], {.sorted_values = t.size() > 2 ? t[2] : Tensor()});
                  }});
  // x, values, indices.
  list.push_back({"device_topk",
                  [](const Stream& s, Tensors t, double) { device_topk(s, t[0], t[1], t[2]); }});
  list.push_back(
      {"log_matmul", [](const Stream& s, Tensors t, double) { log_matmul(s, t[0], t[1], t[2]); }});
}

}  // namespace tegula::bench
