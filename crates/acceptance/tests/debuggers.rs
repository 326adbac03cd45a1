//! Debuggers and other tracers inspect recorded programs: what they see and do is the same as with
//! an unrecorded program.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use acceptance::conversation::Conversation;
use acceptance::place::{self, PATIENCE, Place, Who};
use acceptance::shown::Info;
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, program, trials};

fn main() -> ExitCode {
    trials::main(|trials| {
        trials.add_for_both("gdb_attaches", trials::missing(&["gdb"]), gdb_attaches);
        trials.add_for_both("functions_are_called", None, functions_are_called);
        trials.add_for_both("gdb_makes_cores", trials::missing(&["gdb"]), gdb_makes_cores);
        let no_cores = trials::missing(&["gdb"]).or(no_core_files());
        trials.add_for_both("kernel_makes_cores", no_cores, kernel_makes_cores);
        trials.add_for_both("eu_stack_attaches", trials::missing(&["eu-stack"]), eu_stack_attaches);
        trials.add_for_both("strace_attaches", trials::missing(&["strace"]), strace_attaches);
        trials.add_for_both("strace_is_recorded", trials::missing(&["strace"]), strace_is_recorded);
        trials.add_for_both("gdb_is_recorded", trials::missing(&["gdb"]), gdb_is_recorded);
        Ok(())
    })
}

/// A recorded program that waits for a line, deep in nested functions.
struct Waiting {
    place: Place,
    program: String,
    trace: PathBuf,
    talk: Conversation,
    pid: i32,
}

impl Waiting {
    fn start(stage: &Stage, who: Who) -> Result<Waiting, Complaint> {
        let program = program::named("waits_for_line")?.build(stage)?.display().to_string();
        let place = Place::new(stage, who)?;
        let trace = place.trace("looked_at.rnt");
        let mut command = place.command("sh");
        command.args(["-c", "ulimit -c unlimited; exec \"$@\"", "sh"]).arg(&stage.reenact);
        command.args(["record", "--quiet", "--output"]).arg(&trace).arg("--");
        command.args([&program, "1", "tell"]);
        let mut talk = Conversation::start(command)?;
        let pid = talk.ready()?;
        let in_read = || {
            let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
            call.starts_with("0 0x0 ")
        };
        let begun = Instant::now();
        while !in_read() {
            ensure!(begun.elapsed() < PATIENCE, "it does not read");
            thread::sleep(Duration::from_millis(1));
        }
        Ok(Waiting { place, program, trace, talk, pid })
    }

    /// Attaches gdb and runs these commands.
    fn gdb(&self, commands: &[&str]) -> Result<String, Complaint> {
        let pid = self.pid.to_string();
        run_gdb(&self.place, commands, &["-p", &pid])
    }

    /// Lets the program end; it must not notice that it was inspected.
    fn finish(self, stage: &Stage) -> Result<Place, Complaint> {
        let rest = self.talk.finish()?;
        ensure!(rest.contains("interrupted 0 times"), "it printed {rest}");
        let info = Info::of(stage, &self.trace)?;
        info.must_be_complete()?;
        ensure!(info.count("getppid") == 50, "{} of 50 calls", info.count("getppid"));
        Ok(self.place)
    }
}

fn run_gdb(place: &Place, commands: &[&str], what: &[&str]) -> Result<String, Complaint> {
    let mut gdb = place.command("gdb");
    gdb.args(["-nx", "-batch"]).args(commands.iter().flat_map(|command| ["-ex", command]));
    let seen = place.run(gdb.args(what))?;
    let text = seen.text() + &seen.errors();
    ensure!(seen.status.success(), "gdb: {}\n{text}", seen.status);
    Ok(text)
}

/// The stack must lead from the waiting function to `main`.
fn is_whole(stack: &str) -> Result<(), Complaint> {
    let mut frames = stack.lines().filter(|line| line.starts_with('#'));
    let all_there = ["wait_for_line", "main"]
        .iter()
        .all(|function| frames.any(|frame| frame.contains(function)));
    ensure!(all_there, "not the whole stack:\n{stack}");
    Ok(())
}

