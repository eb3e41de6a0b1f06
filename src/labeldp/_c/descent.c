/* Descent: a step for each row, dense or sparse, with a running mean of all points.
 *
 * The parameters are `scale * core` and the weighted sum of all points so far is `weight * core + rest`. So a step
 * touches only the entries of the row's features: shrinking all parameters is a change of `scale`, and a change of the
 * core by D leaves the sum as it was if `weight * D` is taken off the rest. */

#include "kernels.h"

/* Scales below this are multiplied out: the sum of points is then made of numbers that are not much larger than it. */
static const double SMALL = 1e-3;

/* The scale, the weight, the squared length of the parameters, the sum of squared gradients. */
enum { SCALE, WEIGHT, SQUARED, GRADIENTS };
enum { SOFTMAX = 0, LINEAR = 2, SQUARED_LOSS = 3, ABSOLUTE = 4 };

static void softmax(int64_t s, const double *scores, const double *weights, double *gradient) {
    double top = scores[0], total = 0.0, mass = 0.0;
    for (int64_t j = 0; j < s; j++) {
        top = scores[j] > top ? scores[j] : top;
        total += weights[j];
    }
    for (int64_t j = 0; j < s; j++) {
        gradient[j] = exp(scores[j] - top);
        mass += gradient[j];
    }
    for (int64_t j = 0; j < s; j++) gradient[j] = total * gradient[j] / mass - weights[j];
}

static void linear_scores(int64_t k, const double *weights, double *gradient) {
    double total = 0.0;
    for (int64_t j = 0; j < k; j++) total += weights[j];
    for (int64_t j = 0; j < k; j++) gradient[j] = -0.5 * (weights[j] - total / (double)k);
}

/* Weighted sum of the slopes of the squared or the absolute loss. */
static double slope_of(int64_t loss, double score, int64_t k, const double *weights, const double *points) {
    double slope = 0.0;
    for (int64_t j = 0; j < k; j++) {
        double difference = score - points[j];
        if (loss == ABSOLUTE) difference = (double)((difference > 0.0) - (difference < 0.0));
        slope += weights[j] * difference;
    }
    return slope;
}

/* Write sum_j w_j g_j(z) of a row; see `_losses` for each loss. */
KERNEL void mean_gradient(int64_t s, int64_t k, int64_t loss, const double *scores, const double *weights,
                          const double *points, double *gradient) {
    if (loss == SOFTMAX) {
        softmax(s, scores, weights, gradient);
    } else if (loss == LINEAR) {
        linear_scores(k, weights, gradient);
    } else {
        gradient[0] = slope_of(loss, scores[0], k, weights, points);
    }
}

/* Multiply all parameters by a factor, and leave the sum of points. */
static void shrink(double factor, int64_t size, double *core, double *rest, double *state) {
    state[SCALE] *= factor;
    if (state[SCALE] >= SMALL) return;
    for (int64_t j = 0; j < size; j++) {
        rest[j] += state[WEIGHT] * core[j];
        core[j] *= state[SCALE];
    }
    state[WEIGHT] = 0.0;
    state[SCALE] = 1.0;
}

/* Move a row of the core against the gradient, and leave the sum of points. */
static inline void move(int64_t s, double *core, double *rest, double step, const double *gradient, double weight) {
    for (int64_t j = 0; j < s; j++) {
        core[j] -= step * gradient[j];
        rest[j] += weight * step * gradient[j];
    }
}

/* One step for each row of a part of the rows.
 *
 * indptr, indices, data: a CSR matrix of all rows; if they are not `sparse`, `indices` is not used.
 * end: the number appended to each row for the intercept, 0 for none.
 * part: numbers of the rows to visit, in order.
 * weights: the unbiased vector of each row of the part.
 * points: the possible labels on the scale of the scores, for losses of numeric labels.
 * rates: the length of each step, if `pace` is 0. shares: its weight in the mean of the point before it.
 * pace: if above 0, the number that steps are over the root of the sum of squared gradients so far, this row's included.
 * radius: the ball in which parameters stay. l2: this times half their squared length is added to the loss.
 * core, rest, state: see above; overwritten. work: room for scores and gradient of a row. */
KERNEL void descend(int64_t e, int64_t z, int64_t v, int64_t m, int64_t k, int64_t c, int64_t s, const int64_t *indptr,
                    const int64_t *indices, bool sparse, const double *data, double end, const int64_t *part,
                    int64_t loss, const double *weights, const double *points, const double *rates,
                    const double *shares, double pace, double radius, double l2, double *core, double *rest,
                    double *state, double *work) {
    (void)e;
    (void)z;
    (void)v;
    int64_t last = (c - 1) * s;
    double *scores = work, *gradient = work + s;
    for (int64_t i = 0; i < m; i++) {
        int64_t low = indptr[part[i]], high = indptr[part[i] + 1];
        double length = end * end;
        for (int64_t j = 0; j < s; j++) scores[j] = end != 0.0 ? end * core[last + j] : 0.0;
        for (int64_t at = low; at < high; at++) {
            double value = data[at];
            if (value == 0.0) continue;
            const double *own = core + (sparse ? indices[at] : at - low) * s;
            length += value * value;
            for (int64_t j = 0; j < s; j++) scores[j] += value * own[j];
        }
        for (int64_t j = 0; j < s; j++) scores[j] *= state[SCALE];
        mean_gradient(s, k, loss, scores, weights + i * k, points, gradient);
        double steep = 0.0, along = 0.0;
        for (int64_t j = 0; j < s; j++) {
            steep += gradient[j] * gradient[j];
            along += gradient[j] * scores[j];
        }
        state[WEIGHT] += shares[i] * state[SCALE];
        state[GRADIENTS] += steep * length;
        double rate = rates[i];
        if (pace > 0.0) rate = state[GRADIENTS] > 0.0 ? pace / sqrt(state[GRADIENTS]) : 0.0;
        double decay = 1.0 - rate * l2;
        shrink(decay, c * s, core, rest, state);
        double step = rate / state[SCALE];
        for (int64_t at = low; at < high; at++) {
            if (data[at] == 0.0) continue;
            int64_t own = (sparse ? indices[at] : at - low) * s;
            move(s, core + own, rest + own, step * data[at], gradient, state[WEIGHT]);
        }
        if (end != 0.0) move(s, core + last, rest + last, step * end, gradient, state[WEIGHT]);
        double squared = decay * (decay * state[SQUARED] - 2.0 * rate * along) + rate * rate * steep * length;
        state[SQUARED] = squared > 0.0 ? squared : 0.0;
        if (state[SQUARED] > radius * radius) {
            shrink(radius / sqrt(state[SQUARED]), c * s, core, rest, state);
            state[SQUARED] = radius * radius;
        }
    }
}
