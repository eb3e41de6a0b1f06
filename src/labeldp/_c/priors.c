/* Choices that follow from public class probabilities, and randomized response on a row's candidates. */

#include "kernels.h"

/* The class of a rank in a packed set, skipping one class. */
static int32_t nth(const uint8_t *set, int64_t bytes, int64_t rank, int64_t skip) {
    for (int64_t byte = 0; byte < bytes; byte++) {
        for (unsigned bits = set[byte]; bits; bits &= bits - 1) {
            int64_t j = 8 * byte + __builtin_ctz(bits);
            if (j != skip && rank-- == 0) return (int32_t)j;
        }
    }
    return -1;
}

/* RRTop-k: randomized response on a row's candidates; a label outside them is replaced by a uniform candidate.
 *
 * `keep`, `other` and `uniform` are indexed by the number of candidates. */
KERNEL void draw_candidates(int64_t n, int64_t w, int64_t b, int64_t s, const int32_t *codes, const uint64_t *words,
                            const uint8_t *candidates, const int64_t *sizes, const uint64_t *keep,
                            const uint64_t *other, const uint64_t *uniform, int32_t *out) {
    (void)s;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *set = candidates + i * b;
        uint64_t u = words[i * w];
        int64_t m = sizes[i];
        if (m == 1) {
            out[i] = nth(set, b, 0, -1);
            continue;
        }
        bool inside = holds(set, codes[i]);
        if (inside && u < keep[m]) {
            out[i] = codes[i];
            continue;
        }
        uint64_t rank = inside ? (u - keep[m]) / other[m] : u / uniform[m];
        out[i] = nth(set, b, (int64_t)rank, inside ? codes[i] : -1);
    }
}

#define LANES 8

/* The sum of a row of probabilities, in an order that a processor adds several at a time in. */
static inline double sum_of(int64_t k, const double *row) {
    double lanes[LANES] = {0.0}, total = 0.0;
    int64_t j = 0;
    for (; j + LANES <= k; j += LANES) {
        for (int lane = 0; lane < LANES; lane++) lanes[lane] += row[j + lane];
    }
    for (; j < k; j++) total += row[j];
    for (int lane = 0; lane < LANES; lane++) total += lanes[lane];
    return total;
}

/* The sum of the probabilities above a value, and their number. */
static inline double sum_above(int64_t k, const double *row, double value, int64_t *count) {
    double lanes[LANES] = {0.0}, total = 0.0;
    int64_t counts[LANES] = {0}, left = 0, j = 0;
    for (; j + LANES <= k; j += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            double p = row[j + lane];
            lanes[lane] += p > value ? p : 0.0;
            counts[lane] += p > value;
        }
    }
    for (; j < k; j++) {
        total += row[j] > value ? row[j] : 0.0;
        left += row[j] > value;
    }
    for (int lane = 0; lane < LANES; lane++) {
        total += lanes[lane];
        left += counts[lane];
    }
    *count = left;
    return total;
}

/* The candidates that maximise sum_A prior / (gain + |A|), gain = exp(epsilon) - 1, and their mass.
 *
 * The best set is {j : prior_j > value} with `value` the maximum itself, and iterating from the value of the full set
 * climbs to it (Dinkelbach 1967). Equal priors are all in or all out; at a tie in value the smaller set is taken. */
WIDE KERNEL void best_candidates(int64_t n, int64_t k, int64_t b, const double *prior, double gain, uint8_t *out,
                                 double *mass) {
    for (int64_t i = 0; i < n; i++) {
        const double *row = prior + i * k;
        double bar = -1.0, total = sum_of(k, row);
        int64_t count = k, left;
        for (;;) {
            double value = total / (gain + (double)count);
            double above = sum_above(k, row, value, &left);
            if (left >= count || left == 0) break;
            bar = value;
            count = left;
            total = above;
        }
        for (int64_t byte = 0; byte < b; byte++) {
            int64_t first = 8 * byte, last = first + 8 < k ? first + 8 : k;
            unsigned bits = 0;
            for (int64_t j = first; j < last; j++) bits |= (unsigned)(row[j] > bar) << (j - first);
            out[i * b + byte] = (uint8_t)bits;
        }
        mass[i] = total;
    }
}

/* The first row that is not a distribution, or -1; NaN counts as invalid. */
WIDE KERNEL int64_t first_bad_row(int64_t n, int64_t k, const double *prior, double tolerance) {
    for (int64_t i = 0; i < n; i++) {
        const double *row = prior + i * k;
        int64_t negative = 0;
        for (int64_t j = 0; j < k; j++) negative += !(row[j] >= 0.0);
        if (negative || !(fabs(sum_of(k, row) - 1.0) <= tolerance)) return i;
    }
    return -1;
}

/* The cuts of classes into groups whose randomized response is most informative, as packed first classes.
 *
 * `below` has the probability of all classes before each cut, `density` the normal density there, and `gain` is
 * exp(epsilon) - 1. best[g, j] is the most that g groups of the first j classes contribute at m groups in all; `best`,
 * `place` and `cuts` (the best so far, and those that are tried) are room for one row. */
KERNEL void best_groups(int64_t n, int64_t e, int64_t k, int64_t b, const double *below, const double *density,
                        double gain, int64_t most, bool ordered, double *best, int64_t *place, uint8_t *cuts,
                        uint8_t *out) {
    for (int64_t i = 0; i < n; i++) {
        const double *p = below + i * e, *d = density + i * e;
        uint8_t *chosen = cuts, *tried = cuts + k;
        double highest = ordered ? 0.0 : 1e-14; /* no information, but for rounding */
        memset(chosen, 0, (size_t)k);
        chosen[0] = 1;
        for (int64_t m = 2; m <= k; m++) {
            if (m > most && m < k) continue;
            double floor = 1.0 / (gain + (double)m);
            for (int64_t g = 1; g <= m; g++) {
                for (int64_t j = g; j <= k - m + g; j++) {
                    double top = -INFINITY;
                    for (int64_t start = g - 1; start < (g > 1 ? j : 1); start++) {
                        double before = g > 1 ? best[(g - 1) * e + start] : 0.0;
                        double chance = floor + gain * floor * (p[j] - p[start]);
                        double slope = gain * floor * (d[start] - d[j]);
                        double value = before + (ordered ? slope * slope / chance : -chance * log(chance));
                        if (value > top) {
                            top = value;
                            place[g * e + j] = start;
                        }
                    }
                    best[g * e + j] = top;
                }
            }
            double value = best[m * e + k];
            if (!ordered) { /* less the entropy of a released group given the true one */
                double correct = (gain + 1.0) * floor;
                value += correct * log(correct) + (1.0 - correct) * log(floor);
            }
            if (value > highest) {
                highest = value;
                memset(tried, 0, (size_t)k);
                for (int64_t g = m, end = k; g > 0; g--) {
                    end = place[g * e + end];
                    tried[end] = 1;
                }
                memcpy(chosen, tried, (size_t)k);
            }
        }
        for (int64_t j = 0; j < k; j++) {
            if (chosen[j]) add(out + i * b, j);
        }
    }
}
