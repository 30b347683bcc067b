/* Loaded before a program, makes one call of it fail, as the system might: the n-th of a kind.

   QUARRY_FAIL_CALL     open, read, write, sync, rename, list, mmap or malloc
   QUARRY_FAIL_AT       n, from 1
   QUARRY_FAIL_ERRNO    the error; for read and write 0: the call does half of its work; negative: the number
   of a signal that the process gets before the call QUARRY_FAIL_BELOW    only calls on files below this path
   count; mmap: all mappings of files; malloc: all QUARRY_FAIL_REPORT   a file that appears when the call has
   failed

   A test that gets no report has tried all calls of the kind. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;
static long fail_at;
static int fail_errno;
static char fail_call[16];
static char below[PATH_MAX];
static char report[PATH_MAX];
static atomic_int ready;

static void setting(const char* name, char* out, size_t size) {
  const char* value = getenv(name);
  if (value != NULL) {
    strncpy(out, value, size - 1);
  }
}

__attribute__((constructor)) static void begin(void) {
  char number[32] = "0";
  setting("QUARRY_FAIL_CALL", fail_call, sizeof(fail_call));
  setting("QUARRY_FAIL_BELOW", below, sizeof(below));
  setting("QUARRY_FAIL_REPORT", report, sizeof(report));
  setting("QUARRY_FAIL_AT", number, sizeof(number));
  fail_at = atol(number);
  setting("QUARRY_FAIL_ERRNO", number, sizeof(number));
  fail_errno = atoi(number);
  /* Children are programs of their own. */
  unsetenv("LD_PRELOAD");
}

/* Failures begin with main: nothing can be caught before. */
static int (*real_main)(int, char**, char**);
static int main_that_fails(int count, char** arguments, char** environment) {
  ready = 1;
  return real_main(count, arguments, environment);
}
int __libc_start_main(int (*main)(int, char**, char**), int count, char** arguments, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void* stack_end) {
  int (*real)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void), void (*)(void),
              void*) = dlsym(RTLD_NEXT, "__libc_start_main");
  real_main = main;
  return real(main_that_fails, count, arguments, init, fini, rtld_fini, stack_end);
}

static int is_kind(const char* kind) { return ready && strcmp(kind, fail_call) == 0; }

