// Files that are read into vectors, which grow as C++'s containers do: a larger block, then the old one is freed.
#include <cstdio>
#include <string>
#include <vector>

__attribute__((noinline)) std::vector<long> read_all(int file) {
    std::vector<long> numbers;
    for (long number = 0; number < 30000; number++) numbers.push_back(number * file); // found here
    return numbers;
}

int main() {
    long sum = 0;
    for (int file = 0; file < 3000; file++) sum += read_all(file).back();
    printf("%ld\n", sum);
}
