"""A headless Chromium, driven over a pair of pipes (DevTools protocol): nothing but Python needed."""

import base64
import fcntl
import json
import os
import signal
import tempfile

# Descriptors that Chromium reads commands from and writes answers to.
COMMANDS, ANSWERS = 3, 4


class Browser:
    """One browser with one page. As a context manager it ends with the block."""

    def __init__(self, program="chromium"):
        self.profile = tempfile.TemporaryDirectory(prefix="reenact-browser-", ignore_cleanup_errors=True)
        command_read, command_write = os.pipe()
        answer_read, answer_write = os.pipe()
        # Out of the way of the numbers that the browser wants.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 16) for end in (command_read, answer_write)]
        os.close(command_read)
        os.close(answer_write)
        options = [
            "--headless",
            "--remote-debugging-pipe",
            "--no-first-run",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--force-color-profile=srgb",
            f"--user-data-dir={self.profile.name}",
        ]
        if os.geteuid() == 0:
            options.append("--no-sandbox")
        actions = [(os.POSIX_SPAWN_OPEN, place, os.devnull, os.O_RDWR, 0) for place in range(3)]
        actions += [(os.POSIX_SPAWN_DUP2, end, place) for end, place in zip(ends, (COMMANDS, ANSWERS))]
        environment = dict(os.environ, HOME=self.profile.name)
        arguments = [program, *options, "about:blank"]
        self.process = os.posix_spawnp(program, arguments, environment, file_actions=actions)
        for end in ends:
            os.close(end)
        self.commands = os.fdopen(command_write, "wb", buffering=0)
        self.answers = os.fdopen(answer_read, "rb", buffering=0)
        self.pending = b""
        self.last = 0
        self.session = None
        self.events = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Page.setLifecycleEventsEnabled", enabled=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        self.profile.cleanup()

    def ask(self, method, **parameters):
        """Sends a command and gives its answer; what happens meanwhile is kept in `events`."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.commands.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.next()
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def next(self):
        """What the browser says next."""
        while b"\0" not in self.pending:
            piece = self.answers.read(1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended")
            self.pending += piece
        text, _, self.pending = self.pending.partition(b"\0")
        return json.loads(text)

    def open(self, path, width, height=900, dark=False, scripts=True, fragment=""):
        """Loads a file and waits until its scripts have run, if they are allowed to."""
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        # Another fragment alone would not load the page again.
        self.ask("Page.navigate", url="about:blank")
        self.events = []
        mobile = width < 700
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        address = "file://" + os.path.abspath(path) + fragment
        frame = self.ask("Page.navigate", url=address)["loaderId"]
        is_loaded = lambda event: (
            event.get("method") == "Page.lifecycleEvent"
            and event["params"]["name"] == "load"
            and event["params"]["loaderId"] == frame
        )
        while not any(is_loaded(event) for event in self.events):
            self.events.append(self.next())

    def evaluate(self, expression):
        """The value of a JavaScript expression, as JSON has it."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def complaints(self):
        """Errors and warnings of the page since it was opened."""
        self.evaluate("0")
        found = []
        for event in self.events:
            method, what = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                details = what["exceptionDetails"]
                found.append(details.get("exception", {}).get("description") or details["text"])
            elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
                found.append(what["entry"]["text"])
            elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
                found.append(str(what["args"]))
        return found

    def requests(self):
        """Every address that the page asked for."""
        sent = [event["params"]["request"]["url"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith("data:")]

    def mouse(self, kind, x, y, **more):
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key, shift=False):
        """Presses and releases a key."""
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        more = {"key": key, "code": key, "windowsVirtualKeyCode": codes.get(key, 0), "modifiers": 8 if shift else 0}
        if key == "Enter":
            more["text"] = "\r"
        elif len(key) == 1:
            more["text"] = key
        self.ask("Input.dispatchKeyEvent", type="keyDown", **more)
        more.pop("text", None)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **more)

    def drag(self, x, y, to_x):
        """From a point to another one on the same line."""
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for part in range(1, 5):
            self.mouse("mouseMoved", x + (to_x - x) * part / 4, y, button="left", buttons=1)
        self.mouse("mouseReleased", to_x, y, button="left", clickCount=1)

    def picture(self, path, selector=None):
        """A picture of the whole page, or of one element: as WebP if the name says so, else as PNG."""
        box = "document.documentElement" if selector is None else f"document.querySelector({json.dumps(selector)})"
        size = self.evaluate(
            f"(() => {{ const b = {box}.getBoundingClientRect();"
            " return [b.x + scrollX, b.y + scrollY, b.width, b.height]; })()"
        )
        clip = dict(zip(("x", "y", "width", "height"), size), scale=1)
        how = {"format": "webp", "quality": 70} if path.endswith(".webp") else {"format": "png"}
        data = self.ask("Page.captureScreenshot", **how, clip=clip, captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def print(self, path):
        """The page as PDF."""
        data = self.ask("Page.printToPDF", printBackground=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
