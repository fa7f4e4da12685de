/* The classifying functions for one level of vector instructions; _char_masks.h includes this file once for each level.
 *
 * Before, it defines LEVEL(name) (the function's declaration with its target), BLOCK(name, text) (a variable with 64 bytes
 * in vectors), MASK(test, block) (the bytes that pass a test, as an integer), OR, SET (a byte in every lane), and the
 * comparisons IN(v, low, span) (low <= byte < low + span), IS(v, byte) and TAIL(v) (0x80-0xBF).
 */
#define LETTER(v) IN(OR(v, SET(0x20)), 'a', 26)
#define UPPER(v) IN(v, 'A', 26)
#define NUMBER(v) IN(v, '0', 10)
#define BLANK(v) IS(v, ' ')
#define CONTROL(v) IN(v, 9, 5)
#define NEWLINE(v) OR(IS(v, 10), IS(v, 13))
#define APOSTROPHE(v) IS(v, '\'')
#define LEAD(v) IN(v, 0xC0, 64)
LEVEL(ascii)(const uint8_t *text, bpe_masks *out) {
    BLOCK(block, text);
    memset(out, 0, sizeof *out);
    out->letter = MASK(LETTER, block);
    out->upper = MASK(UPPER, block);
    out->number = MASK(NUMBER, block);
    out->blank = MASK(BLANK, block);
    out->space = MASK(CONTROL, block) | out->blank;
    out->newline = MASK(NEWLINE, block);
    out->apostrophe = MASK(APOSTROPHE, block);
    out->lead = MASK(LEAD, block);
}
#undef LETTER
#undef UPPER
#undef NUMBER
#undef BLANK
#undef CONTROL
#undef NEWLINE
#undef APOSTROPHE
#undef LEAD

#define TWO(v) IN(v, 0xC2, 30)
#define THREE(v) IN(v, 0xE0, 16)
LEVEL(wide)(const uint8_t *text, bpe_wide *out) {
    BLOCK(block, text);
    uint64_t tails = MASK(TAIL, block), next = (text[64] & 0xC0) == 0x80, next_but_one = (text[65] & 0xC0) == 0x80;
    uint64_t second = tails >> 1 | next << 63, third = tails >> 2 | next << 62 | next_but_one << 63;
    out->two = MASK(TWO, block) & second;
    out->three = MASK(THREE, block) & second & third;
}
#undef TWO
#undef THREE

#undef LEVEL
#undef BLOCK
#undef MASK
#undef SET
#undef OR
#undef IN
#undef IS
#undef TAIL
