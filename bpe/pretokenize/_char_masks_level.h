/* The classifying functions for vectors of one size; _char_masks.h includes this file once for each.
 *
 * Before, it defines LEVEL(name) (the function's declaration with its target), V (a vector of bytes) and BITS(mask)
 * (the result of a comparison as an integer).
 */
#define AT(p) (*(const V *)(p))
#define IN(v, low, span) ((v) - (uint8_t)(low) < (uint8_t)(span))
#define IS(v, c) ((v) == (uint8_t)(c))

LEVEL(ascii)(const uint8_t *text, bpe_masks *out) {
    memset(out, 0, sizeof *out);
    for (size_t at = 0; at < 64; at += sizeof(V)) {
        V v = AT(text + at);
        out->letter |= BITS(IN(v | (uint8_t)0x20, 'a', 26)) << at;
        out->upper |= BITS(IN(v, 'A', 26)) << at;
        out->number |= BITS(IN(v, '0', 10)) << at;
        out->space |= BITS(IS(v, ' ') | IN(v, 9, 5)) << at;
        out->newline |= BITS(IS(v, 10) | IS(v, 13)) << at;
        out->blank |= BITS(IS(v, ' ')) << at;
        out->apostrophe |= BITS(IS(v, '\'')) << at;
        out->slash |= BITS(IS(v, '/')) << at;
        out->lead |= BITS(IN(v, 0xC0, 64)) << at;
    }
}

LEVEL(wide)(const uint8_t *text, bpe_wide *out) {
    memset(out, 0, sizeof *out);
    for (size_t at = 0; at < 64; at += sizeof(V)) {
        V v = AT(text + at);
        uint64_t second = BITS(IN(AT(text + at + 1), 0x80, 64)), third = BITS(IN(AT(text + at + 2), 0x80, 64));
        out->two |= (BITS(IN(v, 0xC2, 30)) & second) << at;
        out->three |= (BITS(IN(v, 0xE0, 16)) & second & third) << at;
    }
}

LEVEL(endings)(const uint8_t *text, int any_case, bpe_endings *out) {
    uint64_t l = 0, v = 0, e = 0;
    out->one = 0;
    for (size_t at = 0; at < 64; at += sizeof(V)) {
        V c = AT(text + at) | (uint8_t)(any_case ? 0x20 : 0);
        out->one |= BITS(IS(c, 's') | IS(c, 't') | IS(c, 'd') | IS(c, 'm')) << at;
        l |= BITS(IS(c, 'l')) << at;
        v |= BITS(IS(c, 'v') | IS(c, 'r')) << at;
        e |= BITS(IS(c, 'e')) << at;
    }
    out->two = (l & l >> 1) | (v & e >> 1);
}

#undef LEVEL
#undef V
#undef BITS
#undef AT
#undef IN
#undef IS
