#!/usr/bin/env python3
"""Assembler wrapper that adds clock probes: a timeline of one CTA's warpgroups, or the begin and end of each CTA.

Set TEGULA_PTXAS to this file and PROBE_BASE to the device address of a zeroed buffer of GROUPS * ENTRIES pairs of u32. The first
thread of each warpgroup of CTA 0 then writes (line of the PTX, clock) after each commit of MMAs, and before and after each wait for
MMAs, warpgroup order and channels. PROBE_LINES names a file for descriptions of those lines. `timeline.py` in this folder runs it.

With PROBE_SPANS the buffer has SPANS entries of four u64, one for each CTA of a grid of one dimension: the time in ns and the clock when its first thread
began, and when it ended. `variants.py --cycles` uses it. PROBE_KERNEL is a pattern of the entries that get probes.
"""
import os
import re
import shutil
import sys
import tempfile

GROUPS, ENTRIES, SPANS = 4, 4096, 4096
BEFORE, AFTER = 1, 2
POINTS = (
    (re.compile(r"wgmma\.commit_group"), AFTER, "issued"),
    (re.compile(r"wgmma\.wait_group\S* 1"), BEFORE | AFTER, "scores"),
    (re.compile(r"wgmma\.wait_group\S* 0"), BEFORE | AFTER, "sums"),
    (re.compile(r"bar\.sync\s+%r"), BEFORE | AFTER, "turn"),
    (re.compile(r"st\.global"), AFTER, "store"),
)


def prologue(base):
    return f"""
	.reg .b64 %probe_at, %probe_end;
	.reg .b32 %probe_t, %probe_c;
	.reg .pred %probe_mine, %probe_now;
	mov.u32 %probe_c, %ctaid.x;
	mov.u32 %probe_t, %tid.x;
	and.b32 %probe_t, %probe_t, 127;
	or.b32 %probe_c, %probe_c, %probe_t;
	setp.eq.u32 %probe_mine, %probe_c, 0;
	mov.u32 %probe_t, %tid.x;
	shr.u32 %probe_t, %probe_t, 7;
	mul.wide.u32 %probe_at, %probe_t, {8 * ENTRIES};
	add.u64 %probe_at, %probe_at, {base};
	add.u64 %probe_end, %probe_at, {8 * ENTRIES - 8};
"""


def probe(line):
    return f"""
	setp.lt.and.u64 %probe_now, %probe_at, %probe_end, %probe_mine;
	mov.u32 %probe_c, %clock;
	@%probe_now st.global.v2.u32 [%probe_at], {{{line}, %probe_c}};
	@%probe_now add.u64 %probe_at, %probe_at, 8;
"""


def probed(ptx, base):
    """Returns the text with probes, and a description of each probed line."""
    out, what, begun = [], {}, False
    lines = ptx.split("\n")
    entry = next(i for i, line in enumerate(lines) if ".entry" in line)
    for i, line in enumerate(lines):
        found = next(((where, name) for pattern, where, name in POINTS if begun and pattern.search(line)), None)
        if found and found[0] & BEFORE:
            what[2 * i] = found[1] + " <"
            out.append(probe(2 * i))
        out.append(line)
        if found and found[0] & AFTER:
            what[2 * i + 1] = found[1] + " >" if found[0] & BEFORE else found[1]
            out.append(probe(2 * i + 1))
        if not begun and i > entry and line.strip() == "{":
            out.append(prologue(base))
            begun = True
    return "\n".join(out), what


def clocks(at):
    return f"""
	mov.u64 %span_t, %globaltimer;
	@%span_mine st.global.u64 [%span_at+{at}], %span_t;
	mov.u64 %span_t, %clock64;
	@%span_mine st.global.u64 [%span_at+{at + 8}], %span_t;
"""


def with_span(ptx, base):
    """Returns the text with stores of the time and the clock at the begin and end of a CTA."""
    body = ptx.index("{", ptx.index(".entry")) + 1
    begin = f"""
	.reg .b64 %span_at, %span_t;
	.reg .b32 %span_i;
	.reg .pred %span_mine;
	mov.u32 %span_i, %ctaid.x;
	setp.lt.u32 %span_mine, %span_i, {SPANS};
	mul.wide.u32 %span_at, %span_i, 32;
	add.u64 %span_at, %span_at, {base};
	mov.u32 %span_i, %tid.x;
	setp.eq.and.u32 %span_mine, %span_i, 0, %span_mine;
"""
    end = clocks(16)
    return ptx[:body] + begin + clocks(0) + re.sub(r"\n(\s*)ret;", lambda found: end + found[1] + "ret;", ptx[body:])


def real_ptxas():
    return os.environ.get("PROBE_PTXAS") or shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"


def main():
    args = sys.argv[1:]
    base = os.environ.get("PROBE_BASE")
    if base:
        at = next(i for i, a in enumerate(args) if not a.startswith("-") and args[i - 1] != "-o")
        with open(args[at]) as f:
            ptx = f.read()
        name, is_span = re.search(r"\.entry\s+(\w+)", ptx)[1], "PROBE_SPANS" in os.environ
        if not re.fullmatch(os.environ.get("PROBE_KERNEL", ".*"), name):
            os.execv(real_ptxas(), [real_ptxas(), *args])
        text, what = (with_span(ptx, int(base, 0)), {}) if is_span else probed(ptx, int(base, 0))
        with tempfile.NamedTemporaryFile("w", suffix=".ptx", delete=False) as f:
            f.write(text)
        args[at] = f.name
        if os.environ.get("PROBE_LINES"):
            with open(os.environ["PROBE_LINES"], "w") as f:
                f.writelines(f"{line} {name}\n" for line, name in what.items())
    os.execv(real_ptxas(), [real_ptxas(), *args])  # the output may be a descriptor of this process


if __name__ == "__main__":
    main()
