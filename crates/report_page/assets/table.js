// Makes a searchable, sortable table. `data` has columns with kinds, rows, and rows left out.
// `spec` has hidden columns, the number of rows shown at first, a handler for clicks on rows, a filter
// of rows, and `within`: the rows of the visible part of the time.
function dataTable(name, title, about, data, spec) {
  const ROWS_SHOWN = spec.rows || 15;
  const shown = data.columns
    .map((column, at) => ({ ...column, at }))
    .sort((a, b) => (b.key === spec.first) - (a.key === spec.first))
    .filter((column) => !(spec.hidden || []).includes(column.key))
    .filter((column) => isText(column.kind) || data.rows.some((row) => Number(row[column.at]) !== 0));
  let [sortAt, down, query, all] = [null, true, "", false];

  const it = picture(name, title, about, () => {
    if (!data.rows.length) {
      empty(it.body, spec.nothing);
      it.controls.hidden = true;
      return { rows: 0 };
    }
    const part = span.isPart() && spec.within ? spec.within() : null;
    const rows = part ? part.rows : data.rows.map((row, index) => ({ row, index }));
    const found = sorted(rows.filter(({ row }) => fits(row)));
    last = found;
    const visible = all ? found : found.slice(0, ROWS_SHOWN);
    const scroll = element("div", { class: "scroll" }, element("table", { class: "data" }, head(), element("tbody", {}, visible.map(line), foot())));
    const left = it.body.querySelector(".scroll")?.scrollLeft || 0;
    it.body.replaceChildren(...(part ? [element("p", { class: "within" }, told(part))] : []), scroll, more(found.length, visible.length));
    scroll.scrollLeft = left;
    rove(scroll.querySelector("tbody"), "tr[data-row]");
    return { rows: data.rows.length, found: found.length, within: part ? bounds(part) : undefined };
  });
  let last = [];
  if (spec.within) span.watchers.push(() => it.width && it.draw());

  // The time that rows are of: from the first nanosecond to behind the last one.
  function bounds(part) {
    return part.bounds || [part.steps[0] * part.interval, Math.min(part.steps[1] * part.interval, span.end)];
  }

  function told(part) {
    if (part.bounds) return "What was there from " + part.bounds.map((ns) => words.at(ns, (span.to - span.from) / 100, span.end)).join(" to ") + "; the numbers are of all of its time.";
    return ["What began from " + range.told(part.steps, part.interval) + ".", part.note].filter(Boolean).join(" ");
  }

  const search = element("input", {
    type: "search",
    placeholder: "search",
    "aria-label": "search in " + name,
    oninput: () => find(search.value),
  });
  const asText = element("button", { type: "button", class: "copy", "aria-label": "copy the rows of " + name + " as CSV", onclick: () => copy(csv(), asText) }, "copy CSV");
  it.controls.append(search, asText);
  address.on("find." + name, (text) => find((search.value = text || "")));

  function find(text) {
    query = text.toLowerCase();
    address.put("find." + name, text);
    it.draw();
  }

  // The rows that fit, in their order, with plain numbers.
  function csv() {
    const cell = (value) => (/[",\n]/.test(value) ? '"' + value.replaceAll('"', '""') + '"' : value);
    const rows = last.map(({ row }) => shown.map((column) => (isText(column.kind) ? text(column, row[column.at]) : String(row[column.at] ?? ""))));
    return [shown.map((column) => column.key), ...rows].map((row) => row.map(cell).join(",") + "\n").join("");
  }

  function fits(row) {
    if (spec.fits && !spec.fits(row)) return false;
    return !query || shown.some((column) => isText(column.kind) && text(column, row[column.at]).toLowerCase().includes(query));
  }

  function sorted(entries) {
    if (sortAt === null) return entries;
    const column = data.columns[sortAt];
    // The greatest changes come first, in either direction.
    const size = (raw) => (column.kind.endsWith("_change") ? Math.abs(Number(raw)) : Number(raw ?? -1));
    const value = ({ row }) => (isText(column.kind) ? text(column, row[sortAt]) : size(row[sortAt]));
    const order = (a, b) => (isText(column.kind) ? value(a).localeCompare(value(b)) : value(b) - value(a));
    return [...entries].sort((a, b) => (down ? order(a, b) : order(b, a)));
  }

  function head() {
    const cell = (column) => {
      const mark = sortAt === column.at ? (down ? " ▾" : " ▴") : "";
      const sort = () => {
        [sortAt, down] = [column.at, sortAt === column.at ? !down : true];
        it.draw();
      };
      const kind = isText(column.kind) ? undefined : "number";
      const button = element("button", { type: "button", onclick: sort }, (TITLES[column.key] || column.title) + mark);
      const order = sortAt === column.at ? (down ? "descending" : "ascending") : undefined;
      return element("th", { class: kind, "data-key": column.key, scope: "col", "aria-sort": order }, button);
    };
    return element("thead", {}, element("tr", {}, shown.map(cell)));
  }

  function line({ row, index }) {
    const click = spec.choose && (() => spec.choose(row, index));
    const enter = (event) => {
      if (event.target.tagName !== "TR" || (event.key !== "Enter" && event.key !== " ")) return;
      event.preventDefault();
      if (click) click();
      else event.target.querySelector("button.copy")?.click();
    };
    return element(
      "tr",
      { "data-row": index, tabindex: "-1", class: click ? "clickable" : undefined, onclick: click, onkeydown: enter },
      shown.map((column) => value(column, row[column.at]))
    );
  }

  function value(column, raw) {
    const plain = Array.isArray(raw) ? JSON.stringify(raw) : raw;
    if (column.key === "command" && raw && spec.pastes) return element("td", { class: "word", "data-value": plain }, command(raw));
    if (isText(column.kind)) {
      const all = text(column, raw);
      const wide = column.kind === "text" ? 3 : 1;
      const room = wide * (it.width < 600 ? NAME_ROOM / 2 : NAME_ROOM);
      const shown = column.kind === "name" ? words.ending(all, room) : words.beginning(all, room + 10);
      const cell = element("td", { class: column.kind, "data-value": plain, title: shown === all ? undefined : all }, shown);
      if (column.kind === "branch") cell.style.paddingLeft = 8 + 14 * Math.min(12, raw[0]) + "px";
      return cell;
    }
    const shownNumber = number(column, raw);
    return element("td", { class: shownNumber === "0" ? "number zero" : "number", "data-value": plain }, shownNumber);
  }

  function number(column, raw) {
    // Nothing looks different from 0.
    if (raw === null || raw === undefined) return "";
    if (Number(raw) === 0 && column.kind !== "at" && column.kind !== "exact" && column.kind !== "id") return "0";
    const show = { bytes: words.bytes, ns: words.ns, share: words.share, number: words.short }[column.kind];
    const change = { count_change: words.count, bytes_change: words.bytes, ns_change: words.ns, share_change: words.share }[column.kind];
    if (change) return words.change(raw, change);
    if (column.kind === "id") return String(raw);
    if (column.kind === "exact") return words.at(raw, 1, span.end);
    if (column.kind === "at") return words.at(raw, 1e6, span.end);
    return (show || words.count)(raw);
  }

  function text(column, raw) {
    if (raw === null || raw === undefined) return "";
    if (column.kind === "branch") return raw[1] || "(as its parent)";
    if (column.kind === "counts") return raw.map(([word, count]) => word + " " + words.count(count)).join(", ");
    return String(raw);
  }

  // Makes the row that sums up all rows left out.
  function foot() {
    if (!data.others || query || (span.isPart() && spec.within)) return null;
    const label = words.plural(data.others_count, "other file", "other files");
    const cells = shown.map((column) => (isText(column.kind) ? element("td", { class: "name" }, label) : value(column, data.others[column.at])));
    return element("tr", { class: "others" }, cells);
  }

  function more(found, visible) {
    const parts = [];
    if (query) parts.push(words.plural(found, "row fits. ", "rows fit. "));
    if (Number(data.left_out) > 0 && !data.others && !spec.fits) parts.push(words.count(data.left_out) + " more are not in this page. ");
    const button = element("button", { type: "button", class: "link", onclick: () => ((all = !all), it.draw()) });
    if (found > visible) button.append("show all " + words.count(found));
    else if (all && found > ROWS_SHOWN) button.append("show fewer");
    else return element("p", { class: "more" }, parts);
    return element("p", { class: "more" }, parts, button);
  }
  return it;
}

// Maximum length of a name in a table; the full name is in the tooltip.
const NAME_ROOM = 52;

// Titles of columns that `stat` prints only as CSV and JSON.
const TITLES = { p999_ns: "p99.9" };

function isText(kind) {
  return ["name", "word", "text", "branch", "counts"].includes(kind);
}
