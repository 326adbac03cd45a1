//! Messages between the jail and the command during setup: a few, on a stream.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use super::{JailError, Protection};

/// A message.
#[derive(Debug, PartialEq, Eq)]
pub enum Word {
    /// The keeper has a new user namespace; its ids are to be mapped from outside.
    MapIds,
    /// The ids are mapped.
    Mapped,
    /// The inmate starts the body. These paths were created as mount points.
    Ready(Protection, Vec<String>),
    /// The setup failed.
    Failed(JailError),
}

/// Longest message, far above what is ever sent.
const LEN_MAX: usize = 1 << 20;

impl Word {
    /// Sends the message.
    pub fn say(&self, to: &mut UnixStream) -> io::Result<()> {
        let fields = match self {
            Word::MapIds => vec!["map".into()],
            Word::Mapped => vec!["mapped".into()],
            Word::Ready(protection, made) => {
                let user = protection.user_namespace.to_string();
                let landlock = protection.landlock.unwrap_or(0).to_string();
                let filter = protection.filter.to_string();
                [vec!["ready".into(), user, landlock, filter], made.clone()].concat()
            }
            Word::Failed(error) => {
                vec!["failed".into(), error.what.clone(), error.remedy.clone()]
            }
        };
        let text = fields.join("\0");
        to.write_all(&(text.len() as u32).to_le_bytes())?;
        to.write_all(text.as_bytes())
    }

    /// Receives a message.
    pub fn hear(from: &mut UnixStream) -> io::Result<Word> {
        let mut len = [0; 4];
        from.read_exact(&mut len)?;
        let len = u32::from_le_bytes(len) as usize;
        let nonsense = || io::Error::other("a message that makes no sense");
        if len > LEN_MAX {
            return Err(nonsense());
        }
        let mut text = vec![0; len];
        from.read_exact(&mut text)?;
        let text = String::from_utf8(text).map_err(|_| nonsense())?;
        let fields: Vec<&str> = text.split('\0').collect();
        match fields[..] {
            ["map"] => Ok(Word::MapIds),
            ["mapped"] => Ok(Word::Mapped),
            ["ready", user, landlock, filter, ref made @ ..] => {
                let landlock: u32 = landlock.parse().map_err(|_| nonsense())?;
                let landlock = (landlock > 0).then_some(landlock);
                let (user_namespace, filter) = (user == "true", filter == "true");
                let protection = Protection { user_namespace, landlock, filter };
                Ok(Word::Ready(protection, made.iter().map(|path| path.to_string()).collect()))
            }
            ["failed", what, remedy] => {
                Ok(Word::Failed(JailError { what: what.into(), remedy: remedy.into() }))
            }
            _ => Err(nonsense()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_arrive_as_they_were_said() {
        let protection = Protection { user_namespace: true, landlock: Some(6), filter: true };
        let failed = JailError { what: "no".into(), remedy: "yes".into() };
        let (mut one, mut other) = UnixStream::pair().unwrap();
        for word in [
            Word::MapIds,
            Word::Mapped,
            Word::Ready(protection, vec!["/dev".into(), "/dev/null".into()]),
            Word::Ready(Protection::default(), vec![]),
            Word::Failed(failed),
        ] {
            word.say(&mut one).unwrap();
            assert_eq!(Word::hear(&mut other).unwrap(), word);
        }
        drop(one);
        assert!(Word::hear(&mut other).is_err());
    }
}
