// The same functions, compiled as C++.
#define GLUE extern "C"
#include "aicore_glue.c"
