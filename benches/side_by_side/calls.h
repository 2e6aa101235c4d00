/* What all loops of calls.c use: the clock, names, and files to begin with. */
#ifndef CALLS_H
#define CALLS_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SMALL = 1024, CHUNK = 1 << 20, PAGE = 4096, FEW = 200 };

/* Operations of one caller, and the size of the file of a data loop. */
extern long count, bytes;

_Noreturn void fail(const char *what);
#define CHECK(call) do { if ((call) < 0) fail(#call); } while (0)

/* The timed part is what lies between these two. Several callers begin together, and end when the last one does. */
void start(void);
void stop(void);

const char *name(const char *prefix, long i);
const char *seeded(const char *file);
char *filled(size_t size);
void write_all(int fd, const char *data, size_t size);
/* Makes files of `size` bytes: the state that most loops start from. */
void files(const char *prefix, long n, size_t size);

/* With BENCH_KEEP=1 in the environment, what is overwritten is copied first, into a file of its own for each opening, and a list
 * says which parts it has: what keeping a former content costs by itself where blocks cannot be shared. Without a
 * path, nothing is copied. */
struct former {
    int source, copy, list;
};
struct former keep(const char *path);
void overwrite_at(const struct former *kept, int fd, const char *data, size_t size, off_t at);
void kept(const struct former *kept);

struct loop {
    const char *name;
    void (*run)(void);
};

/* Each list ends with a loop without a name. */
extern const struct loop small_loops[], data_loops[];

#endif
