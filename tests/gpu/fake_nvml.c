/* A libnvidia-ml.so.1 for tests: as much of NVML's interface as the product asks for, with answers from a text file.
 *
 * FAKE_NVML names the file; it is read again at each call, so a test changes devices while they are in use. One entry a
 * line. `gpu` and `part` begin a device, the lines after it are about that device:
 *
 *   driver VERSION | cuda NUMBER                   NUMBER as NVML has it: 13040 is 13.4
 *   stale ERROR                                    answer of all calls while VERSION is not what it was at nvmlInit
 *   fail CALL ERROR [on UUID] [after N] [times N]  CALL may be *; the first N calls pass, then N (or all) fail
 *   hang CALL PATH                                 does not return while PATH exists
 *   gpu UUID NAME...     lost     memory TOTAL RESERVED USED     cores N     capability MAJOR MINOR     mode N
 *   mig CURRENT PENDING SLOTS                      without it MIG is not supported
 *   busy GPU MEMORY                                percent
 *   process PID BYTES|unknown     mps PID BYTES|unknown     sample PID TIME PERCENT
 *   norows                                         no samples are a success without rows, not NotFound
 *   limits CGROUP SOFT HARD USED
 *   part UUID SLOT SMS GPU_INSTANCE COMPUTE_INSTANCE NAME...      a MIG device of the last gpu
 *
 * What is set is appended to the file FAKE_NVML.set, as `mode UUID N` or `limits UUID CGROUP SOFT HARD`, and holds from
 * then on; limits only for a CGROUP that is there.
 *
 * ERROR is NVML's name (GpuIsLost), or a number. With -DOLD the library has none of the calls of newer drivers. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX 64
#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, ARGUMENT_VERSION_MISMATCH = 25, UNKNOWN = 999 };

typedef unsigned long long u64;

static const struct { const char *name; int code; } ERRORS[] = {
    {"Uninitialized", 1}, {"InvalidArgument", 2}, {"NotSupported", 3}, {"NoPermission", 4},
    {"AlreadyInitialized", 5}, {"NotFound", 6}, {"InsufficientSize", 7}, {"InsufficientPower", 8},
    {"DriverNotLoaded", 9}, {"Timeout", 10}, {"IrqIssue", 11}, {"LibraryNotFound", 12}, {"FunctionNotFound", 13},
    {"CorruptedInforom", 14}, {"GpuIsLost", 15}, {"ResetRequired", 16}, {"OperatingSystem", 17},
    {"LibRmVersionMismatch", 18}, {"InUse", 19}, {"Memory", 20}, {"NoData", 21}, {"VgpuEccNotSupported", 22},
    {"InsufficientResources", 23}, {"FreqNotSupported", 24}, {"ArgumentVersionMismatch", 25}, {"Deprecated", 26},
    {"NotReady", 27}, {"GpuNotFound", 28}, {"InvalidState", 29}, {"ResetTypeNotSupported", 30}, {"Unknown", 999},
};

struct process { unsigned pid; u64 bytes; int mps; };
struct sample { unsigned pid; u64 time; unsigned percent; };
struct limit { char cgroup[256]; u64 soft, hard, used; };

struct device {
    char uuid[96], name[96];
    struct device *parent; /* of a part */
    int lost, has_mig, has_busy, norows;
    u64 total, reserved, used;
    unsigned cores, mode, mig, pending, slots, busy, memory_busy, slot, sms, gi, ci;
    int major, minor;
    struct process processes[MAX]; int n_processes;
    struct sample samples[MAX]; int n_samples;
    struct limit limits[MAX]; int n_limits;
};

struct rule { char call[80], uuid[96], path[256]; int error, hang; long after, times; };

static struct { char driver[80]; int cuda, stale, n_devices, n_rules; struct device devices[16]; struct rule rules[MAX]; } world;
static long calls[MAX];          /* of each rule, since the file changed */
static char text[65536], before[65536];
static char handles[256][96];    /* a handle is the address of a UUID, so it outlives a change of the file */
static int starts;
static char driver_at_start[80];

