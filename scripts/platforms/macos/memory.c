// Memory: C's functions, pages, and what the kernel says of them.
#include "loader.h"
#include <malloc.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

// MAP_SHARED, _PRIVATE, _FIXED, _NORESERVE and _ANON. Without a file, the descriptor is a tag (man 2 mmap).
static void *mac_mmap(void *at, size_t bytes, int access, int flags, int descriptor, off_t offset) {
    if (flags & ~0x1053) fail("mmap has a flag that is not known here", NULL);
    // Where Linux takes a length that ends within a page, so does macOS; and none of 0 bytes.
    int to = (flags & 3) | (flags & 0x10 ? MAP_FIXED : 0) | (flags & 0x40 ? MAP_NORESERVE : 0) |
             (flags & 0x1000 ? MAP_ANONYMOUS : 0);
    void *made = mmap(at, bytes, access, to, flags & 0x1000 ? -1 : descriptor, offset);
    if (made == MAP_FAILED) answer(-1);
    return made;
}
static int mac_munmap(void *at, size_t bytes) { return answer(munmap(at, bytes)); }
static int mac_mprotect(void *at, size_t bytes, int access) { return answer(mprotect(at, bytes, access)); }

static void mac_memset_pattern16(void *to, const void *pattern, size_t bytes) {
    for (size_t done = 0; done < bytes; done += 16) memcpy((char *)to + done, pattern, bytes - done < 16 ? bytes - done : 16);
}
static void mac_bzero(void *to, size_t bytes) { memset(to, 0, bytes); }
static int mac_getentropy(void *to, size_t bytes) { return answer(getentropy(to, bytes)); }
static int mac_CCRandomGenerateBytes(void *to, size_t bytes) {
    return getrandom(to, bytes, 0) == (ssize_t)bytes ? 0 : -4300;
}

// Mach ------------------------------------------------------------------------------------------------------

enum { KERN_SUCCESS, KERN_INVALID_ADDRESS, KERN_PROTECTION_FAILURE, KERN_INVALID_ARGUMENT = 4 };
static const uint32_t own_task = 0x103;
static uint32_t mac_mach_task_self(void) { return own_task; }

// What `smaps` has of a mapping.
struct mapping { uint64_t start, end, resident, swapped; char access[8], path[256]; uint64_t inode; };

// All mappings of this process. The list of a thread is read again where it does not go on from where it was:
// reading it takes milliseconds, where XNU takes microseconds for a region.
static __thread struct { struct mapping *list; size_t count, at; uint64_t next; } known;

static void read_mappings(void) {
    FILE *file = fopen("/proc/self/smaps", "re");
    if (!file) fail("cannot read /proc/self/smaps", NULL);
    free(known.list);
    known.list = NULL;
    known.count = known.at = 0;
    size_t room = 0;
    char line[512];
    while (fgets(line, sizeof line, file)) {
        struct mapping next = {0};
        uint64_t kib;
        const char *form = "%lx-%lx %7s %*x %*s %lu %255[^\n]";
        if (sscanf(line, form, &next.start, &next.end, next.access, &next.inode, next.path) >= 4) {
            if (known.count == room) known.list = realloc(known.list, (room = 2 * room + 64) * sizeof next);
            // What Linux maps at the end is none of the process's own.
            if (strcmp(next.path, "[vsyscall]") == 0) break;
            known.list[known.count++] = next;
        } else if (sscanf(line, "Rss: %lu", &kib) == 1) known.list[known.count - 1].resident = kib * 1024;
        else if (sscanf(line, "Swap: %lu", &kib) == 1) known.list[known.count - 1].swapped = kib * 1024;
    }
    fclose(file);
}

// The first mapping whose end is behind an address; false if there is none.
static bool find_mapping(uint64_t address, struct mapping *to) {
    if (address == 0 || address != known.next || !known.list) read_mappings();
    while (known.at < known.count && known.list[known.at].end <= address) known.at++;
    if (known.at == known.count) return false;
    *to = known.list[known.at];
    known.next = to->end;
    return true;
}

