// The keyboard: charts over time, and lists in which arrows go from one thing to the next.

// Says something to those who do not see the page.
function say(lines) {
  const text = (lines || []).map((line) => (Array.isArray(line) ? line.join(": ") : line)).join("; ");
  document.getElementById("said").textContent = text;
}

const KEYS_HELP = "arrow keys move, with Shift they select, Enter shows what is selected, plus and minus zoom, Escape shows all";

// Makes a chart over time answer to keys. `chart` has the span that it shows, its height, and
// look(ns, y), which returns the lines of the tip there, or null.
function timeKeys(node, chart) {
  let [ns, y, from] = [null, 0, null];
  node.tabIndex = 0;
  node.setAttribute("role", "group");
  node.setAttribute("aria-label", chart.label + "; " + KEYS_HELP);
  const look = () => {
    const { span } = chart;
    ns = Math.min(span.to, Math.max(span.from, ns));
    span.point(ns, null);
    const lines = chart.look ? chart.look(ns, y) : null;
    if (lines && chart.place) tip.show(chart.place(ns, y), lines);
    else tip.hide();
    chart.select?.(from, ns);
    say([words.at(ns, (span.to - span.from) / 100, span.end), ...(lines || [])]);
  };
  const leave = () => {
    from = null;
    chart.select?.(null, null);
    chart.span.point(null, null);
    tip.hide();
  };
  node.addEventListener("keydown", (event) => {
    const { span } = chart;
    const wide = span.to - span.from;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    ns ??= span.from + wide / 2;
    const moves = { ArrowLeft: -wide / 100, ArrowRight: wide / 100, Home: -wide, End: wide, PageUp: -wide / 10, PageDown: wide / 10 };
    const zooms = { "+": 0.5, "=": 0.5, "-": 2 };
    if (event.key in moves) {
      if (event.shiftKey) from ??= ns;
      else from = null;
      ns += moves[event.key];
      look();
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      if (!chart.height) return;
      const step = chart.step || chart.height() / 20;
      y = Math.min(chart.height() - 1, Math.max(1, y + (event.key === "ArrowUp" ? -step : step)));
      look();
    } else if (event.key in zooms) {
      const half = (wide * zooms[event.key]) / 2;
      span.set(ns - half, ns + half);
      look();
    } else if (event.key === "Enter" && from !== null) {
      const [low, high] = [Math.min(from, ns), Math.max(from, ns)];
      leave();
      span.set(low, high);
      say(["shown: " + words.at(low, wide / 100, span.end) + " to " + words.at(high, wide / 100, span.end)]);
    } else if (event.key === "Escape") {
      leave();
      span.reset();
      say(["all of the time is shown"]);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  node.addEventListener("blur", leave);
}

// Makes one of many things the stop of the tab key; arrows go to the others.
function rove(root, selector) {
  const all = () => [...root.querySelectorAll(selector)];
  const first = all()[0];
  if (first) first.setAttribute("tabindex", "0");
  if (root.dataset.roves) return;
  root.dataset.roves = "yes";
  root.addEventListener("keydown", (event) => {
    const list = all();
    const at = list.indexOf(event.target);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -list.length, End: list.length };
    if (!(event.key in steps)) return;
    const next = list[Math.min(list.length - 1, Math.max(0, at + steps[event.key]))];
    event.target.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
    event.preventDefault();
  });
}

// Shows a tip for what the pointer is on, or the focus.
function tipOn(node, lines) {
  node.addEventListener("pointermove", (event) => tip.show(event, lines()));
  node.addEventListener("pointerleave", tip.hide);
  node.addEventListener("focus", () => {
    const box = node.getBoundingClientRect();
    tip.show({ clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 }, lines());
    say(lines());
  });
  node.addEventListener("blur", tip.hide);
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (!document.getElementById("tip").hidden) tip.hide();
  else if (span.isPart()) span.reset();
});
