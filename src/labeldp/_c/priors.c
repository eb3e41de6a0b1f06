/* Choices that follow from public class probabilities, and randomized response on a row's candidates. */

#include "kernels.h"

/* The place of a bit of a rank in a word, whose bits are in its lower 2 * half ones. */
PART int64_t place_of(uint64_t bits, int64_t rank, int64_t half) {
    int64_t place = 0;
    for (; half > 0; half >>= 1) {
        int64_t below = __builtin_popcountll(bits & (((uint64_t)1 << half) - 1)), up = -(int64_t)(rank >= below);
        rank -= below & up;
        bits >>= half & up;
        place += half & up;
    }
    return place;
}

/* The class of a rank in a packed set, skipping one class; 64 classes at a time. */
PART int64_t nth(const uint8_t *set, int64_t bytes, int64_t rank, int64_t skip) {
    for (int64_t first = 0; first < bytes; first += 8) {
        uint64_t bits = bits_from(set, bytes, first) & ~((uint64_t)(skip >> 6 == first >> 3) << (skip & 63));
        int64_t count = bytes <= 8 ? rank + 1 : __builtin_popcountll(bits);
        if (rank < count) return 8 * first + place_of(bits, rank, bytes == 1 ? 4 : bytes == 2 ? 8 : 32);
        rank -= count;
    }
    return -1;
}

/* The number of classes in a packed set. */
PART int64_t size_of(const uint8_t *set, int64_t bytes) {
    int64_t count = 0;
    for (int64_t byte = 0; byte < bytes; byte += 8) count += __builtin_popcountll(bits_from(set, bytes, byte));
    return count;
}

/* Randomized response on the candidates of rows. `table`, if there is one, has the class of each rank in each set of
 * up to eight. */
PART void draw_rows(int64_t n, int64_t w, int64_t b, int64_t s, const int32_t *codes, const uint64_t *words,
                    const uint8_t *candidates, const uint64_t *laws, const uint8_t *table, int32_t *out) {
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *set = candidates + i * b;
        int64_t m = size_of(set, b), several = m > 1, code = codes[i], inside = several & (int64_t)holds(set, code);
        const uint64_t *law = laws + 3 * (inside * s + m);
        uint64_t u = words[i * w], bound = law[0], width = law[1], place = u - bound;
        int64_t own = -(int64_t)(u < bound);
        int64_t rank = (int64_t)(((unsigned __int128)place * law[2]) >> 64); /* the quotient by `width`, or one less */
        rank += place - (uint64_t)rank * width >= width;
        rank &= ~own & -several;
        int64_t drawn = table ? table[8 * (*set & ~(inside << (code & 7))) + rank] : nth(set, b, rank, inside ? code : -1);
        out[i] = (int32_t)((code & own) | (drawn & ~own));
    }
}

/* RRTop-k: randomized response on a row's candidates; a label outside them is replaced by a uniform candidate.
 *
 * `laws` has, for labels outside and then inside, by the number of candidates: the words of the label itself, those of
 * each other candidate, and (2**64 - 1) / those, rounded down. The upper word of a product with that inverse is the
 * quotient or one less: v (2**64 / c - 1) / 2**64 > v / c - 1. */
WIDE KERNEL void draw_candidates(int64_t n, int64_t w, int64_t b, int64_t s, const int32_t *codes,
                                 const uint64_t *words, const uint8_t *candidates, const uint64_t *laws,
                                 int32_t *out) {
    if (b == 1) {
        uint8_t table[256 * 8] = {0};
        for (int64_t set = 0; set < 256; set++) {
            for (int64_t j = 0, rank = 0; j < 8; j++) {
                if (set >> j & 1) table[8 * set + rank++] = (uint8_t)j;
            }
        }
        draw_rows(n, w, 1, s, codes, words, candidates, laws, table, out);
    } else if (b == 2) {
        draw_rows(n, w, 2, s, codes, words, candidates, laws, NULL, out);
    } else {
        draw_rows(n, w, b, s, codes, words, candidates, laws, NULL, out);
    }
}

#define ROWS 4 /* or numbers that a processor computes at a time */
#define LANES (2 * ROWS)

