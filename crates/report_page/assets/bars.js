// Histograms with one bar per power of two.
function histogram(name, title, about, entries, spec) {
  // What took the most time is what matters, if it is here.
  let chosen = Math.max(0, entries.findIndex((entry) => entry.call === spec.first));
  let isLog = spec.log;
  const it = picture(name, title, about, () => {
    if (!entries.length) {
      empty(it.body, spec.nothing);
      return {};
    }
    const whole = entries[chosen];
    const entry = span.isPart() && spec.within ? spec.within(whole) : whole;
    if (!entry) {
      empty(it.body, whole.call + " was not called in the visible time.");
      return { call: whole.call, count: 0 };
    }
    const facts = [["count", words.count(entry.count)], ...["p50", "p99", "p999", "max"].map((key) => [key === "p999" ? "p99.9" : key, spec.show(entry[key])])];
    it.body.replaceChildren(
      bars(it.width, entry, spec, isLog, it.label),
      element("dl", { class: "facts narrow" }, facts.map(([key, value]) => element("div", {}, element("dt", {}, key), element("dd", {}, value))))
    );
    if (entry.told) it.body.prepend(element("p", { class: "within" }, entry.told));
    return { call: entry.call, count: entry.counts.reduce((sum, count) => sum + Number(count), 0), sum: Number(entry.sum) };
  });
  if (spec.within) span.watchers.push(() => it.width && it.draw());
  const names = entries.map((entry) => entry.call);
  it.choose = (call) => {
    const place = names.indexOf(call);
    if (place < 0) return;
    chosen = place;
    it.controls.querySelector("select").value = place;
    it.draw();
  };
  if (entries.length) {
    const box = element("input", { type: "checkbox", onchange: () => ((isLog = box.checked), it.draw()) });
    box.checked = isLog;
    it.controls.append(chooser("call", names, chosen, (place) => chooseCall(names[place])), element("label", { class: "choose" }, box, " logarithmic"));
  }
  return it;
}

// Returns a histogram within the visible time: its rows are counts by lowest value.
function histogramWithin(data, whole, key, lowest) {
  const call = data.heat.calls.find((it) => it.call === whole.call);
  if (!call) return { ...whole, told: "Of all of the time: what it was in the visible part is not in this page." };
  const steps = range.steps(data.interval_ns);
  const sum = range.call(call, steps);
  const counts = new Map();
  for (const [row, count] of sum[key]) {
    const from = lowest(row);
    counts.set(from, (counts.get(from) || 0) + count);
  }
  const used = [...counts.keys()].sort((a, b) => a - b);
  if (!used.length) return null;
  const from = [];
  for (let at = used[0]; at <= used[used.length - 1]; at = at === 0 ? 1 : 2 * at) from.push(at);
  const list = from.map((at) => counts.get(at) || 0);
  const all = list.reduce((a, b) => a + b, 0);
  const quantile = (share) => {
    let seen = 0;
    const at = list.findIndex((count) => (seen += count) >= all * share);
    return from[at] === 0 ? 0 : 2 * from[at] - 1;
  };
  return {
    call: whole.call, group: whole.group, from, counts: list, count: all, sum: key === "rows" ? sum.total_ns : sum.bytes,
    p50: quantile(0.5), p99: quantile(0.99), p999: quantile(0.999), max: key === "rows" ? sum.max_ns : quantile(1),
    told: "What began from " + range.told(steps, data.interval_ns) + "; percentiles are upper bounds of a bar.",
  };
}

