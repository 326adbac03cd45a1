// What calls and files did in the visible part of the time, summed up from their numbers by step. Steps
// that the range touches count as a whole; `steps` of the result says which ones these are.
const SUMS = { step: 0, calls: 1, total_ns: 2, max_ns: 3, bytes: 4, unfinished: 5 };

const range = {
  // The steps of this width that are visible: [first, behind the last one].
  steps(interval) {
    return visibleSteps(interval, Math.max(1, Math.ceil(span.end / interval)));
  },

  // Their bounds in words.
  told([first, behind], interval) {
    return words.at(first * interval, interval, span.end) + " to " + words.at(Math.min(behind * interval, span.end), interval, span.end);
  },

  // Adds pairs of a key and a count to a map.
  pairs(sums, list) {
    for (let at = 0; at < list.length; at += 2) sums.set(list[at], (sums.get(list[at]) || 0) + Number(list[at + 1]));
  },

  // Sums up a call of the heat map within steps.
  call(call, [first, behind]) {
    const sum = { calls: 0, total_ns: 0, max_ns: 0, bytes: 0, unfinished: 0, rows: new Map(), sizes: new Map(), errors: new Map() };
    for (const [sums, rows, sizes, errors] of call.steps) {
      const step = Number(sums[SUMS.step]);
      if (step < first || step >= behind) continue;
      for (const key of ["calls", "total_ns", "bytes", "unfinished"]) sum[key] += Number(sums[SUMS[key]]);
      sum.max_ns = Math.max(sum.max_ns, Number(sums[SUMS.max_ns]));
      range.pairs(sum.rows, rows);
      range.pairs(sum.sizes, sizes);
      range.pairs(sum.errors, errors);
    }
    return sum;
  },

  // The latency below which a share of the calls is, to half of a power of two; at most the longest.
  quantile(sum, lowest, share) {
    const rows = [...sum.rows].sort((a, b) => a[0] - b[0]);
    const all = rows.reduce((count, row) => count + row[1], 0);
    let seen = 0;
    for (const [row, count] of rows) {
      seen += count;
      if (seen >= all * share) return Math.min(sum.max_ns, row + 1 < lowest.length ? lowest[row + 1] - 1 : sum.max_ns);
    }
    return sum.max_ns;
  },
};

// Rows of the table of calls within the visible time.
function callsWithin(data) {
  const steps = range.steps(data.interval_ns);
  const lowest = data.heat.from_ns.map(Number);
  const keys = data.calls.columns.map((column) => column.key);
  const index = new Map(data.calls.rows.map((row, at) => [row[0], at]));
  const sums = data.heat.calls.map((call) => [call.call, range.call(call, steps)]).filter(([, sum]) => sum.calls > 0);
  const [allCalls, allNs] = ["calls", "total_ns"].map((key) => sums.reduce((total, [, sum]) => total + sum[key], 0));
  const rows = sums.map(([call, sum]) => {
    const returned = [...sum.rows.values()].reduce((a, b) => a + b, 0);
    const errors = [...sum.errors];
    // Of calls that never returned no time is known.
    const known = (value) => (returned ? value : null);
    const values = {
      call,
      count: sum.calls,
      total_ns: known(sum.total_ns),
      time_share: known(sum.total_ns / Math.max(1, allNs)),
      errors: errors.reduce((total, [, count]) => total + count, 0),
      unfinished: sum.unfinished,
      mean_ns: known(Math.floor(sum.total_ns / Math.max(1, returned))),
      max_ns: known(sum.max_ns),
      bytes: sum.bytes,
      share: sum.calls / Math.max(1, allCalls),
      errnos: errors.sort((a, b) => b[1] - a[1]),
    };
    for (const [key, share] of [["p50_ns", 0.5], ["p90_ns", 0.9], ["p99_ns", 0.99], ["p999_ns", 0.999]]) values[key] = known(range.quantile(sum, lowest, share));
    return { index: index.get(call) ?? -1, row: keys.map((key) => values[key] ?? null) };
  });
  rows.sort((a, b) => b.row[keys.indexOf("total_ns")] - a.row[keys.indexOf("total_ns")]);
  return { rows, steps, interval: data.interval_ns, note: "Percentiles are accurate to half of a power of two here." };
}

// Rows of the table of errors within the visible time.
function errorsWithin(data) {
  const steps = range.steps(data.interval_ns);
  const index = new Map(data.errors.rows.map((row, at) => [row[0] + " " + row[1], at]));
  const rows = [];
  for (const call of data.heat.calls) {
    const sum = range.call(call, steps);
    for (const [errno, count] of sum.errors) {
      const at = index.get(call.call + " " + errno) ?? -1;
      const meaning = at < 0 ? "" : data.errors.rows[at][2];
      rows.push({ index: at, row: [call.call, errno, meaning, count, count / sum.calls] });
    }
  }
  rows.sort((a, b) => b.row[3] - a.row[3]);
  return { rows, steps, interval: data.interval_ns };
}

// What files did in steps, by row of their table: sums in this order, zeros at the end left out.
const USED = ["time_ns", "opens", "reads", "read_bytes", "writes", "write_bytes", "syncs", "lookups", "errors", "sequential", "strided", "random", "reread_bytes", "overwritten_bytes"];

// Returns the sums of the files that were used in the visible time, by row of the table.
function filesUsed(data) {
  const over = data.files_over_time;
  const interval = Number(over.interval_ns);
  const steps = range.steps(interval);
  const used = new Map();
  for (const [row, ...cells] of over.rows) {
    const sums = new Array(USED.length).fill(0);
    let any = false;
    for (const [step, ...values] of cells) {
      if (Number(step) < steps[0] || Number(step) >= steps[1]) continue;
      any = true;
      values.forEach((value, at) => (sums[at] += Number(value)));
    }
    if (any) used.set(Number(row), Object.fromEntries(USED.map((key, at) => [key, sums[at]])));
  }
  return { used, steps, interval, isWhole: over.is_whole };
}

// Rows of the table of files within the visible time.
function filesWithin(data) {
  const { used, steps, interval, isWhole } = filesUsed(data);
  const keys = data.files.columns.map((column) => column.key);
  const rows = [...used].map(([index, sums]) => {
    const placed = sums.sequential + sums.strided + sums.random;
    const part = (count) => (placed ? count / placed : null);
    const values = { ...sums, sequential_share: part(sums.sequential), strided_share: part(sums.strided), random_share: part(sums.random) };
    return { index, row: keys.map((key, at) => (key in values ? values[key] : data.files.rows[index][at])) };
  });
  rows.sort((a, b) => b.row[keys.indexOf("time_ns")] - a.row[keys.indexOf("time_ns")]);
  const note = (isWhole ? "" : "Some files are left out. ") + (data.files.others ? "Files that are summed up below are not in it." : "");
  return { rows, steps, interval, note };
}

// Rows of a table whose things live from one column for another one.
function livedWithin(table, startKey, lengthKey) {
  const at = (key) => table.columns.findIndex((column) => column.key === key);
  const [startAt, lengthAt] = [at(startKey), at(lengthKey)];
  if (startAt < 0) return null;
  const rows = table.rows.map((row, index) => ({ row, index })).filter(({ row }) => {
    const start = Number(row[startAt] ?? 0);
    return start <= span.to && start + Number((lengthAt < 0 ? 0 : row[lengthAt]) ?? 0) >= span.from;
  });
  return { rows, bounds: [span.from, span.to] };
}
