// The beginning and the end: nothing before the first call, resets, threads, children, exit.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "device_code.h"

namespace {

bool driver_is_loaded() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find("/libcuda.so") != line.npos) return true;
    }
    return false;
}

int status_of_child(int (*body)()) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

int child_before_first_use() {
    void* pointer;
    return cudaMalloc(&pointer, 4);
}

int child_after_use() {
    void* pointer;
    EXPECT_CODE(cudaMalloc(&pointer, 4), cudaErrorInitializationError);
    EXPECT_CODE(cudaDeviceSynchronize(), cudaErrorInitializationError);
    EXPECT(cudaGetLastError() == cudaErrorInitializationError);
    Object late({{device_code()}});
    EXPECT_CODE(late.launch_add(nullptr, 1, 1), cudaErrorInitializationError);
    return failures;
}

Object* at_exit_object;

void at_exit() {
    Numbers numbers(8, 1);
    EXPECT_OK(at_exit_object->launch_add(numbers.device, 8, 1));
    EXPECT(numbers.read() == std::vector<int>(8, 2));
    if (failures) _exit(failures);
}

void reset() {
    Object object({{device_code()}});
    void* pointer;
    EXPECT_OK(cudaMalloc(&pointer, 1000));
    EXPECT_OK(cudaDeviceReset());
    Numbers numbers(8, 1);
    EXPECT_OK(object.launch_add(numbers.device, 8, 1));
    EXPECT(numbers.read() == std::vector<int>(8, 2));
}

// A device that one thread has reset begins again with whichever call of another thread comes next.
void reset_by_another() {
    Object object({{device_code()}});
    const auto use = [&] {
        Numbers numbers(8, 1);
        EXPECT_OK(object.launch_add(numbers.device, 8, 1));
        EXPECT(numbers.read() == std::vector<int>(8, 2));
    };
    use();
    std::thread([&] {
        use();
        EXPECT_OK(cudaDeviceReset());
    }).join();
    use();
    void* pointer;
    EXPECT_OK(cudaMalloc(&pointer, 1000));
    std::thread([] { EXPECT_OK(cudaDeviceReset()); }).join();
    int device = -1;
    EXPECT_OK(cudaGetDevice(&device));
    EXPECT(device == 0);
    EXPECT_OK(cudaMalloc(&pointer, 1000));
    EXPECT_OK(cudaFree(pointer));
    EXPECT(cudaGetLastError() == cudaSuccess);
}

void threads() {
    Object object({{device_code()}});
    std::vector<std::thread> all;
    for (int i = 0; i < 8; ++i) {
        all.emplace_back([&, i] {
            for (int round = 0; round < 20; ++round) {
                Numbers numbers(100, i);
                EXPECT_OK(object.launch_add(numbers.device, 100, 1));
                EXPECT(numbers.read() == std::vector<int>(100, i + 1));
            }
        });
    }
    for (std::thread& thread : all) thread.join();
}

}  // namespace

int main() {
    std::atexit(at_exit);
    Object object({{device_code()}});
    EXPECT(!driver_is_loaded());
    EXPECT(status_of_child(child_before_first_use) == 0);
    EXPECT(!driver_is_loaded());
    threads();
    EXPECT(driver_is_loaded());
    EXPECT(status_of_child(child_after_use) == 0);
    reset();
    reset_by_another();
    at_exit_object = new Object({{device_code()}});
    return failures;
}
