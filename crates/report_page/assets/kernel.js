// What threads and CPUs did, by the kernel's events.
function doingColour(kernel, doing) {
  return colour("s-" + kernel.doings[doing][0]);
}

function kernelParts(data) {
  const { kernel } = data;
  const detail = detailParts(data);
  const chosen = (row) => {
    if (detail.choose(row)) detail.its[0].box.scrollIntoView({ block: "nearest" });
  };
  if (!kernel.threads) return detail.its;
  kernel.waits.columns.filter((column) => column.key === "explained").forEach((column) => (column.kind = "text"));
  const waits = dataTable("waits", "The longest waits", "What their time went to; a click on one of the first ten shows it in detail below.", kernel.waits, {
    rows: 10, nothing: "No thread waited for anything.", choose: (row, index) => chosen(index + Number(kernel.asked)),
  });
  return [stateLanes(data), cpuLanes(data), waits, ...detail.its];
}

// The lanes of threads, with arrows from who woke to who was woken.
function stateLanes(data) {
  const { kernel } = data;
  const { threads, wakeups, left_out: leftOut } = kernel;
  const interval = Number(kernel.interval_ns);
  const FIRST = 24;
  const LANE = 16;
  const ARROWS = 120;
  const active = (thread) => thread.times_ns.reduce((sum, ns, doing) => sum + (kernel.doings[doing][0] === "asleep" ? 0 : Number(ns)), 0);
  const busiest = [...threads].sort((a, b) => b.is_followed - a.is_followed || active(b) - active(a)).slice(0, FIRST);
  let shown = threads.filter((thread) => busiest.includes(thread));
  const absent = Number(leftOut) > 0 ? " " + words.count(leftOut) + " threads are left out; reenact stat cpu has them all." : "";
  const it = picture(
    "states",
    "Threads",
    "What each thread did, or what it waited for, in steps of " + words.ns(interval) +
      "; arrows go from who ended a long wait to who was woken, the longest waits in sight." + absent,
    () => {
      if (!threads.length) {
        empty(it.body, "No thread is known.");
        return { threads: 0 };
      }
      const used = kernel.doings.map((doing, at) => [doing, at]).filter(([, at]) => threads.some((thread) => Number(thread.times_ns[at]) > 0));
      it.body.replaceChildren(plane.frame, legend(used.map(([[, title], at]) => [title, doingColour(kernel, at)])), more());
      plane.repaint();
      const sum = (at) => threads.reduce((all, thread) => all + Number(thread.times_ns[at]), 0);
      return { threads: threads.length, shown: shown.length, wakeups: wakeups.length, times: Object.fromEntries(kernel.doings.map(([key], at) => [key, sum(at)])) };
    }
  );

  function more() {
    if (threads.length <= FIRST) return "";
    const isAll = shown.length === threads.length;
    const change = () => {
      shown = isAll ? threads.filter((thread) => busiest.includes(thread)) : threads;
      it.draw();
    };
    const text = isAll ? "show only " + FIRST : "show all " + words.count(threads.length) + " lanes";
    return element("p", { class: "more" }, element("button", { type: "button", class: "link", onclick: change }, text));
  }

  const partsAt = (thread, step) => pairs(thread.steps[step - thread.first]);
  const plane = timePlane(it, {
    left: (plane) => Math.min(190, Math.max(96, plane.width * 0.16)),
    height: () => shown.length * LANE + 2,
    rows(plane) {
      const room = Math.floor((plane.left - 14) / 6.7);
      return shown.map((thread, index) => [index * LANE + LANE / 2 + 1, words.beginning(thread.tid + " " + thread.name, room)]);
    },
    paint(plane, context) {
      shown.forEach((thread, index) => {
        const y = plane.top + 1 + index * LANE;
        const [from, to] = visibleSteps(interval, thread.first + thread.steps.length);
        for (let step = Math.max(from, thread.first); step < to; step += 1) {
          const [x, wide] = stepPixels(plane, step, interval);
          const parts = partsAt(thread, step);
          const all = Math.max(1, parts.reduce((sum, [, share]) => sum + share, 0));
          let top = y + 1;
          for (const [doing, share] of parts) {
            const tall = ((LANE - 2) * share) / all;
            context.fillStyle = doingColour(kernel, doing);
            context.fillRect(x, top, wide, tall);
            top += tall;
          }
        }
      });
      arrows(plane, context);
    },
    tell(plane, ns, y) {
      const thread = shown[Math.floor((y - 1) / LANE)];
      if (!thread) return null;
      return [
        (thread.pid === null ? "" : "process " + thread.pid + ", ") + "thread " + thread.tid,
        ["name", thread.name],
        ["life", words.ns(thread.life_ns)],
        ...partsAt(thread, Math.floor(ns / interval)).map(([doing, share]) => ["here " + kernel.doings[doing][1], words.share(share / 1000)]),
      ];
    },
  });

  // Those that ended the longest waits come first.
  function arrows(plane, context) {
    const place = new Map(shown.map((thread, index) => [threads.indexOf(thread), index]));
    const seen = wakeups
      .map(([by, task, at]) => [place.get(by), place.get(task), Number(at)])
      .filter(([by, task, at]) => by !== undefined && task !== undefined && by !== task && at >= span.from && at <= span.to)
      .slice(0, ARROWS);
    for (const [by, task, at] of seen) {
      const middle = (lane) => plane.top + 1 + lane * LANE + LANE / 2;
      arrow(context, plane.x(at), middle(by), middle(task) + (by < task ? -4 : 4));
    }
  }
  return it;
}

