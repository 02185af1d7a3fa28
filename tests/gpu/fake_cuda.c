/* A libcuda.so.1 for tests: as much of CUDA's driver interface as the red team's attackers call, with no GPU behind it.
 *
 * FAKE_CUDA (else /fake-cuda) is a folder that all containers share. `cuda.json` there says how this machine behaves,
 * one value of each, all of them strings:
 *
 *   "memory"   container    all processes of a container together have its share, and no more
 *              process      each process has its share
 *              environment  each process has what CUDA_MPS_PINNED_DEVICE_MEM_LIMIT says; without it, everything
 *              none         everything
 *   "managed"  counted      memory that the driver may move is on the device only as far as the share goes
 *              free         all of it is on the device
 *   "compute"  container | process | environment (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE) | slices (equal ones for all)
 *   "faults"   stay         a fault ends its own process's context
 *              reach        and everybody's
 *   "pipe"     exclusive    a program with another MPS pipe directory than its container was given gets no context
 *              open         it gets one without any limit
 *   "devices"  own          a container has the devices that NVIDIA_VISIBLE_DEVICES of its first process names
 *              all          those of "uuids", whatever it was given
 *   "uuids"    of all devices, with commas between
 *   "total"    bytes of each device
 *
 * A container's share is what its first process was told (FGPU_MEMORY_BYTES, FGPU_SM_PERCENT), whatever this process
 * has in its own environment. `state/` there has a file of each process, locked for as long as it lives:
 * `session-pid`, with the bytes that it has on the device and whether it computes. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201,
       NOT_FOUND = 500, DEVICE_UNAVAILABLE = 46, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719 };

typedef unsigned long long u64;

static const double FULL = 1e12; /* rounds of all threads in a second, of a whole device */
static const int MULTIPROCESSORS = 100;

static char world[4096], first[65536];
static size_t first_size;
static char session[80], own_file[512];
static int own = -1, has_context, computes, faulted, faults_at_start, fault_launched;
static u64 on_device, managed_size;
static double pending;
static char uuids[16][64];
static int n_devices;

/* ---- what the machine is, and what this container was given ---- */

static const char *folder(void) {
    const char *named = getenv("FAKE_CUDA");
    return named ? named : "/fake-cuda";
}

static size_t read_file(const char *path, char *out, size_t room) {
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    size_t size = fread(out, 1, room - 1, file);
    out[size] = 0;
    fclose(file);
    return size;
}

/* The value of a name in cuda.json; "" where it is not there. */
static const char *rule(const char *name) {
    static char value[1024];
    char key[64];
    *value = 0;
    snprintf(key, sizeof key, "\"%s\"", name);
    const char *at = strstr(world, key);
    if (at && (at = strchr(at + strlen(key), ':'))) sscanf(at, ": \"%1023[^\"]", value);
    return value;
}

static int is(const char *name, const char *value) { return !strcmp(rule(name), value); }

/* A variable of the container's first process. */
static const char *given(const char *name) {
    for (char *at = first; at < first + first_size; at += strlen(at) + 1)
        if (!strncmp(at, name, strlen(name)) && at[strlen(name)] == '=') return at + strlen(name) + 1;
    return "";
}

static u64 total(void) { return strtoull(rule("total"), NULL, 10); }

static int add_device(const char *uuid) {
    if (n_devices == 16 || strncmp(uuid, "GPU-", 4)) return 0;
    snprintf(uuids[n_devices++], sizeof *uuids, "%s", uuid);
    return 1;
}

/* Devices by CUDA_VISIBLE_DEVICES, which ends at the first that is none. */
static void find_devices(void) {
    char all[1024], chosen[1024], there[16][64];
    snprintf(all, sizeof all, "%s", is("devices", "own") ? given("NVIDIA_VISIBLE_DEVICES") : rule("uuids"));
    if (!strcmp(all, "all")) snprintf(all, sizeof all, "%s", rule("uuids"));
    n_devices = 0;
    for (char *one = strtok(all, ","); one; one = strtok(NULL, ",")) add_device(one);
    const char *filter = getenv("CUDA_VISIBLE_DEVICES");
    if (!filter) return;
    int n = n_devices;
    memcpy(there, uuids, sizeof there);
    n_devices = 0;
    snprintf(chosen, sizeof chosen, "%s", filter);
    for (char *one = strtok(chosen, ","); one; one = strtok(NULL, ",")) {
        int found = -1;
        char *end;
        long index = strtol(one, &end, 10);
        if (*one && !*end && index >= 0 && index < n) found = (int)index;
        for (int i = 0; i < n; i++)
            if (!strcmp(there[i], one)) found = i;
        if (found < 0) return;
        add_device(there[found]);
    }
}

/* ---- what all processes share ---- */

