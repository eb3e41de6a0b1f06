/* What all kernels share. A kernel gets the sizes of its arrays first, each once, then what its Python declaration
 * names, in that order: arrays as pointers to their first entry, one row after the other. Kernels have no state and
 * allocate nothing. Unsigned numbers wrap around; signed ones stay in their range, or the caller refuses them. */

#ifndef LABELDP_KERNELS_H
#define LABELDP_KERNELS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Marks what Python declares; all else is static. */
#define KERNEL

/* Loops of which a processor does several steps at a time, compiled for each generation of processors. No clone
 * contracts or reorders, so all give the same words. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && !defined(LABELDP_PLAIN)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

/* Marks a part of such loops, which is compiled with each of them. */
#define PART static inline __attribute__((always_inline))

/* 1 if a class is in a packed set, else 0. */
static inline uint64_t holds(const uint8_t *set, int64_t j) { return set[j >> 3] >> (j & 7) & 1; }

/* Up to 64 classes of a packed set of so many bytes, from a byte on. */
PART uint64_t bits_from(const uint8_t *set, int64_t bytes, int64_t byte) {
    uint64_t bits = 0;
    int64_t size = bytes - byte < 8 ? bytes - byte : 8;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (size == 8) {
        memcpy(&bits, set + byte, sizeof bits);
        return bits;
    }
#endif
    for (int64_t each = 0; each < size; each++) bits |= (uint64_t)set[byte + each] << 8 * each;
    return bits;
}

/* Add a class to a packed set. */
static inline void add(uint8_t *set, int64_t j) { set[j >> 3] |= (uint8_t)(1 << (j & 7)); }

/* The number of entries of a sorted array that are at most a word. */
static inline int64_t count_up_to(const uint64_t *sorted, int64_t size, uint64_t word) {
    int64_t low = 0;
    while (size > 0) {
        int64_t half = size / 2;
        if (sorted[low + half] <= word) {
            low += half + 1;
            size -= half + 1;
        } else {
            size = half;
        }
    }
    return low;
}

/* A bijection of 64-bit words whose outputs look independent (Steele, Lea and Flood 2014). */
static inline uint64_t mixed(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

#endif
