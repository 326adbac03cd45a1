"""Opens a report in headless Chromium and holds it against `reenact stat --json`.

    python3 check.py REENACT TRACE REPORT

Prints what is wrong, and exits with 1 if anything is.
"""

import collections
import json
import shlex
import subprocess
import sys

from browser import Browser

WIDTHS = (1440, 400)
# Every picture that a report has.
PICTURES = {
    "findings", "calls_over_time", "throughput", "latency_over_time", "in_flight", "unsynced",
    "errors_over_time", "calls", "heat", "latency", "sizes", "write_sizes", "treemap", "offsets",
    "files", "lanes", "processes", "errors", "slowest", "directories",
}  # fmt: skip
# And those of a report on the kernel's events.
KERNEL_PICTURES = {"states", "cpus", "waits", "flow", "events"}
STATES = {
    "call": "calls_ns", "fault": "faults_ns", "interrupted": "interrupted_ns", "disk": "disk_ns", "peer": "peer_ns",
    "lock": "lock_ns", "child": "child_ns", "asleep": "asleep_ns", "stopped": "stopped_ns", "unknown": "unknown_ns",
    "preempted": "preempted_ns",
}  # fmt: skip
DRAWN = """Object.fromEntries([...document.querySelectorAll("[data-picture]")].map((box) => [
    box.dataset.picture,
    { ...JSON.parse(box.dataset.drawn || "null"), ink: [...box.querySelectorAll("canvas")].map((canvas) => {
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return pixels.filter((value, at) => at % 4 === 3 && value > 0).length;
    }), empty: box.querySelectorAll(".empty").length }]))"""
FACTS = """Object.fromEntries([...document.querySelectorAll("[data-fact]")].map((it) => [it.dataset.fact, it.dataset.value]))"""
# All rows of a table, as objects of raw values.
TABLE = """((name) => {
    const box = document.querySelector(`[data-picture="${name}"]`);
    const button = [...box.querySelectorAll(".more button")].find((it) => it.textContent.startsWith("show all"));
    if (button) button.click();
    const keys = [...box.querySelectorAll("th")].map((it) => it.dataset.key);
    return [...box.querySelectorAll("tbody tr[data-row]")].map((row) =>
        Object.fromEntries([...row.children].map((cell, at) => [keys[at], cell.dataset.value])));
})(%s)"""
CENTRE = """((selector) => {
    const it = document.querySelector(selector);
    it.scrollIntoView({ block: "center" });
    const box = it.getBoundingClientRect();
    return [box.x, box.y, box.width, box.height];
})(%s)"""

reenact, trace, report = sys.argv[1:4]
wrong = []


def check(what, found, expected):
    if found != expected:
        wrong.append(f"{what}: the page has {found!r}, it should be {expected!r}")


def stat(view, *words):
    text = subprocess.run([reenact, "stat", view, trace, "--json", *words], stdout=subprocess.PIPE, text=True, check=False)
    return json.loads(text.stdout)


def number(value):
    return int(value) if isinstance(value, str) else value


def total(rows, key):
    return sum(number(row[key]) for row in rows)


def check_page(browser, width, dark):
    browser.open(report, width, dark=dark)
    where = f"{width} pixels{', dark' if dark else ''}"
    check(f"{where}: complaints", browser.complaints(), [])
    check(f"{where}: requests", [url.split(":")[0] for url in browser.requests()], ["file"])
    check(f"{where}: ready", browser.evaluate("document.body.dataset.ready"), "yes")
    wide = browser.evaluate("document.documentElement.scrollWidth")
    if wide > width:
        wrong.append(f"{where}: the page is {wide} pixels wide")
    drawn = browser.evaluate(DRAWN)
    expected = PICTURES | (KERNEL_PICTURES if HAS_KERNEL else set()) | ({"flame"} if HAS_CALLERS else set())
    beside = ("replay", "other_run", "diff_", "network", "predicted")
    check(f"{where}: pictures", sorted(name for name in drawn if not name.startswith(beside)), sorted(expected))
    for name, it in drawn.items():
        # What has nothing to show says so; everything else leaves ink.
        if not it["empty"] and it["ink"] and min(it["ink"]) < 50:
            wrong.append(f"{where}: {name} is blank: {it}")
    return drawn