/* Whether this call is the one. */
static int is_the_one(void) {
  if (atomic_fetch_add(&calls, 1) + 1 != fail_at) return 0;
  const long fd = syscall(SYS_openat, AT_FDCWD, report, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (fd >= 0) syscall(SYS_close, fd);
  if (fail_errno >= 0) return 1;
  syscall(SYS_kill, getpid(), -fail_errno);
  return 0;
}

static int path_counts(int folder, const char* path) {
  char full[PATH_MAX];
  if (path == NULL) return 0;
  if (path[0] != '/') {
    char link[64];
    char start[PATH_MAX];
    snprintf(link, sizeof(link), folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
    const ssize_t length = readlink(link, start, sizeof(start) - 1);
    if (length < 0) return 0;
    start[length] = 0;
    if (snprintf(full, sizeof(full), "%s/%s", start, path) >= (int)sizeof(full)) return 0;
    path = full;
  }
  return strncmp(path, below, strlen(below)) == 0;
}

static int file_counts(int fd) {
  char link[64];
  char path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return strncmp(path, below, strlen(below)) == 0;
}

static int path_fails(const char* kind, int folder, const char* path) {
  return is_kind(kind) && path_counts(folder, path) && is_the_one();
}
static int file_fails(const char* kind, int fd) { return is_kind(kind) && file_counts(fd) && is_the_one(); }

#define REAL(name)               \
  static __typeof__(name)* real; \
  if (real == NULL) real = (__typeof__(name)*)dlsym(RTLD_NEXT, #name)

#define FAIL(result)    \
  do {                  \
    errno = fail_errno; \
    return result;      \
  } while (0)

#define MODE(flags, last)                \
  mode_t mode = 0;                       \
  if ((flags) & (O_CREAT | O_TMPFILE)) { \
    va_list list;                        \
    va_start(list, last);                \
    mode = va_arg(list, mode_t);         \
    va_end(list);                        \
  }

int open(const char* path, int flags, ...) {
  REAL(open);
  MODE(flags, flags)
  if (path_fails("open", AT_FDCWD, path)) FAIL(-1);
  return real(path, flags, mode);
}
/* openat2 has no function in the C library. */
long syscall(long number, ...) {
  REAL(syscall);
  va_list list;
  va_start(list, number);
  long a[6];
  for (int i = 0; i < 6; ++i) a[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_openat2 && path_fails("open", (int)a[0], (const char*)a[1])) FAIL(-1);
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
int open64(const char* path, int flags, ...) {
  REAL(open64);
  MODE(flags, flags)
  if (path_fails("open", AT_FDCWD, path)) FAIL(-1);
  return real(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  REAL(openat);
  MODE(flags, flags)
  if (path_fails("open", folder, path)) FAIL(-1);
  return real(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  REAL(openat64);
  MODE(flags, flags)
  if (path_fails("open", folder, path)) FAIL(-1);
  return real(folder, path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  REAL(fopen);
  if (path_fails("open", AT_FDCWD, path)) FAIL(NULL);
  return real(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  REAL(fopen64);
  if (path_fails("open", AT_FDCWD, path)) FAIL(NULL);
  return real(path, mode);
}

/* A call that moves bytes fails, or moves half of them. */
#define MOVE(kind, call_with_size)     \
  size_t todo = size;                  \
  if (file_fails(kind, fd)) {          \
    if (fail_errno != 0) FAIL(-1);     \
    todo = size > 1 ? size / 2 : size; \
  }                                    \
  return call_with_size

ssize_t read(int fd, void* out, size_t size) {
  REAL(read);
  MOVE("read", real(fd, out, todo));
}
ssize_t pread(int fd, void* out, size_t size, off_t offset) {
  REAL(pread);
  MOVE("read", real(fd, out, todo, offset));
}
ssize_t pread64(int fd, void* out, size_t size, off64_t offset) {
  REAL(pread64);
  MOVE("read", real(fd, out, todo, offset));
}
ssize_t write(int fd, const void* bytes, size_t size) {
  REAL(write);
  MOVE("write", real(fd, bytes, todo));
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  REAL(pwrite);
  MOVE("write", real(fd, bytes, todo, offset));
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t offset) {
  REAL(pwrite64);
  MOVE("write", real(fd, bytes, todo, offset));
}
ssize_t writev(int fd, const struct iovec* parts, int count) {
  REAL(writev);
  if (file_fails("write", fd)) {
    errno = fail_errno != 0 ? fail_errno : EIO;
    return -1;
  }
  return real(fd, parts, count);
}
ssize_t pwritev(int fd, const struct iovec* parts, int count, off_t offset) {
  REAL(pwritev);
  if (file_fails("write", fd)) {
    errno = fail_errno != 0 ? fail_errno : EIO;
    return -1;
  }
  return real(fd, parts, count, offset);
}
int ftruncate(int fd, off_t size) {
  REAL(ftruncate);
  if (file_fails("write", fd)) FAIL(-1);
  return real(fd, size);
}
int ftruncate64(int fd, off64_t size) {
  REAL(ftruncate64);
  if (file_fails("write", fd)) FAIL(-1);
  return real(fd, size);
}

/* Takes the space for what is written to a mapping; its result is the error. */
int posix_fallocate(int fd, off_t offset, off_t size) {
  REAL(posix_fallocate);
  if (file_fails("write", fd)) return fail_errno != 0 ? fail_errno : EIO;
  return real(fd, offset, size);
}
int posix_fallocate64(int fd, off64_t offset, off64_t size) {
  REAL(posix_fallocate64);
  if (file_fails("write", fd)) return fail_errno != 0 ? fail_errno : EIO;
  return real(fd, offset, size);
}

int fsync(int fd) {
  REAL(fsync);
  if (file_fails("sync", fd)) FAIL(-1);
  return real(fd);
}
int fdatasync(int fd) {
  REAL(fdatasync);
  if (file_fails("sync", fd)) FAIL(-1);
  return real(fd);
}
int msync(void* at, size_t size, int flags) {
  REAL(msync);
  if (is_kind("sync") && is_the_one()) FAIL(-1);
  return real(at, size, flags);
}

int rename(const char* from, const char* to) {
  REAL(rename);
  if (path_fails("rename", AT_FDCWD, to)) FAIL(-1);
  return real(from, to);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  REAL(renameat);
  if (path_fails("rename", to_folder, to)) FAIL(-1);
  return real(from_folder, from, to_folder, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  REAL(renameat2);
  if (path_fails("rename", to_folder, to)) FAIL(-1);
  return real(from_folder, from, to_folder, to, flags);
}
int mkdir(const char* path, mode_t mode) {
  REAL(mkdir);
  if (path_fails("rename", AT_FDCWD, path)) FAIL(-1);
  return real(path, mode);
}
int link(const char* from, const char* to) {
  REAL(link);
  if (path_fails("rename", AT_FDCWD, to)) FAIL(-1);
  return real(from, to);
}
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  REAL(linkat);
  if (path_fails("rename", to_folder, to)) FAIL(-1);
  return real(from_folder, from, to_folder, to, flags);
}
int unlink(const char* path) {
  REAL(unlink);
  if (path_fails("rename", AT_FDCWD, path)) FAIL(-1);
  return real(path);
}

DIR* opendir(const char* path) {
  REAL(opendir);
  if (path_fails("list", AT_FDCWD, path)) FAIL(NULL);
  return real(path);
}
struct dirent* readdir(DIR* folder) {
  REAL(readdir);
  if (is_kind("list") && file_counts(dirfd(folder)) && is_the_one()) FAIL(NULL);
  return real(folder);
}
struct dirent64* readdir64(DIR* folder) {
  REAL(readdir64);
  if (is_kind("list") && file_counts(dirfd(folder)) && is_the_one()) FAIL(NULL);
  return real(folder);
}

ssize_t getdents64(int fd, void* entries, size_t size) {
  REAL(getdents64);
  if (is_kind("list") && file_counts(fd) && is_the_one()) FAIL(-1);
  return real(fd, entries, size);
}

void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  REAL(mmap);
  if (is_kind("mmap") && fd >= 0 && is_the_one()) FAIL(MAP_FAILED);
  return real(at, size, protection, flags, fd, offset);
}
void* mmap64(void* at, size_t size, int protection, int flags, int fd, off64_t offset) {
  REAL(mmap64);
  if (is_kind("mmap") && fd >= 0 && is_the_one()) FAIL(MAP_FAILED);
  return real(at, size, protection, flags, fd, offset);
}

/* glibc's own names: dlsym allocates. */
extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

void* malloc(size_t size) {
  if (is_kind("malloc") && is_the_one()) FAIL(NULL);
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  if (is_kind("malloc") && is_the_one()) FAIL(NULL);
  return __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) {
  if (is_kind("malloc") && is_the_one()) FAIL(NULL);
  return __libc_realloc(memory, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  if (is_kind("malloc") && is_the_one()) FAIL(NULL);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  if (is_kind("malloc") && is_the_one()) return ENOMEM;
  *out = __libc_memalign(alignment, size);
  return *out == NULL ? ENOMEM : 0;
}
