// Tries what a program in a sandbox may or may not do, and prints "name: ok" or "name: ERRNO" for each.
// `probe SUBJECT` runs one subject. Arguments are harmless where nothing refuses them.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void say(const char *name, long result) {
    printf("%s: %s\n", name, result >= 0 ? "ok" : strerrorname_np(errno));
    fflush(stdout);
}
#define TRY(call) say(#call, call)
#define TRY_AS(name, call) say(name, call)

// Runs something in a child and prints the signal that ended it, or what it returned.
static void in_child(const char *name, long (*work)(void)) {
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        long result = work();
        _exit(result < 0 ? errno : 0);
    }
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status)) printf("%s: SIG%s\n", name, sigabbrev_np(WTERMSIG(status)));
    else printf("%s: %s\n", name, WEXITSTATUS(status) ? strerrorname_np(WEXITSTATUS(status)) : "ok");
    fflush(stdout);
}

static void sockets(void) {
    TRY_AS("unix", socket(AF_UNIX, SOCK_STREAM, 0));
    TRY_AS("inet", socket(AF_INET, SOCK_STREAM, 0));
    TRY_AS("inet6", socket(AF_INET6, SOCK_DGRAM, 0));
    TRY_AS("route", socket(AF_NETLINK, SOCK_RAW, 0));
    TRY_AS("netlink audit", socket(AF_NETLINK, SOCK_RAW, 9));
    TRY_AS("netlink uevent", socket(AF_NETLINK, SOCK_RAW, 15));
    TRY_AS("packet", socket(AF_PACKET, SOCK_DGRAM, 0));
    TRY_AS("vsock", socket(40, SOCK_STREAM, 0));
    TRY_AS("alg", socket(AF_ALG, SOCK_SEQPACKET, 0));
    TRY_AS("raw", socket(AF_INET, SOCK_RAW, 1));
    int pair[2];
    TRY_AS("pair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    TRY_AS("tipc pair", socketpair(30, SOCK_STREAM, 0, pair));
}

static void uring(void) {
    char params[256] = {0};
    TRY_AS("io_uring_setup", syscall(SYS_io_uring_setup, 8, params));
    TRY_AS("io_uring_enter", syscall(SYS_io_uring_enter, -1, 0, 0, 0, 0, 0));
    TRY_AS("io_uring_register", syscall(SYS_io_uring_register, -1, 0, 0, 0));
}

static void tracing(void) {
    int fds[2];
    pid_t pid = fork();
    if (pid == 0) { pause(); _exit(0); }
    TRY_AS("attach", ptrace(PTRACE_SEIZE, pid, 0, 0));
    long word = 0;
    struct { void *at; size_t len; } local = {&word, 8}, remote = {&word, 8};
    TRY_AS("read memory", syscall(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0));
    TRY_AS("write memory", syscall(SYS_process_vm_writev, pid, &local, 1, &remote, 1, 0));
    int pidfd = syscall(SYS_pidfd_open, pid, 0);
    say("pidfd_open", pidfd);
    TRY_AS("pidfd_getfd", syscall(SYS_pidfd_getfd, pidfd, 1, 0));
    TRY_AS("kcmp", syscall(SYS_kcmp, getpid(), pid, 0, 0, 0));
    TRY_AS("first process", ptrace(PTRACE_SEIZE, 1, 0, 0));
    TRY_AS("first process's memory", open("/proc/1/mem", O_RDWR));
    TRY_AS("first process's program", open("/proc/1/exe", O_RDONLY));
    TRY_AS("first process's root", open("/proc/1/root", O_PATH));
    (void)fds;
    kill(pid, SIGKILL);
}

static void keys(void) {
    TRY_AS("add_key", syscall(SYS_add_key, "user", "trumanfs-probe", "x", 1, KEY_SPEC_PROCESS_KEYRING));
    TRY_AS("request_key", syscall(SYS_request_key, "user", "trumanfs-probe", 0, 0));
    TRY_AS("keyctl", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 0));
}

static void kernel(void) {
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_TASK_CLOCK, .exclude_kernel = 1};
    TRY_AS("userfaultfd", syscall(SYS_userfaultfd, 1 /* UFFD_USER_MODE_ONLY */));
    TRY_AS("perf_event_open", syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
    TRY_AS("bpf", syscall(SYS_bpf, 0, 0, 0));
    TRY_AS("finit_module", syscall(SYS_finit_module, -1, "", 0));
    TRY_AS("kexec_load", syscall(SYS_kexec_load, 0, 0, 0, 0));
    TRY_AS("syslog", syscall(SYS_syslog, 10, 0, 0));
    TRY_AS("memfd_create", memfd_create("x", 0));
    TRY_AS("a call of the future", syscall(999));
}

static long clone_user(void) { return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0); }
static long clone_net(void) { return syscall(SYS_clone, CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0); }
static long clone_plain(void) {
    long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) _exit(0);
    return pid;
}
static long clone_three(void) {
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    return syscall(SYS_clone3, &args, sizeof args);
}
static long unshare_user(void) { return unshare(CLONE_NEWUSER); }
static long unshare_time(void) { return unshare(0x80); }
static long unshare_files(void) { return unshare(CLONE_FILES); }
static long set_ns(void) { return setns(open("/proc/self/ns/uts", O_RDONLY), 0); }
static void namespaces(void) {
    in_child("clone user", clone_user);
    in_child("clone net", clone_net);
    in_child("clone", clone_plain);
    in_child("clone3 user", clone_three);
    in_child("unshare user", unshare_user);
    in_child("unshare time", unshare_time);
    in_child("unshare files", unshare_files);
    in_child("setns", set_ns);
}

