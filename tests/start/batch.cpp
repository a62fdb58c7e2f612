// The peak is too high: the cleaned lines are live beside the lines.
#include <algorithm>
#include <string>
#include <vector>

using Lines = std::vector<std::string>;

static Lines read_lines() {
    Lines lines;
    for (int number = 0; number < 200'000; ++number)
        lines.push_back("  line " + std::to_string(number) + " of a file, with spaces before it");
    return lines;
}

static Lines clean(const Lines &lines) {
    Lines cleaned;
    cleaned.reserve(lines.size());
    for (const std::string &line : lines)
        cleaned.push_back(line.substr(2));
    return cleaned;
}

int main() {
    Lines cleaned;
    {
        Lines lines = read_lines();
        cleaned = clean(lines);
    }
    std::sort(cleaned.begin(), cleaned.end());
    std::vector<size_t> lengths;
    for (const std::string &line : cleaned)
        lengths.push_back(line.size());
    return lengths.front() == 0;
}