// vm_region_extended_info of mach/vm_region.h. A share mode is SM_COW (1), SM_PRIVATE (2), SM_EMPTY (3) or
// SM_SHARED (4).
struct region {
    int access;
    uint32_t tag, resident, shared_now_private, swapped, dirtied, references;
    uint16_t shadows;
    uint8_t is_of_file, share_mode;
    uint32_t reusable;
};
static int mac_mach_vm_region(uint32_t task, uint64_t *at, uint64_t *bytes, int flavor, void *to, uint32_t *count,
                              uint32_t *object) {
    // 13 is VM_REGION_EXTENDED_INFO. xnu, vm_map_region: the count that the caller has must be that of the
    // flavor.
    if (task != own_task || flavor != 13 || *count < sizeof(struct region) / 4) return KERN_INVALID_ARGUMENT;
    struct mapping found;
    if (!find_mapping(*at, &found)) return KERN_INVALID_ADDRESS;
    struct region region = {
        .access = (found.access[0] == 'r') | (found.access[1] == 'w') << 1 | (found.access[2] == 'x') << 2,
        // Of mach/vm_statistics.h: VM_MEMORY_STACK.
        .tag = is_on_stack(found.start) || strcmp(found.path, "[stack]") == 0 ? 30 : 0,
        .resident = found.resident / 4096, .swapped = found.swapped / 4096, .references = 1,
        .is_of_file = found.inode != 0, .share_mode = found.access[3] == 's' ? 4 : found.resident ? 2 : 3};
    *at = found.start, *bytes = found.end - found.start, *object = 0, *count = sizeof region / 4;
    memcpy(to, &region, sizeof region);
    return KERN_SUCCESS;
}

// mach_task_basic_info of mach/task_info.h: 20 is MACH_TASK_BASIC_INFO.
struct task_info { uint64_t bytes, resident, most_resident; int32_t user[2], system[2], policy, suspended; };
// What the loader keeps for debuggers (struct dyld_all_image_infos of mach-o/dyld_images.h), up to its version
// 9. From version 15 on, the loader says where it is itself, which is no file of macOS here.
static struct { const void *header; const char *path; uint64_t changed; } told_images[MAX_IMAGES];
static struct {
    uint32_t version, count;
    const void *images, *notification;
    bool is_detached, has_system;
    const void *others[9];
} image_infos = {.version = 9, .images = told_images, .has_system = true};

static int tell_images(uint64_t *to, uint32_t *count) {
    image_infos.count = image_count;
    for (uint32_t i = 0; i < image_count; i++) told_images[i].header = images[i].header, told_images[i].path = images[i].path;
    // struct task_dyld_info: where it is, its size, and that it is one of 64 bits.
    uint64_t told[] = {(uint64_t)&image_infos, sizeof image_infos, 1};
    memcpy(to, told, 20);
    *count = 5;
    return KERN_SUCCESS;
}

static int mac_task_info(uint32_t task, int flavor, void *to, uint32_t *count) {
    // TASK_DYLD_INFO
    if (task == own_task && flavor == 17 && *count >= 5) return tell_images(to, count);
    if (task != own_task || flavor != 20 || *count < sizeof(struct task_info) / 4) return KERN_INVALID_ARGUMENT;
    struct task_info info = {0};
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%lu %lu", &pages, &resident) != 2) fail("cannot read /proc/self/statm", NULL);
    fclose(file);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    info.bytes = pages * 4096, info.resident = resident * 4096, info.most_resident = usage.ru_maxrss * 1024ul;
    if (info.most_resident < info.resident) info.most_resident = info.resident;
    info.user[0] = usage.ru_utime.tv_sec, info.user[1] = usage.ru_utime.tv_usec;
    info.system[0] = usage.ru_stime.tv_sec, info.system[1] = usage.ru_stime.tv_usec;
    memcpy(to, &info, sizeof info);
    *count = sizeof info / 4;
    return KERN_SUCCESS;
}

