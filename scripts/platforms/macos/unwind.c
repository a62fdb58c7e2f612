// How exceptions find their way through the program: libgcc's functions are used, which know tables of DWARF
// only. The program has compact encodings (`__unwind_info`, described in mach-o/compact_unwind_encoding.h),
// of which one table of DWARF is made here. For functions that have one of DWARF (`__eh_frame`), the
// instructions are those of that.
//
// NOTE: two tables would not do. libgcc looks into one of those that it is given only, by the least address
// in each.
#include "loader.h"
#include <sys/mman.h>

void __register_frame(const void *eh_frame);

static uint8_t *at;

static void put8(uint8_t value) { *at++ = value; }
static void put32(uint32_t value) { memcpy(at, &value, 4), at += 4; }
static void put64(uint64_t value) { memcpy(at, &value, 8), at += 8; }
static void put_uleb(uint32_t value) {
    while (value >= 0x80) put8(value | 0x80), value >>= 7;
    put8(value);
}
// Sets the length of what starts at `start`, filled up to 8 bytes.
static void end_entry(uint8_t *start) {
    while ((at - start - 4) % 8 != 4) put8(0);
    uint32_t bytes = at - start - 4;
    memcpy(start, &bytes, 4);
}

enum { RBP = 6, RSP = 7, RETURN = 16 };
// DWARF's numbers of rbx, r12, r13, r14, r15 and rbp, in the order of compact encodings, which begins at 1.
static const uint8_t dwarf[] = {0, 3, 12, 13, 14, 15, RBP};

static void is_cfa(uint8_t base, uint32_t offset) { put8(0x0c), put_uleb(base), put_uleb(offset); }
// A register's value is this many words below the CFA.
static void is_below(uint8_t number, uint32_t words) { put8(0x80 | number), put_uleb(words); }

// A CIE: absolute addresses, and the personality, if there is one.
static uint8_t *put_cie(uint64_t personality) {
    uint8_t *start = at;
    put32(0), put32(0), put8(1);
    const char *augmentation = personality ? "zPLR" : "zR";
    memcpy(at, augmentation, strlen(augmentation) + 1), at += strlen(augmentation) + 1;
    put_uleb(1), put8(0x78), put8(RETURN);
    if (personality) put_uleb(11), put8(0), put64(personality), put8(0), put8(0);
    else put_uleb(1), put8(0);
    end_entry(start);
    return start;
}

// Registers that are saved in a frame with rbp, from `offset` words below it upwards.
static void put_rbp_frame(uint32_t encoding) {
    uint32_t offset = encoding >> 16 & 0xff, registers = encoding & 0x7fff;
    is_cfa(RBP, 16), is_below(RBP, 2), is_below(RETURN, 1);
    for (uint32_t i = 0; i < 5; i++, registers >>= 3)
        if ((registers & 7) && (registers & 7) < 6) is_below(dwarf[registers & 7], 2 + offset - i);
}

// A frame without rbp. The registers' order is the number of a permutation.
static void put_frameless(uint32_t encoding, const uint8_t *function, bool is_indirect) {
    uint32_t size = encoding >> 16 & 0xff, adjust = encoding >> 13 & 7, count = encoding >> 10 & 7;
    uint32_t permutation = encoding & 0x3ff, words = size;
    if (is_indirect) {
        // The size is in the instruction that subtracts it, at this offset in the function.
        uint32_t bytes;
        memcpy(&bytes, function + size, 4);
        words = bytes / 8 + adjust;
    }
    is_cfa(RSP, words * 8), is_below(RETURN, 1);
    bool used[7] = {false};
    // A digit is the position among the registers that are left, so its base falls by one with each. The last
    // is lowest.
    uint32_t digits[6];
    for (uint32_t i = count; i-- > 0; permutation /= 6 - i) digits[i] = permutation % (6 - i);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = 1;
        for (uint32_t skip = digits[i];; number++) {
            if (used[number]) continue;
            if (skip-- == 0) break;
        }
        used[number] = true;
        is_below(dwarf[number], 1 + count - i);
    }
}

static uint64_t get_uleb(const uint8_t **from) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        value |= (uint64_t)(**from & 0x7f) << shift;
        if (!(*(*from)++ & 0x80)) return value;
    }
}
static uint64_t get64(const uint8_t **from) {
    uint64_t value;
    memcpy(&value, *from, 8), *from += 8;
    return value;
}

// A table of DWARF, with what a compiler for x86-64 writes in it: addresses that are relative to their place.
struct old { const uint8_t *lsda, *code, *end; uint64_t personality; };
static struct old read_old(const uint8_t *entry) {
    struct old old = {0};
    uint32_t bytes, back;
    memcpy(&bytes, entry, 4), memcpy(&back, entry + 4, 4);
    const uint8_t *cie = entry + 4 - back + 8, *at = entry + 8;
    old.end = entry + 4 + bytes;
    const char *augmentation = (const char *)cie + 1;
    cie += 1 + strlen(augmentation) + 1;
    if (get_uleb(&cie) != 1 || *cie++ != 0x78 || *cie++ != RETURN) fail("a CIE that is not known here", augmentation);
    at += 16;
    const uint8_t *data = at + 1;
    uint64_t data_bytes = get_uleb(&at);
    old.code = at + data_bytes;
    get_uleb(&cie);
    for (const char *what = augmentation + 1; *what; what++) {
        int32_t offset;
        switch (*what) {
        case 'P':
            // 0x9b: where the address is, in 4 bytes.
            if (*cie++ != 0x9b) fail("a personality that is not known here", NULL);
            memcpy(&offset, cie, 4);
            old.personality = *(uint64_t *)(cie + offset);
            cie += 4;
            break;
        case 'L':
        case 'R':
            if (*cie++ != 0x10) fail("an encoding that is not known here", NULL);
            const uint8_t *here = data;
            if (*what == 'L') old.lsda = here + get64(&data);
            if (*what == 'L' && old.lsda == here) old.lsda = NULL;
        }
    }
    return old;
}

