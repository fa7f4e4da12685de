/* Merging a block of low tokens with AVX-512, for sixteen pairs or runs at a time; included by _high_merges.h.
 *
 * Runs are sorted by size and put in groups of sixteen. In a round, each run of a group merges its best pair
 * and lists the new pairs; those of all groups are looked up together. The next round begins by taking the results.
 */
#define BPE_EACH(value) _mm512_set1_epi32((int)(value))

BPE_TARGET_AVX512 static inline __m512i bpe_load_lanes(const uint32_t *from) {
    return _mm512_loadu_si512((const void *)from);
}
BPE_TARGET_AVX512 static inline void bpe_store_lanes(uint32_t *to, __m512i lanes) {
    _mm512_storeu_si512((void *)to, lanes);
}

/* Write the lanes of a mask side by side, and read them back, with APART in the others. */
BPE_TARGET_AVX512 static inline void bpe_pack_lanes(uint32_t *to, __mmask16 mask, __m512i lanes) {
    bpe_store_lanes(to, _mm512_maskz_compress_epi32(mask, lanes));
}
BPE_TARGET_AVX512 static inline __m512i bpe_spread_lanes(const uint32_t *from, __mmask16 mask) {
    return _mm512_mask_expand_epi32(BPE_EACH(BPE_APART), mask, bpe_load_lanes(from));
}
BPE_TARGET_AVX512 static inline size_t bpe_count_lanes(__mmask16 mask) { return (size_t)__builtin_popcount(mask); }

/* The buckets of sixteen pairs, and a mask of the pairs that the filter lets pass. */
BPE_TARGET_AVX512 static inline __mmask16 bpe_filter_lanes(
    const bpe_high_table *table, __m512i left, __m512i right, __m512i *buckets) {
    __m512i hash = _mm512_mullo_epi32(left, BPE_EACH(0x9E3779B1u)), bits;
    hash = _mm512_add_epi32(hash, _mm512_mullo_epi32(right, BPE_EACH(0x85EBCA6Bu)));
    hash = _mm512_xor_si512(hash, _mm512_srli_epi32(hash, 15));
    hash = _mm512_mullo_epi32(hash, BPE_EACH(0x2C1B3C6Du));
    bits = _mm512_sllv_epi32(BPE_EACH(1 << 8), _mm512_and_si512(hash, BPE_EACH(15)));
    bits = _mm512_or_si512(
        bits, _mm512_sllv_epi32(BPE_EACH(1 << 24), _mm512_and_si512(_mm512_srli_epi32(hash, 4), BPE_EACH(7))));
    hash = _mm512_srl_epi32(hash, _mm_cvtsi32_si128(table->bucket_shift));
    *buckets = _mm512_i32gather_epi32(hash, (const void *)table->buckets, 4);
    return _mm512_cmpeq_epi32_mask(_mm512_and_si512(*buckets, bits), bits);
}
/* Put the slots of sixteen pairs in place of their buckets. */
BPE_TARGET_AVX512 static inline void bpe_slot_lanes(const bpe_high_table *table, bpe_high_pairs *pairs, size_t at) {
    __m512i pilots = _mm512_and_si512(bpe_load_lanes(pairs->slots + at), BPE_EACH(BPE_PILOTS - 1)), mixed;
    mixed = _mm512_mullo_epi32(bpe_load_lanes(pairs->lefts + at), BPE_EACH(0xC2B2AE3Du));
    mixed = _mm512_mullo_epi32(_mm512_add_epi32(mixed, bpe_load_lanes(pairs->rights + at)), BPE_EACH(0x27D4EB2Fu));
    mixed = _mm512_xor_si512(mixed, _mm512_mullo_epi32(pilots, BPE_EACH(0x165667B1u)));
    mixed = _mm512_xor_si512(mixed, _mm512_srli_epi32(mixed, 15));
    mixed = _mm512_mullo_epi32(mixed, BPE_EACH(0x9E3779B1u));
    bpe_store_lanes(pairs->slots + at, _mm512_srl_epi32(mixed, _mm_cvtsi32_si128(table->slot_shift)));
}

/* The results of n pairs, and of up to 15 more. */
BPE_TARGET_AVX512 static inline void bpe_find_pairs_avx512(
    const bpe_high_table *table, const uint32_t *left, const uint32_t *right, size_t n, bpe_high_pairs *kept,
    uint32_t *results) {
    size_t n_kept = 0, used = 0;
    for (size_t i = 0; i < n; i += BPE_LANES) {
        __m512i lefts = bpe_load_lanes(left + i), rights = bpe_load_lanes(right + i), buckets;
        __mmask16 mask = kept->places[i / BPE_LANES] = bpe_filter_lanes(table, lefts, rights, &buckets);
        bpe_pack_lanes(kept->lefts + n_kept, mask, lefts);
        bpe_pack_lanes(kept->rights + n_kept, mask, rights);
        bpe_pack_lanes(kept->slots + n_kept, mask, buckets);
        n_kept += bpe_count_lanes(mask);
    }
    for (size_t i = 0; i < n_kept; i += BPE_LANES) bpe_slot_lanes(table, kept, i);
    for (size_t i = 0; i < n_kept; i++) __builtin_prefetch(&table->slots[kept->slots[i]]);
    for (size_t i = 0; i < n_kept; i++)
        kept->results[i] = bpe_high_result(table, kept->lefts[i], kept->rights[i], kept->slots[i]);
    for (size_t i = 0; i < n; i += BPE_LANES) {
        bpe_store_lanes(results + i, bpe_spread_lanes(kept->results + used, kept->places[i / BPE_LANES]));
        used += bpe_count_lanes(kept->places[i / BPE_LANES]);
    }
}