/* ---- the file ---- */

static int error_code(const char *name) {
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (!strcmp(ERRORS[i].name, name)) return ERRORS[i].code;
    char *end;
    long code = strtol(name, &end, 10);
    if (*name && !*end) return (int)code;
    fprintf(stderr, "fake_nvml: no error is called %s\n", name);
    abort();
}

/* The next free place of an array. */
#define ADD(array, n) (full((n) >= (int)(sizeof(array) / sizeof *(array))), &(array)[(n)++])

static void full(int yes) {
    if (!yes) return;
    fprintf(stderr, "fake_nvml: more than there is room for\n");
    abort();
}

static u64 amount(const char *word) { return strcmp(word, "unknown") ? strtoull(word, NULL, 10) : ~0ULL; }

static void parse_rule(const char *line, int hang) {
    struct rule *rule = ADD(world.rules, world.n_rules);
    char error[80] = "", key[3][16] = {"", "", ""}, value[3][96] = {"", "", ""};
    rule->hang = hang;
    rule->times = -1;
    if (hang) { sscanf(line, "%*s %79s %255s", rule->call, rule->path); return; }
    sscanf(line, "%*s %79s %79s %15s %95s %15s %95s %15s %95s", rule->call, error, key[0], value[0], key[1], value[1],
           key[2], value[2]);
    rule->error = error_code(error);
    for (int i = 0; i < 3; i++) {
        if (!strcmp(key[i], "on")) strcpy(rule->uuid, value[i]);
        if (!strcmp(key[i], "after")) rule->after = atol(value[i]);
        if (!strcmp(key[i], "times")) rule->times = atol(value[i]);
    }
}

static int parse_device(struct device *d, const char *word, const char *line) {
    char a[256] = "", b[96] = "";
    u64 x = 0, y = 0, z = 0;
    if (!strcmp(word, "lost")) d->lost = 1;
    else if (!strcmp(word, "memory")) sscanf(line, "%*s %llu %llu %llu", &d->total, &d->reserved, &d->used);
    else if (!strcmp(word, "cores")) sscanf(line, "%*s %u", &d->cores);
    else if (!strcmp(word, "capability")) sscanf(line, "%*s %d %d", &d->major, &d->minor);
    else if (!strcmp(word, "mode")) sscanf(line, "%*s %u", &d->mode);
    else if (!strcmp(word, "mig")) d->has_mig = sscanf(line, "%*s %u %u %u", &d->mig, &d->pending, &d->slots);
    else if (!strcmp(word, "busy")) d->has_busy = sscanf(line, "%*s %u %u", &d->busy, &d->memory_busy);
    else if (!strcmp(word, "norows")) d->norows = 1;
    else if (!strcmp(word, "process") || !strcmp(word, "mps")) {
        sscanf(line, "%*s %llu %95s", &x, b);
        *ADD(d->processes, d->n_processes) = (struct process){(unsigned)x, amount(b), *word == 'm'};
    } else if (!strcmp(word, "sample")) {
        sscanf(line, "%*s %llu %llu %llu", &x, &y, &z);
        *ADD(d->samples, d->n_samples) = (struct sample){(unsigned)x, y, (unsigned)z};
    } else if (!strcmp(word, "limits")) {
        struct limit *l = ADD(d->limits, d->n_limits);
        sscanf(line, "%*s %255s %llu %llu %llu", a, &l->soft, &l->hard, &l->used);
        strcpy(l->cgroup, a);
    } else return 0;
    return 1;
}

