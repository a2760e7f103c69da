#!/usr/bin/env python3
"""Writes dsl/elementary/coefficients.h: the polynomials of the language's math functions.

fit_polynomials.py [NAME ...]: fits those rows again and keeps the others; without names, all. Needs mpmath.

Each row of ROWS is a function, an interval, a weight, and the powers of x that the polynomial has. The fit is minimax of
(polynomial - function) * weight by Remez's exchange, in 60 digits. Coefficients are rounded to the type one after the
other, lowest power first, and the rest is fitted again, so that later ones make up for the rounding of earlier ones.
"""
import pathlib
import re
import struct
import sys

import mpmath as mp

mp.mp.dps = 60
HEADER = pathlib.Path(__file__).resolve().parents[2] / "dsl" / "elementary" / "coefficients.h"


def rounded(value, kind):
    if kind == "f32":
        return mp.mpf(struct.unpack("f", struct.pack("f", float(value)))[0])
    return mp.mpf(float(value))


def extrema(error, points):
    """Points of largest |error| between changes of its sign, as (point, error)."""
    out = []
    for x in points:
        e = error(x)
        if out and (e > 0) == (out[-1][1] > 0):
            if abs(e) > abs(out[-1][1]):
                out[-1] = (x, e)
        else:
            out.append((x, e))
    return out


def remez(f, weight, low, high, powers, points):
    n = len(powers)
    nodes = [(low + high) / 2 + (low - high) / 2 * mp.cos(mp.pi * i / n) for i in range(n + 1)]
    best = None
    for _ in range(12):
        rows, right = mp.matrix(n + 1, n + 1), mp.matrix(n + 1, 1)
        for i, x in enumerate(nodes):
            for j, p in enumerate(powers):
                rows[i, j] = x ** p
            rows[i, n] = (-1) ** i / weight(x)
            right[i] = f(x)
        solution = mp.lu_solve(rows, right)
        c = [solution[j] for j in range(n)]
        values = {x: (f(x), weight(x)) for x in points}

        def error(x):
            value, w = values[x]
            return (sum(a * x ** p for a, p in zip(c, powers)) - value) * w

        found = extrema(error, points)
        worst = max(abs(e) for _, e in found)
        if best is None or worst < best[0]:
            best = (worst, c)
        if len(found) < n + 1:
            break
        while len(found) > n + 1:  # drops the smaller end
            found.pop(0 if abs(found[0][1]) < abs(found[-1][1]) else -1)
        if worst - min(abs(e) for _, e in found) < worst * mp.mpf("0.01"):
            break
        nodes = [x for x, _ in found]
    return best


def fit(row):
    name, kind, function, low, high, powers, weight = row
    low, high = mp.mpf(low), mp.mpf(high)
    count = 40 * len(powers)
    points = [(low + high) / 2 + (low - high) / 2 * mp.cos(mp.pi * (i + mp.mpf("0.5")) / count)
              for i in range(count)]
    table = {}

    def f(x):
        if x not in table:
            table[x] = function(x)
        return table[x]

    done, powers = [], list(powers)
    while powers:
        fixed = list(done)
        rest = lambda x: f(x) - sum(a * x ** p for a, p in fixed)
        worst, c = remez(rest, weight, low, high, powers, points)
        if not done:
            first = worst
        done.append((rounded(c[0], kind), powers[0]))
        powers.pop(0)
    worst = max(abs((sum(a * x ** p for a, p in done) - f(x)) * weight(x)) for x in points)
    print(f"{name}: minimax 2^{float(mp.log(first, 2)):.2f}, rounded 2^{float(mp.log(worst, 2)):.2f}", flush=True)
    return float(mp.log(worst, 2)), [a for a, _ in reversed(done)]


def series(function, at_zero):
    """The function, whose formula cancels near 0: there by its value at 0."""
    return lambda x: function(x) if abs(x) > mp.mpf(10) ** -25 else mp.mpf(at_zero)


