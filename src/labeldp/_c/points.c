/* Draws of points of a projective space over a field of prime order q.
 *
 * A point's coordinates, from a leading 1 on, are the digits of a number in base q. Points are numbered by the number of
 * free coordinates behind the 1, then by these; `firsts` has the first point with each number of them. */

#include "choices.h"

#define MOST_COORDINATES 32 /* fewer than 2**31 points */

/* A space: n / q is upper(n, inverse) >> by for n below 2**31, since inverse * q is 2**(32 + by) and at most q more, and
 * q is at most 2**(by + 1). Numbers of digits are those of points and `steps` more for each free coordinate. */
typedef struct {
    uint32_t order, inverse, by, firsts[MOST_COORDINATES], powers[MOST_COORDINATES], steps[MOST_COORDINATES];
} space;

static space space_of(int64_t dimension, int64_t order, const int64_t *firsts) {
    space in = {(uint32_t)order, 0, 0, {0}, {1}, {1}};
    while ((uint32_t)2 << in.by < in.order) in.by++;
    in.inverse = (uint32_t)(((uint64_t)1 << (32 + in.by)) / in.order + 1);
    for (int64_t j = 1; j < dimension; j++) {
        in.firsts[j] = (uint32_t)firsts[j];
        in.powers[j] = in.powers[j - 1] * in.order;
        in.steps[j] = (in.powers[j] - in.firsts[j]) - (in.powers[j - 1] - in.firsts[j - 1]);
    }
    return in;
}

static inline uint32_t divided(const space *in, uint32_t number) { return upper(number, in->inverse) >> in->by; }

/* The digits of points. */
PART void write_digits(const space *in, int64_t n, int64_t dimension, const int32_t *points, uint32_t *digits) {
    for (int64_t i = 0; i < n; i++) digits[i] = (uint32_t)points[i] + 1;
    for (int64_t j = 1; j < dimension; j++) {
        uint32_t first = in->firsts[j], step = in->steps[j];
        for (int64_t i = 0; i < n; i++) digits[i] += step & -(uint32_t)((uint32_t)points[i] >= first);
    }
}

/* The points with digits. */
PART void write_points(const space *in, int64_t n, int64_t dimension, const uint32_t *digits, int32_t *points) {
    for (int64_t i = 0; i < n; i++) points[i] = (int32_t)digits[i] - 1;
    for (int64_t j = 1; j < dimension; j++) {
        uint32_t power = in->powers[j], step = in->steps[j];
        for (int64_t i = 0; i < n; i++) points[i] -= (int32_t)(step & -(uint32_t)(digits[i] >= power));
    }
}

/* The points of the numbers of a choice: the first `favoured` numbers are those of points orthogonal to a class's
 * point v, and the others of points that are not.
 *
 * Let v's last coordinate other than zero be at a place. All coordinates of a point u but that one are a vector p. If p
 * has a coordinate other than zero before the place, u leads with its 1 there. Orthogonal points have one coordinate at
 * the place for each such p; so p may be any point of one dimension less. The others have q - 1, each the orthogonal one
 * and g more, which p states by leading with g instead of 1. If p is zero before the place, u is orthogonal with a zero
 * there, and leads with p's 1; or it leads with a 1 there, and any coordinates may follow. So p is any vector of the
 * others, and no two have the same u.
 *
 * `normals` has for each class the digits of v before the place, q to the number of coordinates behind it, and the
 * inverse of the coordinate. All rows take the same steps. */
