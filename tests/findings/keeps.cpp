// An index of documents: the documents are freed, and the entries that stay lie between them. It waits until its input ends, and then
// frees what it has, as programs with destructors do.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <unistd.h>
#include <vector>

struct Entry {
    char title[40];
};

struct Index {
    std::vector<std::unique_ptr<Entry>> entries;

    __attribute__((noinline)) void note(const char *document) {
        entries.push_back(std::make_unique<Entry>()); // found here
        memcpy(entries.back()->title, document, sizeof(Entry::title));
    }
};

__attribute__((noinline)) std::unique_ptr<char[]> read_document(int number) {
    const size_t size = 5000 + number % 1000;
    std::unique_ptr<char[]> document(new char[size]);
    memset(document.get(), 'a' + number % 26, size);
    return document;
}

int main() {
    const auto began = std::chrono::steady_clock::now();
    Index index;
    {
        std::vector<std::unique_ptr<char[]>> documents;
        for (int number = 0; number < 8000; number++) {
            documents.push_back(read_document(number));
            index.note(documents.back().get());
        }
    }
    // Most of its time, it only answers: long enough that its resident memory is read meanwhile. A reading rests for 500
    // times as long as it has taken, which is 1 s on a busy machine.
    std::this_thread::sleep_for(std::max<std::chrono::nanoseconds>(
        std::chrono::seconds(3), 4 * (std::chrono::steady_clock::now() - began)));
    printf("%d\n", getpid());
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
