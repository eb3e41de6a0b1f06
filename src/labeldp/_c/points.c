/* Draws of points of a projective space over a field of prime order q. */

#include "kernels.h"

#define MOST_COORDINATES 64 /* 2**64 points are more than there are classes */

/* The digits of a number in base q, most significant first. */
static void write_digits(int64_t *vector, int64_t number, int64_t order, int64_t dimension) {
    for (int64_t j = dimension - 1; j >= 0; j--) {
        vector[j] = number % order;
        number /= order;
    }
}

/* The coordinates of a point by number, and the place of its leading 1. `firsts` has the first point with each number
 * of free coordinates behind it. */
static int64_t write_point(int64_t *vector, int64_t number, int64_t order, const int64_t *firsts, int64_t dimension) {
    int64_t free = dimension - 1;
    while (firsts[free] > number) free--;
    write_digits(vector, number - firsts[free], order, dimension);
    vector[dimension - 1 - free] = 1;
    return dimension - 1 - free;
}

/* Points orthogonal to that of the label if u < member, else points that are not, picked uniformly.
 *
 * The label's point v has a 1 as its first coordinate other than zero, at place `lead`. A point orthogonal to v is a
 * point of one dimension less in all other coordinates, from which that one follows; a point with the product 1 is any
 * vector there. False if a row ran out of words. */
KERNEL bool draw_points(int64_t n, int64_t w, int64_t t, int64_t q, const int32_t *codes, const uint64_t *words,
                        int64_t order, const int64_t *firsts, const int64_t *inverses, uint64_t member, uint64_t favoured,
                        uint64_t others, int32_t *out) {
    int64_t label[MOST_COORDINATES], point[MOST_COORDINATES];
    (void)q;
    if (t > MOST_COORDINATES) return false;
    for (int64_t i = 0; i < n; i++) {
        bool inside = words[i * w] < member;
        halves from = {words + i * w, 2, 2 * w};
        int64_t pick = uniform_below(inside ? favoured : others, &from);
        if (pick < 0) return false;
        int64_t lead = write_point(label, codes[i], order, firsts, t);
        if (inside) {
            write_point(point, pick, order, firsts, t - 1);
        } else {
            write_digits(point, pick, order, t - 1);
        }
        for (int64_t j = t - 1; j > lead; j--) point[j] = point[j - 1];
        point[lead] = 0;
        int64_t total = 0, first = 0, number = 0;
        for (int64_t j = 0; j < t; j++) total += point[j] * label[j];
        point[lead] = (order + !inside - total % order) % order;
        while (point[first] == 0) first++;
        int64_t scale = inverses[point[first]];
        for (int64_t j = first + 1; j < t; j++) number = number * order + point[j] * scale % order;
        out[i] = (int32_t)(firsts[t - 1 - first] + number);
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
    for (int64_t i = 0; i < n; i++) {
        write_point(vector, released[i], order, firsts, t);
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
