/* What the device library imports of a runtime, for the tests that load it: a counter that moves when it is read, a log
 * that remembers, and cores' registers as cells by their number (RegId). */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { CORES = 108, REGISTERS = 31, PAGE = 0x2600 };

/* uint64_t get_sys_cnt_aicpu() */
static uint64_t ticks = 1000, step = 1;
uint64_t _Z17get_sys_cnt_aicpuv(void) { return __atomic_add_fetch(&ticks, step, __ATOMIC_RELAXED); }
void stub_set_step(uint64_t ticks_per_read) { step = ticks_per_read; }

static uint32_t errors, warnings;
static char last[512];

static void keep(const char *func, const char *format, va_list args) {
    int n = snprintf(last, sizeof last, "%s: ", func);
    vsnprintf(last + n, sizeof last - (size_t)n, format, args);
}

void unified_log_error(const char *func, const char *format, ...) {
    va_list args;
    va_start(args, format);
    keep(func, format, args);
    va_end(args);
    errors++;
}

void unified_log_warn(const char *func, const char *format, ...) {
    va_list args;
    va_start(args, format);
    keep(func, format, args);
    va_end(args);
    warnings++;
}

uint32_t stub_errors(void) { return errors; }
uint32_t stub_warnings(void) { return warnings; }
const char *stub_last(void) { return last; }

/* A core's registers. Their base is an address in `page`, so that what is written by offset (a2a3) lands there. */
struct core {
    uint32_t cell[REGISTERS];
    uint32_t page[PAGE / 4];
};
static struct core cores[CORES];
static uint64_t bases[CORES];

#ifdef PLATFORM_A2A3
static const uint32_t offset_of_id[] = {
    0xA0,  0x4C8, 0x18,  0,     0x200, 0x210, 0x218,  0x220,  0x228,  0x230,  0x238,  0x240,  0x248,  0x250,
    0x254, 0x2A0, 0x2A4, 0x2A8, 0x2AC, 0x1280, 0x1284, 0x1288, 0x128C, 0x1290, 0x1294, 0x1298, 0x129C,
};

static uint32_t *cell(uint64_t base, uint8_t id) { return (uint32_t *)(uintptr_t)(base + offset_of_id[id]); }

void _Z17reg_store_releasePVjj(volatile uint32_t *at, uint32_t value) {
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

uint64_t get_platform_pmu_reg_addrs(void) { return (uint64_t)(uintptr_t)bases; }
#else
static uint32_t *cell(uint64_t base, uint8_t id) {
    return &((struct core *)(uintptr_t)(base - sizeof(uint32_t) * REGISTERS))->cell[id];
}

void _Z9write_regm5RegIdm(uint64_t base, uint8_t id, uint64_t value) { *cell(base, id) = (uint32_t)value; }

uint64_t get_platform_regs(void) { return (uint64_t)(uintptr_t)bases; }
#endif

uint64_t _Z8read_regm5RegId(uint64_t base, uint8_t id) { return *cell(base, id); }

/* Gives the physical core its registers, or takes them away. */
void stub_set_core(uint32_t physical, uint8_t there) {
    bases[physical] = there ? (uint64_t)(uintptr_t)cores[physical].page : 0;
}

void stub_set_register(uint32_t physical, uint8_t id, uint32_t value) {
    *cell((uint64_t)(uintptr_t)cores[physical].page, id) = value;
}

uint32_t stub_register(uint32_t physical, uint8_t id) {
    return *cell((uint64_t)(uintptr_t)cores[physical].page, id);
}
