//! The machine's threads, as /proc shows them.

use std::fs;
use std::path::Path;

use model::kernel_tasks::KernelTask;

/// Threads that are looked at.
const TASKS_MAX: usize = 1 << 17;
/// Bytes of a name of a cgroup that are kept.
const CGROUP_BYTES_MAX: usize = 512;
/// Of the flags in `stat`: a thread of the kernel's own.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// Reads what there is to say of all threads.
pub fn all(proc: &Path) -> Vec<KernelTask> {
    let mut tasks = Vec::new();
    for process in numbers(proc) {
        let folder = proc.join(process.to_string());
        let cgroup = cgroup(&folder);
        for task in numbers(&folder.join("task")) {
            if tasks.len() >= TASKS_MAX {
                return tasks;
            }
            let task = read(&folder.join("task").join(task.to_string()), process, task);
            tasks.extend(task.map(|task| KernelTask { cgroup: cgroup.clone(), ..task }));
        }
    }
    tasks
}

/// Reads what there is to say of the first thread of a process.
pub fn of_process(proc: &Path, process: u32) -> Option<KernelTask> {
    let folder = proc.join(process.to_string());
    let task = read(&folder, process, process)?;
    Some(KernelTask { cgroup: cgroup(&folder), ..task })
}

/// Reads what there is to say of a thread, by its id alone.
pub fn of_thread(proc: &Path, task: u32) -> Option<KernelTask> {
    let folder = proc.join(task.to_string());
    let status = fs::read(folder.join("status")).ok()?;
    let process = line(&status, b"Tgid:").next()?;
    let found = read(&folder, process, task)?;
    Some(KernelTask { cgroup: cgroup(&folder), ..found })
}

/// The numbers that are names in a folder.
pub fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn cgroup(folder: &Path) -> Vec<u8> {
    let text = fs::read(folder.join("cgroup")).unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n');
    // That of version 2 comes last: its line names no controllers. In another than the first one of a
    // hierarchy it was put for a reason.
    let path_of = |line: &[u8]| line.splitn(3, |byte| *byte == b':').nth(2).map(<[u8]>::to_vec);
    let mut paths: Vec<Vec<u8>> = lines.filter_map(path_of).collect();
    let place = paths.iter().rposition(|path| path != b"/").unwrap_or(0);
    let found = if place < paths.len() { paths.swap_remove(place) } else { Vec::new() };
    found[..found.len().min(CGROUP_BYTES_MAX)].to_vec()
}

fn read(folder: &Path, process: u32, task: u32) -> Option<KernelTask> {
    let stat = fs::read(folder.join("stat")).ok()?;
    let status = fs::read(folder.join("status")).ok()?;
    parse(&stat, &status, process, task)
}

fn parse(stat: &[u8], status: &[u8], process: u32, task: u32) -> Option<KernelTask> {
    // The name in brackets may have brackets and blanks.
    let begin = stat.iter().position(|byte| *byte == b'(')? + 1;
    let end = stat.iter().rposition(|byte| *byte == b')').filter(|end| *end >= begin)?;
    let words: Vec<&[u8]> = stat.get(end + 2..)?.split(|byte| *byte == b' ').collect();
    let number = |at: usize| -> Option<u32> {
        std::str::from_utf8(words.get(at)?).ok()?.trim().parse().ok()
    };
    let effective = |key: &[u8]| line(status, key).nth(1).unwrap_or(0);
    Some(KernelTask {
        task,
        process,
        parent: number(1)?,
        group: number(2)?,
        uid: effective(b"Uid:"),
        gid: effective(b"Gid:"),
        state: *words.first()?.first()?,
        cpu: number(36)?,
        is_kernel: number(6)? & KERNEL_THREAD != 0,
        is_followed: false,
        name: stat[begin..end].to_vec(),
        cgroup: Vec::new(),
    })
}

/// The numbers in a line of `status`.
fn line<'a>(status: &'a [u8], key: &[u8]) -> impl Iterator<Item = u32> + use<'a> {
    let found = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(key));
    let words = found.unwrap_or_default().split(u8::is_ascii_whitespace);
    words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_proc_are_read() {
        let stat = b"77 (a) b (c)) S 5 6 7 0 -1 2097216 0 0 0 0 1 2 3 4 20 0 1 0 88 0 0 \
            18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        let status = b"Name:\tx\nTgid:\t70\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n";
        let task = parse(stat, status, 70, 77).unwrap();
        let expected = KernelTask {
            task: 77,
            process: 70,
            parent: 5,
            group: 6,
            uid: 2,
            gid: 6,
            state: b'S',
            cpu: 3,
            is_kernel: true,
            is_followed: false,
            name: b"a) b (c)".into(),
            cgroup: Vec::new(),
        };
        assert_eq!(task, expected);
        for len in 0..stat.len() - 60 {
            parse(&stat[..len], &[], 1, 1);
        }
    }

    #[test]
    fn the_own_process_is_among_them() {
        let own = std::process::id();
        let tasks = all(Path::new("/proc"));
        let found = tasks.iter().find(|task| task.task == own).expect("it lives");
        assert_eq!(found.process, own);
        assert!(!found.is_kernel && tasks.iter().all(|task| task.cpu < 1 << 16));
        let same = of_thread(Path::new("/proc"), own).unwrap();
        assert_eq!((same.process, &same.cgroup), (own, &found.cgroup));
    }
}
