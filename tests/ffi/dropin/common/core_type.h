/* A stand-in for a runtime's kinds of cores. */
#ifndef STANDIN_CORE_TYPE_H
#define STANDIN_CORE_TYPE_H

#include <cstdint>

enum class CoreType : std::int32_t { AIC = 0, AIV = 1 };

#endif
