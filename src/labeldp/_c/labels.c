/* Draws of one class for each row. Each does the same work for every row, whatever its label, up to a branch. */

#include "kernels.h"

#define ROWS_AT_ONCE 512

/* Randomized response of one row by its definition: the label if u < keep, else the (u - keep) / other-th other class. */
static inline int32_t respond(int32_t code, uint64_t u, uint64_t keep, uint64_t other) {
    if (u < keep) return code;
    int32_t j = (int32_t)((u - keep) / other);
    return j + (j >= code);
}

/* Randomized response. The upper half of rest = u - keep nearly always decides the quotient, and several rows are
 * decided at a time; blocks of rows with one that is in doubt follow the definition. Doubt depends on words alone.
 *
 * Shift keep, u and other so that r = rest / 2**32, rounded down, has at most 32 bits, all used. Let m, rounded down, be
 * 2**(32 + by) / other, with `by` so large as m < 2**32 allows. Then rest / other * 2**by is at least r * m, and below
 * (r + 1) * (m + 1) = r * m + r + m + 1. The quotient is known where r * m and r * m + r + m agree above bit `by`; the
 * latter is below 2**64, since r and m are below 2**32. */
WIDE KERNEL void draw_response(int64_t n, int64_t w, const int32_t *codes, const uint64_t *words,
                               uint64_t keep, uint64_t other, int32_t *out) {
    int shift = ~keep ? __builtin_clzll(~keep) : 63, by = 63;
    unsigned __int128 divisor = (unsigned __int128)other << shift, m = ((unsigned __int128)1 << 95) / divisor;
    for (; m >> 32; m >>= 1) by--;
    uint64_t inverse = (uint64_t)m;
    bool wide = w == 1 && divisor >> 33;
    int64_t kept = (int64_t)(keep ^ (uint64_t)INT64_MIN); /* with the sign changed, signed numbers compare as unsigned */
    for (int64_t low = 0; low < n; low += ROWS_AT_ONCE) {
        int64_t size = n - low < ROWS_AT_ONCE ? n - low : ROWS_AT_ONCE;
        uint64_t doubt = !wide;
        for (int64_t i = low; wide && i < low + size; i++) {
            uint64_t r = (words[i] - keep) << shift >> 32, product = r * inverse, quotient = product >> by;
            int64_t stays = -(int64_t)((int64_t)(words[i] ^ (uint64_t)INT64_MIN) < kept);
            doubt |= (quotient ^ ((product + r + inverse) >> by)) & ~(uint64_t)stays;
            int32_t j = (int32_t)((int64_t)quotient | stays), code = codes[i];
            out[i] = j < 0 ? code : j + (j >= code);
        }
        for (int64_t i = low; doubt && i < low + size; i++) out[i] = respond(codes[i], words[i * w], keep, other);
    }
}

/* Round each label to a knot at random and draw the knot's outcome: the first whose limit exceeds the word.
 *
 * `top` is the last code, and knots divide it into `knots - 1` pieces. Between two knots, rest / top of a piece above
 * the lower one, the upper one is taken if the second word is below rest * W / top, rounded up; W = whole * top + over,
 * and rest * over is below top**2, at most 2**48. */
KERNEL void draw_grid(int64_t n, int64_t w, int64_t knots, int64_t m, const int32_t *codes, const uint64_t *words,
                      const uint64_t *limits, int64_t top, uint64_t whole, uint64_t over, int16_t *out) {
    int64_t pieces = knots - 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t knot = codes[i];
        if (pieces != top) {
            int64_t place = knot * pieces;
            knot = place / top;
            uint64_t rest = (uint64_t)(place - knot * top);
            uint64_t bound = rest * whole + (rest * over + (uint64_t)(top - 1)) / (uint64_t)top;
            knot += rest > 0 && words[i * w + 1] < bound;
        }
        out[i] = (int16_t)count_up_to(limits + knot * m, m, words[i * w]);
    }
}

/* The label if u < keep, else the first class of the cluster whose cumulative weight exceeds the rest. */
KERNEL void draw_cluster(int64_t n, int64_t w, int64_t c, int64_t k, const int32_t *codes, const uint64_t *words,
                         const int64_t *clusters, const uint64_t *keep, const uint64_t *limits, int32_t *out) {
    (void)c;
    for (int64_t i = 0; i < n; i++) {
        uint64_t u = words[i * w], own = keep[clusters[i]];
        int32_t drawn = (int32_t)count_up_to(limits + clusters[i] * k, k - 1, u - own);
        out[i] = u < own ? codes[i] : drawn;
    }
}

/* Independent bits: one word for each class, below `member` for the true class and `stranger` for the others. */
WIDE KERNEL void draw_bits(int64_t n, int64_t k, int64_t b, const int32_t *codes, const uint64_t *words,
                           uint64_t member, uint64_t stranger, uint8_t *out) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t byte = 0; byte < b; byte++) {
            int64_t first = 8 * byte, last = first + 8 < k ? first + 8 : k;
            unsigned bits = 0;
            for (int64_t j = first; j < last; j++) {
                bits |= (unsigned)(words[i * k + j] < (j == codes[i] ? member : stranger)) << (j - first);
            }
            out[i * b + byte] = (uint8_t)bits;
        }
    }
}

/* The hash of the files that the library was made of. */
KERNEL const char *sources(void) { return LABELDP_SOURCES; }
