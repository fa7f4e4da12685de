/* A table of words and their ids that all threads of a tokenizer share, without a lock for readers or for writers.
 *
 * Every field of an entry is written once, from 0 to its final value. A writer claims a free entry by exchanging its first
 * field atomically, writes the rest, and writes the value last, with release order. A reader loads the value first, with
 * acquire order: if it is not 0, the entry's keys, the bytes of a long word and the spilled ids are final and visible. So no
 * reader sees a mixture of two words, and no sequence number is needed. Nothing is overwritten or removed. A table that is
 * full rejects words until another takes its place (`_encoder.pyx`); it is freed when no thread uses it any more.
 *
 * A process that is forked while another thread enters a word has one claimed entry that never gets a value, and merges that
 * word each time. There is no lock that the child would wait for.
 */
#ifndef BPE_WORD_TABLE_H
#define BPE_WORD_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bpe/base/_mix.h"

/* A word of at most 16 bytes: its bytes as two numbers, padded with 0xFF. */
typedef struct {
    uint64_t lo;    /* 0 while the entry is free */
    uint64_t hi;    /* UINT64_MAX for a word of at most 8 bytes */
    uint64_t value; /* 0 until the entry is complete */
} bpe_entry;

/* A cache line: an entry for a word of at most 8 bytes, and two for any word of at most 16.
 *
 * With two entries a line alone, one word in ten was in a later line than its hash says, and English took 6% longer.
 */
typedef struct {
    uint64_t key; /* 0 while this entry is free */
    uint64_t value;
    bpe_entry entries[2];
} bpe_word_line;

/* A longer word. */
typedef struct {
    uint64_t hash; /* 0 while the entry is free */
    uint64_t value;
    uint32_t offset; /* of its bytes in `long_bytes` */
    uint32_t size;
} bpe_long_word;

enum { BPE_CURRENT, BPE_EXHAUSTED, BPE_REPLACING, BPE_REPLACED };

typedef struct {
    bpe_word_line *lines;
    int shift; /* 64 - log2 of the number of lines: the upper bits of a hash are the index of a line */
    bpe_long_word *long_words;
    size_t long_words_mask;
    uint8_t *long_bytes; /* bytes of the longer words */
    uint32_t *spilled;   /* ids of words that have more than two, after their number */
    size_t max_entries;
    size_t max_long_words;
    size_t max_long_bytes;
    size_t max_spilled;
    size_t max_rejected;
    char apart[64]; /* the counts below, which writers change, are in other cache lines than what readers need */
    size_t n_entries;
    size_t n_long_words;
    size_t n_long_bytes;
    size_t n_spilled;
    size_t n_rejected;
    int *state; /* shared by the two tables of a tokenizer with an end-of-word mark */
} bpe_words;

enum { BPE_PROBED_LINES = 8 }; /* a word is in a later one only if the earlier ones are full */

#define BPE_GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define BPE_SET(field, x) __atomic_store_n(&(field), (x), __ATOMIC_RELAXED)
#define BPE_ACQUIRE(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)
#define BPE_PUBLISH(field, x) __atomic_store_n(&(field), (x), __ATOMIC_RELEASE)
#define BPE_ADD(field, n) __atomic_fetch_add(&(field), (n), __ATOMIC_RELAXED)
#define BPE_CLAIM(field, old, x) __atomic_compare_exchange_n(&(field), &(old), (x), 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)

/* The value that one of a line's two wide entries has for a word, or 0.
 *
 * Without a branch, since it would be mispredicted; and short, so that the loads of many words are in flight together.
 */
static inline uint64_t bpe_value_in(const bpe_word_line *line, uint64_t lo, uint64_t hi) {
    uint64_t first = BPE_ACQUIRE(line->entries[0].value), second = BPE_ACQUIRE(line->entries[1].value);
    first = (BPE_GET(line->entries[0].lo) ^ lo) | (BPE_GET(line->entries[0].hi) ^ hi) ? 0 : first;
    second = (BPE_GET(line->entries[1].lo) ^ lo) | (BPE_GET(line->entries[1].hi) ^ hi) ? 0 : second;
    return first | second; /* no word is in a line twice */
}

/* The value that a line has for a word of at most 8 bytes, or 0. */
static inline uint64_t bpe_short_value_in(const bpe_word_line *line, uint64_t key) {
    uint64_t value = BPE_ACQUIRE(line->value);
    value = BPE_GET(line->key) == key ? value : 0;
    return value | bpe_value_in(line, key, UINT64_MAX);
}

