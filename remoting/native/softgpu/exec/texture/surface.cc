// suld.b, sust.b and sured.b: accesses to surfaces, whose first coordinate counts bytes. Op::a holds the
// surface object, Op::b is a Request, and Op::imm points to the slots of the components and then of the
// coordinates.
#include "exec/lanes/floats.h"
#include "exec/texture/find.h"
#include "exec/texture/sample.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

using namespace texture;

struct Place {
    s64 x = 0, y = 0, plane = 0;
};

Place place_of(Warp* warp, const u32* slots, const Request& request, u32 lane) {
    Place place;
    const auto next = [&] { return s64(s32(slot<u32>(warp, *slots++)[lane])); };
    if (is_layered(request.geometry)) place.plane = next();
    place.x = next();
    if (dimensions(request.geometry) > 1) place.y = next();
    if (request.geometry == Geometry::d3) place.plane = next();
    return place;
}

s64 within(s64 at, s64 count) {
    return at < 0 ? 0 : at < count ? at : count - 1;
}

std::string describe(const Place& place, const Level& level, u64 row_bytes) {
    return "at byte " + std::to_string(place.x) + ", row " + std::to_string(place.y) + ", plane " +
           std::to_string(place.plane) + " of a surface of " + std::to_string(row_bytes) + " bytes, " +
           std::to_string(level.height) + " rows and " + std::to_string(level.depth) + " planes";
}

// Where a lane's access goes.
struct Reached {
    bool fault = false;
    std::byte* at = nullptr;  // null: outside, where reads give 0 and writes are dropped
};

enum class Access : bool { plain, atomic };

template <Access how>
Reached reach(const Finder& finder, const Elements& elements, const Request& request, Place place, u32 lane) {
    const Level& level = elements.levels[0];
    const u64 row_bytes = u64{level.width} * elements.bytes(), bytes = u64{request.bytes} * request.parts;
    if ((u64(place.x) & (bytes - 1)) != 0) {
        finder.refuse(Status::misaligned_address, lane,
                      "of " + std::to_string(bytes) + " bytes " + describe(place, level, row_bytes) +
                          ": no multiple of that");
        return {true};
    }
    const u64 places = row_bytes / bytes;
    const bool inside = place.x >= 0 && u64(place.x) / bytes < places && place.y >= 0 &&
                        place.y < level.height && place.plane >= 0 && place.plane < level.depth;
    if (!inside) {
        if (request.bounds == Bounds::zero) return {};
        if (request.bounds == Bounds::trap || places == 0) {
            finder.refuse(
                Status::illegal_address, lane,
                "of " + std::to_string(bytes) + " bytes out of bounds " + describe(place, level, row_bytes));
            return {true};
        }
        place = {within(place.x, s64(places * bytes)) / s64(bytes) * s64(bytes),
                 within(place.y, level.height), within(place.plane, level.depth)};
    }
    const u64 address =
        level.base + u64(place.plane) * level.plane_pitch + u64(place.y) * level.row_pitch + u64(place.x);
    // Rows lie without gaps. Only what is atomic asks where they begin.
    if (how == Access::atomic && (address & (bytes - 1)) != 0) {
        finder.refuse(Status::misaligned_address, lane,
                      "of " + std::to_string(bytes) + " bytes " + describe(place, level, row_bytes) +
                          ", whose rows are " + std::to_string(level.row_pitch) +
                          " bytes apart: this one begins at no multiple of " + std::to_string(bytes) +
                          ", where atomics need it. Give the array rows of such a multiple");
        return {true};
    }
    return {false, reinterpret_cast<std::byte*>(address)};
}

