//! Parents, process groups, sessions, and user and group ids.

use model::{Credentials, IdSet};
use syscalls::abi::tasks::{CLONE_NEWPID, CLONE_NEWUSER, CLONE_PARENT};

use super::*;

const UNCHANGED: u64 = u32::MAX as u64;

impl Story {
    fn state(&mut self, process: u32, pid: u32, uids: [u32; 4], gids: [u32; 4]) {
        let groups = vec![4, 5];
        let state =
            ProcessState { process, pid, ppid: 9, uids, gids, groups, ..Default::default() };
        self.event(trace::event::RECORDER, EventKind::State(Box::new(state)));
    }

    /// Begins with process 1, which has thread 1 and a known state.
    fn known() -> Story {
        let mut story = Story { world: World::new(), tsc: 0 };
        story.state(1, 100, [0; 4], [0; 4]);
        story.start(1, StartHow::Launch, 1, 0, 100);
        story
    }

    pub fn fork(&mut self, thread: u32, maker: u32, pid: u32) {
        self.call(maker, "fork", &[], pid.into(), &[]);
        self.start(thread, StartHow::Fork, thread, maker, pid);
    }

    fn clone(&mut self, thread: u32, maker: u32, flags: u64, result: i64, pid: u32) {
        self.call(maker, "clone", &[flags], result, &[]);
        self.start(thread, StartHow::Fork, thread, maker, pid);
    }

    /// Lets all calls return, then compares parent, process group and session.
    #[track_caller]
    fn check_ties(&mut self, process: u32, expected: [Option<u32>; 3]) {
        self.event(0, EventKind::Stall { ns: 0 });
        let ties = self.world.ties(process).expect("the process lives");
        assert_eq!([ties.parent, ties.group, ties.session], expected);
    }

    fn credentials(&mut self, thread: u32) -> Credentials {
        self.event(0, EventKind::Stall { ns: 0 });
        self.world.credentials(thread).expect("the thread lives").clone()
    }

    #[track_caller]
    fn check_ids(&mut self, thread: u32, users: [u32; 4], groups: [u32; 4]) {
        let found = self.credentials(thread);
        assert_eq!(found.of_state(), Some([users, groups]));
    }
}

#[test]
fn what_nothing_shows_is_unknown() {
    let mut story = Story::new();
    story.check_ties(1, [None; 3]);
    let ids = story.credentials(1);
    assert_eq!((ids.users, ids.groups), (IdSet::default(), IdSet::default()));
    assert_eq!(ids.supplementary(), None);
    story.fork(2, 1, 200);
    story.check_ties(2, [Some(100), None, None]);
}

#[test]
fn calls_that_return_ties_make_them_known() {
    let mut story = Story::known();
    story.check_ties(1, [Some(9), None, None]);
    story.fork(2, 1, 200);
    story.call(1, "getpgrp", &[], 70, &[]);
    story.call(1, "getsid", &[0], 60, &[]);
    story.call(1, "getpgid", &[200], 80, &[]);
    // Of another process, whose id may be of another namespace.
    story.call(1, "getsid", &[300], 50, &[]);
    story.call(1, "getpgid", &[0], -1, &[]);
    story.check_ties(1, [Some(9), Some(70), Some(60)]);
    story.check_ties(2, [Some(100), Some(80), None]);
}

#[test]
fn groups_and_sessions_are_inherited_and_changed() {
    let mut story = Story::known();
    story.call(1, "setsid", &[], 100, &[]);
    story.fork(2, 1, 200);
    story.check_ties(2, [Some(100), Some(100), Some(100)]);
    story.call(2, "setpgid", &[0, 0], 0, &[]);
    story.check_ties(2, [Some(100), Some(200), Some(100)]);
    story.call(2, "setpgid", &[200, 100], 0, &[]);
    story.check_ties(2, [Some(100), Some(100), Some(100)]);
    // The parent may do it as well.
    story.call(1, "setpgid", &[200, 0], 0, &[]);
    story.call(1, "setpgid", &[200, 77], -1, &[]);
    story.check_ties(2, [Some(100), Some(200), Some(100)]);
    story.image(2);
    story.check_ties(2, [Some(100), Some(200), Some(100)]);
    story.check_ties(1, [Some(9), Some(100), Some(100)]);
}

