// Builds the page from top to bottom.
let faults = 0;
window.addEventListener("error", () => {
  faults += 1;
  document.body.dataset.faults = faults;
});

const data = JSON.parse(document.getElementById("data").textContent);
span.begin(Number(data.span_ns));
data.interval_ns = Number(data.interval_ns);

function header() {
  const { trace, sound } = data;
  const state = sound.complete
    ? element("span", { class: "chip good" }, "complete")
    : element("span", { class: "chip bad" }, "not complete: " + incomplete(sound));
  const machine = [
    ["recorded", trace.recorded],
    ["kernel", trace.kernel],
    ["machine", trace.machine],
    ["trace", (trace.trace_bytes ? words.bytes(trace.trace_bytes) : "unknown size") + (trace.data_bytes ? " for " + words.bytes(trace.data_bytes) + " of data" : "")],
    ["options", trace.options || "none"],
    ["held up by the recorder", sound.stall_ns === null ? "unknown" : words.ns(sound.stall_ns)],
  ];
  const theme = element("button", { type: "button", class: "link", onclick: switchTheme }, "light / dark");
  const zoom = element("button", { type: "button", id: "zoom", hidden: true, onclick: span.reset }, "show all of the time");
  return element(
    "header",
    {},
    element("div", { class: "title" }, element("h1", {}, "What the program did"), state, theme, zoom),
    element("pre", { class: "command", title: "the command" }, trace.command || "(no command)"),
    wall(),
    facts(),
    element("details", {}, element("summary", {}, "Machine and recording"), element("dl", { class: "facts" }, machine.map(fact))),
    sound.problems.length ? element("ul", { class: "problems" }, sound.problems.map((text) => element("li", {}, text))) : null
  );
}

// Shows where the time of the run went, as one bar.
function wall() {
  const { columns, rows } = data.activities;
  if (!rows.length) return null;
  const at = Object.fromEntries(columns.map((column, index) => [column.key, index]));
  const percent = (row) => (Number(row[at.wall_share]) * 100).toFixed(0) + "%";
  const told = rows.filter((row) => Number(row[at.wall_share]) >= 0.01);
  const bars = told.map((row) => {
    const part = element("span", { class: "act act-" + row[at.key], title: row[at.activity] + ": " + words.ns(row[at.wall_ns]) + ", " + percent(row) });
    part.style.flexGrow = Number(row[at.wall_share]);
    return part;
  });
  const legend = told.map((row) =>
    element("li", {}, element("span", { class: "act act-" + row[at.key] }), row[at.activity] + " ", element("b", {}, percent(row)), " " + words.ns(row[at.wall_ns]))
  );
  const spoken = "Where the time went: " + told.map((row) => row[at.activity] + " " + percent(row)).join(", ");
  return element("figure", { class: "wall", id: "wall" }, element("div", { class: "bar", role: "img", "aria-label": spoken }, bars), element("ul", {}, legend));
}

function incomplete(sound) {
  const parts = [];
  if (Number(sound.lost) > 0) parts.push(words.plural(sound.lost, "call lost", "calls lost"));
  if (Number(sound.gaps) > 0) parts.push(words.plural(sound.gaps, "gap", "gaps"));
  if (Number(sound.unread_blocks) > 0) parts.push(words.plural(sound.unread_blocks, "damaged block", "damaged blocks"));
  return parts.join(", ") || words.plural(sound.problems.length, "problem", "problems");
}

function fact([key, value]) {
  return element("div", {}, element("dt", {}, key), element("dd", {}, value));
}

