/* The system call loops of the side-by-side benchmark.
 *
 *     calls WORKLOAD WORK SEED COUNT BYTES     one loop of system calls (loops.c, data.c)
 *     calls many CALLERS own|shared WORKLOAD WORK SEED COUNT BYTES
 *                                              the loop in several processes at once, COUNT operations in all, each in a
 *                                              directory of its own or all in one
 *     calls run WORK PROGRAM ARGUMENT...       one program, in WORK, timed
 *
 * Prints the nanoseconds that the timed part took. What a loop needs is made before the clock starts. Nothing is
 * removed afterwards: every round has stores of its own.
 *
 * With BENCH_STEP=1 in the environment the program writes "ready" before the timed part and "done" after it, and
 * waits each time for a line on standard input, so that requests can be counted for the timed part alone.
 *
 * Compiled by side_by_side.py with gcc. */
#include "calls.h"
#include <sys/wait.h>

long count, bytes;
static const char *seed;
static struct timespec began, ended;
/* Of one of many callers: its number, from 1, and its ends of the pipes by which they begin and end together. */
static long caller;
static int ready[2], go[2], done[2];

void fail(const char *what) {
    fprintf(stderr, "calls: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void step(const char *word) {
    char line[16];
    if (!getenv("BENCH_STEP"))
        return;
    printf("%s\n", word);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        exit(1);
}

void start(void) {
    char byte = 0;
    if (caller) {
        CHECK(write(ready[1], &byte, 1));
        CHECK(read(go[0], &byte, 1)); /* ends when the parent closes its end, for all callers at the same moment */
        return;
    }
    step("ready");
    clock_gettime(CLOCK_MONOTONIC, &began);
}

void stop(void) {
    char byte = 0;
    if (caller) {
        CHECK(write(done[1], &byte, 1));
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    step("done");
}

const char *name(const char *prefix, long i) {
    static char names[2][64];
    static int which;
    which = !which;
    snprintf(names[which], sizeof names[which], "%s%06ld", prefix, i + caller * 1000000);
    return names[which];
}

const char *seeded(const char *file) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", seed, file);
    return path;
}

char *filled(size_t size) {
    char *data = malloc(size);
    if (!data)
        fail("malloc");
    memset(data, 'x', size);
    return data;
}

void write_all(int fd, const char *data, size_t size) {
    while (size) {
        ssize_t n = write(fd, data, size);
        if (n <= 0)
            fail("write");
        data += n;
        size -= (size_t)n;
    }
}

void files(const char *prefix, long n, size_t size) {
    char *data = filled(size + 1);
    for (long i = 0; i < n; i++) {
        int fd = open(name(prefix, i), O_CREAT | O_WRONLY | O_EXCL, 0644);
        CHECK(fd);
        write_all(fd, data, size);
        CHECK(close(fd));
    }
    free(data);
}

struct former keep(const char *path) {
    static long number;
    struct former kept = {-1, -1, -1};
    if (!path || !getenv("BENCH_KEEP"))
        return kept;
    CHECK(kept.source = open(path, O_RDONLY));
    CHECK(kept.copy = open(name("former", number), O_CREAT | O_EXCL | O_WRONLY, 0600));
    CHECK(kept.list = open(name("list", number++), O_CREAT | O_EXCL | O_WRONLY | O_APPEND, 0600));
    return kept;
}

void overwrite_at(const struct former *kept, int fd, const char *data, size_t size, off_t at) {
    static char buffer[CHUNK];
    if (kept->copy >= 0) {
        ssize_t old = pread(kept->source, buffer, size, at);
        CHECK(old);
        if (pwrite(kept->copy, buffer, (size_t)old, at) != old)
            fail("pwrite of what was there");
        if (dprintf(kept->list, "%lld %zd\n", (long long)at, old) < 0)
            fail("write of the list");
    }
    if (pwrite(fd, data, size, at) != (ssize_t)size)
        fail("pwrite");
}

void kept(const struct former *kept) {
    if (kept->copy < 0)
        return;
    CHECK(close(kept->source));
    CHECK(close(kept->copy));
    CHECK(close(kept->list));
}

static void run(char **argv) {
    int status;
    int sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK(sink);
    start();
    pid_t child = vfork();
    CHECK(child);
    if (child == 0) {
        dup2(sink, STDOUT_FILENO);
        execvp(argv[0], argv);
        _exit(127);
    }
    CHECK(waitpid(child, &status, 0));
    stop();
    /* A search that finds nothing ends with 1, and is what we ask for. */
    int search = strcmp(argv[0], "grep") == 0 || strcmp(argv[0], "rg") == 0;
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && !(search && WEXITSTATUS(status) == 1))) {
        fprintf(stderr, "calls: %s ended with %d\n", argv[0], WIFEXITED(status) ? WEXITSTATUS(status) : -1);
        exit(1);
    }
}

static void one_of_many(void (*loop)(void), long number, int own) {
    char directory[32];
    CHECK(close(go[1]));
    if (own) {
        snprintf(directory, sizeof directory, "caller-%ld", number);
        CHECK(mkdir(directory, 0755));
        CHECK(chdir(directory));
    }
    caller = number;
    loop();
    _exit(0);
}

/* Waits for a byte of each caller. A caller that ends early leaves too few. */
static void gather(int end, long callers) {
    char byte;
    for (long i = 0; i < callers; i++)
        if (read(end, &byte, 1) != 1) {
            fprintf(stderr, "calls: a caller has failed\n");
            exit(1);
        }
}

static void many(void (*loop)(void), long callers, int own) {
    CHECK(pipe(ready));
    CHECK(pipe(go));
    CHECK(pipe(done));
    count /= callers;
    for (long i = 1; i <= callers; i++) {
        pid_t child = fork();
        CHECK(child);
        if (child == 0)
            one_of_many(loop, i, own);
    }
    CHECK(close(ready[1]));
    CHECK(close(done[1]));
    gather(ready[0], callers);
    start();
    CHECK(close(go[1]));
    gather(done[0], callers);
    stop();
    for (long i = 0; i < callers; i++) {
        int status;
        CHECK(wait(&status));
        if (status != 0)
            exit(1);
    }
}

static void (*loop_named(const char *wanted))(void) {
    const struct loop *lists[] = {small_loops, data_loops};
    for (size_t i = 0; i < 2; i++)
        for (const struct loop *loop = lists[i]; loop->name; loop++)
            if (strcmp(loop->name, wanted) == 0)
                return loop->run;
    fprintf(stderr, "calls: no workload %s\n", wanted);
    exit(2);
}

int main(int argc, char **argv) {
    int several = argc == 9 && strcmp(argv[1], "many") == 0;
    if (argc >= 4 && strcmp(argv[1], "run") == 0) {
        CHECK(chdir(argv[2]));
        run(argv + 3);
    } else if (argc == 6 || several) {
        char **words = argv + (several ? 4 : 1);
        void (*loop)(void) = loop_named(words[0]);
        seed = words[2];
        count = atol(words[3]);
        bytes = atol(words[4]);
        CHECK(chdir(words[1]));
        if (several)
            many(loop, atol(argv[2]), strcmp(argv[3], "own") == 0);
        else
            loop();
    } else {
        fprintf(stderr, "usage: calls [many CALLERS own|shared] WORKLOAD WORK SEED COUNT BYTES | calls run WORK PROGRAM ARGUMENT...\n");
        return 2;
    }
    printf("%lld\n", (ended.tv_sec - began.tv_sec) * 1000000000LL + (ended.tv_nsec - began.tv_nsec));
    return 0;
}
