# What gdb knows of a re-execution: `reenact goto SEQ`, `reenact when`. Loaded by `reenact rerun --gdb`.
import os
import socket

import gdb


class Driver:
    """Answers the program's calls, in another process."""

    def __init__(self):
        self.socket = socket.socket(fileno=int(os.environ.pop("REENACT_DRIVER")))
        self.lines = self.socket.makefile("r", encoding="utf-8", errors="replace")

    def tell(self, line):
        try:
            self.socket.sendall((line + "\n").encode())
        except OSError:
            raise gdb.GdbError("reenact has ended")

    def ask(self, line):
        self.tell(line)
        answer = self.lines.readline()
        if not answer:
            raise gdb.GdbError("reenact has ended")
        return answer.rstrip("\n")


driver = Driver()


class Site(gdb.Breakpoint):
    """Where the program is about to make the call."""

    def __init__(self, address):
        super().__init__("*" + address, internal=True, temporary=True)
        self.silent = True


def knows(setting):
    try:
        gdb.parameter(setting)
        return True
    except RuntimeError:
        return False


has_quiet = knows("suppress-cli-notifications")


def go_to(seq):
    # While gdb does not trace it, the program runs freely, also through execs.
    if gdb.selected_inferior().pid:
        gdb.execute("detach", to_string=True)
    word, _, rest = driver.ask("goto %d" % seq).partition(" ")
    if word != "at":
        raise gdb.GdbError(rest)
    pid, tid, site, call = rest.split(" ", 3)
    attach(pid)
    for thread in gdb.selected_inferior().threads():
        if thread.ptid[1] == int(tid):
            thread.switch()
    Site(site)
    driver.tell("go")
    gdb.execute("continue", to_string=True)
    print("before call %d: %s" % (seq, call))
    gdb.execute("frame")


def attach(pid):
    program = os.readlink("/proc/%s/exe" % pid)
    former = gdb.current_progspace().filename
    if former and former != program:
        gdb.execute("with confirm off -- file", to_string=True)
    quietly = "with suppress-cli-notifications on -- " if has_quiet else ""
    gdb.execute(quietly + "attach " + pid, to_string=True)


class Reenact(gdb.Command):
    """The program that is executed again, from its trace."""

    def __init__(self):
        super().__init__("reenact", gdb.COMMAND_RUNNING, prefix=True)


class Goto(gdb.Command):
    """Go to where the program is about to make a call: reenact goto SEQ.

SEQ is the number of the call, as `reenact show --seq` has it. To an earlier call it goes from the start."""

    def __init__(self):
        super().__init__("reenact goto", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        go_to(int(gdb.parse_and_eval(argument or "0")))


class When(gdb.Command):
    """Tell before or after which call the program is."""

    def __init__(self):
        super().__init__("reenact when", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        print(driver.ask("when"))


def on_stop(event):
    if not isinstance(event, gdb.BreakpointEvent):
        why = driver.ask("trapped")
        if why:
            print(why)


Reenact()
Goto()
When()
gdb.events.stop.connect(on_stop)
# The agent's own signal, by which each call comes to it.
gdb.execute("handle SIGSYS nostop noprint pass", to_string=True)
# What interrupts gdb is no signal of the recording.
gdb.execute("handle SIGINT stop print nopass", to_string=True)
for command in ["run", "start", "starti"]:
    why = "the program runs already; reenact goto 0 begins again"
    gdb.execute("define hook-%s\npython raise gdb.GdbError('%s')\nend" % (command, why))
go_to(int(os.environ.pop("REENACT_GOTO")))
