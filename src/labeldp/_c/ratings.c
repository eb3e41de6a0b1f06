/* The loops over rows of the sampler of ratings; random numbers come from outside. */

#include "kernels.h"

static const double LEAST = 1e-12;
static const double ROOT = 0.70710678118654757;
static const double ROOT_OF_TURN = 2.5066282746310002; /* of 2 pi */

/* The score of each pair: both biases, and the product of the factors. */
KERNEL void scores_of(int64_t n, int64_t u, int64_t d, int64_t v, const int64_t *users, const int64_t *items,
                      const double *of_users, const double *of_items, double *out) {
    (void)u;
    (void)v;
    for (int64_t i = 0; i < n; i++) {
        const double *one = of_users + users[i] * d, *other = of_items + items[i] * d;
        double score = one[0] + other[0];
        for (int64_t j = 1; j < d; j++) score += one[j] * other[j];
        out[i] = score;
    }
}

/* Add to each user's (or item's) precision and sum what its rows add, given the other side and latent numbers.
 *
 * `weights` are the precisions of the latent numbers. The lower triangle of a precision alone is written. */
KERNEL void normal_equations(int64_t n, int64_t v, int64_t d, int64_t u, const int64_t *own, const int64_t *other,
                             const double *values, const double *latent, const double *weights, double *products,
                             double *sums) {
    (void)u;
    (void)v;
    for (int64_t i = 0; i < n; i++) {
        const double *row = values + other[i] * d;
        double *to_products = products + own[i] * d * d, *to_sums = sums + own[i] * d, aim = latent[i] - row[0];
        for (int64_t one = 0; one < d; one++) {
            double x = weights[i] * (one ? row[one] : 1.0);
            to_sums[one] += x * aim;
            for (int64_t two = one; two < d; two++) to_products[two * d + one] += x * (two ? row[two] : 1.0);
        }
    }
}

/* The probability that a normal number around a score is below cut point j - 1; 0 below the first, 1 at the end. */
static inline double below_cut(int64_t j, int64_t cuts, const double *places, double score, double rate) {
    if (j == 0) return 0.0;
    return j > cuts ? 1.0 : 0.5 * erfc((score - places[j - 1]) * rate * ROOT);
}

static inline double at_least(double x) { return x > LEAST ? x : LEAST; }

/* Add the class probabilities of each score. */
KERNEL void add_probabilities(int64_t n, int64_t c, int64_t k, const double *scores, const double *rates,
                              const double *cuts, double *out) {
    for (int64_t i = 0; i < n; i++) {
        double before = 0.0;
        for (int64_t j = 0; j < k; j++) {
            double after = below_cut(j + 1, c, cuts, scores[i], rates[i]);
            out[i * k + j] += at_least(after - before);
            before = after;
        }
    }
}

/* The probability of what was released in one row. */
static double chance_of(int64_t k, int64_t c, const double *cuts, double score, double rate, const double *likelihood) {
    double chance = 0.0, before = 0.0;
    for (int64_t j = 0; j < k; j++) {
        double after = below_cut(j + 1, c, cuts, score, rate);
        chance += at_least(after - before) * likelihood[j];
        before = after;
    }
    return chance;
}

/* The log likelihood of cut points, with latent numbers integrated out. */
KERNEL double log_likelihood(int64_t n, int64_t c, int64_t k, const double *scores, const double *rates,
                             const double *cuts, const double *likelihood) {
    double total = 0.0;
    for (int64_t i = 0; i < n; i++) total += log(chance_of(k, c, cuts, scores[i], rates[i], likelihood + i * k));
    return total;
}

/* Add the gradient of the log likelihood in the cut points, and the sum of its outer products over rows. `slopes` is
 * room for one row. */
KERNEL void slopes_of_cuts(int64_t n, int64_t c, int64_t k, const double *scores, const double *rates,
                           const double *cuts, const double *likelihood, double *slopes, double *gradient,
                           double *information) {
    for (int64_t i = 0; i < n; i++) {
        const double *row = likelihood + i * k;
        double chance = chance_of(k, c, cuts, scores[i], rates[i], row);
        for (int64_t j = 0; j < c; j++) {
            double away = rates[i] * (cuts[j] - scores[i]);
            double density = rates[i] * exp(-0.5 * (away * away)) / ROOT_OF_TURN;
            slopes[j] = density * (row[j] - row[j + 1]) / chance;
            gradient[j] += slopes[j];
            for (int64_t other = 0; other <= j; other++) information[j * c + other] += slopes[j] * slopes[other];
        }
    }
    for (int64_t j = 0; j < c; j++) {
        for (int64_t other = 0; other < j; other++) information[other * c + j] = information[j * c + other];
    }
}

/* The quantile of a latent number around each score, of a class drawn in proportion to the weights.
 *
 * `uniform` has two numbers for each row: one for the class, one for the place inside it. `room` is that of the
 * probabilities below each cut point with both ends, and behind them of the sums over classes. */
KERNEL void draw_places(int64_t n, int64_t c, int64_t k, int64_t r, const double *scores, const double *rates,
                        const double *cuts, const double *likelihood, const double *uniform, double *room,
                        double *out) {
    (void)r;
    double *below = room, *sums = room + k + 1;
    for (int64_t i = 0; i < n; i++) {
        double total = 0.0;
        int64_t drawn = 0;
        below[0] = 0.0;
        for (int64_t j = 0; j < k; j++) {
            below[j + 1] = below_cut(j + 1, c, cuts, scores[i], rates[i]);
            total += at_least(below[j + 1] - below[j]) * likelihood[i * k + j];
            sums[j] = total;
        }
        while (drawn < k - 1 && uniform[2 * i] * total >= sums[drawn]) drawn++;
        double place = below[drawn] + uniform[2 * i + 1] * (below[drawn + 1] - below[drawn]);
        out[i] = place < LEAST ? LEAST : place > 1.0 - LEAST ? 1.0 - LEAST : place;
    }
}
