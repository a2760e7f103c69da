#include "kernels/attention/cache_arguments.h"

#include <string>
#include <string_view>

#include "kernels/argument_error.h"

namespace tegula::kernels {
namespace {

std::string shown(const Tensor& t) { return t.defined() ? t.str() : "undefined"; }

bool is_table(const Tensor& t, Device device, int rank) {
  return t.defined() && t.dtype() == DType::i32 && t.rank() == rank && t.device() == device &&
         (t.size(rank - 1) <= 1 || t.stride(rank - 1) == 1);
}

std::int64_t requests_of(const KvBatch& batch) {
  const Tensor& lengths = batch.kv_lengths;
  return lengths.defined() && lengths.rank() == 1 ? lengths.size(0) : 0;
}

void check_batch(const char* caller, const KvBatch& batch, Device device) {
  const std::int64_t requests = requests_of(batch);
  if (!is_table(batch.kv_lengths, device, 1))
    throw_argument_error(ErrorId::kv_lengths, caller, "kv_lengths", shown(batch.kv_lengths),
                         requests);
  if (!is_table(batch.q_offsets, device, 1) || batch.q_offsets.size(0) != requests + 1)
    throw_argument_error(ErrorId::kv_lengths, caller, "q_offsets", shown(batch.q_offsets),
                         requests);
}

}  // namespace

void check_batch(const char* caller, const KvBatch& batch) {
  const Tensor& lengths = batch.kv_lengths;
  check_batch(caller, batch, lengths.defined() ? lengths.device() : Device());
}

void check_cache(const char* caller, const KvCache& cache, const KvBatch& batch, bool by_slots) {
  const Tensor &k = cache.k, &table = cache.table;
  const auto fits = [&](const Tensor& t) {
    if (!t.defined() || t.rank() != 4 || t.stride(3) != 1 || t.dtype() != k.dtype()) return false;
    bool same = t.device() == k.device();
    for (int d = 0; d < 3; ++d) same = same && t.size(d) == k.size(d);
    return same;
  };
  const std::string_view type = k.defined() ? name(k.dtype()) : "one type";
  if (!fits(k)) throw_argument_error(ErrorId::kv_cache, caller, "k", shown(k), type, "the batch");
  if (!fits(cache.v))
    throw_argument_error(ErrorId::kv_cache, caller, "v", shown(cache.v), type, "k");
  check_batch(caller, batch, k.device());
  const std::int64_t requests = requests_of(batch);
  const bool has_table = table.defined() && !by_slots;
  if (has_table ? !is_table(table, k.device(), 2) || table.size(0) < requests || table.size(1) < 1
                : !by_slots && k.size(0) < requests)
    throw_argument_error(ErrorId::kv_table, caller, shown(table), requests);
  if ((has_table || by_slots) && (k.size(1) < 1 || k.size(1) > kMaxPageRows))
    throw_argument_error(ErrorId::kv_page_rows, caller, k.size(1), +kMaxPageRows);
}

}  // namespace tegula::kernels
