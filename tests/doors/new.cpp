// Blocks of `operator new` alone; it ends with all of them.
#include <vector>
struct Node { char bytes[1000]; };
std::vector<Node *> nodes;
int main() {
    for (int i = 0; i < 10000; i++) nodes.push_back(new Node());
}
