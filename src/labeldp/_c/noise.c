/* Exact noise: uniform integers by rejection, and draws made of them.
 *
 * Words that run out are 0 from there on, and `at`, the number of words used, stays above their number. All functions
 * end soon after that, and the draw is discarded. */

#include "kernels.h"

typedef struct {
    const uint64_t *words;
    int64_t size, at;
} tape;

/* True if a word was asked for that is not there. */
static inline bool ran_out(const tape *from) { return from->at > from->size; }

/* The next word. */
static inline uint64_t next_word(tape *from) {
    int64_t place = from->at++;
    return place < from->size ? from->words[place] : 0;
}

/* A uniform integer below a bound, by rejection. */
static inline int64_t uniform(tape *from, int64_t bound) {
    uint64_t mask = 1;
    while (mask < (uint64_t)bound) mask <<= 1;
    mask--;
    for (;;) {
        uint64_t word = next_word(from) & mask;
        if (word < (uint64_t)bound) return (int64_t)word;
    }
}

/* True with probability exp(-top / parts) for a top of at most `parts`; false where words run out first. */
static bool part(tape *from, int64_t top, int64_t parts) {
    int64_t turn = 1;
    while (uniform(from, parts * turn) < top) {
        if (ran_out(from)) return false;
        turn++;
    }
    return turn & 1;
}

/* True with probability exp(-top / parts) for any top; false where words run out. */
static bool survives(tape *from, int64_t top, int64_t parts) {
    for (; top > parts; top -= parts) {
        if (!part(from, parts, parts)) return false;
    }
    return part(from, top, parts);
}

/* The negative of a number, or the number; beyond 64 bits both wrap around. */
static inline int64_t with_sign(uint64_t size, bool negative) { return (int64_t)(negative ? -size : size); }

/* One draw of `discrete_laplace`. */
static int64_t one_laplace(tape *from, int64_t rate, int64_t parts) {
    while (!ran_out(from)) {
        int64_t low = uniform(from, parts);
        if (!part(from, low, parts)) continue;
        uint64_t high = 0;
        while (part(from, parts, parts)) high++;
        bool negative = uniform(from, 2) == 1;
        uint64_t size = ((uint64_t)low + (uint64_t)parts * high) / (uint64_t)rate;
        if (!(negative && size == 0)) return with_sign(size, negative); /* zero would count twice */
    }
    return 0;
}

/* Draw until all values are filled or words run out; `progress` becomes the number of values and of words used. */
KERNEL void laplace(int64_t w, int64_t n, const uint64_t *words, int64_t *values, int64_t *progress, int64_t rate,
                    int64_t parts) {
    tape from = {words, w, 0};
    progress[1] = 0;
    while (progress[0] < n) {
        values[progress[0]] = one_laplace(&from, rate, parts);
        if (ran_out(&from)) break;
        progress[0]++;
        progress[1] = from.at;
    }
}

/* True with probability exp(-gap rate / parts); in steps whose products fit into a word. */
static bool close_enough(tape *from, int64_t gap, int64_t rate, int64_t parts) {
    int64_t whole = rate / parts, rest = rate % parts;
    int64_t longest = ((int64_t)1 << 62) / (rest > 1 ? rest : 1);
    if (longest > (int64_t)1 << 50) longest = (int64_t)1 << 50;
    while (gap > 0) {
        int64_t step = gap < longest ? gap : longest;
        if (!survives(from, step * rest, parts)) return false;
        for (uint64_t turn = 0; turn < (uint64_t)step * (uint64_t)whole; turn++) {
            if (!part(from, parts, parts)) return false;
        }
        gap -= step;
    }
    return true;
}

/* One draw of `noisy_best`. */
static int64_t one_best(tape *from, int64_t rate, int64_t parts, int64_t k, const int64_t *scores, bool again,
                        int64_t *order) {
    int64_t most = scores[0], left = k;
    for (int64_t j = 0; j < k; j++) {
        order[j] = j;
        if (scores[j] > most) most = scores[j];
    }
    while (!ran_out(from)) {
        int64_t place = uniform(from, left), entry = order[place];
        if (close_enough(from, most - scores[entry], rate, parts)) return entry;
        if (!again) { /* the best entry is always accepted, so some are left */
            left--;
            order[place] = order[left];
            order[left] = entry;
        }
    }
    return 0;
}