static void mounts(void) {
    struct { unsigned bytes; int type; unsigned char data[128]; } handle = {.bytes = 128};
    int id;
    TRY_AS("mount", syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, 0));
    TRY_AS("umount2", syscall(SYS_umount2, "/tmp", 2));
    TRY_AS("pivot_root", syscall(SYS_pivot_root, ".", "."));
    TRY_AS("chroot", chroot("/tmp"));
    TRY_AS("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
    TRY_AS("fsconfig", syscall(SYS_fsconfig, -1, 6, 0, 0, 0));
    TRY_AS("fsmount", syscall(SYS_fsmount, -1, 0, 0));
    TRY_AS("fspick", syscall(SYS_fspick, -100, "/", 0));
    TRY_AS("open_tree", syscall(SYS_open_tree, -100, "/usr", 0));
    TRY_AS("move_mount", syscall(SYS_move_mount, -1, "", -1, "", 0));
    TRY_AS("mount_setattr", syscall(SYS_mount_setattr, -1, "", 0, 0, 0));
    TRY_AS("open_tree_attr", syscall(467, -100, "/usr", 0, 0, 0));
    TRY_AS("name_to_handle_at", syscall(SYS_name_to_handle_at, -100, "/usr", &handle, &id, 0));
    TRY_AS("open_by_handle_at", syscall(SYS_open_by_handle_at, -100, &handle, O_RDONLY));
}

#ifdef __x86_64__
static long i386_getpid(void) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "r8", "r9", "r10", "r11", "memory");
    return result;
}
static long x32_getpid(void) { return syscall(0x40000000 | SYS_getpid); }
static long x64_getpid(void) { return syscall(SYS_getpid); }
static void architectures(void) {
    in_child("i386", i386_getpid);
    in_child("x32", x32_getpid);
    in_child("x86-64", x64_getpid);
}
#else
static void architectures(void) {}
#endif

static long terminal_ioctl(unsigned long request) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master)) return -1;
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    if (slave < 0) return -1;
    long result = syscall(SYS_ioctl, slave, request, "x");
    close(slave);
    close(master);
    return result;
}
static void terminals(void) {
    TRY_AS("TIOCSTI", terminal_ioctl(0x5412));
    TRY_AS("TIOCSTI high", terminal_ioctl(0xdeadbeef00005412));
    TRY_AS("TIOCLINUX", terminal_ioctl(0x541c));
    char size[8];
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    TRY_AS("TIOCGWINSZ", ioctl(master, TIOCGWINSZ, size));
}

static void clocks(void) {
    struct timespec now;
    struct timeval when;
    clock_gettime(CLOCK_REALTIME, &now);
    gettimeofday(&when, 0);
    TRY_AS("clock_gettime", clock_gettime(CLOCK_REALTIME, &now));
    // (Times that no clock can be set to, should anybody run this outside.)
    now.tv_nsec = -1;
    when.tv_usec = -1;
    TRY_AS("clock_settime", syscall(SYS_clock_settime, CLOCK_REALTIME, &now));
    TRY_AS("settimeofday", syscall(SYS_settimeofday, &when, 0));
    TRY_AS("sethostname", sethostname("", 65));
    TRY_AS("reboot", syscall(SYS_reboot, 0, 0, 0, 0));
}

// abstract NAME | path NAME: connects to a Unix socket.
static void connect_to(const char *kind, const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), abstract = !strcmp(kind, "abstract");
    strncpy(address.sun_path + abstract, name, sizeof address.sun_path - 2);
    say(kind, connect(fd, (struct sockaddr *)&address, offsetof(struct sockaddr_un, sun_path) + abstract + strlen(name)));
}

// Forks until that fails, and prints how often it worked; the children wait for the end.
static void forks(void) {
    int count = 0;
    for (; count < 100000; count++) {
        pid_t pid = fork();
        if (pid < 0) break;
        if (pid == 0) { pause(); _exit(0); }
    }
    printf("%d %s\n", count, strerrorname_np(errno));
}

// A tree of forks that nobody waits for.
static void bomb(void) {
    for (;;) fork();
}

// Touches so many MiB of memory, in a child of its own for each fourth part if `spread`.
static void memory(size_t mib, int spread) {
    size_t part = spread ? mib / 4 : mib;
    for (int i = 0; i < (spread ? 4 : 1); i++) {
        if (spread && fork()) continue;
        char *at = mmap(0, part << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) exit(9);
        memset(at, 1, part << 20);
        if (spread) { pause(); }
    }
    if (spread) for (;;) if (wait(0) < 0) break;
    puts("touched");
}

static void descriptors(void) {
    int count = 0;
    while (open("/dev/null", O_RDONLY) >= 0) count++;
    printf("%d %s\n", count + 3, strerrorname_np(errno));
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "sockets")) sockets();
    else if (!strcmp(what, "uring")) uring();
    else if (!strcmp(what, "tracing")) tracing();
    else if (!strcmp(what, "keys")) keys();
    else if (!strcmp(what, "kernel")) kernel();
    else if (!strcmp(what, "namespaces")) namespaces();
    else if (!strcmp(what, "mounts")) mounts();
    else if (!strcmp(what, "architectures")) architectures();
    else if (!strcmp(what, "terminals")) terminals();
    else if (!strcmp(what, "clocks")) clocks();
    else if (!strcmp(what, "connect") && argc > 3) connect_to(argv[2], argv[3]);
    else if (!strcmp(what, "forks")) forks();
    else if (!strcmp(what, "bomb")) bomb();
    else if (!strcmp(what, "memory") && argc > 3) memory(strtoul(argv[2], 0, 10), atoi(argv[3]));
    else if (!strcmp(what, "descriptors")) descriptors();
    else if (!strcmp(what, "spin")) for (;;);
    else return 2;
    return 0;
}