static void parse(char *from) {
    struct device *d = NULL, *gpu = NULL;
    memset(&world, 0, sizeof world);
    for (char *line = strtok(from, "\n"); line; line = strtok(NULL, "\n")) {
        char word[32] = "", error[80] = "";
        if (sscanf(line, "%31s", word) < 1 || *word == '#') continue;
        if (!strcmp(word, "driver")) sscanf(line, "%*s %79s", world.driver);
        else if (!strcmp(word, "cuda")) sscanf(line, "%*s %d", &world.cuda);
        else if (!strcmp(word, "stale")) { sscanf(line, "%*s %79s", error); world.stale = error_code(error); }
        else if (!strcmp(word, "fail") || !strcmp(word, "hang")) parse_rule(line, *word == 'h');
        else if (!strcmp(word, "gpu")) {
            gpu = d = ADD(world.devices, world.n_devices);
            sscanf(line, "%*s %95s %95[^\n]", d->uuid, d->name);
        } else if (!strcmp(word, "part")) {
            d = ADD(world.devices, world.n_devices);
            d->parent = gpu;
            sscanf(line, "%*s %95s %u %u %u %u %95[^\n]", d->uuid, &d->slot, &d->sms, &d->gi, &d->ci, d->name);
        } else if (!d || !parse_device(d, word, line)) {
            fprintf(stderr, "fake_nvml: what is this? %s\n", line);
            abort();
        }
    }
}

static struct device *find(const char *uuid) {
    for (int i = 0; i < world.n_devices; i++)
        if (!strcmp(world.devices[i].uuid, uuid)) return &world.devices[i];
    return NULL;
}

static FILE *settings(const char *how) {
    char path[1024];
    snprintf(path, sizeof path, "%s.set", getenv("FAKE_NVML"));
    return fopen(path, how);
}

/* What was set by calls, on top of what the file says. */
static void apply_settings(void) {
    char line[512], uuid[96], cgroup[256];
    u64 soft, hard;
    unsigned mode;
    FILE *file = settings("r");
    while (file && fgets(line, sizeof line, file)) {
        struct device *d;
        if (sscanf(line, "mode %95s %u", uuid, &mode) == 2 && (d = find(uuid))) d->mode = mode;
        if (sscanf(line, "limits %95s %255s %llu %llu", uuid, cgroup, &soft, &hard) != 4 || !(d = find(uuid))) continue;
        struct limit *l = NULL;
        for (int i = 0; i < d->n_limits; i++)
            if (!strcmp(d->limits[i].cgroup, cgroup)) l = &d->limits[i];
        if (!l) l = ADD(d->limits, d->n_limits);
        *l = (struct limit){.soft = soft, .hard = hard, .used = l->used};
        strcpy(l->cgroup, cgroup);
    }
    if (file) fclose(file);
}

static int reload(void) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return DRIVER_NOT_LOADED;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    if (strcmp(text, before)) {
        memset(calls, 0, sizeof calls);
        strcpy(before, text);
    }
    parse(text);
    apply_settings();
    return SUCCESS;
}

/* ---- what every call begins with ---- */

static int handle_of(const struct device *d, void **out) {
    for (int i = 0; i < 256; i++) {
        if (!*handles[i]) strcpy(handles[i], d->uuid);
        if (!strcmp(handles[i], d->uuid)) { *out = handles[i]; return SUCCESS; }
    }
    return UNKNOWN;
}

static int ruled(const char *call, const char *uuid) {
    for (int i = 0; i < world.n_rules; i++) {
        struct rule *r = &world.rules[i];
        if (strcmp(r->call, "*") && strcmp(r->call, call)) continue;
        if (*r->uuid && (!uuid || strcmp(r->uuid, uuid))) continue;
        while (r->hang && !access(r->path, F_OK)) usleep(1000);
        if (r->hang) continue;
        long at = calls[i]++;
        if (at >= r->after && (r->times < 0 || at < r->after + r->times)) return r->error;
    }
    return SUCCESS;
}

static int gone(const struct device *d) { return !d || d->lost || (d->parent && d->parent->lost); }

static int begin(const char *call, const char *uuid) {
    int error = reload();
    if (!error && !starts && strcmp(call, "nvmlInitWithFlags")) error = UNINITIALIZED;
    if (!error && starts && world.stale && strcmp(world.driver, driver_at_start) && strcmp(call, "nvmlShutdown"))
        error = world.stale;
    return error ? error : ruled(call, uuid);
}

