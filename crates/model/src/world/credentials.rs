//! User and group ids of threads, and what calls make of them. The kernel keeps them per thread; C
//! libraries call for each thread.

use std::rc::Rc;

use syscalls::Ids;
use trace::event::ProcessState;

use crate::budget::{Budget, Held};

/// The number that stands for no id, or for leaving one as it is.
const NONE: u32 = u32::MAX;
/// The id that may take any other id, unless it has given up that right.
const ROOT: u32 = 0;

/// User ids or group ids of a thread; each is `None` while it is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IdSet {
    /// Whose process it is.
    pub real: Option<u32>,
    /// Whose rights it has.
    pub effective: Option<u32>,
    /// Which id it may take back.
    pub saved: Option<u32>,
    /// Whose rights it has on files.
    pub file: Option<u32>,
}

/// User and group ids of a thread.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// User ids.
    pub users: IdSet,
    /// Group ids.
    pub groups: IdSet,
    /// Supplementary groups, once known.
    supplementary: Option<Rc<Supplementary>>,
    /// True in a user namespace of its own: there the ids are others than those that the recorder
    /// saw, and known only from the thread's own calls.
    elsewhere: bool,
}

#[derive(Debug)]
struct Supplementary {
    groups: Vec<u32>,
    _held: Held,
}

impl Supplementary {
    fn new(groups: Vec<u32>, budget: &Budget) -> Rc<Supplementary> {
        let _held = budget.hold(size_of_val(&groups[..]));
        Rc::new(Supplementary { groups, _held })
    }
}

/// A change of a thread's credentials.
#[derive(Debug)]
pub(crate) enum CredentialsChange {
    /// Changes one set of ids.
    Ids(Ids, IdChange),
    /// Sets the supplementary groups; `None` if the trace does not have them.
    Groups(Option<Vec<u32>>),
    /// The thread enters another user namespace.
    Elsewhere,
}

/// A change of a set of ids, or what a call says about them. `None` leaves an id as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum IdChange {
    /// See [`syscalls::Act::TakeId`].
    Take(u32),
    /// Sets ids; the saved one follows.
    Set { real: Option<u32>, effective: Option<u32> },
    /// Sets ids.
    SetEach { real: Option<u32>, effective: Option<u32>, saved: Option<u32> },
    /// Sets the id for access to files, if that is allowed; also has the former one.
    File { id: Option<u32>, former: u32 },
    /// Says what they are.
    Told { real: Option<u32>, effective: Option<u32>, saved: Option<u32> },
}

/// Returns an id that a call sets, if it sets one.
pub(crate) fn given(id: u64) -> Option<u32> {
    Some(id as u32).filter(|id| *id != NONE)
}

impl IdSet {
    /// Returns the ids of a recorded state: real, effective, saved, for access to files.
    fn of(ids: [u32; 4]) -> IdSet {
        let [real, effective, saved, file] = ids.map(|id| given(id.into()));
        IdSet { real, effective, saved, file }
    }

    /// Returns the ids as a state has them, if all are known.
    fn all(&self) -> Option<[u32; 4]> {
        Some([self.real?, self.effective?, self.saved?, self.file?])
    }

    /// An exec copies the effective id.
    fn exec(&mut self) {
        (self.saved, self.file) = (self.effective, self.effective);
    }

    fn become_effective(&mut self, id: u32) {
        (self.effective, self.file) = (Some(id), Some(id));
    }

