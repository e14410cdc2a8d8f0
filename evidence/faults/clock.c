/* The time of day, shifted by as many milliseconds as a file says: cc -shared -fPIC -O2 -o clock.so clock.c -ldl
 *
 * Preloaded (LD_PRELOAD) into a driver and its JVM. libfaketime shifts the monotonic clock's waits too, which then fail
 * (EINVAL) when the shift changes; here the monotonic clock stays as it is, as when an administrator sets a clock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>

#define MS_PER_S 1000
#define NS_PER_MS 1000000L
#define NS_PER_S 1000000000L

static volatile int64_t *shift_ms;
static int (*real_gettime)(clockid_t, struct timespec *);
static int (*real_cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_cnd_timedwait)(cnd_t *, mtx_t *, const struct timespec *);
static int (*real_sem_timedwait)(sem_t *, const struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("UNSKEW_CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *shift_ms, PROT_READ, MAP_SHARED, file, 0);
    shift_ms = mapped == MAP_FAILED ? NULL : mapped;
    real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    /* The symbol without a version would be an old one, of another layout. */
    real_cond_timedwait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real_cond_timedwait) real_cond_timedwait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    real_cnd_timedwait = dlsym(RTLD_NEXT, "cnd_timedwait");
    real_sem_timedwait = dlsym(RTLD_NEXT, "sem_timedwait");
}

static void add(struct timespec *at, int64_t ms) {
    at->tv_sec += ms / MS_PER_S;
    at->tv_nsec += ms % MS_PER_S * NS_PER_MS;
    if (at->tv_nsec >= NS_PER_S) at->tv_sec++, at->tv_nsec -= NS_PER_S;
    if (at->tv_nsec < 0) at->tv_sec--, at->tv_nsec += NS_PER_S;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!real_gettime) real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real_gettime(clock, now);
    if (!result && shift_ms && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) add(now, *shift_ms);
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec at;
    int result = clock_gettime(CLOCK_REALTIME, &at);
    now->tv_sec = at.tv_sec;
    now->tv_usec = at.tv_nsec / 1000;
    return result;
}

time_t time(time_t *to) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    if (to) *to = at.tv_sec;
    return at.tv_sec;
}

/* Deadlines that were taken from the shifted time of day go back to the kernel's; small ones are monotonic. */
static const struct timespec *meant(const struct timespec *deadline, struct timespec *room) {
    if (!shift_ms || deadline->tv_sec < NS_PER_S) return deadline;
    *room = *deadline;
    add(room, -*shift_ms);
    return room;
}

int pthread_cond_timedwait(pthread_cond_t *restrict on, pthread_mutex_t *restrict lock,
                           const struct timespec *restrict until) {
    struct timespec room;
    return real_cond_timedwait(on, lock, meant(until, &room));
}

int cnd_timedwait(cnd_t *restrict on, mtx_t *restrict lock, const struct timespec *restrict until) { /* librdkafka's */
    struct timespec room;
    return real_cnd_timedwait(on, lock, meant(until, &room));
}

int sem_timedwait(sem_t *restrict on, const struct timespec *restrict until) {
    struct timespec room;
    return real_sem_timedwait(on, meant(until, &room));
}