static uint64_t personalities[4];
static uint8_t *cies[4];
static int cie_count;
static uint8_t *cie_of(uint64_t personality) {
    for (int i = 0; i < cie_count; i++)
        if (personalities[i] == personality) return cies[i];
    if (cie_count == 4) fail("more than three personalities", NULL);
    personalities[cie_count] = personality;
    return cies[cie_count++] = put_cie(personality);
}

static const uint8_t *eh_frame;

// What a function, from `start` to `end`, has in the table.
static void put_fde(uint32_t encoding, const uint8_t *start, const uint8_t *end, const uint8_t *lsda, uint64_t personality) {
    uint32_t mode = encoding >> 24 & 15;
    // Where there is nothing, nothing goes through.
    if (mode < 1 || mode > 4) return;
    struct old old = {.personality = personality, .lsda = lsda};
    if (mode == 4) old = read_old(eh_frame + (encoding & 0xffffff));
    uint8_t *cie = cie_of(old.personality), *entry = at;
    put32(0), put32(at - cie), put64((uint64_t)start), put64(end - start);
    if (old.personality) put_uleb(8), put64((uint64_t)old.lsda);
    else put_uleb(0);
    if (mode == 1) put_rbp_frame(encoding);
    else if (mode < 4) put_frameless(encoding, start, mode == 3);
    else {
        // At its start, each function has its return address only.
        is_cfa(RSP, 8), is_below(RETURN, 1);
        memcpy(at, old.code, old.end - old.code), at += old.end - old.code;
    }
    end_entry(entry);
}

struct info { uint32_t version, encodings, encoding_count, personalities, personality_count, index, index_count; };
struct index { uint32_t function, page, lsda; };
struct lsda { uint32_t function, lsda; };

static const uint8_t *text;
static uint64_t known[4];
static const struct lsda *lsdas, *lsda_end;

static void put_function(uint32_t encoding, uint32_t start, uint32_t end) {
    const uint8_t *lsda = NULL;
    if (encoding & 0x40000000) {
        // In the order of their functions, as these are visited.
        while (lsdas < lsda_end && lsdas->function < start) lsdas++;
        if (lsdas < lsda_end && lsdas->function == start) lsda = text + lsdas->lsda;
    }
    put_fde(encoding, text + start, text + end, lsda, known[encoding >> 28 & 3]);
}

static void put_page(const struct info *info, const struct index *index) {
    const uint8_t *page = (const uint8_t *)info + index->page;
    const uint32_t *common = (const void *)((const uint8_t *)info + info->encodings);
    uint32_t kind;
    uint16_t at_entries, count, at_encodings;
    memcpy(&kind, page, 4), memcpy(&at_entries, page + 4, 2), memcpy(&count, page + 6, 2);
    memcpy(&at_encodings, page + 8, 2);
    for (uint32_t i = 0; i < count; i++) {
        if (kind == 2) {
            const struct { uint32_t function, encoding; } *entries = (const void *)(page + at_entries);
            uint32_t end = i + 1 < count ? entries[i + 1].function : index[1].function;
            put_function(entries[i].encoding, entries[i].function, end);
        } else if (kind == 3) {
            const uint32_t *entries = (const void *)(page + at_entries), *own = (const void *)(page + at_encodings);
            uint32_t start = index->function + (entries[i] & 0xffffff), number = entries[i] >> 24;
            uint32_t end = i + 1 < count ? index->function + (entries[i + 1] & 0xffffff) : index[1].function;
            uint32_t encoding = number < info->encoding_count ? common[number] : own[number - info->encoding_count];
            put_function(encoding, start, end);
        }
    }
}

void add_unwind_tables(const uint8_t *header, const uint8_t *unwind_info, const uint8_t *of_dwarf) {
    if (!unwind_info) return;
    const struct info *info = (const void *)unwind_info;
    const struct index *index = (const void *)(unwind_info + info->index);
    const uint32_t *places = (const void *)(unwind_info + info->personalities);
    text = header;
    eh_frame = of_dwarf;
    // What is not used takes no memory.
    at = mmap(NULL, 1ul << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const uint8_t *table = at;
    for (uint32_t i = 0; i < info->personality_count; i++) known[i + 1] = *(uint64_t *)(header + places[i]);
    lsdas = (const void *)(unwind_info + index[0].lsda);
    lsda_end = (const void *)(unwind_info + index[info->index_count - 1].lsda);
    for (uint32_t i = 0; i + 1 < info->index_count; i++)
        if (index[i].page) put_page(info, index + i);
    // Ends with an empty entry.
    put32(0);
    __register_frame(table);
}
