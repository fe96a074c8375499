// Each kernel reads or writes one texture or surface, a thread an access. Compiled to PTX by the tests.

struct Place {
    float x, y, z;
    int layer;
    float level;
};

#define THREAD unsigned i = threadIdx.x; if (i >= count) return; const Place p = places[i];
#define FETCH(name, call)                                                                           \
    extern "C" __global__ void name(float4* out, cudaTextureObject_t t, const Place* places, unsigned count) { \
        THREAD                                                                                      \
        out[i] = call;                                                                              \
    }

FETCH(fetch_linear, tex1Dfetch<float4>(t, p.layer))
FETCH(fetch_1d, tex1D<float4>(t, p.x))
FETCH(fetch_2d, tex2D<float4>(t, p.x, p.y))
FETCH(fetch_3d, tex3D<float4>(t, p.x, p.y, p.z))
FETCH(fetch_a1d, tex1DLayered<float4>(t, p.x, p.layer))
FETCH(fetch_a2d, tex2DLayered<float4>(t, p.x, p.y, p.layer))
FETCH(fetch_cube, texCubemap<float4>(t, p.x, p.y, p.z))
FETCH(fetch_acube, texCubemapLayered<float4>(t, p.x, p.y, p.z, p.layer))
FETCH(level_2d, tex2DLod<float4>(t, p.x, p.y, p.level))
FETCH(gather_2d, tex2Dgather<float4>(t, p.x, p.y, 1))
FETCH(gradient_2d, tex2DGrad<float4>(t, p.x, p.y, make_float2(p.level, 0), make_float2(0, p.level)))

extern "C" __global__ void fetch_bytes(uchar4* out, cudaTextureObject_t t, const Place* places, unsigned count) {
    THREAD
    out[i] = tex2D<uchar4>(t, p.x, p.y);
}

// Each element of a surface plus one, into another.
extern "C" __global__ void surface_2d(cudaSurfaceObject_t to, cudaSurfaceObject_t from) {
    const int x = threadIdx.x, y = threadIdx.y;
    float4 value = surf2Dread<float4>(from, x * 16, y);
    value.x += 1;
    surf2Dwrite(value, to, x * 16, y);
}
extern "C" __global__ void surface_3d(cudaSurfaceObject_t to, cudaSurfaceObject_t from) {
    const int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
    float4 value = surf3Dread<float4>(from, x * 16, y, z);
    value.x += 1;
    surf3Dwrite(value, to, x * 16, y, z);
}
extern "C" __global__ void surface_a2d(cudaSurfaceObject_t to, cudaSurfaceObject_t from) {
    const int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
    float4 value = surf2DLayeredread<float4>(from, x * 16, y, z);
    value.x += 1;
    surf2DLayeredwrite(value, to, x * 16, y, z);
}
extern "C" __global__ void surface_cube(cudaSurfaceObject_t to, cudaSurfaceObject_t from) {
    const int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
    float4 value = surfCubemapread<float4>(from, x * 16, y, z);
    value.x += 1;
    surfCubemapwrite(value, to, x * 16, y, z);
}
