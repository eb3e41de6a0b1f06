/* Draws of one class for each row. Each does the same work for every row, whatever its label, up to a branch. */

#include "choices.h"

/* The number of codes that are no class. */
WIDE KERNEL int64_t count_strangers(int64_t n, const int32_t *codes, int64_t classes) {
    uint32_t count = (uint32_t)classes;
    int64_t strangers = 0;
    for (int64_t low = 0; low < n; low += ROWS_AT_ONCE) {
        uint32_t block = 0;
        int64_t size = n - low < ROWS_AT_ONCE ? n - low : ROWS_AT_ONCE;
        for (int64_t i = 0; i < size; i++) block += (uint32_t)codes[low + i] >= count;
        strangers += block;
    }
    return strangers;
}

/* Randomized response: the label if u < keep, else the (u - keep) / other-th other class.
 *
 * Modulo 2**64, u - keep is less than classes - 1 times `other` unless u < keep, so its quotient by `other` says both.
 * Upper halves nearly always have the same quotient, as in `choose`; a block of rows with another follows the definition.
 */
WIDE KERNEL void draw_response(int64_t n, int64_t w, const int32_t *codes, const uint64_t *words, int64_t classes,
                               uint64_t keep, uint64_t other, int32_t *out) {
    range in = range_of((uint64_t)(classes - 1) * other, classes - 1);
    uint32_t places[ROWS_AT_ONCE];
    for (int64_t low = 0; low < n; low += ROWS_AT_ONCE) {
        int64_t size = n - low < ROWS_AT_ONCE ? n - low : ROWS_AT_ONCE;
        const uint64_t *row = words + low * w;
        const int32_t *own = codes + low;
        int32_t *to = out + low;
        uint32_t doubt = w > 1;
        if (w == 1) {
            for (int64_t i = 0; i < size; i++) places[i] = (uint32_t)((row[i] - keep) >> 32);
            for (int64_t i = 0; i < size; i++) {
                uint32_t high = upper(places[i], in.inverse), pick = high >> in.by;
                int32_t code = own[i], drawn = (int32_t)(pick + (uint32_t)((int32_t)pick >= code));
                doubt |= pick ^ (high + 3) >> in.by;
                to[i] = pick >= in.count ? code : drawn;
            }
        }
        for (int64_t i = 0; doubt && i < size; i++) {
            uint64_t pick = (row[i * w] - keep) / other;
            int32_t code = own[i];
            to[i] = pick >= in.count ? code : (int32_t)pick + ((int32_t)pick >= code);
        }
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

#define LANES_AT_ONCE 4096
#define MOST_LANES 16384 /* of a row; those of more classes follow the definition */

/* The numbers of two classes in a word, the lower half first, as an array of them. */
typedef uint32_t __attribute__((may_alias)) lane;

/* Flags of lanes below a limit; true if one is equal to either limit, so that its lower half decides. */
PART bool compare(int64_t n, const lane *lanes, uint32_t limit, uint32_t other, uint8_t *below) {
    uint32_t equal = 0;
    for (int64_t i = 0; i < n; i++) equal |= (uint32_t)(lanes[i] == limit) | (uint32_t)(lanes[i] == other);
    for (int64_t i = 0; i < n; i++) below[i] = lanes[i] < limit;
    memset(below + n, 0, 8); /* `packed` takes eight */
    return equal;
}

/* The first bits of eight bytes, in their order. */
static inline uint8_t packed(const uint8_t *bytes) {
    uint64_t eight;
    memcpy(&eight, bytes, sizeof eight);
    return (uint8_t)(eight * 0x0102040810204080u >> 56);
}

/* Independent bits of one row by their definition; false if its words do not suffice.
 *
 * A class is in the set if its number is below `member`, for the true class, or `stranger`. The upper half of the number
 * is half a word of the first ones, two classes in each, and its lower half the same half of as many further words.
 * These are needed if an upper half is that of either limit, for any class, so that it depends on the words alone. */
static bool draw_bits_of(int64_t w, int64_t b, int64_t code, const uint64_t *words, int64_t classes, int64_t half,
                         uint64_t member, uint64_t stranger, uint8_t *out) {
    int64_t first = (classes + 1) / 2;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    memset(out, 0, (size_t)b);
    for (int64_t j = 0; j < classes; j++) {
        int64_t shift = j & 1 ? half : 0;
        uint64_t limit = j == code ? member : stranger, number = words[j >> 1] >> shift & mask;
        if (number == member >> half || number == stranger >> half) {
            if (w < 2 * first) return false;
            number = number << half | (words[first + (j >> 1)] >> shift & mask);
        } else {
            number <<= half;
        }
        if (number < limit) add(out, j);
    }
    return true;
}

/* Pack the flags of rows into sets; a flag behind the last class is none. */
PART void pack_rows(int64_t n, int64_t b, int64_t classes, int64_t lanes, const uint8_t *flags, uint8_t *out) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < b; j++) out[i * b + j] = packed(flags + i * lanes + 8 * j);
        out[i * b + b - 1] &= (uint8_t)(UINT8_MAX >> (8 * b - classes));
    }
}

/* Independent bits. The first words nearly always decide, and several numbers are compared at a time. */
WIDE KERNEL bool draw_bits(int64_t n, int64_t w, int64_t b, const int32_t *codes, const uint64_t *words,
                           int64_t classes, int64_t half, uint64_t member, uint64_t stranger, uint8_t *out) {
    uint8_t below[MOST_LANES + 8];
    uint32_t limit = (uint32_t)(stranger >> 32), own = (uint32_t)(member >> 32);
    int64_t lanes = 2 * w, rows = lanes < LANES_AT_ONCE ? LANES_AT_ONCE / lanes : 1;
    bool wide = half == 32 && w == (classes + 1) / 2 && lanes <= MOST_LANES;
    wide &= __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    for (int64_t low = 0; low < n; low += rows) {
        int64_t size = n - low < rows ? n - low : rows;
        const lane *numbers = (const lane *)(words + low * w);
        uint8_t *to = out + low * b;
        if (!wide || compare(size * lanes, numbers, limit, own, below)) {
            for (int64_t i = 0; i < size; i++) {
                const uint64_t *row = words + (low + i) * w;
                if (!draw_bits_of(w, b, codes[low + i], row, classes, half, member, stranger, to + i * b)) return false;
            }
            continue;
        }
        for (int64_t i = 0; i < size; i++) {
            int64_t place = i * lanes + codes[low + i];
            below[place] = numbers[place] < own;
        }
        if (b == 1) {
            pack_rows(size, 1, classes, lanes, below, to);
        } else if (b == 2) {
            pack_rows(size, 2, classes, lanes, below, to);
        } else {
            pack_rows(size, b, classes, lanes, below, to);
        }
    }
    return true;
}

/* The hash of the files that the library was made of. */
KERNEL const char *sources(void) { return LABELDP_SOURCES; }