static void say(void) {
    char line[64];
    int size = snprintf(line, sizeof line, "%llu %d\n", on_device, computes);
    if (ftruncate(own, 0) || pwrite(own, line, size, 0) != size) abort();
}

static int lock(void) {
    char path[512];
    snprintf(path, sizeof path, "%s/state/lock", folder());
    int file = open(path, O_RDWR | O_CREAT, 0666);
    if (file < 0 || flock(file, LOCK_EX)) abort();
    return file;
}

/* What others have: bytes and processes that compute, of this session's container or of all. */
static void others(int mine, u64 *bytes, int *computing) {
    char path[600];
    *bytes = 0;
    *computing = 0;
    snprintf(path, sizeof path, "%s/state", folder());
    DIR *files = opendir(path);
    if (!files) abort();
    for (struct dirent *entry; (entry = readdir(files));) {
        if (!strchr(entry->d_name, '-')) continue;
        if (mine && strncmp(entry->d_name, session, strlen(session))) continue;
        snprintf(path, sizeof path, "%s/state/%s", folder(), entry->d_name);
        if (!strcmp(path, own_file)) continue;
        int file = open(path, O_RDONLY);
        if (file < 0) continue;
        char line[64] = "";
        u64 has = 0;
        int active = 0;
        if (flock(file, LOCK_SH | LOCK_NB) && read(file, line, sizeof line - 1) > 0) {
            sscanf(line, "%llu %d", &has, &active);
            *bytes += has;
            *computing += active;
        }
        close(file);
    }
    closedir(files);
}

static int faults_so_far(void) {
    char path[512], text[32] = "0";
    snprintf(path, sizeof path, "%s/state/faults", folder());
    read_file(path, text, sizeof text);
    return atoi(text);
}

static void note_fault(void) {
    char path[512];
    int held = lock(), before = faults_so_far();
    snprintf(path, sizeof path, "%s/state/faults", folder());
    FILE *file = fopen(path, "w");
    if (!file) abort();
    fprintf(file, "%d", before + 1);
    fclose(file);
    close(held);
}

/* ---- shares ---- */

static int with_mps(void) { return *given("CUDA_MPS_PIPE_DIRECTORY") != 0; }

static int goes_round(void) {
    const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
    return with_mps() && (!pipe || strcmp(pipe, given("CUDA_MPS_PIPE_DIRECTORY")));
}

/* How much more this process may have on the device. */
static u64 room(void) {
    u64 limit = total(), bytes, all = 0;
    int ignored;
    others(0, &all, &ignored);
    all = total() > all + on_device ? total() - all - on_device : 0;
    if (goes_round() || is("memory", "none")) return all;
    if (is("memory", "environment")) {
        const char *said = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
        if (!said || sscanf(said, "0=%lluM", &limit) != 1) return all;
        limit <<= 20;
    } else limit = strtoull(given("FGPU_MEMORY_BYTES"), NULL, 10);
    others(1, &bytes, &ignored);
    bytes = is("memory", "container") ? bytes + on_device : on_device;
    limit = limit > bytes ? limit - bytes : 0;
    return limit < all ? limit : all;
}

static double rate(void) {
    u64 ignored;
    int computing;
    double percent = atof(given("FGPU_SM_PERCENT"));
    others(is("compute", "container"), &ignored, &computing);
    computing += 1;
    if (is("compute", "slices")) return FULL / computing;
    if (is("compute", "environment")) {
        const char *said = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
        percent = said ? atof(said) : 100;
    }
    if (goes_round()) percent = 100;
    return FULL * percent / 100 / (is("compute", "container") ? computing : 1);
}

/* ---- the interface ---- */

EXPORT int cuInit(unsigned flags) {
    (void)flags;
    char path[512];
    snprintf(path, sizeof path, "%s/cuda.json", folder());
    if (!read_file(path, world, sizeof world)) return NO_DEVICE;
    first_size = read_file("/proc/1/environ", first, sizeof first);
    snprintf(session, sizeof session, "%s", given("BACKENDAI_SESSION_ID"));
    find_devices();
    return n_devices ? SUCCESS : NO_DEVICE;
}

EXPORT int cuGetErrorName(int code, const char **out) {
    static char name[32];
    snprintf(name, sizeof name, "FAKE_ERROR_%d", code);
    *out = name;
    return SUCCESS;
}

EXPORT int cuDeviceGetCount(int *out) { *out = n_devices; return SUCCESS; }

EXPORT int cuDeviceGet(int *out, int number) {
    if (number < 0 || number >= n_devices) return INVALID_DEVICE;
    *out = number;
    return SUCCESS;
}

EXPORT int cuDeviceGetUuid_v2(unsigned char *out, int device) {
    if (device < 0 || device >= n_devices) return INVALID_DEVICE;
    int n = 0;
    for (const char *at = uuids[device] + 4; *at && n < 16; at++)
        if (*at != '-' && sscanf(at++, "%2hhx", &out[n++]) != 1) return INVALID_VALUE;
    return SUCCESS;
}

