// Comparison of a replay with the recording.
function replayParts(data) {
  const { replay } = data;
  if (!replay) return [];
  const verdict = replay.ok ? "as recorded" : "not as recorded";
  const facts = [
    ["verdict", verdict],
    ["calls made again", words.count(replay.replayed)],
    ["taken from the recording", words.count(replay.simulated)],
    ["verified", words.count(replay.verified)],
    ["results that differ", words.count(replay.wrong_results)],
    ["data that differs", words.count(replay.wrong_data)],
    ["paths that differ at the end", replay.different === null ? "not compared" : words.count(replay.different) + " of " + words.count(replay.compared)],
    ["time of the replay", words.ns(replay.elapsed_s * 1e9)],
    ["of it in calls", words.ns(replay.calls_s * 1e9)],
    ["time of the recording", words.ns(replay.recorded_s * 1e9)],
  ];
  if (replay.stopped) facts.push(["stopped", replay.stopped]);
  const summary = picture("replay", null, "The same calls, made again.", (it) => {
    it.body.replaceChildren(
      element("dl", { class: "facts" }, facts.map(([key, value]) => element("div", {}, element("dt", {}, key), element("dd", {}, value)))),
      ...reasons(replay)
    );
    return { ok: replay.ok, replayed: Number(replay.replayed), verified: Number(replay.verified) };
  });
  const about = "Median (filled) and 99th percentile (ring) of each call that was made again, logarithmic.";
  const pairs = picture("replay_latency", "Latency, recorded and replayed", about, (it) => {
    const calls = replay.calls.filter((call) => Number(call.replayed[0]) > 0 && Number(call.recorded[0]) > 0).slice(0, 25);
    if (!calls.length) {
      empty(it.body, "No call has a latency on both sides.");
      return { calls: 0 };
    }
    it.body.replaceChildren(pairChart(it.width, calls), legend([["recorded", colour("read")], ["replayed", colour("write")]]));
    return { calls: calls.length };
  });
  return [summary, pairs];
}

function reasons(replay) {
  const lines = replay.causes.map((cause) => words.count(cause.count) + " times: " + cause.cause);
  for (const it of replay.differences) lines.push(it.path + ": " + it.what + ": " + it.expected + " expected, " + it.found + " found");
  return lines.length ? [element("ul", {}, lines.map((line) => element("li", {}, line)))] : [];
}

// Draws two lines of dots per call.
function pairChart(width, calls) {
  const ROW = 24;
  const [left, right, top, bottom] = [118, 26, 6, 38];
  const height = top + calls.length * ROW + bottom;
  const values = calls.flatMap((call) => [call.recorded, call.replayed].flatMap((side) => [Number(side[1]), Number(side[2])])).filter((ns) => ns > 0);
  const [low, high] = logRange(Math.min(...values), Math.max(...values));
  const x = (ns) => left + ((Math.log10(Math.max(low, ns)) - Math.log10(low)) / (Math.log10(high) - Math.log10(low))) * (width - left - right);
  const svg = shape("svg", { width, height, role: "group", "aria-label": "latency of each call, recorded and replayed" });
  for (let ns = low; ns <= high; ns *= 10) {
    svg.append(
      shape("line", { x1: x(ns), x2: x(ns), y1: top, y2: height - bottom, class: "grid" }),
      shape("text", { x: x(ns), y: height - bottom + 14, class: "middle" }, words.ns(ns))
    );
  }
  svg.append(shape("text", { x: (left + width - right) / 2, y: height - 6, class: "middle" }, "time in a call"));
  calls.forEach((call, index) => {
    const y = top + index * ROW + ROW / 2;
    svg.append(shape("text", { x: left - 8, y: y + 4, class: "right" }, call.call));
    [[call.recorded, "read", -4], [call.replayed, "write", 4]].forEach(([side, hue, shift]) => {
      const [median, p99] = [Number(side[1]), Number(side[2])];
      const stroke = colour(hue);
      svg.append(
        shape("line", { x1: x(median), x2: x(p99), y1: y + shift, y2: y + shift, stroke, "stroke-width": 1.5 }),
        shape("circle", { cx: x(median), cy: y + shift, r: 3.5, fill: stroke }),
        shape("circle", { cx: x(p99), cy: y + shift, r: 3, fill: colour("card"), stroke, "stroke-width": 1.5 })
      );
    });
    const hit = shape("rect", { x: 0, y: y - ROW / 2, width, height: ROW, class: "hit" });
    hit.setAttribute("tabindex", "-1");
    tipOn(hit, () => [
        call.call,
        ...[["recorded", call.recorded], ["replayed", call.replayed]].map(([word, side]) => [word, words.count(side[0]) + " calls, " + words.ns(side[1]) + " median, " + words.ns(side[2]) + " p99, " + words.ns(side[3]) + " longest"]),
    ]);
    svg.append(hit);
  });
  rove(svg, ".hit");
  return svg;
}
