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
    element("div", { class: "title" }, element("h1", { title: "the command" }, words.beginning(trace.command || "(no command)", 300)), state, theme, zoom),
    element("p", { class: "verdict" }, data.verdict),
    wall(),
    facts(),
    element("details", {}, element("summary", {}, "Machine and recording"), trace.command.length > 300 ? element("pre", { class: "command" }, trace.command) : null, element("dl", { class: "facts" }, machine.map(fact))),
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
  const inWords = (row) =>
    row[at.activity] + ": " + words.ns(row[at.wall_ns]) + ", " + percent(row) + (row[at.calls] ? ", mostly in " + row[at.calls] : "");
  const bars = told.map((row) => {
    const part = element("span", { class: "act act-" + row[at.key], title: inWords(row) });
    part.style.flexGrow = Number(row[at.wall_share]);
    return part;
  });
  const legend = told.map((row) =>
    element("li", { title: inWords(row) }, element("span", { class: "act act-" + row[at.key] }), row[at.activity] + " ", element("b", {}, percent(row)), " " + words.ns(row[at.wall_ns]))
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
  const one = (name, value, show) => element("span", { "data-fact": name, "data-value": value }, show(value));
  const few = (name, value, single, many) => element("span", { "data-fact": name, "data-value": value }, words.plural(value, single, many));
  const list = [
    ["run", [one("run_ns", data.run_ns, words.ns)], ["of a recording of ", one("span_ns", data.span_ns, words.ns)]],
    ["calls", [one("count", calls.count, words.count)], [few("kinds", calls.kinds, "kind", "kinds"), ", ", one("errors", calls.errors, words.count), " returned an error"]],
    ["time in calls", [one("total_ns", calls.total_ns, words.ns)], ["of all threads together"]],
    ["files", [one("file_count", files.file_count, words.count)], ["read ", one("read_bytes", files.read_bytes, words.bytes), ", written ", one("write_bytes", files.write_bytes, words.bytes)]],
    ["syncs", [one("syncs", durability.syncs, words.count)], [Number(durability.syncs) ? "in " + words.ns(durability.sync_ns) + "; " : "", "at most ", one("most_unsynced_bytes", durability.most_unsynced_bytes, words.bytes), " unsynced"]],
    ["processes", [words.count(tasks.process_count)], [few("thread_count", tasks.thread_count, "thread", "threads")]],
  ];
  return element(
    "dl",
    { class: "facts main", id: "facts" },
    list.map(([key, value, note]) => element("div", {}, element("dt", {}, key), element("dd", {}, value), note ? element("dd", { class: "note" }, note) : null))
  );
}

function findings() {
  const { findings: table } = data;
  const at = Object.fromEntries(table.columns.map((column, index) => [column.key, index]));
  const about = "What the time of the run went to, and likely performance problems; those that cost most first.";
  const it = picture("findings", null, about, () => {
    if (!table.rows.length) {
      empty(it.body, "None of the known patterns was found: no storms of small writes, syncs or missing files, no leaks, no lock waits worth telling.");
      return { findings: 0 };
    }
    const left = Number(table.left_out);
    const used = span.isPart() ? filesUsed(data).used : null;
    const paths = new Map(data.files.rows.map((row, index) => [row[data.files.columns.length - 1], index]));
    // What is about a file that was not used in the visible time has nothing to say about it.
    const concerns = (row) => !used || !paths.has(row[at.file]) || used.has(paths.get(row[at.file]));
    const shown = table.rows.filter(concerns);
    const kinds = new Map();
    for (const row of shown) kinds.set(row[at.kind], [...(kinds.get(row[at.kind]) || []), row]);
    const hidden = table.rows.length - shown.length;
    it.body.replaceChildren(
      used ? element("p", { class: "within" }, "Numbers of findings are of all of the time. " + (hidden ? words.plural(hidden, "finding is", "findings are") + " hidden: about files that were not used in the visible time." : "")) : "",
      element("div", { class: "findings" }, [...kinds].map(([kind, rows]) => finding(kind, rows, at))),
      left > 0 ? element("p", { class: "more" }, words.count(left) + " more: reenact stat patterns " + data.name + " shows them") : "",
      data.findings_hint ? element("p", { class: "more" }, data.findings_hint) : ""
    );
    return { findings: table.rows.length + left, shown: shown.length };
  });
  span.watchers.push(() => it.width && it.draw());
  return it;
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
  const share = words.share(sum("run_share"));
  const marks = [
    rows[0][at.severity],
    sum("time_ns") > 0 && share + " of the run",
    rows.length > 1 && rows.length + " places",
    sum("time_ns") > 0 && words.ns(sum("time_ns")),
    sum("bytes") > 0 && words.bytes(sum("bytes")),
    sum("saves_ns") > 0 && "saves at most " + words.ns(sum("saves_ns")),
    "confidence " + rows[0][at.confidence],
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
    element("div", {}, get("evidence")),
    get("within") ? element("div", { class: "where" }, "as a part of: " + get("within")) : null,
    get("site") ? element("div", { class: "where" }, "called from ", name(get("site"))) : null,
    get("calls") ? element("div", { class: "where" }, "slowest calls: " + get("calls")) : null,
    get("command") ? element("div", { class: "where" }, command(get("command"))) : null
  );
}

function part(id, title, ...boxes) {
  return element("section", { class: "part", id }, element("h2", {}, title), boxes);
}