EXPORT int cuDeviceGetAttribute(int *out, int attribute, int device) {
    if (attribute != 16 || device < 0 || device >= n_devices) return INVALID_VALUE;
    *out = MULTIPROCESSORS;
    return SUCCESS;
}

EXPORT int cuCtxCreate_v2(void **out, unsigned flags, int device) {
    (void)flags;
    if (device < 0 || device >= n_devices) return INVALID_DEVICE;
    if (goes_round() && is("pipe", "exclusive")) return DEVICE_UNAVAILABLE;
    snprintf(own_file, sizeof own_file, "%s/state/%s-%d", folder(), session, (int)getpid());
    own = open(own_file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (own < 0 || flock(own, LOCK_EX)) return DEVICE_UNAVAILABLE; /* waits while another looks whether it lives */
    say();
    faults_at_start = faults_so_far();
    has_context = 1;
    *out = &has_context;
    return SUCCESS;
}

static int ready(void) {
    if (!has_context) return INVALID_CONTEXT;
    if (!faulted && is("faults", "reach") && faults_so_far() != faults_at_start) faulted = LAUNCH_FAILED;
    return faulted;
}

static u64 place = 0x700000000000ULL;

EXPORT int cuMemAlloc_v2(u64 *out, size_t size) {
    if (ready()) return ready();
    int held = lock(), error = size <= room() ? SUCCESS : OUT_OF_MEMORY;
    if (!error) {
        on_device += size;
        *out = place += 1ULL << 40;
        say();
    }
    close(held);
    return error;
}

EXPORT int cuMemAllocManaged(u64 *out, size_t size, unsigned flags) {
    if (ready()) return ready();
    if (flags != 1) return INVALID_VALUE;
    managed_size = size;
    *out = place += 1ULL << 40;
    return SUCCESS;
}

EXPORT int cuMemsetD8_v2(u64 where, unsigned char value, size_t size) {
    (void)value;
    if (ready()) return ready();
    if (where != place || size > managed_size) return INVALID_VALUE;
    int held = lock();
    u64 most = room();
    on_device += is("managed", "free") || size <= most ? size : most;
    say();
    close(held);
    return SUCCESS;
}

EXPORT int cuMemGetInfo_v2(size_t *free, size_t *all) {
    if (ready()) return ready();
    u64 limit = strtoull(given("FGPU_MEMORY_BYTES"), NULL, 10);
    *all = is("memory", "container") ? limit : total();
    *free = room();
    return SUCCESS;
}

EXPORT int cuModuleLoadData(void **out, const char *image) {
    if (ready()) return ready();
    *out = (void *)image;
    return strstr(image, ".entry") ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuModuleGetFunction(void **out, const char *image, const char *name) {
    char entry[64];
    snprintf(entry, sizeof entry, ".entry %s(", name);
    *out = strstr(image, entry);
    return *out ? SUCCESS : NOT_FOUND;
}

EXPORT int cuLaunchKernel(const char *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty,
                          unsigned tz, unsigned shared, void *stream, void **parameters, void **extra) {
    (void)shared; (void)stream; (void)extra;
    if (ready()) return ready();
    if (!strncmp(function, ".entry fault", 12)) {
        fault_launched = 1;
        return SUCCESS;
    }
    if (!computes) {
        computes = 1;
        say();
    }
    pending += (double)x * y * z * threads * ty * tz * *(unsigned *)parameters[1];
    return SUCCESS;
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static const double DEBT = 0.1; /* seconds: a few launches */

/* Takes that long from `begun` on; less where a busy machine woke the program up late after the last launch, or let it
 * wait by up to 20 ms between launches, so that what is launched tells of the device and not of the machine. But half
 * of it at least, as a single kernel takes time, and all of it after a pause. A machine that stood still for long is
 * not made up for: its debt is DEBT at most. */
static void work(double begun, double seconds) {
    static double due, ended;
    if (begun - ended > 0.02) due = begun;
    if (begun - due > DEBT) due = begun - DEBT;
    due += seconds;
    double left = due - now();
    if (left < seconds / 2) left = seconds / 2;
    usleep((unsigned)(left * 1e6));
    ended = now();
}

EXPORT int cuCtxSynchronize(void) {
    if (ready()) return ready();
    if (fault_launched) {
        note_fault();
        faulted = ILLEGAL_ADDRESS;
        return faulted;
    }
    if (pending > 0) {
        double begun = now(); /* the wait for others is the machine's, too */
        int held = lock();
        double seconds = pending / rate();
        close(held);
        work(begun, seconds);
        pending = 0;
    }
    return ready();
}
