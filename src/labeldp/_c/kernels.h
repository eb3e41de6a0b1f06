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

/* 1 if a class is in a packed set, else 0. */
static inline uint64_t holds(const uint8_t *set, int64_t j) { return set[j >> 3] >> (j & 7) & 1; }

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

/* The halves of a row's words, in order: the lower half of each first. */
typedef struct {
    const uint64_t *words;
    int64_t next, size;
} halves;

/* A uniform integer below a bound of at most 2**32, or -1 if the halves run out.
 *
 * A half is mapped to [0, bound) by multiplication with the rejection that makes it uniform (Lemire 2019). The number
 * of rejections depends on the words alone. */
static inline int64_t uniform_below(uint64_t bound, halves *from) {
    uint64_t floor = (((uint64_t)1 << 32) - bound) % bound;
    while (from->next < from->size) {
        uint64_t word = from->words[from->next >> 1];
        uint64_t product = (from->next & 1 ? word >> 32 : word & UINT32_MAX) * bound;
        from->next++;
        if ((product & UINT32_MAX) >= floor) return (int64_t)(product >> 32);
    }
    return -1;
}

/* A bijection of 64-bit words whose outputs look independent (Steele, Lea and Flood 2014). */
static inline uint64_t mixed(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

#endif
