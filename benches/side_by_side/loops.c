/* The loops of small calls: metadata, opening and closing, reading and writing a little. Part of calls.c. */
#include "calls.h"
#include <dirent.h>

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
        const char *file = name("f", 0);
        int fd = open(file, O_CREAT | O_WRONLY | O_EXCL, 0644);
        CHECK(fd);
        CHECK(close(fd));
        CHECK(unlink(file));
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
        struct former former = keep(flags & O_TRUNC ? NULL : name("f", i % FEW));
        overwrite_at(&former, fd, data, SMALL, 0);
        kept(&former);
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

/* ---- the floor: one request and nothing else (floor.c) ---- */

static void ask(void) {
    start();
    for (long i = 0; i < count; i++)
        CHECK(access(".", R_OK));
    stop();
}

const struct loop small_loops[] = {
    {"create", create}, {"create-unlink", create_unlink}, {"mkdir-rmdir", mkdir_rmdir}, {"rename", rename_free},
    {"rename-over", rename_over}, {"chmod-utimens", attributes}, {"stat-hit", stat_hit}, {"stat-miss", stat_miss},
    {"link", link_new}, {"open-read", open_read}, {"open-write", write_small}, {"append", append},
    {"truncate-write", truncate_write}, {"readdir", list}, {"write-stat", write_stat}, {"access", may_access},
    {"unlink", unlink_all}, {"mkdir", mkdir_new}, {"chmod", change_mode}, {"lookup", lookup}, {"open-close", open_close},
    {"ask", ask}, {0},
};
