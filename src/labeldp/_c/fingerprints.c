/* Fingerprints: 64-bit hashes of values, and the smallest hashes of many rows. */

#include "kernels.h"

static const uint64_t WHOLE = 0x6A09E667F3BCC909u, FINE = 0xBB67AE8584CAA73Bu, COARSE = 0x3C6EF372FE94F82Bu,
                      TEXT = 0xA54FF53A5F1D36F1u, FACTOR = 0xBF58476D1CE4E5B9u;
static const double MOST = 9007199254740992.0; /* whole numbers up to here are floats */
static const double NEAR = 1e-6;

#define BLOCK 512

/* Mix each word with a key. */
WIDE KERNEL void mix_all(int64_t n, const uint64_t *words, uint64_t key, uint64_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = mixed(words[i] ^ key);
}

/* Hashes of whole numbers. */
WIDE KERNEL void hash_whole(int64_t n, const uint64_t *values, uint64_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = mixed(values[i] ^ WHOLE);
}

/* Hashes of floats whose last digits are rounded off: adding half of the last digit that is kept rounds, with a carry
 * into the exponent. */
static inline void hash_rounded(int64_t n, const double *values, int digits, uint64_t key, uint64_t *out) {
    uint64_t half = (uint64_t)1 << (digits - 1);
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, values + i, sizeof bits);
        out[i] = mixed(((bits + half) >> digits) ^ key);
    }
}

/* Hashes of floats to 17 and to 6 binary digits; a float near a whole number has that number's hash.
 *
 * In blocks without whole or missing numbers no loop branches, so that a processor does several at a time. */
WIDE KERNEL void hash_floats(int64_t n, const double *values, uint64_t missing, uint64_t *fine, uint64_t *coarse) {
    for (int64_t low = 0; low < n; low += BLOCK) {
        int64_t size = n - low < BLOCK ? n - low : BLOCK, special = 0;
        for (int64_t i = low; i < low + size; i++) special += !(fabs(values[i] - rint(values[i])) > NEAR);
        hash_rounded(size, values + low, 35, FINE, fine + low);
        hash_rounded(size, values + low, 46, COARSE, coarse + low);
        for (int64_t i = low; special && i < low + size; i++) {
            double near = rint(values[i]);
            if (isnan(values[i])) {
                fine[i] = coarse[i] = missing;
            } else if (fabs(near) < MOST && fabs(values[i] - near) <= NEAR) {
                fine[i] = coarse[i] = mixed((uint64_t)(int64_t)near ^ WHOLE);
            }
        }
    }
}

/* Hashes of texts, which lie one after the other: eight bytes at a time, the first one highest. */
KERNEL void hash_texts(int64_t e, int64_t n, int64_t m, const int64_t *offsets, uint64_t *out, const uint8_t *data) {
    (void)e;
    (void)m;
    for (int64_t i = 0; i < n; i++) {
        uint64_t state = TEXT, word = 0;
        int64_t j = offsets[i], end = offsets[i + 1];
        for (; j + 8 <= end; j += 8) {
            memcpy(&word, data + j, sizeof word);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            word = __builtin_bswap64(word);
#endif
            state = mixed(state ^ word);
        }
        uint64_t held = (uint64_t)(end - j);
        for (word = 0; j < end; j++) word = word << 8 | data[j];
        out[i] = mixed(state ^ word ^ held << 56);
    }
}

/* Sums of the hashes of pairs of words of two columns, each column in both directions.
 *
 * Which column comes first does not matter, and neither does the order of rows. */
WIDE KERNEL void sum_pairs(int64_t n, const uint64_t *one, const uint64_t *one_turned, const uint64_t *other,
                           const uint64_t *other_turned, uint64_t *sums) {
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (int64_t i = 0; i < n; i++) {
        a += mixed(one[i] + other[i]);
        b += mixed(one_turned[i] + other[i]);
        c += mixed(one[i] + other_turned[i]);
        d += mixed(one_turned[i] + other_turned[i]);
    }
    sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
}

/* Hashes of rows from the hashes of the first columns, which depend on the column of each. */
WIDE KERNEL void hash_in_order(int64_t c, int64_t block, int64_t n, const uint64_t *cells, int64_t columns,
                               uint64_t *out) {
    (void)c;
    memset(out, 0, (size_t)n * sizeof *out);
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t i = 0; i < n; i++) out[i] = out[i] * FACTOR + cells[j * block + i];
    }
}

/* Add hashes to others; the sum of all of them. */
static inline uint64_t added(int64_t n, uint64_t *to, const uint64_t *part) {
    uint64_t whole = 0;
    for (int64_t i = 0; i < n; i++) {
        to[i] += part[i];
        whole += part[i];
    }
    return whole;
}

/* Collect hashes below a limit, and their places from the first on; their number.
 *
 * Few blocks have any, once the limit is small; to count comes first because a processor compares several at a time. */
static inline int64_t collect(int64_t n, const uint64_t *hashes, uint64_t limit, int64_t first, uint64_t *places,
                              uint64_t *values) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += hashes[i] < limit;
    if (!count) return 0;
    count = 0;
    for (int64_t i = 0; i < n; i++) {
        if (hashes[i] < limit) {
            places[count] = (uint64_t)(first + i);
            values[count++] = hashes[i];
        }
    }
    return count;
}

/* Add up the hashes of as many rows as there are cells of a column, and collect the small ones of each view.
 *
 * Hashes are added modulo 2**64, so that the order of columns does not matter. Rows are taken in blocks that stay in a
 * processor's nearest cache.
 *
 * cells: the hashes of each column, of which the first `d` make up a row.
 * starts: the first member of each view, and their number.
 * members: the columns that a view leaves out, and the complements of those that it has in addition.
 * limits: the hashes of each view must be smaller.
 * low: the row of the first cells.
 * total: the hashes of all rows, of which these are filled in.
 * sums: the sum of the hashes of each of the first columns, to which those here are added.
 * places, values: the rows of the hashes that were collected, of each view, and these hashes.
 * counts: their number, to which those here are added. */
WIDE KERNEL void sketch(int64_t c, int64_t block, int64_t v1, int64_t m, int64_t v, int64_t n, int64_t d, int64_t room,
                        const uint64_t *cells, const int64_t *starts, const int64_t *members, const uint64_t *limits,
                        int64_t low, uint64_t *total, uint64_t *sums, uint64_t *places, uint64_t *values,
                        int64_t *counts) {
    (void)c;
    (void)v1;
    (void)m;
    uint64_t part[BLOCK];
    int64_t size = block < n - low ? block : n - low;
    for (int64_t first = 0; first < size; first += BLOCK) {
        int64_t rows = size - first < BLOCK ? size - first : BLOCK;
        uint64_t *sum = total + low + first;
        memset(sum, 0, (size_t)rows * sizeof *sum);
        for (int64_t j = 0; j < d; j++) sums[j] += added(rows, sum, cells + j * block + first);
        for (int64_t view = 0; view < v; view++) {
            memcpy(part, sum, (size_t)rows * sizeof *part);
            for (int64_t place = starts[view]; place < starts[view + 1]; place++) {
                int64_t member = members[place];
                const uint64_t *column = cells + (member >= 0 ? member : ~member) * block + first;
                if (member >= 0) {
                    for (int64_t i = 0; i < rows; i++) part[i] -= column[i];
                } else {
                    added(rows, part, column);
                }
            }
            int64_t begin = view * room + counts[view];
            counts[view] += collect(rows, part, limits[view], low + first, places + begin, values + begin);
        }
    }
}
