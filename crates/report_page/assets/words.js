// Formatting of numbers and texts for people.
const words = {
  count(value) {
    return Number(value).toLocaleString("en-US", { maximumFractionDigits: 0 });
  },

  // Formats a number with few digits: 1.23 k, 45.6 M.
  short(value) {
    const units = ["", " k", " M", " G", " T"];
    let unit = 0;
    let n = Number(value);
    while (Math.abs(n) >= 1000 && unit < units.length - 1) {
      n /= 1000;
      unit += 1;
    }
    return words.digits(n) + units[unit];
  },

  // Three digits, without zeros at their end: for axes and short numbers.
  digits(n) {
    const size = Math.abs(n);
    if (n === 0 || (Number.isInteger(n) && size < 1000)) return String(n);
    if (size >= 100) return n.toFixed(0);
    return String(Number(size >= 10 ? n.toFixed(1) : size >= 0.1 ? n.toFixed(2) : n.toPrecision(2)));
  },

  // Sizes, times and shares read as those that the commands print.
  bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    let n = Number(value);
    while (n >= 1024 && unit < units.length - 1) {
      n /= 1024;
      unit += 1;
    }
    return n.toFixed(unit === 0 ? 0 : 1) + " " + units[unit];
  },

  ns(value) {
    const n = Number(value);
    if (n < 1e3) return n.toFixed(0) + " ns";
    if (n < 1e6) return (n / 1e3).toFixed(1) + " us";
    if (n < 1e9) return (n / 1e6).toFixed(1) + " ms";
    return (n / 1e9).toFixed(3) + " s";
  },

  // Formats a time with enough digits for this step width, in a unit that fits the span.
  at(ns, stepNs, spanNs) {
    let [unit, size] = ["ns", 1];
    for (const [name, length] of [["us", 1e3], ["ms", 1e6], ["s", 1e9]]) {
      if (spanNs >= length) [unit, size] = [name, length];
    }
    const places = Math.ceil(-Math.log10(stepNs / size) - 1e-9);
    return (Number(ns) / size).toFixed(Math.max(0, Math.min(9, places))) + " " + unit;
  },

  // Cuts off the end of a long text.
  beginning(text, room) {
    return text.length > room ? text.slice(0, room - 1) + "…" : text;
  },

  // Cuts off the beginning of a long path.
  ending(text, room) {
    return text.length > room ? "…" + text.slice(text.length - room + 1) : text;
  },

  // Formats a change with its sign.
  change(value, show) {
    const n = Number(value);
    return (n > 0 ? "+" : n < 0 ? "−" : "") + show(Math.abs(n));
  },

  share(value) {
    const percent = Number(value) * 100;
    if (percent === 0) return "0%";
    if (percent > 0 && percent < 0.05) return "<0.1%";
    return percent.toFixed(1) + "%";
  },

  plural(n, one, many) {
    return words.count(n) + " " + (Number(n) === 1 ? one : many);
  },
};

// Returns the tick values of an axis: 1, 2 or 5 times a power of ten, or powers of two for bytes.
function niceTicks(from, to, wanted, binary) {
  const span = to - from;
  if (!(span > 0)) return [from];
  let step;
  if (binary) {
    step = Math.pow(2, Math.ceil(Math.log2(span / wanted)));
  } else {
    const unit = Math.pow(10, Math.floor(Math.log10(span / wanted)));
    step = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => span / size <= wanted);
  }
  const ticks = [];
  for (let n = Math.ceil(from / step); n * step <= to; n += 1) ticks.push(n * step);
  return ticks;
}
