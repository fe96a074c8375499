// Spatial transformers' descriptors, in the program's process.
#include <algorithm>

#include "cudnn/describing.h"
#include "cudnn/transformer_rules.h"
#include "status.h"

using namespace cudnn;
using namespace maths::cudnn;

DESCRIPTOR(SpatialTransformer, Transformer)

CUDNN_EXPORT int cudnnSetSpatialTransformerNdDescriptor(void* descriptor, int sampler, int type, int rank,
                                                        const int* dims) {
    if (!dims || rank < 1) return kBadParameter;
    if (rank != kTransformed) return kNotSupported;
    Transformer by{sampler, type, rank, 0, {}};
    std::copy_n(dims, kTransformed, by.dims);
    return is_transformer(by) ? set(descriptor, by) : kBadParameter;
}
