/* Definitions for preloaded libraries: replacing libc's functions and calling the next ones (ld.so(8), LD_PRELOAD). */
#ifndef INTERPOSING_H
#define INTERPOSING_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

#define EXPORT __attribute__((visibility("default")))

/* The next library's function, in the end libc's, looked up once at each call site; without it there is nothing to
 * call. */
#define NEXT(name)                                                                                                     \
    static __typeof__(&name) next;                                                                                     \
    if (!next && !(next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)))                                                 \
    abort()

/* open(2): a mode is passed only if a file may be created. */
#define GIVEN_MODE(flags, mode)                                                                                        \
    va_list mode##_arguments;                                                                                          \
    va_start(mode##_arguments, flags);                                                                                 \
    mode_t mode = (flags) & (O_CREAT | O_TMPFILE) ? va_arg(mode##_arguments, mode_t) : 0;                              \
    va_end(mode##_arguments)

#endif