/* Several numbers, and a condition of each: all bits or none. */
typedef double __attribute__((vector_size(8 * ROWS))) numbers;
typedef int64_t __attribute__((vector_size(8 * ROWS))) conditions;

/* One number where a condition is true, another elsewhere. A macro, since compilers differ in
 * how they pass these types. */
#define WHERE(met, one, other) (numbers)(((met) & (conditions)(one)) | (~(met) & (conditions)(other)))

/* Numbers of an array, which may begin anywhere in it. */
typedef double __attribute__((vector_size(8 * ROWS), aligned(8), may_alias)) stored;
#define LOADED(from) (numbers)(*(const stored *)(from))

/* The sum of probabilities, in an order that a processor adds several at a time in. */
PART double sum_of(int64_t k, const double *row) {
    int64_t whole = k - k % LANES;
    double total = 0.0;
    for (int64_t j = whole; j < k; j++) total += row[j];
    if (!whole) return total;
    numbers low = {0.0}, high = {0.0};
    for (int64_t j = 0; j < whole; j += LANES) {
        low += LOADED(row + j);
        high += LOADED(row + j + ROWS);
    }
    for (int lane = 0; lane < ROWS; lane++) total += low[lane];
    for (int lane = 0; lane < ROWS; lane++) total += high[lane];
    return total;
}

