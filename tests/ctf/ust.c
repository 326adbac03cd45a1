// Traces itself by lttng-ust, and says its thread id.
#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "ust.h"

#include <stdio.h>
#include <unistd.h>

int main(void) {
    int array[3] = {1, -2, 3};
    for (int i = 0; i < 5000; i++)
        lttng_ust_tracepoint(reenact_test, tick, i, -i, "text of it", array, 3, i * 0.5);
    printf("%d\n", gettid());
}
