/* A file system as no test machine has it, preloaded with LD_PRELOAD:
 *
 *   QUARRY_FLOCK_ERRNO  number of the error that every flock fails with
 *   QUARRY_STUCK        reading a file whose path has this text blocks for ever, as on a server that is gone
 *   QUARRY_STUCK_TELL   file that is made when a read blocks
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int flock(int fd, int operation) {
  const char* error = getenv("QUARRY_FLOCK_ERRNO");
  if (error == NULL) return REAL(flock)(fd, operation);
  errno = atoi(error);
  return -1;
}

static void block_if_stuck(int fd) {
  const char* stuck = getenv("QUARRY_STUCK");
  if (stuck == NULL) return;
  char link[64];
  char path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return;
  path[size] = 0;
  if (strstr(path, stuck) == NULL) return;
  const char* tell = getenv("QUARRY_STUCK_TELL");
  if (tell != NULL) fclose(fopen(tell, "w"));
  while (1) pause();
}

ssize_t pread(int fd, void* bytes, size_t size, off_t at) {
  block_if_stuck(fd);
  return REAL(pread)(fd, bytes, size, at);
}
ssize_t pread64(int fd, void* bytes, size_t size, off64_t at) {
  block_if_stuck(fd);
  return REAL(pread64)(fd, bytes, size, at);
}
