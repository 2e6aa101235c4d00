/* The loops over big files, and over a million small ones. Part of calls.c. */
#include "calls.h"
#include <dirent.h>
#include <sys/mman.h>

static void big_file(const char *path) {
    char *data = filled(CHUNK);
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    CHECK(fd);
    for (long done = 0; done < bytes; done += CHUNK)
        write_all(fd, data, CHUNK);
    CHECK(close(fd));
    free(data);
}

/* One that was there before: nothing of it waits to be written out, which a snapshot of a part of it would have to wait for. */
static void old_file(const char *path) {
    big_file(path);
    int fd = open(path, O_RDONLY);
    CHECK(fd);
    CHECK(fsync(fd));
    CHECK(close(fd));
}

/* A fixed sequence, the same for every candidate. */
static long next_page(void) {
    static uint64_t x = 88172645463325252ULL;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (long)(x % (uint64_t)(bytes / PAGE)) * PAGE;
}

/* ---- data ---- */

static void sequential_write(void) {
    start();
    big_file("big");
    stop();
}

static void overwrite(void) {
    char *data = filled(CHUNK);
    old_file("big");
    start();
    int fd = open("big", O_WRONLY);
    CHECK(fd);
    struct former former = keep("big");
    for (long done = 0; done < bytes; done += CHUNK)
        overwrite_at(&former, fd, data, CHUNK, done);
    kept(&former);
    CHECK(close(fd));
    stop();
}

static void overwrite_middle(void) {
    char *data = filled(PAGE);
    old_file("big");
    start();
    for (long i = 0; i < count; i++) {
        int fd = open("big", O_RDWR);
        CHECK(fd);
        struct former former = keep("big");
        overwrite_at(&former, fd, data, PAGE, bytes / 2 + i * PAGE);
        kept(&former);
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
    old_file("big");
    start();
    int fd = open("big", O_WRONLY);
    CHECK(fd);
    struct former former = keep("big");
    for (long i = 0; i < count; i++)
        overwrite_at(&former, fd, data, PAGE, next_page());
    kept(&former);
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

const struct loop data_loops[] = {
    {"write", sequential_write}, {"overwrite", overwrite}, {"overwrite-middle", overwrite_middle},
    {"read-first", read_first}, {"read-again", read_again}, {"random-read", random_read},
    {"random-write", random_write}, {"mmap-read", mapped_read}, {"fill", fill}, {"stat-all", stat_all}, {0},
};
