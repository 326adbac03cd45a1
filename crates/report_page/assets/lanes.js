// Activity of threads: a lane per thread, from its first to its last event.
function laneChart(data) {
  const { threads, left_out: leftOut } = data.lanes;
  const interval = data.interval_ns;
  const absent = leftOut > 0 ? " The " + words.count(leftOut) + " threads with the fewest calls are left out." : "";
  const FIRST = 24;
  const busiest = [...threads].sort((a, b) => Number(b.calls) - Number(a.calls)).slice(0, FIRST);
  let shown = threads.filter((thread) => busiest.includes(thread));
  const [LANE, WAIT_TALL] = [18, 4];
  const it = picture(
    "lanes",
    null,
    "A line per thread, pale while it lives. Work in calls fills it, coloured by kind; waits (for pipes, sockets, children, locks, time) are the thin line below, so an empty line is one that computes. Steps of " +
      words.ns(interval) + "." + absent,
    () => {
      if (!threads.length) {
        empty(it.body, "No threads were recorded.");
        return { threads: 0 };
      }
      const entries = data.time.groups.map((group) => [group.title, colour(group.key)]);
      it.body.replaceChildren(plane.frame, legend(entries), more());
      plane.repaint();
      return { shown: shown.length, threads: threads.length, calls: threads.reduce((sum, thread) => sum + Number(thread.calls), 0) };
    }
  );

  function more() {
    if (threads.length <= FIRST) return "";
    const isAll = shown.length === threads.length;
    const change = () => {
      shown = isAll ? threads.filter((thread) => busiest.includes(thread)) : threads;
      it.draw();
    };
    const text = isAll ? "show only the " + FIRST + " with the most calls" : "show all " + words.count(threads.length) + " lanes";
    return element("p", { class: "more" }, element("button", { type: "button", class: "link", onclick: change }, text));
  }

  function label(thread, index) {
    const isFirst = index === 0 || shown[index - 1].pid !== thread.pid;
    const command = thread.command.split(" ")[0].split("/").pop() || "";
    return isFirst ? thread.pid + " " + command : "thread " + thread.tid;
  }

  const plane = timePlane(it, {
    step: LANE,
    left: (plane) => Math.min(190, Math.max(96, plane.width * 0.16)),
    height: () => shown.length * LANE + 2,
    rows(plane) {
      const room = Math.floor((plane.left - 12) / 6);
      return shown.map((thread, index) => [index * LANE + LANE / 2 + 1, words.beginning(label(thread, index), room)]);
    },
    paint(plane, context) {
      shown.forEach((thread, index) => {
        const y = plane.top + 1 + index * LANE;
        const start = Number(thread.start_ns);
        context.fillStyle = colour("alive");
        context.fillRect(plane.x(start), y + 1, Math.max(1, plane.x(start + Number(thread.life_ns)) - plane.x(start)), LANE - 2);
        busy(plane, context, thread, y);
        if (index > 0 && shown[index - 1].pid !== thread.pid) {
          context.fillStyle = colour("line");
          context.fillRect(plane.left, y - 0.5, plane.inner, 1);
        }
      });
    },
    tell(plane, ns, y) {
      const thread = shown[Math.floor((y - 1) / LANE)];
      if (!thread) return null;
      const parts = partsAt(thread, Math.floor(ns / interval));
      return [
        "process " + thread.pid + ", thread " + thread.tid,
        thread.command ? ["command", thread.command.slice(0, 60)] : ["command", "as its parent"],
        ["life", words.ns(thread.life_ns)],
        ["calls", words.count(thread.calls)],
        ["time in calls", words.ns(thread.in_calls_ns)],
        ...(Number(thread.stall_ns) > 0 ? [["held up by the recorder", words.ns(thread.stall_ns)]] : []),
        ...parts.map(([group, share]) => ["here " + data.time.groups[group].title, words.share(share / 1000)]),
      ];
    },
  });

  function partsAt(thread, step) {
    const pairs = (thread.busy || [])[step - (thread.first || 0)] || [];
    const parts = [];
    for (let at = 0; at < pairs.length; at += 2) parts.push([pairs[at], pairs[at + 1]]);
    return parts;
  }

  function busy(plane, context, thread, y) {
    const first = thread.first || 0;
    const [from, to] = visibleSteps(interval, first + (thread.busy || []).length);
    for (let step = Math.max(from, first); step < to; step += 1) {
      const [x, wide] = stepPixels(plane, step, interval);
      let bottom = y + LANE - 1 - WAIT_TALL;
      for (const [group, share] of partsAt(thread, step)) {
        if (GROUP_KEYS[group] === "wait") {
          context.globalAlpha = 0.35 + (0.65 * share) / 1000;
          context.fillStyle = groupColour(group);
          context.fillRect(x, y + LANE - 1 - WAIT_TALL, wide, WAIT_TALL);
          context.globalAlpha = 1;
          continue;
        }
        const tall = Math.min(bottom - y - 1, ((LANE - 2 - WAIT_TALL) * share) / 1000);
        context.fillStyle = groupColour(group);
        context.fillRect(x, bottom - tall, wide, tall);
        bottom -= tall;
      }
    }
  }
  return it;
}