function grid(...its) {
  return element("div", { class: "grid" }, its.flat().map((it) => it.box));
}

// Chooses a call in all charts of one.
function chooseCall(name) {
  chosenCall.forEach((it) => it.choose(name));
  address.put("call", name);
}

// Shows where in a file data was moved, and the slowest calls on it. `row` is one of the table.
function chooseFile(row) {
  const path = data.files.rows[row][data.files.columns.length - 1];
  chosenFile.offsets.choose(row);
  chosenFile.slowest.filter("file", path);
  address.put("file", path);
}

let chosenCall = [];
let chosenFile = {};

function build() {
  const heat = heatMap(data);
  const lowest = data.heat.from_ns.map(Number);
  const longest = data.calls.rows.length ? data.calls.rows[0][0] : null;
  const latency = histogram("latency", "How long calls take", "Calls by time, a bar for each power of two.", data.latency, {
    axis: "time in a call", show: words.ns, log: true, nothing: "No call returned.", first: longest,
    within: (whole) => histogramWithin(data, whole, "rows", (row) => (lowest[row] < 1 ? 0 : 2 ** Math.floor(Math.log2(lowest[row])))),
  });
  const sizes = histogram("sizes", "How much calls move", "Calls by bytes that they read or wrote, a bar for each power of two.", data.sizes, {
    axis: "bytes moved by a call", show: words.bytes, log: false, nothing: "No call moved data.", first: longest,
    within: (whole) => histogramWithin(data, whole, "sizes", (row) => (Number(row) === 0 ? 0 : 2 ** (Number(row) - 1))),
  });
  chosenCall = [heat, latency, sizes];
  const slowest = slowestCalls(data);
  const calls = dataTable("calls", null, "A row (click, or Enter) chooses the call in the charts below.", data.calls, {
    hidden: ["unfinished", "share"], nothing: "No calls were recorded.", choose: (row) => chooseCall(row[0]), within: () => callsWithin(data),
  });
  const offsets = offsetPlot(data);
  chosenFile = { offsets, slowest };
  const chooseAndShow = (row) => {
    chooseFile(row);
    offsets.box.scrollIntoView({ block: "nearest" });
  };
  const map = treemap(data, chooseAndShow);
  const files = dataTable("files", null, "Those with the most time in calls first. A row (click, or Enter) shows where in the file data was moved, and its slowest calls.", data.files, {
    rows: 20, first: "path", nothing: "No file was used.", choose: (row, index) => chooseAndShow(index), within: () => filesWithin(data),
  });
  const directories = dataTable("directories", "Directories", "Sums of the files in each, without those in directories below it.", data.directories, { first: "path", rows: 10, nothing: "No file was used." });
  const processes = dataTable("processes", "Processes", "Parents before children; times of several threads are summed.", data.processes, {
    first: "command", hidden: ["process", "parent"], nothing: "No process was recorded.", within: () => livedWithin(data.processes, "start_ns", "life_ns"),
  });
  const errors = dataTable("errors", null, "Which calls returned an error, and which. Many are answers, not faults: a file that is looked for is not there.", data.errors, { nothing: "No call failed.", within: () => errorsWithin(data) });
  const [replay, other, network] = [replayParts(data), otherRunParts(data), networkParts(data)];
  const boxes = (its) => its.map((it) => it.box);
  // Sections in order: id, title, what is in it; without that there is none.
  const sections = [
    ["findings", "Findings", [findings().box]],
    ["compared", "Compared with another run", boxes(other)],
    ["lanes", "What each thread did", [laneChart(data).box]],
    ["time", "Over time", [element("p", { class: "hint" }, "Drag across a chart to zoom: tables and histograms follow, and findings about files that were not used then are hidden. Double-click, or Escape, shows all. The address of the page has what is shown."), grid(timeCharts(data))]],
    ["calls", "Calls", [...boxes([calls, slowest, heat]), grid(latency, sizes), sizeBars(data).box]],
    ["callers", "Callers", data.flame ? [flameGraph(data).box] : []],
    ["files", "Files", boxes([map, files, offsets, directories])],
    ["network", "Network and pipes", boxes(network)],
    ["tasks", "Processes", [processes.box]],
    ["kernel", "What threads and CPUs did", data.kernel ? boxes(kernelParts(data)) : []],
    ["errors", "Errors", [errors.box]],
    ["replay", "Replay", boxes(replay)],
    ["predicted", "Predicted elsewhere", data.predicted ? boxes(predictedParts(data)) : []],
  ];
  const parts = sections.filter(([, , inside]) => inside.length).map(([id, title, inside]) => part(id, title, ...inside));
  address.on("call", (name) => name && chooseCall(name));
  address.on("file", (path) => {
    const row = data.files.rows.findIndex((of) => of[data.files.columns.length - 1] === path);
    if (row >= 0) chooseFile(row);
  });
  address.on("slowest", slowest.restore);
  document.getElementById("page").replaceChildren(header(), element("nav", { "aria-label": "sections" }, parts.map(link)), ...parts, footer());
}

function link(section) {
  const go = (event) => {
    event.preventDefault();
    section.scrollIntoView();
    address.put("at", section.id);
  };
  return element("a", { href: "#" + section.id, onclick: go }, section.querySelector("h2").textContent);
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
address.restore();
window.addEventListener("hashchange", address.restore);

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