static int begin_on(const char *call, void *handle, struct device **d) {
    int error = begin(call, handle);
    if (error) return error;
    if (!handle) return INVALID_ARGUMENT;
    *d = find(handle);
    return gone(*d) ? GPU_IS_LOST : SUCCESS;
}

#define BEGIN do { int error_ = begin(__func__, NULL); if (error_) return error_; } while (0)
#define BEGIN_ON struct device *d; do { int error_ = begin_on(__func__, h, &d); if (error_) return error_; } while (0)

static int put(char *out, unsigned size, const char *value) {
    if (strlen(value) >= size) return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

static int divided(const struct device *d) { return d->parent || (d->has_mig && d->mig); }

/* ---- the system ---- */

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    BEGIN;
    starts++;
    strcpy(driver_at_start, world.driver);
    return SUCCESS;
}

EXPORT int nvmlShutdown(void) {
    BEGIN;
    starts--;
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(int code) {
    (void)code;
    return "an error of the fake library";
}

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned size) { BEGIN; return put(out, size, world.driver); }
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *out) { BEGIN; *out = world.cuda; return SUCCESS; }

EXPORT int nvmlDeviceGetCount_v2(unsigned *out) {
    BEGIN;
    *out = 0;
    for (int i = 0; i < world.n_devices; i++) *out += !world.devices[i].parent;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) {
    BEGIN;
    for (int i = 0; i < world.n_devices; i++)
        if (!world.devices[i].parent && !index--)
            return world.devices[i].lost ? GPU_IS_LOST : handle_of(&world.devices[i], out);
    return INVALID_ARGUMENT;
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **out) {
    int error = begin(__func__, uuid);
    if (error) return error;
    struct device *d = find(uuid);
    if (!d) return NOT_FOUND;
    return gone(d) ? GPU_IS_LOST : handle_of(d, out);
}

/* ---- a device ---- */

EXPORT int nvmlDeviceGetUUID(void *h, char *out, unsigned size) { BEGIN_ON; return put(out, size, d->uuid); }
EXPORT int nvmlDeviceGetName(void *h, char *out, unsigned size) { BEGIN_ON; return put(out, size, d->name); }

struct memory { u64 total, free, used; };
EXPORT int nvmlDeviceGetMemoryInfo(void *h, struct memory *out) {
    BEGIN_ON;
    *out = (struct memory){d->total, d->total - d->used - d->reserved, d->used + d->reserved};
    return SUCCESS;
}

EXPORT int nvmlDeviceGetNumGpuCores(void *h, unsigned *out) { BEGIN_ON; *out = d->cores; return SUCCESS; }

EXPORT int nvmlDeviceGetCudaComputeCapability(void *h, int *major, int *minor) {
    BEGIN_ON;
    *major = d->major;
    *minor = d->minor;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetComputeMode(void *h, unsigned *out) { BEGIN_ON; *out = d->mode; return SUCCESS; }

EXPORT int nvmlDeviceSetComputeMode(void *h, unsigned mode) {
    BEGIN_ON;
    FILE *file = settings("a");
    fprintf(file, "mode %s %u\n", d->uuid, mode);
    return fclose(file) ? UNKNOWN : SUCCESS;
}

EXPORT int nvmlDeviceGetUtilizationRates(void *h, unsigned *out) {
    BEGIN_ON;
    if (divided(d) || !d->has_busy) return NOT_SUPPORTED;
    out[0] = d->busy;
    out[1] = d->memory_busy;
    return SUCCESS;
}

/* ---- MIG ---- */

EXPORT int nvmlDeviceGetMigMode(void *h, unsigned *current, unsigned *pending) {
    BEGIN_ON;
    if (!d->has_mig) return NOT_SUPPORTED;
    *current = d->mig;
    *pending = d->pending;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *out) { BEGIN_ON; *out = d->slots; return SUCCESS; }

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned slot, void **out) {
    BEGIN_ON;
    for (int i = 0; i < world.n_devices; i++)
        if (world.devices[i].parent == d && world.devices[i].slot == slot) return handle_of(&world.devices[i], out);
    return NOT_FOUND;
}

