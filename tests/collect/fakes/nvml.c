/* Stands in for libnvidia-ml.so.1 under the real nvidia-ml-py: two H100s, the second with a slice under MIG.
   $FAKE_NVML lists faults: no_driver, denied (the first card), lost (the second), old (a driver of 2020).
   The energy counter advances by 50 mJ a millisecond: 50 W. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK, UNINITIALIZED, INVALID, UNSUPPORTED, DENIED, NOT_FOUND = 6, NO_DRIVER = 9, LOST = 15 };
enum { CARDS = 2, SLICE = 2 };
static int handles[3] = {0, 1, 2};
static int open_sessions;

static int fault(const char *name) {
    const char *faults = getenv("FAKE_NVML");
    return faults && strstr(faults, name);
}

/* The state of a handle; a slice has memory, and no clock, power or temperature of its own. */
static int check(const int *handle, int of_slices_too) {
    if (!open_sessions) return UNINITIALIZED;
    if (*handle == 1 && fault("lost")) return LOST;
    return *handle == SLICE && !of_slices_too ? UNSUPPORTED : OK;
}

#define FIGURE(name, type, value)                          \
    int name(const int *handle, type *figure) {            \
        int state = check(handle, 0);                      \
        if (state == OK) *figure = (value);                \
        return state;                                      \
    }

static unsigned long long energy_mj(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec * 1000ull + now.tv_nsec / 1000000) * 50;
}

int nvmlInitWithFlags(unsigned flags) { return fault("no_driver") ? NO_DRIVER : (open_sessions++, OK); }
int nvmlShutdown(void) { return open_sessions ? (open_sessions--, OK) : UNINITIALIZED; }
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "an error"; }

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    snprintf(text, length, "%s", fault("old") ? "450.80.02" : "570.86.15");
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) { return *count = CARDS, OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, int **handle) {
    if (index >= CARDS) return INVALID;
    if (index == 0 && fault("denied")) return DENIED;
    return *handle = &handles[index], OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, int **handle) {
    if (strcmp(uuid, "MIG-11111111-0000-0000-0000-000000000000")) return NOT_FOUND;
    return *handle = &handles[SLICE], OK;
}

int nvmlDeviceGetUUID(const int *handle, char *text, unsigned length) {
    const char *kind = *handle == SLICE ? "MIG-11111111" : "GPU-aaaaaaaa";
    snprintf(text, length, "%s-0000-0000-0000-%012d", kind, *handle == SLICE ? 0 : *handle);
    return check(handle, 1);
}

int nvmlDeviceGetName(const int *handle, char *text, unsigned length) {
    snprintf(text, length, "NVIDIA H100 80GB HBM3%s", *handle == SLICE ? " MIG 1g.10gb" : "");
    return check(handle, 1);
}

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

int nvmlDeviceGetPciInfo_v3(const int *handle, struct pci *pci) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:4%d:00.0", *handle == SLICE ? 1 : *handle);
    return check(handle, 1);
}

int nvmlDeviceGetCudaComputeCapability(const int *handle, int *major, int *minor) {
    return *major = 9, *minor = 0, check(handle, 1);
}

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo(const int *handle, struct memory *memory) {
    *memory = (struct memory){.total = 80ull << 30, .used = 600ull << 20};
    return check(handle, 1);
}

int nvmlDeviceGetMemoryInfo_v2(const int *handle, struct memory_v2 *memory) {
    if (fault("old")) return UNSUPPORTED;
    memory->total = (*handle == SLICE ? 10ull : 80ull) << 30;
    memory->used = 11ull << 20;
    return check(handle, 1);
}

struct utilization { unsigned gpu, memory; };

int nvmlDeviceGetUtilizationRates(const int *handle, struct utilization *utilization) {
    return *utilization = (struct utilization){37, 5}, check(handle, 0);
}

int nvmlDeviceGetClockInfo(const int *handle, int type, unsigned *mhz) {
    return *mhz = type == 1 ? 1980 : 2619, check(handle, 0);
}
int nvmlDeviceGetMaxClockInfo(const int *handle, int type, unsigned *mhz) {
    return *mhz = type == 1 ? 1980 : 2619, check(handle, 0);
}
int nvmlDeviceGetApplicationsClock(const int *handle, int type, unsigned *mhz) { return *mhz = 1755, check(handle, 0); }

struct temperature { unsigned version; int sensor, celsius; };

int nvmlDeviceGetTemperatureV(const int *handle, struct temperature *temperature) {
    if (fault("old")) return UNSUPPORTED;
    return temperature->celsius = 41, check(handle, 0);
}
int nvmlDeviceGetTemperature(const int *handle, int sensor, unsigned *celsius) { return *celsius = 39, check(handle, 0); }

FIGURE(nvmlDeviceGetPowerUsage, unsigned, 119420)
FIGURE(nvmlDeviceGetEnforcedPowerLimit, unsigned, 700000)
FIGURE(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, 0x24)
FIGURE(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, 0x24)

int nvmlDeviceGetTotalEnergyConsumption(const int *handle, unsigned long long *figure) {
    if (fault("old")) return UNSUPPORTED;
    return *figure = energy_mj(), check(handle, 0);
}