def check_numbers(browser, drawn):
    calls, files, tasks = stat("calls"), stat("files"), stat("processes")
    durability, findings = stat("durability"), stat("patterns")
    latency, sizes = stat("latency"), stat("sizes")
    interval = browser.evaluate("JSON.parse(document.getElementById('data').textContent).interval_ns")
    time = stat("time", "--interval", f"{interval}ns")["steps"]
    facts = browser.evaluate(FACTS)
    expected = {
        "count": calls["count"], "kinds": calls["kinds"], "errors": calls["errors"], "total_ns": calls["total_ns"],
        "read_bytes": files["read_bytes"], "write_bytes": files["write_bytes"], "file_count": files["file_count"],
        "thread_count": tasks["thread_count"], "syncs": durability["syncs"],
    }  # fmt: skip
    for key, value in expected.items():
        check(f"fact {key}", facts.get(key), str(value))
    check("calls over time", sum(v for v in drawn["calls_over_time"].values() if isinstance(v, int)) - drawn["calls_over_time"]["empty"], total(time, "calls"))
    for key in ("read_bytes", "write_bytes"):
        check(f"throughput {key}", drawn["throughput"][key], total(time, key))
    check("longest call", drawn["latency_over_time"]["max_ns"], max((number(step["max_ns"]) or 0 for step in time), default=0))
    check("errors over time", drawn["errors_over_time"]["errors"], total(time, "errors"))
    check("findings", drawn["findings"]["findings"], findings["finding_count"])
    returned = total(latency["latency"], "count")
    if len(latency["latency"]) <= 24:
        check("heat", drawn["heat"]["calls"], returned)
    for name, view in (("latency", latency), ("sizes", sizes)):
        rows = view[name]
        if rows:
            # The call that took the most time, if it is there.
            row = next((row for row in rows if row["call"] == calls["calls"][0]["call"]), rows[0])
            check(f"{name}: call", drawn[name]["call"], row["call"])
            check(f"{name}: count", drawn[name]["count"], row["count"])
    moved = files["read_bytes"] + files["write_bytes"]
    check("treemap", drawn["treemap"]["bytes"], moved)
    check("lanes", drawn["lanes"]["threads"], min(200, tasks["thread_count"]))
    if "path" in drawn["offsets"]:
        check_offsets(drawn["offsets"], files["files"])
    for key, name in (("writes", "writes"), ("odd", "odd_writes"), ("above", "writes_just_above_4k")):
        if calls.get("writes"):
            check(f"sizes of writes: {key}", drawn["write_sizes"][key], calls[name])
    check_table(browser, "calls", "call", calls["calls"], 800)
    check_table(browser, "files", "path", files["files"], 1000)
    check_table(browser, "processes", "pid", tasks["processes"], 300)
    check_table(browser, "directories", "path", files["directories"], 300)
    check_slowest(browser)
    check_network(browser, drawn)


def shown_calls():
    """All calls that returned, as `show` has them, the longest first."""
    text = subprocess.run([reenact, "show", trace, "--json", "--data", "none"], stdout=subprocess.PIPE, text=True, check=False)
    calls = [json.loads(line) for line in text.stdout.splitlines()]
    calls = [call for call in calls if call["type"] == "call" and call["exit_ns"] is not None]
    for call in calls:
        call["took_ns"] = number(call["exit_ns"]) - number(call["enter_ns"])
    return sorted(calls, key=lambda call: -call["took_ns"])


