// Treemap of bytes by directory and file.
function treemap(data, choose) {
  const { files } = data;
  const column = (key) => files.columns.findIndex((it) => it.key === key);
  const [readAt, writeAt, pathAt] = ["read_bytes", "write_bytes", "path"].map(column);
  const leaf = (row, index) => ({
    index,
    path: row[pathAt],
    read: Number(row[readAt]),
    write: Number(row[writeAt]),
    bytes: Number(row[readAt]) + Number(row[writeAt]),
  });
  const SHOWN = 300;
  const all = files.rows.map(leaf).filter((file) => file.bytes > 0).sort((a, b) => b.bytes - a.bytes);
  const small = all.slice(SHOWN);
  const others = files.others ? leaf(files.others, -1) : null;
  const restOfAll = [...small, ...(others && others.bytes > 0 ? [others] : [])];
  const total = [...all, ...(others ? [others] : [])].reduce((sum, file) => sum + file.bytes, 0);
  const it = picture("treemap", "Bytes by file", "Area: bytes read and written. Blue was mostly read, orange mostly written.", () => {
    if (!total) {
      empty(it.body, "No data of a file was moved by calls.");
      return { bytes: 0 };
    }
    now = span.isPart() ? moved() : all;
    visible = now.reduce((sum, file) => sum + file.bytes, 0) + (now === all ? total - visibleAll : 0);
    if (!visible) {
      empty(it.body, "No data of a file was moved in the visible time.");
      return { bytes: 0 };
    }
    const box = element("div", { class: "treemap", role: "group", "aria-label": it.label });
    // Few files need little room.
    const height = Math.max(60, Math.min(360, it.width * 0.34, 40 + 28 * now.length));
    box.style.height = height + "px";
    it.body.replaceChildren(box);
    for (const [folder, x, y, wide, tall] of squarify(folders(), 0, 0, it.width, height)) {
      directory(box, folder, x, y, wide, tall);
    }
    rove(box, "button.tile");
    return { bytes: visible, files: Math.min(SHOWN, now.length) };
  });
  span.watchers.push(() => it.width && it.draw());
  let [now, visible] = [all, total];
  const visibleAll = all.reduce((sum, file) => sum + file.bytes, 0);

  // Files with what was moved in the visible time.
  function moved() {
    const files = [...filesUsed(data).used].map(([index, sums]) => ({
      index, path: data.files.rows[index][pathAt], read: sums.read_bytes, write: sums.write_bytes, bytes: sums.read_bytes + sums.write_bytes,
    }));
    return files.filter((file) => file.bytes > 0).sort((a, b) => b.bytes - a.bytes);
  }

  function folders() {
    const byName = new Map();
    for (const file of now.slice(0, SHOWN)) {
      const slash = file.path.lastIndexOf("/");
      const name = slash > 0 ? file.path.slice(0, slash) : slash === 0 ? "/" : file.path.split(":")[0] + "s";
      if (!byName.has(name)) byName.set(name, { name, files: [], bytes: 0 });
      const folder = byName.get(name);
      folder.files.push(file);
      folder.bytes += file.bytes;
    }
    const list = [...byName.values()];
    const rest = now === all ? restOfAll : now.slice(SHOWN);
    if (rest.length) {
      const bytes = rest.reduce((sum, file) => sum + file.bytes, 0);
      const [read, write] = ["read", "write"].map((key) => rest.reduce((sum, file) => sum + file[key], 0));
      list.push({ name: "other files", bytes, files: [{ index: -1, path: "all others together", read, write, bytes }] });
    }
    return list.sort((a, b) => b.bytes - a.bytes);
  }

  function directory(box, folder, x, y, wide, tall) {
    const head = wide > 50 && tall > 34 ? 16 : 0;
    const frame = element("div", { class: "folder" });
    place(frame, x, y, wide, tall);
    if (head) frame.append(element("div", { class: "folder-name" }, words.ending(folder.name, roomFor(wide))));
    box.append(frame);
    for (const [file, left, top, width, height] of squarify(folder.files, x + 1, y + head + 1, wide - 2, tall - head - 2)) {
      if (width < 1 || height < 1) continue;
      const tile = element("button", { type: "button", class: "tile", tabindex: "-1", "data-bytes": file.bytes, "aria-label": file.path + ", " + words.bytes(file.bytes) });
      place(tile, left, top, width, height);
      tile.style.background = mix(file);
      if (width > 46 && height > 15) tile.append(words.beginning(file.path.split("/").pop() || file.path, roomFor(width)));
      if (width > 60 && height > 32) tile.append(element("br"), words.bytes(file.bytes));
      tipOn(tile, () => [file.path, ["read", words.bytes(file.read)], ["written", words.bytes(file.write)], ["of all", words.share(file.bytes / visible)]]);
      if (file.index >= 0) tile.addEventListener("click", () => choose(file.index));
      box.append(tile);
    }
  }
  return it;
}

function place(node, x, y, wide, tall) {
  node.style.left = x + "px";
  node.style.top = y + "px";
  node.style.width = Math.max(0, wide - 1) + "px";
  node.style.height = Math.max(0, tall - 1) + "px";
}

// Returns the number of characters that fit in a width in pixels.
function roomFor(wide) {
  return Math.max(2, Math.floor(wide / 6.6) - 1);
}

// Mixes the colours of reads and writes.
function mix(file) {
  const [a, b] = [rgb(colour("tile-read")), rgb(colour("tile-write"))];
  const part = file.bytes ? file.write / file.bytes : 0;
  return "rgb(" + a.map((value, i) => Math.round(value + (b[i] - value) * part)).join(",") + ")";
}

// Squarified treemap (Bruls, Huizing, van Wijk): returns [item, x, y, width, height].
function squarify(items, x, y, wide, tall) {
  const placed = [];
  const total = items.reduce((sum, item) => sum + item.bytes, 0);
  if (!(total > 0) || wide <= 0 || tall <= 0) return placed;
  const scale = (wide * tall) / total;
  let row = [];
  const worst = (list, side) => {
    const sum = list.reduce((all, item) => all + item.bytes * scale, 0);
    return Math.max(...list.map((item) => Math.max((side * side * item.bytes * scale) / (sum * sum), (sum * sum) / (side * side * item.bytes * scale))));
  };
  const lay = () => {
    const sum = row.reduce((all, item) => all + item.bytes * scale, 0);
    const isTall = wide >= tall;
    const thick = sum / (isTall ? tall : wide);
    let at = isTall ? y : x;
    for (const item of row) {
      const long = (item.bytes * scale) / thick;
      placed.push(isTall ? [item, x, at, thick, long] : [item, at, y, long, thick]);
      at += long;
    }
    if (isTall) [x, wide] = [x + thick, wide - thick];
    else [y, tall] = [y + thick, tall - thick];
    row = [];
  };
  for (const item of items.filter((it) => it.bytes > 0)) {
    const side = Math.min(wide, tall);
    if (row.length && worst([...row, item], side) > worst(row, side)) lay();
    row.push(item);
  }
  if (row.length) lay();
  return placed;
}
