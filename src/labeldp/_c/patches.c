/* Patches: responses of filters at every place, above a threshold, averaged over cells. */

#include "kernels.h"

static inline float positive(float x) { return x > 0.0f ? x : 0.0f; }

/* Add the mean responses of each cell: responses above one bound and below another, both from zero on.
 *
 * products: of each filter with the patch at each place. scales: one over the contrast of each patch.
 * above: a response counts from here on. below: its opposite counts from here on.
 * rows, columns: the weight of each row (column) of places in each row (column) of cells.
 * means: where to add, shape (n, cells, cells, 2, filters). line: room for a row of cells and a place. */
WIDE KERNEL void add_cell_means(int64_t n, int64_t h, int64_t w, int64_t f, int64_t c, int64_t l,
                                const float *products, const float *scales, const float *above, const float *below,
                                const float *rows, const float *columns, float *line, float *means) {
    float *both = line + (l - 1) * 2 * f;
    for (int64_t y = 0; y < n * h; y++) {
        float *image = means + y / h * c * c * 2 * f;
        memset(line, 0, (size_t)(c * 2 * f) * sizeof *line);
        for (int64_t x = 0; x < w; x++) {
            const float *product = products + (y * w + x) * f;
            float scale = scales[y * w + x];
            for (int64_t k = 0; k < f; k++) {
                float response = product[k] * scale;
                both[k] = positive(response - above[k]);
                both[f + k] = positive(below[k] - response);
            }
            for (int64_t cell = 0; cell < c; cell++) {
                float weight = columns[cell * w + x], *own = line + cell * 2 * f;
                if (weight > 0.0f) {
                    for (int64_t k = 0; k < 2 * f; k++) own[k] += weight * both[k];
                }
            }
        }
        for (int64_t cell = 0; cell < c; cell++) {
            float weight = rows[cell * h + y % h], *own = image + cell * c * 2 * f;
            if (weight > 0.0f) {
                for (int64_t k = 0; k < c * 2 * f; k++) own[k] += weight * line[k];
            }
        }
    }
}