def check_slowest(browser):
    """The slowest calls against `show --json`, and the command of one of them."""
    rows = browser.evaluate(TABLE % '"slowest"')
    calls = shown_calls()
    times = [number(row["time_ns"]) for row in rows]
    check("slowest: times", times, [call["took_ns"] for call in calls[:1000]])
    if not rows:
        return
    by_number = {str(call.get("seq")): call for call in calls}
    for row in rows[:: max(1, len(rows) // 25)]:
        call = by_number.get(row["seq"])
        found = call and (call["call"], call["took_ns"], str(call["tid"]))
        check(f"slowest: call {row['seq']}", (row["name"], number(row["time_ns"]), row["tid"]), found)
    # What is pasted shows this call; the trace is named as the page was told.
    words = shlex.split(rows[0]["command"])
    check("slowest: command", words[:2], ["reenact", "show"])
    lines = subprocess.run([reenact, "show", trace, *words[3:]], stdout=subprocess.PIPE, text=True, check=True).stdout
    if rows[0]["seq"] not in [line.split()[0] for line in lines.splitlines()]:
        wrong.append(f"the command {words} does not show call {rows[0]['seq']}: {lines}")
    # By call: those of the one that is chosen, and no others.
    name = rows[0]["name"]
    browser.evaluate(f"""(() => {{ const it = document.querySelector('[data-picture="slowest"] select[aria-label="calls by"]');
        it.value = "name"; it.dispatchEvent(new Event("change")); }})()""")
    chosen = browser.evaluate("""document.querySelector('[data-picture="slowest"] select[aria-label="which"]').value""")
    part = browser.evaluate(TABLE % '"slowest"')
    check("slowest: by call", [row["time_ns"] for row in part], [row["time_ns"] for row in rows if row["name"] == chosen])
    check("slowest: it is one of them", chosen in {row["name"] for row in rows} and bool(name), True)
    browser.evaluate("""(() => { const it = document.querySelector('[data-picture="slowest"] select[aria-label="calls by"]');
        it.value = ""; it.dispatchEvent(new Event("change")); })()""")


def check_network(browser, drawn):
    """Connections, sums of them and pipes against `stat network`."""
    view = stat("network")
    for key in ("connections", "listening", "peers", "local_sockets", "pipes"):
        rows = view.get(key, [])
        check(f"network: {key} is there", f"network_{key}" in drawn, bool(rows))
        if rows:
            check_table(browser, f"network_{key}", "in_bytes", rows, 500)
    if view.get("connections"):
        for key in ("connections", "in_bytes", "out_bytes", "replies"):
            expected = len(view[key]) if key == "connections" else number(view[key])
            check(f"network: {key}", drawn["network"][key], expected)


def check_range(browser):
    """A part of the time: tables against `stat --since --until`; the address, and what it restores."""
    whole = "JSON.parse(document.getElementById('data').textContent)"
    interval, end = (int(browser.evaluate(f"{whole}.{key}")) for key in ("interval_ns", "span_ns"))
    browser.open(report, WIDTHS[0], fragment=f"#time={end // 4}-{end // 2}")
    check("a part: button", browser.evaluate("document.getElementById('zoom').hidden"), False)
    for name, view, rows_max in (("calls", "calls", 800), ("files", "files", 1000), ("errors", None, 300)):
        drawn = json.loads(browser.evaluate(f"""document.querySelector('[data-picture="{name}"]').dataset.drawn"""))
        if not drawn.get("within"):
            check(f"a part: {name} has no rows at all", drawn.get("rows"), 0)
            continue
        first, behind = (int(ns) for ns in drawn["within"])
        if not (first <= end // 4 and behind >= min(end // 2, end) and (first % interval == 0)):
            wrong.append(f"a part: {name} is of {first} to {behind}")
        if view is None:
            continue
        bounds = ["--since", f"{first}ns", "--until", f"{max(first, behind - (behind < end))}ns"]
        rows = stat(view, *bounds)[view]
        page = browser.evaluate(TABLE % json.dumps(name))
        keys = {"calls": ("count", "errors", "total_ns", "max_ns", "bytes"), "files": ("time_ns", "opens", "reads", "read_bytes", "writes", "write_bytes", "syncs", "errors")}[view]
        keys = [key for key in keys if any(key in row for row in page)]
        if len(rows) <= rows_max and (name != "files" or stat("files")["file_count"] <= 1000):
            # What never returned has no time.
            of = lambda table: sorted(tuple(number(row.get(key)) or 0 for key in keys) for row in table)
            check(f"a part: {name}", of(page), of(rows))
    latency = browser.evaluate("""JSON.parse(document.querySelector('[data-picture="latency"]').dataset.drawn)""")
    calls = {row["call"]: row for row in browser.evaluate(TABLE % '"calls"')}
    row = calls.get(latency.get("call"))
    if row and int(row["count"]) < 1000:
        check("a part: histogram", latency["count"] <= int(row["count"]) and (latency["count"] > 0), True)
    browser.evaluate("document.getElementById('zoom').click()")
    check("all: address", browser.evaluate("location.hash.includes('time=')"), False)
    # A choice goes into the address, and comes back with it.
    browser.evaluate("""document.querySelector('[data-picture="calls"] tbody tr[data-row]').click()""")
    browser.evaluate("""(() => { const it = document.querySelector('[data-picture="files"] input');
        if (it) { it.value = "e"; it.dispatchEvent(new Event("input")); } })()""")
    state = "JSON.stringify([...document.querySelectorAll('select')].filter((it) => it.getAttribute('aria-label') === 'call').map((it) => it.selectedOptions[0].text))"
    fragment, before = browser.evaluate("location.hash"), browser.evaluate(state)
    browser.open(report, WIDTHS[0], fragment=fragment)
    check("the address restores the choice", browser.evaluate(state), before)
    for bad in ("#time=9-1", "#time=x", "#call=%", "#=&&=", "#nothing", "#find.calls=%ZZ&time=1e9-2"):
        browser.open(report, WIDTHS[0], fragment=bad)
        check(f"address {bad}: complaints", browser.complaints(), [])
        check(f"address {bad}: ready", browser.evaluate("document.body.dataset.ready"), "yes")
    browser.open(report, WIDTHS[0])


def check_keys(browser):
    """Everything by keys: a row, a chart, and back; what is drawn has a label."""
    unlabelled = browser.evaluate("""[...document.querySelectorAll("canvas, svg")].filter((it) => !it.getAttribute("aria-label")).length""")
    check("canvases and drawings without a label", unlabelled, 0)
    stops = browser.evaluate("""[...document.querySelectorAll("tbody")].filter((it) => it.querySelector("tr[data-row]") && it.querySelectorAll('tr[tabindex="0"]').length !== 1).length""")
    check("tables that the tab key does not stop at", stops, 0)
    browser.evaluate("""document.querySelector('[data-picture="calls"] tr[tabindex="0"]').focus()""")
    rows = browser.evaluate("""document.querySelectorAll('[data-picture="calls"] tbody tr[data-row]').length""")
    if rows > 1:
        browser.key("ArrowDown")
    below = "[...document.querySelectorAll('[data-picture=\"calls\"] tbody tr[data-row]')].indexOf(document.activeElement)"
    check("the row below", browser.evaluate(below), min(1, rows - 1))
    browser.key("Enter")
    name = browser.evaluate("document.activeElement.querySelector('td').dataset.value")
    check("Enter chooses", browser.evaluate("location.hash.includes('call=' + encodeURIComponent(%s))" % json.dumps(name)), True)
    for selector in ('[data-picture="calls_over_time"] .u-over', '[data-picture="lanes"] .plane'):
        browser.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        browser.key("ArrowLeft")
        check(f"{selector}: is said", browser.evaluate("document.getElementById('said').textContent.length > 3"), True)
        for _ in range(5):
            browser.key("ArrowRight", shift=True)
        browser.key("Enter")
        check(f"{selector}: Enter zooms", browser.evaluate("document.getElementById('zoom').hidden"), False)
        browser.key("+")
        browser.key("Escape")
        check(f"{selector}: Escape shows all", browser.evaluate("document.getElementById('zoom').hidden"), True)


def check_without_scripts(browser):
    """With scripts off: the command, the verdict, numbers, findings and tables."""
    browser.open(report, WIDTHS[1], scripts=False)
    root = browser.ask("DOM.getDocument", depth=0)["root"]["nodeId"]
    page = browser.ask("DOM.getOuterHTML", nodeId=root)["outerHTML"]
    body = page[page.index('<main id="page">') : page.index("</main>")]
    check("without scripts: no table was replaced", 'data-picture="' in body, False)
    check("without scripts: a command and a verdict", ("<h1>" in body, 'class="verdict"' in body), (True, True))
    for view, key, column in (("calls", "calls", "call"), ("processes", "processes", None), ("network", "pipes", None)):
        rows = stat(view).get(key, [])
        if not rows:
            continue
        check(f"without scripts: {key}", f'data-static="{key}"' in body, True)
        table = body[body.index(f'data-static="{key}"') :]
        table = table[: table.index("</table>")]
        check(f"without scripts: rows of {key}", table.count("<tr>") - 1, min(25, len(rows)))
        if column:
            check(f"without scripts: the first of {key}", f">{rows[0][column]}<" in table, True)
    check("without scripts: findings", body.count("<article"), min(25, stat("patterns")["finding_count"]))
    wide = browser.ask("Page.getLayoutMetrics")["cssContentSize"]["width"]
    check("without scripts: width", wide <= WIDTHS[1], True)


def check_flame(browser, drawn):
    """Time by callers against `stat calls --by site`; a click shows one chain, another one all again."""
    sites = stat("sites")
    calls = sites["calls_with_callers"] - sites["callers_lost"]
    check("flame: calls", drawn["flame"]["calls"], calls)
    boxes = """document.querySelectorAll('.flame button').length"""
    before = browser.evaluate(boxes)
    browser.evaluate("[...document.querySelectorAll('.flame button')].at(-1).click()")
    within = browser.evaluate(boxes)
    if not 1 < within <= before:
        wrong.append(f"flame: of {before} boxes {within} are left")
    browser.evaluate("document.querySelector('.flame button').click()")
    check("flame: all again", browser.evaluate(boxes), before)


def check_predicted(browser, drawn):
    """A bar for each time that was predicted or measured, as long as the time."""
    table = browser.evaluate("JSON.parse(document.getElementById('data').textContent).predicted?.table")
    if not table:
        return
    at = {column["key"]: index for index, column in enumerate(table["columns"])}
    times = [row[at[key]] for row in table["rows"] for key in ("predicted_ns", "actual_ns") if row[at[key]] is not None]
    bars = browser.evaluate("""[...document.querySelectorAll('[data-picture="predicted"] rect[data-ns]')].map((it) =>
        [Number(it.dataset.ns), Number(it.getAttribute("width"))])""")
    check("predicted: bars", [ns for ns, _ in bars], [number(ns) for ns in times])
    check("predicted: bars that it tells of", drawn["predicted"]["bars"], len(times))
    longest, width = max(bars)
    for ns, wide in bars:
        if abs(wide - max(1, width * ns / longest)) > 0.5:
            wrong.append(f"predicted: {ns} ns are {wide} wide where {longest} are {width}")
    check("predicted: rows", drawn["predicted_table"]["rows"], len(table["rows"]))


def check_kernel(browser, drawn):
    """Lanes, waits and details against `stat cpu`, `stat waits` and `show`."""
    cpu, waits = stat("cpu"), stat("waits")
    for state, key in STATES.items():
        # Lanes have all threads that the trace has, `stat cpu` those whose events were wanted.
        if drawn["states"]["times"][state] < total(cpu["cpu_threads"], key):
            wrong.append(f"states: {state} is less than what stat cpu has")
    check("cpus", drawn["cpus"]["cpus"], len(cpu["cpus"]))
    check("waits", drawn["waits"]["rows"], min(100, len(waits["longest"])))
    kernel = browser.evaluate("JSON.parse(document.getElementById('data').textContent).kernel")
    of_waits = kernel["details"][kernel["asked"] :]
    check("details of waits", len(of_waits), min(10, len(waits["longest"])))
    for detail, row in zip(of_waits, waits["longest"]):
        if not detail["from_ns"] <= row["start_ns"] <= row["start_ns"] + row["time_ns"] <= detail["to_ns"]:
            wrong.append(f"a detail is not of the wait {row}")
    for detail in kernel["details"]:
        bounds = ["--since", f"{detail['from_ns']}ns", "--until", f"{detail['to_ns']}ns"]
        lines = subprocess.run([reenact, "show", trace, "--event", "kernel", *bounds], stdout=subprocess.PIPE, text=True, check=True)
        count = len([line for line in lines.stdout.splitlines() if line.startswith("cpu") and "gap:" not in line])
        shown = len([row for row in detail["rows"] if row[1] is not None])
        if detail["rows_left_out"][0] == 0:
            check(f"events of {detail['title']}", shown, count)
        for line, _, start, length, *_ in detail["flows"]:
            if not (0 <= line < len(detail["lines"]) and start + length <= detail["to_ns"] - detail["from_ns"]):
                wrong.append(f"{detail['title']}: a stretch is not in the range")
                break
    for at in range(len(kernel["details"])):
        browser.evaluate(f"""(() => {{ const it = document.querySelector('select[aria-label="range"]');
            if (it) {{ it.value = {at}; it.dispatchEvent(new Event("change")); }} }})()""")
        flow = json.loads(browser.evaluate("""document.querySelector('[data-picture="flow"]').dataset.drawn"""))
        check(f"detail {at}: is shown", flow.get("chosen"), at)
        check(f"detail {at}: flows", flow.get("flows"), len(kernel["details"][at]["flows"]))


def check_offsets(drawn, files):
    row = next((row for row in files if row["path"] == drawn["path"]), None)
    if row:
        check("offsets", (drawn["reads"], drawn["writes"]), (row["reads"], row["writes"]))


def check_table(browser, name, key, rows, rows_max):
    """Every number of a table; rows are known by their numbers, because names are shown escaped."""
    page = browser.evaluate(TABLE % json.dumps(name))
    check(f"{name}: rows", len(page), min(rows_max, len(rows)))

    def comparable(row, columns):
        values = []
        for column in columns:
            value = row.get(column)
            if isinstance(value, (int, float)) or (isinstance(value, str) and value.replace(".", "", 1).isdigit()):
                values.append((column, round(float(value), 5)))
        return tuple(values)

    columns = sorted(set(page[0]) & set(rows[0])) if page and rows else []
    if rows and key not in columns:
        wrong.append(f"{name}: no column {key}: {columns}")
    expected = collections.Counter(comparable(row, columns) for row in rows)
    for ours in (comparable(row, columns) for row in page):
        if expected[ours] == 0:
            wrong.append(f"{name}: stat has no such row: {ours}")
            return
        expected[ours] -= 1


def check_reactions(browser):
    """Search, sort, hover, zoom and back."""
    browser.evaluate("""(() => { const it = document.querySelector('[data-picture="calls"] input');
        it.value = "zzzz"; it.dispatchEvent(new Event("input")); })()""")
    rows = browser.evaluate("""document.querySelectorAll('[data-picture="calls"] tbody tr[data-row]').length""")
    check("rows that fit no search", rows, 0)
    browser.evaluate("""(() => { const it = document.querySelector('[data-picture="calls"] input');
        it.value = ""; it.dispatchEvent(new Event("input")); })()""")
    browser.evaluate("""document.querySelector('[data-picture="calls"] th[data-key="max_ns"] button').click()""")
    longest = [number(row["max_ns"]) for row in browser.evaluate(TABLE % '"calls"') if row.get("max_ns")]
    check("calls sorted by max", longest, sorted(longest, reverse=True))
    for selector in ('[data-picture="calls_over_time"] .u-over', '[data-picture="lanes"] .plane'):
        x, y, wide, tall = browser.evaluate(CENTRE % json.dumps(selector))
        lower = y + (8 + 8 if "plane" in selector else tall / 2)
        browser.mouse("mouseMoved", x + wide * 0.7, lower)
        if "plane" in selector:
            check(f"{selector}: says something", browser.evaluate("document.getElementById('tip').hidden"), False)
        browser.drag(x + wide * 0.4, lower, x + wide * 0.8)
        check(f"{selector}: dragged across", browser.evaluate("document.getElementById('zoom').hidden"), False)
        browser.evaluate("document.getElementById('zoom').click()")
        check(f"{selector}: all again", browser.evaluate("document.getElementById('zoom').hidden"), True)
    check("complaints in the end", browser.complaints(), [])


def check_policy(browser):
    """What a script that got into the page all the same could do: nothing."""
    refused = browser.evaluate("""new Promise((done) => {
        const seen = [];
        document.addEventListener("securitypolicyviolation", (event) => {
            if (seen.push(event.effectiveDirective) === 2) done(seen.sort());
        });
        const script = document.createElement("script");
        script.textContent = "window.intruder = true";
        document.body.append(script);
        fetch("http://127.0.0.1:9/").catch(() => {});
    })""")
    check("refused by the page's policy", refused, ["connect-src", "script-src-elem"])
    check("a script without the nonce", browser.evaluate("window.intruder === undefined"), True)


HAS_CALLERS = stat("sites")["calls_with_callers"] > 0
HAS_KERNEL = bool(stat("events")["events"])
with Browser() as browser:
    for width in WIDTHS:
        drawn = check_page(browser, width, dark=width < 1000)
    drawn = check_page(browser, WIDTHS[0], dark=False)
    check_numbers(browser, drawn)
    if HAS_CALLERS:
        check_flame(browser, drawn)
    check_predicted(browser, drawn)
    if HAS_KERNEL:
        check_kernel(browser, drawn)
    if stat("calls")["count"] > 0:
        check_reactions(browser)
        check_keys(browser)
        check_range(browser)
    check_policy(browser)
    check_without_scripts(browser)
for line in wrong:
    print(line)
sys.exit(1 if wrong else 0)
