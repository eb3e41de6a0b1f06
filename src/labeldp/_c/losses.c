/* The losses over rows, which overwrite logits with their gradient. */

#include "kernels.h"

/* The value of a class in a row, by selection: random bits would defeat branch prediction. */
static inline double value_of(int64_t j, const uint8_t *mask, const uint8_t *support, double inside, double other,
                              double outside) {
    double value = support && !holds(support, j) ? outside : other;
    return holds(mask, j) ? inside : value;
}

static inline double largest(int64_t k, const double *row) {
    double top = row[0];
    for (int64_t j = 1; j < k; j++) top = row[j] > top ? row[j] : top;
    return top;
}

/* Weighted sum of -log sum_j v_j p_j over rows; logits become its gradient, p - posterior.
 *
 * The largest logit is subtracted first, so neither sum can overflow, and its class keeps both away from zero: this is
 * `logaddexp` over all classes at once. */
KERNEL double forward(int64_t n, int64_t k, int64_t b, int64_t s, double *logits, const uint8_t *mask,
                      const double *inside, const double *other, const uint8_t *support, const double *outside,
                      const double *weights) {
    double loss = 0.0;
    for (int64_t i = 0; i < n; i++) {
        double *row = logits + i * k;
        const uint8_t *set = mask + i * b, *within = s ? support + i * s : NULL;
        double top = largest(k, row), total = 0.0, hit = 0.0;
        for (int64_t j = 0; j < k; j++) {
            row[j] = exp(row[j] - top);
            total += row[j];
            hit += row[j] * value_of(j, set, within, inside[i], other[i], outside[i]);
        }
        loss += weights[i] * (log(total) - log(hit));
        for (int64_t j = 0; j < k; j++) {
            row[j] *= weights[i] * (1.0 / total - value_of(j, set, within, inside[i], other[i], outside[i]) / hit);
        }
    }
    return loss;
}

/* Weighted sum of sum_j t_j (-log p_j), targets summing to one; logits become its gradient, p - t. */
KERNEL double linear(int64_t n, int64_t k, int64_t b, int64_t s, double *logits, const uint8_t *mask,
                     const double *inside, const double *other, const uint8_t *support, const double *outside,
                     const double *weights) {
    double loss = 0.0;
    for (int64_t i = 0; i < n; i++) {
        double *row = logits + i * k;
        const uint8_t *set = mask + i * b, *within = s ? support + i * s : NULL;
        double top = largest(k, row), total = 0.0, aimed = 0.0;
        for (int64_t j = 0; j < k; j++) {
            aimed += value_of(j, set, within, inside[i], other[i], outside[i]) * (row[j] - top);
            row[j] = exp(row[j] - top);
            total += row[j];
        }
        loss += weights[i] * (log(total) - aimed);
        for (int64_t j = 0; j < k; j++) {
            row[j] = weights[i] * (row[j] / total - value_of(j, set, within, inside[i], other[i], outside[i]));
        }
    }
    return loss;
}
