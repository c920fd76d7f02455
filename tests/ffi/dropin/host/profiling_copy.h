/* A stand-in for a runtime's way to device memory: no function where it is mapped. */
#ifndef STANDIN_PROFILING_COPY_H
#define STANDIN_PROFILING_COPY_H

#include <cstddef>
#include <functional>

std::function<int(void *, const void *, std::size_t)> profiling_copy_to_device_or_null();
std::function<int(void *, const void *, std::size_t)> profiling_copy_from_device_or_null();

#endif
