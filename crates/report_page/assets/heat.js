// Heat map: number of calls by duration, over time.
function heatMap(data) {
  const { heat, interval_ns: interval } = data;
  const lowest = heat.from_ns.map(Number);
  const names = ["all of these", ...heat.calls.map((call) => call.call)];
  let chosen = 0;
  let cells = [];
  let most = 1;
  let [low, high] = [0, 1];
  const more = heat.left_out > 0 ? " Without the " + words.count(heat.left_out) + " calls that took the least time." : "";
  const it = picture(
    "heat",
    "Latency over time",
    "Each cell counts the calls that began in a step of " + words.ns(interval) +
      " and took that long; the stronger, the more (logarithmic)." + more,
    () => {
      select();
      if (!cells.length) {
        empty(it.body, "No call returned: there is no latency to show.");
        return { call: names[chosen], calls: 0 };
      }
      if (!plane.frame.isConnected) it.body.replaceChildren(plane.frame, scale);
      plane.repaint();
      ramp();
      return { call: names[chosen], calls: cells.reduce((sum, cell) => sum + cell[2], 0) };
    }
  );
  const scale = element("div", { class: "legend" });
  it.choose = (name) => {
    const place = names.indexOf(name);
    if (place < 0 || place === chosen) return;
    chosen = place;
    it.controls.querySelector("select").value = place;
    it.draw();
  };
  it.controls.append(chooser("call", names, 0, (place) => chooseCall(names[place])));

  // Selects the cells of the chosen call: step, row, count.
  function select() {
    const sums = new Map();
    const calls = chosen === 0 ? heat.calls : [heat.calls[chosen - 1]];
    for (const call of calls) {
      for (const [[step], pairs] of call.steps) {
        for (let at = 0; at < pairs.length; at += 2) {
          const key = Number(step) * lowest.length + pairs[at];
          sums.set(key, (sums.get(key) || 0) + Number(pairs[at + 1]));
        }
      }
    }
    cells = [...sums].map(([key, count]) => [Math.floor(key / lowest.length), key % lowest.length, count]);
    const rows = cells.map((cell) => cell[1]);
    most = cells.reduce((max, cell) => Math.max(max, cell[2]), 1);
    low = Math.max(0, rows.reduce((a, b) => Math.min(a, b), lowest.length) - 1);
    high = Math.min(lowest.length - 1, rows.reduce((a, b) => Math.max(a, b), 0) + 1);
  }

  const strength = (count) => (most > 1 ? Math.log(count) / Math.log(most) : 1);
  const rowHeight = (plane) => plane.height / (high - low + 1);
  const plane = timePlane(it, {
    unit: "time in a call",
    height: () => Math.min(300, Math.max(150, (high - low + 1) * 9)),
    rows(plane) {
      const marks = [];
      for (let ns = 1; ns < 1e13; ns *= 10) {
        const y = plane.height - (place(ns) - low) * rowHeight(plane);
        if (y >= 0 && y <= plane.height) marks.push([y, words.ns(ns)]);
      }
      return marks;
    },
    paint(plane, context) {
      const [first, end] = visibleSteps(interval, Infinity);
      const tall = rowHeight(plane);
      for (const [step, row, count] of cells) {
        if (step < first || step >= end) continue;
        const [x, wide] = stepPixels(plane, step, interval);
        context.fillStyle = heatColour(strength(count));
        const top = Math.round(plane.height - (row - low + 1) * tall);
        context.fillRect(x, plane.top + top, wide, Math.round(plane.height - (row - low) * tall) - top);
      }
    },
    tell(plane, ns, y) {
      const step = Math.floor(ns / interval);
      const row = high - Math.floor(y / rowHeight(plane));
      const found = cells.find((cell) => cell[0] === step && cell[1] === row);
      if (!found) return null;
      const to = row + 1 < lowest.length ? words.ns(lowest[row + 1]) : "more";
      return [
        names[chosen],
        ["calls", words.count(found[2])],
        ["took", words.ns(lowest[row]) + " to " + to],
        ["from", words.at(step * interval, interval, span.end)],
      ];
    },
  });

  // Converts a latency to a position in rows.
  function place(ns) {
    let row = lowest.length - 1;
    while (row > 0 && lowest[row] > ns) row -= 1;
    const next = row + 1 < lowest.length ? lowest[row + 1] : 2 * lowest[row];
    return row + (ns - lowest[row]) / (next - lowest[row]);
  }

  function ramp() {
    const marks = most > 1 ? [1, Math.round(Math.sqrt(most)), most] : [1];
    scale.replaceChildren(legend(marks.map((count) => [words.plural(count, "call", "calls"), heatColour(strength(count))])));
  }
  return it;
}

// Maps a strength from 0 to 1 to a colour of the scale.
function heatColour(strength) {
  const stops = ["heat-0", "heat-1", "heat-2", "heat-3"].map((name) => rgb(colour(name)));
  const at = Math.min(0.999, Math.max(0, strength)) * (stops.length - 1);
  const [a, b] = [stops[Math.floor(at)], stops[Math.floor(at) + 1]];
  const part = at - Math.floor(at);
  return "rgb(" + a.map((value, i) => Math.round(value + (b[i] - value) * part)).join(",") + ")";
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
