// Bodies that attract each other: vector types, tiles in shared memory, rsqrtf; momentum must stay.
#include "course.h"

constexpr int kBlock = 64;

__global__ void forces(const float4* bodies, float3* out, int n) {
    __shared__ float4 tile[kBlock];
    const int i = blockIdx.x * kBlock + threadIdx.x;
    const float4 me = i < n ? bodies[i] : make_float4(0, 0, 0, 0);
    float3 force = make_float3(0, 0, 0);
    for (int base = 0; base < n; base += kBlock) {
        tile[threadIdx.x] = base + threadIdx.x < n ? bodies[base + threadIdx.x] : make_float4(0, 0, 0, 0);
        __syncthreads();
        for (int j = 0; j < kBlock; ++j) {
            const float4 other = tile[j];
            const float x = other.x - me.x, y = other.y - me.y, z = other.z - me.z;
            const float inverse = rsqrtf(x * x + y * y + z * z + 0.01f);
            const float pull = me.w * other.w * inverse * inverse * inverse;
            force.x += pull * x;
            force.y += pull * y;
            force.z += pull * z;
        }
        __syncthreads();
    }
    if (i < n) out[i] = force;
}

int main() {
    const int n = 300;
    Random random(7);
    std::vector<float4> bodies(n);
    for (auto& body : bodies) body = make_float4(random.unit(), random.unit(), random.unit(), 1 + random.unit());
    Device<float4> data(bodies);
    Device<float3> out(n);
    forces<<<(n + kBlock - 1) / kBlock, kBlock>>>(data, out, n);
    CHECK_LAUNCH();
    const auto got = out.host();
    std::vector<float> flat, want;
    double x = 0, y = 0, z = 0;
    for (int i = 0; i < n; ++i) {
        double fx = 0, fy = 0, fz = 0;
        for (int j = 0; j < n; ++j) {
            const double dx = bodies[j].x - bodies[i].x, dy = bodies[j].y - bodies[i].y, dz = bodies[j].z - bodies[i].z;
            const double r = std::sqrt(dx * dx + dy * dy + dz * dz + 0.01), pull = bodies[i].w * bodies[j].w / (r * r * r);
            fx += pull * dx;
            fy += pull * dy;
            fz += pull * dz;
        }
        flat.insert(flat.end(), {got[i].x, got[i].y, got[i].z});
        want.insert(want.end(), {static_cast<float>(fx), static_cast<float>(fy), static_cast<float>(fz)});
        x += got[i].x, y += got[i].y, z += got[i].z;
    }
    compare("forces", flat, want, 2e-3);
    printf("sum of all forces: %s\n", std::fabs(x) + std::fabs(y) + std::fabs(z) < 0.5 ? "about nothing" : "too much");
}