fn gdb_attaches(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let waiting = Waiting::start(stage, who)?;
    let commands = ["backtrace", "print interrupts", "up 3", "info registers", "detach"];
    let text = waiting.gdb(&commands)?;
    ensure!(text.contains("$1 = 0") && text.contains("detached"), "gdb saw:\n{text}");
    is_whole(&text)?;
    waiting.finish(stage).map(drop)
}

/// A debugger makes the program call functions while it is in a system call.
fn functions_are_called(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let waiting = Waiting::start(stage, who)?;
    let pid = waiting.pid as u64;
    let mut debugger = Debugger::attach(waiting.pid)?;
    // Functions called by the program before, and others; some block, some need stack space.
    for _ in 0..5 {
        let seen = debugger.call(libc::getpid as *const () as u64, [0; 3])?;
        ensure!(seen == pid, "getpid gave {seen}");
        let seen = debugger.call(libc::syscall as *const () as u64, [39, 0, 0])?;
        ensure!(seen == pid, "syscall(SYS_getpid) gave {seen}");
    }
    ensure!(debugger.call(libc::usleep as *const () as u64, [1000, 0, 0])? == 0, "usleep fails");
    let memory = debugger.call(libc::malloc as *const () as u64, [1 << 20, 0, 0])?;
    ensure!(memory != 0, "malloc fails");
    let wrote = debugger.call(libc::write as *const () as u64, [1, memory, 0])?;
    ensure!(wrote == 0, "write gave {wrote}");
    debugger.detach()?;
    waiting.finish(stage).map(drop)
}

/// A stopped program and its registers at that time.
struct Debugger {
    pid: i32,
    registers: libc::user_regs_struct,
}

impl Debugger {
    fn attach(pid: i32) -> Result<Debugger, Complaint> {
        ptrace(libc::PTRACE_ATTACH, pid, 0)?;
        // SAFETY: the registers are integers, for which zero is valid.
        let registers = unsafe { std::mem::zeroed() };
        let mut debugger = Debugger { pid, registers };
        debugger.expect_stop(libc::SIGSTOP)?;
        debugger.registers = debugger.read_registers()?;
        Ok(debugger)
    }

    /// Calls a function of the C library, given by its address in this process.
    fn call(&mut self, here: u64, args: [u64; 3]) -> Result<u64, Complaint> {
        let function = here - library_at("self")? + library_at(&self.pid.to_string())?;
        let mut registers = self.registers;
        // Below the red zone of the stopped function, with return address 0.
        registers.rsp = ((registers.rsp - 128) & !15) - 8;
        [registers.rdi, registers.rsi, registers.rdx] = args;
        (registers.rip, registers.rax, registers.orig_rax) = (function, 0, u64::MAX);
        // SAFETY: writes a word of the stopped process, not of ours.
        let written = unsafe { libc::ptrace(libc::PTRACE_POKEDATA, self.pid, registers.rsp, 0) };
        ensure!(written == 0, "poke: {}", std::io::Error::last_os_error());
        self.write_registers(registers)?;
        ptrace(libc::PTRACE_CONT, self.pid, 0)?;
        self.expect_stop(libc::SIGSEGV)?;
        let after = self.read_registers()?;
        ensure!(after.rip == 0, "the function ended at {:#x}", after.rip);
        self.write_registers(self.registers)?;
        Ok(after.rax)
    }

    fn detach(self) -> Result<(), Complaint> {
        ptrace(libc::PTRACE_DETACH, self.pid, 0)
    }

    fn expect_stop(&self, signal: i32) -> Result<(), Complaint> {
        let mut status = 0;
        // SAFETY: `status` is valid for writes.
        let pid = unsafe { libc::waitpid(self.pid, &raw mut status, libc::__WALL) };
        let stopped = pid == self.pid && libc::WIFSTOPPED(status);
        ensure!(stopped && libc::WSTOPSIG(status) == signal, "{pid}: wait status {status:#x}");
        Ok(())
    }

