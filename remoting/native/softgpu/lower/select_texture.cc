// Textures and surfaces: what an instruction asks goes into a number, its registers into a table.
#include <algorithm>

#include "lower/select.h"

namespace softgpu::lower {
namespace {

using texture::Bounds;
using texture::Detail;
using texture::Geometry;
using texture::Request;
using texture::Result;

Geometry geometry_of(std::optional<size_t> place) {
    return Geometry(place.value_or(0));
}

}  // namespace

// The register that holds an object's number, or what a variable holds that stands for one.
uint32_t Selector::texture_handle(const ptx::Operand& operand) {
    if (operand.kind != ptx::OperandKind::address) fail("an object in brackets expected in " + full_name());
    if (operand.bits != 0) fail("nothing is added to a texture or surface in " + full_name());
    if (operand.reg != ptx::kNone) {
        if (ptx::traits(registers_[operand.reg]).bytes != 8)
            fail("a texture or surface object needs a register of 64 bits");
        return operand.reg;
    }
    const auto symbol = symbols_.find(module_, operand.name);
    const bool opaque =
        symbol && symbol->kind == Symbol::Kind::global && image_.globals[symbol->index].opaque;
    if (operand.name.empty() || operand.variable != ptx::kNone || !opaque)
        fail(full_name() + " wants a texture or surface");
    const uint32_t handle = new_value(Width::wide);
    emit("ld.global.b64"_op, handle, symbol_address(operand));
    return handle;
}

const ptx::Operand& Selector::coordinates(const ptx::Operand& operand) const {
    if (operand.parts.size() == 2)
        fail(full_name() +
             " with a sampler of its own is not supported: use a texture object, which has one");
    if (operand.parts.empty()) fail(full_name() + " wants coordinates");
    return operand.parts[0];
}

void Selector::append(std::vector<uint32_t>& values, const ptx::Operand& vector, size_t first, size_t count,
                      Type type) {
    const auto parts = registers_of(vector);
    for (size_t i = first; i < first + count; ++i) values.push_back(source(*parts[i], type));
}

// Layer and place, of a vector that has at least as many parts as it needs.
std::vector<uint32_t> Selector::texture_place(Geometry geometry, const ptx::Operand& operand, Type type) {
    const ptx::Operand& vector = coordinates(operand);
    const uint32_t layers = texture::is_layered(geometry), count = texture::dimensions(geometry);
    const size_t parts = registers_of(vector).size();
    if (parts < layers + count || parts > 4)
        fail(full_name() + " has " + std::to_string(parts) + " coordinates");
    std::vector<uint32_t> values;
    append(values, vector, 0, layers, Type::b32);
    append(values, vector, layers, count, type);
    return values;
}

Inst& Selector::texture_instruction(uint32_t handle, uint32_t request, std::vector<uint32_t> written,
                                    std::vector<uint32_t> read) {
    Inst& inst = emit_without_result(code(), handle);
    inst.raw_b = request;
    inst.extra_defs = std::move(written);
    inst.extra_uses = std::move(read);
    inst.slot_table = inst.crosses = true;
    return inst;
}

// tex and tld4: {d}{|p}, [texture, {place}], and what says which level.
void Selector::fetch(Request request) {
    const size_t more = request.detail == Detail::gradient ? 2 : request.detail == Detail::level ? 1 : 0;
    if (now_->operands.size() > 2 + more)
        fail(full_name() +
             " with an offset or a comparison is not supported: add the offset to the coordinates, "
             "and compare what is read");
    expect_operands(2 + more, 2 + more);
    request.geometry = geometry_of(which({"1d", "2d", "3d", "a1d", "a2d", "cube", "acube"}));
    request.by_element = type_from_end() == Type::s32;
    request.result = has("f16x2")                    ? Result::half_pairs
                     : type_from_end(1) == Type::f16 ? Result::halves
                                                     : Result::words;
    const uint32_t count = texture::dimensions(request.geometry);
    const uint32_t handle = texture_handle(operand(1));
    std::vector<uint32_t> read = texture_place(request.geometry, operand(1), type_from_end());
    for (size_t i = 0; i < more; ++i) {
        const size_t parts = registers_of(operand(2 + i)).size();
        const size_t wanted = request.detail == Detail::level ? 1 : count;
        if (parts < wanted || parts > 4) fail(full_name() + " has a vector of " + std::to_string(parts));
        append(read, operand(2 + i), 0, wanted, request.by_element ? Type::s32 : Type::f32);
    }
    const auto parts = registers_of(operand(0));
    const size_t results = request.result == Result::half_pairs ? 2 : 4;
    if (parts.size() != results) fail(full_name() + " wants " + std::to_string(results) + " destinations");
    std::vector<uint32_t> written;
    for (const ptx::Operand* part : parts)
        written.push_back(dest(*part, request.result == Result::halves ? Type::f16 : Type::b32));
    texture_instruction(handle, request.pack(), std::move(written), std::move(read));
    if (operand(0).second == ptx::kNone) return;
    // Every element is there: no array here is sparse.
    if (registers_[operand(0).second] != Type::pred) fail("a predicate expected in " + full_name());
    const uint32_t zero = immediate(Width::narrow, 0);
    emit("setp.eq.b32"_op, operand(0).second, zero, zero);
}

void Selector::pick_texture() {
    Request request;
    request.detail = has("level") ? Detail::level : has("grad") ? Detail::gradient : Detail::base;
    fetch(request);
}

void Selector::pick_gather() {
    Request request;
    request.channel = uint32_t(which({"r", "g", "b", "a"}).value_or(0));
    fetch(request);
}

// txq, txq.level and suq
void Selector::pick_texture_query() {
    const bool level = has("level");
    expect_operands(2 + level, 2 + level);
    const uint32_t handle = texture_handle(operand(1));
    if (!operand(1).parts.empty()) fail(full_name() + " has no coordinates");
    const uint32_t to = dest(0, Type::b32);
    const uint32_t number = level ? source(2, Type::b32) : kNoValue;
    emit(code(), to, handle, kNoValue, number).crosses = true;
}

Request Selector::surface_request() const {
    Request request;
    request.geometry = geometry_of(which({"1d", "2d", "3d", "a1d", "a2d"}));
    request.bounds = Bounds(which({"trap", "clamp", "zero"}).value_or(0));
    request.parts = has("v4") ? 4 : has("v2") ? 2 : 1;
    return request;
}

// suld.b: {d}, [surface, {place}]; sust.b: [surface, {place}], {a}
void Selector::pick_surface_access() {
    expect_operands(2, 2);
    const bool load = now_->opcode == "suld";
    const ptx::Operand &data = operand(load ? 0 : 1), &place = operand(load ? 1 : 0);
    const Type type =
        ptx::type_named(*std::find_if(now_->mods.rbegin(), now_->mods.rend(),
                                      [](auto modifier) { return ptx::type_named(modifier) != Type::none; }));
    Request request = surface_request();
    request.bytes = ptx::traits(type).bytes;
    const uint32_t handle = texture_handle(place);
    std::vector<uint32_t> at = texture_place(request.geometry, place, Type::s32);
    const auto parts = registers_of(data);
    if (parts.size() != request.parts)
        fail(full_name() + " wants " + std::to_string(request.parts) + " registers");
    std::vector<uint32_t> values;
    for (const ptx::Operand* part : parts)
        values.push_back(load ? dest(*part, type, true) : source(*part, type, true));
    if (load) return void(texture_instruction(handle, request.pack(), std::move(values), std::move(at)));
    values.insert(values.end(), at.begin(), at.end());
    texture_instruction(handle, request.pack(), {}, std::move(values));
}

// sured.b: [surface, {place}], a
void Selector::pick_surface_reduction() {
    expect_operands(2, 2);
    const Type type = ptx::type_named(now_->mods[now_->mods.size() - 2]);
    Request request = surface_request();
    request.bytes = ptx::traits(type).bytes;
    const uint32_t handle = texture_handle(operand(0));
    const std::vector<uint32_t> at = texture_place(request.geometry, operand(0), Type::s32);
    std::vector<uint32_t> values{source(1, type)};
    values.insert(values.end(), at.begin(), at.end());
    texture_instruction(handle, request.pack(), {}, std::move(values));
}

void Selector::pick_no_texture() {
    fail("unsupported instruction " + full_name() +
         ": of textures and surfaces, what CUDA C++ compiles to is supported");
}

}  // namespace softgpu::lower
