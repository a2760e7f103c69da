"""Attention peers that are not part of PyTorch, for bench/peers.py: each is measured if Python can import it.

    flash3      FlashAttention-3, forward of bf16: the wheel fa3-fwd, or the package flash_attn_interface built from its sources
    flash4      FlashAttention-4, which also runs on sm_90: flash-attn-4 and what it requires
    flex_flash  FlexAttention's FLASH back end, which calls flash4's kernels

flash-attn-4 requires nvidia-cutlass-dsl (with -libs-base, -libs-core and -libs-cu13), apache-tvm-ffi, torch-c-dlpack-ext and quack-kernels. On a machine
without a package index: pip download --no-deps --only-binary=:all: each of them elsewhere, unzip the wheels into one folder, and set PYTHONPATH to the
folder and to its nvidia_cutlass_dsl/dsl_packages. The first call of a shape compiles for seconds, before anything is timed.
"""
import importlib

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def found(*names):
    """Returns the first module that can be imported, or None."""
    for name in names:
        try:
            return importlib.import_module(name)
        except Exception:  # a package of another version raises errors of any type
            continue
    return None


FLASH3 = found("fa3_fwd_interface", "flash_attn_interface")
FLASH4 = found("flash_attn.cute")
MODULES = {name: module for name, module in (("flash3", FLASH3), ("flash4", FLASH4)) if module}
BLOCK = (128, 128)  # the only block size that the FLASH back end supports


def first(result):
    return result[0] if isinstance(result, tuple) else result


def dense(q, k, v, causal):
    """Returns peers for [batch, heads, length, dim], on copies in their own order of dimensions."""
    by_position = [x.transpose(1, 2).contiguous() for x in (q, k, v)] if MODULES else []
    return {name: lambda module=module: first(module.flash_attn_func(*by_position, causal=causal)) for name, module in MODULES.items()}


def varlen(q, k, v, begins, longest, causal):
    """Returns peers for packed sequences, [position, heads, dim]."""
    lengths = {"cu_seqlens_q": begins, "cu_seqlens_k": begins, "max_seqlen_q": longest, "max_seqlen_k": longest}
    return {name: lambda module=module: first(module.flash_attn_varlen_func(q, k, v, causal=causal, **lengths)) for name, module in MODULES.items()}


def decode(q, k, v):
    """Returns the peer that splits the keys of one query per head."""
    if not hasattr(FLASH3, "flash_attn_with_kvcache"):
        return {}
    by_position = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    return {"flash3": lambda: first(FLASH3.flash_attn_with_kvcache(*by_position))}


def by_flash(q, k, v, score_mod, block_mask):
    return flex_attention(q, k, v, score_mod=score_mod, block_mask=block_mask, kernel_options={"BACKEND": "FLASH"})


compiled = torch.compile(by_flash, dynamic=False)


def flex(q, k, v, mask, score):
    """Returns FlexAttention with its FLASH back end, for a mask and a score of FlexAttention."""
    if not FLASH4:
        return {}
    block_mask = create_block_mask(mask, None, None, q.shape[2], k.shape[2], device=q.device, BLOCK_SIZE=BLOCK)
    return {"flex_flash": lambda: compiled(q, k, v, score, block_mask)}
