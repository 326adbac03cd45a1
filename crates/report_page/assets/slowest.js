// The slowest calls, one by one: all of them, or those of one call, file, place in the program or thread.
function slowestCalls(data) {
  const table = data.slowest;
  const column = (key) => table.columns.findIndex((it) => it.key === key);
  const GROUPS = [["call", "name"], ["file", "file"], ["called from", "site"], ["thread", "tid"]].filter(([, key]) => table.rows.some((row) => row[column(key)] !== null && row[column(key)] !== undefined));
  let [by, wanted] = [null, null];
  const total = words.count(data.calls_facts.count);
  const about = table.rows.length < Number(data.calls_facts.count)
    ? "The " + words.count(table.rows.length) + " calls of " + total + " that took longest, each with its number and the command that shows it. Chosen by call, file or place, they are those of these " + words.count(table.rows.length) + "."
    : "All " + total + " calls that returned, the longest first.";
  const it = dataTable("slowest", "The slowest calls", about, table, {
    rows: 12,
    pastes: true,
    hidden: ["pid", ...(GROUPS.some(([, key]) => key === "site") ? [] : ["site"])],
    nothing: "No call returned.",
    within: () => livedWithin(table, "start_ns", "time_ns"),
    fits: (row) => by === null || String(row[column(by)] ?? "") === wanted,
  });
  const values = element("select", { "aria-label": "which", hidden: true, onchange: () => it.filter(by, values.value) });
  const groups = element("select", { "aria-label": "calls by", onchange: () => it.filter(groups.value || null) });
  groups.append(element("option", { value: "" }, "all"), ...GROUPS.map(([title, key]) => element("option", { value: key }, "by " + title)));
  if (table.rows.length) it.controls.prepend(element("label", { class: "choose" }, "calls ", groups), values);

  // Shows the calls with one value in a column, or all.
  it.filter = (key, value) => {
    by = GROUPS.some(([, of]) => of === key) ? key : null;
    groups.value = by || "";
    values.hidden = by === null;
    if (by !== null) {
      const times = new Map();
      for (const row of table.rows) {
        const of = String(row[column(by)] ?? "");
        const [ns, count] = times.get(of) || [0, 0];
        times.set(of, [ns + Number(row[column("time_ns")]), count + 1]);
      }
      const all = [...times].sort((a, b) => b[1][0] - a[1][0]);
      values.replaceChildren(...all.map(([of, [ns, count]]) => element("option", { value: of }, words.ending(of || "(none)", 60) + ": " + words.ns(ns) + ", " + words.plural(count, "call", "calls"))));
      wanted = times.has(value) ? value : all[0][0];
      values.value = wanted;
    }
    address.put("slowest", by === null ? null : by + ":" + wanted);
    it.draw();
    return by === null || wanted === value;
  };
  it.restore = (text) => {
    const [, key, value] = /^(\w+):([\s\S]*)$/.exec(text || "") || [];
    it.filter(key || null, value);
  };
  return it;
}
