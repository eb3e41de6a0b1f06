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

/* The sum of probabilities, in an order that a processor adds several at a time in. */
PART double sum_of(int64_t k, const double *row) {
    double lanes[LANES] = {0.0}, total = 0.0;
    int64_t j = 0;
    for (; j + LANES <= k; j += LANES) {
        for (int lane = 0; lane < LANES; lane++) lanes[lane] += row[j + lane];
    }
    for (; j < k; j++) total += row[j];
    for (int lane = 0; k >= LANES && lane < LANES; lane++) total += lanes[lane];
    return total;
}

/* Collect the probabilities above a value, in order; their number. They may stay where they are. */
PART int64_t keep_above(int64_t k, const double *row, double value, double *to) {
    int64_t count = 0;
    for (int64_t j = 0; j < k; j++) {
        double p = row[j];
        to[count] = p;
        count += p > value;
    }
    return count;
}

/* The candidates that maximise sum_A prior / (gain + |A|), gain = exp(epsilon) - 1, and their mass.
 *
 * The best set is {j : prior_j > value} with `value` the maximum itself, and iterating from the value of the full set
 * climbs to it (Dinkelbach 1967). Equal priors are all in or all out; at a tie in value the smaller set is taken. `room`
 * has that for the probabilities of one row. */
WIDE KERNEL void best_candidates(int64_t n, int64_t k, int64_t b, const double *prior, double gain, double *room,
                                 uint8_t *out, double *mass) {
    for (int64_t i = 0; i < n; i++) {
        const double *row = prior + i * k, *values = row;
        double bar = -1.0, total = sum_of(k, row);
        int64_t count = k;
        for (;;) {
            double value = total / (gain + (double)count);
            int64_t left = keep_above(count, values, value, room);
            if (left >= count || left == 0) break;
            bar = value;
            count = left;
            values = room;
            total = sum_of(count, room);
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

#define FEW_VALUES 64
#define DIGIT 11
#define DIGITS 3

/* The digit of a probability that counts from the top, the largest probabilities first: floats above zero are ordered as
 * their bits are. */
static inline int64_t digit_of(double value, int64_t digit) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (int64_t)(~bits >> (64 - DIGIT * (digit + 1)) & ((1 << DIGIT) - 1));
}

/* Sort probabilities, the largest first: many by their upper bits, one digit after the other, and then by insertion. */
static void sort_falling(int64_t k, double *values, double *spare) {
    for (int64_t digit = DIGITS - 1; k > FEW_VALUES && digit >= 0; digit--) {
        int64_t ends[(1 << DIGIT) + 1] = {0};
        for (int64_t j = 0; j < k; j++) ends[digit_of(values[j], digit) + 1]++;
        for (int64_t j = 0; j < 1 << DIGIT; j++) ends[j + 1] += ends[j];
        for (int64_t j = 0; j < k; j++) spare[ends[digit_of(values[j], digit)]++] = values[j];
        memcpy(values, spare, (size_t)k * sizeof *values);
    }
    for (int64_t i = 1; i < k; i++) {
        double value = values[i];
        int64_t j = i;
        for (; j > 0 && values[j - 1] < value; j--) values[j] = values[j - 1];
        values[j] = value;
    }
}

#define MOST_MASS 1.01 /* of a row, squared; rows sum to one within a thousandth */

/* The m most likely classes, m maximising values[m - 1] ((sum p)**2 - sum p**2) over them, and their mass.
 *
 * Of equal probabilities those of the first classes are in. `ahead` has the largest value from each number of classes
 * on, so that no further classes are looked at once the best set is better than that allows. */
KERNEL void best_subsets(int64_t n, int64_t k, int64_t b, const double *prior, const double *values, const double *ahead,
                         double *room, uint8_t *out, double *mass) {
    for (int64_t i = 0; i < n; i++) {
        const double *row = prior + i * k;
        double best = -1.0, limit = 0.0, total = 0.0, squares = 0.0;
        int64_t ties = 0;
        memcpy(room, row, (size_t)k * sizeof *room);
        sort_falling(k, room, room + k);
        for (int64_t m = 0; m < k && ahead[m] * MOST_MASS > best; m++) {
            double top = room[m];
            total += top;
            squares += top * top;
            double value = values[m] * (total * total - squares);
            if (value <= best) continue;
            best = value, limit = top, mass[i] = total, ties = m + 1;
        }
        for (int64_t j = 0; j < k; j++) ties -= row[j] > limit;
        memset(out + i * b, 0, (size_t)b);
        for (int64_t j = 0; j < k; j++) {
            bool tie = row[j] == limit && ties > 0;
            ties -= tie;
            out[i * b + (j >> 3)] |= (uint8_t)((row[j] > limit || tie) << (j & 7));
        }
    }
}

/* Copy rows of probabilities; the first that is not a distribution, or -1. NaN counts as invalid. */
WIDE KERNEL int64_t copy_prior(int64_t n, int64_t k, const double *prior, double tolerance, double *out) {
    int64_t bad = -1;
    for (int64_t i = n - 1; i >= 0; i--) {
        const double *row = out + i * k; /* what is checked is the copy */
        int64_t negative = 0;
        memcpy(out + i * k, prior + i * k, (size_t)k * sizeof *row);
        for (int64_t j = 0; j < k; j++) negative += !(row[j] >= 0.0);
        if (negative || !(fabs(sum_of(k, row) - 1.0) <= tolerance)) bad = i;
    }
    return bad;
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