def one(_):
    return mp.mpf(1)


def sinpi_rest(z):
    return mp.pi * (mp.sincpi(mp.sqrt(z)) - 1) / z


def cospi_rest(z):
    return (mp.cospi(mp.sqrt(z)) - 1) / z


def log1p_rest(x):
    return (mp.log1p(x) - x) / x ** 2


def atanh_rest(z):
    """(2 atanh(s) - 2 s) / s^3 of z = s^2."""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s) / s ** 3


def exp_rest(x):
    return (mp.expm1(x) - x) / x ** 2


PI2 = mp.pi ** 2 / 2
# Name, type, function, interval, powers, weight, comment.
ROWS = [
    ("kLog32", "f32", series(log1p_rest, -0.5), -1 / 3, 1 / 3, range(10),
     series(lambda x: x ** 2 / mp.log1p(x), 1e-25), "log(1 + x) = x + x^2 p(x), |x| <= 1/3."),
    ("kLog64", "f64", series(atanh_rest, mp.mpf(2) / 3), 0, "0.0296", range(8),
     lambda z: z + mp.mpf(10) ** -6, "log((1 + s) / (1 - s)) = 2 s + s^3 p(s^2), s^2 <= 0.0296."),
    ("kSinPi32", "f32", series(sinpi_rest, -mp.pi ** 3 / 6), 0, 1 / 16, range(4), lambda z: z + mp.mpf(10) ** -6,
     "sin(pi x) = pi x + x^3 p(x^2), |x| <= 1/4."),
    ("kSinPi64", "f64", series(sinpi_rest, -mp.pi ** 3 / 6), 0, 1 / 16, range(8), lambda z: z + mp.mpf(10) ** -6,
     "sin(pi x) = pi x + x^3 p(x^2), |x| <= 1/4."),
    ("kCosPi32", "f32", series(cospi_rest, -PI2), 0, 1 / 16, range(4), lambda z: z + mp.mpf(10) ** -6,
     "cos(pi x) = 1 + x^2 p(x^2), |x| <= 1/4."),
    ("kCosPi64", "f64", series(cospi_rest, -PI2), 0, 1 / 16, range(8), lambda z: z + mp.mpf(10) ** -6,
     "cos(pi x) = 1 + x^2 p(x^2), |x| <= 1/4."),
    ("kExp32", "f32", series(exp_rest, 0.5), "-0.3466", "0.3466", range(5),
     lambda x: x ** 2 + mp.mpf(10) ** -4, "e^x = 1 + x + x^2 p(x), |x| <= ln(2) / 2."),
    ("kExp64", "f64", series(exp_rest, 0.5), "-0.3466", "0.3466", range(11),
     lambda x: x ** 2 + mp.mpf(10) ** -4, "e^x = 1 + x + x^2 p(x), |x| <= ln(2) / 2."),
]


def main():
    wanted = sys.argv[1:]
    kept = {}
    if HEADER.exists() and wanted:
        for match in re.finditer(r"((?:///[^\n]*\n)+)inline constexpr std::array<double, \d+> (\w+)\{([^}]*)\};\n",
                                 HEADER.read_text()):
            kept[match[2]] = match[0]
    out = []
    for row in ROWS:
        name, comment = row[0], row[-1]
        if name in kept and name not in wanted:
            out.append(kept[name])
            continue
        error, c = fit(row[:-1])
        numbers = ", ".join(repr(float(a)) for a in c)
        out.append(f"/// {comment} Error 2^{error:.1f}.\n"
                   f"inline constexpr std::array<double, {len(c)}> {name}{{{numbers}}};\n")
    HEADER.write_text("#pragma once\n"
                      "// Written by tools/dev/fit_polynomials.py, highest power first.\n"
                      "#include <array>\n\n"
                      "namespace tegula::dsl::elementary {\n\n" + "\n".join(out) +
                      "\n}  // namespace tegula::dsl::elementary\n")


if __name__ == "__main__":
    main()
