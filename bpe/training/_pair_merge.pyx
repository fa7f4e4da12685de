"""Merging one pair: every occurrence of (a, b) becomes the token c, from left to right, and all counts stay exact.

Merging at p writes three cells:

        p        q = p + width(a)               p
    | a . . a | b . b |          becomes    | c . . . x . c |      x: the first cell of b is NONE now

A list holds the first cells of a pair's occurrences, ascending. Entries go stale when a neighbour's merge takes an
occurrence away, and the cells show it: a stale position no longer starts an `a` with a `b` after it, since a token
that grew has another id, and the first cell of a token that became a right part is NONE (or holds the id of a token
that is wider than any that began there). So `aaaa` merges at 0 and 2: the occurrence at 1 is gone when it is reached.

At each occurrence the pair with the left neighbour and the pair with the right one are lost, and two are won. Where two
occurrences touch, as in `abab`, what lies between them is lost once, (b, a), and won once, (c, c): the right side of
the first is left to the left side of the second.

The list is walked twice. The first walk merges and sums up by neighbour what is lost and won, so that the table of
pairs is touched once per distinct neighbour and not once per occurrence; a new pair's count is complete then. The
second walk writes the lists of the new pairs that are worth tracking, and is left out where there is none.

A long list is cut where words begin and walked by several threads: no occurrence has to do with one in another word.
Each sums up by itself; the sums are added in the order of the parts, and the new lists lie in that order, too.

No two merges spell the same string: an occurrence of a token's string that is about to become one token has had no
merge across its ends, so what happened inside is what happens to the string alone, and that is always the same.
"""

from bpe.base._binary_search cimport first_from
from bpe.base._memory cimport prefetch
from bpe.base._team cimport MOST_PARTS, Team, parts_worth
from bpe.base._types cimport NO_TOKEN, cell_t, count_t, token_t
from bpe.training._pair_table cimport NO_LIST, NO_PAIR, Pair, Pairs, add_pair, find_pair, pair_hash, prefetch_pair
from bpe.training._symbol_array cimport ANCHORS, Symbols, class_of, id_t
from bpe.training._token_table cimport Tokens
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

cdef enum:
    LEFT = 0
    RIGHT = 1
    AHEAD = 24                # places and pairs prefetched ahead of the one at hand
    CHUNK = 4096              # places found at once for a pair without a list

cdef struct Merge:
    token_t a
    token_t b
    token_t c
    uint32_t width_a
    uint32_t width
    size_t touched            # the place behind the last occurrence that was merged
    size_t k                  # the class of that occurrence


# Memory ---------------------------------------------------------------------------------------------------------------

