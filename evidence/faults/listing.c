/* Lists of files that show no new names: cc -shared -fPIC -O2 -o listing.so listing.c -ldl
 *
 * Preloaded (LD_PRELOAD) into executors and their Python workers. While a file says a time (ms since the epoch; 0: all
 * is shown), lists of the folders below $UNSKEW_LISTING_FOLDER/unskew leave out what has come since. A file that is
 * asked for by its name is there all the same: so it is on a network file system whose client keeps a list for a while,
 * and on some object stores.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MS_PER_S 1000
#define NS_PER_MS 1000000L

static volatile int64_t *since_ms;
static char folder[PATH_MAX];
static struct dirent *(*real_readdir)(DIR *);
static struct dirent64 *(*real_readdir64)(DIR *);

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("UNSKEW_LISTING_FILE"), *below = getenv("UNSKEW_LISTING_FOLDER");
    int file = path && below ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *since_ms, PROT_READ, MAP_SHARED, file, 0);
    since_ms = mapped == MAP_FAILED ? NULL : mapped;
    if (file >= 0) close(file);
    if (below) snprintf(folder, sizeof folder, "%s/", below);
    real_readdir = dlsym(RTLD_NEXT, "readdir");
    real_readdir64 = dlsym(RTLD_NEXT, "readdir64");
}

static int below_folder(int listed) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", listed);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return !strncmp(path, folder, strlen(folder)) && strstr(path, "/unskew");
}

static int hidden(DIR *listed, const char *name) {
    if (!since_ms || !*since_ms || !strcmp(name, ".") || !strcmp(name, "..")) return 0;
    int before = errno, new = 0;
    struct stat found;
    if (below_folder(dirfd(listed)) && !fstatat(dirfd(listed), name, &found, AT_SYMLINK_NOFOLLOW))
        new = (int64_t)found.st_ctim.tv_sec * MS_PER_S + found.st_ctim.tv_nsec / NS_PER_MS > *since_ms;
    errno = before;
    return new;
}

struct dirent *readdir(DIR *listed) {
    struct dirent *entry;
    if (!real_readdir) real_readdir = dlsym(RTLD_NEXT, "readdir");
    do entry = real_readdir(listed);
    while (entry && hidden(listed, entry->d_name));
    return entry;
}

struct dirent64 *readdir64(DIR *listed) {
    struct dirent64 *entry;
    if (!real_readdir64) real_readdir64 = dlsym(RTLD_NEXT, "readdir64");
    do entry = real_readdir64(listed);
    while (entry && hidden(listed, entry->d_name));
    return entry;
}
