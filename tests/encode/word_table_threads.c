/* Written by hand, not made by Cython, which translates the kernels only.
 *
 * Eight threads look up words in one table and insert the missing ones, while a ninth copies the table.
 *
 * Words are numbers, and their ids follow from them, so that a mixture of two words is detected. Run under ThreadSanitizer by
 * test_word_table.py. Prints how many words were found in the table and in the last copy, and fails at a wrong result.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "bpe/encode/_word_table.h"

enum { THREADS = 8, LOG2_LINES = 8, LINES = 1 << LOG2_LINES };

static int state;
static size_t n_words, n_steps;
static bpe_words table;
static size_t found[THREADS + 1];

static void open_table(bpe_words *words, int log2_lines) {
    size_t lines = (size_t)1 << log2_lines;
    memset(words, 0, sizeof *words);
    words->lines = calloc(lines, sizeof(bpe_word_line));
    words->long_words = calloc(lines, sizeof(bpe_long_word));
    words->long_bytes = calloc(lines, 32);
    words->spilled = calloc(lines, 64);
    words->shift = 64 - log2_lines;
    words->long_words_mask = lines - 1;
    words->max_entries = lines * 9 / 4;
    words->max_long_words = lines / 2;
    words->max_long_bytes = lines * 32;
    words->max_spilled = lines * 16;
    words->max_rejected = lines;
    words->n_spilled = 8;
    words->state = &state;
}

static void close_table(bpe_words *words) {
    free(words->lines);
    free(words->long_words);
    free(words->long_bytes);
    free(words->spilled);
}

/* Many words share their first eight bytes, and so do words of 8 and of 16 bytes. */
static void keys_of(size_t word, uint64_t *lo, uint64_t *hi) {
    *lo = word % 61 + 1;
    *hi = word / 61 ? word / 61 : UINT64_MAX;
}

static size_t ids_of(size_t word, uint32_t *ids) {
    size_t n = word % 11 + 1;
    for (size_t i = 0; i < n; i++) ids[i] = (uint32_t)(word * 17 + i * i);
    return n;
}

static size_t bytes_of(size_t word, uint8_t *bytes) {
    size_t n = 17 + word % 30;
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)(word * 7 + i);
    memcpy(bytes, &word, sizeof word);
    return n;
}

static uint64_t hash_of(size_t word) { return word % 37 * 0x9E3779B97F4A7C15ull | 1; } /* many words have equal hashes */

static void check(const bpe_words *words, uint64_t value, size_t word) {
    uint32_t ids[16], read[2];
    size_t n = ids_of(word, ids), n_read;
    const uint32_t *has = words->spilled + (value >> 32) + 1;
    if ((uint32_t)value) {
        read[0] = (uint32_t)value - 1, read[1] = (uint32_t)(value >> 32) - 1;
        n_read = 1 + (value >> 32 != 0), has = read;
    } else {
        n_read = has[-1];
    }
    if (n_read != n || memcmp(has, ids, n * sizeof *ids) != 0) {
        fprintf(stderr, "word %zu has wrong ids\n", word);
        exit(1);
    }
}

static uint64_t find(const bpe_words *words, size_t word) {
    uint64_t lo, hi;
    uint8_t bytes[64];
    if (word % 5 == 0) return bpe_find_long(words, bytes, bytes_of(word, bytes), hash_of(word));
    keys_of(word, &lo, &hi);
    return bpe_find_word(words, lo, hi, bpe_hash_two(lo, hi));
}

static void enter(bpe_words *words, size_t word) {
    uint64_t lo, hi, value;
    uint8_t bytes[64];
    uint32_t ids[16];
    if (!bpe_has_capacity(words) || (value = bpe_make_value(words, ids, ids_of(word, ids))) == 0) return;
    check(words, value, word);
    if (word % 5 == 0) {
        bpe_enter_long(words, bytes, bytes_of(word, bytes), hash_of(word), value);
        return;
    }
    keys_of(word, &lo, &hi);
    bpe_enter_word(words, lo, hi, bpe_hash_two(lo, hi), value, 0);
}

static void *work(void *number) {
    size_t me = (size_t)number;
    uint64_t random = 0x1234567 + me % 2; /* half of the threads look up the same words in the same order */
    for (size_t i = 0; i < n_steps; i++) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        size_t word = (size_t)(random >> 33) % n_words;
        uint64_t value = find(&table, word);
        if (value) check(&table, value, word), found[me]++;
        else enter(&table, word);
    }
    return NULL;
}

static void *copy(void *unused) {
    for (int round = 0; round < 20; round++) {
        bpe_words larger;
        open_table(&larger, LOG2_LINES + 1);
        bpe_copy_words(&larger, &table);
        found[THREADS] = 0;
        for (size_t word = 0; word < n_words; word++) {
            uint64_t value = find(&larger, word);
            if (value) check(&larger, value, word), found[THREADS]++;
        }
        close_table(&larger);
    }
    return unused;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS + 1];
    size_t total = 0;
    n_words = argc > 1 ? strtoul(argv[1], NULL, 10) : 3 * LINES;
    n_steps = argc > 2 ? strtoul(argv[2], NULL, 10) : 100000;
    open_table(&table, LOG2_LINES);
    for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    pthread_create(&threads[THREADS], NULL, copy, NULL);
    for (size_t i = 0; i <= THREADS; i++) pthread_join(threads[i], NULL);
    for (size_t i = 0; i < THREADS; i++) total += found[i];
    copy(NULL);
    printf("%zu %zu %d\n", total, found[THREADS], bpe_get_state(&table));
    close_table(&table);
    return 0;
}