EXPORT int nvmlDeviceGetGpuInstanceId(void *h, unsigned *out) { BEGIN_ON; *out = d->gi; return SUCCESS; }
EXPORT int nvmlDeviceGetComputeInstanceId(void *h, unsigned *out) { BEGIN_ON; *out = d->ci; return SUCCESS; }

struct attributes { unsigned sms, engines[5], gi_slices, ci_slices; u64 mib; };
EXPORT int nvmlDeviceGetAttributes_v2(void *h, struct attributes *out) {
    BEGIN_ON;
    if (!d->parent) return NOT_SUPPORTED;
    *out = (struct attributes){.sms = d->sms, .mib = d->total >> 20};
    return SUCCESS;
}

/* ---- processes ---- */

struct process_row { unsigned pid; u64 bytes; unsigned gi, ci; };

static int rows(const struct device *d, int mps, unsigned *count, struct process_row *out) {
    unsigned n = 0, room = *count;
    for (int i = 0; i < d->n_processes; i++) n += d->processes[i].mps == mps;
    *count = n;
    if (n > room || (n && !out)) return INSUFFICIENT_SIZE;
    for (int i = 0; i < d->n_processes; i++)
        if (d->processes[i].mps == mps)
            *out++ = (struct process_row){d->processes[i].pid, d->processes[i].bytes, d->parent ? d->gi : ~0U,
                                          d->parent ? d->ci : ~0U};
    return SUCCESS;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *count, struct process_row *out) {
    BEGIN_ON;
    return rows(d, 0, count, out);
}

struct sample_row { unsigned pid; u64 time; unsigned sm, memory, encoder, decoder; };
EXPORT int nvmlDeviceGetProcessUtilization(void *h, struct sample_row *out, unsigned *count, u64 since) {
    BEGIN_ON;
    if (divided(d)) return NOT_SUPPORTED;
    unsigned n = 0, room = *count;
    for (int i = 0; i < d->n_samples; i++) n += d->samples[i].time > since;
    *count = n;
    if (!n) return d->norows ? SUCCESS : NOT_FOUND;
    if (n > room || !out) return INSUFFICIENT_SIZE;
    for (int i = 0; i < d->n_samples; i++)
        if (d->samples[i].time > since)
            *out++ = (struct sample_row){.pid = d->samples[i].pid, .time = d->samples[i].time, .sm = d->samples[i].percent};
    return SUCCESS;
}

/* ---- what drivers did not always have ---- */
#ifndef OLD
struct memory_v2 { unsigned version; u64 total, reserved, free, used; };
EXPORT int nvmlDeviceGetMemoryInfo_v2(void *h, struct memory_v2 *out) {
    BEGIN_ON;
    if (out->version != (sizeof *out | 2U << 24)) return ARGUMENT_VERSION_MISMATCH;
    *out = (struct memory_v2){out->version, d->total, d->reserved, d->total - d->used - d->reserved, d->used};
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *h, unsigned *count, struct process_row *out) {
    BEGIN_ON;
    return rows(d, 1, count, out);
}

struct limits { const char *cgroup; u64 soft, hard, used; };
EXPORT int nvmlDeviceGetMemoryLimits_v1(void *h, struct limits *out) {
    BEGIN_ON;
    for (int i = 0; i < d->n_limits; i++)
        if (!strcmp(d->limits[i].cgroup, out->cgroup)) {
            *out = (struct limits){out->cgroup, d->limits[i].soft, d->limits[i].hard, d->limits[i].used};
            return SUCCESS;
        }
    return NOT_FOUND;
}

struct new_limits { const char *cgroup; u64 soft, hard; };
EXPORT int nvmlDeviceSetMemoryLimits_v1(void *h, struct new_limits *in) {
    BEGIN_ON;
    if (access(in->cgroup, F_OK)) return NOT_FOUND;
    FILE *file = settings("a");
    fprintf(file, "limits %s %s %llu %llu\n", d->uuid, in->cgroup, in->soft, in->hard);
    return fclose(file) ? UNKNOWN : SUCCESS;
}
#endif