/* Number n runs by size. */
static inline void bpe_sort_runs(bpe_high_block *block, size_t n) {
    size_t ends[BPE_MAX_RUN + 2] = {0};
    for (size_t k = 0; k < n; k++) ends[block->sizes[k] + 1]++;
    for (size_t size = 4; size <= BPE_MAX_RUN; size++) ends[size] += ends[size - 1];
    for (size_t k = 0; k < n; k++) block->sorted[ends[block->sizes[k]]++] = (uint16_t)k;
}

/* Put n runs in groups, by size; the number of groups. */
static inline size_t bpe_group_runs(bpe_high_block *block, size_t n) {
    size_t n_groups = 0, row = 0;
    bpe_sort_runs(block, n);
    for (size_t first = 0; first < n; first += BPE_LANES) {
        bpe_high_group *group = &block->groups[n_groups++];
        size_t end = n - first < BPE_LANES ? n : first + BPE_LANES;
        group->row = row;
        group->size = block->sizes[block->sorted[end - 1]];
        for (size_t i = 0; i < BPE_LANES; i++) group->at[i] = BPE_MAX_RUN, group->left[i] = group->right[i] = BPE_HOLE;
        for (size_t k = 0; k <= group->size; k++)
            for (size_t i = 0; i < BPE_LANES; i++)
                block->row_tokens[row + k][i] = BPE_HOLE, block->row_results[row + k][i] = BPE_APART;
        for (size_t i = first; i < end; i++) {
            size_t start = block->starts[block->sorted[i]], size = block->sizes[block->sorted[i]];
            for (size_t k = 0; k < size; k++) {
                BPE_AS_WRITTEN;
                block->row_tokens[row + k][i - first] = block->tokens[start + k];
                block->row_results[row + k][i - first] = block->results[start + k];
            }
        }
        row += group->size + 1;
    }
    return n_groups;
}

/* Write the tokens of n runs in groups back to where they were. */
static inline void bpe_write_groups(bpe_high_block *block, size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t start = block->starts[block->sorted[i]], size = block->sizes[block->sorted[i]];
        size_t row = block->groups[i / BPE_LANES].row;
        for (size_t k = 0; k < size; k++) {
            BPE_AS_WRITTEN;
            block->tokens[start + k] = block->row_tokens[row + k][i % BPE_LANES];
        }
    }
}

/* Take over the results of the pairs that a group's last round made, which come next in `results`; find where each
 * run has its best pair, and what this merges to. */
BPE_TARGET_AVX512 static inline __m512i bpe_best_lanes(
    bpe_high_block *block, const bpe_high_group *group, const uint32_t **results, __m512i *best) {
    __m512i at = BPE_EACH(BPE_MAX_RUN), was_at = bpe_load_lanes(group->at), place = _mm512_setzero_si512();
    __m512i was_before = _mm512_sub_epi32(was_at, BPE_EACH(1)), with_left, with_right;
    __mmask16 has_left = _mm512_cmplt_epu32_mask(bpe_load_lanes(group->left), BPE_EACH(BPE_HOLE));
    __mmask16 has_right = _mm512_cmplt_epu32_mask(bpe_load_lanes(group->right), BPE_EACH(BPE_HOLE));
    with_left = bpe_spread_lanes(*results, has_left);
    *results += bpe_count_lanes(has_left);
    with_right = bpe_spread_lanes(*results, has_right);
    *results += bpe_count_lanes(has_right);
    *best = BPE_EACH(BPE_NEVER);
    for (size_t k = 0; k + 1 < group->size; k++) {
        __m512i result = bpe_load_lanes(block->row_results[group->row + k]);
        __mmask16 better;
        result = _mm512_mask_mov_epi32(result, _mm512_cmpeq_epi32_mask(was_at, place), with_right);
        result = _mm512_mask_mov_epi32(result, _mm512_cmpeq_epi32_mask(was_before, place), with_left);
        bpe_store_lanes(block->row_results[group->row + k], result);
        better = _mm512_cmplt_epu32_mask(result, *best);
        at = _mm512_mask_mov_epi32(at, better, place);
        *best = _mm512_mask_mov_epi32(*best, better, result);
        place = _mm512_add_epi32(place, BPE_EACH(1));
    }
    return at;
}