/* As `laplace`; `order` is room for the entries of one row. */
KERNEL void best(int64_t w, int64_t n, int64_t k, const uint64_t *words, int64_t *values, int64_t *progress,
                 int64_t rate, int64_t parts, const int64_t *scores, bool again, int64_t *order) {
    tape from = {words, w, 0};
    progress[1] = 0;
    while (progress[0] < n) {
        values[progress[0]] = one_best(&from, rate, parts, k, scores + progress[0] * k, again, order);
        if (ran_out(&from)) break;
        progress[0]++;
        progress[1] = from.at;
    }
}

/* The digits of a number after its whole part, each a word, as far as they were drawn. */
typedef struct {
    uint64_t *words;
    int64_t size;
} fraction;

/* True with probability x = (whole + 0.digits) / deviation: compares a uniform number with x.
 *
 * The digits of x are words, drawn when another number first agrees with x so far. */
static bool is_inside(tape *from, int64_t deviation, int64_t whole, fraction *digits) {
    int64_t number = uniform(from, deviation);
    if (number != whole) return number < whole;
    for (int64_t place = 0; !ran_out(from); place++) {
        if (place == digits->size) digits->words[digits->size++] = next_word(from);
        uint64_t word = next_word(from);
        if (word != digits->words[place]) return word < digits->words[place];
    }
    return false;
}

/* `is_inside`, for a number whose first digit is given: true, false, or -1 where words ran out. `used` becomes the
 * number of words, and `digits` is room for one more than there are words. */
KERNEL int64_t inside(int64_t w, int64_t r, const uint64_t *words, int64_t deviation, int64_t whole, uint64_t *digits,
                      int64_t *used) {
    (void)r;
    tape from = {words, w, 0};
    fraction first = {digits, 1};
    bool result = is_inside(&from, deviation, whole, &first);
    *used = from.at;
    return ran_out(&from) ? -1 : result;
}

/* True with probability exp(-x^power / power), for the x of `is_inside` and a power of 1 or 2. */
static bool fades(tape *from, int64_t deviation, int64_t whole, fraction *digits, int64_t power) {
    for (int64_t turn = 1; !ran_out(from); turn++) {
        bool success = uniform(from, power * turn) == 0;
        for (int64_t time = 0; success && time < power; time++) success = is_inside(from, deviation, whole, digits);
        if (!success) return turn & 1;
    }
    return false;
}

/* The absolute value of one draw of `rounded_normal`. */
static uint64_t one_size(tape *from, int64_t deviation, uint64_t *room) {
    while (!ran_out(from)) {
        int64_t k = 0;
        while (part(from, 1, 2)) k++;
        bool accepted = true;
        for (int64_t time = 0; accepted && time < k * (k - 1); time++) accepted = part(from, 1, 2);
        if (!accepted) continue;
        int64_t whole = uniform(from, deviation);
        room[0] = next_word(from);
        fraction digits = {room, 1};
        for (int64_t time = 0; accepted && time < k; time++) accepted = fades(from, deviation, whole, &digits, 1);
        if (accepted && fades(from, deviation, whole, &digits, 2)) {
            return (uint64_t)deviation * (uint64_t)k + (uint64_t)whole + (room[0] >> 63);
        }
    }
    return 0;
}

/* As `laplace`; `digits` is room for more words than there are. */
KERNEL void normal(int64_t w, int64_t n, int64_t r, const uint64_t *words, int64_t *values, int64_t *progress,
                   int64_t deviation, uint64_t *digits) {
    (void)r;
    tape from = {words, w, 0};
    progress[1] = 0;
    while (progress[0] < n) {
        uint64_t size = one_size(&from, deviation, digits);
        values[progress[0]] = with_sign(size, uniform(&from, 2) == 1);
        if (ran_out(&from)) break;
        progress[0]++;
        progress[1] = from.at;
    }
}