    /// Makes a change. `is_root` says whether the thread may take any id.
    fn change(&mut self, change: IdChange, is_root: Option<bool>) {
        let before = *self;
        match change {
            IdChange::Take(id) => {
                // Without the right, only the real and the saved id can be taken.
                let needs_right = before.real.is_some_and(|real| real != id)
                    && before.saved.is_some_and(|saved| saved != id);
                self.become_effective(id);
                if needs_right || is_root == Some(true) {
                    (self.real, self.saved) = (Some(id), Some(id));
                } else if is_root.is_none() {
                    self.real = before.real.filter(|real| *real == id);
                    self.saved = before.saved.filter(|saved| *saved == id);
                }
            }
            IdChange::Set { real, effective } => {
                self.real = real.or(before.real);
                self.effective = effective.or(before.effective);
                let differs = effective.map(|id| before.real.map(|real| real != id));
                self.saved = match (real, differs) {
                    (Some(_), _) | (None, Some(Some(true))) => self.effective,
                    (None, None | Some(Some(false))) => before.saved,
                    (None, Some(None)) => before.saved.filter(|id| Some(*id) == self.effective),
                };
                self.file = self.effective;
            }
            IdChange::SetEach { real, effective, saved } => {
                self.real = real.or(before.real);
                self.effective = effective.or(before.effective);
                self.saved = saved.or(before.saved);
                // Where nothing changes, newer kernels also leave the one for files.
                let may_be_idle = (self.real, self.saved) == (before.real, before.saved);
                self.file = match effective {
                    None if may_be_idle && before.file != self.effective => None,
                    _ => self.effective,
                };
            }
            IdChange::File { id, former } => {
                let own = [before.real, before.effective, before.saved, Some(former)];
                let is_allowed = is_root == Some(true) || own.contains(&id);
                self.file = id.filter(|_| is_allowed).or(given(former.into()));
            }
            IdChange::Told { real, effective, saved } => {
                self.real = real.or(before.real);
                self.effective = effective.or(before.effective);
                self.saved = saved.or(before.saved);
            }
        }
    }
}

impl Credentials {
    /// Returns true in a user namespace of its own, where ids are others than those that the recorder
    /// saw.
    pub fn is_elsewhere(&self) -> bool {
        self.elsewhere
    }

    /// Returns the supplementary groups, once known.
    pub fn supplementary(&self) -> Option<&[u32]> {
        self.supplementary.as_ref().map(|known| &known.groups[..])
    }

    /// Returns user and group ids as a state has them (real, effective, saved, for access to files),
    /// if all are known.
    pub fn of_state(&self) -> Option<[[u32; 4]; 2]> {
        Some([self.users.all()?, self.groups.all()?])
    }

    /// Returns the ids that a recorded state has.
    pub(super) fn told(state: &ProcessState, budget: &Budget) -> Rc<Credentials> {
        Rc::new(Credentials {
            users: IdSet::of(state.uids),
            groups: IdSet::of(state.gids),
            supplementary: Some(Supplementary::new(state.groups.clone(), budget)),
            elsewhere: false,
        })
    }

    /// Makes a change.
    pub(super) fn change(this: &mut Rc<Credentials>, change: CredentialsChange, budget: &Budget) {
        match change {
            CredentialsChange::Ids(of, change) => Rc::make_mut(this).change_ids(of, change),
            CredentialsChange::Groups(groups) => {
                let groups = groups.filter(|_| budget.has_room());
                Rc::make_mut(this).supplementary =
                    groups.map(|groups| Supplementary::new(groups, budget));
            }
            CredentialsChange::Elsewhere => *this = Credentials::elsewhere(),
        }
    }

    /// Returns what is known in a new user namespace: nothing, as the ids there are other ones.
    pub(super) fn elsewhere() -> Rc<Credentials> {
        Rc::new(Credentials { elsewhere: true, ..Credentials::default() })
    }

    fn change_ids(&mut self, of: Ids, change: IdChange) {
        let is_root = self.users.effective.map(|user| user == ROOT);
        let ids = match of {
            Ids::User => &mut self.users,
            Ids::Group => &mut self.groups,
        };
        ids.change(change, is_root);
    }

