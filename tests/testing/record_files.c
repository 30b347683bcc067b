/* Records what a program does to the files below a folder, for tests/integration/test_durability.py and
 * test_crash.py: preloaded with LD_PRELOAD, it writes a line for each call that succeeded, in their order.
 *
 *   QUARRY_RECORD       file that the lines are appended to
 *   QUARRY_RECORD_ROOT  folder; calls elsewhere are not recorded
 *   QUARRY_RECORD_DATA  file that the written bytes are appended to; may be missing
 *   QUARRY_RECORD_READS  1: reads at an offset are recorded as well; may be missing
 *   QUARRY_RECORD_KILL  after so many lines the program is killed; may be missing
 *
 * Lines: NAME, tab, PATH, and for rename and link a tab and the new path, for write a tab, the offset, a tab
 * and the number of bytes, for resize a tab and the new size. open says "create" or "truncate" where it does.
 * "lock-wait" is a lock that another process holds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Held over call and line, so that the lines are in the order of the calls. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* A process forked while another thread is in a call lacks that thread, so nobody would unlock the mutex. */
static void lock_mutex(void) { pthread_mutex_lock(&mutex); }
static void unlock_mutex(void) { pthread_mutex_unlock(&mutex); }
__attribute__((constructor)) static void prepare_for_forks(void) {
  pthread_atfork(lock_mutex, unlock_mutex, unlock_mutex);
}

/* The path of an open file. */
static int path_of(int fd, char* path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, PATH_MAX - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return path[0] == '/';
}

/* An absolute path. */
static int resolve(int folder, const char* name, char* path) {
  if (name[0] == '/') {
    snprintf(path, PATH_MAX, "%s", name);
    return 1;
  }
  char base[PATH_MAX];
  if (folder == AT_FDCWD ? getcwd(base, sizeof base) == NULL : !path_of(folder, base)) return 0;
  if (snprintf(path, PATH_MAX, "%s/%s", base, name) >= PATH_MAX) return 0;
  return 1;
}

static int is_ours(const char* path) {
  const char* root = getenv("QUARRY_RECORD_ROOT");
  return root != NULL && strncmp(path, root, strlen(root)) == 0;
}

static void record(const char* what, const char* path, const char* other) {
  const int saved = errno;
  const char* file = getenv("QUARRY_RECORD");
  if (file != NULL && (is_ours(path) || (other != NULL && is_ours(other)))) {
    char line[2 * PATH_MAX + 64];
    const int size = snprintf(line, sizeof line, "%s\t%s%s%s\n", what, path, other == NULL ? "" : "\t",
                              other == NULL ? "" : other);
    const int fd = REAL(open)(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || REAL(write)(fd, line, (size_t)size) != size) abort();
    REAL(close)(fd);
    static int lines;
    const char* last = getenv("QUARRY_RECORD_KILL");
    if (last != NULL && ++lines == atoi(last)) raise(SIGKILL);
  }
  errno = saved;
}

static void record_fd(const char* what, int fd) {
  const int saved = errno;
  char path[PATH_MAX];
  if (path_of(fd, path)) record(what, path, NULL);
  errno = saved;
}

static int open_at(int folder, const char* name, int flags, mode_t mode) {
  pthread_mutex_lock(&mutex);
  struct stat status;
  const int was_there = fstatat(folder, name, &status, 0) == 0;
  const int fd = REAL(openat)(folder, name, flags, mode);
  char path[PATH_MAX];
  if (fd >= 0 && resolve(folder, name, path)) {
    if (!was_there && (flags & O_CREAT) != 0) record("create", path, NULL);
    if (was_there && (flags & O_TRUNC) != 0) record("truncate", path, NULL);
  }
  pthread_mutex_unlock(&mutex);
  return fd;
}

#define MODE(flags)                               \
  mode_t mode = 0;                                \
  if (((flags) & (O_CREAT | __O_TMPFILE)) != 0) { \
    va_list arguments;                            \
    va_start(arguments, flags);                   \
    mode = va_arg(arguments, mode_t);             \
    va_end(arguments);                            \
  }

int open(const char* name, int flags, ...) {
  MODE(flags)
  return open_at(AT_FDCWD, name, flags, mode);
}
int open64(const char* name, int flags, ...) {
  MODE(flags)
  return open_at(AT_FDCWD, name, flags, mode);
}
int openat(int folder, const char* name, int flags, ...) {
  MODE(flags)
  return open_at(folder, name, flags, mode);
}
int openat64(int folder, const char* name, int flags, ...) {
  MODE(flags)
  return open_at(folder, name, flags, mode);
}

static void append_data(const void* bytes, size_t size) {
  const char* file = getenv("QUARRY_RECORD_DATA");
  if (file == NULL) return;
  const int fd = REAL(open)(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0 || REAL(write)(fd, bytes, size) != (ssize_t)size) abort();
  REAL(close)(fd);
}

/* A write of `size` bytes, the parts one after the other. @param at  offset; -1: it ended where the file
 * stands now */
static void record_write(int fd, const struct iovec* parts, int count, ssize_t size, off64_t at) {
  const int saved = errno;
  char path[PATH_MAX];
  char where[64];
  if (size > 0 && path_of(fd, path) && is_ours(path)) {
    if (at < 0) at = lseek64(fd, 0, SEEK_CUR) - size;
    snprintf(where, sizeof where, "%lld\t%zd", (long long)at, size);
    record("write", path, where);
    ssize_t left = size;
    for (int i = 0; i < count && left > 0; ++i) {
      const size_t part = parts[i].iov_len < (size_t)left ? parts[i].iov_len : (size_t)left;
      append_data(parts[i].iov_base, part);
      left -= (ssize_t)part;
    }
  }
  errno = saved;
}

