/* Draws of one class for each row. Each does the same work for every row, whatever its label, up to a branch. */

#include "kernels.h"

/* Randomized response: the label if u < keep, else the (u - keep) / other-th other class.
 *
 * The quotient is estimated by the reciprocal m = (2**64 - 1) / other, rounded down, which is at least
 * 2**64 / other - 1. So rest * m / 2**64 is above rest / other - 1, and the estimate is the quotient or one less: one
 * step up is enough, and j * other never exceeds rest. */
WIDE KERNEL void draw_response(int64_t n, int64_t w, const int32_t *codes, const uint64_t *words, uint64_t keep,
                               uint64_t other, int32_t *out) {
    uint64_t inverse = other ? UINT64_MAX / other : 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t u = words[i * w];
        int64_t stays = -(int64_t)(u < keep); /* all bits or none: a branch would be guessed wrong */
        uint64_t rest = (u - keep) & ~(uint64_t)stays;
        uint64_t quotient = (uint64_t)((unsigned __int128)rest * inverse >> 64);
        quotient += rest - quotient * other >= other;
        int64_t j = (int64_t)quotient;
        j += j >= codes[i];
        out[i] = (int32_t)((codes[i] & stays) | (j & ~stays));
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
