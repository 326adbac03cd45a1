// File offsets of accesses over time.
function offsetPlot(data) {
  const { plots, files, interval_ns: interval } = data;
  const path = (plot) => files.rows[plot.row][files.rows[plot.row].length - 1];
  let chosen = 0;
  const note =
    "A mark for each read and write, from its offset upwards; many are drawn as density, the stronger, " +
    "the more. The " + words.plural(plots.length, "file", "files") + " with the most bytes can be chosen here, " +
    "in the table and in the treemap.";
  const it = picture("offsets", "Offsets in a file over time", plots.length ? note : null, () => {
    if (!plots.length) {
      empty(it.body, "No data of a file was read or written by calls. What is mapped into memory is moved without calls.");
      return {};
    }
    const plot = plots[chosen];
    if (!plane.frame.isConnected) it.body.replaceChildren(plane.frame, legendOf());
    plane.repaint();
    return { path: path(plot), reads: Number(plot.reads), writes: Number(plot.writes), shape: plot.dots ? "dots" : "density" };
  });
  const legendOf = () => element("div", {}, legend([["read", colour("read")], ["write", colour("write")]]));
  it.choose = (row) => {
    const place = plots.findIndex((plot) => plot.row === row);
    if (place < 0) return false;
    chosen = place;
    it.controls.querySelector("select").value = place;
    it.draw();
    return true;
  };
  if (plots.length) {
    it.controls.append(chooser("file", plots.map((plot) => words.ending(path(plot), 70)), 0, (place) => chooseFile(plots[place].row)));
  }

  const end = () => Math.max(1, Number(plots[chosen].end));
  const plane = timePlane(it, {
    unit: "offset",
    height: () => 240,
    rows(plane) {
      return niceTicks(0, end(), 6, true).map((offset) => [plane.height * (1 - offset / end()), words.bytes(offset)]);
    },
    paint(plane, context) {
      const plot = plots[chosen];
      const y = (offset) => plane.top + plane.height * (1 - offset / end());
      if (plot.dots) dots(plane, context, plot, y);
      else density(plane, context, plot, y);
    },
    tell(plane, ns, y) {
      const plot = plots[chosen];
      const offset = (1 - y / plane.height) * end();
      return plot.dots ? nearest(plane, plot, ns, y) : within(plot, ns, offset);
    },
  });

  function dots(plane, context, plot, y) {
    for (let at = 0; at < plot.dots.length; at += 4) {
      const [ns, offset, bytes, isWrite] = plot.dots.slice(at, at + 4).map(Number);
      if (ns < span.from || ns > span.to) continue;
      context.fillStyle = colour(isWrite ? "write" : "read");
      const top = y(offset + bytes);
      const tall = Math.max(3, y(offset) - top);
      context.fillRect(plane.x(ns) - 1.5, y(offset) - tall, 3, tall);
    }
  }

  function density(plane, context, plot, y) {
    const most = Math.max(...plot.columns.flatMap((pair) => (pair ? pair.map(highest) : [0])), 1);
    const [first, stop] = visibleSteps(interval, plot.columns.length);
    const tall = Math.max(1.5, (plane.height * Number(plot.row_bytes)) / end());
    for (let step = first; step < stop; step += 1) {
      const pair = plot.columns[step];
      if (!pair) continue;
      const [x, wide] = stepPixels(plane, step, interval);
      for (let row = 0; row < 64; row += 1) {
        const levels = pair.map((text) => level(text, row));
        const both = levels[0] > 0 && levels[1] > 0;
        levels.forEach((value, which) => {
          if (!value) return;
          context.globalAlpha = 0.25 + (0.75 * value) / most;
          context.fillStyle = colour(which ? "write" : "read");
          const part = both ? wide / 2 : wide;
          context.fillRect(x + (both && which ? part : 0), y(row * Number(plot.row_bytes)) - tall, part, tall);
        });
      }
    }
    context.globalAlpha = 1;
  }

  function nearest(plane, plot, ns, y) {
    let best = null;
    for (let at = 0; at < plot.dots.length; at += 4) {
      const [when, offset, bytes, isWrite] = plot.dots.slice(at, at + 4).map(Number);
      const middle = plane.height * (1 - (offset + bytes / 2) / end());
      const far = Math.hypot(plane.x(when) - plane.x(ns), Math.max(0, Math.abs(middle - y) - (plane.height * bytes) / end() / 2));
      if (far < 9 && (!best || far < best.far)) best = { far, when, offset, bytes, isWrite };
    }
    if (!best) return null;
    return [
      best.isWrite ? "write" : "read",
      ["offset", words.count(best.offset)],
      ["bytes", words.count(best.bytes)],
      ["at", words.at(best.when, 1e3, span.end)],
    ];
  }

  function within(plot, ns, offset) {
    const row = Math.floor(offset / Number(plot.row_bytes));
    const pair = plot.columns[Math.floor(ns / interval)];
    if (!pair) return null;
    const told = ["reads", "writes"].map((word, which) => [word, between(level(pair[which], row))]);
    if (told.every(([, text]) => text === "0")) return null;
    const from = row * Number(plot.row_bytes);
    return ["step of " + words.ns(interval), ...told, ["offsets", words.bytes(from) + " to " + words.bytes(from + Number(plot.row_bytes))]];
  }
  return it;
}

// Decodes a base-36 digit: 0 for none, else 1 plus the binary logarithm of a count.
function level(text, row) {
  return row < text.length ? parseInt(text[row], 36) : 0;
}

function highest(text) {
  return [...text].reduce((most, digit) => Math.max(most, parseInt(digit, 36)), 0);
}

function between(value) {
  if (value < 2) return String(value);
  return words.count(2 ** (value - 1)) + " to " + words.count(2 ** value - 1);
}