PART void point_rows(const space *in, int64_t n, int64_t dimension, const int32_t *codes,
                              const int32_t *normals, int32_t *numbers, int64_t favoured) {
    uint32_t digits[ROWS_AT_ONCE], heads[ROWS_AT_ONCE], tails[ROWS_AT_ONCE], powers[ROWS_AT_ONCE], labels[ROWS_AT_ONCE];
    uint32_t totals[ROWS_AT_ONCE], leads[ROWS_AT_ONCE], beside[ROWS_AT_ONCE], weights[ROWS_AT_ONCE], q = in->order;
    write_digits(in, n, dimension, numbers, digits);
    for (int64_t i = 0; i < n; i++) {
        int32_t power = normals[3 * codes[i] + 1];
        uint32_t inside = -(uint32_t)(numbers[i] < favoured);
        uint32_t p = (digits[i] & inside) | (((uint32_t)numbers[i] - (uint32_t)favoured) & ~inside);
        int32_t head = (int32_t)((double)(int32_t)p / (double)power); /* exact, as both are below 2**31 */
        powers[i] = (uint32_t)power;
        digits[i] = heads[i] = (uint32_t)head;
        tails[i] = p - (uint32_t)head * (uint32_t)power;
        labels[i] = (uint32_t)normals[3 * codes[i]];
        totals[i] = leads[i] = beside[i] = weights[i] = 0;
    }
    for (int64_t j = 0; j < dimension - 1; j++) {
        uint32_t weight = in->powers[j];
        for (int64_t i = 0; i < n; i++) {
            uint32_t left = divided(in, digits[i]), more = divided(in, labels[i]), here = -(uint32_t)(digits[i] != 0);
            uint32_t digit = digits[i] - left * q, other = labels[i] - more * q;
            totals[i] += digit * other;
            leads[i] = (digit & here) | (leads[i] & ~here);
            beside[i] = (other & here) | (beside[i] & ~here);
            weights[i] = (weight & here) | (weights[i] & ~here);
            digits[i] = left;
            labels[i] = more;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        uint32_t outside = -(uint32_t)(numbers[i] >= favoured), more = outside & (leads[i] - (leads[i] != 0));
        uint32_t head = heads[i] - more * weights[i], total = totals[i] - more * beside[i];
        uint32_t factor = (uint32_t)normals[3 * codes[i] + 2];
        uint32_t sum = (q - (total - divided(in, total) * q)) * factor + (outside & (more + 1));
        digits[i] = (head * q + (sum - divided(in, sum) * q)) * powers[i] + tails[i];
    }
    write_points(in, n, dimension, digits, numbers);
}

/* Points orthogonal to that of the label by the words below `member`, else points that are not. False if a row ran out
 * of words. */
WIDE KERNEL bool draw_points(int64_t n, int64_t w, int64_t t, int64_t k, const int32_t *codes, const uint64_t *words,
                             int64_t order, const int64_t *firsts, const int32_t *normals, uint64_t member,
                             uint64_t rest, int64_t favoured, int64_t others, int32_t *out) {
    (void)k;
    if (t > MOST_COORDINATES) return false;
    choice of = choice_of(member, rest, favoured, others);
    space in = space_of(t, order, firsts);
    for (int64_t low = 0; low < n; low += ROWS_AT_ONCE) {
        int64_t size = n - low < ROWS_AT_ONCE ? n - low : ROWS_AT_ONCE;
        if (!choose(&of, size, w, words + low * w, out + low)) return false;
        point_rows(&in, size, t, codes + low, normals, out + low, favoured);
    }
    return true;
}

/* The classes, in columns, whose points are orthogonal to each released one.
 *
 * Points come in the order of their free coordinates, as an odometer: one step adds the last coordinate to the product,
 * and each carry the one before, since q times a coordinate is zero. */
KERNEL bool write_masks(int64_t n, int64_t t, int64_t k, const int32_t *released, int64_t order, const int64_t *firsts,
                        bool *out) {
    int64_t vector[MOST_COORDINATES];
    if (t > MOST_COORDINATES) return false;
    space in = space_of(t, order, firsts);
    for (int64_t i = 0; i < n; i++) {
        uint32_t digits;
        write_digits(&in, 1, t, released + i, &digits);
        for (int64_t j = t - 1; j >= 0; j--, digits /= in.order) vector[j] = digits % in.order;
        int64_t label = 0, size = 1;
        for (int64_t free = 0; free < t; free++, size *= order) {
            int64_t value = vector[t - 1 - free];
            for (int64_t count = 1; label < k && count <= size; count++) {
                out[i * k + label++] = value == 0;
                int64_t place = t - 1, carry = count;
                value = (value + vector[place]) % order;
                while (carry % order == 0 && place > t - free) {
                    carry /= order;
                    value = (value + vector[--place]) % order;
                }
            }
        }
    }
    return true;
}