    /// Does what an exec does, unless the program has a set-id bit: then a state follows.
    pub(super) fn exec(credentials: &mut Rc<Credentials>) {
        let (mut users, mut groups) = (credentials.users, credentials.groups);
        users.exec();
        groups.exec();
        if (users, groups) != (credentials.users, credentials.groups) {
            let changed = Rc::make_mut(credentials);
            (changed.users, changed.groups) = (users, groups);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(real: u32, effective: u32, saved: u32, file: u32) -> IdSet {
        IdSet::of([real, effective, saved, file])
    }

    #[track_caller]
    fn check(before: IdSet, change: IdChange, is_root: Option<bool>, after: IdSet) {
        let mut now = before;
        now.change(change, is_root);
        assert_eq!(now, after);
    }

    #[test]
    fn root_takes_an_id_for_good() {
        check(ids(0, 0, 0, 0), IdChange::Take(7), Some(true), ids(7, 7, 7, 7));
        // A set-id program of another user that gives up root.
        check(ids(7, 0, 0, 0), IdChange::Take(7), Some(true), ids(7, 7, 7, 7));
    }

    #[test]
    fn others_take_their_own_ids_as_the_effective_one() {
        check(ids(7, 8, 8, 8), IdChange::Take(7), Some(false), ids(7, 7, 8, 7));
        check(ids(7, 7, 8, 7), IdChange::Take(8), Some(false), ids(7, 8, 8, 8));
    }

    #[test]
    fn who_took_a_foreign_id_had_the_right() {
        check(ids(7, 7, 7, 7), IdChange::Take(9), Some(false), ids(9, 9, 9, 9));
        check(ids(7, 7, 7, 7), IdChange::Take(9), None, ids(9, 9, 9, 9));
    }

    #[test]
    fn where_the_right_is_unknown_so_is_what_depends_on_it() {
        let after = IdSet { real: Some(7), effective: Some(7), saved: None, file: Some(7) };
        check(ids(7, NONE, 8, NONE), IdChange::Take(7), None, after);
        let after = IdSet { effective: Some(7), file: Some(7), ..IdSet::default() };
        check(IdSet::default(), IdChange::Take(7), None, after);
    }

    #[test]
    fn the_saved_id_follows_in_pairs() {
        let set = |real, effective| IdChange::Set { real, effective };
        check(ids(7, 8, 8, 8), set(Some(8), Some(7)), None, ids(8, 7, 7, 7));
        check(ids(7, 7, 8, 7), set(None, Some(8)), None, ids(7, 8, 8, 8));
        // The effective id becomes the real one: the saved one stays.
        check(ids(7, 8, 8, 8), set(None, Some(7)), None, ids(7, 7, 8, 7));
        check(ids(7, 8, 9, 8), set(Some(7), None), None, ids(7, 8, 8, 8));
        check(ids(7, 8, 9, 3), set(None, None), None, ids(7, 8, 9, 8));
        // The real id is unknown.
        check(ids(NONE, 8, 9, 8), set(None, Some(7)), None, ids(NONE, 7, NONE, 7));
        check(ids(NONE, 8, 7, 8), set(None, Some(7)), None, ids(NONE, 7, 7, 7));
    }

    #[test]
    fn each_id_can_be_set() {
        let set = |real, effective, saved| IdChange::SetEach { real, effective, saved };
        check(ids(0, 0, 0, 0), set(None, Some(7), None), None, ids(0, 7, 0, 7));
        check(ids(0, 7, 0, 7), set(Some(1), Some(2), Some(3)), None, ids(1, 2, 3, 2));
        check(ids(0, 7, 0, 9), set(None, None, Some(5)), None, ids(0, 7, 5, 7));
        // Kernels differ where nothing changes.
        check(ids(0, 7, 0, 9), set(None, None, None), None, ids(0, 7, 0, NONE));
        check(ids(0, 7, 0, 7), set(None, None, None), None, ids(0, 7, 0, 7));
    }

    #[test]
    fn the_id_for_files_is_set_alone() {
        let set = |id, former| IdChange::File { id, former };
        check(ids(0, 0, 0, 0), set(Some(7), 0), Some(true), ids(0, 0, 0, 7));
        check(ids(7, 8, 9, 8), set(Some(9), 8), Some(false), ids(7, 8, 9, 9));
        // Refused, without an error.
        check(ids(7, 8, 9, 8), set(Some(1), 8), Some(false), ids(7, 8, 9, 8));
        // Only asked.
        check(ids(7, 8, 9, NONE), set(None, 5), None, ids(7, 8, 9, 5));
    }

    #[test]
    fn an_exec_copies_the_effective_id() {
        let mut now = ids(7, 8, 9, 3);
        now.exec();
        assert_eq!(now, ids(7, 8, 8, 8));
    }
}
