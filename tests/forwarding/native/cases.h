// A test case is a function with a name; the program runs the one that it is told, and pytest tells it all.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace tests {

inline std::map<std::string, void (*)()>& cases() {
    static std::map<std::string, void (*)()> all;
    return all;
}

struct Registered {
    Registered(const char* name, void (*run)()) { cases()[name] = run; }
};

}  // namespace tests

#define CASE(name)                                                 \
    static void name();                                            \
    static const tests::Registered registered_##name{#name, name}; \
    static void name()

#define EXPECT(condition)                                                                  \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                                  \
        }                                                                                  \
    } while (false)