/* The value of a word of at most 16 bytes, or 0. */
static inline uint64_t bpe_find_word(const bpe_words *words, uint64_t lo, uint64_t hi, uint64_t hash) {
    size_t at = hash >> words->shift;
    for (size_t i = 0; i < BPE_PROBED_LINES; i++) {
        const bpe_word_line *line = &words->lines[at ^ i];
        uint64_t value = hi == UINT64_MAX ? bpe_short_value_in(line, lo) : bpe_value_in(line, lo, hi);
        if (value || !BPE_GET(line->entries[1].lo)) return value;
    }
    return 0;
}

/* The values of n words of 9 to 16 bytes in the first line of each, 0 where it has none; `keys` has `lo` and `hi` of each. */
static inline void bpe_find_middle_words(
    const bpe_words *words, const uint64_t *keys, const uint64_t *hashes, size_t n, uint64_t *values) {
    for (size_t i = 0; i < n; i++)
        values[i] = bpe_value_in(&words->lines[hashes[i] >> words->shift], keys[2 * i], keys[2 * i + 1]);
}

/* The values of n words of at most 8 bytes in their first line, 0 where it has none. */
static inline void bpe_find_short_words(const bpe_words *words, const uint64_t *keys, size_t n, uint64_t *values) {
    for (size_t i = 0; i < n; i++)
        values[i] = bpe_short_value_in(&words->lines[bpe_hash_two(keys[i], UINT64_MAX) >> words->shift], keys[i]);
}

/* Write a word to an entry if that is free; whether the entry is the word's now, or was before.
 *
 * An entry with the same first eight bytes and no value yet counts as the word's: whoever claimed it is about to write it.
 * `hi` is NULL for an entry of short words. `alone`: no other thread has the table, which makes entering twice as fast.
 */
static inline int bpe_take_entry(
    uint64_t *key, uint64_t *hi, uint64_t *value, const uint64_t *word, uint64_t x, size_t *count, int alone) {
    uint64_t none = 0;
    if (alone) {
        if (*key) return 0;
        *key = word[0];
    } else if (!BPE_CLAIM(*key, none, word[0])) {
        return none == word[0] && (hi == NULL || BPE_ACQUIRE(*value) == 0 || BPE_GET(*hi) == word[1]);
    }
    if (hi) BPE_SET(*hi, word[1]);
    BPE_PUBLISH(*value, x);
    BPE_ADD(*count, 1);
    return 1;
}

/* Enter a word that was not found. Where all its lines are full, it is rejected. */
static inline void bpe_enter_word(
    bpe_words *words, uint64_t lo, uint64_t hi, uint64_t hash, uint64_t value, int alone) {
    const uint64_t word[2] = {lo, hi};
    size_t at = hash >> words->shift;
    if (lo == 0) return; /* eight bytes of 0 mark a free entry */
    for (size_t i = 0; i < BPE_PROBED_LINES; i++) {
        bpe_word_line *line = &words->lines[at ^ i];
        if (hi == UINT64_MAX && bpe_take_entry(&line->key, NULL, &line->value, word, value, &words->n_entries, alone)) return;
        for (int k = 0; k < 2; k++) {
            bpe_entry *entry = &line->entries[k];
            if (bpe_take_entry(&entry->lo, &entry->hi, &entry->value, word, value, &words->n_entries, alone)) return;
        }
    }
    BPE_ADD(words->n_rejected, 1);
}

/* Where the bytes of the first long word are that a hash leads to, to be prefetched: another thread may be entering it. */
static inline const uint8_t *bpe_first_long_bytes(const bpe_words *words, uint64_t hash) {
    return words->long_bytes + BPE_GET(words->long_words[hash & words->long_words_mask].offset);
}

/* The value of a word of more than 16 bytes, or 0. */
static inline uint64_t bpe_find_long(const bpe_words *words, const uint8_t *word, size_t size, uint64_t hash) {
    size_t at = hash & words->long_words_mask;
    for (uint64_t found; (found = BPE_GET(words->long_words[at].hash)) != 0; at = (at + 1) & words->long_words_mask) {
        const bpe_long_word *entry = &words->long_words[at];
        uint64_t value;
        if (found != hash) continue;
        value = BPE_ACQUIRE(entry->value);
        if (value && BPE_GET(entry->size) == size && memcmp(words->long_bytes + BPE_GET(entry->offset), word, size) == 0)
            return value;
    }
    return 0;
}

/* Enter such a word, which was not found. At most half of the entries are used, so that every search ends. Two threads may
 * enter the same word twice, which is harmless. */
