// Each form of C++'s operators, as often as the first argument says; with a second one, none throws. Prints its own count: allocations, frees, bytes and blocks at the end.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

static long allocations, frees, bytes, blocks;
static void *volatile kept;

static void *count(void *block, long size) {
    allocations++, blocks++, bytes += size;
    return block;
}

static void uncount(long size) { frees++, blocks--, bytes -= size; }

// Deeper on the stack than the call that threw, past what that one had there.
[[gnu::noinline]] static void after_exception() {
    char unused[4096];
    kept = unused;
    kept = count(operator new(70), 70);
}

int main(int number, char **arguments) {
    const std::nothrow_t &nothrow = std::nothrow;
    const auto align = std::align_val_t(64);
    for (int i = 0; i < atoi(arguments[1]); i++) {
        for (int is_freed = 0; is_freed < 2; is_freed++) {
            void *made[] = {
                count(operator new(100), 100), count(operator new[](101), 101),
                count(operator new(102, nothrow), 102), count(operator new[](103, nothrow), 103),
                count(operator new(104, align), 104), count(operator new[](105, align), 105),
                count(operator new(106, align, nothrow), 106), count(operator new[](107, align, nothrow), 107),
                count(operator new(108), 108), count(operator new[](109), 109),
                count(operator new(110, align), 110), count(operator new[](111, align), 111),
            };
            for (void *block : made) {
                if (((uintptr_t)block & 15) != 0) return 2;
                kept = block;
            }
            if (!is_freed) continue;
            operator delete(made[0]), operator delete[](made[1]);
            operator delete(made[2], nothrow), operator delete[](made[3], nothrow);
            operator delete(made[4], align), operator delete[](made[5], align);
            operator delete(made[6], align, nothrow), operator delete[](made[7], align, nothrow);
            operator delete(made[8], 108), operator delete[](made[9], 109);
            operator delete(made[10], 110, align), operator delete[](made[11], 111, align);
            for (int size = 100; size < 112; size++) uncount(size);
        }
        operator delete(nullptr);
        if (number == 2) try {
            kept = operator new(PTRDIFF_MAX - 4096L);
            return 3;
        } catch (const std::bad_alloc &) {
            // The exception is a block of the C++ library.
            allocations++, frees++;
            after_exception();
        }
        after_exception();
        if (number == 2 && operator new(PTRDIFF_MAX - 4096L, nothrow) != nullptr) return 4;
    }
    printf("%ld %ld 0 %ld %ld\n", allocations, frees, bytes, blocks);
}