#define WRITE(name, declaration, arguments, parts, count, at) \
  ssize_t name declaration {                                  \
    pthread_mutex_lock(&mutex);                               \
    const ssize_t result = REAL(name) arguments;              \
    record_write(fd, parts, count, result, at);               \
    pthread_mutex_unlock(&mutex);                             \
    return result;                                            \
  }
#define ONE (&(struct iovec){(void*)bytes, size})

WRITE(write, (int fd, const void* bytes, size_t size), (fd, bytes, size), ONE, 1, -1)
WRITE(pwrite, (int fd, const void* bytes, size_t size, off_t at), (fd, bytes, size, at), ONE, 1, at)
WRITE(pwrite64, (int fd, const void* bytes, size_t size, off64_t at), (fd, bytes, size, at), ONE, 1, at)
WRITE(writev, (int fd, const struct iovec* parts, int count), (fd, parts, count), parts, count, -1)
WRITE(pwritev, (int fd, const struct iovec* parts, int count, off_t at), (fd, parts, count, at), parts, count,
      at)

#define READ(name, offset)                                            \
  ssize_t name(int fd, void* bytes, size_t size, offset at) {         \
    pthread_mutex_lock(&mutex);                                       \
    const ssize_t result = REAL(name)(fd, bytes, size, at);           \
    if (getenv("QUARRY_RECORD_READS") != NULL) record_fd("read", fd); \
    pthread_mutex_unlock(&mutex);                                     \
    return result;                                                    \
  }

READ(pread, off_t)
READ(pread64, off64_t)

static void record_resize(int fd, off64_t size) {
  const int saved = errno;
  char path[PATH_MAX];
  char number[32];
  snprintf(number, sizeof number, "%lld", (long long)size);
  if (path_of(fd, path) && is_ours(path)) record("resize", path, number);
  errno = saved;
}

#define WITH_FD(type, name, declaration, arguments, act) \
  type name declaration {                                \
    pthread_mutex_lock(&mutex);                          \
    const type result = REAL(name) arguments;            \
    if (result == 0) act;                                \
    pthread_mutex_unlock(&mutex);                        \
    return result;                                       \
  }

WITH_FD(int, ftruncate, (int fd, off_t size), (fd, size), record_resize(fd, size))
WITH_FD(int, ftruncate64, (int fd, off64_t size), (fd, size), record_resize(fd, size))
WITH_FD(int, fsync, (int fd), (fd), record_fd("sync", fd))
WITH_FD(int, fdatasync, (int fd), (fd), record_fd("sync", fd))

int flock(int fd, int operation) {
  const int result = REAL(flock)(fd, operation);
  if (result == 0 && (operation & LOCK_EX) != 0) record_fd("lock", fd);
  if (result != 0 && errno == EWOULDBLOCK) record_fd("lock-wait", fd);
  return result;
}

static int with_paths(const char* what, int result, int from_folder, const char* from, int to_folder,
                      const char* to) {
  char old_path[PATH_MAX];
  char new_path[PATH_MAX];
  if (result == 0 && resolve(from_folder, from, old_path) && resolve(to_folder, to, new_path))
    record(what, old_path, new_path);
  return result;
}

static int with_path(const char* what, int result, int folder, const char* name) {
  char path[PATH_MAX];
  if (result == 0 && resolve(folder, name, path)) record(what, path, NULL);
  return result;
}

#define LOCKED(call)            \
  pthread_mutex_lock(&mutex);   \
  const int result = call;      \
  pthread_mutex_unlock(&mutex); \
  return result;

int rename(const char* from, const char* to) {
  LOCKED(with_paths("rename", REAL(rename)(from, to), AT_FDCWD, from, AT_FDCWD, to))
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  LOCKED(with_paths("rename", REAL(renameat)(from_folder, from, to_folder, to), from_folder, from, to_folder,
                    to))
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  LOCKED(with_paths("rename", REAL(renameat2)(from_folder, from, to_folder, to, flags), from_folder, from,
                    to_folder, to))
}
int link(const char* from, const char* to) {
  LOCKED(with_paths("link", REAL(link)(from, to), AT_FDCWD, from, AT_FDCWD, to))
}
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  LOCKED(with_paths("link", REAL(linkat)(from_folder, from, to_folder, to, flags), from_folder, from,
                    to_folder, to))
}
int mkdir(const char* name, mode_t mode) {
  LOCKED(with_path("mkdir", REAL(mkdir)(name, mode), AT_FDCWD, name))
}
int mkdirat(int folder, const char* name, mode_t mode) {
  LOCKED(with_path("mkdir", REAL(mkdirat)(folder, name, mode), folder, name))
}
int unlink(const char* name) { LOCKED(with_path("remove", REAL(unlink)(name), AT_FDCWD, name)) }
int unlinkat(int folder, const char* name, int flags) {
  LOCKED(with_path("remove", REAL(unlinkat)(folder, name, flags), folder, name))
}
int rmdir(const char* name) { LOCKED(with_path("remove", REAL(rmdir)(name), AT_FDCWD, name)) }
int remove(const char* name) { LOCKED(with_path("remove", REAL(remove)(name), AT_FDCWD, name)) }
