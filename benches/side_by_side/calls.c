/* The system call loops of the side-by-side benchmark.
 *
 *     calls WORKLOAD WORK SEED COUNT BYTES     one loop of system calls
 *     calls run WORK PROGRAM ARGUMENT...       one program, in WORK, timed
 *
 * Prints the nanoseconds that the timed part took. What a loop needs is made before the clock starts. Nothing is
 * removed afterwards: every round has stores of its own.
 *
 * With BENCH_STEP=1 in the environment the program writes "ready" before the timed part and "done" after it, and
 * waits each time for a line on standard input, so that requests can be counted for the timed part alone.
 *
 * Compiled by side_by_side.py with gcc. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SMALL = 1024, CHUNK = 1 << 20, PAGE = 4096, FEW = 200 };

static const char *seed;
static long count;
static long bytes;
static struct timespec began, ended;

static void fail(const char *what) {
    fprintf(stderr, "calls: %s: %s\n", what, strerror(errno));
    exit(1);
}

#define CHECK(call) do { if ((call) < 0) fail(#call); } while (0)

static void step(const char *word) {
    char line[16];
    if (!getenv("BENCH_STEP"))
        return;
    printf("%s\n", word);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        exit(1);
}

static void start(void) {
    step("ready");
    clock_gettime(CLOCK_MONOTONIC, &began);
}

static void stop(void) {
    clock_gettime(CLOCK_MONOTONIC, &ended);
    step("done");
}

static const char *name(const char *prefix, long i) {
    static char names[2][64];
    static int which;
    which = !which;
    snprintf(names[which], sizeof names[which], "%s%06ld", prefix, i);
    return names[which];
}

static char *filled(size_t size) {
    char *data = malloc(size);
    if (!data)
        fail("malloc");
    memset(data, 'x', size);
    return data;
}

static void write_all(int fd, const char *data, size_t size) {
    while (size) {
        ssize_t n = write(fd, data, size);
        if (n <= 0)
            fail("write");
        data += n;
        size -= (size_t)n;
    }
}

/* Makes files of `size` bytes: the state that most loops start from. */
static void files(const char *prefix, long n, size_t size) {
    char *data = filled(size + 1);
    for (long i = 0; i < n; i++) {
        int fd = open(name(prefix, i), O_CREAT | O_WRONLY | O_EXCL, 0644);
        CHECK(fd);
        write_all(fd, data, size);
        CHECK(close(fd));
    }
    free(data);
}

static void big_file(const char *path) {
    char *data = filled(CHUNK);
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    CHECK(fd);
    for (long done = 0; done < bytes; done += CHUNK)
        write_all(fd, data, CHUNK);
    CHECK(close(fd));
    free(data);
}

static const char *seeded(const char *file) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", seed, file);
    return path;
}

/* A fixed sequence, the same for every candidate. */
static long next_page(void) {
    static uint64_t x = 88172645463325252ULL;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (long)(x % (uint64_t)(bytes / PAGE)) * PAGE;
}

/* ---- metadata ---- */

static void create(void) {
    start();
    for (long i = 0; i < count; i++) {
        int fd = open(name("f", i), O_CREAT | O_WRONLY | O_EXCL, 0644);
        CHECK(fd);
        CHECK(close(fd));
    }
    stop();
}

static void create_unlink(void) {
    start();
    for (long i = 0; i < count; i++) {
        int fd = open("f", O_CREAT | O_WRONLY | O_EXCL, 0644);
        CHECK(fd);
        CHECK(close(fd));
        CHECK(unlink("f"));
    }
    stop();
}

static void mkdir_rmdir(void) {
    start();
    for (long i = 0; i < count; i++) {
        CHECK(mkdir("d", 0755));
        CHECK(rmdir("d"));
    }
    stop();
}

static void unlink_all(void) {
    files("f", count, 0);
    start();
    for (long i = 0; i < count; i++)
        CHECK(unlink(name("f", i)));
    stop();
}

static void mkdir_new(void) {
    start();
    for (long i = 0; i < count; i++)
        CHECK(mkdir(name("d", i), 0755));
    stop();
}

static void rename_free(void) {
    files("a", count, 0);
    start();
    for (long i = 0; i < count; i++)
        CHECK(rename(name("a", i), name("b", i)));
    stop();
}

static void rename_over(void) {
    files("a", count, 0);
    files("b", count, SMALL);
    start();
    for (long i = 0; i < count; i++)
        CHECK(rename(name("a", i), name("b", i)));
    stop();
}

static void attributes(void) {
    struct timespec times[2] = {{1600000000, 5}, {1600000000, 7}};
    files("f", FEW, 0);
    start();
    for (long i = 0; i < count; i++) {
        const char *file = name("f", i % FEW);
        CHECK(chmod(file, i & 1 ? 0644 : 0600));
        CHECK(utimensat(AT_FDCWD, file, times, 0));
    }
    stop();
}