// Copies, where all of it can be read; else an error, and no fault.
static int mac_mach_vm_read_overwrite(uint32_t task, uint64_t from, uint64_t bytes, uint64_t to, uint64_t *copied) {
    if (task != own_task) return KERN_INVALID_ARGUMENT;
    struct iovec there = {(void *)from, bytes}, here = {(void *)to, bytes};
    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)bytes) {
        struct mapping found;
        bool is_mapped = find_mapping(from, &found) && found.start <= from && from + bytes <= found.end;
        return is_mapped ? KERN_PROTECTION_FAILURE : KERN_INVALID_ADDRESS;
    }
    *copied = bytes;
    return KERN_SUCCESS;
}

// Zones (man 3 malloc_zone_malloc): there is one.
static void *mac_malloc_default_zone(void) { return (void *)&own_task; }
static void *mac_malloc_zone_malloc(void *zone, size_t bytes) { (void)zone; return malloc(bytes); }
static void *mac_malloc_zone_calloc(void *zone, size_t count, size_t bytes) { (void)zone; return calloc(count, bytes); }
static void *mac_malloc_zone_realloc(void *zone, void *block, size_t bytes) { (void)zone; return realloc(block, bytes); }
static void mac_malloc_zone_free(void *zone, void *block) { (void)zone; free(block); }
static void *mac_malloc_zone_memalign(void *zone, size_t align, size_t bytes) {
    void *block = NULL;
    (void)zone;
    return posix_memalign(&block, align, bytes) ? NULL : block;
}
static void *mac_malloc_zone_valloc(void *zone, size_t bytes) { return mac_malloc_zone_memalign(zone, 4096, bytes); }
static unsigned mac_malloc_zone_batch_malloc(void *zone, size_t bytes, void **to, unsigned count) {
    (void)zone;
    for (unsigned i = 0; i < count; i++) to[i] = malloc(bytes);
    return count;
}
static void mac_malloc_zone_batch_free(void *zone, void **blocks, unsigned count) {
    (void)zone;
    for (unsigned i = 0; i < count; i++) free(blocks[i]);
}
static void *mac_valloc(size_t bytes) { return mac_malloc_zone_valloc(NULL, bytes); }
static void *mac_reallocf(void *block, size_t bytes) {
    void *new = realloc(block, bytes);
    if (!new && bytes) free(block);
    return new;
}
// libmalloc, malloc.c: MZ_C11.
static void *mac_aligned_alloc(size_t align, size_t bytes) {
    void *block = bytes & (align - 1) ? NULL : mac_malloc_zone_memalign(NULL, align, bytes);
    if (!block) refuse(EINVAL);
    return block;
}

const struct function of_memory[] = {
    OURS(mmap), OURS(munmap), OURS(mprotect), {"__bzero", mac_bzero}, OURS(bzero), OURS(memset_pattern16), OURS(getentropy),
    OURS(CCRandomGenerateBytes), {"mach_task_self_", &own_task}, OURS(mach_task_self), OURS(mach_vm_region),
    OURS(task_info), OURS(mach_vm_read_overwrite), SAME(malloc), SAME(calloc), SAME(realloc), SAME(free),
    OURS(malloc_default_zone), OURS(malloc_zone_malloc), OURS(malloc_zone_calloc), OURS(malloc_zone_realloc),
    OURS(malloc_zone_free), OURS(malloc_zone_memalign), OURS(malloc_zone_valloc), OURS(malloc_zone_batch_malloc),
    OURS(malloc_zone_batch_free), OURS(valloc), OURS(reallocf),
    OURS(aligned_alloc),
    // Its errors are ENOMEM and EINVAL, which have the same numbers.
    SAME(posix_memalign), {"malloc_size", malloc_usable_size}, SAME(memcpy), SAME(memmove), SAME(memset), SAME(memcmp),
    SAME(memchr), SAME(strlen), SAME(strcmp), SAME(strncmp), SAME(strchr), SAME(strrchr), SAME(strstr),
    SAME(atoi), SAME(qsort), SAME(snprintf), SAME(exp), SAME(expm1), SAME(fmod), SAME(log), SAME(pow),
    END,
};
