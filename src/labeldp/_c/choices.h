/* Choices among outcomes by the words of a row, exactly as likely as a channel states. */

#ifndef LABELDP_CHOICES_H
#define LABELDP_CHOICES_H

#include "kernels.h"

#define ROWS_AT_ONCE 512

/* The halves of a row's words, in order: the lower half of each first. */
typedef struct {
    const uint64_t *words;
    int64_t next, size;
} halves;

/* A uniform integer below a bound of at most 2**32, or -1 if the halves run out.
 *
 * A half is mapped to [0, bound) by multiplication with the rejection that makes it uniform (Lemire 2019): of products
 * whose lower half is below 2**32 modulo the bound, which is divided only for those below the bound. The number of
 * rejections depends on the words alone. */
static inline int64_t uniform_below(uint64_t bound, halves *from) {
    while (from->next < from->size) {
        uint64_t word = from->words[from->next >> 1];
        uint64_t product = (from->next & 1 ? word >> 32 : word & UINT32_MAX) * bound, low = product & UINT32_MAX;
        from->next++;
        if (low >= bound || low >= (((uint64_t)1 << 32) - bound) % bound) return (int64_t)(product >> 32);
    }
    return -1;
}

/* Outcomes that share a range of words: `each` words for each, and 2**(64 + by) / each, rounded down, below 2**32. */
typedef struct {
    uint64_t each;
    uint32_t count, inverse, by;
} range;

/* A choice of an outcome inside by the words below `member`, and of one outside by the `rest` of them.
 *
 * In a range each outcome has as many words, and one word decides. The few words that are left over at the end of a
 * range decide for the range alone, and halves of further words pick in it: so its outcomes are exactly equally likely.
 */
typedef struct {
    uint64_t member, rest;
    range inside, outside;
} choice;

/* The range of so many words. Without an inverse, if outcomes have few words, every place in it is in doubt. */
static inline range range_of(uint64_t words, int64_t count) {
    range of = {words / (uint64_t)count, (uint32_t)count, 0, 0};
    if (of.each >> 33 == 0) return of;
    unsigned __int128 inverse = ((unsigned __int128)1 << 95) / of.each;
    for (of.by = 31; inverse >> 32; inverse >>= 1) of.by--;
    of.inverse = (uint32_t)inverse;
    return of;
}

static inline choice choice_of(uint64_t member, uint64_t rest, int64_t inside, int64_t outside) {
    choice of = {member, rest, range_of(member, inside), range_of(rest, outside)};
    return of;
}

/* The number of a row's outcome, those inside first, or -1 if its words do not suffice. */
static inline int64_t chosen(const choice *of, const uint64_t *words, int64_t w) {
    bool inside = words[0] < of->member;
    const range *in = inside ? &of->inside : &of->outside;
    uint64_t place = inside ? words[0] : words[0] - of->member;
    int64_t count = in->count, pick = in->each ? (int64_t)(place / in->each) : count;
    if (pick >= count) {
        halves from = {words, 2, 2 * w};
        pick = uniform_below(in->count, &from);
    }
    return pick < 0 || inside ? pick : pick + of->inside.count;
}

static inline uint32_t upper(uint32_t one, uint32_t other) { return (uint32_t)((uint64_t)one * other >> 32); }

/* The numbers of the outcomes of at most ROWS_AT_ONCE rows; false if the words of one do not suffice.
 *
 * The upper half t of word - member nearly always decides, and several rows are decided at a time. Words outside come
 * first in that order: with `limit` the upper half of `rest`, t < limit outside and t > limit inside. A place in its
 * range is at least r * 2**32 and below (r + 2) * 2**32, for r = t outside and r = t - limit - 1 inside. So its quotient
 * by `each` is at least r * inverse / 2**(32 + by), and below (r + 2) * (inverse + 1) / 2**(32 + by), for which it is
 * enough to add 3 to the upper half of the product. Where these differ, or there is no such outcome, as at t = limit, all
 * rows follow the definition; that depends on words alone. */
PART bool choose(const choice *of, int64_t n, int64_t w, const uint64_t *words, int32_t *out) {
    uint32_t places[ROWS_AT_ONCE], inside[ROWS_AT_ONCE], doubt = w > 1, limit = (uint32_t)(of->rest >> 32);
    range one = of->inside, other = of->outside;
    uint64_t member = of->member;
    if (w == 1) {
        for (int64_t i = 0; i < n; i++) places[i] = (uint32_t)((words[i] - member) >> 32);
        for (int64_t i = 0; i < n; i++) inside[i] = -(uint32_t)(places[i] > limit);
        for (int64_t i = 0; i < n; i++) {
            uint32_t t = places[i], in = inside[i];
            uint32_t high = upper(t - (in & (limit + 1)), (one.inverse & in) | (other.inverse & ~in));
            uint32_t by = (one.by & in) | (other.by & ~in), count = (one.count & in) | (other.count & ~in);
            uint32_t pick = high >> by, most = (high + 3) >> by;
            doubt |= (pick ^ most) | (uint32_t)(most >= count);
            out[i] = (int32_t)(pick + (one.count & ~in));
        }
    }
    for (int64_t i = 0; doubt && i < n; i++) {
        int64_t number = chosen(of, words + i * w, w);
        if (number < 0) return false;
        out[i] = (int32_t)number;
    }
    return true;
}

#endif