/* Each file gets the other permissions in each pass: a call that changes nothing might be cheaper. */
static void change_mode(void) {
    files("f", FEW, 0);
    start();
    for (long i = 0; i < count; i++)
        CHECK(chmod(name("f", i % FEW), i / FEW & 1 ? 0644 : 0600));
    stop();
}

/* The first look at names that lay there before the mount: nobody knows them yet. */
static void lookup(void) {
    struct stat st;
    CHECK(chdir(seeded("names")));
    start();
    for (long i = 0; i < count; i++)
        CHECK(stat(name("f", i), &st));
    stop();
}

static void stat_hit(void) {
    struct stat st;
    files("f", FEW, 0);
    start();
    for (long i = 0; i < count; i++)
        CHECK(stat(name("f", i % FEW), &st));
    stop();
}

static void stat_miss(void) {
    struct stat st;
    start();
    for (long i = 0; i < count; i++)
        if (stat(name("missing", i % FEW), &st) == 0 || errno != ENOENT)
            fail("stat of a missing name");
    stop();
}

static void link_new(void) {
    files("f", 1, 0);
    start();
    for (long i = 0; i < count; i++)
        CHECK(link("f000000", name("l", i)));
    stop();
}

/* ---- single calls ---- */

static void open_close(void) {
    files("f", FEW, SMALL);
    start();
    for (long i = 0; i < count; i++) {
        int fd = open(name("f", i % FEW), O_RDONLY);
        CHECK(fd);
        CHECK(close(fd));
    }
    stop();
}

static void open_read(void) {
    char data[SMALL];
    files("f", FEW, SMALL);
    start();
    for (long i = 0; i < count; i++) {
        int fd = open(name("f", i % FEW), O_RDONLY);
        CHECK(fd);
        if (read(fd, data, SMALL) != SMALL)
            fail("read");
        CHECK(close(fd));
    }
    stop();
}

static void open_write(int flags) {
    char *data = filled(SMALL);
    files("f", FEW, SMALL);
    start();
    for (long i = 0; i < count; i++) {
        int fd = open(name("f", i % FEW), O_WRONLY | flags);
        CHECK(fd);
        write_all(fd, data, SMALL);
        CHECK(close(fd));
    }
    stop();
}

static void write_small(void) { open_write(0); }
static void truncate_write(void) { open_write(O_TRUNC); }

static void append(void) {
    char *data = filled(100);
    int fd = open("f", O_CREAT | O_WRONLY | O_APPEND, 0644);
    CHECK(fd);
    start();
    for (long i = 0; i < count; i++)
        write_all(fd, data, 100);
    stop();
}

static void list(void) {
    CHECK(mkdir("d", 0755));
    CHECK(chdir("d"));
    files("f", FEW, 0);
    CHECK(chdir(".."));
    start();
    for (long i = 0; i < count; i++) {
        long seen = 0;
        DIR *dir = opendir("d");
        if (!dir)
            fail("opendir");
        while (readdir(dir))
            seen++;
        if (seen != FEW + 2)
            fail("readdir: entries are missing");
        closedir(dir);
    }
    stop();
}

static void write_stat(void) {
    struct stat st;
    char *data = filled(100);
    int fd = open("f", O_CREAT | O_WRONLY, 0644);
    CHECK(fd);
    start();
    for (long i = 0; i < count; i++) {
        write_all(fd, data, 100);
        CHECK(stat("f", &st));
    }
    stop();
}

static void may_access(void) {
    files("f", FEW, 0);
    start();
    for (long i = 0; i < count; i++)
        CHECK(access(name("f", i % FEW), R_OK | W_OK));
    stop();
}

/* ---- data ---- */

static void sequential_write(void) {
    start();
    big_file("big");
    stop();
}

static void overwrite(void) {
    char *data = filled(CHUNK);
    big_file("big");
    start();
    int fd = open("big", O_WRONLY);
    CHECK(fd);
    for (long done = 0; done < bytes; done += CHUNK)
        write_all(fd, data, CHUNK);
    CHECK(close(fd));
    stop();
}

static void overwrite_middle(void) {
    char *data = filled(PAGE);
    big_file("big");
    start();
    for (long i = 0; i < count; i++) {
        int fd = open("big", O_RDWR);
        CHECK(fd);
        if (pwrite(fd, data, PAGE, bytes / 2 + i * PAGE) != PAGE)
            fail("pwrite");
        CHECK(close(fd));
    }
    stop();
}

static void read_through(const char *path) {
    char *data = filled(128 << 10);
    ssize_t n;
    int fd = open(path, O_RDONLY);
    CHECK(fd);
    while ((n = read(fd, data, 128 << 10)) > 0)
        ;
    CHECK(n);
    CHECK(close(fd));
    free(data);
}

static void read_first(void) {
    start();
    read_through(seeded("read"));
    stop();
}

static void read_again(void) {
    read_through(seeded("read"));
    start();
    read_through(seeded("read"));
    stop();
}

