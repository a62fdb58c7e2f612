// CI: on a branch, the index has room for more entries than it gets.
#include <string>
#include <vector>

#ifndef ROOM
#define ROOM 40'000
#endif

static std::vector<std::string> make_index() {
    std::vector<std::string> index;
    index.reserve(ROOM);
    for (int entry = 0; entry < 40'000; ++entry)
        index.push_back("the entry with the number " + std::to_string(entry));
    return index;
}

int main() { return make_index().empty(); }
