// The resident memory stays high: what stays lies between what was freed.
#include <string>
#include <unistd.h>
#include <vector>

struct Book {
    std::vector<std::string *> titles;
    void add(int number) { titles.push_back(new std::string("title " + std::to_string(number))); }
};

int main() {
    Book book;
    std::vector<char *> pages;
    for (int number = 0; number < 20'000; ++number) {
        char *page = new char[4096];
        for (int byte = 0; byte < 4096; byte += 512)
            page[byte] = 1;
        pages.push_back(page);
        book.add(number);
    }
    for (char *page : pages)
        delete[] page;
    usleep(300'000); // serves readers
    return book.titles.empty();
}
