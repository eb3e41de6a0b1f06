/* Draws of sets of classes, packed into bits, and their places. */

#include "choices.h"

/* Copy the sets of some numbers out of the lists of the rows' classes. */
PART void copy_sets(int64_t n, int64_t m, int64_t b, const int32_t *codes, const int32_t *numbers,
                             const uint8_t *sets, uint8_t *out) {
    for (int64_t i = 0; i < n; i++) memcpy(out + i * b, sets + (codes[i] * m + numbers[i]) * b, (size_t)b);
}

/* Subsets of a fixed size that are few: one word chooses from the list of a class, `inside` sets with it before others.
 *
 * In the lists of all classes the other members of a number's set have the same ranks among the other classes. False if
 * a row ran out of words, which practically never happens (`words_for_picks`). */
WIDE KERNEL bool draw_listed_subset(int64_t n, int64_t w, int64_t k, int64_t m, int64_t b, const int32_t *codes,
                                    const uint64_t *words, uint64_t member, uint64_t rest, int64_t inside,
                                    const uint8_t *sets, uint8_t *out) {
    (void)k;
    choice of = choice_of(member, rest, inside, m - inside);
    int32_t numbers[ROWS_AT_ONCE];
    for (int64_t low = 0; low < n; low += ROWS_AT_ONCE) {
        int64_t size = n - low < ROWS_AT_ONCE ? n - low : ROWS_AT_ONCE;
        if (!choose(&of, size, w, words + low * w, numbers)) return false;
        if (b == 1) {
            copy_sets(size, m, 1, codes + low, numbers, sets, out + low);
        } else if (b == 2) {
            copy_sets(size, m, 2, codes + low, numbers, sets, out + 2 * low);
        } else {
            copy_sets(size, m, b, codes + low, numbers, sets, out + b * low);
        }
    }
    return true;
}

/* Subsets of a fixed size: the first word decides membership of the true class, the others choose the rest.
 *
 * The rest is a uniform subset of the other classes by Floyd's algorithm (Bentley and Floyd 1987). The number of halves
 * of words that it uses depends on the words alone, not on the label. False if a row ran out of words, which
 * practically never happens (`words_for_picks`). */
KERNEL bool draw_subset(int64_t n, int64_t w, int64_t b, const int32_t *codes, const uint64_t *words, int64_t classes,
                        int64_t size, uint64_t member, uint8_t *out) {
    memset(out, 0, (size_t)(n * b));
    for (int64_t i = 0; i < n; i++) {
        uint8_t *set = out + i * b;
        int64_t y = codes[i];
        bool inside = words[i * w] < member;
        int64_t others = inside ? size - 1 : size;
        halves from = {words + i * w, 2, 2 * w};
        for (int64_t j = classes - 1 - others; j < classes - 1; j++) {
            int64_t pick = uniform_below((uint64_t)(j + 1), &from);
            if (pick < 0) return false;
            pick += pick >= y;
            if (holds(set, pick)) pick = j + (j >= y);
            add(set, pick);
        }
        if (inside) add(set, y);
    }
    return true;
}

/* Subsets of a row's candidates, drawn like those of `draw_subset`, with the candidates in class order.
 *
 * The first half word picks a stand-in candidate for a label outside the candidates; it is drawn for every row. `size`
 * and `member` are indexed by the number of candidates. `members` is room for the candidates of one row. False if a row
 * ran out of words. */
WIDE KERNEL bool draw_candidate_subset(int64_t n, int64_t w, int64_t b, int64_t s, int64_t k, const int32_t *codes,
                                       const uint64_t *words, const uint8_t *candidates, const int64_t *size,
                                       const uint64_t *member, int64_t *members, uint8_t *out) {
    (void)s;
    memset(out, 0, (size_t)(n * b));
    for (int64_t i = 0; i < n; i++) {
        uint8_t *set = out + i * b;
        const uint8_t *among = candidates + i * b;
        int64_t y = codes[i], m = 0, place = -1;
        for (int64_t low = 0; low < k; low += 64) {
            int64_t end = k - low < 64 ? k - low : 64, before = m;
            uint64_t bits = bits_from(among, b, low >> 3);
            for (int64_t j = 0; j < end; j++) {
                members[m] = low + j;
                m += (int64_t)(bits >> j & 1);
            }
            if (y >> 6 == low >> 6) place = before + __builtin_popcountll(bits & (((uint64_t)1 << (y & 63)) - 1));
        }
        if (!holds(among, y)) place = -1;
        if (m == 1) {
            add(set, members[0]);
            continue;
        }
        bool contains = words[i * w] < member[m];
        int64_t others = contains ? size[m] - 1 : size[m];
        halves from = {words + i * w, 2, 2 * w};
        int64_t stand_in = uniform_below((uint64_t)m, &from);
        if (stand_in < 0) return false;
        if (place < 0) place = stand_in;
        for (int64_t j = m - 1 - others; j < m - 1; j++) {
            int64_t pick = uniform_below((uint64_t)(j + 1), &from);
            if (pick < 0) return false;
            int64_t chosen = members[pick + (pick >= place)];
            if (holds(set, chosen)) chosen = members[j + (j >= place)];
            add(set, chosen);
        }
        if (contains) add(set, members[place]);
    }
    return true;
}

