// For test_load_memory.py: what the worker charges for loading the image on standard input, in bytes, on the
// software GPU and on a real driver.
#include "load_cost.h"

#include <cstdio>
#include <iterator>
#include <span>
#include <string>

int main() {
    std::string image;
    for (int byte; (byte = std::getchar()) != EOF;) image += static_cast<char>(byte);
    const auto bytes = std::as_bytes(std::span(image));
    std::printf("%llu %llu\n", static_cast<unsigned long long>(worker::load_cost(bytes, true)),
                static_cast<unsigned long long>(worker::load_cost(bytes, false)));
}