// f(place in memory or null, lane) for each lane.
template <Access how = Access::plain, class F>
const Op* access(const Op* op, Warp* warp, const char* verb, const u32* coordinates, F f) {
    const Request request = Request::unpack(op->b);
    Finder finder(op, warp, verb, name_of(request.geometry), true);
    const bool done = each_lane(warp, [&](u32 lane) {
        const Object* found = finder.of(lane, [&](const Object& object) {
            return takes(request.geometry, object.texture.elements.kind, true) ? nullptr
                                                                               : "it is of another kind";
        });
        if (found == nullptr) return false;
        const Place place = place_of(warp, coordinates, request, lane);
        const Reached reached = reach<how>(finder, found->texture.elements, request, place, lane);
        if (reached.fault) return false;
        f(reached.at, lane);
        return true;
    });
    return done ? op + 1 : nullptr;
}

const u32* slots_of(const Op* op) {
    return reinterpret_cast<const u32*>(op->imm);
}

const Op* load(const Op* op, Warp* warp) {
    const Request request = Request::unpack(op->b);
    const u32* const slots = slots_of(op);
    return access(op, warp, "suld.b.", slots + request.parts, [&](const std::byte* at, u32 lane) {
        for (u32 i = 0; i < request.parts; ++i) {
            u64 value = 0;
            if (at != nullptr) __builtin_memcpy(&value, at + i * request.bytes, request.bytes);
            if (request.bytes == 8)
                slot<u64>(warp, slots[i])[lane] = value;
            else
                slot<u32>(warp, slots[i])[lane] = u32(value);
        }
    });
}

const Op* store(const Op* op, Warp* warp) {
    const Request request = Request::unpack(op->b);
    const u32* const slots = slots_of(op);
    return access(op, warp, "sust.b.", slots + request.parts, [&](std::byte* at, u32 lane) {
        for (u32 i = 0; at != nullptr && i < request.parts; ++i) {
            const u64 value =
                request.bytes == 8 ? slot<u64>(warp, slots[i])[lane] : slot<u32>(warp, slots[i])[lane];
            __builtin_memcpy(at + i * request.bytes, &value, request.bytes);
        }
    });
}

template <class T, T (*combine)(T, T)>
const Op* reduce(const Op* op, Warp* warp) {
    const u32* const slots = slots_of(op);
    const T* const values = slot<T>(warp, slots[0]);
    const Op* next = access<Access::atomic>(op, warp, "sured.b.", slots + 1, [&](std::byte* at, u32 lane) {
        if (at == nullptr) return;
        T* const place = reinterpret_cast<T*>(at);
        T before = __atomic_load_n(place, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(place, &before, combine(before, values[lane]), false,
                                            __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
        }
    });
    warp->budget -= 32;  // as any atomic
    return next;
}

template <class T>
T sum(T a, T b) {
    return T(a + b);
}
template <class T>
T smaller(T a, T b) {
    return b < a ? b : a;
}
template <class T>
T larger(T a, T b) {
    return a < b ? b : a;
}
template <class T>
T both(T a, T b) {
    return a & b;
}
template <class T>
T either(T a, T b) {
    return a | b;
}

const HandlerEntry kEntries[] = {
    {"suld.b", {load}},
    {"sust.b", {store}},
    {"sured.b.add.b32", {reduce<u32, sum<u32>>}},
    {"sured.b.add.b64", {reduce<u64, sum<u64>>}},
    {"sured.b.min.u32", {reduce<u32, smaller<u32>>}},
    {"sured.b.min.s32", {reduce<s32, smaller<s32>>}},
    {"sured.b.min.u64", {reduce<u64, smaller<u64>>}},
    {"sured.b.min.s64", {reduce<s64, smaller<s64>>}},
    {"sured.b.max.u32", {reduce<u32, larger<u32>>}},
    {"sured.b.max.s32", {reduce<s32, larger<s32>>}},
    {"sured.b.max.u64", {reduce<u64, larger<u64>>}},
    {"sured.b.max.s64", {reduce<s64, larger<s64>>}},
    {"sured.b.and.b32", {reduce<u32, both<u32>>}},
    {"sured.b.or.b32", {reduce<u32, either<u32>>}},
};

}  // namespace

extern const HandlerTable kSurfaceHandlers;
const HandlerTable kSurfaceHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
