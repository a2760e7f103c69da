#!/usr/bin/env python3
"""Writes dsl/elementary/coefficients.h: the polynomials of the language's math functions.

fit_polynomials.py [NAME ...]: fits those rows again and keeps the others; without names, all. Needs mpmath.

Each row of ROWS is a function, an interval, a weight, and the powers of x that the polynomial has. The fit is minimax of
(polynomial - function) * weight by Remez's exchange, in 60 digits. Coefficients are rounded to the type one by one,
lowest power first, and the rest is fitted again, so that later ones compensate for the rounding of earlier ones;
if that is not better, all are rounded at once.
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
    """Returns the points of largest |error| between sign changes, as (point, error)."""
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

    def worst_of(terms):
        return max(abs((sum(a * x ** p for a, p in terms) - f(x)) * weight(x)) for x in points)

    first, c = remez(f, weight, low, high, list(powers), points)
    together = [(rounded(a, kind), p) for a, p in zip(c, powers)]
    done, powers = [], list(powers)
    while powers:
        fixed = list(done)
        rest = lambda x: f(x) - sum(a * x ** p for a, p in fixed)
        try:
            _, c = remez(rest, weight, low, high, powers, points)
        except ZeroDivisionError:  # a node at 0, where all remaining powers vanish
            break
        done.append((rounded(c[0], kind), powers.pop(0)))
        if kind == "f64" and worst_of(done + [(a, p) for a, p in zip(c[1:], powers)]) > 4 * first:
            break  # the rest no longer compensates for the rounding
    if powers or worst_of(together) < worst_of(done):
        done = together
    worst = worst_of(done)
    print(f"{name}: minimax 2^{float(mp.log(first, 2)):.2f}, rounded 2^{float(mp.log(worst, 2)):.2f}", flush=True)
    return float(mp.log(worst, 2)), [a for a, _ in reversed(done)]


def series(function, at_zero):
    """Returns the function with its value at 0 for x near 0, where the formula cancels."""
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
    """Returns (2 atanh(s) - 2 s) / s^3 as a function of z = s^2."""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s) / s ** 3


def exp_rest(x):
    return (mp.expm1(x) - x) / x ** 2


def odd_rest(function):
    """Returns (f(x) - x) / x^3 as a function of z = x^2, for odd f with slope 1."""
    def of_square(z):
        x = mp.sqrt(z)
        return (function(x) - x) / x ** 3
    return of_square


def erf_over_x(z):
    x = mp.sqrt(z)
    return mp.erf(x) / x


def erfcx_part(center):
    """Returns (1 + 2 a) e^(a^2) erfc(a) as a function of q = (a - center) / (a + center)."""
    def of_q(q):
        if q >= 1:
            return 2 / mp.sqrt(mp.pi)
        a = center * (1 + q) / (1 - q)
        if a > 60:  # the asymptotic series, whose terms fall until far beyond 60 digits
            total, term = mp.mpf(1), mp.mpf(1)
            for n in range(1, 60):
                term *= -(2 * n - 1) / (2 * a * a)
                total += term
            return (1 + 2 * a) / (a * mp.sqrt(mp.pi)) * total
        return (1 + 2 * a) * mp.exp(a * a) * mp.erfc(a)
    return of_q


def erfinv_factor(w):
    """Returns erfinv(x) / x as a function of w = -log(1 - x^2), by Newton's method on erfc."""
    if w < mp.mpf(10) ** -40:
        return mp.sqrt(mp.pi) / 2
    y = mp.sqrt(max(w - mp.log(mp.pi * max(w, mp.mpf(1))) / 2, mp.mpf("0.01")))
    if w < 3:
        y = mp.erfinv(mp.sqrt(-mp.expm1(-w)))
        return y / mp.sqrt(-mp.expm1(-w))
    x = mp.sqrt(-mp.expm1(-w))
    small = mp.exp(-w) / (1 + x)  # 1 - x
    for _ in range(60):
        step = (mp.erfc(y) - small) * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        step = step / (1 - y * step)
        y += step
        if abs(step) < mp.mpf(10) ** -45 * y:
            break
    return y / x