// Shows the most important numbers.
function facts() {
  const { calls_facts: calls, files_facts: files, tasks_facts: tasks, durability_facts: durability } = data;
  const list = [
    ["duration", words.ns(data.span_ns), "span_ns", data.span_ns],
    ["calls", words.count(calls.count), "count", calls.count],
    ["kinds of calls", words.count(calls.kinds), "kinds", calls.kinds],
    ["failed", words.count(calls.errors), "errors", calls.errors],
    ["time in calls", words.ns(calls.total_ns), "total_ns", calls.total_ns],
    ["read from files", words.bytes(files.read_bytes), "read_bytes", files.read_bytes],
    ["written to files", words.bytes(files.write_bytes), "write_bytes", files.write_bytes],
    ["files", words.count(files.file_count), "file_count", files.file_count],
    ["processes, threads", words.count(tasks.process_count) + ", " + words.count(tasks.thread_count), "thread_count", tasks.thread_count],
    ["syncs", words.count(durability.syncs) + " in " + words.ns(durability.sync_ns), "syncs", durability.syncs],
    ["most unsynced at once", words.bytes(durability.most_unsynced_bytes), "most_unsynced_bytes", durability.most_unsynced_bytes],
    ["most calls are", calls.top || "–", "top", calls.top],
  ];
  return element(
    "dl",
    { class: "facts main", id: "facts" },
    list.map(([key, text, name, value]) => element("div", {}, element("dt", {}, key), element("dd", { "data-fact": name, "data-value": value }, text)))
  );
}

function findings() {
  const { findings: table } = data;
  const at = Object.fromEntries(table.columns.map((column, index) => [column.key, index]));
  const about = "What the time of the run went to, and likely performance problems; those that cost most first.";
  const kinds = new Map();
  for (const row of table.rows) kinds.set(row[at.kind], [...(kinds.get(row[at.kind]) || []), row]);
  return picture("findings", null, about, (it) => {
    if (!table.rows.length) {
      empty(it.body, "None of the known patterns was found: no storms of small writes, syncs or missing files, no leaks, no lock waits worth telling.");
      return { findings: 0 };
    }
    const left = Number(table.left_out);
    it.body.replaceChildren(
      element("div", { class: "findings" }, [...kinds].map(([kind, rows]) => finding(kind, rows, at))),
      left > 0 ? element("p", { class: "more" }, words.count(left) + " more: reenact stat patterns shows them") : ""
    );
    return { findings: table.rows.length + left };
  });
}

// Shows all findings of a kind: the explanation once, and each place with its evidence.
function finding(kind, rows, at) {
  const FIRST = 3;
  const list = element("ul", {}, rows.slice(0, FIRST).map((row) => evidence(row, at)));
  const all = element("button", { type: "button", class: "link" }, "show " + words.count(rows.length - FIRST) + " more");
  all.addEventListener("click", () => {
    list.append(...rows.slice(FIRST).map((row) => evidence(row, at)));
    all.remove();
  });
  const sum = (key) => rows.reduce((total, row) => total + Number(row[at[key]]), 0);
  const share = (sum("run_share") * 100).toFixed(1);
  const marks = [
    rows[0][at.severity],
    sum("time_ns") > 0 && share + "% of the run",
    rows.length > 1 && rows.length + " places",
    sum("time_ns") > 0 && words.ns(sum("time_ns")),
    sum("bytes") > 0 && words.bytes(sum("bytes")),
  ];
  return element(
    "article",
    { class: "finding " + rows[0][at.severity], "data-kind": kind },
    element("h4", {}, rows[0][at.title], element("small", {}, marks.filter(Boolean).join(" · "))),
    element("p", { class: "reason" }, rows[0][at.reason], rows[0][at.unless] ? " Leave it if " + rows[0][at.unless] + "." : ""),
    list,
    rows.length > FIRST ? all : null
  );
}

function evidence(row, at) {
  const get = (key) => row[at[key]];
  const name = (text) => element("code", { title: text }, words.ending(text, 80));
  return element(
    "li",
    {},
    get("file") ? element("div", {}, name(get("file"))) : null,
    element("div", {}, words.grouped(get("evidence"))),
    get("site") ? element("div", { class: "where" }, "called from ", name(get("site"))) : null,
    get("command") ? element("div", { class: "where" }, element("code", {}, get("command"))) : null
  );
}

function part(id, title, ...boxes) {
  return element("section", { class: "part", id }, element("h2", {}, title), boxes);
}

function grid(...its) {
  return element("div", { class: "grid" }, its.flat().map((it) => it.box));
}

