// Events of ust.c.
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER reenact_test
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "ust.h"
#if !defined(REENACT_TEST_UST_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define REENACT_TEST_UST_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(reenact_test, tick,
  LTTNG_UST_TP_ARGS(int, n, long, neg, const char *, text, int *, arr, int, len, double, half),
  LTTNG_UST_TP_FIELDS(
    lttng_ust_field_integer(int, n, n)
    lttng_ust_field_integer(long, neg, neg)
    lttng_ust_field_string(text, text)
    lttng_ust_field_array(int, fixed, arr, 3)
    lttng_ust_field_sequence(int, seq, arr, size_t, len)
    lttng_ust_field_sequence_text(char, word, text, size_t, 4)
    lttng_ust_field_float(double, half, half)
  ))
#endif
#include <lttng/tracepoint-event.h>
