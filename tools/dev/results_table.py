#!/usr/bin/env python3
"""Writes docs/results.md (every case, every suite), the README's summary (one row per workload) and the section of docs/serving.md from
bench/results/*.jsonl: the newest row of each suite, case and back end. --check compares only."""
import json
import math
import pathlib
import re
import statistics
import sys
import textwrap

import triton_page

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
COMMAND = "`make gpu-pack && python3 bench/peers.py --out bench/results/FILE.jsonl`, then `tools/dev/results_table.py`"

# Rows of the README: description, suites whose cases are included, and peers; the fastest peer of each case is used.
WORKLOADS = [
    ("matmul bf16, 16 .. 16384 rows", ["matmul"], "cuBLAS(Lt), Triton"),
    ("matmul bf16, 20 random shapes", ["matmul_drawn"], "cuBLAS(Lt)"),
    ("matmul bf16, fp8, log-uniform, ragged", ["matmul_random", "matmul_ragged"], "cuBLAS(Lt)"),
    ("matmul bf16, 1 .. 64 rows", ["matmul_few_rows"], "cuBLAS(Lt)"),
    ("matmul bf16, unaligned rows", ["matmul_unaligned"], "cuBLAS(Lt)"),
    ("matmul f16, tf32, int8", ["matmul_f16", "matmul_tf32", "matmul_int8"], "cuBLAS(Lt)"),
    ("matmul fp8, three scalings", ["matmul_fp8", "matmul_fp8_promoted", "matmul_fp8_rowwise"], "cuBLASLt"),
    ("matmul + GELU + residual, SwiGLU", ["matmul_bias_gelu_residual", "matmul_swiglu"], "PyTorch"),
    ("grouped GEMM, 64 segments", ["grouped_matmul"], "torch grouped_mm"),
    ("attention, causal and full", ["attention_causal", "attention_full"], "cuDNN, FlashAttention-3, -4"),
    ("attention, packed sequences", ["attention_varlen", "attention_varlen_causal"], "FlashAttention-3, -4"),
    ("attention, masks as lambdas", ["mask_causal", "mask_document", "mask_prefix", "mask_table", "mask_table_layers", "mask_window"], "FlexAttention (FLASH)"),
    ("attention, scores as lambdas", ["score_alibi", "score_distances", "score_softcap", "score_t5"], "FlexAttention (FLASH; T5: Triton)"),
    ("attention, decoding", ["attention_decode"], "cuDNN"),
    ("decoding from pages", ["paged_decode"], "FlashInfer, cuDNN, FlashAttention-3"),
    ("attention backward", ["attention_backward_causal", "attention_backward_full"], "cuDNN, FlashAttention-4"),
    ("attention backward, masks, scores", ["attention_backward_masks"], "FlexAttention (FLASH)"),
    ("experts bf16, 128 .. 16384 tokens", ["moe"], "torch grouped_mm, compiled"),
    ("experts bf16, 1 .. 32 tokens", ["moe_decode"], "torch grouped_mm, compiled"),
    ("experts fp8", ["moe_fp8"], "torch scaled_grouped_mm"),
    ("experts bf16, backward", ["moe_backward"], "torch grouped_mm, compiled"),
    ("routing of tokens", ["router"], "torch.compile"),
    ("softmax, norms", ["softmax", "rms_norm", "rms_norm_residual", "layer_norm"], "torch, torch.compile"),
    ("their gradients", ["softmax_backward", "rms_norm_backward", "layer_norm_backward"], "torch, torch.compile"),
    ("gated activations, both ways", [f"{name}{form}" for name in ("swiglu", "geglu", "geglu_tanh") for form in ("", "_halves", "_backward")], "torch.compile"),
    ("RoPE, fp8 quantisation, Hadamard", ["rope", "quantise_fp8", "hadamard"], "torch.compile"),
    ("cross entropy, both ways", ["cross_entropy", "cross_entropy_backward"], "torch, torch.compile"),
    ("embedding, AdamW", ["embedding", "embedding_backward", "adamw"], "torch"),
    ("scan, select, sums of segments", ["device_scan", "device_select", "device_segment_sum"], "torch"),
    ("sort, top-k, search, histogram", ["device_sort", "device_topk", "device_searchsorted", "device_histogram"], "torch"),
    ("your kernels, untuned", ["untuned_eight_lines", "untuned_column_sum", "untuned_softmax"], "cuBLAS, torch.compile"),
    ("Triton's tutorials", [f"triton_{suite}" for *_, suites in triton_page.TUTORIALS for suite in suites], "Triton"),
]
UNMEASURED = {"flex_flash": "FlexAttention's faster FLASH back end (its Triton back end was)", "flash3": "FlashAttention-3", "flash4": "FlashAttention-4"}
SERVING_PEERS = {"flashinfer": "FlashInfer", "flashinfer_xqa": "FlashInfer XQA", "cudnn_paged": "cuDNN, pages", "cudnn": "cuDNN", "flash2": "FlashAttention-2", "flash3": "FlashAttention-3"}
NOT_PEERS = ("ours_plain", "ours_first", "ours_tuned", "bf16", "copy", "dense", "cublas_gemms")  # variants of the library, and bounds for different work


