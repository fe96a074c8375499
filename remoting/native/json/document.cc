#include "json/document.h"

#include <string.h>

namespace json {

// In the one block lie a copy of the text, in which strings are unescaped, and the values that refer to it.
Document::Document(std::string_view text) {
    const size_t copied = text.size() + YYJSON_PADDING_SIZE;
    memory_.resize(copied + yyjson_read_max_memory_usage(text.size(), YYJSON_READ_INSITU));
    memcpy(memory_.data(), text.data(), text.size());
    yyjson_alc in_memory;
    if (!yyjson_alc_pool_init(&in_memory, memory_.data() + copied, memory_.size() - copied)) return;
    root_ = yyjson_doc_get_root(
        yyjson_read_opts(memory_.data(), text.size(), YYJSON_READ_INSITU, &in_memory, nullptr));
}

Document::~Document() {
    explicit_bzero(memory_.data(), memory_.size());
}

std::string text(yyjson_val* object, const char* key) {
    yyjson_val* value = yyjson_obj_get(object, key);
    return yyjson_is_str(value) ? std::string(yyjson_get_str(value), yyjson_get_len(value)) : std::string();
}

double number(yyjson_val* object, const char* key, double otherwise) {
    yyjson_val* value = yyjson_obj_get(object, key);
    return yyjson_is_num(value) ? yyjson_get_num(value) : otherwise;
}

}  // namespace json