def of_root(function):
    return lambda t: function(t * t)


def stirling_rest(z):
    """Returns (log Gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2) x as a function of z = 1 / x^2."""
    if z < mp.mpf(10) ** -12:
        return mp.mpf(1) / 12 - z / 360
    x = 1 / mp.sqrt(z)
    with mp.workdps(90):
        return (mp.loggamma(x) - (x - 0.5) * mp.log(x) + x - mp.log(2 * mp.pi) / 2) * x


def lgamma_at_1(t):
    return mp.loggamma(1 + t) / t


def lgamma_at_2(t):
    return mp.loggamma(2 + t) / t


def rgamma_at_1(t):
    return mp.rgamma(1 + t)


PI2 = mp.pi ** 2 / 2
# Name, type, function, interval, powers, weight, comment.
ROWS = [
    ("kLog32", "f32", series(log1p_rest, -0.5), -1 / 3, 1 / 3, range(10),
     series(lambda x: x ** 2 / mp.log1p(x), 1e-25), "log(1 + x) = x + x^2 p(x), |x| <= 1/3."),
    ("kLog64", "f64", series(atanh_rest, mp.mpf(2) / 3), 0, "0.0401", range(9),
     lambda z: z + mp.mpf(10) ** -6, "log((1 + s) / (1 - s)) = 2 s + s^3 p(s^2), s^2 <= 0.0401."),
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
    ("kAsin32", "f32", series(odd_rest(mp.asin), mp.mpf(1) / 6), 0, 1 / 4, range(5), lambda z: z + mp.mpf(10) ** -3,
     "asin(x) = x + x^3 p(x^2), |x| <= 1/2."),
    ("kAsin64", "f64", series(odd_rest(mp.asin), mp.mpf(1) / 6), 0, 1 / 4, range(13), lambda z: z + mp.mpf(10) ** -3,
     "asin(x) = x + x^3 p(x^2), |x| <= 1/2."),
    ("kAtan32", "f32", series(odd_rest(mp.atan), -mp.mpf(1) / 3), 0, 1, range(8), lambda z: z + mp.mpf(10) ** -2,
     "atan(x) = x + x^3 p(x^2), |x| <= 1."),
    ("kAtan64", "f64", series(odd_rest(mp.atan), -mp.mpf(1) / 3), 0, 1, range(20), lambda z: z + mp.mpf(10) ** -2,
     "atan(x) = x + x^3 p(x^2), |x| <= 1."),
    ("kSinh32", "f32", series(odd_rest(mp.sinh), mp.mpf(1) / 6), 0, 1, range(4), lambda z: z + mp.mpf(10) ** -2,
     "sinh(x) = x + x^3 p(x^2), |x| <= 1."),
    ("kSinh64", "f64", series(odd_rest(mp.sinh), mp.mpf(1) / 6), 0, 1, range(8), lambda z: z + mp.mpf(10) ** -2,
     "sinh(x) = x + x^3 p(x^2), |x| <= 1."),
    ("kTanh64", "f64", series(odd_rest(mp.tanh), -mp.mpf(1) / 3), 0, "0.3025", range(11),
     lambda z: z + mp.mpf(10) ** -3, "tanh(x) = x + x^3 p(x^2), |x| <= 0.55."),
    ("kErf64", "f64", series(erf_over_x, 2 / mp.sqrt(mp.pi)), 0, 1, range(13), one, "erf(x) = x p(x^2), |x| <= 1."),
    ("kErfcx32", "f32", erfcx_part(2), -1, 1, range(11), one,
     "(1 + 2 a) e^(a^2) erfc(a) = p(q), q = (a - 2) / (a + 2), a >= 0."),
    ("kErfcx64", "f64", erfcx_part(4), -1, 1, range(24), one,
     "(1 + 2 a) e^(a^2) erfc(a) = p(q), q = (a - 4) / (a + 4), a >= 0."),
    ("kErfinvNear", "f32", lambda s: erfinv_factor(s + mp.mpf(5) / 2), "-2.5", "2.5", range(10), one,
     "erfinv(x) = x p(w - 2.5), w = -log(1 - x^2) <= 5."),
    ("kErfinvFar", "f32", lambda s: of_root(erfinv_factor)(s + mp.mpf(7) / 2), "-1.27", "1.5", range(13), one,
     "erfinv(x) = x p(sqrt(w) - 3.5), 5 <= w <= 25."),
    ("kErfinvFarther", "f32", lambda s: of_root(erfinv_factor)(s + mp.mpf(15) / 2), "-2.5", "2.9", range(9), one,
     "erfinv(x) = x p(sqrt(w) - 7.5), 25 <= w <= 108."),
    ("kErfinvFarthest", "f64", lambda s: of_root(erfinv_factor)(s + mp.mpf(18)), "-8", "9.4", range(9), one,
     "erfinv(x) = x p(sqrt(w) - 18), 100 <= w <= 750."),
    ("kStirling32", "f32", stirling_rest, 0, "0.16", range(4), one,
     "log Gamma(x) = (x - 1/2) log x - x + log(2 pi) / 2 + p(1 / x^2) / x, x >= 2.5."),
    ("kStirling64", "f64", stirling_rest, 0, "0.0278", range(11), one,
     "log Gamma(x) = (x - 1/2) log x - x + log(2 pi) / 2 + p(1 / x^2) / x, x >= 6."),
    ("kLgamma1_32", "f32", series(lgamma_at_1, -mp.euler), "-0.5", "0.5", range(14), one,
     "log Gamma(1 + t) = t p(t), |t| <= 1/2."),
    ("kLgamma1_64", "f64", series(lgamma_at_1, -mp.euler), "-0.5", "0.5", range(29), one,
     "log Gamma(1 + t) = t p(t), |t| <= 1/2."),
    ("kLgamma2_32", "f32", series(lgamma_at_2, 1 - mp.euler), "-0.5", "0.5", range(10), one,
     "log Gamma(2 + t) = t p(t), |t| <= 1/2."),
    ("kLgamma2_64", "f64", series(lgamma_at_2, 1 - mp.euler), "-0.5", "0.5", range(22), one,
     "log Gamma(2 + t) = t p(t), |t| <= 1/2."),
    ("kRgamma32", "f32", rgamma_at_1, "-0.5", "0.5", range(9), one, "1 / Gamma(1 + t) = p(t), |t| <= 1/2."),
    ("kRgamma64", "f64", rgamma_at_1, "-0.5", "0.5", range(16), one, "1 / Gamma(1 + t) = p(t), |t| <= 1/2."),
    ("kSin32", "f32", series(odd_rest(mp.sin), -mp.mpf(1) / 6), 0, "0.62", range(3), lambda z: z + mp.mpf(10) ** -3,
     "sin(x) = x + x^3 p(x^2), |x| <= pi / 4."),
    ("kSin64", "f64", series(odd_rest(mp.sin), -mp.mpf(1) / 6), 0, "0.62", range(7), lambda z: z + mp.mpf(10) ** -3,
     "sin(x) = x + x^3 p(x^2), |x| <= pi / 4."),
    ("kCos32", "f32", series(lambda z: (mp.cos(mp.sqrt(z)) - 1) / z, -0.5), 0, "0.62", range(4),
     lambda z: z + mp.mpf(10) ** -3, "cos(x) = 1 + x^2 p(x^2), |x| <= pi / 4."),
    ("kCos64", "f64", series(lambda z: (mp.cos(mp.sqrt(z)) - 1) / z, -0.5), 0, "0.62", range(8),
     lambda z: z + mp.mpf(10) ** -3, "cos(x) = 1 + x^2 p(x^2), |x| <= pi / 4."),
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
