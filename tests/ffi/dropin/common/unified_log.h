/* A stand-in for a runtime's log, as far as the drop-in headers use it. */
#ifndef STANDIN_UNIFIED_LOG_H
#define STANDIN_UNIFIED_LOG_H

extern "C" {
__attribute__((format(printf, 2, 3))) void unified_log_error(const char *func, const char *format, ...);
__attribute__((format(printf, 2, 3))) void unified_log_warn(const char *func, const char *format, ...);
}

#define LOG_ERROR(...) unified_log_error(__func__, __VA_ARGS__)
#define LOG_WARN(...) unified_log_warn(__func__, __VA_ARGS__)

#endif
