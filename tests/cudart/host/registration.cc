// Fat binaries: what is found in them, by which way it is launched, and what a damaged one does.
#include "device_code.h"

namespace {

bool adds(Object& object) {
    Numbers numbers(100, 1);
    const cudaError_t error = object.launch_add(numbers.device, 100, 41);
    return error == cudaSuccess && numbers.read() == std::vector<int>(100, 42);
}

void packings() {
    const std::string code = device_code(), other = device_code("other");
    Object plain({{code}}), zstd({packed_with_zstd(code)});
    Object best({{"\x7f"
                  "ELF",
                  2, 75},
                 {other, 1, 50},
                 {code, 1, 70},
                 {other, 1, 90}});
    EXPECT(adds(plain));
    EXPECT(adds(zstd));
    EXPECT(adds(best));
}

void ways_of_launching() {
    Object object({{device_code()}});
    Numbers numbers(10);
    int n = 10, value = 1;
    void* arguments[] = {&numbers.device, &n, &value};
    // As <<< >>> of nvcc 12 and 13 do.
    for (bool through_handle : {false, true}) {
        EXPECT(__cudaPushCallConfiguration(dim3(1), dim3(32), 0, nullptr) == 0);
        dim3 grid, block;
        size_t shared;
        cudaStream_t stream;
        EXPECT_OK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
        cudaKernel_t kernel;
        EXPECT_OK(__cudaGetKernel(&kernel, &object.add));
        EXPECT_OK(through_handle ? __cudaLaunchKernel(kernel, grid, block, arguments, shared, stream)
                                 : cudaLaunchKernel(&object.add, grid, block, arguments, shared, stream));
    }
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    EXPECT_CODE(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaErrorMissingConfiguration);

    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(32);
    EXPECT_OK(cudaLaunchKernelExC(&config, &object.add, arguments));
    EXPECT_OK(cudaLaunchKernelExC_ptsz(&config, &object.add, arguments));
    EXPECT_OK(cudaDeviceSynchronize());
    cudaKernel_t kernel;
    EXPECT_OK(cudaGetKernel(&kernel, &object.add));
    EXPECT_OK(cudaLaunchKernel(kernel, dim3(1), dim3(32), arguments, 0, nullptr));
    cudaFunction_t function;
    EXPECT_OK(cudaGetFuncBySymbol(&function, &object.add));
    EXPECT_OK(cudaLaunchKernel(function, dim3(1), dim3(32), arguments, 0, nullptr));
    EXPECT(numbers.read() == std::vector<int>(10, 6));

    cudaFuncAttributes attributes;
    EXPECT_OK(cudaFuncGetAttributes(&attributes, &object.add));
    EXPECT(attributes.maxThreadsPerBlock > 0);
    int blocks = 0;
    EXPECT_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &object.add, 128, 0));
    EXPECT(blocks > 0);
}

