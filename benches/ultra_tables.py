"""The figures of ultra.py: kept in a file, one object a line, and told as tables in Markdown."""

import json
import os
import statistics

TITLES = {
    "costs": "Table 1: seconds, and per cent of untraced",
    "same": "Table 2: the same configuration: seconds, and per cent of untraced",
    "remote": "Table 3: on a volume that is reached over a network",
    "memory": "Figures 1 and 2: by memory",
    "systems": "By file system",
}
HEAD = ["program", "on", "memory", "by", "predicted s", "actual s", "error", "user s, predicted / actual",
        "system s, likewise", "MB on disk, likewise", "MB read by the disk, likewise", "MB written, likewise"]


class Kept:
    """What was measured with these repetitions, at this scale, with processors that halt or do not."""

    def __init__(self, path, repeat, scale, awake):
        self.path, self.common = path, {"repeat": repeat, "scale": scale, "awake": awake}
        # The load of the machine before this script adds to it.
        self.load = os.getloadavg()[0]
        self.all = {}
        if os.path.exists(path):
            with open(path) as lines:
                for line in lines:
                    self.take(line)

    def take(self, line):
        try:
            one = json.loads(line)
        except json.JSONDecodeError:
            # The end of a line that was cut off.
            return
        if all(one.get(key, False) == value for key, value in self.common.items()) and "figures" in one:
            self.all[self.key(one)] = one

    @staticmethod
    def key(of):
        return of["part"], of["work"], of["piece"]

    def has(self, key):
        found = self.all.get(self.key(key))
        return found is not None and "failed" not in found["figures"]

    def put(self, key, figures, loops):
        one = {**key, **self.common, "load": round(self.load, 2), "loops_ms": [round(ms, 1) for ms in loops],
               "machine": machine(), "figures": figures}
        self.all[self.key(one)] = one
        with open(self.path, "a") as out:
            out.write(json.dumps(one) + "\n")

    def of(self, part):
        return [one for one in self.all.values() if one["part"] == part]


def machine():
    with open("/proc/cpuinfo") as lines:
        models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(models)} x {models[0] if models else 'unknown'}, Linux {os.uname().release}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def share(values, of):
    """The middle of the values, and of their ratios to what was measured in the same round, with their range."""
    if not values:
        return "-"
    ratios = [value / one * 100 for value, one in zip(values, of)]
    least, most = min(ratios), max(ratios)
    told = f"{statistics.median(ratios):.0f}%" + (f", {least:.0f} to {most:.0f}" if len(ratios) > 1 else "")
    return f"{statistics.median(values):.2f} ({told})"


def costs(ones):
    rows, why = [], []
    for one in ones:
        figures = one["figures"]
        of = figures["untraced"]
        ways = [share(figures[way], of) for way in ("recorded", "rerunnable", "strace")]
        rows.append([one["work"], f"{statistics.median(of):.2f}"] + ways)
    return table(["program", "untraced", "recorded", "recorded for re-execution", "strace"], rows), why


def same(ones):
    rows, why = [], []
    for one in ones:
        figures = one["figures"]
        of = figures["untraced"]
        ways = [share(figures[way], of) for way in ("think", "rerun")]
        rows.append([one["work"], f"{statistics.median(of):.2f}"] + ways)
        if figures["why"]:
            why.append(f"{one['work']}, executed again: {figures['why']}")
    return table(["program", "untraced", "replayed with think time", "executed again"], rows), why


def predicted(ones):
    rows, why = [], []
    for one in ones:
        for of in one["figures"]["predictions"]:
            actual, size = of["actual"] or {}, of["memory_bytes"]
            number = lambda side, key, unit=1, places=2: (f"{side[key] / unit:.{places}f}"
                                                          if side.get(key) is not None else "-")
            both = lambda key, unit=1, places=2: f"{number(of, key, unit, places)} / {number(actual, key, unit, places)}"
            rows.append([one["work"], of["on"], f"{size >> 20} MiB" if size else "-", of["method"],
                         number(of, "seconds"), number(actual, "seconds"),
                         f"{of['error'] * 100:+.1f}%" if of["error"] is not None else "-",
                         both("user_s"), both("system_s"), both("allocated_bytes", 1e6, 1),
                         both("disk_read_bytes", 1e6, 1), both("disk_written_bytes", 1e6, 1)])
            if of["failed"] or of["incomplete"]:
                why.append(f"{one['work']}, {of['on']}, {of['method']}: {of['failed'] or of['incomplete']}")
            if of["different"]:
                why.append(f"{one['work']}, {of['on']}, {of['method']}: {of['different']} results differ")
    return table(HEAD, rows), why


def tables(kept):
    """Returns the text of each part."""
    told = {}
    for part, title in TITLES.items():
        all = kept.of(part)
        measured = [one for one in all if "failed" not in one["figures"]]
        text, why = {"costs": costs, "same": same}.get(part, predicted)(measured)
        lines = [f"{title}", "", text if measured else "Not measured."]
        why += [f"{one['work']}: {one['figures']['failed']}" for one in all if "failed" in one["figures"]]
        if why:
            lines += ["", *(f"- {' '.join(line.split())}" for line in dict.fromkeys(why))]
        if measured:
            of = f"--scale {kept.common['scale']:g} --repeat {kept.common['repeat']}{' --awake' * kept.common['awake']}"
            load = max(one["load"] for one in measured)
            busy = f" The load was up to {load:.1f} when a part began, the parts before it included."
            loops = [ms for one in measured for ms in one.get("loops_ms", [])]
            steady = (f" A loop that only counts took from {min(loops):.0f} to {max(loops):.0f} ms meanwhile: so much does"
                      " the speed of this machine swing by itself.") if loops else ""
            lines += ["", f"Measured with `{of}` on {measured[-1]['machine']}.{busy}{steady}"]
        told[part] = "\n".join(lines) + "\n"
    return told


def write_into(path, told):
    """Puts each table between the marks of a page."""
    with open(path) as file:
        text = file.read()
    for part, table_text in told.items():
        begin, end = f"<!-- {part} -->\n", f"<!-- end of {part} -->"
        before, found, rest = text.partition(begin)
        _, ends, after = rest.partition(end)
        if not found or not ends:
            raise SystemExit(f"{path}: it has no place for {part}: {begin.strip()} and {end}")
        text = f"{before}{begin}\n{table_text}\n{end}{after}"
    with open(path, "w") as out:
        out.write(text)