/* Randomized response on the groups of a row; `keep` and `other` are indexed by the number of groups.
 *
 * A group begins at each class in `firsts`. With one group no word is needed. */
KERNEL void draw_coarsening(int64_t n, int64_t w, int64_t b, int64_t s, const int32_t *codes, const uint64_t *words,
                            int64_t classes, const uint8_t *firsts, const int64_t *sizes, const uint64_t *keep,
                            const uint64_t *other, uint8_t *out) {
    (void)s;
    memset(out, 0, (size_t)(n * b));
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *starts = firsts + i * b;
        uint64_t u = words[i * w];
        int64_t m = sizes[i], own = -1, group = -1;
        for (int64_t j = 0; j < classes; j++) own += (int64_t)holds(starts, j) * (j <= codes[i]);
        int64_t drawn = own;
        if (m > 1 && u >= keep[m]) {
            drawn = (int64_t)((u - keep[m]) / other[m]);
            drawn += drawn >= own;
        }
        for (int64_t j = 0; j < classes; j++) {
            group += (int64_t)holds(starts, j);
            if (group == drawn) add(out + i * b, j);
        }
    }
}

/* The share of pairs of different classes that are in one group, for each row. */
KERNEL void pairs_within(int64_t n, int64_t b, const uint8_t *firsts, int64_t classes, double *out) {
    for (int64_t i = 0; i < n; i++) {
        int64_t size = 0, within = 0;
        for (int64_t j = 0; j < classes; j++) {
            size = holds(firsts + i * b, j) ? 1 : size + 1;
            within += 2 * (size - 1);
        }
        out[i] = (double)within / (double)(classes * (classes - 1));
    }
}

/* The number of classes in each packed set. */
WIDE KERNEL void set_sizes(int64_t n, int64_t b, const uint8_t *sets, int64_t *out) {
    for (int64_t i = 0; i < n; i++) {
        int64_t count = 0;
        for (int64_t j = 0; j < b; j++) count += __builtin_popcount(sets[i * b + j]);
        out[i] = count;
    }
}

/* The number of rows without a bit, or with one that stands for no class. */
PART int64_t rows_without_set(int64_t n, int64_t b, const uint8_t *sets, uint8_t beyond) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        uint8_t any = 0;
        for (int64_t j = 0; j < b; j++) any |= sets[i * b + j];
        count += (any == 0) | ((sets[i * b + b - 1] & beyond) != 0);
    }
    return count;
}

WIDE KERNEL int64_t count_no_sets(int64_t n, int64_t b, const uint8_t *sets, int64_t classes) {
    uint8_t beyond = (uint8_t)(classes & 7 ? 255 << (classes & 7) : 0);
    return b == 1 ? rows_without_set(n, 1, sets, beyond) : rows_without_set(n, b, sets, beyond);
}

/* The places of the bits of each row of bytes, lowest first, one row after the other, and where each row ends.
 *
 * There is room for one place more: each is written, and stays if its bit is set, so that nothing depends on a branch.
 */
KERNEL void bits_of(int64_t n, int64_t b, int64_t m, const uint8_t *packed, int32_t *ends, int32_t *places) {
    (void)m;
    int32_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < b; j++) {
            uint8_t byte = packed[i * b + j];
            for (int32_t bit = 0; byte && bit < 8; bit++) {
                places[count] = (int32_t)(8 * j) + bit;
                count += byte >> bit & 1;
            }
        }
        ends[i] = count;
    }
}
