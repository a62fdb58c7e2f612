// An order book: most orders are cancelled, and those that stay lie all over the memory that they had together.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

struct Note {
    char *text;
};

struct Book {
    std::vector<Note *> stays;
    std::vector<char *> cancelled;

    __attribute__((noinline)) void add(int number) {
        stays.push_back(new Note()); // found here
        stays.back()->text = nullptr;
        (void)number;
    }

    __attribute__((noinline)) void offer(int number) {
        char *text = static_cast<char *>(malloc(1500 + number % 300));
        memset(text, 1, 1500);
        cancelled.push_back(text);
    }

    void cancel_all() {
        for (char *text : cancelled) free(text);
        cancelled.clear();
        cancelled.shrink_to_fit();
    }
};

int main() {
    static Book *book = new Book();
    for (int day = 0; day < 3; day++) {
        for (int number = 0; number < 30000; number++) {
            book->offer(number);
            if (number % 3 == 0) book->add(number);
        }
        book->cancel_all();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    // The book stays open.
    std::this_thread::sleep_for(std::chrono::milliseconds(2000));
    printf("%zu orders\n", book->stays.size());
    fflush(stdout);
    return 0;
}