#[test]
fn a_shell_groups_its_child_before_the_childs_first_event() {
    let mut story = Story::known();
    story.call(1, "setsid", &[], 100, &[]);
    story.call(1, "fork", &[], 200, &[]);
    story.call(1, "fork", &[], 201, &[]);
    story.call(1, "setpgid", &[201, 200], 0, &[]);
    story.call(1, "setpgid", &[1, 0], -1, &[]);
    story.start(3, StartHow::Fork, 3, 1, 201);
    story.start(2, StartHow::Fork, 2, 1, 200);
    story.check_ties(3, [Some(100), Some(200), Some(100)]);
    story.check_ties(2, [Some(100), Some(100), Some(100)]);
}

#[test]
fn a_child_inherits_what_held_when_it_was_created() {
    let mut story = Story::known();
    story.call(1, "setsid", &[], 100, &[]);
    story.call(1, "setresuid", &[UNCHANGED, 5, UNCHANGED], 0, &[]);
    story.call(1, "fork", &[], 200, &[]);
    story.call(1, "setpgid", &[0, 55], 0, &[]);
    story.call(1, "setresuid", &[6, 6, 6], 0, &[]);
    story.start(2, StartHow::Fork, 2, 1, 200);
    story.check_ties(2, [Some(100), Some(100), Some(100)]);
    story.check_ids(2, [0, 5, 0, 5], [0; 4]);
}

#[test]
fn a_parent_that_has_ended_is_one_no_more() {
    let mut story = Story::known();
    story.fork(2, 1, 200);
    story.clone(3, 2, CLONE_PARENT, 201, 201);
    story.check_ties(3, [Some(100), None, None]);
    story.fork(4, 2, 202);
    story.event(2, EventKind::Exit { process: 2, status: None });
    story.check_ties(4, [None; 3]);
    story.call(4, "getppid", &[], 1, &[]);
    story.check_ties(4, [Some(1), None, None]);
    story.check_ties(3, [Some(100), None, None]);
}

#[test]
fn in_a_new_namespace_of_process_ids_the_others_are_outside() {
    let mut story = Story::known();
    story.call(1, "setsid", &[], 100, &[]);
    story.clone(2, 1, CLONE_NEWPID, 200, 1);
    story.check_ties(2, [Some(0); 3]);
    story.call(2, "setsid", &[], 1, &[]);
    story.check_ties(2, [Some(0), Some(1), Some(1)]);
    // The maker had entered one: the child's id is another than the one that the call returned.
    story.clone(3, 1, 0, 300, 1);
    story.check_ties(3, [None; 3]);
}

#[test]
fn ids_follow_the_calls() {
    let mut story = Story::known();
    story.call(1, "setgroups", &[2, 1], 0, &[(1, false, &[1, 0, 0, 0, 2, 0, 0, 0])]);
    assert_eq!(story.credentials(1).supplementary(), Some(&[1, 2][..]));
    story.call(1, "setgroups", &[0, 0], 0, &[]);
    assert_eq!(story.credentials(1).supplementary(), Some(&[][..]));
    story.call(1, "setregid", &[7, 8], 0, &[]);
    story.check_ids(1, [0; 4], [7, 8, 8, 8]);
    story.call(1, "setgid", &[9], 0, &[]);
    story.check_ids(1, [0; 4], [9; 4]);
    story.call(1, "setfsuid", &[5], 0, &[]);
    story.check_ids(1, [0, 0, 0, 5], [9; 4]);
    story.call(1, "setfsuid", &[UNCHANGED], 5, &[]);
    story.check_ids(1, [0, 0, 0, 5], [9; 4]);
    story.call(1, "setreuid", &[UNCHANGED, 6], 0, &[]);
    story.check_ids(1, [0, 6, 6, 6], [9; 4]);
    story.call(1, "setresuid", &[UNCHANGED, UNCHANGED, 0], 0, &[]);
    story.check_ids(1, [0, 6, 0, 6], [9; 4]);
    // Not root any more: back as the effective id alone.
    story.call(1, "setuid", &[0], 0, &[]);
    story.check_ids(1, [0; 4], [9; 4]);
    story.call(1, "setuid", &[1000], 0, &[]);
    story.check_ids(1, [1000; 4], [9; 4]);
    story.call(1, "setuid", &[0], -1, &[]);
    // Only root may take any group for files.
    story.call(1, "setfsgid", &[3], 9, &[]);
    story.check_ids(1, [1000; 4], [9; 4]);
}

