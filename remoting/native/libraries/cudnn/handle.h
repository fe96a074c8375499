// cuDNN's handles and descriptors, in the program's process.
#pragma once

#include <atomic>
#include <memory>

#include "cudnn/descriptors.h"
#include "driver.h"
#include "handles.h"

namespace cudnn {

struct Handle {
    std::atomic<CUstream> stream{nullptr};

    // Whether there is an end: asked once in each life of the process, whose next one may have another GPU
    // server.
    bool can_compute() {
        const libraries::Driver* const driver = libraries::driver();
        const unsigned long long life = driver ? driver->present_life() : 0;
        if (driver && is_asked && asked_in == life) return computes;
        const CUresult answer = libraries::look(kGkCudnn, CUDNN_MAJOR);
        computes = answer != CUDA_ERROR_NOT_SUPPORTED;
        asked_in = life;
        is_asked = answer == CUDA_SUCCESS || answer == CUDA_ERROR_NOT_SUPPORTED;
        return computes;
    }

  private:
    std::atomic<bool> is_asked{false}, computes{false};
    std::atomic<unsigned long long> asked_in{0};
};

// A recurrent layer's descriptor holds the one of its dropout: what that says counts when a call is made. It lives on here
// when the program has ended it.
struct Recurrent {
    maths::cudnn::Rnn layers{};  // without dropout
    void* dropout_given = nullptr;
    std::shared_ptr<maths::cudnn::Dropout> dropout;

    maths::cudnn::Rnn now() const {
        maths::cudnn::Rnn rnn = layers;
        if (dropout) rnn.dropout = *dropout;
        return rnn;
    }
};

// All that were given to the program and are not destroyed.
template <typename Thing>
libraries::Handles<Thing>& all() {
    static auto* const things = new libraries::Handles<Thing>;  // never destroyed: exit handlers may call
    return *things;
}

}  // namespace cudnn
