// JSON that an agent or an attach point sends, read by yyjson: strict, without recursion, in memory whose
// size follows from the text's length.
#pragma once

#include <yyjson.h>

#include <string>
#include <string_view>
#include <vector>

namespace json {

// Values are asked of `root`, and live as long as the document. Its memory is wiped at its end: a text may
// hold a lease's secret.
class Document {
  public:
    explicit Document(std::string_view text);
    ~Document();
    Document(const Document&) = delete;
    Document& operator=(const Document&) = delete;

    // Null where the text is not one JSON value.
    yyjson_val* root() const { return root_; }

  private:
    std::vector<char> memory_;
    yyjson_val* root_ = nullptr;
};

// A field of an object: empty, or `otherwise`, where there is none or it is of another type. `object` may be
// null.
std::string text(yyjson_val* object, const char* key);
double number(yyjson_val* object, const char* key, double otherwise);

}  // namespace json
