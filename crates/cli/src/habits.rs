//! Options of strace and of other tools, answered with what to do instead.

/// An option that a command does not have, and what does what it is for.
struct Habit {
    /// Names, with blanks between them.
    commands: &'static str,
    options: &'static [&'static str],
    advice: &'static str,
}

const HABITS: &[Habit] = &[
    Habit { commands: "version", options: &["version"], advice: "`reenact --version` prints it" },
    Habit {
        commands: "record",
        options: &["-p", "--attach"],
        advice: "reenact cannot attach to a running process; start the program by `reenact record PROGRAM`",
    },
    Habit {
        commands: "record",
        options: &["-e", "--trace"],
        advice: "give --call: `reenact record --call openat,read PROGRAM`, or record all calls and choose when \
                 you look: `reenact show --call openat,read`",
    },
    Habit {
        commands: "record",
        options: &["-c", "-C", "--summary-only"],
        advice: "give --summary, or ask `reenact stat` after the recording",
    },
    Habit {
        commands: "record",
        options: &["-t", "-r", "-T"],
        advice: "times are always recorded: `reenact show` prints when each call began and how long it took",
    },
    Habit {
        commands: "record",
        options: &["-s", "-v", "-x", "-y"],
        advice: "data, structs and paths are recorded in full; choose how much of them is printed when you \
                 look: `reenact show --string-limit 100 --verbose`",
    },
    Habit {
        commands: "record",
        options: &["-k", "-g"],
        advice: "give --stack: it records the callers of each call, and `reenact show --stack` prints them",
    },
    Habit {
        commands: "record",
        options: &["-P"],
        advice: "give --path: `reenact record --path '/etc/*' PROGRAM`, or record all calls and choose when you \
                 look: `reenact show --path '/etc/*'`",
    },
    Habit {
        commands: "record",
        options: &["-z", "-Z"],
        advice: "all calls are recorded; `reenact show --failed` prints those that failed",
    },
    Habit {
        commands: "record",
        options: &["-a", "-i", "-n"],
        advice: "it is about how calls are printed, and nothing is printed while a program is recorded; \
                 `reenact show` prints them",
    },
    Habit {
        commands: "record",
        options: &["--json"],
        advice: "the summary is text; `reenact info --json` and `reenact stat --json` print numbers for programs",
    },
    Habit {
        commands: "show stat",
        options: &["-e", "--trace"],
        advice: "give --call: `reenact show --call openat,read`, or a class of calls: --call %file",
    },
    Habit {
        commands: "show",
        options: &["-c", "-C", "--summary", "--summary-only"],
        advice: "`reenact stat` counts calls and their times",
    },
    Habit {
        commands: "show",
        options: &["-t", "-r", "-T"],
        advice: "each line has the time at which the call began, and at its end how long it took",
    },
    Habit { commands: "show", options: &["-k", "-g"], advice: "give --stack" },
    Habit { commands: "show stat", options: &["-p"], advice: "give --pid" },
    Habit { commands: "show stat", options: &["-P"], advice: "give --path: --path '/etc/*'" },
    Habit { commands: "show stat", options: &["-Z"], advice: "give --failed" },
    Habit { commands: "show stat diff", options: &["-n"], advice: "give --limit: --limit 5" },
    Habit {
        commands: "stat",
        options: &["-c", "-C"],
        advice: "`reenact stat` counts calls without an option",
    },
    Habit {
        commands: "stat",
        options: &["-S"],
        advice: "give --sort with the title of a column: --sort count",
    },
];

/// Returns what does what an option is for that a command does not have.
pub fn advice(command: &str, option: &str) -> Option<String> {
    let fits = |habit: &&Habit| {
        habit.commands.split(' ').any(|name| name == command) && habit.options.contains(&option)
    };
    HABITS.iter().find(fits).map(|habit| format!("{option}: {}", habit.advice))
}
