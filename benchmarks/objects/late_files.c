/* A file server that answers after a while, preloaded with LD_PRELOAD:
 *
 *   QUARRY_LATE     text in the paths of the files that are there
 *   QUARRY_LATE_US  microseconds of each call that asks the server: opening, looking at a path, listing,
 * reading
 *
 *   QUARRY_LATE_KIND  local: the file system does not say that it is NFS
 *
 * Attributes of an open file and closing cost nothing, as with NFS. The file system says that it is NFS.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is_late(const char* path) {
  const char* late = getenv("QUARRY_LATE");
  return late != NULL && path != NULL && strstr(path, late) != NULL;
}

static int is_late_file(int fd) {
  char link[64];
  char path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return is_late(path);
}

static void ask(int late) {
  const char* text = getenv("QUARRY_LATE_US");
  if (!late || text == NULL) return;
  const long us = atol(text);
  const struct timespec delay = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&delay, NULL);
}

#define MODE_OF(flags, last)           \
  mode_t mode = 0;                     \
  if (flags & (O_CREAT | O_TMPFILE)) { \
    va_list list;                      \
    va_start(list, last);              \
    mode = va_arg(list, mode_t);       \
    va_end(list);                      \
  }

int open(const char* path, int flags, ...) {
  MODE_OF(flags, flags)
  ask(is_late(path));
  return REAL(open)(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  MODE_OF(flags, flags)
  ask(is_late(path));
  return REAL(open64)(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  MODE_OF(flags, flags)
  ask(is_late(path) || is_late_file(folder));
  return REAL(openat)(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  MODE_OF(flags, flags)
  ask(is_late(path) || is_late_file(folder));
  return REAL(openat64)(folder, path, flags, mode);
}
int stat(const char* path, struct stat* info) {
  ask(is_late(path));
  return REAL(stat)(path, info);
}
int lstat(const char* path, struct stat* info) {
  ask(is_late(path));
  return REAL(lstat)(path, info);
}
int fstatat(int folder, const char* path, struct stat* info, int flags) {
  ask((*path != 0) && (is_late(path) || is_late_file(folder)));
  return REAL(fstatat)(folder, path, info, flags);
}
int statx(int folder, const char* path, int flags, unsigned mask, struct statx* info) {
  ask((*path != 0) && (is_late(path) || is_late_file(folder)));
  return REAL(statx)(folder, path, flags, mask, info);
}
ssize_t getdents64(int fd, void* bytes, size_t size) {
  ask(is_late_file(fd));
  return REAL(getdents64)(fd, bytes, size);
}
ssize_t read(int fd, void* bytes, size_t size) {
  ask(is_late_file(fd));
  return REAL(read)(fd, bytes, size);
}
ssize_t pread(int fd, void* bytes, size_t size, off_t at) {
  ask(is_late_file(fd));
  return REAL(pread)(fd, bytes, size, at);
}
ssize_t pread64(int fd, void* bytes, size_t size, off64_t at) {
  ask(is_late_file(fd));
  return REAL(pread64)(fd, bytes, size, at);
}
int statfs(const char* path, struct statfs* info) {
  ask(is_late(path));
  const int result = REAL(statfs)(path, info);
  if (result == 0 && is_late(path) && getenv("QUARRY_LATE_KIND") == NULL) info->f_type = NFS_SUPER_MAGIC;
  return result;
}
