// How long the program takes elsewhere: a bar for each configuration, and tables.
function predictedParts(data) {
  const { table, changed, recorded_ns: recorded, cache, remarks } = data.predicted;
  const at = Object.fromEntries(table.columns.map((column, index) => [column.key, index]));
  const rows = table.rows.map((row) => Object.fromEntries(Object.entries(at).map(([key, index]) => [key, row[index]])));
  const about =
    "The run in the middle, with the shortest and the longest" +
    (cache ? "; the page cache was " + cache + " at first" : "") +
    (recorded === null ? "." : "; the dashed line is the recording, " + words.ns(recorded) + ".");
  const summary = picture("predicted", null, about, (it) => {
    const shown = rows.filter((row) => row.predicted_ns !== null || row.actual_ns !== null).slice(0, PREDICTED_BARS);
    const lines = remarks.length ? element("ul", { class: "problems" }, remarks.map((line) => element("li", {}, line))) : "";
    if (!shown.length) {
      empty(it.body, "Nothing was predicted.");
      it.body.append(lines);
      return { bars: 0 };
    }
    const keys = [["predicted", colour("write")]];
    if (shown.some((row) => row.actual_ns !== null)) keys.push(["actual", colour("read")]);
    it.body.replaceChildren(predictedBars(it.width, shown, recorded), legend(keys), lines);
    return { bars: it.body.querySelectorAll("rect[data-ns]").length, remarks: remarks.length };
  });
  const all = dataTable("predicted_table", "Predictions", "Error is predicted over actual time, less one.", table, {
    first: "on", nothing: "Nothing was predicted.",
  });
  const calls = dataTable("predicted_changed", "Calls that changed most", "All calls of a name, when recorded and there; waiting for each other is in it.", changed, {
    first: "on", nothing: "No call was timed.",
  });
  return changed.rows.length ? [summary, all, calls] : [summary, all];
}

// The table has the others.
const PREDICTED_BARS = 60;

function predictedName(row) {
  const memory = row.memory_bytes === null ? null : words.bytes(row.memory_bytes);
  return [row.on, memory, row.limits, row.method].filter(Boolean).join(", ");
}

function predictedBars(width, rows, recorded) {
  const BAR = 12;
  const kinds = [["predicted", "", "write"], ["actual", "actual_", "read"]];
  const of = (row, kind) => (row[kind[0] + "_ns"] === null ? null : [row[kind[0] + "_ns"], row[kind[1] + "min_ns"], row[kind[1] + "max_ns"]].map(Number));
  const lines = rows.map((row) => kinds.filter((kind) => of(row, kind)));
  const [right, top, bottom] = [26, 6, 38];
  const left = Math.min(320, Math.floor(width * 0.42));
  const height = top + bottom + lines.reduce((sum, each) => sum + each.length * BAR + BAR, 0);
  const times = rows.flatMap((row) => kinds.flatMap((kind) => of(row, kind) || []));
  const most = Math.max(1, Number(recorded || 0), ...times);
  const x = (ns) => left + (ns / most) * (width - left - right);
  const svg = shape("svg", { width, height, role: "img", "aria-label": "predicted time by configuration" });
  for (const ns of niceTicks(0, most, Math.max(2, Math.floor((width - left) / 90)), false)) {
    svg.append(
      shape("line", { x1: x(ns), x2: x(ns), y1: top, y2: height - bottom, class: "grid" }),
      shape("text", { x: x(ns), y: height - bottom + 14, class: "middle" }, words.ns(ns))
    );
  }
  svg.append(shape("text", { x: (left + width - right) / 2, y: height - 6, class: "middle" }, "time of the run"));
  let y = top + BAR / 2;
  rows.forEach((row, index) => {
    const begin = y;
    for (const kind of lines[index]) {
      const [ns, low, high] = of(row, kind);
      svg.append(shape("rect", { x: left, y: y + 1, width: Math.max(1, x(ns) - left), height: BAR - 2, fill: colour(kind[2]), "data-ns": ns }));
      if (high > low) {
        const stroke = { stroke: colour("ink"), "stroke-width": 1 };
        svg.append(
          shape("line", { x1: x(low), x2: x(high), y1: y + BAR / 2, y2: y + BAR / 2, ...stroke }),
          ...[low, high].map((end) => shape("line", { x1: x(end), x2: x(end), y1: y + 3, y2: y + BAR - 3, ...stroke }))
        );
      }
      y += BAR;
    }
    svg.append(shape("text", { x: left - 8, y: (begin + y) / 2 + 4, class: "right" }, words.beginning(predictedName(row), Math.floor(left / 6.4))));
    const hit = shape("rect", { x: 0, y: begin - BAR / 2, width, height: y - begin + BAR, class: "hit" });
    hit.addEventListener("pointermove", (event) => tip.show(event, predictedTip(row, lines[index].map((kind) => [kind[0], of(row, kind)]))));
    hit.addEventListener("pointerleave", tip.hide);
    svg.append(hit);
    y += BAR;
  });
  if (recorded !== null) {
    const line = { x1: x(Number(recorded)), x2: x(Number(recorded)), y1: top, y2: height - bottom };
    svg.append(shape("line", { ...line, class: "base", "stroke-dasharray": "4 3" }));
  }
  return svg;
}

function predictedTip(row, times) {
  const lines = times.map(([word, [ns, low, high]]) => [word, words.ns(ns) + (high > low ? ", " + words.ns(low) + " to " + words.ns(high) : "")]);
  if (row.error !== null) lines.push(["error", words.change(row.error, words.share)]);
  return [predictedName(row), ...lines];
}
