// How a runtime call becomes a driver call.
#pragma once

#include <cstring>
#include <type_traits>

#include "context.h"
#include "driver.h"
#include "thread_state.h"

namespace cudart {

// A runtime argument as the driver's type of it. Both are the same thing under two names: a handle, an
// address, an enumeration with the same numbers, a structure of the same layout.
template <typename To, typename From>
To as(From value) {
    if constexpr (std::is_same_v<To, From>) {
        return value;
    } else if constexpr (std::is_pointer_v<To> && std::is_null_pointer_v<From>) {
        return nullptr;
    } else if constexpr (std::is_pointer_v<To> || std::is_pointer_v<From>) {
        static_assert(sizeof(To) == sizeof(From));
        return (To)(value);
    } else if constexpr (std::is_class_v<To>) {
        static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<To>);
        To other;
        std::memcpy(&other, &value, sizeof other);
        return other;
    } else {
        return static_cast<To>(value);
    }
}

template <typename... Parameters, typename... Arguments>
CUresult invoke(CUresult (*function)(Parameters...), Arguments... arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments));
    return function ? function(as<Parameters>(arguments)...) : CUDA_ERROR_NOT_SUPPORTED;
}

enum class Need { driver, context, context_if_alive };

// What a call begins with: the driver, with a current context where it needs one.
template <Need need>
const Driver* enter(cudaError_t& error) {
    if constexpr (need == Need::context) {
        return use_context(error);
    } else if constexpr (need == Need::context_if_alive) {
        return use_context_if_alive(error);
    } else {
        return use_driver(error);
    }
}

// A whole runtime call that is one driver call.
template <Need need, typename Function, typename... Arguments>
cudaError_t forward(Function Driver::* function, Arguments... arguments) {
    cudaError_t error;
    const Driver* driver = enter<need>(error);
    if (!driver) return finish(error);
    return finish(translated(invoke(driver->*function, arguments...)));
}

// A whole runtime call that is some code with the driver: `body(driver)` returns a cudaError_t or a CUresult.
template <Need need, typename Body>
cudaError_t call(Body body) {
    cudaError_t error;
    const Driver* driver = enter<need>(error);
    if (!driver) return finish(error);
    if constexpr (std::is_same_v<decltype(body(*driver)), CUresult>) {
        return finish(translated(body(*driver)));
    } else {
        return finish(body(*driver));
    }
}

// The legacy default stream's name in a call that means the per-thread one.
inline cudaStream_t per_thread(cudaStream_t stream) {
    return stream ? stream : cudaStreamPerThread;
}

}  // namespace cudart
