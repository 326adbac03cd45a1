//! Targets of the attempts: a file, a directory, sockets, a process and a key, all made here.

use std::ffi::CString;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use replay::jail::{self, Bind, Directory, Inmate, Jail, JailError, Options};

/// Contents of the secret file.
pub const SECRET: &str = "nobody inside may read this";

/// The surroundings of the jail.
pub struct Outside {
    pub dir: PathBuf,
    pub root: PathBuf,
    pub shared: PathBuf,
    pub secret: PathBuf,
    /// Open here, and therefore in the first process of the jail.
    pub dir_fd: File,
    pub secret_path_fd: RawFd,
    pub abstract_name: String,
    pub tcp: SocketAddr,
    _tcp: TcpListener,
    pub key: i64,
    pub shm: i32,
    victim: Child,
    _listeners: [UnixListener; 2],
}

impl Outside {
    pub fn new(dir: &Path) -> Outside {
        let path = |name: &str| dir.join(name);
        for name in ["root", "shared", "precious"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        std::fs::write(path("secret"), SECRET).unwrap();
        std::fs::write(path("precious/null"), "").unwrap();
        std::fs::write(path("shared/there"), "shared").unwrap();
        symlink(path("secret"), path("root/absolute-link")).unwrap();
        symlink("../secret", path("root/relative-link")).unwrap();
        symlink("/proc/self/root", path("root/proc-link")).unwrap();
        symlink("..", path("shared/up")).unwrap();
        let secret = CString::new(path("secret").as_os_str().as_bytes()).unwrap();
        // SAFETY: the path is NUL-terminated.
        let secret_path_fd = unsafe { libc::open(secret.as_ptr(), libc::O_PATH) };
        assert!(secret_path_fd >= 0);
        let abstract_name = format!("reenact-jail-{}", std::process::id());
        let address = UnixAddr::from_abstract_name(&abstract_name).unwrap();
        let listeners = [
            UnixListener::bind_addr(&address).unwrap(),
            UnixListener::bind(path("socket")).unwrap(),
        ];
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        // The process reads from a pipe of ours, so that it ends with us.
        let victim =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        Outside {
            root: path("root"),
            shared: path("shared"),
            secret: path("secret"),
            dir_fd: File::open(dir).unwrap(),
            secret_path_fd,
            abstract_name,
            tcp: tcp.local_addr().unwrap(),
            _tcp: tcp,
            key: add_key(),
            // SAFETY: shmget takes plain numbers.
            shm: unsafe { libc::shmget(shm_key(), 4096, libc::IPC_CREAT | 0o600) },
            dir: dir.to_path_buf(),
            victim,
            _listeners: listeners,
        }
    }

    /// Makes a jail over the root, with the shared directory bound.
    pub fn jail(&self, body: impl FnOnce(Jail) -> u8) -> Result<Inmate, JailError> {
        self.jail_with(true, body)
    }

    /// Makes the same jail, with or without the filter of calls.
    pub fn jail_with(
        &self,
        filter: bool,
        body: impl FnOnce(Jail) -> u8,
    ) -> Result<Inmate, JailError> {
        let directory = Directory::open(&self.shared)?;
        let binds = [Bind { directory, inside: "/mnt/shared".into() }];
        let root = Directory::open(&self.root)?;
        let options =
            Options { root: &root, binds: &binds, identity: None, readable: None, filter };
        jail::spawn(&options, body)
    }

    /// Returns the id of a process outside.
    pub fn victim(&self) -> i32 {
        self.victim.id() as i32
    }

    /// Returns a descriptor from outside that the jail's first process has.
    pub fn leaked(&self) -> RawFd {
        self.dir_fd.as_raw_fd()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        // SAFETY: only removes the segment made here.
        unsafe { libc::shmctl(self.shm, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

/// Returns the key of the shared memory segment.
pub fn shm_key() -> i32 {
    0x5245_0000 | (std::process::id() as i32 & 0xffff)
}

/// Adds a key to a new session keyring; negative if the kernel has no keys.
fn add_key() -> i64 {
    // SAFETY: strings are NUL-terminated, and the payload is as long as stated.
    unsafe {
        libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, 0);
        let name = c"reenact-jail";
        let session = libc::KEY_SPEC_SESSION_KEYRING;
        let (kind, payload) = (c"user".as_ptr(), SECRET.as_ptr());
        libc::syscall(libc::SYS_add_key, kind, name.as_ptr(), payload, SECRET.len(), session)
    }
}
