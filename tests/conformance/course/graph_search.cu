// Breadth-first search over a graph, one launch a level.
#include <queue>

#include "course.h"

__global__ void level(const int* start, const int* edge, int* depth, int current, int nodes, int* changed) {
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes || depth[node] != current) return;
    for (int i = start[node]; i < start[node + 1]; ++i)
        if (atomicCAS(&depth[edge[i]], -1, current + 1) == -1) *changed = 1;
}

int main() {
    const int nodes = 2000;
    Random random(13);
    std::vector<int> start{0}, edge, want(nodes, -1);
    for (int node = 0; node < nodes; ++node) {
        for (int i = random.next() >> 30; i >= 0; --i) edge.push_back((node + (random.next() >> 24)) % nodes);
        start.push_back(static_cast<int>(edge.size()));
    }
    std::queue<int> waiting;
    want[0] = 0;
    for (waiting.push(0); !waiting.empty(); waiting.pop()) {
        const int node = waiting.front();
        for (int i = start[node]; i < start[node + 1]; ++i)
            if (want[edge[i]] < 0) {
                want[edge[i]] = want[node] + 1;
                waiting.push(edge[i]);
            }
    }
    std::vector<int> first(nodes, -1);
    first[0] = 0;
    Device<int> starts(start), edges(edge), depth(first), changed(1);
    int again = 1;
    for (int current = 0; again; ++current) {
        CHECK(cudaMemset(changed, 0, sizeof(int)));
        level<<<(nodes + 127) / 128, 128>>>(starts, edges, depth, current, nodes, changed);
        CHECK_LAUNCH();
        again = changed.host()[0];
    }
    compare("depths", depth.host(), want);
}