static void random_read(void) {
    char data[PAGE];
    start();
    int fd = open(seeded("random"), O_RDONLY);
    CHECK(fd);
    for (long i = 0; i < count; i++)
        if (pread(fd, data, PAGE, next_page()) != PAGE)
            fail("pread");
    CHECK(close(fd));
    stop();
}

static void random_write(void) {
    char *data = filled(PAGE);
    big_file("big");
    start();
    int fd = open("big", O_WRONLY);
    CHECK(fd);
    for (long i = 0; i < count; i++)
        if (pwrite(fd, data, PAGE, next_page()) != PAGE)
            fail("pwrite");
    CHECK(close(fd));
    stop();
}

static void mapped_read(void) {
    uint64_t sum = 0;
    start();
    int fd = open(seeded("mapped"), O_RDONLY);
    CHECK(fd);
    const uint64_t *map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        fail("mmap");
    for (size_t i = 0; i < (size_t)bytes / sizeof *map; i += 8)
        sum += map[i];
    CHECK(munmap((void *)map, (size_t)bytes));
    CHECK(close(fd));
    stop();
    if (sum == 0)
        fail("mmap: the file has no content");
}

/* ---- the floor: one request and nothing else (floor.c) ---- */

static void ask(void) {
    start();
    for (long i = 0; i < count; i++)
        CHECK(access(".", R_OK));
    stop();
}

/* ---- memory: a million files, made on the store and looked at through the home ---- */

static void fill(void) {
    char path[64];
    start();
    for (long i = 0; i < count; i++) {
        if (i % 1000 == 0) {
            snprintf(path, sizeof path, "d%04ld", i / 1000);
            CHECK(mkdir(path, 0755));
        }
        snprintf(path, sizeof path, "d%04ld/file-%03ld.txt", i / 1000, i % 1000);
        int fd = open(path, O_CREAT | O_WRONLY | O_EXCL, 0644);
        CHECK(fd);
        CHECK(close(fd));
    }
    stop();
}

static void stat_all(void) {
    struct stat st;
    long seen = 0;
    start();
    for (long i = 0; i < (count + 999) / 1000; i++) {
        struct dirent *entry;
        char path[64];
        snprintf(path, sizeof path, "d%04ld", i);
        DIR *dir = opendir(path);
        if (!dir)
            fail("opendir");
        while ((entry = readdir(dir))) {
            if (entry->d_name[0] == '.')
                continue;
            CHECK(fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW));
            seen++;
        }
        closedir(dir);
    }
    stop();
    if (seen != count)
        fail("stat-all: files are missing");
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
    /* grep that finds nothing ends with 1, and is what we ask for. */
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && !(strcmp(argv[0], "grep") == 0 && WEXITSTATUS(status) == 1))) {
        fprintf(stderr, "calls: %s ended with %d\n", argv[0], WIFEXITED(status) ? WEXITSTATUS(status) : -1);
        exit(1);
    }
}

static const struct { const char *name; void (*loop)(void); } loops[] = {
    {"create", create}, {"create-unlink", create_unlink}, {"mkdir-rmdir", mkdir_rmdir}, {"rename", rename_free},
    {"rename-over", rename_over}, {"chmod-utimens", attributes}, {"stat-hit", stat_hit}, {"stat-miss", stat_miss},
    {"link", link_new}, {"open-read", open_read}, {"open-write", write_small}, {"append", append},
    {"truncate-write", truncate_write}, {"readdir", list}, {"write-stat", write_stat}, {"access", may_access},
    {"write", sequential_write}, {"overwrite", overwrite}, {"overwrite-middle", overwrite_middle}, {"read-first", read_first}, {"read-again", read_again},
    {"random-read", random_read}, {"random-write", random_write}, {"mmap-read", mapped_read},
    {"unlink", unlink_all}, {"mkdir", mkdir_new}, {"chmod", change_mode}, {"lookup", lookup}, {"open-close", open_close},
    {"ask", ask}, {"fill", fill}, {"stat-all", stat_all},
};

int main(int argc, char **argv) {
    if (argc >= 4 && strcmp(argv[1], "run") == 0) {
        CHECK(chdir(argv[2]));
        run(argv + 3);
    } else if (argc == 6) {
        size_t i, n = sizeof loops / sizeof *loops;
        seed = argv[3];
        count = atol(argv[4]);
        bytes = atol(argv[5]);
        CHECK(chdir(argv[2]));
        for (i = 0; i < n && strcmp(loops[i].name, argv[1]) != 0; i++)
            ;
        if (i == n) {
            fprintf(stderr, "calls: no workload %s\n", argv[1]);
            return 2;
        }
        loops[i].loop();
    } else {
        fprintf(stderr, "usage: calls WORKLOAD WORK SEED COUNT BYTES | calls run WORK PROGRAM ARGUMENT...\n");
        return 2;
    }
    printf("%lld\n", (ended.tv_sec - began.tv_sec) * 1000000000LL + (ended.tv_nsec - began.tv_nsec));
    return 0;
}
