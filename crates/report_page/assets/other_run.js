// What changed since another recording.
function otherRunParts(data) {
  const { other_run: other } = data;
  if (!other) return [];
  const about = "A is " + other.name + ", B is this recording. Times are parts of that of the run, which sum up to it.";
  const summary = picture("other_run", null, about, (it) => {
    it.body.replaceChildren(...other.lines.map((line) => element("p", {}, line)));
    return { lines: other.lines.length };
  });
  const tables = other.tables.map(({ title, table }) =>
    dataTable("diff_" + table.key, title, null, table, { nothing: "Nothing.", hidden: HIDDEN, first: FIRST[table.key] })
  );
  return [summary, ...tables];
}

// Columns for which `reenact diff` is the better place.
const HIDDEN = ["key", "thread", "a_thread", "b_thread", "a_p90_ns", "b_p90_ns", "a_max_ns", "b_max_ns"];
// Names come first here.
const FIRST = { files: "file", new_files: "file", gone_files: "file" };
