#include "cusparse/rules.h"

namespace maths::cusparse {
namespace {

void show_part(Look& look, const char* name, const char* part, uint64_t& address, int64_t type, Extent extent,
               Access access) {
    const std::string named = std::string(name) + "." + part;
    look.memory(named.c_str(), address, as_type(type), extent, access);
}

Extent batched(Extent extent, int64_t stride, int64_t batch) {
    return batch == 1 ? extent : strided(extent, stride, batch);
}

}  // namespace

void show(Look& look, const char* name, Sparse& m, Holds holds) {
    if (holds == Holds::counted && m.offsets == 0) return;
    if (holds == Holds::counted) holds = Holds::offsets;
    const bool of_coordinates = m.format == kCoo;
    const Access pattern = holds == Holds::whole || holds == Holds::offsets ? Access::kWrite : Access::kRead;
    const Extent offsets =
        of_coordinates ? exactly(m.entries) : exactly(lines(m) > 0 ? plus(lines(m), 1, 0) : 0);
    const uint64_t count = product(length(m.entries), product(length(m.block_rows), length(m.block_columns)));
    if (holds != Holds::offsets || !of_coordinates) {
        show_part(look, name, of_coordinates ? "rows" : "offsets", m.offsets, type_of_index(m.offset_type),
                  batched(offsets, m.offset_stride, m.batch), pattern);
    }
    if (holds == Holds::offsets) return;
    show_part(look, name, "indices", m.indices, type_of_index(m.index_type),
              batched(exactly(m.entries), m.index_stride, m.batch), pattern);
    if (holds == Holds::pattern) {
        m.values = 0;  // nobody has looked at it, and nobody is to follow it
        return;
    }
    const Access values = holds == Holds::whole ? Access::kWrite : access_of(holds);
    show_part(look, name, "values", m.values, m.type, batched({true, count}, m.value_stride, m.batch),
              values);
}

void show(Look& look, const char* name, Dense& m, Holds holds) {
    const Extent extent = ordered(m.order == kByRows, m.rows, m.columns, m.lead);
    show_part(look, name, "values", m.values, m.type, batched(extent, m.stride, m.batch), access_of(holds));
}

void show(Look& look, const char* name, Vector& v, Holds holds) {
    show_part(look, name, "values", v.values, v.type, {v.size >= 0, length(v.size)}, access_of(holds));
}

void show(Look& look, const char* name, Entries& v, Holds holds) {
    show_part(look, name, "indices", v.indices, type_of_index(v.index_type), exactly(v.count), Access::kRead);
    show_part(look, name, "values", v.values, v.type, exactly(v.count), access_of(holds));
}

}  // namespace maths::cusparse