function bars(width, entry, spec, isLog, label) {
  const [left, right, top, bottom] = [58, 8, 10, 40];
  const height = 190;
  const inner = width - left - right;
  const from = entry.from.map(Number);
  const counts = entry.counts.map(Number);
  const most = Math.max(...counts, 1);
  const scaled = (count) => (isLog ? Math.log10(count + 1) / Math.log10(most + 1) : count / most);
  const y = (count) => top + (height - top - bottom) * (1 - scaled(count));
  const step = Math.min(60, inner / counts.length);
  const svg = shape("svg", { width, height, role: "group", "aria-label": label + " " + entry.call });
  const ticks = (isLog ? powers(most) : niceTicks(0, most, 4, false)).filter(Number.isInteger);
  for (const count of ticks) {
    svg.append(
      shape("line", { x1: left, x2: left + inner, y1: y(count), y2: y(count), class: "grid" }),
      shape("text", { x: left - 6, y: y(count) + 4, class: "right" }, words.short(count))
    );
  }
  const every = Math.ceil(counts.length / Math.max(1, Math.floor(inner / 62)));
  counts.forEach((count, index) => {
    const x = left + index * step;
    const tall = y(0) - y(count);
    const bar = shape("rect", {
      x: x + 1, y: y(count), width: Math.max(1, step - 2), height: Math.max(count > 0 ? 1.5 : 0, tall), fill: groupColour(entry.group),
    });
    const hit = shape("rect", { x, y: top, width: step, height: height - top - bottom, class: "hit" });
    const to = from[index] === 0 ? 0 : 2 * from[index] - 1;
    tipOn(hit, () => [entry.call, [spec.axis, spec.show(from[index]) + " to " + spec.show(to)], ["calls", words.count(count)], ["share", words.share(count / Math.max(1, Number(entry.count)))]]);
    hit.setAttribute("tabindex", "-1");
    svg.append(bar, hit);
    if (index % every === 0) {
      const isLast = x + 50 > width;
      svg.append(shape("text", { x: isLast ? width - 2 : x + 1, y: height - bottom + 14, class: isLast ? "right" : "" }, spec.show(from[index])));
    }
  });
  svg.append(
    shape("line", { x1: left, x2: left + inner, y1: y(0), y2: y(0), class: "base" }),
    shape("text", { x: left + inner / 2, y: height - 8, class: "middle" }, spec.axis + ", from"),
    shape("text", { x: 0, y: 0, class: "middle", transform: `translate(10 ${(top + height - bottom) / 2}) rotate(-90)` }, "calls")
  );
  rove(svg, ".hit");
  return svg;
}

function powers(most) {
  const all = [];
  for (let count = 1; count <= most; count *= 10) all.push(count);
  return all;
}

// Table of the most frequent write sizes, with a bar in each row.
function sizeBars(data) {
  const rows = data.write_sizes.rows;
  const facts = data.calls_facts;
  const [writes, odd, above] = ["writes", "odd_writes", "writes_just_above_4k"].map((key) => Number(facts[key] || 0));
  const about = writes
    ? `${words.count(writes)} writes: ${words.count(odd)} of odd length (${words.share(odd / writes)}), ` +
      `${words.count(above)} just above 4 KiB, 4,097 to 4,608 bytes (${words.share(above / writes)}).`
    : null;
  const it = picture("write_sizes", "Most frequent sizes of writes", about, () => {
    if (!rows.length) {
      empty(it.body, "No call wrote data.");
      return { writes: 0 };
    }
    const most = Math.max(...rows.map((row) => Number(row[1])));
    it.body.replaceChildren(
      element(
        "table",
        { class: "bars" },
        element("thead", {}, element("tr", {}, ["size, bytes", "writes", "share", ""].map((text) => element("th", { class: text ? "number" : undefined }, text)))),
        rows.map(([size, count, share, kind]) => {
          const bar = element("i", { class: "bar" });
          bar.style.width = (100 * Number(count)) / most + "%";
          return element(
            "tr",
            {},
            element("td", { class: "number", "data-value": size }, words.count(size)),
            element("td", { class: "number", "data-value": count }, words.count(count)),
            element("td", { class: "number" }, words.share(share)),
            element("td", { class: "wide" }, element("span", { class: "track" }, bar), kind ? element("em", {}, kind) : null)
          );
        })
      )
    );
    return { writes, odd, above };
  });
  return it;
}