    fn read_registers(&self) -> Result<libc::user_regs_struct, Complaint> {
        // SAFETY: the registers are integers, for which zero is valid.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        ptrace(libc::PTRACE_GETREGS, self.pid, &raw mut registers as usize)?;
        Ok(registers)
    }

    fn write_registers(&self, registers: libc::user_regs_struct) -> Result<(), Complaint> {
        ptrace(libc::PTRACE_SETREGS, self.pid, &raw const registers as usize)
    }
}

fn ptrace(request: libc::c_uint, pid: i32, data: usize) -> Result<(), Complaint> {
    // SAFETY: callers pass data that is valid for the request.
    let done = unsafe { libc::ptrace(request, pid, 0, data) };
    ensure!(done == 0, "ptrace request {request}: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Returns the address of the C library in a process.
fn library_at(process: &str) -> Result<u64, Complaint> {
    let path = format!("/proc/{process}/maps");
    let maps = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = maps.lines().find(|line| line.contains("libc.so"));
    let start = line.and_then(|line| line.split('-').next());
    start.and_then(|hex| u64::from_str_radix(hex, 16).ok()).ok_or("no C library".to_string())
}

/// Larger than the memory of the program, smaller than the recorder's mappings.
const CORE_MAX: u64 = 16 << 20;

fn is_good_core(place: &Place, program: &str, core: &Path) -> Result<(), Complaint> {
    let len = fs::metadata(core).map_err(|error| format!("{}: {error}", core.display()))?.len();
    ensure!(len < CORE_MAX, "the core file has {len} bytes");
    let core = core.display().to_string();
    is_whole(&run_gdb(place, &["backtrace"], &[program, &core])?)
}

fn gdb_makes_cores(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let waiting = Waiting::start(stage, who)?;
    let core = waiting.place.path("work/of_gdb");
    waiting.gdb(&[&format!("generate-core-file {}", core.display()), "detach"])?;
    is_good_core(&waiting.place, &waiting.program, &core)?;
    waiting.finish(stage).map(drop)
}

/// Core files that are piped to a program cannot be inspected.
fn no_core_files() -> Option<&'static str> {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let beside_the_program = pattern.starts_with("core") && !pattern.contains('/');
    (!beside_the_program).then_some("core files in the working directory")
}

fn kernel_makes_cores(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let Waiting { place, program, talk, pid, .. } = Waiting::start(stage, who)?;
    // SAFETY: kill takes plain numbers. The program waits for us, so its id is not reused.
    ensure!(unsafe { libc::kill(pid, libc::SIGQUIT) } == 0, "it cannot be killed");
    let (_, status) = talk.end()?;
    ensure!(
        status.code() == Some(128 + libc::SIGQUIT) || status.signal() == Some(libc::SIGQUIT),
        "it ended with {status}"
    );
    let mut found = fs::read_dir(place.work()).map_err(|error| error.to_string())?.flatten();
    let core = found.find(|entry| entry.file_name().to_string_lossy().starts_with("core"));
    is_good_core(&place, &program, &core.ok_or("no core file")?.path())
}

fn eu_stack_attaches(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let waiting = Waiting::start(stage, who)?;
    let pid = waiting.pid.to_string();
    let seen = waiting.place.run(waiting.place.command("eu-stack").args(["-p", &pid]))?;
    is_whole(&seen.text())?;
    waiting.finish(stage).map(drop)
}

fn strace_attaches(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let waiting = Waiting::start(stage, who)?;
    let lines = waiting.place.trace("attached.strace");
    let mut strace = waiting
        .place
        .command("strace")
        .arg("-o")
        .arg(&lines)
        .args(["-p", &waiting.pid.to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("strace: {error}"))?;
    let mut said = String::new();
    let stderr = strace.stderr.take().ok_or("no standard error")?;
    BufReader::new(stderr).read_line(&mut said).map_err(|error| error.to_string())?;
    ensure!(said.contains("attached"), "strace said {said}");
    let _place = waiting.finish(stage)?;
    place::wait(strace, PATIENCE, "strace")?;
    let text = fs::read_to_string(&lines).map_err(|error| error.to_string())?;
    let seen = text.lines().filter(|line| line.starts_with("getppid(")).count();
    ensure!(seen == 50, "strace saw {seen} of 50 calls:\n{text}");
    Ok(())
}

/// Runs a tracer alone and recorded; the outputs must be equal. Returns the file of this name that
/// each run left in the working directory.
fn alone_and_recorded(
    stage: &Stage,
    who: Who,
    command: &[&str],
    left: &str,
) -> Result<[String; 2], Complaint> {
    let place = Place::new(stage, who)?;
    let trace = place.trace("tracer.rnt");
    let without_numbers = |text: String| -> String {
        let words = text.split(|letter: char| !letter.is_alphanumeric());
        let is_number = |word: &&str| word.starts_with("0x") || word.parse::<u64>().is_ok();
        words.filter(|word| !is_number(word)).collect::<Vec<_>>().join(" ")
    };
    let read_left = || fs::read_to_string(place.work().join(left)).unwrap_or_default();
    let alone = place.run(place.command(command[0]).args(&command[1..]))?;
    let left_alone = read_left();
    place.clear()?;
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(&trace).arg("--").args(command);
    let recorded = place.run(&mut record)?;
    ensure!(
        alone.status == recorded.status
            && without_numbers(alone.text()) == without_numbers(recorded.text()),
        "alone: {}\n{}\n{}\nrecorded: {}\n{}\n{}",
        alone.status,
        alone.text(),
        alone.errors(),
        recorded.status,
        recorded.text(),
        recorded.errors()
    );
    let info = Info::of(stage, &trace)?;
    info.must_be_complete_but_for(stage, &trace, &["traced".into()])?;
    ensure!(info.gaps > 0, "what is traced is not recorded, and no gap says so");
    Ok([left_alone, read_left()])
}

fn strace_is_recorded(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let script =
        "trap 'echo usr1' USR1; kill -USR1 $$; (exit 3); echo a | cat; sleep 0.2 & wait; ls /";
    let calls = "trace=execve,kill,wait4,exit_group,pipe,pipe2,dup2,clone,vfork,fork,getdents64";
    let command = ["strace", "-f", "-qq", "-e", calls, "-o", "lines", "sh", "-c", script];
    let texts = alone_and_recorded(stage, who, &command, "lines")?;
    // A line starts with the process id; only the name of the call is compared. Calls that block
    // are sometimes interrupted by other threads, and a clone that meets the end of a child is made again.
    let events = texts.each_ref().map(|text| {
        let lines = text.lines().filter(|line| !line.ends_with("(To be restarted)"));
        let lines = lines.filter_map(|line| line.split_once(' '));
        let about = lines.map(|(_, event)| event.trim_start().split(['(', '{']).next());
        let whole = about.flatten().filter(|event| !event.starts_with('<'));
        let mut events: Vec<String> = whole.map(str::to_string).collect();
        events.sort();
        events
    });
    ensure!(
        events[0] == events[1] && !events[0].is_empty(),
        "alone:\n{}\nrecorded:\n{}",
        texts[0],
        texts[1]
    );
    Ok(())
}

fn gdb_is_recorded(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let program = program::named("waits_for_line")?.build(stage)?.display().to_string();
    let commands = [
        "set startup-with-shell off",
        "break wait_for_line",
        "run",
        "backtrace",
        "print random_state",
        "finish",
        "continue",
    ];
    let command = ["gdb", "-nx", "-batch"].into_iter();
    let command = command.chain(commands.iter().flat_map(|command| ["-ex", command]));
    let command: Vec<&str> = command.chain(["--args", &program, "5"]).collect();
    alone_and_recorded(stage, who, &command, "nothing").map(drop)
}