#[test]
fn threads_have_ids_of_their_own_and_an_exec_keeps_those_of_its_thread() {
    let mut story = Story::known();
    story.call(1, "clone", &[CLONE_FILES | CLONE_FS], 101, &[]);
    story.start(2, StartHow::Thread, 1, 1, 101);
    story.call(2, "setresuid", &[UNCHANGED, 5, UNCHANGED], 0, &[]);
    story.check_ids(1, [0; 4], [0; 4]);
    story.check_ids(2, [0, 5, 0, 5], [0; 4]);
    story.image(2);
    story.check_ids(2, [0, 5, 5, 5], [0; 4]);
}

#[test]
fn the_state_of_a_set_id_program_holds() {
    let mut story = Story::known();
    story.call(1, "setuid", &[1000], 0, &[]);
    story.state(1, 100, [1000, 0, 0, 0], [0; 4]);
    story.check_ids(1, [1000; 4], [0; 4]);
    story.image(1);
    story.check_ids(1, [1000, 0, 0, 0], [0; 4]);
    assert_eq!(story.credentials(1).supplementary(), Some(&[4, 5][..]));
}

/// The recorder sees other ids of such a thread than the thread itself.
#[test]
fn in_a_new_user_namespace_ids_are_what_its_own_calls_say() {
    let mut story = Story::known();
    story.clone(2, 1, CLONE_NEWUSER, 200, 200);
    assert_eq!(story.credentials(2).users, IdSet::default());
    story.state(2, 200, [1000; 4], [1000; 4]);
    story.image(2);
    assert_eq!(story.credentials(2).users, IdSet::default());
    story.call(2, "geteuid", &[], 65534, &[]);
    story.call(2, "getgid", &[], 7, &[]);
    let ids = story.credentials(2);
    assert_eq!((ids.users.real, ids.users.effective), (None, Some(65534)));
    assert_eq!((ids.groups.real, ids.groups.effective), (Some(7), None));
    let id = |id: u32| id.to_le_bytes();
    let stored = [id(1), id(2), id(3)];
    let data = [(0, true, &stored[0][..]), (1, true, &stored[1]), (2, true, &stored[2])];
    story.call(2, "getresuid", &[1, 2, 3], 0, &data);
    let users = story.credentials(2).users;
    assert_eq!([users.real, users.effective, users.saved], [Some(1), Some(2), Some(3)]);
    story.check_ids(1, [0; 4], [0; 4]);
    story.call(1, "unshare", &[CLONE_NEWUSER], 0, &[]);
    assert_eq!(story.credentials(1).users, IdSet::default());
}

#[test]
fn entering_another_kind_of_namespace_keeps_the_ids() {
    let mut story = Story::known();
    story.open(1, "/proc/7/ns/net", 3);
    story.call(1, "setns", &[3, 0], 0, &[]);
    story.check_ids(1, [0; 4], [0; 4]);
    story.open(1, "/proc/7/ns/user", 4);
    story.call(1, "setns", &[4, 0], 0, &[]);
    assert_eq!(story.credentials(1).users, IdSet::default());
}
