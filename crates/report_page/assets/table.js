// Makes a searchable, sortable table. `data` has columns with kinds, rows, and rows left out.
// `spec` has hidden columns, the number of rows shown at first, and a handler for clicks on rows.
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
    const found = sorted(data.rows.map((row, index) => ({ row, index })).filter(({ row }) => fits(row)));
    const visible = all ? found : found.slice(0, ROWS_SHOWN);
    const scroll = element("div", { class: "scroll" }, element("table", { class: "data" }, head(), element("tbody", {}, visible.map(line), foot())));
    const left = it.body.querySelector(".scroll")?.scrollLeft || 0;
    it.body.replaceChildren(scroll, more(found.length, visible.length));
    scroll.scrollLeft = left;
    return { rows: data.rows.length, found: found.length };
  });

  it.controls.append(
    element("input", {
      type: "search",
      placeholder: "search",
      "aria-label": "search in " + name,
      oninput: (event) => ((query = event.target.value.toLowerCase()), it.draw()),
    })
  );

  function fits(row) {
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
      return element("th", { class: kind, "data-key": column.key, scope: "col" }, button);
    };
    return element("thead", {}, element("tr", {}, shown.map(cell)));
  }

  function line({ row, index }) {
    const click = spec.choose && (() => spec.choose(row, index));
    return element(
      "tr",
      { "data-row": index, class: click ? "clickable" : undefined, onclick: click },
      shown.map((column) => value(column, row[column.at]))
    );
  }

  function value(column, raw) {
    const plain = Array.isArray(raw) ? JSON.stringify(raw) : raw;
    if (isText(column.kind)) {
      const all = text(column, raw);
      const wide = column.kind === "text" ? 3 : 1;
      const room = wide * (it.width < 600 ? NAME_ROOM / 2 : NAME_ROOM);
      const shown = column.kind === "name" ? words.ending(all, room) : words.beginning(all, room + 10);
      const cell = element("td", { class: column.kind, "data-value": plain, title: shown === all ? undefined : all }, shown);
      if (column.kind === "branch") cell.style.paddingLeft = 8 + 14 * Math.min(12, raw[0]) + "px";
      return cell;
    }
    return element("td", { class: "number", "data-value": plain }, number(column, raw));
  }

  function number(column, raw) {
    if (raw === null || raw === undefined || (Number(raw) === 0 && column.kind !== "at" && column.kind !== "exact" && column.kind !== "id")) return "–";
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
    if (!data.others || query) return null;
    const label = words.plural(data.others_count, "other file", "other files");
    const cells = shown.map((column) => (isText(column.kind) ? element("td", { class: "name" }, label) : value(column, data.others[column.at])));
    return element("tr", { class: "others" }, cells);
  }

  function more(found, visible) {
    const parts = [];
    if (query) parts.push(words.plural(found, "row fits. ", "rows fit. "));
    if (Number(data.left_out) > 0 && !data.others) parts.push(words.count(data.left_out) + " more are not in this page. ");
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
