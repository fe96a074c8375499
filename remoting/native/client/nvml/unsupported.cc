// The answer of all names in names.txt that nothing here defines: what programs ask of a board that a slice
// of it does not tell.
#include "unsupported.h"

#include "slices.h"

int nvml_unsupported() {
    return nvml::is_started() ? nvml::kNotSupported : nvml::kUninitialized;
}
