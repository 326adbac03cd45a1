const pageSpan = span;

// Makes a canvas with a horizontal time axis. `spec` has the callbacks height(plane), left(plane),
// rows(plane): [position, text] of the vertical axis's marks, paint(plane, context), and
// tell(plane, ns, y): lines for the pointer's box, or nothing. `unit` names the vertical axis, `axis` is a
// time span of its own.
function timePlane(it, spec) {
  const span = spec.axis || pageSpan;
  const canvas = element("canvas", { role: "img", "aria-label": it.label });
  const hair = element("div", { class: "hair", hidden: true });
  const select = element("div", { class: "select", hidden: true });
  const frame = element("div", { class: "plane" }, canvas, hair, select);
  const plane = { it, frame, left: AXIS_LEFT, top: 8, bottom: 36, right: 12, width: 0, height: 0 };
  let dragFrom = null;

  plane.x = (ns) => plane.left + ((ns - span.from) / (span.to - span.from)) * plane.inner;
  plane.ns = (x) => span.from + ((x - plane.left) / plane.inner) * (span.to - span.from);
  plane.repaint = () => {
    plane.width = it.width;
    plane.left = spec.left ? spec.left(plane) : AXIS_LEFT;
    plane.inner = Math.max(10, plane.width - plane.left - plane.right);
    plane.height = spec.height(plane);
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(plane.width * ratio);
    canvas.height = Math.round((plane.top + plane.height + plane.bottom) * ratio);
    canvas.style.width = plane.width + "px";
    canvas.style.height = plane.top + plane.height + plane.bottom + "px";
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.save();
    context.beginPath();
    context.rect(plane.left, plane.top, plane.inner, plane.height);
    context.clip();
    spec.paint(plane, context);
    context.restore();
    axes(plane, context, spec);
  };

  const inside = (event) => {
    const box = frame.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top - plane.top];
    const held = Math.min(Math.max(x, plane.left), plane.left + plane.inner);
    return { x: held, y, hit: x === held && y >= 0 && y < plane.height };
  };
  frame.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && inside(event).hit) dragFrom = inside(event).x;
  });
  frame.addEventListener("pointermove", (event) => {
    const { x, y, hit } = inside(event);
    if (dragFrom !== null) {
      select.hidden = false;
      select.style.left = Math.min(x, dragFrom) + "px";
      select.style.width = Math.abs(x - dragFrom) + "px";
      select.style.top = plane.top + "px";
      select.style.height = plane.height + "px";
    }
    const lines = hit ? spec.tell(plane, plane.ns(x), y) : null;
    if (lines) tip.show(event, lines);
    else tip.hide();
    span.point(hit ? plane.ns(x) : null, plane);
  });
  frame.addEventListener("pointerleave", () => {
    tip.hide();
    span.point(null, plane);
  });
  window.addEventListener("pointerup", (event) => {
    if (dragFrom === null) return;
    const [from, to] = [dragFrom, inside(event).x].sort((a, b) => a - b);
    dragFrom = null;
    select.hidden = true;
    if (to - from > 4) span.set(plane.ns(from), plane.ns(to));
  });
  frame.addEventListener("dblclick", span.reset);
  timeKeys(frame, {
    label: it.label,
    span,
    step: spec.step,
    height: () => plane.height,
    look: (ns, y) => plane.inner && spec.tell(plane, ns, y),
    place(ns, y) {
      const box = frame.getBoundingClientRect();
      return { clientX: box.x + plane.x(ns), clientY: box.y + plane.top + y };
    },
    select(from, to) {
      select.hidden = from === null;
      if (from === null) return;
      const [left, right] = [plane.x(from), plane.x(to)].sort((a, b) => a - b);
      Object.assign(select.style, { left: left + "px", width: right - left + "px", top: plane.top + "px", height: plane.height + "px" });
    },
  });
  span.watchers.push(() => plane.width && frame.isConnected && plane.repaint());
  span.pointers.push({
    origin: plane,
    move(ns) {
      hair.hidden = ns === null || ns < span.from || ns > span.to;
      hair.style.left = plane.x(ns) + "px";
      hair.style.top = plane.top + "px";
      hair.style.height = plane.height + "px";
    },
  });
  return plane;
}

const FONT = "11px system-ui, sans-serif";

// Draws the axes of a plane.
function axes(plane, context, spec) {
  const { left, top, inner, height } = plane;
  context.font = FONT;
  context.strokeStyle = colour("line");
  context.fillStyle = colour("soft");
  context.lineWidth = 1;
  context.strokeRect(left + 0.5, top + 0.5, inner - 1, height - 1);
  context.textAlign = "center";
  context.textBaseline = "top";
  const axis = spec.axis || span;
  const ticks = timeTicks(plane.inner, axis);
  for (const ns of ticks) {
    const x = Math.round(plane.x(ns)) + 0.5;
    context.beginPath();
    context.moveTo(x, top + height);
    context.lineTo(x, top + height + 4);
    context.stroke();
    const text = words.at(ns, ticks[1] - ticks[0], axis.end);
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(x, half), plane.width - half), top + height + 6);
  }
  context.fillText("time from the start", left + inner / 2, top + height + 21);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const [y, text] of spec.rows(plane)) {
    context.fillText(text, left - 7, Math.min(Math.max(top + y, top + 5), top + height - 4));
  }
  if (spec.unit) {
    context.save();
    context.translate(9, top + height / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(spec.unit, 0, 0);
    context.restore();
  }
}

// Returns left edge and width of a time step in whole pixels, at least one wide.
function stepPixels(plane, step, interval) {
  const [from, to] = [step * interval, Math.min((step + 1) * interval, span.end)].map((ns) => Math.round(plane.x(ns)));
  return [from, Math.max(1, to - from)];
}

// Returns the range of visible steps.
function visibleSteps(interval, count) {
  const first = Math.max(0, Math.floor(span.from / interval));
  return [first, Math.min(count, Math.ceil(span.to / interval))];
}
