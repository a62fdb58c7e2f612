// A map that is never pruned, in a static variable: its destructor frees it when the program ends.
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>

struct Answer {
    std::string host, address;
};

struct Resolver {
    std::map<std::string, std::shared_ptr<Answer>> known;

    __attribute__((noinline)) std::shared_ptr<Answer> resolve(const std::string &host) {
        auto &answer = known[host];
        if (!answer) {
            answer = std::make_shared<Answer>();
            answer->host = host + ", which has a long name of its own in this program";
            answer->address = std::string(300, 'a'); // found here
        }
        return answer;
    }
};

static Resolver resolver;

int main() {
    size_t sum = 0;
    for (int number = 0; number < 12000; number++) {
        sum += resolver.resolve("host-" + std::to_string(number) + ".example.org")->address.size();
        if (number % 60 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    printf("%zu\n", sum);
}