function pairs(list) {
  const found = [];
  for (let at = 0; at + 1 < (list || []).length; at += 2) found.push([list[at], list[at + 1]]);
  return found;
}

// A vertical arrow.
function arrow(context, x, from, to) {
  const down = to > from ? 1 : -1;
  context.strokeStyle = context.fillStyle = colour("arrow");
  context.lineWidth = 1;
  context.globalAlpha = 0.75;
  context.beginPath();
  context.moveTo(x, from);
  context.lineTo(x, to - 4 * down);
  context.stroke();
  context.beginPath();
  context.moveTo(x, to);
  context.lineTo(x - 2.5, to - 5 * down);
  context.lineTo(x + 2.5, to - 5 * down);
  context.fill();
  context.globalAlpha = 1;
}

const CPU_PARTS = [["user", "s-own", "programs"], ["kernel", "s-call", "the kernel: calls, faults, its threads"], ["irq", "s-interrupted", "interrupts"], ["softirq", "s-softirq", "softirqs"]];

function cpuLanes(data) {
  const { kernel } = data;
  const interval = Number(kernel.interval_ns);
  const LANE = 30;
  const names = new Map(kernel.threads.map((thread) => [thread.tid, thread.name]));
  const whose = kernel.is_whole ? "" : " Only what was recorded: others may have run where nothing is drawn (--system records them).";
  const it = picture("cpus", "CPUs", "How much of each step of " + words.ns(interval) + " each CPU was busy, and with what." + whose, () => {
    if (!kernel.cpus.length) {
      empty(it.body, "No CPU is known.");
      return { cpus: 0 };
    }
    it.body.replaceChildren(plane.frame, legend(CPU_PARTS.map(([, hue, title]) => [title, colour(hue)])));
    plane.repaint();
    return { cpus: kernel.cpus.length };
  });
  const plane = timePlane(it, {
    left: (plane) => Math.min(190, Math.max(96, plane.width * 0.16)),
    height: () => kernel.cpus.length * LANE + 2,
    rows: () => kernel.cpus.map((lane, index) => [index * LANE + LANE / 2 + 1, "cpu" + lane.cpu]),
    paint(plane, context) {
      kernel.cpus.forEach((lane, index) => {
        const bottom = plane.top + (index + 1) * LANE;
        const [from, to] = visibleSteps(interval, lane.steps.length);
        for (let step = from; step < to; step += 1) {
          const [x, wide] = stepPixels(plane, step, interval);
          let y = bottom;
          CPU_PARTS.forEach(([, hue], part) => {
            const tall = Math.min(y - bottom + LANE - 2, ((LANE - 2) * (lane.steps[step][part] || 0)) / 1000);
            context.fillStyle = colour(hue);
            context.fillRect(x, y - tall, wide, tall);
            y -= tall;
          });
        }
        context.fillStyle = colour("line");
        context.fillRect(plane.left, bottom, plane.inner, 1);
      });
    },
    tell(plane, ns, y) {
      const lane = kernel.cpus[Math.floor((y - 1) / LANE)];
      if (!lane) return null;
      const step = lane.steps[Math.floor(ns / interval)] || [0, 0, 0, 0, 0];
      const most = step[4];
      return [
        "cpu" + lane.cpu,
        ...CPU_PARTS.map(([, , title], part) => [title, words.share((step[part] || 0) / 1000)]),
        ...(most ? [["mostly", most + " " + (names.get(most) || "")]] : []),
      ];
    },
  });
  return it;
}
