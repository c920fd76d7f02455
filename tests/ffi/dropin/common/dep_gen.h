/* A stand-in for a runtime's record of a submit. */
#ifndef STANDIN_DEP_GEN_H
#define STANDIN_DEP_GEN_H

struct DepGenRecord {
    unsigned char bytes[8];
};

#endif
