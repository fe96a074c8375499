// What a maths library says: to the user on standard error, a line each.
#pragma once

#include <string>

namespace libraries {

void tell_user(const std::string& text);

}  // namespace libraries
