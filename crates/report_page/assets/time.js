// A visible time span in nanoseconds, shared by all pictures that have it as their axis.
function timeSpan() {
  const span = {
    first: 0,
    from: 0,
    to: 1,
    end: 1,
    watchers: [],
    pointers: [],

    begin(endNs, firstNs = 0) {
      span.first = span.from = firstNs;
      span.end = span.to = Math.max(firstNs + 1, endNs);
    },

    set(from, to) {
      const least = (span.end - span.first) / 1e6;
      from = Math.max(span.first, from);
      to = Math.min(span.end, to);
      if (!(to - from >= least) || (from === span.from && to === span.to)) return;
      span.from = from;
      span.to = to;
      if (span.zoomed) span.zoomed();
      span.watchers.forEach((watch) => watch());
      // What the pointer was on is elsewhere now.
      span.point(null, null);
    },

    reset() {
      span.set(span.first, span.end);
    },

    isPart() {
      return span.from > span.first || span.to < span.end;
    },

    // Moves the pointer of all pictures to a time, or hides it for null.
    point(ns, origin) {
      span.pointers.filter((pointer) => pointer.origin !== origin).forEach((pointer) => pointer.move(ns));
    },
  };
  return span;
}

// That of the page.
const span = timeSpan();
span.zoomed = () => {
  document.getElementById("zoom").hidden = !span.isPart();
  address.put("time", span.isPart() ? Math.round(span.from) + "-" + Math.round(span.to) : null);
};

// Returns the total number of time steps.
function stepCount(data) {
  return Math.max(1, Math.ceil(data.span_ns / data.interval_ns));
}

const CHART_HEIGHT = 190;
const AXIS_LEFT = 76;

// Makes a chart over time. Every series has a value per step; `show` formats a value.
function timeChart(name, title, about, data, spec) {
  let chart = null;
  const steps = stepCount(data);
  const x = Array.from({ length: steps + 1 }, (_, step) => Math.min(step * data.interval_ns, span.end));
  const padded = (values) => {
    const all = Array.from({ length: steps }, (_, step) => values[step] ?? 0);
    return [...all, all[steps - 1]];
  };
  const pointer = {
    origin: {},
    move(ns) {
      if (!chart) return;
      const left = ns === null ? -10 : chart.valToPos(ns, "x");
      chart.setCursor({ left, top: ns === null ? -10 : 0 }, false);
    },
  };

  const it = picture(name, title, about, () => {
    const values = spec.series.map((series) => padded(series.values));
    const drawn = Object.fromEntries(spec.series.map((series) => [series.key, series.total]));
    if (!spec.series.some((series) => series.values.some((value) => value > 0))) {
      empty(it.body, spec.nothing);
      return drawn;
    }
    chart?.destroy();
    it.body.replaceChildren();
    chart = new uPlot(options(values), columns(values), it.body);
    labelled(values);
    show();
    return drawn;
  });

  function columns(values) {
    if (!spec.stacked) {
      const positive = (list) => list.map((value) => (value > 0 ? value : null));
      return [x, ...values.map((list) => (spec.log ? positive(list) : list))];
    }
    // Stack from the last series upwards; those on top are drawn first.
    const sums = [];
    let below = new Array(steps + 1).fill(0);
    for (const list of [...values].reverse()) {
      below = list.map((value, step) => value + below[step]);
      sums.unshift(below);
    }
    return [x, ...sums];
  }

  function options(values) {
    const [ink, line] = [colour("soft"), colour("line")];
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
    const font = "11px system-ui, sans-serif";
    return {
      width: it.width,
      height: CHART_HEIGHT,
      padding: [8, 12, 0, 0],
      cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { show: false } },
      legend: { live: true },
      scales: {
        x: { time: false, range: () => [span.from, span.to] },
        y: spec.log
          ? { distr: 3, range: (u, low, high) => logRange(low, high) }
          : { range: (u, low, high) => [0, high > 0 ? high * 1.05 : 1] },
      },
      axes: [
        {
          ...axis,
          font,
          size: 22,
          label: "time from the start",
          labelFont: font,
          labelSize: 16,
          splits: () => timeTicks(it.width),
          values: (u, ticks) => ticks.map((ns) => words.at(ns, ticks[1] - ticks[0], span.end)),
        },
        {
          ...axis,
          font,
          size: AXIS_LEFT - 16,
          label: spec.unit,
          labelFont: font,
          labelSize: 16,
          filter: (u, ticks) => ticks,
          splits: (u, axis, low, high) => (spec.log ? decades(low, high) : niceTicks(low, high, 5, spec.binary)),
          values: (u, ticks) => ticks.map(spec.mark || spec.show),
        },
      ],
      series: [
        { label: " ", value: (u, ns) => (ns === null ? "" : "from " + words.at(ns, data.interval_ns, span.end)) },
        ...spec.series.map((series, index) => ({
          label: series.title,
          stroke: spec.stacked ? undefined : series.hue(),
          fill: spec.stacked || series.fill ? series.hue() + (spec.stacked ? "" : "26") : undefined,
          width: spec.stacked ? 0 : 1.5,
          paths: uPlot.paths.stepped({ align: 1 }),
          points: { show: false },
          value: (u, _, at, step) => (step === null ? "" : spec.show(values[index][step])),
        })),
      ],
      hooks: {
        setSelect: [
          (u) => {
            if (u.select.width < 4) return;
            const [from, to] = [u.select.left, u.select.left + u.select.width].map((left) => u.posToVal(left, "x"));
            u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            span.set(from, to);
          },
        ],
        setCursor: [
          (u) => {
            const inside = u.cursor.left >= 0 && u.cursor.event;
            if (u.cursor.event) span.point(inside ? u.posToVal(u.cursor.left, "x") : null, pointer.origin);
          },
        ],
        ready: [(u) => u.over.addEventListener("dblclick", span.reset)],
      },
    };
  }

  // Tells what is drawn to those who do not see it, and takes keys.
  function labelled(values) {
    chart.root.querySelector("canvas").setAttribute("role", "img");
    chart.root.querySelector("canvas").setAttribute("aria-label", it.label);
    timeKeys(chart.over, {
      label: it.label,
      span,
      look(ns) {
        pointer.move(ns);
        const step = Math.min(steps - 1, Math.floor(ns / data.interval_ns));
        return spec.series.map((series, index) => [series.title, spec.show(values[index][step])]);
      },
      select(from, to) {
        const [left, right] = from === null ? [0, 0] : [from, to].map((ns) => chart.valToPos(ns, "x")).sort((a, b) => a - b);
        chart.setSelect({ left, width: right - left, top: 0, height: from === null ? 0 : chart.over.clientHeight }, false);
      },
    });
  }

  function show() {
    chart?.setScale("x", { min: span.from, max: span.to });
  }

  span.watchers.push(show);
  span.pointers.push(pointer);
  return it;
}

