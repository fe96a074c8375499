# Fuzzers: programs with an `LLVMFuzzerTestOneInput`.
#
# With -DGPU_KERNELS_FUZZ=ON and clang a target is a libFuzzer program. Without, it is the same code with a `main`
# that runs it once on each file that it is given: the suite replays the corpora with whatever compiler there is,
# so that a fuzzer which no longer builds, and a finding that comes back, are noticed without clang.
option(GPU_KERNELS_FUZZ "Build the fuzzers as such; needs clang" OFF)

# fuzzer(NAME SOURCE...): not part of the default build.
function(fuzzer name)
  add_executable(${name} EXCLUDE_FROM_ALL ${ARGN})
  if(GPU_KERNELS_FUZZ)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/fuzzing/replay.cc)
  endif()
endfunction()

# fuzzed(TARGET...): libraries whose branches a fuzzer looks at.
function(fuzzed)
  if(GPU_KERNELS_FUZZ)
    foreach(target IN LISTS ARGN)
      target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    endforeach()
  endif()
endfunction()
