"""Peers of decoding from a KV cache, for bench/serving_suites.py: each is measured if Python can import it and if it supports the step.

    flashinfer      FlashInfer's BatchDecodeWithPagedKVCacheWrapper with tensor cores (flashinfer-python, apache-tvm-ffi)
    flashinfer_xqa  FlashInfer's XQA kernels
    cudnn_paged     cuDNN's attention over pages (nvidia-cudnn-frontend)
    cudnn           cuDNN's attention over contiguous keys, through PyTorch; steps of equal lengths only
    flash2          FlashAttention-2 of PyTorch, over consecutive sequences
    flash3          FlashAttention-3 (fa3-fwd), over a contiguous cache with room for the longest request

What an engine prepares once for all layers of a step is prepared before the timed call: plans, tables and scheduler metadata. FlashInfer compiles its
modules at the first call of a shape, before anything is timed. On a machine without a package index: pip download --no-deps --only-binary=:all: each
of them elsewhere, unzip the wheels into one folder, and set PYTHONPATH to it.
"""
import dataclasses
import functools
import statistics
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from flash_peers import FLASH3, first, found

DEVICE = torch.device("cuda:0")
PADDED_LIMIT = 40 << 30  # bytes of a contiguous cache with room for the longest request


@dataclasses.dataclass
class Step:
    """A step of one query per request. Pages are [pages, rows, kv heads, dim]; `packed` returns the keys and values of all requests in their order,
    [keys, kv heads, dim]."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    table: torch.Tensor
    lengths: torch.Tensor
    packed: object

    @property
    def requests(self):
        return self.q.shape[0]

    @property
    def rows(self):
        return self.k.shape[1]

    @property
    def kv_heads(self):
        return self.k.shape[2]

    @functools.cached_property
    def longest(self):
        return int(self.lengths.max())

    @functools.cached_property
    def is_even(self):
        return bool((self.lengths == self.longest).all())

    @functools.cached_property
    def begins(self):
        """Returns the first packed key of each request, and the number of all keys."""
        return F.pad(self.lengths.cumsum(0), (1, 0)).to(torch.int32)

    @functools.cached_property
    def valid_table(self):
        """Returns the table without negative entries: peers may prefetch entries after the last page."""
        return self.table.clamp(min=0)


@functools.cache
def workspace():
    """Returns a buffer whose first bytes are 0, which XQA requires of its semaphores and restores."""
    return torch.zeros(512 << 20, dtype=torch.uint8, device=DEVICE)


@functools.cache
def plan_workspace():
    return torch.zeros(512 << 20, dtype=torch.uint8, device=DEVICE)


def host_us(call):
    """Returns the median time of a call in us, until the device has finished its work."""
    times = []
    for _ in range(7):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(1e6 * (time.perf_counter() - begin))
    return round(statistics.median(times), 1)


def flashinfer(step):
    """Returns the call and the time of the plan, which the host makes once per step."""
    module = found("flashinfer")
    lengths = step.lengths.cpu()
    indptr = F.pad(((lengths + step.rows - 1) // step.rows).cumsum(0), (1, 0)).to(torch.int32)
    last = ((lengths - 1) % step.rows + 1).to(torch.int32)
    pages = step.table[step.table >= 0].contiguous()
    wrapper = module.BatchDecodeWithPagedKVCacheWrapper(plan_workspace(), "NHD", use_tensor_cores=True)
    heads, dim = step.q.shape[1:]
    plan = functools.partial(wrapper.plan, indptr, pages, last, heads, step.kv_heads, dim, step.rows, q_data_type=step.q.dtype, kv_data_type=step.k.dtype)
    plan()
    out = torch.empty_like(step.q)
    return lambda: wrapper.run(step.q, (step.k, step.v), out=out), {"flashinfer_plan_us": host_us(plan)}


def flashinfer_xqa(step):
    decode = found("flashinfer.decode").xqa_batch_decode_with_kv_cache
    out = torch.empty_like(step.q)
    table, scale = step.valid_table, step.q.shape[2] ** -0.5
    return lambda: decode(step.q, (step.k, step.v), workspace(), table, step.lengths, step.longest, bmm1_scale=scale, bmm2_scale=1.0, out=out), {}


@functools.cache
def cudnn_handle():
    cudnn = found("cudnn")
    handle = cudnn.create_handle()
    cudnn.set_stream(handle, torch.cuda.current_stream().cuda_stream)
    return handle


def cudnn_graph(step, handle=None, **options):
    """Returns a graph that is not built, and the tensors to bind: cuDNN's arguments and ours, the output last."""
    cudnn = found("cudnn")
    graph = cudnn.pygraph(io_data_type=cudnn.data_type.BFLOAT16, intermediate_data_type=cudnn.data_type.FLOAT, compute_data_type=cudnn.data_type.FLOAT, handle=handle, **options)
    heads, dim = step.q.shape[1:]
    ones = torch.ones_like(step.lengths)
    out = torch.empty_like(step.q)
    by_head = [x.transpose(1, 2) for x in (step.q.unsqueeze(1), step.k, step.v)]
    numbers = [n.view(-1, 1, 1, 1) for n in (ones, step.lengths)] + [step.valid_table.view(step.requests, 1, -1, 1)] * 2
    q, k, v, queries, keys, k_table, v_table = (
        graph.tensor(name=name, dim=list(t.shape), stride=list(t.stride()), data_type=cudnn.data_type.INT32 if t.dtype == torch.int32 else cudnn.data_type.BFLOAT16)
        for name, t in zip(("q", "k", "v", "queries", "keys", "k_table", "v_table"), by_head + numbers))
    o, _ = graph.sdpa(
        name="decode", q=q, k=k, v=v, generate_stats=False, attn_scale=dim**-0.5, use_padding_mask=True, seq_len_q=queries, seq_len_kv=keys,
        paged_attention_k_table=k_table, paged_attention_v_table=v_table, paged_attention_max_seq_len_kv=step.table.shape[1] * step.rows)
    o.set_output(True).set_dim([step.requests, heads, 1, dim]).set_stride(list(by_head[0].stride())).set_data_type(cudnn.data_type.BFLOAT16)
    return graph, [*zip((q, k, v, queries, keys, k_table, v_table), by_head + numbers), (o, out)]


