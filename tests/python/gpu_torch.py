#!/usr/bin/env python3
"""gpu_torch.py LIBRARY: exported callables as operators of PyTorch on a GPU: eager, torch.compile, CUDA graphs, streams,
and what a call costs the host. Run by hand: .gpu/lib has the library after make gpu-pack. Exits with 77 without a GPU."""
import pathlib
import sys
import time
import unittest
import warnings

try:
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
if not torch.cuda.is_available():
    print("skipped: no GPU")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import attention_gradients  # noqa: E402
import tegula  # noqa: E402
from tegula import _torch  # noqa: E402

LIBRARY = sys.argv.pop(1)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the library exports callables that cannot be made, for other tests
    mine = tegula.load(LIBRARY, namespace="mine")
ops = torch.ops.mine


def inputs(length=1024, heads=8, dim=128):
    torch.manual_seed(0)
    return torch.randn(3, 2, heads, length, dim, device="cuda").to(torch.bfloat16)


def wanted(q, k, v):
    return attention_gradients.attention(q, k, v)[0]


class Gpu(unittest.TestCase):
    def close(self, got, want):
        torch.testing.assert_close(got.float(), want.float(), atol=2e-2, rtol=2e-2)

    def test_eager(self):
        q, k, v = inputs()
        self.close(ops.window_attention(q, k, v)[0], wanted(q, k, v))
        self.close(ops.window_attention(q.transpose(1, 2).contiguous().transpose(1, 2), k, v)[0], wanted(q, k, v))
        o, lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
        ops.window_attention_out(q, k, v, o, lse)
        self.close(o, wanted(q, k, v))
        self.assertTrue(torch.isfinite(lse).all())

    def test_plain_call(self):
        q, k, v = inputs(256)
        o = torch.empty_like(q)
        mine.window_attention(q, k, v, o)
        self.close(o, wanted(q, k, v))

    def test_streams(self):
        q, k, v = inputs()
        want = wanted(q, k, v)
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        late = torch.zeros_like(q)
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000_000)
            late.copy_(q)
            o, _ = ops.window_attention(late, k, v)  # on another stream it would read zeros
        stream.synchronize()
        self.close(o, want)

    def test_opcheck(self):
        q, k, v = inputs(128)
        self.assertEqual(set(torch.library.opcheck(ops.window_attention, (q, k, v)).values()), {"SUCCESS"})

    def test_compiled(self):
        def f(q, k, v):
            return ops.window_attention(q * 2, k, v)[0] + 1

        q, k, v = inputs()
        want = wanted(q * 2, k, v) + 1
        for options in ({}, {"mode": "reduce-overhead"}):
            with self.subTest(**options):
                torch._dynamo.reset()
                g = torch.compile(f, fullgraph=True, **options)
                for _ in range(4):  # the first ones warm up and record
                    self.close(g(q, k, v), want)

    def test_gradients_compiled(self):
        x = torch.randn(256, 512, device="cuda", requires_grad=True)
        torch._dynamo.reset()
        torch.compile(lambda t: (ops.square(t) * 2).sum(), fullgraph=True)(x).backward()
        torch.testing.assert_close(x.grad, 4 * x.detach())

    def test_cuda_graph(self):
        q, k, v = inputs()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            ops.window_attention(q, k, v)  # compiles
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            o, _ = ops.window_attention(q, k, v)
        for seed in range(3):
            torch.manual_seed(seed)
            q.copy_(torch.randn_like(q, dtype=torch.float32))
            graph.replay()
            self.close(o, wanted(q, k, v))

    def test_errors(self):
        q, k, v = inputs(128)
        with self.assertRaisesRegex(ValueError, "T1603"):
            ops.window_attention_out(q, k, v, q.float(), None)
        with self.assertRaisesRegex(ValueError, "T0707|T0706|T16"):
            ops.window_attention_out(q, k.cpu(), v, torch.empty_like(q), None)

    def test_host_time(self):
        x, y = torch.randn(64, 64, device="cuda"), torch.empty(64, 64, device="cuda")

        def host_us(call, count=500):
            for _ in range(100):
                call()
            best = float("inf")
            for _ in range(5):
                torch.cuda.synchronize()
                begin = time.perf_counter()
                for _ in range(count):
                    call()
                best = min(best, (time.perf_counter() - begin) / count * 1e6)
            return best

        out_op, raw = ops.square_out.default, _torch._Call(mine.square)
        print(f"\nhost time of a call, us: operator {host_us(lambda: out_op(x, y)):.2f}, without torch's dispatcher "
              f"{host_us(lambda: raw(x, y)):.2f}, torch.square {host_us(lambda: torch.square(x, out=y)):.2f}; "
              f"exchange table {'used' if raw.table else 'missing'}")


class Pages(unittest.TestCase):
    """A graph of append and attention, replayed for other lengths."""

    def test_graph(self):
        torch.manual_seed(0)
        caches = [torch.zeros(64, 16, 2, 64, device="cuda", dtype=torch.bfloat16) for _ in "kv"]
        table = torch.randperm(64, device="cuda", dtype=torch.int32).reshape(4, 16)
        offsets = torch.arange(5, device="cuda", dtype=torch.int32)
        lengths = torch.full((4,), 1, device="cuda", dtype=torch.int32)
        q, k, v = (torch.randn(4, h, 64, device="cuda").to(torch.bfloat16) for h in (8, 2, 2))

        def step():
            ops.append_out(k, v, *caches, offsets, lengths, 1, table)
            return ops.paged_attention(q, *caches, offsets, lengths, 1, table)

        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            step()  # compiles
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            o = step()
        keys, values = [], []
        for n in range(1, 40):
            lengths.fill_(n)
            q.copy_(torch.randn(q.shape)), k.copy_(torch.randn(k.shape)), v.copy_(torch.randn(v.shape))
            keys.append(k.clone()), values.append(v.clone())
            graph.replay()
            heads = [torch.stack(t, 2).repeat_interleave(4, 1) for t in (keys, values)]
            want = torch.nn.functional.scaled_dot_product_attention(q[:, :, None], *heads)[:, :, 0]
            torch.testing.assert_close(o.float(), want.float(), atol=2e-2, rtol=2e-2)



class AttentionGradients(attention_gradients.AttentionGradients, unittest.TestCase):
    device = "cuda"
    length, dim = 700, 64
    compilers = ({}, {"mode": "reduce-overhead"}, {"dynamic": True})

    def test_wide_heads(self):
        self.dim = 128
        self.check(self.inputs(), self.weighted_both)

    def test_cuda_graph(self):
        q, k, v = self.inputs()

        def step():
            return torch.autograd.grad(ops.window_attention(q, k, v)[0].sum(), (q, k, v))

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()  # compiles
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            got = step()
        for seed in range(3):
            with torch.no_grad():
                torch.manual_seed(seed)
                q.copy_(torch.randn(q.shape))
            graph.replay()
            for g, w in zip(got, step()):
                self.close(g, w)

    def test_memory_is_free_after_a_call(self):
        used = []
        for _ in range(8):
            self.check(self.inputs(), self.weighted)
            used.append(torch.cuda.memory_allocated())
        self.assertEqual(used[2], used[-1])


if __name__ == "__main__":
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    unittest.main()