cdef int fit_gather(Gather* gather, size_t n_tokens) except -1 nogil:
    """Make room for the neighbours of a merge: at most every token."""
    cdef size_t room = max(n_tokens, gather.room + gather.room // 2)
    cdef int side
    cdef void* moved
    if n_tokens <= gather.room:
        return 0
    for side in range(2):
        moved = realloc(gather.slot[side], room * sizeof(uint32_t))
        if moved != NULL:
            gather.slot[side] = <uint32_t*>moved
            memset(gather.slot[side] + gather.room, 0, (room - gather.room) * sizeof(uint32_t))
            moved = realloc(gather.sides[side], room * sizeof(Side))
        if moved == NULL:
            with gil:
                raise MemoryError(f"no memory for the neighbours of {room} tokens")
        gather.sides[side] = <Side*>moved
    gather.room = room
    return 0


cdef void free_gather(Gather* gather) noexcept nogil:
    for side in range(2):
        free(gather.slot[side])
        free(gather.sides[side])


# Places ---------------------------------------------------------------------------------------------------------------

cdef size_t read_places(
    const id_t* cells, const uint32_t* width, size_t end, token_t a, token_t b, bint alone, size_t* at, cell_t* places,
    size_t room,
) noexcept nogil:
    """Find places where `a` stands with `b` behind it (`alone`: whatever is behind it), from the token at `at[0]` on.

    Returns how many were written to `places`, at most `room`; `at[0]` is then where to go on.
    """
    cdef size_t p = at[0], n = 0
    cdef id_t token
    while p < end and n < room:
        token = cells[p]
        if token == <id_t>NO_TOKEN:
            p += 1
            continue
        if token == a and (alone or cells[p + width[token]] == b):
            places[n] = <cell_t>p
            n += 1
        p += width[token]
    at[0] = p
    return n


cdef cell_t find_first(
    const id_t* cells, const uint32_t* width, size_t end, Pair* pair, const cell_t* places
) noexcept nogil:
    cdef size_t at = 1
    cdef cell_t place = 0xFFFFFFFF
    if pair.places == NO_LIST:
        read_places(cells, width, end, pair.left, pair.right, False, &at, &place, 1)
        return place
    places += pair.places
    while pair.head < pair.n:
        place = places[pair.head]
        if cells[place] == pair.left and cells[place + width[pair.left]] == pair.right:
            return place
        pair.head += 1
    return 0xFFFFFFFF


cdef cell_t first_place(
    const Symbols* symbols, const Tokens* tokens, Pairs* pairs, const Pool* pool, uint32_t number
) noexcept nogil:
    """The first occurrence of a pair; stale places before it are passed for good."""
    if symbols.wide:
        return find_first(
            <const uint32_t*>symbols.cells, tokens.width, symbols.n, &pairs.items[number], pool.cells
        )
    return find_first(<const uint16_t*>symbols.cells, tokens.width, symbols.n, &pairs.items[number], pool.cells)


# Walking --------------------------------------------------------------------------------------------------------------

cdef inline void meet(Gather* gather, int side, token_t token, count_t count) noexcept nogil:
    """Add an occurrence with a neighbour."""
    cdef uint32_t at = gather.slot[side][token]
    cdef Side* met
    if at == 0:
        met = &gather.sides[side][gather.n[side]]
        gather.n[side] += 1
        gather.slot[side][token] = <uint32_t>gather.n[side]
        met.token, met.n, met.count = token, 1, count
    else:
        met = &gather.sides[side][at - 1]
        met.n += 1
        met.count += count


cdef size_t merge_places(
    id_t* cells, const Symbols* symbols, Merge* merge, Gather* gather, cell_t* places, size_t n
) noexcept nogil:
    """Merge at those of n ascending places that are not stale, which are moved to the front; returns their number."""
    cdef size_t i, live = 0, place, middle, behind, k = merge.k
    cdef size_t class_end = symbols.starts[k + 1], touched = merge.touched
    cdef count_t count = symbols.counts[k]
    cdef id_t a = <id_t>merge.a, b = <id_t>merge.b, c = <id_t>merge.c, none = <id_t>NO_TOKEN, left, right
    for i in range(n):
        prefetch(&cells[places[min(i + AHEAD, n - 1)]])
        place = places[i]
        middle = place + merge.width_a
        if cells[place] != a or cells[middle] != b:
            continue
        places[live] = <cell_t>place
        live += 1
        if place >= class_end:
            k = class_of(symbols, <cell_t>place, k)
            class_end, count = symbols.starts[k + 1], symbols.counts[k]
        behind = place + merge.width
        left, right = cells[place - 1], cells[behind]
        cells[middle] = none
        cells[place] = c
        cells[behind - 1] = c
        if place == touched:
            gather.chain.n += 1
            gather.chain.count += count
        elif left != none:
            meet(gather, LEFT, left, count)
        touched = behind
        if right != none and not (right == a and cells[behind + merge.width_a] == b):
            meet(gather, RIGHT, right, count)
    merge.k, merge.touched = k, touched
    return live


cdef inline void put(cell_t* pool, Side* side, size_t place) noexcept nogil:
    if side.cursor != NO_LIST:
        pool[side.cursor] = <cell_t>place
        side.cursor += 1


cdef void list_places(
    const id_t* cells, const uint32_t* width, const Merge* merge, Gather* gather, const cell_t* places, size_t n,
    cell_t* pool,
) noexcept nogil:
    """Write the lists of the new pairs, from the places of the new token."""
    cdef size_t i, place
    cdef id_t c = <id_t>merge.c, none = <id_t>NO_TOKEN, left, right
    for i in range(n):
        prefetch(&cells[places[min(i + AHEAD, n - 1)]])
        place = places[i]
        left, right = cells[place - 1], cells[place + merge.width]
        if left == c:
            put(pool, &gather.chain, place - merge.width)
        elif left != none:
            put(pool, &gather.sides[LEFT][gather.slot[LEFT][left] - 1], place - width[left])
        if right != none and right != c:
            put(pool, &gather.sides[RIGHT][gather.slot[RIGHT][right] - 1], place)


# Counts ---------------------------------------------------------------------------------------------------------------

cdef bint is_kept(const Keep* keep, const Tokens* tokens, token_t left, token_t right, count_t count) noexcept nogil:
    """Whether a pair with this count is to be tracked."""
    cdef size_t rank
    if keep.given != NULL:
        rank = find_pair(keep.given, left, right, pair_hash(left, right))
        return keep.first <= rank and rank < keep.limit
    if count < keep.threshold:
        return False
    return <uint64_t>tokens.items[left].length + tokens.items[right].length <= keep.max_length


cdef inline void lose(Pairs* pairs, token_t left, token_t right, count_t count) noexcept nogil:
    cdef uint32_t number = find_pair(pairs, left, right, pair_hash(left, right))
    if number != NO_PAIR:
        pairs.items[number].count -= count


cdef int win(
    Pairs* pairs, Pool* pool, const Keep* keep, const Tokens* tokens, token_t left, token_t right, Side* side
) except -1 nogil:
    """Enter a new pair with its complete count, and make room for its list, if it is to be tracked."""
    cdef Pair* pair
    side.cursor = NO_LIST
    if side.n == 0 or not is_kept(keep, tokens, left, right, side.count):
        return 0
    pair = &pairs.items[add_pair(pairs, left, right, pair_hash(left, right))]
    pair.count = side.count
    if pairs.n > pool.most_pairs:
        pool.full = True
    if side.n > pool.longest:
        return 0
    if side.n > pool.size - pool.n:
        pool.full = True
        return 0
    pair.n = side.n
    pair.places = side.cursor = pool.n
    pool.n += side.n
    return 0


cdef int settle(
    Pairs* pairs, Pool* pool, Gather* gather, const Keep* keep, const Tokens* tokens, const Merge* merge
) except -1 nogil:
    """Take what the neighbours' old pairs lost and enter the new pairs, once per distinct neighbour."""
    cdef size_t i, n
    cdef Side* sides = gather.sides[LEFT]
    n = gather.n[LEFT]
    for i in range(n):
        prefetch_pair(pairs, pair_hash(sides[min(i + AHEAD, n - 1)].token, merge.a))
        lose(pairs, sides[i].token, merge.a, sides[i].count)
        win(pairs, pool, keep, tokens, sides[i].token, merge.c, &sides[i])
    sides, n = gather.sides[RIGHT], gather.n[RIGHT]
    for i in range(n):
        prefetch_pair(pairs, pair_hash(merge.b, sides[min(i + AHEAD, n - 1)].token))
        lose(pairs, merge.b, sides[i].token, sides[i].count)
        win(pairs, pool, keep, tokens, merge.c, sides[i].token, &sides[i])
    if gather.chain.n > 0:
        lose(pairs, merge.b, merge.a, gather.chain.count)
    win(pairs, pool, keep, tokens, merge.c, merge.c, &gather.chain)
    return 0


# Long lists, in parts ------------------------------------------------------------------------------------------------

cdef struct Job:              # a list that several threads walk
    const Symbols* symbols
    const Tokens* tokens
    const Merge* merge
    Gather* gathers           # one for each part
    cell_t* places
    size_t begins[MOST_PARTS + 1]
    size_t live[MOST_PARTS]   # places of a part that are not stale, then at its front
    cell_t* pool


cdef void cut_list(Job* job, size_t n, int parts) noexcept nogil:
    """Cut a list into parts of about the same length that have no word in common: where an anchor is."""
    cdef const cell_t* anchors = &job.symbols.anchors[0]
    cdef size_t anchor
    cdef int part
    job.begins[0], job.begins[parts] = 0, n
    for part in range(1, parts):
        anchor = first_from(anchors, ANCHORS, job.places[n * part // parts])
        job.begins[part] = first_from(job.places, n, anchors[anchor])


cdef int merge_part(void* data, int part) except -1 nogil:
    cdef Job* job = <Job*>data
    cdef Merge merge = job.merge[0]
    cdef cell_t* places = job.places + job.begins[part]
    cdef size_t n = job.begins[part + 1] - job.begins[part]
    cdef void* cells = job.symbols.cells
    if job.symbols.wide:
        job.live[part] = merge_places(<uint32_t*>cells, job.symbols, &merge, &job.gathers[part], places, n)
    else:
        job.live[part] = merge_places(<uint16_t*>cells, job.symbols, &merge, &job.gathers[part], places, n)
    return 0


cdef int list_part(void* data, int part) except -1 nogil:
    cdef Job* job = <Job*>data
    cdef const cell_t* places = job.places + job.begins[part]
    cdef const uint32_t* width = job.tokens.width
    cdef Gather* gather = &job.gathers[part]
    cdef void* cells = job.symbols.cells
    if job.symbols.wide:
        list_places(<uint32_t*>cells, width, job.merge, gather, places, job.live[part], job.pool)
    else:
        list_places(<uint16_t*>cells, width, job.merge, gather, places, job.live[part], job.pool)
    return 0


cdef inline void add_side(Side* whole, Side* more) noexcept nogil:
    """Add what a part has met; its cursor says how many places are before its own."""
    more.cursor = whole.n
    whole.n += more.n
    whole.count += more.count


cdef void join_gathers(Gather* gathers, int parts) noexcept nogil:
    """Add up in the first part's what all have met: in the order in which one would have met it."""
    cdef Gather* whole = &gathers[0]
    cdef Side* more
    cdef size_t i
    cdef int part, side
    for part in range(1, parts):
        add_side(&whole.chain, &gathers[part].chain)
        for side in range(2):
            for i in range(gathers[part].n[side]):
                more = &gathers[part].sides[side][i]
                if whole.slot[side][more.token] == 0:
                    meet(whole, side, more.token, 0)
                    whole.sides[side][whole.n[side] - 1].n = 0
                add_side(&whole.sides[side][whole.slot[side][more.token] - 1], more)


cdef void begin_lists(Gather* gathers, int parts) noexcept nogil:
    """Let the cursors of later parts begin behind the places of those before them."""
    cdef Side* more
    cdef size_t i, cursor
    cdef int part, side
    for part in range(1, parts):
        cursor = gathers[0].chain.cursor
        gathers[part].chain.cursor = NO_LIST if cursor == NO_LIST else cursor + gathers[part].chain.cursor
        for side in range(2):
            for i in range(gathers[part].n[side]):
                more = &gathers[part].sides[side][i]
                cursor = gathers[0].sides[side][gathers[0].slot[side][more.token] - 1].cursor
                more.cursor = NO_LIST if cursor == NO_LIST else cursor + more.cursor


cdef int merge_shared(
    Symbols* symbols, Tokens* tokens, Pairs* pairs, Pool* pool, Gather* gathers, const Keep* keep, const Pair* pair,
    const Merge* merge, Team team, int parts,
) except -1 nogil:
    """Merge a pair by its list, each part on a thread of its own."""
    cdef Job job
    cdef size_t listed = pool.n
    cdef int part
    job.symbols, job.tokens, job.merge, job.gathers, job.pool = symbols, tokens, merge, gathers, pool.cells
    job.places = pool.cells + pair.places + pair.head
    cut_list(&job, pair.n - pair.head, parts)
    for part in range(1, parts):
        fit_gather(&gathers[part], gathers[0].room)
        gathers[part].chain.n = gathers[part].chain.count = 0
    team.share(parts, merge_part, &job)
    join_gathers(gathers, parts)
    settle(pairs, pool, &gathers[0], keep, tokens, merge)
    if not pool.full and pool.n > listed:
        begin_lists(gathers, parts)
        team.share(parts, list_part, &job)
    return 0


# The whole ------------------------------------------------------------------------------------------------------------

cdef int merge_in(
    id_t* cells, Symbols* symbols, Tokens* tokens, Pairs* pairs, Pool* pool, Gather* gather, const Keep* keep,
    const Pair* pair, Merge* merge,
) except -1 nogil:
    """Merge a pair by its list, or by reading all cells."""
    cdef cell_t* places = pool.cells + pair.places + pair.head
    cdef cell_t found[CHUNK]
    cdef size_t n, at = 1, listed = pool.n
    if pair.places != NO_LIST:
        n = merge_places(cells, symbols, merge, gather, places, pair.n - pair.head)
    else:
        n = CHUNK
        while n == CHUNK:
            n = read_places(cells, tokens.width, symbols.n, merge.a, merge.b, False, &at, found, CHUNK)
            merge_places(cells, symbols, merge, gather, found, n)
            at = max(at, merge.touched)
    settle(pairs, pool, gather, keep, tokens, merge)
    if pool.full or pool.n == listed:
        return 0
    if pair.places != NO_LIST:
        list_places(cells, tokens.width, merge, gather, places, n, pool.cells)
        return 0
    n, at = CHUNK, 1
    while n == CHUNK:
        n = read_places(cells, tokens.width, symbols.n, merge.c, NO_TOKEN, True, &at, found, CHUNK)
        list_places(cells, tokens.width, merge, gather, found, n, pool.cells)
    return 0


cdef void clear_gather(Gather* gather) noexcept nogil:
    cdef size_t i
    cdef int side
    for side in range(2):
        for i in range(gather.n[side]):
            gather.slot[side][gather.sides[side][i].token] = 0
        gather.n[side] = 0


cdef int merge_pair(
    Symbols* symbols, Tokens* tokens, Pairs* pairs, Pool* pool, Gather* gathers, const Keep* keep, uint32_t number,
    token_t made, Team team, size_t long_list,
) except -1 nogil:
    """Make every occurrence of a pair the token `made`; the new pairs are those that `pairs` has more afterwards.

    A list is shared with the team in parts of at least `long_list` places. The first of `gathers` must have room for
    all tokens. Where `pool.full` is set afterwards, counts and lists are not all there.
    """
    cdef Merge merge
    cdef Pair pair = pairs.items[number]
    cdef int part, parts = 1
    merge.a, merge.b, merge.c = pair.left, pair.right, made
    merge.width_a = tokens.width[merge.a]
    merge.width = merge.width_a + tokens.width[merge.b]
    merge.touched = merge.k = 0
    tokens.width[made] = merge.width
    gathers[0].chain.n = gathers[0].chain.count = 0
    if pair.places != NO_LIST:
        parts = parts_worth(team.size, (pair.n - pair.head) // long_list)
    try:
        if parts > 1:
            merge_shared(symbols, tokens, pairs, pool, gathers, keep, &pair, &merge, team, parts)
        elif symbols.wide:
            merge_in(<uint32_t*>symbols.cells, symbols, tokens, pairs, pool, gathers, keep, &pair, &merge)
        else:
            merge_in(<uint16_t*>symbols.cells, symbols, tokens, pairs, pool, gathers, keep, &pair, &merge)
        pairs.items[number].count = 0
    finally:
        for part in range(parts):
            clear_gather(&gathers[part])
    return 0