/* The largest probability. */
PART double largest_of(int64_t k, const double *row) {
    numbers low = {0.0}, high = {0.0};
    double top = 0.0;
    for (int64_t j = k - k % LANES; j < k; j++) top = row[j] > top ? row[j] : top;
    for (int64_t j = 0; j + LANES <= k; j += LANES) {
        numbers one = LOADED(row + j), other = LOADED(row + j + ROWS);
        low = WHERE(one > low, one, low);
        high = WHERE(other > high, other, high);
    }
    low = WHERE(high > low, high, low);
    for (int lane = 0; lane < ROWS; lane++) top = low[lane] > top ? low[lane] : top;
    return top;
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

#define AT_ONCE 64 /* groups of probabilities, of which those without one above a value are skipped */

/* The same of a long row, of which few are above the value, and their places. */
PART int64_t find_above(int64_t k, const double *row, double value, double *to, int64_t *places) {
    int64_t count = 0, j = 0, groups[AT_ONCE];
    while (j + LANES <= k) {
        int64_t some = 0;
        for (int64_t end = j + AT_ONCE * LANES; j < end && j + LANES <= k; j += LANES) {
            conditions above = (LOADED(row + j) > value) | (LOADED(row + j + ROWS) > value);
            groups[some] = j;
            some += (above[0] | above[1] | above[2] | above[3]) != 0;
        }
        for (int64_t group = 0; group < some; group++) {
            for (int64_t at = groups[group]; at < groups[group] + LANES; at++) {
                to[count] = row[at];
                places[count] = at;
                count += row[at] > value;
            }
        }
    }
    for (; j < k; j++) {
        if (row[j] > value) to[count] = row[j], places[count++] = j;
    }
    return count;
}

#define MOST_SIDE_BY_SIDE 32 /* classes of rows that are side by side */

/* The probabilities of up to ROWS rows, side by side; the last row takes the places of those that are not there. */
PART void put_side_by_side(int64_t n, int64_t k, const double *prior, numbers *to) {
    const double *rows[ROWS];
    for (int64_t lane = 0; lane < ROWS; lane++) rows[lane] = prior + (lane < n ? lane : n - 1) * k;
    for (int64_t j = 0; j < k; j++) to[j] = (numbers){rows[0][j], rows[1][j], rows[2][j], rows[3][j]};
}

/* The best candidates of up to ROWS rows of few classes, by the steps for one row, in the same order. */
PART void candidates_of_rows(int64_t n, int64_t k, int64_t b, const double *prior, double gain, double *room,
                             uint8_t *out, double *mass) {
    numbers p[MOST_SIDE_BY_SIDE], none = {0.0}, total = none, bar = none - 1.0, count = none + (double)k;
    int64_t whole = k - k % LANES, more = 1;
    put_side_by_side(n, k, prior, p);
    for (int64_t j = whole; j < k; j++) total += p[j];
    for (int64_t lane = 0; lane < LANES && whole; lane++) {
        numbers part = none;
        for (int64_t j = lane; j < whole; j += LANES) part += p[j];
        total += part;
    }
    while (more) {
        numbers value = total / (gain + count), left = none, sum = none;
        for (int64_t j = 0; j < k; j++) {
            conditions above = p[j] > value;
            sum += WHERE(above, p[j], none);
            left += WHERE(above, none + 1.0, none);
        }
        conditions fewer = (left < count) & (left > none);
        more = 0;
        for (int64_t lane = 0; lane < ROWS; lane++) more |= fewer[lane];
        for (int64_t lane = 0; k > LANES && lane < ROWS; lane++) {
            if (!fewer[lane] || left[lane] <= LANES) continue; /* they were added as one row's are */
            const double *row = prior + (lane < n ? lane : n - 1) * k;
            sum[lane] = sum_of(keep_above(k, row, value[lane], room), room);
        }
        bar = WHERE(fewer, value, bar);
        count = WHERE(fewer, left, count);
        total = WHERE(fewer, sum, total);
    }
    for (int64_t byte = 0; byte < b; byte++) {
        conditions bits = {0};
        for (int64_t j = 8 * byte; j < k && j < 8 * byte + 8; j++) bits |= (p[j] > bar) & (int64_t)1 << (j & 7);
        for (int64_t lane = 0; lane < n; lane++) out[lane * b + byte] = (uint8_t)bits[lane];
    }
    for (int64_t lane = 0; lane < n; lane++) mass[lane] = total[lane];
}

/* The candidates that maximise sum_A prior / (gain + |A|), gain = exp(epsilon) - 1, and their mass.
 *
 * The best set is {j : prior_j > value} with `value` the maximum itself, and iterating from the value of any set climbs
 * to it (Dinkelbach 1967): here the full set or the likeliest class alone. Equal priors are all in or all out; at a tie
 * in value the smaller set is taken. `room` and `places` have those for one row. */
WIDE KERNEL void best_candidates(int64_t n, int64_t k, int64_t b, const double *prior, double gain, double *room,
                                 int64_t *places, uint8_t *out, double *mass) {
    int64_t first = 0;
    for (; k == 2 && first + ROWS <= n; first += ROWS) { /* sizes that a compiler knows */
        candidates_of_rows(ROWS, 2, 1, prior + first * 2, gain, room, out + first, mass + first);
    }
    for (int64_t i = first; k <= MOST_SIDE_BY_SIDE && i < n; i += ROWS) {
        int64_t size = n - i < ROWS ? n - i : ROWS;
        candidates_of_rows(size, k, b, prior + i * k, gain, room, out + i * b, mass + i);
    }
    for (int64_t i = 0; k > MOST_SIDE_BY_SIDE && i < n; i++) {
        const double *row = prior + i * k;
        double total = sum_of(k, row), top = largest_of(k, row), alone = top / (gain + 1.0);
        double value = total / (gain + (double)k), bar = -1.0;
        if (alone > value && alone < top) value = alone;
        int64_t found = find_above(k, row, value, room, places), count = k, left = found;
        while (left < count && left > 0) {
            bar = value;
            count = left;
            total = sum_of(count, room);
            value = total / (gain + (double)count);
            left = keep_above(count, room, value, room);
        }
        memset(out + i * b, 0, (size_t)b);
        if (bar < 0.0) {
            for (int64_t j = 0; j < k; j++) add(out + i * b, j);
        }
        for (int64_t place = 0; bar >= 0.0 && place < found; place++) {
            if (row[places[place]] > bar) add(out + i * b, places[place]);
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

/* The best sets of up to ROWS rows of few classes, by the steps for one row, in the same order. */
PART void sets_of_rows(int64_t n, int64_t k, int64_t b, const double *prior, const double *values, uint8_t *out,
                       double *mass) {
    numbers p[MOST_SIDE_BY_SIDE], sorted[MOST_SIDE_BY_SIDE], none = {0.0}, total = none, squares = none;
    numbers best = none - 1.0, limit = none, most = none, ties = none, one = none + 1.0;
    put_side_by_side(n, k, prior, p);
    for (int64_t j = 0; j < k; j++) { /* insertion, in which each step orders two */
        numbers value = p[j];
        for (int64_t at = 0; at < j; at++) {
            conditions larger = value > sorted[at];
            numbers smaller = WHERE(larger, sorted[at], value);
            sorted[at] = WHERE(larger, value, sorted[at]);
            value = smaller;
        }
        sorted[j] = value;
    }
    for (int64_t m = 0; m < k; m++) {
        total += sorted[m];
        squares += sorted[m] * sorted[m];
        numbers value = values[m] * (total * total - squares);
        conditions better = value > best;
        best = WHERE(better, value, best);
        limit = WHERE(better, sorted[m], limit);
        most = WHERE(better, total, most);
        ties = WHERE(better, none + (double)(m + 1), ties);
    }
    for (int64_t j = 0; j < k; j++) ties -= WHERE(p[j] > limit, one, none);
    for (int64_t byte = 0; byte < b; byte++) {
        conditions bits = {0};
        for (int64_t j = 8 * byte; j < k && j < 8 * byte + 8; j++) {
            conditions tie = (p[j] == limit) & (ties > none);
            ties -= WHERE(tie, one, none);
            bits |= ((p[j] > limit) | tie) & (int64_t)1 << (j & 7);
        }
        for (int64_t lane = 0; lane < n; lane++) out[lane * b + byte] = (uint8_t)bits[lane];
    }
    for (int64_t lane = 0; lane < n; lane++) mass[lane] = most[lane];
}

#define BUCKETS 256
#define BUCKET_BITS 48 /* sixteen buckets for each power of two */

/* The probabilities in a range: their number, sum and sum of squares, and the place of the next, the largest first. */
typedef struct {
    int64_t count, next;
    double total, squares;
} bucket;

static inline uint64_t bits_in(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The bucket of a probability, the largest ones first; the last has all that are much smaller. */
static inline uint64_t bucket_of(double value, uint64_t top) {
    uint64_t place = (top - bits_in(value)) >> BUCKET_BITS;
    return place < BUCKETS ? place : BUCKETS - 1;
}

/* What all probabilities of a bucket and of larger ones exceed. */
static double below_bucket(int64_t place, uint64_t top) {
    uint64_t bits = top - ((uint64_t)(place + 1) << BUCKET_BITS);
    double value;
    memcpy(&value, &bits, sizeof value);
    return place < BUCKETS - 1 ? value : -1.0;
}

/* A set: probabilities above a limit, and so many of the first that are equal to it; its value and its mass. */
typedef struct {
    double value, limit, mass;
    int64_t ties;
} best_set;

/* The bits of up to eight probabilities above a limit. */
PART unsigned above_of(int64_t k, const double *row, double limit) {
    unsigned bits = 0;
    for (int64_t j = 0; k < LANES && j < k; j++) bits |= (unsigned)(row[j] > limit) << j;
    if (k < LANES) return bits;
    conditions low = (LOADED(row) > limit) & (conditions){1, 2, 4, 8};
    conditions high = (LOADED(row + ROWS) > limit) & (conditions){16, 32, 64, 128};
    low |= high;
    return (unsigned)(low[0] | low[1] | low[2] | low[3]);
}

#define CLOSE 1e-9 /* more than sums in another order differ by */

/* The best set of a row of many classes, whose ends of buckets are compared first.
 *
 * The more classes, the more pairs: inside a bucket no set has more than its end. So its probabilities are sorted where
 * those pairs might be worth more than the best set. */
static best_set set_of(int64_t k, const double *row, const double *values, const double *ahead, double *room) {
    bucket buckets[BUCKETS] = {{0, 0, 0.0, 0.0}};
    uint64_t top = bits_in(largest_of(k, row));
    best_set best = {-1.0, 0.0, 0.0, 0};
    for (int64_t j = 0; j < k; j++) {
        bucket *in = buckets + bucket_of(row[j], top);
        in->count++;
        in->total += row[j];
        in->squares += row[j] * row[j];
    }
    double total = 0.0, squares = 0.0;
    for (int64_t place = 0, m = 0; place < BUCKETS; place++) {
        bucket *in = buckets + place;
        in->next = m;
        if (in->count == 0) continue;
        m += in->count;
        total += in->total;
        squares += in->squares;
        double value = values[m - 1] * (total * total - squares);
        if (value > best.value) best = (best_set){value, below_bucket(place, top), total, 0};
    }
    total = squares = 0.0;
    bool sorted = false;
    for (int64_t place = 0, m = 0; place < BUCKETS && m < k; place++) {
        const bucket *in = buckets + place;
        double sum = total + in->total, sum_of_squares = squares + in->squares;
        double most = ahead[m] * (sum * sum - sum_of_squares);
        if (in->count > 1 && most * (1.0 + CLOSE) + CLOSE * CLOSE > best.value) {
            for (int64_t j = 0; !sorted && j < k; j++) room[buckets[bucket_of(row[j], top)].next++] = row[j];
            sorted = true;
            sort_falling(in->count, room + m, room + k);
            for (int64_t i = 0; i < in->count - 1; i++) {
                double p = room[m + i];
                total += p;
                squares += p * p;
                double value = values[m + i] * (total * total - squares);
                if (value > best.value) best = (best_set){value, p, total, m + i + 1};
            }
        }
        m += in->count;
        total = sum;
        squares = sum_of_squares;
    }
    return best;
}

/* The m most likely classes, m maximising values[m - 1] ((sum p)**2 - sum p**2) over them, and their mass.
 *
 * Of equal probabilities those of the first classes are in. `ahead` has the largest value from each number of classes
 * on. */
WIDE KERNEL void best_subsets(int64_t n, int64_t k, int64_t b, const double *prior, const double *values,
                              const double *ahead, double *room, uint8_t *out, double *mass) {
    int64_t first = 0;
    for (; k == 2 && first + ROWS <= n; first += ROWS) { /* sizes that a compiler knows */
        sets_of_rows(ROWS, 2, 1, prior + first * 2, values, out + first, mass + first);
    }
    for (int64_t i = first; k <= MOST_SIDE_BY_SIDE && i < n; i += ROWS) {
        int64_t size = n - i < ROWS ? n - i : ROWS;
        sets_of_rows(size, k, b, prior + i * k, values, out + i * b, mass + i);
    }
    for (int64_t i = 0; k > MOST_SIDE_BY_SIDE && i < n; i++) {
        const double *row = prior + i * k;
        best_set best = set_of(k, row, values, ahead, room);
        int64_t ties = best.ties;
        for (int64_t byte = 0; byte < b; byte++) {
            unsigned bits = above_of(k - 8 * byte, row + 8 * byte, best.limit);
            out[i * b + byte] = (uint8_t)bits;
            if (best.ties) ties -= __builtin_popcount(bits);
        }
        for (int64_t j = 0; ties > 0 && j < k; j++) {
            if (row[j] != best.limit) continue;
            add(out + i * b, j);
            ties--;
        }
        mass[i] = best.mass;
    }
}

#define ENTRIES_AT_ONCE 2048

/* The number of rows that do not sum to one. */
PART int64_t rows_off(int64_t n, int64_t k, const double *rows, double tolerance) {
    int64_t off = 0;
    for (int64_t i = 0; i < n; i++) off += !(fabs(sum_of(k, rows + i * k) - 1.0) <= tolerance);
    return off;
}

/* Copy rows of probabilities; the first that is not a distribution, or -1. NaN counts as invalid. */
WIDE KERNEL int64_t copy_prior(int64_t n, int64_t k, const double *prior, double tolerance, double *out) {
    int64_t rows = k < ENTRIES_AT_ONCE && k > 0 ? ENTRIES_AT_ONCE / k : 1;
    for (int64_t low = 0; low < n; low += rows) {
        int64_t size = n - low < rows ? n - low : rows, negative = 0;
        const double *copied = out + low * k; /* what is checked is the copy */
        memcpy(out + low * k, prior + low * k, (size_t)(size * k) * sizeof *copied);
        for (int64_t j = 0; j < size * k; j++) negative += !(copied[j] >= 0.0);
        int64_t off = k == 2 ? rows_off(size, 2, copied, tolerance) : rows_off(size, k, copied, tolerance);
        for (int64_t i = 0; (negative || off) && i < size; i++) {
            const double *row = copied + i * k;
            int64_t bad = !(fabs(sum_of(k, row) - 1.0) <= tolerance);
            for (int64_t j = 0; j < k; j++) bad += !(row[j] >= 0.0);
            if (bad) return low + i;
        }
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