function decades(low, high) {
  const ticks = [];
  for (let value = low; value <= high * 1.01; value *= 10) ticks.push(value);
  return ticks;
}

function timeTicks(width, axis = span) {
  return niceTicks(axis.from, axis.to, Math.max(2, width / 90), false);
}

function logRange(low, high) {
  const from = Math.pow(10, Math.floor(Math.log10(Math.max(1, low || 1))));
  const to = Math.pow(10, Math.ceil(Math.log10(Math.max(10, high || 10))));
  return [from, to > from ? to : from * 10];
}

// Makes the charts over time that have no other dimension.
function timeCharts(data) {
  const { time, interval_ns: interval } = data;
  const perSecond = (values) => values.map((value) => (Number(value) * 1e9) / interval);
  const numbers = (values) => values.map(Number);
  const sum = (values) => numbers(values).reduce((a, b) => a + b, 0);
  const each = "per step of " + words.ns(interval);
  const groups = time.groups.filter((group) => group.calls.some((count) => count > 0));
  return [
    timeChart("calls_over_time", "Calls per second", "By kind of call, " + each + "; a call counts where it begins.", data, {
      unit: "calls/s",
      show: words.short,
      stacked: true,
      nothing: "No calls were recorded.",
      series: groups.map((group) => ({
        key: group.key,
        title: group.title,
        values: perSecond(group.calls),
        total: sum(group.calls),
        hue: () => colour(group.key),
      })),
    }),
    timeChart("throughput", "Data moved per second", "Results of calls that read and write: files, pipes and sockets alike.", data, {
      unit: "bytes/s",
      binary: true,
      mark: words.bytes,
      show: (value) => words.bytes(value) + "/s",
      nothing: "No call moved data.",
      series: ["read", "write"].map((key) => ({
        key: key + "_bytes",
        title: key === "read" ? "read" : "written",
        values: perSecond(time[key + "_bytes"]),
        total: sum(time[key + "_bytes"]),
        fill: true,
        hue: () => colour(key),
      })),
    }),
    timeChart("latency_over_time", "Latency", "Of all calls together, logarithmic. Calls that wait (poll, futex, sleep) are among them: choose a call under Calls to see it alone.", data, {
      unit: "time in a call",
      show: words.ns,
      log: true,
      nothing: "No call returned.",
      series: [["p50_ns", "median", "read"], ["p99_ns", "p99", "write"], ["max_ns", "longest", "sync"]].map(
        ([key, title, hue]) => ({
          key,
          title,
          values: numbers(time[key]),
          total: Math.max(0, ...numbers(time[key])),
          hue: () => colour(hue),
        })
      ),
    }),
    timeChart("in_flight", "Calls in flight", "Mean number of threads that are inside a call.", data, {
      unit: "calls",
      show: words.short,
      nothing: "No call took time.",
      series: [
        {
          key: "busy_ns",
          title: "under way",
          values: numbers(time.busy_ns).map((ns) => ns / interval),
          total: sum(time.busy_ns),
          fill: true,
          hue: () => colour("file"),
        },
      ],
    }),
    timeChart("unsynced", "Unsynced bytes", "Written to files and not yet made durable: what a power cut would take.", data, {
      unit: "bytes",
      binary: true,
      show: words.bytes,
      nothing: "No file was written that would need a sync.",
      series: [
        {
          key: "most_bytes",
          title: "at most",
          values: held(numbers(data.unsynced.most_bytes), numbers(data.unsynced.end_bytes), stepCount(data)),
          total: Math.max(0, ...numbers(data.unsynced.most_bytes)),
          fill: true,
          hue: () => colour("sync"),
        },
      ],
    }),
    timeChart("errors_over_time", "Calls that returned an error, per second", "Most are how programs ask, such as whether a file is there; see Errors.", data, {
      unit: "calls/s",
      show: words.short,
      nothing: "No call failed.",
      series: [
        {
          key: "errors",
          title: "failed",
          values: perSecond(time.errors),
          total: sum(time.errors),
          fill: true,
          hue: () => colour("other"),
        },
      ],
    }),
  ];
}

// Extends the series with the last value, because nothing changes after the last event.
function held(most, end, steps) {
  const last = end.length ? end[end.length - 1] : 0;
  return Array.from({ length: steps }, (_, step) => (step < most.length ? most[step] : last));
}