/* Merge the best pair of each run of a group, and list the new pairs; whether there was any to merge. */
BPE_TARGET_AVX512 static inline int bpe_merge_lanes(
    bpe_high_block *block, bpe_high_group *group, const uint32_t **results, size_t *n_pairs) {
    bpe_high_pairs *pairs = &block->pairs;
    __m512i best, at = bpe_best_lanes(block, group, results, &best), one = BPE_EACH(1), place = _mm512_setzero_si512();
    __m512i before = _mm512_sub_epi32(at, one), after = _mm512_add_epi32(at, one);
    __m512i left = BPE_EACH(BPE_HOLE), right = left;
    __mmask16 has_left, has_right;
    if (!_mm512_cmplt_epu32_mask(best, BPE_EACH(BPE_NEVER))) return 0;
    for (size_t k = 0; k < group->size; k++) {
        uint32_t *tokens = block->row_tokens[group->row + k], *row_results = block->row_results[group->row + k];
        __m512i token = bpe_load_lanes(tokens), next = bpe_load_lanes(tokens + BPE_LANES);
        __mmask16 stays = _mm512_cmplt_epu32_mask(place, at);
        left = _mm512_mask_mov_epi32(left, _mm512_cmpeq_epi32_mask(place, before), token);
        right = _mm512_mask_mov_epi32(right, _mm512_cmpeq_epi32_mask(place, after), next);
        next = _mm512_mask_mov_epi32(next, _mm512_cmpeq_epi32_mask(place, at), best);
        bpe_store_lanes(tokens, _mm512_mask_mov_epi32(next, stays, token));
        next = bpe_load_lanes(row_results + BPE_LANES);
        bpe_store_lanes(row_results, _mm512_mask_mov_epi32(next, stays, bpe_load_lanes(row_results)));
        place = _mm512_add_epi32(place, one);
    }
    has_left = _mm512_cmplt_epu32_mask(left, BPE_EACH(BPE_HOLE));
    has_right = _mm512_cmplt_epu32_mask(right, BPE_EACH(BPE_HOLE));
    bpe_pack_lanes(pairs->lefts + *n_pairs, has_left, left);
    bpe_pack_lanes(pairs->rights + *n_pairs, has_left, best);
    *n_pairs += bpe_count_lanes(has_left);
    bpe_pack_lanes(pairs->lefts + *n_pairs, has_right, best);
    bpe_pack_lanes(pairs->rights + *n_pairs, has_right, right);
    *n_pairs += bpe_count_lanes(has_right);
    bpe_store_lanes(group->at, at);
    bpe_store_lanes(group->left, left);
    bpe_store_lanes(group->right, right);
    group->size--; /* a run that has merged nothing is done, and needs no rows */
    return 1;
}

BPE_TARGET_AVX512 static void bpe_merge_block_avx512(
    const bpe_high_table *table, const uint32_t *low, size_t n, bpe_high_block *block) {
    bpe_high_pairs *pairs = &block->pairs;
    bpe_high_group *groups[BPE_GROUPS];
    size_t n_runs, n_groups;
    memcpy(block->tokens, low, n * sizeof *low);
    memset(block->tokens + n, 0xFF, (BPE_LANES + 1) * sizeof *low);
    bpe_find_pairs_avx512(table, block->tokens, block->tokens + 1, n, &block->kept, block->results);
    memset(block->results + n - 1, 0xFF, 64 * sizeof *low); /* the last token has no next one */
    memset(block->joined, 0, ((n + 63) / 64 + 2) * sizeof *block->joined);
    for (size_t i = 0; i < n; i += BPE_LANES) {
        __mmask16 apart = _mm512_cmpeq_epi32_mask(bpe_load_lanes(block->results + i), BPE_EACH(BPE_APART));
        block->joined[i / 64 + 1] |= (uint64_t)(uint16_t)~apart << i % 64;
    }
    n_runs = bpe_find_runs(block, n);
    n_groups = bpe_group_runs(block, n_runs);
    for (size_t i = 0; i < n_groups; i++) groups[i] = &block->groups[i];
    while (n_groups) {
        const uint32_t *results = pairs->results;
        size_t n_pairs = 0, going_on = 0;
        for (size_t i = 0; i < n_groups; i++) {
            groups[going_on] = groups[i];
            going_on += (size_t)bpe_merge_lanes(block, groups[i], &results, &n_pairs);
        }
        n_groups = going_on;
        bpe_find_pairs_avx512(table, pairs->lefts, pairs->rights, n_pairs, &block->kept, pairs->results);
    }
    bpe_write_groups(block, n_runs);
}

BPE_TARGET_AVX512 static size_t bpe_copy_without_breaks_avx512(const uint32_t *tokens, size_t n, uint32_t *out) {
    size_t written = 0;
    for (size_t i = 0; i < n; i += BPE_LANES) {
        __mmask16 any = n - i < BPE_LANES ? (__mmask16)((1u << (n - i)) - 1) : 0xFFFF;
        __m512i some = _mm512_maskz_loadu_epi32(any, tokens + i);
        any = _mm512_mask_cmpneq_epi32_mask(any, some, BPE_EACH(BPE_HOLE));
        bpe_pack_lanes(out + written, any, some);
        written += bpe_count_lanes(any);
    }
    return written;
}