void variables() {
    Object object({{device_code()}});
    Numbers seen(4);
    void* arguments[] = {&seen.device};
    EXPECT_OK(cudaLaunchKernel(&object.read_table, dim3(1), dim3(4), arguments, 0, nullptr));
    EXPECT(seen.read() == (std::vector<int>{1, 2, 3, 4}));
    const int two[] = {20, 30};
    EXPECT_OK(cudaMemcpyToSymbol(object.table, two, 8, 4, cudaMemcpyHostToDevice));
    EXPECT_OK(cudaLaunchKernel(&object.read_table, dim3(1), dim3(4), arguments, 0, nullptr));
    EXPECT(seen.read() == (std::vector<int>{1, 20, 30, 4}));
    int last[2] = {};
    EXPECT_OK(cudaMemcpyFromSymbol(last, object.table, 8, 8, cudaMemcpyDeviceToHost));
    EXPECT(last[0] == 30 && last[1] == 4);
    size_t bytes = 0;
    EXPECT_OK(cudaGetSymbolSize(&bytes, object.table));
    EXPECT(bytes == 16);

    EXPECT_CODE(cudaMemcpyToSymbol(object.table, two, 8, 12, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT_CODE(cudaMemcpyToSymbol(object.table, two, SIZE_MAX, 4, cudaMemcpyHostToDevice),
                cudaErrorInvalidValue);
    EXPECT_CODE(cudaMemcpyToSymbol(object.table, two, 8, 0, cudaMemcpyDeviceToHost),
                cudaErrorInvalidMemcpyDirection);
    EXPECT_CODE(cudaMemcpyFromSymbol(last, two, 8, 0, cudaMemcpyDeviceToHost), cudaErrorInvalidSymbol);
}

void what_cannot_be_found() {
    Object object({{device_code()}}), machine_code({{"\x7f"
                                                     "ELF",
                                                     2, 75}});
    EXPECT_CODE(machine_code.launch_add(nullptr, 1, 1), cudaErrorNoKernelImageForDevice);
    EXPECT_CODE(machine_code.launch_add(nullptr, 1, 1), cudaErrorNoKernelImageForDevice);
    EXPECT_CODE(cudaLaunchKernel(&object.missing, dim3(1), dim3(1), nullptr, 0, nullptr),
                cudaErrorInvalidDeviceFunction);
    EXPECT_CODE(cudaLaunchKernel(&failures, dim3(1), dim3(1), nullptr, 0, nullptr),
                cudaErrorInvalidDeviceFunction);
    EXPECT_CODE(cudaLaunchKernel(nullptr, dim3(1), dim3(1), nullptr, 0, nullptr),
                cudaErrorInvalidDeviceFunction);
    {
        Object gone({{device_code()}});
        EXPECT(adds(gone));
        __cudaUnregisterFatBinary(gone.handle);
        EXPECT_CODE(gone.launch_add(nullptr, 1, 1), cudaErrorInvalidDeviceFunction);
        gone.handle = nullptr;
    }
    cudaGetLastError();
    EXPECT(adds(object));
}

// Images that lie about themselves: an error each, and other objects go on.
void damage() {
    Object sound({{device_code()}});
    const auto refused = [&](Object& object) {
        const cudaError_t error = object.launch_add(nullptr, 1, 1);
        return error == cudaErrorInvalidKernelImage || error == cudaErrorInvalidPtx ||
               error == cudaErrorNoKernelImageForDevice;
    };
    Entry lying = packed_with_zstd(device_code());
    lying.plain_bytes = uint64_t{1} << 40;
    Object huge({lying});
    lying.plain_bytes = 10;
    Object small({lying});
    Object broken({{device_code().substr(0, 300)}});
    Object nonsense({{"not PTX"}});
    for (Object* object : {&huge, &small, &broken, &nonsense}) EXPECT(refused(*object));

    Object longer({{device_code()}}), beyond({{device_code()}}), zero({{device_code()}});
    longer.image[1] = ~uint64_t{0} - 8;   // the length of all entries
    beyond.image[3] = uint64_t{1} << 60;  // the length of the first
    zero.image[1] = 0;
    for (Object* object : {&longer, &beyond, &zero}) EXPECT(refused(*object));
    EXPECT(adds(sound));
}

// nvcc -rdc=true: the linked image is empty, and the images of the objects are linked by the runtime.
void linked_here() {
    const std::string target = ".version 7.0\n.target sm_70\n.address_size 64\n";
    const auto user =
        fatbin({{target + ".extern .func (.param .u32 r) twice(.param .u32 v);\n"
                          ".visible .entry add(.param .u64 p, .param .u32 n, .param .u32 value)\n{\n"
                          ".reg .u32 %r<3>; .reg .u64 %d;\n"
                          "ld.param.u64 %d, [p]; ld.param.u32 %r1, [value];\n"
                          "{ .param .u32 a; .param .u32 b; st.param.u32 [a], %r1;\n"
                          "call (b), twice, (a); ld.param.u32 %r2, [b]; }\n"
                          "st.global.u32 [%d], %r2; ret;\n}\n"}});
    const auto helper = fatbin({{target + ".visible .func (.param .u32 r) twice(.param .u32 v)\n{\n"
                                          ".reg .u32 %r<2>; ld.param.u32 %r1, [v]; add.u32 %r1, %r1, %r1;\n"
                                          "st.param.u32 [r], %r1; ret;\n}\n"}});
    const void* images[] = {user.data(), helper.data(), nullptr};
    Object object(
        {{"\x7f"
          "ELF",
          2, 75}});
    object.wrapper.version = 2;
    object.wrapper.linked = images;
    Numbers number(1);
    EXPECT_OK(object.launch_add(number.device, 1, 21, 1));
    EXPECT(number.read()[0] == 42);
}

}  // namespace

int main() {
    packings();
    ways_of_launching();
    variables();
    what_cannot_be_found();
    damage();
    linked_here();
    return failures;
}