static inline void bpe_enter_long(bpe_words *words, const uint8_t *word, size_t size, uint64_t hash, uint64_t value) {
    size_t at = hash & words->long_words_mask, offset;
    if (hash == 0 || BPE_ADD(words->n_long_words, 1) >= words->max_long_words) return;
    offset = BPE_ADD(words->n_long_bytes, size);
    if (offset + size > words->max_long_bytes) return;
    memcpy(words->long_bytes + offset, word, size);
    for (uint64_t none = 0; !BPE_CLAIM(words->long_words[at].hash, none, hash); none = 0)
        at = (at + 1) & words->long_words_mask;
    BPE_SET(words->long_words[at].offset, (uint32_t)offset);
    BPE_SET(words->long_words[at].size, (uint32_t)size);
    BPE_PUBLISH(words->long_words[at].value, value);
}

/* The value that stands for n ids: one or two in itself, more in `spilled`; 0 if there is no room.
 *
 * Spilled ids lie at multiples of 32 bytes: up to 7 with their number are in one cache line, and copying all 7 reads nothing
 * that another thread writes.
 */
static inline uint64_t bpe_make_value(bpe_words *words, const uint32_t *ids, size_t n) {
    size_t at, size = (n + 8) & ~(size_t)7;
    if (n == 0) return 0;
    if (n <= 2) return ((uint64_t)ids[0] + 1) | (n > 1 ? ((uint64_t)ids[1] + 1) << 32 : 0);
    at = BPE_ADD(words->n_spilled, size);
    if (at + size > words->max_spilled) return 0;
    words->spilled[at] = (uint32_t)n;
    memcpy(words->spilled + at + 1, ids, n * sizeof *ids);
    return (uint64_t)at << 32;
}

static inline uint64_t bpe_copy_value(bpe_words *to, const bpe_words *from, const uint64_t *entry) {
    uint64_t value = BPE_ACQUIRE(*entry);
    const uint32_t *ids = from->spilled + (value >> 32);
    return value == 0 || (uint32_t)value ? value : bpe_make_value(to, ids + 1, *ids);
}

/* Enter a word of at most 16 bytes into a table that no other thread has, unless it is there. */
static inline void bpe_copy_word(bpe_words *to, uint64_t lo, uint64_t hi, uint64_t value) {
    uint64_t hash = bpe_hash_two(lo, hi);
    if (!bpe_find_word(to, lo, hi, hash)) bpe_enter_word(to, lo, hi, hash, value, 1);
}

/* Enter all words of a table, which other threads may use meanwhile, into one that no other thread has. */
static inline void bpe_copy_words(bpe_words *to, const bpe_words *from) {
    size_t n_lines = (size_t)1 << (64 - from->shift);
    uint64_t value;
    for (size_t i = 0; i < n_lines; i++) {
        const bpe_word_line *line = &from->lines[i];
        if ((value = bpe_copy_value(to, from, &line->value)) != 0)
            bpe_copy_word(to, BPE_GET(line->key), UINT64_MAX, value);
        for (int k = 0; k < 2; k++) {
            const bpe_entry *entry = &line->entries[k];
            if ((value = bpe_copy_value(to, from, &entry->value)) == 0) continue;
            bpe_copy_word(to, BPE_GET(entry->lo), BPE_GET(entry->hi), value);
        }
    }
    for (size_t i = 0; i <= from->long_words_mask; i++) {
        const bpe_long_word *entry = &from->long_words[i];
        if ((value = bpe_copy_value(to, from, &entry->value)) == 0) continue;
        bpe_enter_long(to, from->long_bytes + BPE_GET(entry->offset), BPE_GET(entry->size), BPE_GET(entry->hash), value);
    }
}

static inline int bpe_get_state(const bpe_words *words) { return BPE_GET(*words->state); }

/* Change the state from `old`; False if it was another, so that one of several threads succeeds. */
static inline int bpe_change_state(bpe_words *words, int old, int state) {
    return __atomic_compare_exchange_n(words->state, &old, state, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Whether there is room for another word; if not, the word is rejected. */
static inline int bpe_has_capacity(bpe_words *words) {
    if (BPE_GET(words->n_entries) < words->max_entries && BPE_GET(words->n_long_words) < words->max_long_words &&
        BPE_GET(words->n_long_bytes) < words->max_long_bytes && BPE_GET(words->n_spilled) < words->max_spilled)
        return 1;
    if (BPE_ADD(words->n_rejected, 1) >= words->max_rejected) bpe_change_state(words, BPE_CURRENT, BPE_EXHAUSTED);
    return 0;
}

#endif