def cudnn_paged(step):
    cudnn, handle = found("cudnn"), cudnn_handle()
    graph, bound = cudnn_graph(step, handle)
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    graph.check_support()
    graph.build_plans()
    space = torch.empty(max(graph.get_workspace_size(), 1), dtype=torch.uint8, device=DEVICE)
    tensors, out = dict(bound), bound[-1][1]

    def call():
        graph.execute(tensors, space, handle=handle)
        return out

    return call, {}


def cudnn(step):
    if not step.is_even:
        return None
    k, v = (x.view(step.requests, step.longest, step.kv_heads, -1).transpose(1, 2) for x in step.packed())
    q = step.q.unsqueeze(2)

    def call():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    return call, {}


def flash2(step):
    k, v = step.packed()
    offsets = torch.arange(step.requests + 1, dtype=torch.int32, device=DEVICE)
    return lambda: torch.ops.aten._flash_attention_forward(step.q, k, v, offsets, step.begins, 1, step.longest, 0.0, False, False)[0], {}


def padded(step):
    """Returns keys and values with room for the longest request, or None if they are too large."""
    k, v = step.packed()
    shape = (step.requests, step.longest, *k.shape[1:])
    if step.is_even:
        return k.view(shape), v.view(shape)
    if 2 * k.element_size() * torch.Size(shape).numel() > PADDED_LIMIT:
        return None
    request = torch.repeat_interleave(torch.arange(step.requests, device=DEVICE), step.lengths)
    row = torch.arange(k.shape[0], device=DEVICE) + (request * step.longest - step.begins[request])
    return tuple(x.new_zeros(shape).view(-1, *x.shape[1:]).index_copy_(0, row, x).view(shape) for x in (k, v))


def flash3(step):
    cache = padded(step)
    if cache is None:
        return None
    heads, dim = step.q.shape[1:]
    metadata = FLASH3.get_scheduler_metadata(step.requests, 1, step.longest, heads, step.kv_heads, dim, step.lengths, qkv_dtype=step.q.dtype)
    q = step.q.unsqueeze(1)
    return lambda: first(FLASH3.flash_attn_with_kvcache(q, *cache, cache_seqlens=step.lengths, scheduler_metadata=metadata)), {}


PEERS = {"flashinfer": (flashinfer, "flashinfer"), "flashinfer_xqa": (flashinfer_xqa, "flashinfer.decode"), "cudnn_paged": (cudnn_paged, "cudnn"), "cudnn": (cudnn, None), "flash2": (flash2, None),
         "flash3": (flash3, "fa3_fwd_interface")}


def available():
    """Returns the peers whose modules can be imported."""
    return {name: make for name, (make, module) in PEERS.items() if module is None or found(module)}