def every_row():
    for path in sorted((ROOT / "bench/results").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if "ms" in row and row["suite"] not in ("floor", "ladder"):
                yield row


def rows_by_device():
    """Returns the newest row of each suite, case and back end; GPUs are sorted by name."""
    newest = {(row["device"], row["suite"], row["case"], row.get("backend")): row for row in every_row()}
    return {device: [newest[key] for key in sorted(newest) if key[0] == device] for device in sorted({key[0] for key in newest})}


def ratios(row):
    return {key[6:]: value for key, value in row.items() if key.startswith("ratio_")}


def wrapped(text):
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def table_row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def head():
    return "# Results\n\n" + wrapped(
        "Random inputs, cold L2, medians of interleaved runs after warm-up, since commit 6d1a047 in random order in each round; ratio = "
        "peer time / our time, above 1 is faster than the peer. Cases marked clean started with clean L2 lines, the others with the dirty lines of a "
        "fill, whose write-back is part of the measured time. The peers copy, dense and cublas_gemms are bounds: a copy of the same number of "
        "bytes, one dense GEMM with the same number of rows, the GEMMs alone; ours_plain and bf16 are our own kernels.") + f"\n\nCommand: {COMMAND}.\n"


def every_case(device, found):
    """Returns one table per suite, with one column per peer."""
    out = ["", f"## {device}", "",
           "The ratios to peers follow the rate; the last columns are the clock in MHz with the power in W, and the commit."]
    suites = {}
    for r in found:
        suites.setdefault(r["suite"], []).append(r)
    for suite, cases in suites.items():
        peers = list(dict.fromkeys(peer for r in cases for peer in ratios(r)))
        key, unit = next(((key, unit) for key, unit in (("tflops", "TFLOPS"), ("gbs", "GB/s")) if all(key in r for r in cases)),
                         ("", "rate"))
        out += ["", f"#### {suite}", "", table_row("case", "back end", "ms", unit, *peers, "MHz, W", "commit"),
                "|" + "---|" * (6 + len(peers))]
        for r in cases:
            shown = [f"{ratios(r)[peer]:.2f}" if peer in ratios(r) else "-" for peer in peers]
            clean = ", clean" if r.get("l2") == "clean" else ""
            out.append(table_row(r["case"], r["backend"], f"{r['ms']:.3f}", r.get(key, "-"), *shown,
                                 f"{r['clock_mhz']:.0f}, {r['power_w']:.0f}", r["commit"] + clean))
    return "\n".join(out) + "\n"


def of_errors(found):
    """Returns the errors of attention relative to an fp64 reference, next to those of cuDNN on the same inputs."""
    suites = {}
    for r in found:
        if "cudnn_err" in r:
            suites.setdefault((r["suite"], r["backend"]), []).append((r["max_err"], r["max_err"] / r["cudnn_err"]))
    out = ["", "### Errors of attention", "", wrapped(
        "Relative error (2-norm) of results of bf16 (two of attention_shapes: f16) against fp64, and its ratio to cuDNN's, from "
        "the smallest to the largest case. Causal and full cases were not rescaled (`Rescaling::never`, the choice for this much work); "
        "[attention](attention.md) states the cost in accuracy."), "", "| kernel | back end | cases | error | by cuDNN's |", "|---|---|---|---|---|"]
    for (suite, backend), values in sorted(suites.items()):
        errors, by_cudnn = zip(*values)
        out.append(f"| {suite} | {backend} | {len(values)} | {min(errors):.5f} .. {max(errors):.5f} | {min(by_cudnn):.3f} .. {max(by_cudnn):.3f} |")
    return "\n".join(out) + "\n" if suites else ""


def of_masks(found):
    """Returns the pairs that attention computes under masks, the pairs that masks keep, and the rate relative to the causal kernel."""
    rows = [r for r in found if "computed_pairs" in r]
    if not rows:
        return ""
    causal = {(r["case"], r["backend"], r["commit"]): r["computed_tflops"] for r in every_row() if r["suite"] == "mask_causal" and "computed_tflops" in r}
    out = ["", "### Pairs under masks", "", wrapped(
        "Computed pairs are those of the blocks that the kernel visits; the cover has the 64 x 8 blocks that hold a kept pair "
        "([masks](masks.md)). TFLOPS are those of kept and of computed pairs; the column causal has the latter by those of "
        "mask_causal."), "",
           "| kernel | case | back end | tiles | kept | computed | causal | computed/kept | cover/kept | computed/cover |",
           "|---|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        kept, computed, cover = (r[f"{name}_pairs"] for name in ("kept", "computed", "cover"))
        peer = causal.get((r["case"], r["backend"], r["commit"]))
        share = f"{r['computed_tflops'] / peer:.2f}" if peer else "-"
        out.append(table_row(r["suite"], r["case"], r["backend"], r["tiles"], r["tflops"], r["computed_tflops"], share,
                             f"{computed / kept:.3f}", f"{cover / kept:.3f}", f"{computed / cover:.3f}"))
    return "\n".join(out) + "\n"


def by_suite(found):
    """Returns one row per suite, back end and peer."""
    suites = {}
    for r in found:
        for peer, value in ratios(r).items():
            suites.setdefault((r["suite"], r["backend"], peer), []).append((value, r["case"]))
    out = ["", "### By kernel and peer", "", "| kernel | back end | peer | cases | geometric mean of the ratios | least (case) |", "|---|---|---|---|---|---|"]
    for (suite, backend, peer), values in sorted(suites.items()):
        mean = math.exp(sum(math.log(v) for v, _ in values) / len(values))
        least, case = min(values)
        out.append(f"| {suite} | {backend} | {peer} | {len(values)} | {mean:.2f} | {least:.2f} ({case}) |")
    return "\n".join(out) + "\n"


def span(values, digits=None):
    """Formats a range of values with `digits` decimals; with None, at least two significant digits."""
    low, high = (f"{v:.{int(v < 10) if digits is None else digits}f}" for v in (min(values), max(values)))
    return low if low == high else f"{low} .. {high}"


def of_workload(rows, suites):
    """Returns rates of a workload on one GPU with LLVM, and ratios to the fastest peer of each case."""
    cases = [r for r in rows if r["suite"] in suites and r["backend"] == "llvm" and set(ratios(r)) - set(NOT_PEERS)]
    best = [min(v for name, v in ratios(r).items() if name not in NOT_PEERS) for r in cases]
    if not best:
        return len(cases), "-", "-"
    unit, key = next(((unit, key) for unit, key in (("TFLOPS", "tflops"), ("GB/s", "gbs")) if all(key in r for r in cases)), ("", ""))
    rate = f"{span([r[key] for r in cases])} {unit}" if key else "-"
    median = f"{statistics.median(best):.2f}"
    return len(cases), rate, f"{median if float(median) >= 1 else f'**{median}**'} ({span(best, 2)})"


def outside_the_table(rows):
    """Returns what the README's table omits for one GPU with LLVM: cases below 0.9, and suites that are in no row with their medians."""
    best = {}
    for r in rows:
        peers = [value for name, value in ratios(r).items() if name not in NOT_PEERS]
        if r["backend"] == "llvm" and peers:
            best.setdefault(r["suite"], []).append((min(peers), f"{re.sub(r' [a-z]+[0-9m]+( NN| NT)?$', '', r['case'])} {min(peers):.3f}"))
    slow = sorted((sorted(case for case in cases if case[0] < 0.9), suite) for suite, cases in best.items() if min(cases)[0] < 0.9)
    in_rows = {suite for _, suites, _ in WORKLOADS for suite in suites}
    others = [f"{suite} {statistics.median(value for value, _ in cases):.2f}" for suite, cases in sorted(best.items()) if suite not in in_rows]
    return "\n".join(["", "### Cases below 0.9", "", wrapped("By LLVM, relative to the fastest peer of each case: " + "; ".join(f"{suite} {', '.join(text for _, text in cases)}" for cases, suite in slow) + "."), "",
                      wrapped("Suites that are not in the table, medians: " + ", ".join(others) + ".")]) + "\n"


def summary(found):
    """Returns the README's table: one row per workload (LLVM, relative to the fastest peer of each case), one column per GPU."""
    names = [device.split()[1] for device in found]
    peers = {name for rows in found.values() for r in rows for name in ratios(r)}
    missing = [text for name, text in UNMEASURED.items() if name not in peers]
    out = [wrapped(
        "LLVM back end. Ratio = time of the fastest peer / our time, median (least .. largest case): above 1 we are faster, medians "
        f"below 1 are **bold**. Rates are those of the {names[-1]}. " + (f"Not measured: {', '.join(missing)}. " if missing else "") +
        "All cases, those below 0.9 first, NVRTC's where measured, clocks, commits and the "
        "command: [results](docs/results.md)."), "",
           f"| workload | cases | rate | fastest peer | {' | '.join(names)} |", "|---|---|---|---|" + "---|" * len(names)]
    for title, suites, peer in WORKLOADS:
        cards = [of_workload(rows, suites) for rows in found.values()]
        if not any(cases for cases, *_ in cards):
            continue
        out.append(f"| {title} | {cards[-1][0]} | {cards[-1][1]} | {peer} | {' | '.join(ratio for *_, ratio in cards)} |")
    return "\n".join(out) + "\n"


def times_before_the_call(rows):
    """Returns the times of what is prepared once per step, as far as they were measured."""
    sentences = []
    for key, text in (("schedule_us", "Writing the work list takes {} us on the device"), ("flashinfer_plan_us", "FlashInfer's plan takes {} us on the host")):
        values = [r[key] for r in rows if key in r]
        if values:
            sentences.append(text.format(span(values, 0)))
    return ", ".join(sentences) + "." if sentences else ""


def serving(found):
    """Returns the tables of decoding from pages by LLVM, one per GPU on which it was measured; empty without one."""
    out = []
    for device, all_rows in found.items():
        rows = [r for r in all_rows if r["suite"] in ("paged_decode", "kv_append") and r["backend"] == "llvm"]
        peers = [name for name in SERVING_PEERS if any(name in ratios(r) for r in rows)]
        if not rows:
            continue
        out += ["", wrapped(
            f"**Measured on {device}.** Steps of one query per request, and `append`; cold L2, medians. GB/s count the keys and values that are read, or read and stored. Columns of "
            f"peers are their time / ours; above 1 we are faster. Work lists, plans and tables are prepared before the timed call. {times_before_the_call(rows)} "
            "FlashAttention and cuDNN without pages read contiguous keys. Values, clocks and commits: [results](results.md)."), "",
            table_row("step", "us", "GB/s", *(SERVING_PEERS[name] for name in peers)), "|" + "---|" * (3 + len(peers))]
        for r in rows:
            case = f"append, {r['case']}" if r["suite"] == "kv_append" else r["case"]
            out.append(table_row(case, f"{1000 * r['ms']:.1f}", f"{r['gbs']:.0f}", *(f"{ratios(r)[name]:.2f}" if name in ratios(r) else "-" for name in peers)))
    return "\n".join(out[1:] + [""]) if out else ""


def with_block(path, content):
    """Returns the text of a page with its generated block replaced."""
    before, rest = path.read_text().split(BEGIN)
    return before + BEGIN + "\n" + content + END + rest.split(END)[1]


def main():
    found = rows_by_device()
    readme, page, serving_page = (ROOT / path for path in ("README.md", "docs/results.md", "docs/serving.md"))
    wanted = {readme: with_block(readme, summary(found)), serving_page: with_block(serving_page, serving(found)), page: head() + "".join(outside_the_table(rows) + every_case(device, rows) + by_suite(rows) + of_masks(rows) + of_errors(rows) for device, rows in found.items())}
    if "--check" in sys.argv:
        stale = [path.name for path, content in wanted.items() if not path.exists() or path.read_text() != content]
        sys.exit(f"{', '.join(stale)}: results are not those of bench/results; run tools/dev/results_table.py" if stale else 0)
    for path, content in wanted.items():
        path.write_text(content)


if __name__ == "__main__":
    main()
