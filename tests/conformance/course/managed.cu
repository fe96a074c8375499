// Managed memory: a list built by the host, changed by the device, read by the host.
#include "course.h"

struct Node {
    int value;
    Node* next;
};

__managed__ int visited = 0;

__global__ void walk(Node* first) {
    for (Node* node = first; node; node = node->next) {
        node->value *= node->value;
        ++visited;
    }
}

int main() {
    Node* first = nullptr;
    for (int i = 5; i > 0; --i) {
        Node* node = nullptr;
        CHECK(cudaMallocManaged(&node, sizeof(Node)));
        *node = {i, first};
        first = node;
    }
    walk<<<1, 1>>>(first);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    for (Node* node = first; node; node = node->next) printf("%d ", node->value);
    printf("visited %d\n", visited);
    while (first) {
        Node* next = first->next;
        CHECK(cudaFree(first));
        first = next;
    }
}