function build() {
  const heat = heatMap(data);
  const latency = histogram("latency", "How long calls take", "Calls by time, a bar for each power of two.", data.latency, {
    axis: "time in a call", show: words.ns, log: true, nothing: "No call returned.",
  });
  const sizes = histogram("sizes", "How much calls move", "Calls by bytes that they read or wrote, a bar for each power of two.", data.sizes, {
    axis: "bytes moved by a call", show: words.bytes, log: false, nothing: "No call moved data.",
  });
  const chooseCall = (name) => [heat, latency, sizes].forEach((it) => it.choose(name));
  const calls = dataTable("calls", "Calls", "A click on a row chooses the call in the charts below.", data.calls, {
    hidden: ["unfinished", "share"], nothing: "No calls were recorded.", choose: (row) => chooseCall(row[0]),
  });
  const offsets = offsetPlot(data);
  const chooseFile = (row) => offsets.choose(row) && offsets.box.scrollIntoView({ block: "nearest" });
  const map = treemap(data, chooseFile);
  const files = dataTable("files", "Files", "Those with the most time in calls first; a click on a row shows where in the file data was moved.", data.files, {
    rows: 20, first: "path", nothing: "No file was used.", choose: (row, index) => chooseFile(index),
  });
  const processes = dataTable("processes", "Processes", "Parents before children; times of several threads are summed.", data.processes, {
    first: "command", hidden: ["process", "parent"], nothing: "No process was recorded.",
  });
  const errors = dataTable("errors", null, "Which calls failed, and with what.", data.errors, { nothing: "No call failed." });
  const replay = replayParts(data);
  const other = otherRunParts(data);
  const sections = [
    part("findings", "Findings", findings().box),
    ...(other.length ? [part("compared", "Compared with another run", ...other.map((it) => it.box))] : []),
    part("time", "Over time", element("p", { class: "hint" }, "Drag across a chart to zoom all of them, double-click to see all."), grid(timeCharts(data))),
    part("calls", "Calls", calls.box, heat.box, grid(latency, sizes), sizeBars(data).box),
    ...(data.flame ? [part("callers", "Callers", flameGraph(data).box)] : []),
    part("files", "Files", map.box, offsets.box, files.box),
    part("tasks", "Processes and threads", laneChart(data).box, processes.box),
    ...(data.kernel ? [part("kernel", "What threads and CPUs did", ...kernelParts(data).map((it) => it.box))] : []),
    part("errors", "Errors", errors.box),
    ...(replay.length ? [part("replay", "Replay", replay[0].box, replay[1].box)] : []),
    ...(data.predicted ? [part("predicted", "Predicted elsewhere", ...predictedParts(data).map((it) => it.box))] : []),
  ];
  const links = sections.map((section) => element("a", { href: "#" + section.id }, section.querySelector("h2").textContent));
  document.getElementById("page").append(header(), element("nav", {}, links), ...sections, footer());
}

function footer() {
  const notes = [
    "The numbers are those of reenact stat; percentiles are accurate to about 6%.",
    "A file counts under the last path that it had, together with the files that had this path before. Data that is moved by mapped memory or io_uring passes no call and is not counted.",
    data.replay ? null : "A comparison with a replay is shown if one is given: reenact replay TRACE --json > replay.json, reenact report TRACE --replay replay.json.",
    "Names are shown as the terminal would show them: control characters and bytes that are no text as \\ooo.",
  ];
  return element("footer", {}, element("ul", {}, notes.filter(Boolean).map((note) => element("li", {}, note))), element("p", {}, "Made by reenact " + data.trace.version + ". Charts over time by uPlot (MIT licence, Leon Sorokin)."));
}

function switchTheme() {
  const root = document.documentElement;
  const isDark = getComputedStyle(root).colorScheme.trim() === "dark";
  root.dataset.theme = isDark ? "light" : "dark";
  drawAll();
}

document.title = "reenact: " + data.trace.command.slice(0, 80);
build();
drawAll();

let resized = 0;
window.addEventListener("resize", () => {
  cancelAnimationFrame(resized);
  resized = requestAnimationFrame(() => pictures.some((it) => it.body.clientWidth > 0 && it.body.clientWidth !== it.width) && drawAll());
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);

// Print with light colours and a narrow layout.
let screenTheme;
window.addEventListener("beforeprint", () => {
  screenTheme = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  document.body.classList.add("paper");
  drawAll();
});
window.addEventListener("afterprint", () => {
  if (screenTheme) document.documentElement.dataset.theme = screenTheme;
  else delete document.documentElement.dataset.theme;
  document.body.classList.remove("paper");
  drawAll();
});
document.body.dataset.faults = faults;
document.body.dataset.ready = "yes";
