// tex, tld4 and txq. Op::a holds the texture object, Op::b is a Request, and Op::imm points to the slots of
// the results and then of the coordinates: layer, place, and level or changes.
#include "exec/lanes/floats.h"
#include "exec/texture/find.h"
#include "exec/texture/sample.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

using namespace texture;

u32 result_count(const Request& request) {
    return request.result == Result::half_pairs ? 2 : 4;
}

Coordinates coordinates(Warp* warp, const u32* slots, const Request& request, u32 lane) {
    Coordinates at;
    const u32 count = dimensions(request.geometry);
    const auto next = [&] { return slot<u32>(warp, *slots++)[lane]; };
    if (is_layered(request.geometry)) at.layer = next();
    for (u32 i = 0; i < count; ++i) {
        const u32 bits = next();
        request.by_element ? void(at.element[i] = s32(bits)) : void(at.at[i] = bits_as<f32>(bits));
    }
    if (request.detail == Detail::level) {
        const u32 bits = next();
        at.level = request.by_element ? f32(s32(bits)) : bits_as<f32>(bits);
    }
    if (request.detail == Detail::gradient) {
        for (u32 i = 0; i < count; ++i) at.dx[i] = bits_as<f32>(next());
        for (u32 i = 0; i < count; ++i) at.dy[i] = bits_as<f32>(next());
    }
    return at;
}

u32 half_of(u32 bits) {
    return to_half(f64(bits_as<f32>(bits))).bits;
}

void give(Warp* warp, const u32* slots, const Request& request, u32 lane, const Texel& texel) {
    switch (request.result) {
        case Result::words:
            for (u32 i = 0; i < 4; ++i) slot<u32>(warp, slots[i])[lane] = texel[i];
            break;
        case Result::halves:
            for (u32 i = 0; i < 4; ++i) slot<u32>(warp, slots[i])[lane] = half_of(texel[i]);
            break;
        case Result::half_pairs:
            for (u32 i = 0; i < 2; ++i)
                slot<u32>(warp, slots[i])[lane] = half_of(texel[2 * i]) | half_of(texel[2 * i + 1]) << 16;
            break;
    }
}

using Sampling = Texel (*)(const Texture&, const Request&, const Coordinates&);

template <Sampling sampling, bool gathers>
const Op* fetch(const Op* op, Warp* warp) {
    const Request request = Request::unpack(op->b);
    const u32* const slots = reinterpret_cast<const u32*>(op->imm);
    Finder finder(op, warp, gathers ? "tld4." : "tex.", name_of(request.geometry), false);
    const bool done = each_lane(warp, [&](u32 lane) {
        const Object* found =
            finder.of(lane, [&](const Object& object) { return refusal(object.texture, request, gathers); });
        if (found == nullptr) return false;
        const Coordinates at = coordinates(warp, slots + result_count(request), request, lane);
        give(warp, slots, request, lane, sampling(found->texture, request, at));
        return true;
    });
    return done ? op + 1 : nullptr;
}

// ---- txq

u32 layers_of(const Elements& elements) {
    const u32 planes = elements.levels[0].depth;
    switch (elements.kind) {
        case Kind::layers_of_one:
        case Kind::layers_of_two:
            return planes;
        case Kind::layered_cubemap:
            return planes / kFaces;
        default:
            return 0;
    }
}
u32 height_of(const Elements& elements, const Level& level) {
    const bool flat = elements.kind == Kind::linear || elements.kind == Kind::one_dimension ||
                      elements.kind == Kind::layers_of_one;
    return flat ? 0 : level.height;
}
u32 depth_of(const Elements& elements, const Level& level) {
    return elements.kind == Kind::three_dimensions ? level.depth : 0;
}

enum class Query { width, height, depth, layers, levels, normalized };

u32 answer(const Texture& texture, Query query, u32 number) {
    const Elements& elements = texture.elements;
    const Level& level = elements.levels[number];
    switch (query) {
        case Query::width:
            return level.width;
        case Query::height:
            return height_of(elements, level);
        case Query::depth:
            return depth_of(elements, level);
        case Query::layers:
            return layers_of(elements);
        case Query::levels:
            return u32(elements.levels.size());
        default:
            return texture.sampler.normalized_coordinates;
    }
}

// Op::c holds the level, if one is named.
template <Query query, bool surface>
const Op* ask(const Op* op, Warp* warp) {
    Finder finder(op, warp, surface ? "suq" : "txq", "", surface);
    u32* const d = slot<u32>(warp, op->d);
    const u32* const numbers = op->c == kNoSlot ? nullptr : slot<u32>(warp, op->c);
    const bool done = each_lane(warp, [&](u32 lane) {
        const Object* found = finder.of(lane, [](const Object&) -> const char* { return nullptr; });
        if (found == nullptr) return false;
        const u32 number = numbers == nullptr ? 0 : numbers[lane];
        const bool there = number < found->texture.elements.levels.size();
        d[lane] = there ? answer(found->texture, query, number) : 0;
        return true;
    });
    return done ? op + 1 : nullptr;
}

template <bool surface>
const Op* is_object(const Op* op, Warp* warp) {
    const LaunchState& launch = *warp->block->launch;
    const u64* const handles = slot<u64>(warp, op->a);
    u32 found = 0;
    each_lane(warp, [&](u32 lane) {
        const auto one = warp->block->textures->find(launch.launch->objects, *launch.memory, handles[lane]);
        if (one.object != nullptr && one.object->surface == surface) found |= kBit[lane];
        return true;
    });
    set_predicate(warp, op->d, found);
    return op + 1;
}

const HandlerEntry kEntries[] = {
    {"tex", {fetch<sample, false>}},
    {"tld4", {fetch<gather, true>}},
    {"txq.width", {ask<Query::width, false>}},
    {"txq.height", {ask<Query::height, false>}},
    {"txq.depth", {ask<Query::depth, false>}},
    {"txq.array_size", {ask<Query::layers, false>}},
    {"txq.num_mipmap_levels", {ask<Query::levels, false>}},
    {"txq.normalized_coords", {ask<Query::normalized, false>}},
    {"suq.width", {ask<Query::width, true>}},
    {"suq.height", {ask<Query::height, true>}},
    {"suq.depth", {ask<Query::depth, true>}},
    {"suq.array_size", {ask<Query::layers, true>}},
    {"istypep.texref", {is_object<false>}},
    {"istypep.surfref", {is_object<true>}},
};

}  // namespace

extern const HandlerTable kTextureHandlers;
const HandlerTable kTextureHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
