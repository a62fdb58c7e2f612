// Memory grows: what was recommended to a session is remembered, and never forgotten.
#include <string>
#include <unistd.h>
#include <unordered_map>
#include <vector>

using Titles = std::vector<std::string>;
static std::unordered_map<int, Titles> remembered;

static const Titles &recommendations_for(int session) {
    Titles &titles = remembered[session];
    for (int rank = 0; titles.size() < 8; ++rank)
        titles.push_back("a title that does not fit into the string itself, " + std::to_string(session * rank));
    return titles;
}

static std::string page_for(int session) {
    std::string page;
    for (const std::string &title : recommendations_for(session))
        page += "<li>" + title;
    return page;
}

int main() {
    for (int session = 0; session < 8000; ++session) {
        if (page_for(session).empty())
            return 1;
        if (session % 100 == 0)
            usleep(20'000); // waits for requests
    }
}
