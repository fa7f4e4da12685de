/* The classifying functions for one level of vector instructions; _char_masks.h includes this file once for each level.
 *
 * Before, it defines LEVEL(name) (the function's declaration with its target), STEP (bytes per vector), V (the type of a
 * vector, and of a comparison's result), LOAD, SET (a byte in every lane), OR, the comparisons IN(v, low, span)
 * (low <= byte < low + span) and IS(v, byte), and BITS(mask) (a mask as an integer).
 */
LEVEL(ascii)(const uint8_t *text, bpe_masks *out) {
    memset(out, 0, sizeof *out);
    for (int at = 0; at < 64; at += STEP) {
        V v = LOAD(text + at);
        V blank = IS(v, ' ');
        out->letter |= BITS(IN(OR(v, SET(0x20)), 'a', 26)) << at;
        out->upper |= BITS(IN(v, 'A', 26)) << at;
        out->number |= BITS(IN(v, '0', 10)) << at;
        out->space |= BITS(OR(blank, IN(v, 9, 5))) << at;
        out->newline |= BITS(OR(IS(v, 10), IS(v, 13))) << at;
        out->blank |= BITS(blank) << at;
        out->apostrophe |= BITS(IS(v, '\'')) << at;
        out->lead |= BITS(IN(v, 0xC0, 64)) << at;
    }
}

LEVEL(wide)(const uint8_t *text, bpe_wide *out) {
    memset(out, 0, sizeof *out);
    for (int at = 0; at < 64; at += STEP) {
        V v = LOAD(text + at);
        uint64_t second = BITS(IN(LOAD(text + at + 1), 0x80, 64)), third = BITS(IN(LOAD(text + at + 2), 0x80, 64));
        out->two |= (BITS(IN(v, 0xC2, 30)) & second) << at;
        out->three |= (BITS(IN(v, 0xE0, 16)) & second & third) << at;
    }
}

#undef LEVEL
#undef STEP
#undef V
#undef LOAD
#undef SET
#undef OR
#undef IN
#undef IS
#undef BITS
