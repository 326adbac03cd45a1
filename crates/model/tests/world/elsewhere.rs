//! Roots and mounts that a world does not follow, paths as they are spelt, and tasks that begin
//! before the call that creates them.

use syscalls::abi::tasks::CLONE_NEWNS;

use super::*;

impl Story {
    /// Compares which of the threads 1, 2 ... are elsewhere.
    #[track_caller]
    fn check_elsewhere(&mut self, expected: &[bool]) {
        self.event(0, EventKind::Stall { ns: 0 });
        let threads = 1..=expected.len() as u32;
        let found: Vec<bool> = threads.map(|thread| self.world.is_elsewhere(thread)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn who_takes_another_root_is_elsewhere() {
    let mut story = Story::new();
    story.call(1, "chroot", &[1], 0, &[(0, false, b"/")]);
    story.check_elsewhere(&[false]);
    story.fork(2, 1, 200);
    story.call(2, "chroot", &[1], -1, &[(0, false, b"/jail")]);
    story.check_elsewhere(&[false, false]);
    story.call(2, "chroot", &[1], 0, &[(0, false, b"/jail")]);
    story.chdir(2, "/in");
    story.fork(3, 2, 300);
    story.check_elsewhere(&[false, true, true]);
    // As long as the kernel does not say that it has the first root again.
    for (process, root) in [(3, "/"), (1, "/other")] {
        let (cwd, root) = (b"/here".to_vec(), root.into());
        let state = ProcessState { process, cwd, root, ..ProcessState::default() };
        story.event(0, EventKind::State(Box::new(state)));
        story.image(process);
    }
    story.check_elsewhere(&[true, true, true]);
    story.check_cwd(3, "/here");
    let mut following = Story { world: World::following_mounts(), tsc: 0 };
    following.start(1, StartHow::Launch, 1, 0, 100);
    following.call(1, "chroot", &[1], 0, &[(0, false, b"/jail")]);
    following.check_elsewhere(&[false]);
}

#[test]
fn who_takes_other_mounts_is_elsewhere() {
    let mut story = Story::new();
    story.chdir(1, "/tmp");
    story.call(1, "clone", &[CLONE_FILES | CLONE_FS], 101, &[]);
    story.start(2, StartHow::Thread, 1, 1, 101);
    story.call(2, "unshare", &[CLONE_NEWNS], 0, &[]);
    story.chdir(2, "/var");
    story.check_elsewhere(&[false, true]);
    story.check_cwd(1, "/tmp");
    story.call(1, "clone", &[CLONE_NEWNS], 300, &[]);
    story.start(3, StartHow::Fork, 3, 1, 300);
    story.fork(4, 1, 400);
    story.open(4, "/proc/9/ns/net", 3);
    story.open(4, "/proc/9/ns/mnt", 4);
    story.call(4, "setns", &[3, 0], 0, &[]);
    story.check_elsewhere(&[false, true, true, false]);
    story.call(4, "setns", &[4, 0], 0, &[]);
    story.check_elsewhere(&[false, true, true, true]);
}

#[test]
fn a_task_may_begin_before_the_call_that_creates_it() {
    let mut story = Story::new();
    story.chdir(1, "/tmp");
    story.start(2, StartHow::Fork, 2, 1, 200);
    story.call(1, "clone", &[CLONE_NEWNS], 200, &[]);
    story.check_elsewhere(&[false, true]);
    // The next one gets what its own maker has now, not what was kept for the first.
    story.chdir(1, "/var");
    story.start(3, StartHow::Fork, 3, 1, 300);
    story.check_elsewhere(&[false, true, false]);
    story.check_cwd(3, "/var");
}

#[test]
fn paths_may_keep_their_spelling() {
    let mut story = Story { world: World::keeping_spelling(), tsc: 0 };
    story.start(1, StartHow::Launch, 1, 0, 100);
    story.chdir(1, "/link/../a");
    story.open(1, "./b//c", 3);
    story.open(1, "/x/y", 4);
    story.check(1, &[(3, "/link/../a/b/c"), (4, "/x/y")]);
    assert_eq!(story.world.locate(1, b"d"), b"/link/../a/d");
}
