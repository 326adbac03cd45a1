// Ranges in detail: the flow of control of each thread through process, kernel and interrupts, as the
// Linux Trace Toolkit drew it, and the events.
const LEVELS = { own: 0, call: 1, fault: 1, interrupted: 2 };
const LEVEL_WORDS = ["process", "kernel", "interrupt"];

function detailParts(data) {
  const { kernel } = data;
  const { details } = kernel;
  const axis = timeSpan();
  let chosen = 0;
  const LINE = 42;
  const LINES = 24;
  const GAP = 11;
  const ARROWS = 200;
  const it = picture(
    "flow",
    "In detail",
    "Who ran where, from process to kernel to interrupt and back: the upper level of a line is the process, the middle " +
      "one the kernel on its behalf, the lowest one interrupts; thin bars are waits, coloured by what for. Arrows: who woke whom. Drag to zoom, double-click to see all.",
    () => {
      if (!details.length) {
        empty(it.body, "There is no wait to show; reenact report --detail FROM..TO shows any range of time.");
        return { details: 0 };
      }
      const detail = details[chosen];
      const lines = shownLines(detail);
      const parts = detail.explained ? [element("p", { class: "about" }, "= " + detail.explained)] : [];
      if (lines.length) parts.push(plane.frame, legend(used(detail)));
      else parts.push(element("p", { class: "empty" }, "The trace has no switch of a thread here."));
      it.body.replaceChildren(...parts, ...leftOut(detail));
      if (lines.length) plane.repaint();
      return { details: details.length, flows: detail.flows.length, lines: lines.length, chosen };
    }
  );

  function used(detail) {
    const doings = [...new Set(detail.flows.map((flow) => flow[1]))].sort((a, b) => a - b);
    return doings.map((doing) => [kernel.doings[doing][1], doingColour(kernel, doing)]);
  }

  function leftOut(detail) {
    const parts = [];
    const [flows, rows] = [Number(detail.flows_left_out[0]), Number(detail.rows_left_out[0])];
    if (flows + rows > 0) {
      parts.push(
        words.plural(rows, "event", "events") + " and " + words.plural(flows, "stretch", "stretches") +
          " in the middle of this range are not in this page. All events:"
      );
    } else {
      parts.push("The same as text:");
    }
    return [element("p", { class: "about" }, parts.join(" ")), element("pre", { class: "commands" }, detail.command)];
  }

  // Lines of a detail, in order: the thread that waits, then those that ran longest.
  const orders = new Map();
  function shownLines(detail) {
    if (!orders.has(detail)) {
      const ran = detail.lines.map(() => 0);
      for (const [line, doing, , ns] of detail.flows) if (kernel.doings[doing][0] in LEVELS) ran[line] += Number(ns);
      const first = (line) => (detail.tid !== null && detail.lines[line].tid === detail.tid ? 1 : 0);
      const order = detail.lines.map((_, line) => line).sort((a, b) => first(b) - first(a) || ran[b] - ran[a]);
      orders.set(detail, order.slice(0, LINES));
    }
    return orders.get(detail);
  }

  const detailOf = () => details[chosen];
  const start = (flow) => Number(detailOf().from_ns) + Number(flow[2]);
  const end = (flow) => start(flow) + Number(flow[3]);
  const plane = timePlane(it, {
    axis,
    left: (plane) => Math.min(220, Math.max(96, plane.width * 0.18)),
    height: () => shownLines(detailOf()).length * LINE + 2,
    rows(plane) {
      const room = Math.floor((plane.left - 14) / 6.7);
      return shownLines(detailOf()).map((line, index) => {
        const { tid, name } = detailOf().lines[line];
        return [index * LINE + LINE / 2, words.beginning((tid === null ? "" : tid + " ") + name, room)];
      });
    },
    paint(plane, context) {
      const place = new Map(shownLines(detailOf()).map((line, index) => [line, index]));
      context.strokeStyle = colour("line");
      for (const index of place.values()) {
        const y = plane.top + (index + 1) * LINE + 0.5;
        context.fillStyle = colour("line");
        context.fillRect(plane.left, y, plane.inner, 1);
      }
      const last = new Map();
      const flows = detailOf().flows.filter((flow) => place.has(flow[0])).sort((a, b) => a[2] - b[2]);
      for (const flow of flows) {
        const top = plane.top + place.get(flow[0]) * LINE;
        const [from, to] = [start(flow), end(flow)];
        const level = LEVELS[kernel.doings[flow[1]][0]];
        const before = last.get(flow[0]);
        last.set(flow[0], { to, level });
        if (to < axis.from || from > axis.to) continue;
        const [x, right] = [plane.x(from), plane.x(to)];
        context.fillStyle = doingColour(kernel, flow[1]);
        if (level === undefined) {
          context.fillRect(x, top + LINE / 2 - 1, Math.max(1, right - x), 4);
          continue;
        }
        const y = top + 6 + level * GAP;
        context.fillRect(x, y, Math.max(1, right - x), 5);
        // From level to level, and from where the thread waited.
        if (before && Math.abs(before.to - from) < 2 && before.level !== level) {
          const other = before.level === undefined ? top + LINE / 2 - 1 : top + 6 + before.level * GAP;
          context.fillRect(x, Math.min(y, other), 1, Math.abs(y - other) + 4);
        }
      }
      arrows(plane, context, place);
    },
    tell(plane, ns, y) {
      const index = Math.floor((y - 1) / LINE);
      const line = shownLines(detailOf())[index];
      if (line === undefined) return null;
      const { tid, pid, name } = detailOf().lines[line];
      const near = (plane.ns(1) - plane.ns(0)) * 2;
      const found = detailOf().flows.filter((flow) => flow[0] === line && start(flow) <= ns + near && end(flow) >= ns - near);
      const flow = found.sort((a, b) => Math.abs((start(a) + end(a)) / 2 - ns) - Math.abs((start(b) + end(b)) / 2 - ns))[0];
      const who = tid === null ? name : (pid === null ? "" : "process " + pid + ", ") + "thread " + tid + " " + name;
      if (!flow) return [who, ["at", words.at(ns, 1000, axis.end)]];
      const level = LEVELS[kernel.doings[flow[1]][0]];
      return [
        who,
        [kernel.doings[flow[1]][1], words.ns(flow[3])],
        ...(level === undefined ? [] : [["level", LEVEL_WORDS[level]]]),
        ["from", words.at(start(flow), 1000, axis.end)],
        ["on", "cpu" + flow[4]],
        ...(flow[5] ? [["call", detailOf().calls[flow[5] - 1]]] : []),
        ...(flow[6] ? [["ended by", String(flow[6])]] : []),
      ];
    },
  });

  function arrows(plane, context, place) {
    const numbers = new Map(detailOf().lines.map((line, at) => [line.tid, at]));
    let count = 0;
    for (const flow of detailOf().flows) {
      const isWait = /disk|peer|lock|child|asleep/.test(kernel.doings[flow[1]][0]);
      const [by, at] = [place.get(numbers.get(flow[6])), end(flow)];
      if (!isWait || by === undefined || !place.has(flow[0]) || at < axis.from || at >= Number(detailOf().to_ns)) continue;
      if ((count += 1) > ARROWS) return;
      const middle = (index) => plane.top + index * LINE + LINE / 2 + 1;
      const to = place.get(flow[0]);
      if (by !== to) arrow(context, plane.x(at), middle(by), middle(to) + (by < to ? -4 : 4));
    }
  }

  const select = chooser("range", details.map((detail, at) => (at < Number(kernel.asked) ? "" : at + 1 - Number(kernel.asked) + ". ") + detail.title), 0, (at) => choose(at));
  if (details.length > 1) it.controls.append(select);
  const list = element("div", {});
  const tables = details.map((detail, at) => at === 0 && eventTable(detail));

  function choose(at) {
    if (!details[at]) return false;
    chosen = at;
    select.querySelector("select").value = at;
    axis.begin(Number(details[at].to_ns), Number(details[at].from_ns));
    tables[at] ||= eventTable(details[at]);
    list.replaceChildren(tables[at].box);
    it.draw();
    tables[at].draw();
    return true;
  }

  function eventTable(detail) {
    const columns = [["at_ns", "at", "exact"], ["cpu", "cpu", "id"], ["thread", "thread", "word"], ["event", "event", "word"], ["took_ns", "took", "ns"], ["text", "what", "text"]];
    const table = {
      columns: columns.map(([key, title, kind]) => ({ key, title, kind })),
      rows: detail.rows,
      left_out: detail.rows_left_out[0],
    };
    return dataTable("events", "Events of this range", null, table, { rows: 25, nothing: "Nothing is recorded here." });
  }
  if (details.length) {
    axis.begin(Number(details[0].to_ns), Number(details[0].from_ns));
    list.append(tables[0].box);
  }
  return { its: [it, { box: list }], choose };
}
